"""Views that draw the rows of a gate or card: labels, wrapped text, and a record of the
lines seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var

from duckflow_tui.ui.host import names_key, press_clicked
from duckflow_tui.ui.panes.diff_paint import Layer, paint_text
from duckflow_tui.ui.panes.rows import LineView, Seen, palette_of, whole_spans
from duckflow_tui.ui.panes.strips import (
    Row,
    Span,
    fold,
    ink,
    mark_row,
    pad,
    row_cells,
    wrap,
)

Tone = Literal["text", "quiet", "notice", "warning", "added", "removed", "ai"]


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """One row before wrapping. ``says``: the words are the model's.

    ``heading`` is the tone of the label, ``mark`` of the first character; ``ref`` is the id of the
    message, call or step that the row refers to. A ``wide`` row has no label and begins at the left
    edge.
    """

    label: str
    text: str
    says: bool = False
    tone: Tone = "text"
    keys: tuple[Span, ...] = ()  # digits of alternatives: keys of the gate
    heading: Tone = "quiet"
    mark: Tone | None = None
    ref: str = ""  # the id of a call, a message or a step
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line on the screen: a range of characters of a row."""

    row: int
    start: int
    stop: int
    first: bool  # of the row's lines


_NARROW: Final = 32  # cells; below, labels stand before the text instead of in a column
_CLOSE: Final = 48  # cells; below, one space stands between the columns instead of two


Allot = Callable[[Size], int]


class RequestView(LineView, can_focus=False):
    """Rows with their labels in a column, drawn as lines; records which were on the screen (R14).

    ``allot`` returns its height for the size of its container; with more lines than that the view
    scrolls.
    """

    lit: var[bool] = var(False)  # whether digits are keys now
    says: var[str] = var("")  # the word before the model's text

    def __init__(self, allot: Allot, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._allot = allot
        self.rows: tuple[QuestionRow, ...] = ()
        self._widest_label = 0  # in cells
        self._spans: dict[int, list[list[Span]]] = {}  # of the lines of each row, by width
        self._seen = Seen((), ())
        self._room = (-1, -1)  # width and height that ``_lines`` was laid out for
        self._lines: list[Line] = []
        self._when_seen: Callable[[], None] | None = None

    def show_rows(self, rows: Sequence[QuestionRow], *, fresh: bool) -> None:
        """Show other rows. ``fresh``: from the top and all unseen; else rows whose text was seen as
        a whole before count as seen.
        """
        old, seen = self.rows, self._seen
        self.rows = tuple(rows)
        self._widest_label = max((cell_len(row.label) for row in rows), default=0)
        self._spans.clear()
        self._seen = Seen([len(row.text) for row in rows], [1] * len(rows))
        read = {row.text for n, row in enumerate(old) if seen.is_whole(n) and not fresh}
        for index, row in enumerate(self.rows):
            if row.text in read:
                self._seen.mark_seen(index, 0, len(row.text))
        self.invalidate(layout=True)
        if fresh:
            self.scroll_to(0, 0, animate=False)

    def on_seen(self, callback: Callable[[], None]) -> None:
        """Set a callback for whenever rows came on the screen for the first time."""
        self._when_seen = callback

    def count_unseen(self) -> int:
        """Return the number of rows that were not completely on the screen yet."""
        return self._seen.unseen_lines

    def mark_all_seen(self) -> None:
        """Count every row as seen, because its content was read elsewhere."""
        for number, row in enumerate(self.rows):
            self._seen.mark_seen(number, 0, len(row.text))

    def reveal_unseen(self) -> None:
        """Scroll to the first row that was not completely seen; do nothing where all were."""
        row = next((n for n in range(len(self.rows)) if not self._seen.is_whole(n)), -1)
        if row < 0:
            return
        self.fit_lines()
        line = next(n for n, at in enumerate(self._lines) if at.row == row)
        self.scroll_to(0, line, animate=False)

    def height_for(self, width: int) -> int:
        """Return the height of all rows at this width."""
        return sum(len(spans) for spans in self._wrap_rows(width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._allot(container)

    def on_click(self, event: events.Click) -> None:
        press_clicked(self, event)

    def watch_lit(self) -> None:
        self.redraw()

    def line_count(self, width: int) -> int:
        return len(self._lines)

    def on_screen(self, line: int) -> None:
        """Count the line that is drawn as seen."""
        if self.scrollable_content_region.size != self._room:
            self.fit_lines()
        if line >= len(self._lines):
            return
        at = self._lines[line]
        if self._seen.mark_seen(at.row, at.start, at.stop) and self._when_seen:
            self.call_after_refresh(self._when_seen)

    def fit_lines(self) -> None:
        """Lay the rows out for the present size."""
        width, height = self._room = self.scrollable_content_region.size
        bar = self.scrollbar_size_vertical if self.show_vertical_scrollbar else 0
        if bar and self.height_for(width + bar) <= height:
            width += bar  # the bar goes: it alone takes the cells that make it needed
        self._lines = [
            Line(row, start, stop, number == 0)
            for row, spans in enumerate(self._wrap_rows(width))
            for number, (start, stop) in enumerate(spans)
        ]
        self._strips.clear()
        self.virtual_size = Size(width, len(self._lines))

    def _column_gap(self, width: int) -> int:
        """Return the cells between label and text."""
        return 1 if width < _CLOSE else 2

    def _label_column(self, width: int) -> int:
        """Return the cells of the label column; 0 where labels are before the text."""
        if width < _NARROW:
            return 0
        return self._widest_label + self._column_gap(width)

    def _row_head(self, row: QuestionRow, width: int) -> tuple[str, str]:
        """Return the printed label of a row, and the word that marks the model's text; below a row
        that has said who speaks, as many spaces.
        """
        if row.wide:
            return "", ""
        column, said = self._label_column(width), f"{self.says} " if row.says else ""
        if column:
            return pad(row.label, column), said if row.label else " " * cell_len(said)
        return (f"{row.label} ", said) if row.label else ("", "")

    def _wrap_rows(self, width: int) -> list[list[Span]]:
        """Return for each row the spans of its text, one for each line."""
        if width not in self._spans:
            self._spans[width] = [self._wrap_row(row, width) for row in self.rows]
        return self._spans[width]

    def _wrap_row(self, row: QuestionRow, width: int) -> list[Span]:
        """Return the spans of a row's text, one for each line. Without a column of labels only the
        first line has the label before it; the others are indented by one cell.
        """
        label, said = self._row_head(row, width)
        room = width - cell_len(label) - cell_len(said)
        if self._label_column(width):
            return whole_spans(row.text, wrap(row.text, room))
        first = fold(row.text, max(1, room))[0]
        if first[1] >= len(row.text):
            return [first]
        rest = fold(row.text[first[1] :], max(1, width - 1))
        return [first, *((first[1] + a, first[1] + b) for a, b in rest)]

    def row(self, line: int, width: int) -> Row:
        if line >= len(self._lines):
            return []
        palette = palette_of(self)
        at = self._lines[line]
        row = self.rows[at.row]
        label, said = self._row_head(row, width)
        column, lead = self._label_column(width), not row.wide
        ground = self.ground_style
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
        key = ink(palette.accent, bold=True) if self.lit else ink(palette.quiet)
        layers: list[Layer] = [(span, names_key(key, row.text[slice(*span)])) for span in row.keys]
        if row.mark is not None:
            layers.append(((0, 1), tones[row.mark]))
        pieces = paint_text(row.text, (at.start, at.stop), tones[row.tone], layers)
        body = [Segment(text, style) for text, style in pieces]
        return [*(s for s in head if s.text), *body]


class CardView(RequestView):
    """A request view with a cursor on one of its rows, once the user has moved it."""

    class Pointed(Message):
        """Posted after a click on a row; ``again``: it was at the cursor already."""

        def __init__(self, *, again: bool) -> None:
            super().__init__()
            self.again = again

    def __init__(self, allot: Callable[[Size], int], *, id: str | None = None) -> None:
        super().__init__(allot, id=id)
        self._cursor = ""  # reference of the chosen row

    def show_rows(self, rows: Sequence[QuestionRow], *, fresh: bool) -> None:
        super().show_rows(rows, fresh=fresh)
        if fresh:
            self._cursor = ""

    @property
    def chosen_ref(self) -> str:
        """The reference of the row at the cursor; empty without a cursor."""
        return self._cursor

    def step_by(self, by: int) -> bool:
        """Move the cursor to the next row with a reference; returns False where there is none."""
        places = [at for at, row in enumerate(self.rows) if row.ref]
        if not places:
            return False
        refs = [self.rows[at].ref for at in places]
        nth = refs.index(self._cursor) + by if self._cursor in refs else 0 if by > 0 else -1
        if self._cursor in refs and not 0 <= nth < len(refs):
            return False
        self.choose_row(places[nth])
        return True

    def choose_row(self, at: int) -> None:
        """Put the cursor on this row and scroll to it."""
        self._cursor = self.rows[at].ref
        lines = [n for n, line in enumerate(self._lines) if line.row == at]
        if lines and not 0 <= lines[0] - self.first_line < self.lines_in_sight:
            self.reveal_lines(lines[0], lines[-1] + 1)
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked row and post ``Pointed``."""
        line = self.scroll_offset.y + event.y
        if not 0 <= line < len(self._lines):
            return
        at = self._lines[line].row
        if ref := self.rows[at].ref:
            again = ref == self._cursor
            self.choose_row(at)
            self.post_message(self.Pointed(again=again))

    def row(self, line: int, width: int) -> Row:
        row = super().row(line, width)
        if not row:
            return row
        ref = self.rows[self._lines[line].row].ref
        if not self.lit or not ref or ref != self._cursor:
            return row
        over = ink(None, on=palette_of(self).bars)
        rest = " " * max(0, width - row_cells(row))
        return mark_row([*row, Segment(rest, self.ground_style)] if rest else row, 0, -1, over)
