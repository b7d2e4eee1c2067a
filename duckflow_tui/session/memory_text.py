"""The notes of a project as Markdown: read leniently, changed by one line, kept otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from duckflow_tui.tools.memory import MemoryKind, MemoryLine

KINDS: Final[tuple[MemoryKind, ...]] = ("worked", "failed", "preference")

# Each is matched at the start of a row only: the file may hold one line of 64 KB.
_HEADING: Final = re.compile(r"#{1,6}[ \t]+")
_BULLET: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+")
_DAY: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[ \t]*[:：]?[ \t]+")


@dataclass(frozen=True, slots=True)
class MemoryWords:
    """What a new file says. ``known`` are the headings of every language, in lower case."""

    title: str
    note: str  # how the file may be used
    headings: Mapping[MemoryKind, str]
    known: Mapping[str, MemoryKind]


def decoded(raw: bytes) -> str:
    """The text; bytes that are no UTF-8 come through ``encoded`` as they were."""
    return raw.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes of such a text."""
    return text.encode("utf-8", "surrogateescape")


def readable(text: str) -> str:
    """The text as it can be shown: a byte that is no UTF-8 becomes a question mark of its own."""
    return encoded(text).decode("utf-8", "replace")


def memory_lines(text: str, words: MemoryWords) -> tuple[MemoryLine, ...]:
    """Every line that says something: not the headings, blank lines and comments."""
    return tuple(_said(text.split("\n"), words))


def _said(rows: list[str], words: MemoryWords) -> Iterator[MemoryLine]:
    kind: MemoryKind | None = None
    for number, row, place in _seen(rows):
        if place != "text":
            continue
        heading = _heading(row)
        if heading is not None:
            kind = words.known.get(heading)
            continue
        bullet = _BULLET.match(f"{row} ")
        row = row[bullet.end() :].strip() if bullet else row
        day = _DAY.match(row)
        said = row[day.end() :] if day else row
        if said:
            on = day.group(1) if day else ""
            yield MemoryLine(number, kind, readable(said), on, rows[number])


def _seen(rows: list[str]) -> Iterator[tuple[int, str, Literal["text", "comment", "closed"]]]:
    """Every row without blanks around it, and whether it is part of a comment or ends one."""
    hidden = False
    for number, raw in enumerate(rows):
        row = raw.removeprefix("\ufeff").strip()
        if hidden or row.startswith("<!--"):
            hidden = "-->" not in row
            yield number, row, "comment" if hidden else "closed"
        else:
            yield number, row, "text"


def _heading(row: str) -> str | None:
    """What a heading says, in lower case; None for any other row."""
    start = _HEADING.match(row)
    return None if start is None else row[start.end() :].rstrip(" \t#").strip().casefold()


def with_line(text: str, kind: MemoryKind, said: str, on: str, words: MemoryWords) -> str:
    """The text with one line more, the last of its section; a section that lacks is added, before
    a comment that never ends.
    """
    text = text if text.strip() else fresh(words)
    end = "\r\n" if "\r\n" in text else "\n"
    line = f"- {on} {said}"
    rows = text.split("\n")
    at = _end_of_section(rows, kind, words)
    if at is None:
        open_from = _unfinished_comment(rows)
        rest = "\n".join(rows[open_from:])
        text = text[: len(text) - len(rest)]
        if text:
            text += "" if text.endswith("\n") else end
            text += "" if text.endswith(end * 2) else end
        rest = f"{end}{rest}" if rest else ""
        return f"{text}## {words.headings[kind]}{end}{line}{end}{rest}"
    if at == len(rows):  # behind a last line that has no end
        return f"{text}{end}{line}"
    return "\n".join([*rows[:at], f"{line}{end[:-1]}", *rows[at:]])


def without_line(text: str, line: MemoryLine) -> str | None:
    """The text without that line, wherever it stands now; None when it is not there."""
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


def fresh(words: MemoryWords) -> str:
    """A file without a line yet."""
    sections = [f"## {words.headings[kind]}\n" for kind in KINDS]
    return "\n".join([f"# {words.title}\n", f"<!-- {words.note} -->\n", *sections])


def _end_of_section(rows: list[str], kind: MemoryKind, words: MemoryWords) -> int | None:
    """The row behind the last one of the section that is not blank; None without a section."""
    at: int | None = None
    inside = False
    for number, row, place in _seen(rows):
        heading = _heading(row) if place == "text" else None
        if heading is not None:
            if inside:
                break
            inside = words.known.get(heading) == kind
        if inside and row and place != "comment":
            at = number + 1
    return at


def _unfinished_comment(rows: list[str]) -> int:
    """The row where a comment begins that never ends; behind the last one where there is none."""
    start = len(rows)
    for number, _, place in _seen(rows):
        if place != "comment":
            start = len(rows)
        elif start == len(rows):
            start = number
    return start
