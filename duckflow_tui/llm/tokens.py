"""Estimates token counts, for servers that report none."""

from __future__ import annotations

from typing import Final

#: First bytes, in UTF-8, of scripts that tokenizers cut into about one token a character: those of
#: East and South-East Asia. Others give about four characters to one.
_DENSE: Final = bytes(range(0xE0, 0xF0))
_OTHERS: Final = bytes(set(range(256)) - set(_DENSE))
_CHARS_A_TOKEN: Final = 4


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text by its script: one per Japanese character, one per four other
    characters.
    """
    if text.isascii():
        return -(-len(text) // _CHARS_A_TOKEN)
    dense = len(text.encode("utf-8", "surrogatepass").translate(None, _OTHERS))
    return dense + -(-(len(text) - dense) // _CHARS_A_TOKEN)
