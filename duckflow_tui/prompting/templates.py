"""Prompt files: text with ``{field}`` marks, filled in one pass, so that values stay as they are.

- A comment ``<!-- … -->`` at the top says what the file is for and is not sent.
- ``{name}`` is a field only where an identifier follows the brace, so JSON needs no escapes.
  There are no attributes, indices or conversions: ``{state.mode}`` is an error of the file.
- A line whose fields are all empty is left out, then a line before it that ends in a colon,
  then a heading under which nothing is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

_COMMENT: Final = re.compile(r"\A\s*<!--.*?-->\s*", re.DOTALL)
_MARK: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.\[\]!:]*)\}")


class TemplateError(ValueError):
    """A prompt file that cannot be used; the message names file, line and field."""


class Template:
    """One prompt file, parsed. ``fields`` are the names it uses."""

    def __init__(self, source: str, text: str, known: Iterable[str]) -> None:
        """Parse ``text``; raises TemplateError for a field that is not in ``known``."""
        comment = _COMMENT.match(text)
        skipped = comment.group().count("\n") if comment else 0
        body = (text[comment.end() :] if comment else text).strip("\n")
        allowed = frozenset(known)
        self.source = source
        # Literals and field names in turn, as re.split leaves them: odd places are fields.
        self._lines: list[list[str]] = []
        for number, line in enumerate(body.split("\n"), start=skipped + 1):
            pieces = _MARK.split(line)
            for name in pieces[1::2]:
                if name not in allowed:
                    raise TemplateError(f"{source}:{number}: there is no field {{{name}}}")
            self._lines.append(pieces)
        self.fields = frozenset(name for pieces in self._lines for name in pieces[1::2])

    @classmethod
    def read(cls, path: Path, known: Iterable[str], required: Iterable[str] = ()) -> Template:
        """Read a file; raises TemplateError also when it is missing or lacks a required field."""
        source = f"{path.parent.name}/{path.name}"
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateError(f"{source}: cannot be read: {error}") from error
        template = cls(source, text, known)
        missing = sorted(set(required) - template.fields)
        if missing:
            raise TemplateError(f"{source}: the field {{{missing[0]}}} must stand in it")
        return template

    def render(self, values: Mapping[str, str] | None = None) -> str:
        """The text with its fields filled; raises TemplateError when a value is not given."""
        given = values or {}
        absent = self.fields - given.keys()
        if absent:
            raise TemplateError(f"{self.source}: no value for {{{min(absent)}}}")
        kept: list[tuple[bool, str]] = []  # whether it is the template's own heading, the text
        for pieces in self._lines:
            names = pieces[1::2]
            if names and not any(given[name] for name in names):
                if kept and kept[-1][1].endswith((":", "：")):
                    kept.pop()
                continue
            text = "".join(given[part] if i % 2 else part for i, part in enumerate(pieces))
            kept.append((pieces[0].startswith("#"), text))
        return "\n".join(_without_empty_sections(kept)).strip("\n")


def _without_empty_sections(lines: list[tuple[bool, str]]) -> list[str]:
    result: list[str] = []
    pending: list[str] = []  # a heading and the blank lines after it
    for is_heading, text in lines:
        if is_heading:
            pending = [text]
        elif pending and not text.strip():
            pending.append(text)
        else:
            result.extend(pending)
            pending = []
            if text.strip() or not result or result[-1].strip():
                result.append(text)
    return result
