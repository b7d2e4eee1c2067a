"""The rows of a gate on the screen: labels, wrapped words, and what of them has been seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from duckflow_tui.ui.panes.diff_paint import painted
from duckflow_tui.ui.panes.gate_rows import GateRow
from duckflow_tui.ui.panes.seen import Seen, whole_spans
from duckflow_tui.ui.panes.strips import (
    Row,
    Span,
    fold,
    ink,
    pad,
    selected,
    strip_of,
    text_of,
    wrap,
)
from duckflow_tui.ui.panes.theme_palette import palette_of

_NARROW: Final = 32  # cells; below, labels stand before the text instead of in a column

Allot = Callable[[Size], int]


class RequestView(ScrollView, can_focus=False):
    """Rows with their labels in a column. Draws lines, not widgets; counts what was seen (R14).

    ``allot`` says how many lines it gets inside a container of some size.
    """

    lit: var[bool] = var(False)  # whether digits are keys now
    says: var[str] = var("")  # the word before what the model says
    column: var[int] = var(0)  # cells that labels take at least, to align with another view

    def __init__(self, allot: Allot, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._allot = allot
        self.rows: tuple[GateRow, ...] = ()
        self._seen = Seen((), ())
        self._width = -1
        self._lines: list[tuple[int, int]] = []  # row and which of its spans, for each line
        self._spans: list[list[Span]] = []
        self._tops: list[int] = [0]
        self._tell: Callable[[], None] | None = None

    def show(self, rows: Sequence[GateRow], *, fresh: bool) -> None:
        """Show other rows; unless ``fresh``, a row that says the same stays seen."""
        old, seen = self.rows, self._seen
        self.rows = tuple(rows)
        self._seen = Seen([len(row.text) for row in rows], [1] * len(rows))
        for index, row in enumerate(self.rows):
            same = not fresh and index < len(old) and old[index].text == row.text
            if same and seen.whole(index):
                self._seen.mark(index, 0, len(row.text))
        self._lay_out(self.scrollable_content_region.width)
        if fresh:
            self.scroll_to(0, 0, animate=False)
        self.refresh(layout=True)

    def on_seen(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` whenever rows came on screen that were not seen before."""
        self._tell = tell

    def unseen(self) -> int:
        """Rows that have not been on screen as a whole."""
        return self._seen.unseen

    def show_next_unseen(self) -> int:
        """Scroll to the first row that was not on screen; how many are left from there on."""
        place = self._seen.first_unseen()
        if place is not None:
            row, character = place
            line = sum(1 for start, _ in self._spans[row][1:] if start <= character)
            self.scroll_to(0, self._tops[row] + line, animate=False)
            self.refresh()
        return self._seen.unseen

    def height_for(self, width: int) -> int:
        """Lines that all rows take at this width."""
        return sum(len(spans) for spans in self._cut(width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._allot(container)

    def watch_lit(self) -> None:
        self.refresh()

    def on_resize(self) -> None:
        self._lay_out(self.scrollable_content_region.width)
        self.refresh()

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        drawn = [self._draw(line) for line in range(len(self._lines))]
        return text_of(drawn, 0, selection), "\n"

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if width != self._width:
            self._lay_out(width)
        line = self.scroll_offset.y + y
        if line >= len(self._lines):
            return Strip.blank(width, self._ground)
        row, number = self._lines[line]
        if self._seen.mark(row, *self._spans[row][number]) and self._tell:
            self.call_after_refresh(self._tell)
        over = ink(None, on=palette_of(self).selection)
        drawn = selected(self._draw(line), line, self.text_selection, over)
        return strip_of(drawn, line, width, self._ground)

    @property
    def _ground(self) -> Style:
        palette = palette_of(self)
        return ink(palette.text, on=palette.background)

    def _lay_out(self, width: int) -> None:
        self._width = width
        self._spans = self._cut(width)
        self._tops = [0, *accumulate(len(spans) for spans in self._spans)]
        self._lines = [
            (row, number) for row, spans in enumerate(self._spans) for number in range(len(spans))
        ]
        self.virtual_size = Size(width, len(self._lines))

    def _columns(self, width: int) -> int:
        """Cells of the label column; 0 where labels stand before the text."""
        if width < _NARROW:
            return 0
        return max([self.column, *(cell_len(row.label) for row in self.rows)]) + 2

    def _heads(self, width: int) -> list[tuple[str, str]]:
        """Label and the word ``says`` of each row as they are printed."""
        column = self._columns(width)
        said = f"{self.says}  " if column else f"{self.says} "
        same = " " * cell_len(said) if column else ""  # below a row that has said who speaks
        return [
            (
                pad(row.label, column) if column else f"{row.label} " if row.label else "",
                "" if not row.says else said if row.label else same,
            )
            for row in self.rows
        ]

    def _cut(self, width: int) -> list[list[Span]]:
        column = self._columns(width)
        cuts: list[list[Span]] = []
        for row, (label, said) in zip(self.rows, self._heads(width), strict=True):
            if column:
                cuts.append(whole_spans(row.text, wrap(row.text, width - column - cell_len(said))))
                continue
            room = max(1, width - cell_len(label) - cell_len(said))
            first = fold(row.text, room)[0]
            rest = fold(row.text[first[1] :], max(1, width - 1)) if first[1] < len(row.text) else []
            cuts.append([first, *((first[1] + a, first[1] + b) for a, b in rest)])
        return cuts

    def _draw(self, line: int) -> Row:
        palette = palette_of(self)
        index, number = self._lines[line]
        row = self.rows[index]
        label, said = self._heads(self._width)[index]
        column = self._columns(self._width)
        ground = self._ground
        tones = {
            "text": ground,
            "quiet": ground + ink(palette.quiet),
            "notice": ground + ink(palette.accent, bold=True),
            "warning": ground + ink(palette.bad, bold=True),
        }
        head: Row = []
        if number == 0:
            head.append(Segment(label, ground + ink(palette.quiet)))
            head.append(Segment(said, ground + ink(palette.ai, italic=True)))
        else:
            head.append(Segment(" " * (column + cell_len(said) if column else 1), ground))
        key = ink(palette.accent, bold=True) if self.lit else ink(palette.quiet)
        layers = [(span, key) for span in row.keys]
        pieces = painted(row.text, self._spans[index][number], tones[row.tone], layers)
        return [*(s for s in head if s.text), *(Segment(text, style) for text, style in pieces)]
