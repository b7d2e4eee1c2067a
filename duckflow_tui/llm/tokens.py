"""Estimates of tokens, for servers that report none."""

from __future__ import annotations

import re
from typing import Final

# Scripts that tokenizers cut into about one token a character; others give about four to one.
_DENSE: Final = re.compile(
    "[\u0e00-\u0eff\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]"
)
_CHARS_A_TOKEN: Final = 4


def estimate_tokens(text: str) -> int:
    """Tokens of a text, judged by its script: Japanese one a character, English one in four."""
    if text.isascii():
        return -(-len(text) // _CHARS_A_TOKEN)
    dense = len(_DENSE.findall(text))
    return dense + -(-(len(text) - dense) // _CHARS_A_TOKEN)
