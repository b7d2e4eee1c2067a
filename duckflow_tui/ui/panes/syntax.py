"""Syntax highlighting of only those lines that are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from duckflow_tui.ui.panes.strips import Span

if TYPE_CHECKING:
    from pygments.lexer import Lexer

Token = Literal["keyword", "name", "string", "number", "comment"]
TokenSpan = tuple[Span, Token]

CHUNK: Final = 96  # lines that are lexed at once
LEAD_IN: Final = 48  # lines before them that are lexed too, so that a string begun there is known
LONGEST_LINE: Final = 1000  # characters; longer ones stay plain, lexers are slow on them
_KINDS: Final[tuple[tuple[str, Token], ...]] = (
    ("Comment", "comment"),
    ("Literal.String.Doc", "comment"),
    ("Literal.String", "string"),
    ("Literal.Number", "number"),
    ("Keyword", "keyword"),
    ("Operator.Word", "keyword"),
    ("Name.Function", "name"),
    ("Name.Class", "name"),
    ("Name.Decorator", "name"),
    ("Name.Tag", "keyword"),
    ("Generic.Heading", "name"),
)


class SyntaxLines:
    """Token spans of the lines of a text, computed in chunks on demand.

    ``line`` returns a line by index, ``count`` is the number of lines.
    """

    def __init__(self, language: str, line: Callable[[int], str], count: int) -> None:
        self._language = language
        self._line = line
        self._count = count
        self._chunks: dict[int, list[list[TokenSpan]]] = {}

    def spans(self, index: int) -> Sequence[TokenSpan]:
        """Return the token spans of a line; empty for plain text and unknown languages."""
        lexer = _find_lexer(self._language)
        if lexer is None:
            return ()
        chunk = index // CHUNK
        if chunk not in self._chunks:
            first = max(0, chunk * CHUNK - LEAD_IN)
            last = min(self._count, (chunk + 1) * CHUNK)
            lines = [self._line(at) for at in range(first, last)]
            self._chunks[chunk] = _lex_lines(lexer, lines)[chunk * CHUNK - first :]
        return self._chunks[chunk][index - chunk * CHUNK]


def _lex_lines(lexer: Lexer, lines: list[str]) -> list[list[TokenSpan]]:
    """Return the token spans of each line."""
    text = "\n".join(line if len(line) <= LONGEST_LINE else "" for line in lines)
    found: list[list[TokenSpan]] = [[] for _ in lines]
    row = column = 0
    for token, value in lexer.get_tokens(text):
        kind = _token_kind(token)
        for number, part in enumerate(value.split("\n")):
            if number:
                row, column = row + 1, 0
            if kind and part.strip() and row < len(found):
                found[row].append(((column, column + len(part)), kind))
            column += len(part)
    return found


@lru_cache(maxsize=512)
def _token_kind(token: Any) -> Token | None:
    """Return our colour class of a Pygments token; None for plain text."""
    name = str(token).removeprefix("Token.")
    for prefix, kind in _KINDS:
        if name == prefix or name.startswith(f"{prefix}."):
            return kind
    return None


@lru_cache(maxsize=32)
def _find_lexer(language: str) -> Lexer | None:
    """Return the lexer of a language by name; None for an unknown one."""
    # Here, because finding lexers costs what the first frame must not wait for.
    from pygments.lexers import (
        get_lexer_by_name,  # pyright: ignore[reportUnknownVariableType]  # Pygments has no types here
    )
    from pygments.util import ClassNotFound

    if not language:
        return None
    try:
        return get_lexer_by_name(language, stripnl=False, stripall=False)
    except ClassNotFound:
        return None
