"""The completions above the composer: files and server resources for ``@``, commands and server
prompts for ``/``, keys for ``?``. The list never has the focus.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.commands import find_by_prefix
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.file_names import FileNames
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine

SHOWN: Final = 10  # rows at most
FILES: Final = 50  # files that are listed at most
_FILE: Final = re.compile(r"(?:^|(?<=\s))@([^\s@]*)$")
_COMMAND: Final = re.compile(r"/([A-Za-z]*|[A-Za-z0-9_-]+:[^\s/]*)$")
#: Actions of the keys that ``?`` alone lists, the most used first.
_DAILY_KEYS: Final = (
    "newline",
    "pick_file",
    "commands",
    "own_command",
    "history",
    "screen.escape",
    "screen.interrupt",
    "cycle_mode",
    "command_palette",
    "keys",
)


@dataclass(frozen=True, slots=True)
class Token:
    """The word before the cursor: the characters from ``start`` to the cursor on its line."""

    kind: Literal["file", "command", "keys"]
    query: str
    start: int


def token_at(line: str, column: int, *, first_line: bool) -> Token | None:
    """Return the token before the cursor; None where nothing can be completed."""
    before = line[:column]
    if first_line and (command := _COMMAND.fullmatch(before)):
        return Token("command", command.group(1), 0)
    if first_line and line in ("?", "？") and before:
        return Token("keys", "", 0)
    file = _FILE.search(before)
    if file is None:
        return None
    return Token("file", file.group(1), file.start())


@dataclass(frozen=True, slots=True)
class Candidate:
    """One completion: the text to insert, and its explanation."""

    value: str
    about: str = ""
    is_open: bool = False  # more has to be written behind it


class CompletionList(Rows):
    """The list of completions; hidden while it is empty."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._names: tuple[Engine, FileNames] | None = None  # of whose workspace
        self.candidates: tuple[Candidate, ...] = ()
        self._at = 0

    @property
    def is_open(self) -> bool:
        """Whether the list has rows."""
        return bool(self.candidates)

    @property
    def chosen_candidate(self) -> Candidate | None:
        """The row that Tab inserts."""
        return self.candidates[self._at] if self.candidates else None

    def show_candidates(self, candidates: tuple[Candidate, ...]) -> None:
        """Show these rows and choose the first."""
        self.candidates, self._at = candidates, 0
        self.set_class(bool(candidates), "-open")
        self.invalidate(layout=True)

    async def complete(self, token: Token) -> None:
        """Fill the list for this token; may take a while and be cancelled."""
        if token.kind == "command":
            commands = find_by_prefix(token.query)
            own = tuple(Candidate(f"/{name}", self.words(c.text)) for name, c in commands)
            self.show_candidates((*own, *self._list_prompts(token.query)))
            return
        if token.kind == "keys":
            keys = {key.action: key for key in keys_of("composer", "anywhere")}
            daily = [keys[action] for action in _DAILY_KEYS]
            named = [(key.label.partition(" · ")[0], self.words(key.text)) for key in daily]
            self.show_candidates(tuple(Candidate(label, about) for label, about in named))
            return
        engine = host_of(self).session.engine
        if engine is None:
            return
        resources = self._list_resources(token.query)
        if resources and ":" in token.query:
            self.show_candidates(resources)
            return
        whose, names = self._names or (None, None)
        if names is None or whose is not engine or (names.complete and not self.is_open):
            names = FileNames(engine.workspace_files())
            self._names = engine, names
            self.run_worker(names.read, group="names", exclusive=True, exit_on_error=False)
        async for found in names.matches(token.query, FILES):
            self.show_candidates((*resources, *(Candidate(path) for path in found)))

    def _list_prompts(self, query: str) -> tuple[Candidate, ...]:
        """Return server prompts whose names start with the query."""
        store = host_of(self).session.store
        return tuple(
            Candidate(f"/{server.name}:{prompt.name}", prompt.about, bool(prompt.required))
            for server in (store.state.servers if store is not None else ())
            for prompt in server.prompts
            if f"{server.name}:{prompt.name}".startswith(query)
        )

    def _list_resources(self, query: str) -> tuple[Candidate, ...]:
        """Return servers with resources whose names start with the query; after ``server:``, its
        resources that contain the rest in address or description.
        """
        store = host_of(self).session.store
        servers = [s for s in (store.state.servers if store is not None else ()) if s.resources]
        named, colon, rest = query.partition(":")
        if not colon:
            return tuple(
                Candidate(f"{s.name}:", self.words("mcp.resources", count=len(s.resources)), True)
                for s in servers
                if query and s.name.startswith(query)
            )
        return tuple(
            Candidate(f"{named}:{resource.uri}", resource.about, resource.is_template)
            for server in servers
            if server.name == named
            for resource in server.resources
            if rest.lower() in f"{resource.uri} {resource.about}".lower()
        )

    def close(self) -> None:
        """Hide the list."""
        if self.candidates:
            self.show_candidates(())

    def move(self, step: int) -> None:
        """Choose another row; a single step wraps around, longer ones stop at the ends."""
        if self.candidates:
            last = len(self.candidates) - 1
            at = self._at + step
            self._at = at % (last + 1) if abs(step) == 1 else min(max(at, 0), last)
            self.invalidate(layout=True)

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        names = min(max((cell_len(c.value) for c in self.candidates), default=0), width - 4)
        rows: list[Row] = []
        first = max(0, min(self._at - SHOWN + 1, len(self.candidates) - SHOWN))
        for number, candidate in enumerate(self.candidates[first : first + SHOWN], first):
            here = number == self._at
            about = fit(candidate.about, max(0, width - names - 6)) if candidate.about else ""
            on = palette.bars if here else palette.raised
            value = fit(visible_line(candidate.value), max(4, width - 4), keep="end")
            mark = "› " if here else "  "
            row = [
                Segment(f" {mark}", ink(palette.accent, on=on)),
                Segment(
                    pad(value, names),
                    ink(palette.text, on=on, bold=here),
                ),
                Segment(f"   {about}" if about else "", ink(palette.quiet, on=on)),
            ]
            used = sum(cell_len(segment.text) for segment in row)
            rows.append([*row, Segment(" " * max(0, width - used), ink(None, on=on))])
        if len(self.candidates) > SHOWN:
            place = self.words("list.place", at=self._at + 1, total=len(self.candidates))
            rows.append([Segment(fit(f"   {place} · PgUp PgDn", width), ink(palette.quiet))])
        return rows
