"""Token budgets of a request's layers, and the order in which their texts are cut (S4-76…80)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, Literal

from pydantic import Field

from duckflow_tui.prompting.templates import Template
from duckflow_tui.state.base import Frozen
from duckflow_tui.state.prompt import LayerUse

ASSUMED_CONTEXT: Final = 128_000  # tokens of a window of which nothing is known


class Budgets(Frozen):
    """Token budgets: three layers (S4-76), and the project's own instructions."""

    base: int = Field(default=500, ge=100, le=20_000)
    main: int = Field(default=800, ge=100, le=20_000)
    specialized: int = Field(default=1200, ge=100, le=20_000)
    project: int = Field(default=4000, ge=0, le=50_000)


class Trim(StrEnum):
    """Kinds of text that may be cut, in the order in which they are (S4-78). Nothing else
    is cut.
    """

    EVIDENCE = "evidence"
    CONVERSATION_SUMMARY = "conversation_summary"
    OPEN_QUESTIONS = "open_questions"
    PLAN_BRIEF = "plan_brief"


@dataclass(frozen=True, slots=True)
class Cuttable:
    """A list whose items can be dropped one at a time, from the end named by ``drop``."""

    trim: Trim
    items: tuple[str, ...]
    drop: Literal["first", "last"] = "last"

    def drop_one(self) -> Cuttable:
        """Return the list without its next item to drop."""
        rest = self.items[1:] if self.drop == "first" else self.items[:-1]
        return Cuttable(self.trim, rest, self.drop)


@dataclass(slots=True)
class Layer:
    """A layer of a request before it is cut to its budget."""

    name: str
    budget: int  # tokens
    template: Template
    values: Mapping[str, str]
    cuttable: dict[str, Cuttable] = field(default_factory=dict[str, Cuttable])
    fixed: int = 0  # tokens of the layer that stand in the system message

    def render(self) -> str:
        """Fill the template with the values and the lists as cut so far."""
        values = dict(self.values)
        for name, cut in self.cuttable.items():
            values[name] = "\n".join(cut.items)
        return self.template.render(values)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A layer's text within its budget, and the budget's figures."""

    text: str
    use: LayerUse


def fit_layers(
    layers: Sequence[Layer], count: Callable[[str], int], factor: float = 1.0
) -> list[Fitted]:
    """Render each layer and cut it to its budget, in tokens as ``count`` estimates times
    ``factor``.

    A layer over budget may use what the other layers leave unused, so only the sum of the budgets
    is fixed. Lists are then cut in the order of ``Trim``. Text that must not be cut is sent even
    where it is over the budget alone; ``LayerUse.tokens`` shows that.
    """

    def count_tokens(layer: Layer, text: str) -> int:
        return math.ceil((count(text) + layer.fixed) * factor)

    whole: list[tuple[Layer, str, int]] = []
    spare = 0
    for layer in layers:
        text = layer.render()
        size = count_tokens(layer, text)
        spare += max(0, layer.budget - size)
        whole.append((layer, text, size))
    fitted: list[Fitted] = []
    for layer, text, size in whole:
        borrowed = min(spare, max(0, size - layer.budget))
        spare -= borrowed
        allowed = layer.budget + borrowed
        trimmed: list[str] = []
        if size > allowed:
            text, trimmed = _cut_layer(
                layer, lambda t, of=layer, most=allowed: count_tokens(of, t) <= most
            )
            size = count_tokens(layer, text)
        use = LayerUse(layer=layer.name, tokens=size, budget=allowed, trimmed=tuple(trimmed))
        fitted.append(Fitted(text, use))
    return fitted


def _cut_layer(layer: Layer, fits: Callable[[str], bool]) -> tuple[str, list[str]]:
    """Drop list items in the order of ``Trim`` until the text fits. Return the text and the names
    of the lists that were cut.
    """
    trimmed: list[str] = []
    text = layer.render()
    for trim in Trim:
        names = [name for name, cut in layer.cuttable.items() if cut.trim is trim and cut.items]
        if names and not fits(text):
            trimmed.append(trim.value)
        for name in names:
            while layer.cuttable[name].items and not fits(text):
                layer.cuttable[name] = layer.cuttable[name].drop_one()
                text = layer.render()
    return text, trimmed


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
    """Return a table of 256 bytes that maps each byte of UTF-8 to the number of its weight
    class.
    """
    table = bytearray([_REST]) * 256
    for number, (members, _) in enumerate(_CLASSES):
        for member in members:
            table[member] = number
    return bytes(table)


_TABLE: Final = _class_of_each_byte()


_CACHED_CHARS: Final = 4_000  # longer texts are counted in microseconds and not worth keeping
#: Pieces of a longer text that are counted for the whole: a million characters of Japanese would
#: keep keys waiting for 0.1 s.
_PIECES, _PIECE_CHARS = 64, 2_000

_BLEND: Final = 0.5  # weight of the newest report in the learned factor

_LOWEST, _HIGHEST = 0.5, 2.0  # a factor outside is a misreport, not a tokenizer


class ScriptCounter:
    """Estimates tokens from a text's scripts, and learns a correction factor for each model
    (S4-81).

    At most 10 ms; results for short texts are cached.
    """

    def __init__(self) -> None:
        self._factors: dict[str, float] = {}

    def count(self, text: str) -> int:
        """Estimate the tokens of ``text`` before the model's factor; 0 only for an empty text."""
        if len(text) <= _CACHED_CHARS:
            return _cached(text)
        if len(text) <= _PIECES * _PIECE_CHARS:
            return _estimate_tokens(text)
        starts = (number * len(text) // _PIECES for number in range(_PIECES))
        piece = "".join(text[start : start + _PIECE_CHARS] for start in starts)
        return _estimate_tokens(piece) * len(text) // len(piece)

    def factor(self, model: str) -> float:
        """Return the learned factor of ``model``, by which ``count`` is multiplied; 1.0 where
        nothing was learned.
        """
        return self._factors.get(model, 1.0)

    def learn(self, model: str, estimated: int, actual: int) -> None:
        """Move the model's factor half way towards ``actual / estimated``, within 0.5 to 2.0.

        ``estimated``: tokens of a request by count and present factor; ``actual``: as reported by
        the server. Counts below 1 are ignored.
        """
        if estimated < 1 or actual < 1:
            return
        old = self.factor(model)
        said = old * actual / estimated
        self._factors[model] = min(max(old + _BLEND * (said - old), _LOWEST), _HIGHEST)


def _estimate_tokens(text: str) -> int:
    """Tokens of a text, estimated from the weights of its bytes; 0 only for an empty text."""
    if not text:
        return 0
    # Translating and counting bytes runs in C, unlike any loop over characters.
    classes = text.encode("utf-8", "surrogatepass").translate(_TABLE)
    used = _CLASSES[:_ASCII_CLASSES] if text.isascii() else _CLASSES
    total = 0.0
    for number, (_, weight) in enumerate(used):
        total += classes.count(number) * weight
    return max(1, math.ceil(total))


_cached = lru_cache(maxsize=4_096)(_estimate_tokens)
