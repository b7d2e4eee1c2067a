"""Halves of surrogate pairs: JSON can spell them, and a server may cut a pair between two chunks.

UTF-8 can carry none. What is shown loses them to ``�``; in arguments they are refused (R16).
"""

from __future__ import annotations

import re
from typing import Final

HALF: Final = re.compile("[\ud800-\udfff]")
_FIRST: Final = re.compile("[\ud800-\udbff]")


def wire_text(text: str) -> str:
    """The text as UTF-8 can carry it: pairs become their character, lone halves ``�``."""
    return text if text.isascii() else _through_utf16(text, "replace")


def paired(text: str) -> str:
    """The text with pairs as their character; lone halves stay."""
    return text if HALF.search(text) is None else _through_utf16(text, "surrogatepass")


class PieceJoiner:
    """Text in pieces for the eye: a pair that two pieces share comes out whole."""

    def __init__(self) -> None:
        self._first = ""

    def feed(self, piece: str) -> str:
        """What can be shown by now."""
        text, self._first = self._first + piece, ""
        if text and _FIRST.match(text[-1]):
            text, self._first = text[:-1], text[-1]
        return wire_text(text)

    def rest(self) -> str:
        """What was held back for its second half, which does not come."""
        first, self._first = self._first, ""
        return wire_text(first)


def _through_utf16(text: str, errors: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", errors)
