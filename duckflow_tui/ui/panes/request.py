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

from duckflow_tui.state.base import ELLIPSIS
from duckflow_tui.ui.host import names_key, press_clicked
from duckflow_tui.ui.panes.diff_paint import Layer, paint_text
from duckflow_tui.ui.panes.rows import LineView, Seen, palette_of, whole_spans
from duckflow_tui.ui.panes.strips import (
    Row,
    Span,
    fit,
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


LEAST_ROOM: Final = 12  # cells of text below which a cut line would say nothing
_LEAST_ITEM: Final = 6  # cells of one of several items on a line


@dataclass(frozen=True, slots=True)
class Foldable:
    """A row's text and its width in cells; ``items`` are the spans of its keys, where its parts
    begin.

    Spare lines go to ``early`` rows first.
    """

    text: str
    room: int
    items: tuple[Span, ...] = ()
    early: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line on the screen: a range of characters of a row, and the number of hidden lines after
    it.

    With ``pieces`` several cut items share the line; only the first of them counts as read, up to
    ``stop``.
    """

    row: int
    start: int
    stop: int
    first: bool = True  # of the lines that the row has here
    more: int = 0  # hidden lines of the row after this one
    pieces: tuple[Span, ...] = ()

    @property
    def cut_marker(self) -> str:
        """The text ``…+2`` after a cut row; empty after a complete one."""
        return f" …+{self.more}" if self.more else ""


def fold_rows(rows: Sequence[Foldable], height: int) -> list[Line]:
    """Return at most ``height`` lines, at least one for each row; ``height >= len(rows)`` is
    required.

    Spare lines go to the rows that need the fewest to be complete.
    """
    needs = [len(wrap(row.text, row.room)) for row in rows]
    given = [1] * len(rows)
    spare = height - len(rows)
    for index in sorted(range(len(rows)), key=lambda n: (not rows[n].early, needs[n])):
        more = min(needs[index] - 1, spare)
        given[index] += more
        spare -= more
    lines: list[Line] = []
    for index, row in enumerate(rows):
        lines.extend(_cut_row(index, row, given[index]))
    return lines


def _cut_row(index: int, row: Foldable, count: int) -> list[Line]:
    """Return the first ``count`` lines of a row, with a marker where lines are hidden."""
    spans = whole_spans(row.text, wrap(row.text, row.room))
    shown = spans[:count]
    lines = [Line(index, a, b, number == 0) for number, (a, b) in enumerate(shown)]
    if len(spans) <= count:
        return lines
    marker = len(f" …+{len(spans) - count + 1}")
    room = max(1, row.room - marker)
    if count == 1 and len(row.items) > 1:
        pieces = _share_line(row, room)
        if pieces:
            lines[-1] = Line(index, 0, pieces[0][1], more=len(spans) - 1, pieces=pieces)
            return lines
    start = shown[-1][0]
    stop = start + fold(row.text[start:], room)[0][1]  # it is cut anyway: at no word, but full
    left = len(wrap(row.text[stop:].lstrip(), row.room))
    lines[-1] = Line(index, start, stop, count == 1, more=left)
    return lines


def _share_line(row: Foldable, room: int) -> tuple[Span, ...]:
    """Return the beginning of each item so that all fit on one line; empty where they cannot. Cells
    that short items do not need go to the others.
    """
    starts = [start for start, _ in row.items]
    ends = [*starts[1:], len(row.text)]
    texts = [row.text[a:b].rstrip() for a, b in zip(starts, ends, strict=True)]
    spare = room - (len(texts) - 1)  # a space between two
    if spare // len(texts) < _LEAST_ITEM:
        return ()
    cells = [0] * len(texts)
    for left, index in enumerate(sorted(range(len(texts)), key=lambda n: cell_len(texts[n]))):
        cells[index] = min(cell_len(texts[index]), spare // (len(texts) - left))
        spare -= cells[index]
    pieces: list[Span] = []
    for start, text, width in zip(starts, texts, cells, strict=True):
        kept = fit(text, width)
        pieces.append((start, start + (len(kept) if kept == text else len(kept) - 1)))
    return tuple(pieces)


_NARROW: Final = 32  # cells; below, labels stand before the text instead of in a column
_CLOSE: Final = 48  # cells; below, one space stands between the columns instead of two


Allot = Callable[[Size], int]


class RequestView(LineView, can_focus=False):
    """Rows with their labels in a column, drawn as lines; records which were on the screen (R14).

    ``allot`` returns its height for the size of its container. With too few lines for all text but
    enough for all rows, each row stays visible, cut with a count of its hidden lines; with fewer
    lines than rows the view scrolls.
    """

    lit: var[bool] = var(False)  # whether digits are keys now
    says: var[str] = var("")  # the word before the model's text

    def __init__(self, allot: Allot, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._allot = allot
        self.folds = True  # whether rows may be cut to a line each; else all of them scroll
        self.rows: tuple[QuestionRow, ...] = ()
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
        """Show all rows uncut and scroll to the first that was not completely seen."""
        row = next((n for n in range(len(self.rows)) if not self._seen.is_whole(n)), -1)
        if row < 0:
            return
        self.unfold_rows()
        self.fit_lines()
        line = next(n for n, at in enumerate(self._lines) if at.row == row)
        self.scroll_to(0, line, animate=False)

    def unfold_rows(self) -> None:
        """Show every row uncut from now on, even if the view must scroll."""
        if self.folds:
            self.folds = False
            self.invalidate(layout=True)

    def height_for(self, width: int) -> int:
        """Return the height of all rows, uncut, at this width."""
        return sum(len(spans) for spans in self._wrap_rows(width))

    def least_for(self, width: int) -> int:
        """Return the height at which every row still has a line; 1 where rows cannot be cut."""
        return len(self.rows) if self._can_fold(width) else min(1, len(self.rows))

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
        cuts = self._wrap_rows(width)
        if len(cuts) <= height < sum(map(len, cuts)) and self._can_fold(width):
            heads = self._head_cells(width)
            rows = [
                Foldable(row.text, width - head, row.keys, early=row.wide)
                for row, head in zip(self.rows, heads, strict=True)
            ]
            self._lines = fold_rows(rows, height)
        else:
            self._lines = [
                Line(row, start, stop, number == 0)
                for row, spans in enumerate(cuts)
                for number, (start, stop) in enumerate(spans)
            ]
        self._strips.clear()
        self.virtual_size = Size(width, len(self._lines))

    def _can_fold(self, width: int) -> bool:
        """Whether a row cut to one line is still readable at this width."""
        if not self.folds or not self._label_column(width):
            return False
        return all(width - head >= LEAST_ROOM for head in self._head_cells(width))

    def _column_gap(self, width: int) -> int:
        """Return the cells between label and text."""
        return 1 if width < _CLOSE else 2

    def _label_column(self, width: int) -> int:
        """Return the cells of the label column; 0 where labels are before the text."""
        if width < _NARROW:
            return 0
        labels = [cell_len(row.label) for row in self.rows]
        return max(labels, default=0) + self._column_gap(width)

    def _row_heads(self, width: int) -> list[tuple[str, str]]:
        """Return the printed label of each row, and the word that marks the model's text."""
        column = self._label_column(width)
        said = f"{self.says} "
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
        """Return the cells before the text of each row."""
        return [cell_len(label) + cell_len(said) for label, said in self._row_heads(width)]

    def _wrap_rows(self, width: int) -> list[list[Span]]:
        """Return for each row the spans of its text, one for each line."""
        column = self._label_column(width)
        cuts: list[list[Span]] = []
        for row, (label, said) in zip(self.rows, self._row_heads(width), strict=True):
            if column:
                head = 0 if row.wide else column + cell_len(said)
                cuts.append(whole_spans(row.text, wrap(row.text, width - head)))
                continue
            room = max(1, width - cell_len(label) - cell_len(said))
            first = fold(row.text, room)[0]
            rest = fold(row.text[first[1] :], max(1, width - 1)) if first[1] < len(row.text) else []
            cuts.append([first, *((first[1] + a, first[1] + b) for a, b in rest)])
        return cuts

    def row(self, line: int, width: int) -> Row:
        if line >= len(self._lines):
            return []
        palette = palette_of(self)
        at = self._lines[line]
        row = self.rows[at.row]
        label, said = self._row_heads(width)[at.row]
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
        tone = tones[row.tone]
        body: Row = []
        for number, span in enumerate(at.pieces or ((at.start, at.stop),)):
            if number:
                body.append(Segment(" ", ground))
            pieces = paint_text(row.text, span, tone, layers)
            body += [Segment(text, style) for text, style in pieces]
            if at.pieces and not self._ends_item(row, span[1]):
                body.append(Segment(ELLIPSIS, ground + ink(palette.quiet)))
        if at.cut_marker:
            body.append(Segment(at.cut_marker, ground + ink(palette.accent)))
        return [*(s for s in head if s.text), *body]

    @staticmethod
    def _ends_item(row: QuestionRow, stop: int) -> bool:
        """Whether only a gap follows this character before the next item."""
        following = min((start for start, _ in row.keys if start >= stop), default=len(row.text))
        return not row.text[stop:following].strip()


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

    def on_mouse_scroll_down(self) -> None:
        """Show every row uncut, since the user scrolls."""
        self.unfold_rows()

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
