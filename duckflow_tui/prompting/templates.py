"""Prompt files: text with ``{field}`` marks, filled in one pass, so that values are never parsed.

- A comment ``<!-- … -->`` at the top says what the file is for and is not sent.
- ``{name}`` is a field only where an identifier follows the brace, so JSON needs no escapes. There
  are no attributes, indices or conversions: ``{state.mode}`` is plain text.
- A line whose fields are all empty is left out, then a line before it that ends in a colon, then a
  heading with nothing below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from duckflow_tui.prompting.lines import SPOKEN
from duckflow_tui.state.base import ModelText

_COMMENT: Final = re.compile(r"\A\s*<!--.*?-->\s*", re.DOTALL)

_MARK: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.\[\]!:]*)\}")


class TemplateError(ValueError):
    """A prompt file that cannot be used; the message names file, line and field."""


class Template:
    """A parsed text; ``fields`` are the names of its fields."""

    def __init__(self, source: str, text: str) -> None:
        """``source`` names the text in errors."""
        comment = _COMMENT.match(text)
        body = (text[comment.end() :] if comment else text).strip("\n")
        self.source = source
        # Literals and field names in turn, as re.split leaves them: odd places are fields.
        self._lines: list[list[str]] = [_MARK.split(line) for line in body.split("\n")]
        self.fields = frozenset(name for pieces in self._lines for name in pieces[1::2])

    def render(self, values: Mapping[str, str] | None = None) -> str:
        """Fill the fields with ``values``. Raises TemplateError where one is missing."""
        given = values or {}
        absent = self.fields - given.keys()
        if absent:
            raise TemplateError(f"{self.source}: no value for {{{min(absent)}}}")
        kept: list[tuple[Sequence[str], str]] = []  # the template's own line, its text here
        for pieces in self._lines:
            text = pieces[0]
            if len(pieces) > 1:
                filled = list(pieces)
                filled[1::2] = map(given.__getitem__, pieces[1::2])
                if not any(filled[1::2]):
                    if kept and kept[-1][0][-1].endswith((":", "：")):
                        kept.pop()
                    continue
                text = "".join(filled)
            kept.append((pieces, text))
        result: list[str] = []
        pending: list[str] = []  # a heading and the blank lines after it, while nothing follows
        for pieces, text in kept:
            if pieces[0].startswith("#"):
                pending = [text]
            elif pending and not text.strip():
                pending.append(text)
            else:
                result.extend(pending)
                pending = []
                if text.strip() or not result or result[-1].strip():
                    result.append(text)
        return "\n".join(result).strip("\n")


@cache
def load_texts(folder: Path, language: str) -> Mapping[str, Template]:
    """Load the texts of ``folder/<language>/*.md`` by name, once in a process: a file is one text,
    or holds one after each line ``:: name``. Raises TemplateError for a missing or unreadable
    file and for a name used twice.
    """
    found: dict[str, Template] = {}
    for path in sorted((folder / language).glob("*.md")):
        source = f"{language}/{path.name}"
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateError(f"{source}: cannot be read: {error}") from error
        whole, *sections = re.split(r"^:: (\S+)\n", text, flags=re.MULTILINE)
        if not sections:
            found[path.stem] = Template(source, whole)
        for name, words in zip(sections[::2], sections[1::2], strict=True):
            if name in found:
                raise TemplateError(f"{source}: {name} stands twice")
            found[name] = Template(f"{source}:{name}", words)
    if not found:
        raise TemplateError(f"{folder / language}: there are no prompt files")
    return found


def notice_words(folder: Path, language: str) -> Callable[..., str]:
    """Return a function that renders a text for models from its name and values, or from a
    ``ModelText``. Names of operations are available to every text.
    """
    texts = load_texts(folder, language)

    def render_value(value: str | ModelText | Sequence[str | ModelText]) -> str:
        """Render a value: text as it is, a ``ModelText`` by its template, a sequence joined."""
        if isinstance(value, str):
            return value
        if isinstance(value, ModelText):
            return render_notice(value)
        return "\n".join(map(render_value, value))

    def render_notice(text: str | ModelText, /, **values: str | ModelText) -> str:
        name, given = (text.name, text.values) if isinstance(text, ModelText) else (text, values)
        rendered = {field: render_value(value) for field, value in given.items()}
        return texts[name].render({**SPOKEN, **rendered})

    return render_notice
