"""The rows of a gate on the screen: labels, wrapped words, and what of them has been seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from duckflow_tui.state.base import ELLIPSIS
from duckflow_tui.ui.panes.diff_paint import Layer, painted
from duckflow_tui.ui.panes.gate_fold import LEAST_ROOM, Foldable, Line, folded
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
_CLOSE: Final = 48  # cells; below, one space stands between the columns instead of two

_SENTENCE: Final = re.compile(r"[.!?]\s+|[。！？]\s*|\n")  # the end of one

Allot = Callable[[Size], int]


def _sentence(text: str, upto: int) -> int:
    """Where the sentence begins that this character is in."""
    ends = [end.end() for end in _SENTENCE.finditer(text, 0, upto)]
    return ends[-1] if ends else 0


class RequestView(ScrollView, can_focus=False):
    """Rows with their labels in a column. Draws lines, not widgets; counts what was seen (R14).

    ``allot`` says how many lines it gets inside a container of some size. Where those are too
    few for every line of the rows but enough for the rows, each row stays in sight, cut with a
    count of what is left of it; where they are fewer than the rows, it scrolls.
    """

    lit: var[bool] = var(False)  # whether digits are keys now
    says: var[str] = var("")  # the word before what the model says
    column: var[int] = var(0)  # cells that labels take at least, to align with another view

    def __init__(self, allot: Allot, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._allot = allot
        self.rows: tuple[GateRow, ...] = ()
        self._seen = Seen((), ())
        self._room = (-1, -1)  # cells and lines that the lines below were laid out for
        self._lines: list[Line] = []
        self._page: dict[int, int] = {}  # rows that get the spare lines, from which character on
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
        if fresh or [row.text for row in old] != [row.text for row in self.rows]:
            self._page = {}
        self._lay_out()
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
        """Show the first row that was not on screen; how many are left from there on.

        Folded rows give their spare lines to those that were not seen whole.
        """
        place = self._seen.first_unseen()
        if place is not None:
            row, character = place
            left = [n for n in range(row, len(self.rows)) if not self._seen.whole(n)]
            self._page = {n: _sentence(self.rows[n].text, self._seen.upto(n)) for n in left}
            self._lay_out()
            if all(line.stop <= character for line in self._lines if line.row == row):
                # The sentence is longer than its room: it goes on where it was cut.
                self._page = {n: self._seen.upto(n) for n in left}
                self._lay_out()
            lines = [n for n, at in enumerate(self._lines) if at.row == row]
            line = next((n for n in lines if self._lines[n].stop > character), lines[-1])
            whole = len(lines) <= self.scrollable_content_region.height
            self.scroll_to(0, lines[0] if whole else line, animate=False)
            self.refresh(layout=True)
        return self._seen.unseen

    def to_start(self) -> None:
        """Every row from its start again, as before the first page."""
        self._page = {}
        self._lay_out()
        self.scroll_to(0, 0, animate=False)
        self.refresh(layout=True)

    def height_for(self, width: int) -> int:
        """Lines that all rows take at this width."""
        return sum(len(spans) for spans in self._cut(width))

    def least_for(self, width: int) -> int:
        """Lines below which not every row has one, where rows can be folded; else one."""
        return len(self.rows) if self._folds(width) else min(1, len(self.rows))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._allot(container)

    def watch_lit(self) -> None:
        self.refresh()

    def on_resize(self) -> None:
        self._lay_out()
        self.refresh()

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        drawn = [self._draw(line) for line in range(len(self._lines))]
        return text_of(drawn, 0, selection), "\n"

    def render_line(self, y: int) -> Strip:
        width, height = self.scrollable_content_region.size
        if (width, height) != self._room:
            self._lay_out()
        line = self.scroll_offset.y + y
        if line >= len(self._lines):
            return Strip.blank(width, self._ground)
        at = self._lines[line]
        if self._seen.mark(at.row, at.start, at.stop) and self._tell:
            self.call_after_refresh(self._tell)
        over = ink(None, on=palette_of(self).selection)
        drawn = selected(self._draw(line), line, self.text_selection, over)
        return strip_of(drawn, line, width, self._ground)

    @property
    def _ground(self) -> Style:
        palette = palette_of(self)
        return ink(palette.text, on=palette.background)

    def _lay_out(self) -> None:
        width, height = self._room = self.scrollable_content_region.size
        bar = self.scrollbar_size_vertical if self.show_vertical_scrollbar else 0
        if bar and self.height_for(width + bar) <= height:
            width += bar  # the bar goes: it alone takes the cells that make it needed
        cuts = self._cut(width)
        if len(cuts) <= height < sum(map(len, cuts)) and self._folds(width):
            heads = self._head_cells(width)
            rows = [
                Foldable(row.text, width - head, row.keys, early=row.wide)
                for row, head in zip(self.rows, heads, strict=True)
            ]
            self._lines = folded(rows, height, self._page)
        else:
            self._lines = [
                Line(row, start, stop, number == 0)
                for row, spans in enumerate(cuts)
                for number, (start, stop) in enumerate(spans)
            ]
        self.virtual_size = Size(width, len(self._lines))

    def _folds(self, width: int) -> bool:
        """Whether a row cut to one line says something at this width."""
        if not self._columns(width):
            return False
        return all(width - head >= LEAST_ROOM for head in self._head_cells(width))

    def _gap(self, width: int) -> int:
        return 1 if width < _CLOSE else 2

    def _columns(self, width: int) -> int:
        """Cells of the label column; 0 where labels stand before the text."""
        if width < _NARROW:
            return 0
        labels = [self.column, *(cell_len(row.label) for row in self.rows)]
        return max(labels) + self._gap(width)

    def _heads(self, width: int) -> list[tuple[str, str]]:
        """Label and the word ``says`` of each row as they are printed."""
        column = self._columns(width)
        said = f"{self.says}{' ' * self._gap(width)}" if column else f"{self.says} "
        same = " " * cell_len(said) if column else ""  # below a row that has said who speaks
        return [
            ("", "")
            if row.wide
            else (
                pad(row.label, column) if column else f"{row.label} " if row.label else "",
                "" if not row.says else said if row.label else same,
            )
            for row in self.rows
        ]

    def _head_cells(self, width: int) -> list[int]:
        return [cell_len(label) + cell_len(said) for label, said in self._heads(width)]

    def _cut(self, width: int) -> list[list[Span]]:
        column = self._columns(width)
        cuts: list[list[Span]] = []
        for row, (label, said) in zip(self.rows, self._heads(width), strict=True):
            if column:
                head = 0 if row.wide else column + cell_len(said)
                cuts.append(whole_spans(row.text, wrap(row.text, width - head)))
                continue
            room = max(1, width - cell_len(label) - cell_len(said))
            first = fold(row.text, room)[0]
            rest = fold(row.text[first[1] :], max(1, width - 1)) if first[1] < len(row.text) else []
            cuts.append([first, *((first[1] + a, first[1] + b) for a, b in rest)])
        return cuts

    def _draw(self, line: int) -> Row:
        palette, width = palette_of(self), self._room[0]
        at = self._lines[line]
        row = self.rows[at.row]
        label, said = self._heads(width)[at.row]
        column, lead = self._columns(width), not row.wide
        ground = self._ground
        tones = {
            "text": ground,
            "quiet": ground + ink(palette.quiet),
            "notice": ground + ink(palette.accent, bold=True),
            "warning": ground + ink(palette.bad, bold=True),
            "added": ground + ink(palette.good),
            "removed": ground + ink(palette.bad),
            "ai": ground + ink(palette.ai),
        }
        head: Row = []
        if at.first:
            bold = ink(None, bold=row.heading != "quiet")
            head.append(Segment(label, tones[row.heading] + bold))
            head.append(Segment(said, ground + ink(palette.ai, italic=True)))
        elif lead or not column:
            head.append(Segment(" " * (column + cell_len(said) if column else 1), ground))
        if (
            column and lead and at.first and at.start
        ):  # what comes before was shown on an earlier page
            cells = column + cell_len(said)
            head = [Segment(pad(f"{row.label} …", cells), ground + ink(palette.quiet))]
        key = ink(palette.accent, bold=True) if self.lit else ink(palette.quiet)
        layers: list[Layer] = [(span, key) for span in row.keys]
        if row.mark is not None:
            layers.append(((0, 1), tones[row.mark]))
        tone = tones[row.tone]
        body: Row = []
        for number, span in enumerate(at.pieces or ((at.start, at.stop),)):
            if number:
                body.append(Segment(" ", ground))
            pieces = painted(row.text, span, tone, layers)
            body += [Segment(text, style) for text, style in pieces]
            if at.pieces and not self._ends_item(row, span[1]):
                body.append(Segment(ELLIPSIS, ground + ink(palette.quiet)))
        if at.marker:
            body.append(Segment(at.marker, ground + ink(palette.accent)))
        return [*(s for s in head if s.text), *body]

    @staticmethod
    def _ends_item(row: GateRow, stop: int) -> bool:
        """Whether nothing but the gap to the next item comes behind this character."""
        following = min((start for start, _ in row.keys if start >= stop), default=len(row.text))
        return not row.text[stop:following].strip()
