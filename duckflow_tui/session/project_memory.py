"""The memory of a project: a Markdown file of the user's, and the counts beside it (S4-9)."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from duckflow_tui.prompting.layers import LongMemory
from duckflow_tui.safety.disk import Disk
from duckflow_tui.session.memory_file import SmallFiles
from duckflow_tui.session.memory_text import (
    MemoryWords,
    decoded,
    encoded,
    fresh,
    memory_lines,
    readable,
    with_line,
    without_line,
)
from duckflow_tui.state.base import digest
from duckflow_tui.state.clock import Clock
from duckflow_tui.tools.memory import (
    MemoryFault,
    MemoryKind,
    MemoryLine,
    check_words,
    same,
)

LARGEST: Final = 64 * 1024  # bytes of the notes
_COUNTS: Final = ("total_files", "successful_operations", "total_conversations")
_MOST: Final = 10**12  # of a count
_NAME: Final = 40  # characters of the folder's name
_IN_PROMPT: Final = 5  # lines of a kind

_T = TypeVar("_T")


class ProjectMemory:
    """One for a session. A project is its folder's real path; ``redact`` takes secrets out."""

    def __init__(
        self,
        folder: Path,
        workspace: Path,
        words: MemoryWords,
        clock: Clock,
        redact: Callable[[str], str],
        *,
        already: Mapping[str, int] | None = None,
        disk: Disk | None = None,
    ) -> None:
        """``already`` are the counts that a resumed session brings with it: the totals hold them,
        and prompts count the session by itself.
        """
        real = os.path.realpath(workspace)
        shown = re.sub(r"[^\w.-]+", "-", Path(real).name).strip("-.")[:_NAME] or "project"
        self._name = f"{shown}-{digest(os.fsencode(real))[:12]}"
        self._path = folder / f"{self._name}.md"
        self._files = SmallFiles(folder, disk)
        self._words = words
        self._clock = clock
        self._redact = redact
        self._already = already or {}
        self._changing = asyncio.Lock()
        self.known = LongMemory()  # what prompts are told; read at start and after each change

    @property
    def path(self) -> str:
        """The file of the notes; it need not be there."""
        return str(self._path)

    def load(self) -> None:
        """Read notes and counts for the prompts; what cannot be read is not told."""
        try:
            raw = self._files.read(self._path.name, LARGEST)
        except OSError:
            raw = None
        text = "" if raw is None or b"\0" in raw else decoded(raw[:LARGEST])
        self.known = self._known_from(text)

    async def lines(self) -> tuple[MemoryLine, ...]:
        """Every line of the file, also those of the user's own sections. Raises MemoryFault."""
        return memory_lines(await self._text(), self._words)

    async def text(self) -> str:
        """The file as it can be shown, empty without one. Raises MemoryFault."""
        return readable(await self._text())

    def redacted(self, text: str) -> str:
        """The text without known secrets: the user may have written some by hand."""
        return self._redact(text)

    async def check(self, text: str) -> None:
        """Raise MemoryFault for what may not, or need not, be noted."""
        self._check(text, await self._text())

    async def remember(self, text: str, kind: MemoryKind) -> None:
        """Note a line under today's date; what else the file holds stays byte for byte."""
        said = " ".join(text.split())

        def change(old: str) -> str:
            self._check(text, old)
            return with_line(old, kind, said, self._today(), self._words)

        await self._change(change)

    async def forget(self, line: MemoryLine) -> None:
        """Take a line out, as it was shown; another one is never taken. Raises MemoryFault."""

        def change(old: str) -> str:
            new = without_line(old, line)
            if new is None:
                raise MemoryFault("gone")
            return new

        await self._change(change)

    async def begin(self) -> None:
        """Make the file where there is none yet, so that it can be edited."""
        await self._change(lambda old: old if old.strip() else fresh(self._words))

    async def reread(self) -> None:
        """The user may have edited it: tell prompts what it says now."""
        await asyncio.to_thread(self.load)

    async def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add what a session did to the totals; a disk that refuses costs only the counts."""
        if any(counts.values()):
            await asyncio.to_thread(self._add_counts, counts)

    # --- the notes ---------------------------------------------------------------------------

    def _check(self, text: str, notes: str) -> None:
        check_words(text)
        if self._redact(text) != text:
            raise MemoryFault("secret")
        if any(same(line.text, text) for line in memory_lines(notes, self._words)):
            raise MemoryFault("known")

    async def _text(self) -> str:
        return await self._tried(lambda: self._whole(self._files.read(self._path.name, LARGEST)))

    async def _change(self, change: Callable[[str], str]) -> None:
        async with self._changing:
            await self._tried(lambda: self._changed(change))

    def _changed(self, change: Callable[[str], str]) -> None:
        with self._files.changing() as folder:
            raw = self._files.read_within(folder, self._path.name, LARGEST)
            new = encoded(change(self._whole(raw)))
            if len(new) > LARGEST:
                raise MemoryFault("full")
            if new != raw:
                self._files.replace(folder, self._path.name, new)
        self.load()

    async def _tried(self, work: Callable[[], _T]) -> _T:
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            raise MemoryFault("disk", error.strerror or str(error)) from error

    def _whole(self, raw: bytes | None) -> str:
        if raw is None:
            return ""
        if len(raw) > LARGEST:
            raise MemoryFault("full")
        if b"\0" in raw:  # UTF-16, or no text at all
            raise MemoryFault("not_text")
        return decoded(raw)

    def _known_from(self, text: str) -> LongMemory:
        """The newest lines first; what an earlier session did is marked with how it ended."""
        lines = sorted(
            (line for line in memory_lines(text, self._words) if line.kind is not None),
            key=lambda line: (line.on, line.number),
            reverse=True,
        )
        wishes = [line.text for line in lines if line.kind == "preference"]
        learned = [f"{line.kind}: {line.text}" for line in lines if line.kind != "preference"]
        totals = self._counts()
        counts = {key: max(totals[key] - self._already.get(key, 0), 0) for key in _COUNTS}
        return LongMemory(
            total_files=counts["total_files"],
            successful_operations=counts["successful_operations"],
            total_conversations=counts["total_conversations"],
            user_settings=tuple(map(self._redact, wishes[:_IN_PROMPT])),
            learned_patterns=tuple(map(self._redact, learned[:_IN_PROMPT])),
        )

    def _today(self) -> str:
        return datetime.fromtimestamp(self._clock.now()).strftime("%Y-%m-%d")

    # --- the counts --------------------------------------------------------------------------

    @property
    def _counts_name(self) -> str:
        return f"{self._name}.json"

    def _counts(self) -> dict[str, int]:
        try:
            return _numbers(self._files.read(self._counts_name, LARGEST))
        except OSError:
            return _numbers(None)

    def _add_counts(self, counts: Mapping[str, int]) -> None:
        try:
            with self._files.changing() as folder:
                old = _numbers(self._files.read_within(folder, self._counts_name, LARGEST))
                new = {key: min(old[key] + counts.get(key, 0), _MOST) for key in _COUNTS}
                self._files.replace(folder, self._counts_name, json.dumps(new).encode())
        except OSError:
            return


def _numbers(raw: bytes | None) -> dict[str, int]:
    """The counts of a file; what is no count is 0."""
    try:
        data: object = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        data = {}
    table = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    found = {key: table.get(key) for key in _COUNTS}
    return {
        key: value if type(value) is int and 0 <= value <= _MOST else 0
        for key, value in found.items()
    }
