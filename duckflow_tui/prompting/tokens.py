"""How many tokens a text takes, estimated by script, and corrected by what models report.

No tokenizer is shipped: each model has its own, and exact ones are downloads. The rates below
lie on the high side of what tokenizers of 100,000 to 200,000 entries do, because a prompt that
is smaller than thought costs nothing and one that is larger fails:

- English prose: about 4 characters a token (OpenAI's rule of thumb; DeepSeek's API guide says
  0.3 tokens a character). Letters, spaces, digits and punctuation are weighed apart, so that
  code and JSON, rich in punctuation, come out near 3.3 and 2.6 characters a token.
- Chinese, Japanese and Korean: from 0.6 (DeepSeek, newest OpenAI vocabulary) to above 1 token a
  character (older vocabularies). Ideographs count 1, kana and hangul 0.9.
- Other scripts: 0.5 for two-byte ones (Greek, Cyrillic, Arabic), 0.9 for three-byte ones; an
  emoji is 2.5.

The error that is left is a factor for each model, learned from the usage it reports (C22).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, Protocol

#: Characters by the first byte of their UTF-8 form, and what each takes in tokens.
_CLASSES: Final[tuple[tuple[bytes, float], ...]] = (
    (bytes([*range(0x41, 0x5B), *range(0x61, 0x7B)]), 0.26),  # ASCII letters
    (b" \t\r", 0.15),
    (b"0123456789", 0.45),
    (b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", 0.60),
    (bytes({*range(0x20), 0x7F} - {*b"\t\r"}), 0.30),  # newlines, control characters
    (bytes(range(0xC2, 0xE0)), 0.50),  # Latin with marks, Greek, Cyrillic, Hebrew, Arabic
    (bytes(range(0xE0, 0xE4)), 0.90),  # Indic, Thai, typographic signs, kana
    (bytes(range(0xE4, 0xEA)), 1.00),  # ideographs
    (bytes(range(0xEA, 0xEE)), 0.90),  # hangul
    (b"\xee\xef", 1.00),  # private use, full-width forms
    (bytes(range(0xF0, 0xF5)), 2.50),  # emoji, rare ideographs
)
_ASCII_CLASSES: Final = 5
_REST: Final = len(_CLASSES)  # bytes within a character


def _class_of_each_byte() -> bytes:
    table = bytearray([_REST]) * 256
    for number, (members, _) in enumerate(_CLASSES):
        for member in members:
            table[member] = number
    return bytes(table)


_TABLE: Final = _class_of_each_byte()

_CACHED_CHARS: Final = 4_000  # longer texts are counted in microseconds and not worth keeping
_BLEND: Final = 0.5  # weight of the newest report in the learned factor
_LOWEST, _HIGHEST = 0.5, 2.0  # a factor outside is a misreport, not a tokenizer


class TokenCounter(Protocol):
    """What measures texts. ``count`` is of the text alone; times ``factor`` it is the model's."""

    def count(self, text: str) -> int:
        """Tokens of ``text`` before the model's factor, ≥ 0; 0 only for an empty text."""
        ...

    def factor(self, model: str) -> float:
        """What to multiply a count with for ``model``; 1.0 when nothing was learned."""
        ...

    def learn(self, model: str, estimated: int, actual: int) -> None:
        """Take note that a request thought to be ``estimated`` tokens was ``actual`` tokens."""
        ...


class ScriptCounter:
    """The estimate by script: some 10 ms for a megabyte; short texts are remembered (S4-81)."""

    def __init__(self) -> None:
        self._factors: dict[str, float] = {}

    def count(self, text: str) -> int:
        """See ``TokenCounter.count``."""
        return _cached(text) if len(text) <= _CACHED_CHARS else _estimate(text)

    def factor(self, model: str) -> float:
        """See ``TokenCounter.factor``."""
        return self._factors.get(model, 1.0)

    def learn(self, model: str, estimated: int, actual: int) -> None:
        """Move the model's factor half way to what the report says, within 0.5 to 2.0.

        ``estimated`` is with the factor of now; counts below 1 say nothing and are ignored.
        """
        if estimated < 1 or actual < 1:
            return
        old = self.factor(model)
        said = old * actual / estimated
        self.set_factor(model, old + _BLEND * (said - old))

    def set_factor(self, model: str, factor: float) -> None:
        """Set what ``learn`` would find out, clamped to 0.5 to 2.0."""
        self._factors[model] = min(max(factor, _LOWEST), _HIGHEST)


def _estimate(text: str) -> int:
    if not text:
        return 0
    # Translating and counting bytes runs in C, unlike any loop over characters.
    classes = text.encode("utf-8", "surrogatepass").translate(_TABLE)
    used = _CLASSES[:_ASCII_CLASSES] if text.isascii() else _CLASSES
    total = sum(classes.count(number) * weight for number, (_, weight) in enumerate(used))
    return max(1, math.ceil(total))


_cached = lru_cache(maxsize=4_096)(_estimate)
