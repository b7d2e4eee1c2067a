"""The file of learned quirks, shared by all programs of one user."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from duckflow_tui.llm.connections import changing, write_private
from duckflow_tui.llm.exchange import Target
from duckflow_tui.llm.quirks import Learned, Lesson


class LearnedModels:
    """The refusals of each model at its origin, kept in a file for a week: servers are renewed.
    ``models`` are by origin and model. ``on_lesson`` hears of a lesson, and of whom it is.
    """

    def __init__(
        self,
        path: Path | None = None,
        now: float = 0.0,
        on_lesson: Callable[[Lesson, Target], None] = lambda lesson, target: None,
    ) -> None:
        """Reads the file; without a ``path`` nothing is kept. ``now``: seconds since the epoch."""
        self._path = path
        self._on_lesson = on_lesson
        self.models: defaultdict[str, Learned] = defaultdict(Learned)
        self.models.update(self._kept(now))

    def keep(self, lesson: Lesson, target: Target, now: float) -> None:
        """Write down what was learned just now, unless it only looks so: failures without a reason
        count in this session. A disk that fails costs the memory of it.
        """
        self._on_lesson(lesson, target)
        if lesson == "failing":
            return
        name = self.name_of(target)
        known = self.models[name]
        known.at = known.at or now
        self._write(lambda kept: kept.update({name: known}), now)

    def _kept(self, now: float) -> dict[str, Learned]:
        """Read the file, leaving out entries older than a week."""
        known: dict[str, Learned] = {}
        if self._path is not None:
            with suppress(OSError, ValidationError):
                data = self._path.read_bytes()
                known = _LEARNED.validate_json(data) if len(data) <= _MOST_LEARNED else {}
        return {name: entry for name, entry in known.items() if now - entry.at < LEARNED_FOR}

    def _write(self, change: Callable[[dict[str, Learned]], object], now: float) -> None:
        """Change the file, and nothing in it of what another program of ours has learned."""
        if self._path is None:
            return
        with suppress(OSError), changing(self._path.parent, LEARNED_LOCK_S):
            change(kept := self._kept(now))
            if kept:
                write_private(self._path, _LEARNED.dump_json(kept, indent=1, exclude=_OF_NOW))
            else:
                self._path.unlink(missing_ok=True)

    @staticmethod
    def name_of(target: Target) -> str:
        """The key of a model in ``models``."""
        return f"{target.endpoint.origin} {target.model}"

    def forget(self, target: Target | None = None) -> None:
        """Nothing is known of this model, or of any; the file says so too."""
        if target is None:
            self.models.clear()
            self._write(lambda kept: kept.clear(), 0.0)
        else:
            name = self.name_of(target)
            self.models.pop(name, None)
            self._write(lambda kept: kept.pop(name, None), 0.0)


_LEARNED: Final = TypeAdapter(dict[str, Learned])
_OF_NOW: Final = {"__all__": {"whole", "native"}}  # what is not kept for the next session
_MOST_LEARNED: Final = 1024 * 1024  # bytes
LEARNED_LOCK_S: Final = 0.5  # seconds that the work stands while another program writes
LEARNED_FOR: Final = 7 * 24 * 3600.0  # seconds
