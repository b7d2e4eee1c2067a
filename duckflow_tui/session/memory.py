"""The memory of a project across sessions: notes in a Markdown file that the user may edit, and
counts in a file beside it (S4-9).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

from duckflow_tui.places import lock_folder, write_private
from duckflow_tui.prompting.layers import LongMemory
from duckflow_tui.session.folders import read_private
from duckflow_tui.state.base import Clock, hash_data
from duckflow_tui.tools.memory import (
    MemoryFault,
    MemoryKind,
    MemoryLine,
    are_same_words,
    check_words,
)

LARGEST: Final = 64 * 1024  # bytes of the notes
_COUNTS: Final = ("total_files", "successful_operations", "total_conversations")
_MOST: Final = 10**12  # highest count
_NAME: Final = 40  # characters of the folder's name
_IN_PROMPT: Final = 5  # lines of preferences, and of lessons

_T = TypeVar("_T")


class ProjectMemory:
    """The memory of one project, identified by its folder's real path. ``redact`` removes
    secrets.
    """

    def __init__(
        self,
        folder: Path,
        workspace: Path,
        words: MemoryWords,
        clock: Clock,
        redact: Callable[[str], str],
        *,
        already: Mapping[str, int] | None = None,
    ) -> None:
        """``already``: the counts of a resumed session, which prompts state separately; they are
        subtracted from the totals.
        """
        real = os.path.realpath(workspace)
        shown = re.sub(r"[^\w.-]+", "-", Path(real).name).strip("-.")[:_NAME] or "project"
        name = f"{shown}-{hash_data(os.fsencode(real))[:12]}"
        self._path = folder / f"{name}.md"
        self._counts_path = folder / f"{name}.json"
        self._words = words
        self._clock = clock
        self.redacted = redact  # the user may have written a secret by hand
        self._already = already or {}
        self._changing = asyncio.Lock()
        self.known = LongMemory()  # the memory for prompts; loaded at start and after changes

    @property
    def path(self) -> str:
        """The file of the notes; it need not exist."""
        return str(self._path)

    def load(self) -> None:
        """Read notes and counts into ``known`` for the prompts; unreadable ones count as empty.
        Blocking.
        """
        try:
            raw = read_private(self._path, LARGEST)
        except OSError:
            raw = None
        text = "" if raw is None or b"\0" in raw else decode_notes(raw[:LARGEST])
        self.known = self._make_long_memory(text)

    async def list_lines(self) -> tuple[MemoryLine, ...]:
        """Return every line of the notes, also those in sections of the user's own. Raises
        MemoryFault.
        """
        return memory_lines(await self._read_text(), self._words)

    async def check(self, text: str) -> None:
        """Raise MemoryFault for a note that is too long, holds a secret, or exists already."""
        self._check_note(text, await self._read_text())

    async def remember(self, text: str, kind: MemoryKind) -> None:
        """Add a note with today's date to the section of its kind; all else in the file stays
        unchanged. Raises MemoryFault.
        """
        said = " ".join(text.split())

        def add_to_text(old: str) -> str:
            self._check_note(text, old)
            today = f"{datetime.fromtimestamp(self._clock.now()):%Y-%m-%d}"
            return insert_line(old, kind, said, today, self._words)

        await self._change_file(add_to_text)

    async def forget(self, line: MemoryLine) -> None:
        """Remove a line that ``list_lines`` returned. Raises MemoryFault, also where it is gone."""

        def remove_from_text(old: str) -> str:
            new = remove_line(old, line)
            if new is None:
                raise MemoryFault("gone")
            return new

        await self._change_file(remove_from_text)

    async def create_file(self) -> None:
        """Create the file where it is missing or blank, so that the user can edit it. Raises
        MemoryFault.
        """
        await self._change_file(lambda old: old if old.strip() else make_new_file(self._words))

    async def reread(self) -> None:
        """Read the file again after the user may have edited it."""
        await asyncio.to_thread(self.load)

    async def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add a session's counts to the totals on disk; errors are ignored."""
        if any(counts.values()):
            await asyncio.to_thread(self._add_counts, counts)

    # --- the notes ---------------------------------------------------------------------------

    def _check_note(self, text: str, notes: str) -> None:
        """Raise MemoryFault for a note that is too long, holds a secret, or is there already."""
        check_words(text)
        if self.redacted(text) != text:
            raise MemoryFault("secret")
        if any(are_same_words(line.text, text) for line in memory_lines(notes, self._words)):
            raise MemoryFault("known")

    async def _read_text(self) -> str:
        """Return the text of the notes. Raises MemoryFault."""
        return await self._run_blocking(
            lambda: self._decode_whole(read_private(self._path, LARGEST))
        )

    async def _change_file(self, change: Callable[[str], str]) -> None:
        """Rewrite the notes by ``change``, one change at a time. Raises MemoryFault."""
        async with self._changing:
            await self._run_blocking(lambda: self._apply_change(change))

    def _apply_change(self, change: Callable[[str], str]) -> None:
        """Rewrite the notes under a file lock and load them again. Raises MemoryFault or
        OSError.
        """
        with lock_folder(self._path.parent):
            raw = read_private(self._path, LARGEST)
            new = encode_notes(change(self._decode_whole(raw)))
            if len(new) > LARGEST:
                raise MemoryFault("full")
            if new != raw:
                write_private(self._path, new)
        self.load()

    async def _run_blocking(self, work: Callable[[], _T]) -> _T:
        """Run blocking work in a thread; an OSError becomes a MemoryFault."""
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            raise MemoryFault("disk", error.strerror or str(error)) from error

    def _decode_whole(self, raw: bytes | None) -> str:
        """Decode the complete file; empty for a missing one. Raises MemoryFault for one that is too
        large or no text.
        """
        if raw is None:
            return ""
        if len(raw) > LARGEST:
            raise MemoryFault("full")
        if b"\0" in raw:  # UTF-16, or no text at all
            raise MemoryFault("not_text")
        return decode_notes(raw)

    def _make_long_memory(self, text: str) -> LongMemory:
        """Return what prompts say of the memory: the five newest lines of each kind, and the
        totals.
        """
        noted = memory_lines(text, self._words)
        lines = sorted(
            (line for line in noted if line.kind is not None),
            key=lambda line: (line.on, line.number),
            reverse=True,
        )
        wishes = [line.text for line in lines if line.kind == "preference"]
        learned = [f"{line.kind}: {line.text}" for line in lines if line.kind != "preference"]
        totals = self._read_counts()
        return LongMemory(
            **{key: max(totals[key] - self._already.get(key, 0), 0) for key in _COUNTS},
            user_settings=tuple(map(self.redacted, wishes[:_IN_PROMPT])),
            learned_patterns=tuple(map(self.redacted, learned[:_IN_PROMPT])),
            noted=bool(noted),
        )

    # --- the counts --------------------------------------------------------------------------

    def _read_counts(self) -> dict[str, int]:
        """Return the totals on disk; zeros where they cannot be read."""
        with contextlib.suppress(OSError):
            return _parse_counts(read_private(self._counts_path, LARGEST))
        return _parse_counts(None)

    def _add_counts(self, counts: Mapping[str, int]) -> None:
        """Add to the totals on disk; errors are ignored."""
        with contextlib.suppress(OSError), lock_folder(self._counts_path.parent):
            old = _parse_counts(read_private(self._counts_path, LARGEST))
            new = {key: min(old[key] + counts.get(key, 0), _MOST) for key in _COUNTS}
            write_private(self._counts_path, json.dumps(new).encode())


def _parse_counts(raw: bytes | None) -> dict[str, int]:
    """Parse the totals; 0 for each that is missing or invalid."""
    try:
        data: object = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        data = {}
    table = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    counts: dict[str, int] = dict.fromkeys(_COUNTS, 0)
    for key in _COUNTS:
        value = table.get(key)
        if type(value) is int and 0 <= value <= _MOST:
            counts[key] = value
    return counts


KINDS: Final[tuple[MemoryKind, ...]] = ("worked", "failed", "preference")

# Each is matched at the start of a row only: the file may hold one line of 64 KB.
_HEADING: Final = re.compile(r"#{1,6}[ \t]+")
_COMMENT: Final = re.compile(r"<!--(?:.*?-->|.*)", re.DOTALL)
_BULLET: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+")
_DAY: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[ \t]*[:：]?[ \t]+")


class MemoryWords(NamedTuple):
    """Texts of a new notes file. ``known`` maps the headings of every language, in lower case, to
    their kinds.
    """

    title: str
    note: str  # how the file may be used
    headings: Mapping[MemoryKind, str]
    known: Mapping[str, MemoryKind]  # heading in lower case → kind


def decode_notes(raw: bytes) -> str:
    """Decode notes; bytes that are not UTF-8 survive as surrogates, which ``encode_notes``
    restores.
    """
    return raw.decode("utf-8", "surrogateescape")


def encode_notes(text: str) -> bytes:
    """Encode notes that ``decode_notes`` decoded."""
    return text.encode("utf-8", "surrogateescape")


def make_readable(text: str) -> str:
    """Return the text with a replacement character for each byte that was not UTF-8."""
    return encode_notes(text).decode("utf-8", "replace")


def memory_lines(text: str, words: MemoryWords) -> tuple[MemoryLine, ...]:
    """Parse the lines of the notes, without headings, blank lines and comments."""
    return tuple(_iter_notes(text.split("\n"), words))


def _iter_notes(rows: list[str], words: MemoryWords) -> Iterator[MemoryLine]:
    """Yield the notes among the file's rows, each with the kind of the heading above it."""
    kind: MemoryKind | None = None
    for number, row in enumerate(_strip_comments(rows)):
        heading = _parse_heading(row)
        if heading is not None:
            kind = words.known.get(heading)
            continue
        bullet = _BULLET.match(f"{row} ")
        row = row[bullet.end() :].strip() if bullet else row
        day = _DAY.match(row)
        said = row[day.end() :] if day else row
        if said:
            on = day.group(1) if day else ""
            yield MemoryLine(number, kind, make_readable(said), on, rows[number])


def _strip_comments(rows: list[str]) -> list[str]:
    """Return the rows without blanks around them and without the text of comments, as many as
    before; a comment without an end goes to the end of the file.
    """
    shown = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), "\n".join(rows))
    return [row.removeprefix("\ufeff").strip() for row in shown.split("\n")]


def _parse_heading(row: str) -> str | None:
    """Return the text of a Markdown heading in lower case; None for another row."""
    start = _HEADING.match(row)
    return None if start is None else row[start.end() :].rstrip(" \t#").strip().casefold()


def insert_line(text: str, kind: MemoryKind, said: str, on: str, words: MemoryWords) -> str:
    """Return the notes with a line, dated ``on``, at the end of the section of its kind, which is
    added where it is missing.
    """
    text = text if text.strip() else make_new_file(words)
    end = "\r\n" if "\r\n" in text else "\n"
    line = f"- {on} {said}"
    rows = text.split("\n")
    at = _end_of_section(rows, kind, words)
    if at is None:
        comments = (found[0] for found in _COMMENT.finditer(text))
        rest = next((one for one in comments if not one.endswith("-->")), "")
        text = text.removesuffix(rest)  # a comment without an end stays behind the section
        if text:
            text += "" if text.endswith("\n") else end
            text += "" if text.endswith(end * 2) else end
        rest = f"{end}{rest}" if rest else ""
        return f"{text}## {words.headings[kind]}{end}{line}{end}{rest}"
    if at == len(rows):  # behind a last line that has no end
        return f"{text}{end}{line}"
    return "\n".join([*rows[:at], f"{line}{end[:-1]}", *rows[at:]])


def remove_line(text: str, line: MemoryLine) -> str | None:
    """Return the notes without a line, which may have moved since it was read; None where it is
    gone.
    """
    rows = text.split("\n")
    number = line.number
    if number >= len(rows) or rows[number] != line.raw:
        if line.raw not in rows:
            return None
        number = rows.index(line.raw)
    if number == len(rows) - 1:
        rows[number] = ""  # what ended the line before stays
    else:
        del rows[number]
    return "\n".join(rows)


def make_new_file(words: MemoryWords) -> str:
    """Return the text of a new notes file: title, remark, and a heading for each kind."""
    sections = [f"## {words.headings[kind]}\n" for kind in KINDS]
    return "\n".join([f"# {words.title}\n", f"<!-- {words.note} -->\n", *sections])


def _end_of_section(rows: list[str], kind: MemoryKind, words: MemoryWords) -> int | None:
    """Return the index after the last non-blank row of a kind's section; None without the
    section.
    """
    at: int | None = None
    inside = False
    for number, row in enumerate(_strip_comments(rows)):
        heading = _parse_heading(row)
        if heading is not None:
            if inside:
                break
            inside = words.known.get(heading) == kind
        if inside and row:
            at = number + 1
    return at
