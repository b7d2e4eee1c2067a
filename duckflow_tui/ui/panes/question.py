"""What the gate and the card have in common: the row of keys below a question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.text import Text
from textual.geometry import Size
from textual.reactive import var
from textual.widget import Widget

from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import fit, wrap

_GAPS: Final = (2, 1)  # between two keys; the second where that saves a line


@dataclass(frozen=True, slots=True)
class KeyHint:
    """A letter and what it does, in words; ``to_what`` is said more quietly."""

    letter: str
    text: str
    to_what: str = ""

    @property
    def cells(self) -> int:
        """Room for `` y  once``."""
        return len(self.letter) + 3 + cell_len(self.whole)

    @property
    def whole(self) -> str:
        """All its words."""
        return f"{self.text} {self.to_what}" if self.to_what else self.text


class KeyRow(Widget, can_focus=False):
    """Letters on the accent while ``lit``, quiet otherwise: only lit letters act."""

    lit: var[bool] = var(False)
    hints: var[tuple[KeyHint, ...]] = var(())

    def height_for(self, width: int, most: int) -> int:
        """Lines that the keys take, with ``most`` lines for the whole card.

        Something of the request stays in sight however long the labels are.
        """
        return min(len(self._packed(width)[1]), max(1, most - 2))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.height_for(width, container.height)

    def watch_hints(self) -> None:
        self.refresh(layout=True)

    def watch_lit(self) -> None:
        self.refresh()

    def render(self) -> Text:
        palette = palette_of(self)
        letter = f"bold {palette.on_accent} on {palette.accent}" if self.lit else palette.faint
        text = Text(no_wrap=True, end="")
        gap, lines = self._packed(self.size.width)
        for number, line in enumerate(lines):
            if number:
                text.append("\n")
            for index, hint in enumerate(line):
                if index:
                    text.append(" " * gap)
                if hint.letter:
                    text.append(f" {hint.letter} ", style=letter)
                    text.append(" ")
                text.append(hint.text, style=palette.text if self.lit else palette.quiet)
                if hint.to_what:
                    text.append(f" {hint.to_what}", style=palette.quiet)
        return text

    def _packed(self, width: int) -> tuple[int, list[list[KeyHint]]]:
        """The gap and the lines: the wide gap unless the narrow one needs fewer lines."""
        return min(
            ((gap, self._pack(width, gap)) for gap in _GAPS), key=lambda packed: len(packed[1])
        )

    def _pack(self, width: int, gap: int) -> list[list[KeyHint]]:
        """The hints in lines; one that is too long for a line goes on below itself."""
        lines: list[list[KeyHint]] = [[]]
        used = 0
        for hint in self.hints:
            if used and used + gap + hint.cells > width:
                lines.append([])
                used = 0
            if hint.cells <= width:
                lines[-1].append(hint)
                used += hint.cells + (gap if used else 0)
                continue
            head = len(hint.letter) + 3
            for number, (start, stop) in enumerate(wrap(hint.whole, max(1, width - head))):
                part = hint.whole[start:stop]
                if number:
                    lines.append([KeyHint("", " " * head + part)])
                else:
                    lines[-1].append(KeyHint(hint.letter, part))
            used = width
        return lines


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
