"""The row of keys below a question, with the effect of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from duckflow_tui.ui.host import names_key, press_clicked
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import fit, ink, wrap

_GAPS: Final = (2, 1)  # between two keys; the second where that saves a line
_KEY: Final = 4  # cells of `` 1 `` and the space behind it
_GAP: Final = 2  # cells between what an option is called and what it does


@dataclass(frozen=True, slots=True)
class KeyHint:
    """A key and its effect in words. ``asks``: a question without a key, which the others answer;
    ``leads``: drawn more strongly; ``effect``: a longer explanation.
    """

    letter: str
    text: str
    asks: bool = False
    leads: bool = False
    effect: str = ""

    @property
    def cell_count(self) -> int:
        """Cells of the hint, as `` y  once``."""
        return self.head_cells + cell_len(self.text)

    @property
    def head_cells(self) -> int:
        """Cells of the letter and the spaces around it."""
        return cell_len(self.letter) + 3 if self.letter else 0


def _key_of(letter: str) -> str:
    """Return Textual's name of a key that is printed as ``letter``."""
    if letter.startswith("↓"):
        return "pagedown"
    return {"Esc": "escape"}.get(letter, letter)


@dataclass(frozen=True, slots=True)
class _Form:
    """One way to draw the keys: its height, and in ``spares`` the lines of the question that must
    at least fit beside it.
    """

    height: int
    spares: int
    draw: Callable[[], Text]


class KeyRow(Widget, can_focus=False):
    """The keys of a question, drawn on the accent colour while they act (``lit``).

    With a ``prompt`` above them, each key gets its own line where the question has room for it,
    with its effect beside or below. ``others_height`` returns the height of the rest of the
    question at a width.
    """

    lit: reactive[bool] = reactive(False)
    hints: reactive[tuple[KeyHint, ...]] = reactive((), layout=True)
    prompt: reactive[str] = reactive("", layout=True)

    def __init__(self, others_height: Callable[[int], int]) -> None:
        super().__init__()
        self._others_height = others_height

    def _list_forms(self, width: int) -> Iterator[_Form]:
        """Yield the ways to draw the keys, the tallest first."""
        lines = self._pack_lines(width)[1]
        packed, listed = len(lines), 1 + len(self.hints)
        others = self._others_height(width) if self.prompt else 0
        if self.prompt:
            effects = [hint.effect for hint in self.hints if hint.effect]
            if any(cell_len(effect) > self._effect_room(width) for effect in effects):
                explained = listed + len(effects)
                yield _Form(explained, others, lambda: self._draw_list(width, below=True))
            yield _Form(listed + 1, others, lambda: self._draw_list(width, blank=True))
            few = min(1, others) if listed <= 1 + packed else others
            yield _Form(listed, few, lambda: self._draw_list(width))
            yield _Form(
                1 + packed,
                min(3, others),
                lambda: self._prompt_text(width).append_text(self._draw_packed(width)),
            )
        yield _Form(packed, min(1, others), lambda: self._draw_packed(width))

    def height_for(self, width: int, most: int) -> int:
        """Return the height of the keys where the whole question has ``most`` lines; some lines of
        the request always stay visible.
        """
        forms = [*self._list_forms(width)]
        if self.prompt:
            for form in forms:
                if form.height + form.spares <= most:
                    return form.height
        return min(forms[-1].height, max(1, most - 2))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.height_for(width, container.height)

    def on_click(self, event: events.Click) -> None:
        press_clicked(self, event)

    def render(self) -> Text:
        width, height = self.size
        forms = [*self._list_forms(width)]
        return next((form for form in forms if form.height <= height), forms[-1]).draw()

    def _draw_packed(self, width: int) -> Text:
        """Draw the keys one after the other in as few lines as possible."""
        palette = palette_of(self)
        text = Text(no_wrap=True, end="")
        leads = any(hint.leads for hint in self.hints)
        gap, lines = self._pack_lines(width)
        for number, line in enumerate(lines):
            if number:
                text.append("\n")
            for index, hint in enumerate(line):
                if index:
                    text.append(" " * gap)
                if hint.letter:
                    text.append(*self._letter_text(hint.letter, strong=hint.leads or not leads))
                    text.append(" ")
                tone = palette.text if self.lit else palette.quiet
                text.append(hint.text, style=f"bold {palette.accent}" if hint.asks else tone)
        return text

    def _prompt_text(self, width: int, above: str = "") -> Text:
        """Return the prompt's line."""
        line = f"{above}{fit(self.prompt, width)}\n"
        return Text(line, style=palette_of(self).text, no_wrap=True, end="")

    def _effect_room(self, width: int) -> int:
        """Return the cells left beside the longest option."""
        return width - _KEY - max((cell_len(hint.text) for hint in self.hints), default=0) - _GAP

    def _draw_list(self, width: int, *, blank: bool = False, below: bool = False) -> Text:
        """Draw the prompt, with ``blank`` below an empty line, and a line for each option; effects
        are ``below`` it, or beside it where all fit.
        """
        palette = palette_of(self)
        names = max((cell_len(hint.text) for hint in self.hints), default=0)
        room = self._effect_room(width)
        beside = not below and all(cell_len(hint.effect) <= room for hint in self.hints)
        text = self._prompt_text(width, "\n" if blank else "")
        for number, hint in enumerate(self.hints):
            if number:
                text.append("\n")
            text.append(*self._letter_text(hint.letter)).append(" ")
            name = fit(hint.text, width - _KEY)
            text.append(name, style=palette.text if self.lit else palette.quiet)
            if hint.effect and beside:
                gap = " " * (names - cell_len(name) + _GAP)
                text.append(f"{gap}{hint.effect}", style=palette.quiet)
            elif hint.effect and below:
                effect = fit(hint.effect, width - _KEY)
                text.append(f"\n{' ' * _KEY}{effect}", style=palette.faint)
        return text

    def _letter_text(self, letter: str, *, strong: bool = True) -> tuple[str, Style]:
        """Return a letter with its style, in which a click finds the key; ``strong``: on the accent
        colour.
        """
        palette = palette_of(self)
        style = ink(palette.quiet)
        if self.lit:
            style = ink(palette.accent, on=palette.bars, bold=True)
        if self.lit and strong:
            style = ink(palette.on_accent, on=palette.accent, bold=True)
        return f" {letter} ", names_key(style, _key_of(letter))

    def _pack_lines(self, width: int) -> tuple[int, list[list[KeyHint]]]:
        """Return the gap between keys and the lines of keys; the gap is wide unless the narrow one
        saves a line.
        """
        return min(
            ((gap, self._pack_with_gap(width, gap)) for gap in _GAPS),
            key=lambda packed: len(packed[1]),
        )

    def _pack_with_gap(self, width: int, gap: int) -> list[list[KeyHint]]:
        """Return the hints divided into lines; one that is too long is wrapped."""
        lines: list[list[KeyHint]] = [[]]
        used = 0
        for hint in self.hints:
            if used and used + gap + hint.cell_count > width:
                lines.append([])
                used = 0
            if hint.cell_count <= width:
                lines[-1].append(hint)
                used += hint.cell_count + (gap if used else 0)
                continue
            for number, (start, stop) in enumerate(
                wrap(hint.text, max(1, width - hint.head_cells))
            ):
                part = hint.text[start:stop]
                if number:
                    lines.append([KeyHint("", " " * hint.head_cells + part, asks=hint.asks)])
                else:
                    lines[-1].append(KeyHint(hint.letter, part, asks=hint.asks))
            used = width
        return lines
