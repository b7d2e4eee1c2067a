"""The options of a card: one on each line with what it does, or packed where room is short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rich.cells import cell_len
from rich.text import Text
from textual.reactive import var

from duckflow_tui.ui.panes.gate_keys import KeyRow
from duckflow_tui.ui.panes.strips import fit
from duckflow_tui.ui.panes.theme_palette import palette_of

_KEY: Final = 4  # cells of `` 1 `` and the space behind it
_ROWS: Final = 3  # of the rest of the card that the question gives way to
_GAP: Final = 2  # cells between what an option is called and what it does


class OptionRows(KeyRow):
    """A question with its answers. Without a question it is the row of keys that a gate has.

    ``others`` says how many lines everything else on the card takes at some width: the answers
    get a line each only where nothing else has to give way.
    """

    question: var[str] = var("")
    effects: var[dict[str, str]] = var(dict[str, str])  # by key: what an answer does

    def __init__(self, others: Callable[[int], int]) -> None:
        super().__init__()
        self._others = others

    def height_for(self, width: int, most: int) -> int:
        if not self.question:
            return super().height_for(width, most)
        listed, packed = 1 + len(self.hints), 1 + len(self._packed(width)[1])
        others = self._others(width)
        if listed + others < most:
            return listed + 1  # with a blank line above
        if listed <= packed or listed + others <= most:
            return min(listed, most)
        if packed + min(_ROWS, others) <= most:
            return packed
        return super().height_for(width, most)

    def watch_question(self) -> None:
        self.refresh(layout=True)

    def watch_effects(self) -> None:
        self.refresh()

    def render(self) -> Text:
        if not self.question:
            return super().render()
        width, height = self.size
        asked = Text(fit(self.question, width), style=palette_of(self).text, no_wrap=True, end="")
        if height >= 1 + len(self.hints):
            air = Text("\n" if height > 1 + len(self.hints) else "", no_wrap=True, end="")
            asked = air.append_text(asked)
            return asked.append("\n").append_text(self._listed(width))
        if height > len(self._packed(width)[1]):
            return asked.append("\n").append_text(super().render())
        return super().render()

    def _listed(self, width: int) -> Text:
        palette = palette_of(self)
        letter = f"bold {palette.on_accent} on {palette.accent}" if self.lit else palette.faint
        names = max((cell_len(hint.text) for hint in self.hints), default=0)
        room = width - _KEY - names - _GAP
        effects = [self.effects.get(hint.letter, "") for hint in self.hints]
        tells = all(cell_len(effect) <= room for effect in effects)
        text = Text(no_wrap=True, end="")
        for hint, effect in zip(self.hints, effects, strict=True):
            if text:
                text.append("\n")
            text.append(f" {hint.letter} ", style=letter).append(" ")
            name = fit(hint.text, width - _KEY)
            text.append(name, style=palette.text if self.lit else palette.quiet)
            if tells and effect:
                gap = names - cell_len(name) + _GAP
                text.append(
                    f"{' ' * gap}{effect}", style=palette.quiet if self.lit else palette.faint
                )
        return text
