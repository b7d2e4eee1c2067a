"""What each layer may take, and what goes first when it takes more (S4-76…80)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pydantic import Field

from duckflow_tui.prompting.templates import Template
from duckflow_tui.state.base import Frozen
from duckflow_tui.state.prompt import LayerUse


class Budgets(Frozen):
    """Tokens for each layer (S4-76), and for the project's own instructions."""

    base: int = Field(default=500, ge=100, le=20_000)
    main: int = Field(default=800, ge=100, le=20_000)
    specialized: int = Field(default=1200, ge=100, le=20_000)
    project: int = Field(default=4000, ge=0, le=50_000)


class Trim(StrEnum):
    """What may be cut, first to last (S4-78). Everything else is never cut."""

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

    def shorter(self) -> Cuttable:
        """The same without one item."""
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
        """The layer as text."""
        lists = {name: "\n".join(cut.items) for name, cut in self.cuttable.items()}
        return self.template.render({**self.values, **lists})


@dataclass(frozen=True, slots=True)
class Fitted:
    """A layer's text and what it took."""

    text: str
    use: LayerUse


def fit(layers: Sequence[Layer], count: Callable[[str], int], factor: float = 1.0) -> list[Fitted]:
    """Bring each layer within its budget.

    A layer that is too large first takes what the others of the same request leave unused, so
    the sum of the budgets is what holds; then it is cut in the order of ``Trim``. What may not
    be cut is sent even when it alone is over; ``LayerUse.tokens`` then shows by how much.
    """

    def tokens(layer: Layer, text: str) -> int:
        return math.ceil((count(text) + layer.fixed) * factor)

    texts = [layer.render() for layer in layers]
    sizes = [tokens(layer, text) for layer, text in zip(layers, texts, strict=True)]
    spare = sum(max(0, layer.budget - size) for layer, size in zip(layers, sizes, strict=True))
    fitted: list[Fitted] = []
    for layer, text, size in zip(layers, texts, sizes, strict=True):
        borrowed = min(spare, max(0, size - layer.budget))
        spare -= borrowed
        allowed = layer.budget + borrowed
        trimmed: list[str] = []
        if size > allowed:
            text, trimmed = _cut(layer, lambda t, of=layer, most=allowed: tokens(of, t) <= most)
            size = tokens(layer, text)
        use = LayerUse(layer=layer.name, tokens=size, budget=allowed, trimmed=tuple(trimmed))
        fitted.append(Fitted(text, use))
    return fitted


def _cut(layer: Layer, fits: Callable[[str], bool]) -> tuple[str, list[str]]:
    trimmed: list[str] = []
    text = layer.render()
    for trim in Trim:
        names = [name for name, cut in layer.cuttable.items() if cut.trim is trim and cut.items]
        if names and not fits(text):
            trimmed.append(trim.value)
        for name in names:
            while layer.cuttable[name].items and not fits(text):
                layer.cuttable[name] = layer.cuttable[name].shorter()
                text = layer.render()
    return text, trimmed
