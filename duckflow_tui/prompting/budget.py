"""The token budget of each layer, and the order in which texts are cut (S4-76…80)."""

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
    """Tokens for each layer (S4-76), and for the project's own instructions."""

    base: int = Field(default=500, ge=100, le=20_000)
    main: int = Field(default=800, ge=100, le=20_000)
    specialized: int = Field(default=1200, ge=100, le=20_000)
    project: int = Field(default=4000, ge=0, le=50_000)


class Trim(StrEnum):
    """Kinds of text that may be cut, first to last (S4-78). Everything else is never cut."""

    EVIDENCE = "evidence"
    CONVERSATION_SUMMARY = "conversation_summary"
    OPEN_QUESTIONS = "open_questions"
    PLAN_BRIEF = "plan_brief"


@dataclass(frozen=True, slots=True)
class Cuttable:
    """A list that gives up items one at a time, from the end that matters least."""

    trim: Trim
    items: tuple[str, ...]
    drop: Literal["first", "last"] = "last"

    def drop_one(self) -> Cuttable:
        rest = self.items[1:] if self.drop == "first" else self.items[:-1]
        return Cuttable(self.trim, rest, self.drop)


@dataclass(slots=True)
class Layer:
    """One layer of a request before it is fitted. ``fixed`` is sent with it but lies elsewhere."""

    name: str
    budget: int  # tokens
    template: Template
    values: Mapping[str, str]
    cuttable: dict[str, Cuttable] = field(default_factory=dict[str, Cuttable])
    fixed: int = 0  # tokens of the layer that stand in the system message

    def render(self) -> str:
        """The layer's text with the lists as they are cut now."""
        values = dict(self.values)
        for name, cut in self.cuttable.items():
            values[name] = "\n".join(cut.items)
        return self.template.render(values)


@dataclass(frozen=True, slots=True)
class Fitted:
    text: str
    use: LayerUse


def fit_layers(
    layers: Sequence[Layer], count: Callable[[str], int], factor: float = 1.0
) -> list[Fitted]:
    """Bring each layer within its budget.

    A layer that is too large first takes what the others of the same request leave unused, so
    the sum of the budgets is what holds; then it is cut in the order of ``Trim``. What may not
    be cut is sent even when it alone is over; ``LayerUse.tokens`` then shows by how much.
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
    """Drop items of the layer, the least needed kind first, until it fits. Returns the text and the
    names of what was trimmed.
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
    """A translation table of 256 bytes: the number of each byte's weight class."""
    table = bytearray([_REST]) * 256
    for number, (members, _) in enumerate(_CLASSES):
        for member in members:
            table[member] = number
    return bytes(table)


_TABLE: Final = _class_of_each_byte()


_CACHED_CHARS: Final = 4_000  # longer texts are counted in microseconds and not worth keeping

_BLEND: Final = 0.5  # weight of the newest report in the learned factor

_LOWEST, _HIGHEST = 0.5, 2.0  # a factor outside is a misreport, not a tokenizer


class ScriptCounter:
    """Measures texts by their script: some 10 ms for a megabyte; short texts are remembered
    (S4-81). ``count`` is of the text alone; times ``factor`` it is the model's.
    """

    def __init__(self) -> None:
        self._factors: dict[str, float] = {}

    def count(self, text: str) -> int:
        """Tokens of ``text`` before the model's factor, ≥ 0; 0 only for an empty text."""
        return _cached(text) if len(text) <= _CACHED_CHARS else _estimate_tokens(text)

    def factor(self, model: str) -> float:
        """The factor from counts to tokens of ``model``; 1.0 when nothing was learned."""
        return self._factors.get(model, 1.0)

    def learn(self, model: str, estimated: int, actual: int) -> None:
        """Move the model's factor half way to what a report says: a request that was thought to be
        ``estimated`` tokens was ``actual`` tokens. It stays within 0.5 to 2.0.

        ``estimated`` is with the factor of now; counts below 1 say nothing and are ignored.
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
