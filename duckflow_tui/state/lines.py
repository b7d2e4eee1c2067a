"""Splits text into lines, in the same way wherever lines are numbered, compared or shown.

Only LF ends a line, as for git, ripgrep and ``wc``. Python's ``str.splitlines`` also splits at
eight other characters, so its line numbers would differ from those of these programs.
"""

from __future__ import annotations

from io import StringIO


def split_lines(text: str) -> tuple[str, ...]:
    """Split a text into lines with their endings (LF or CR LF); joined they are the text."""
    return tuple(StringIO(text, newline="\n"))


def split_bare_lines(text: str) -> list[str]:
    """Split a text into lines without endings; an LF at the end adds no empty line."""
    return [strip_ending(line) for line in split_lines(text)]


def strip_ending(line: str) -> str:
    """The line without its LF or CR LF; a CR without LF is part of the line and stays."""
    return line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line


def line_at(text: str, offset: int) -> tuple[int, str]:
    """Return number (from 1) and text of the line that contains the character at ``offset``."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    line = text[start:] if end < 0 else text[start : end + 1]
    return text.count("\n", 0, offset) + 1, strip_ending(line)
