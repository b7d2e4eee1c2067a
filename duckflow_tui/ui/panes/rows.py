"""Base widgets that draw ready-made rows, and the record of which rows were on screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.reactive import reactive, var
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from duckflow_tui.ui.palette import Palette, palette_named
from duckflow_tui.ui.panes.strips import Row, fit, ink, mark_selection, strip_of, text_of
from duckflow_tui.words.catalogue import Catalogue


def palette_of(widget: Widget) -> Palette:
    """Return the colours of the app's current theme."""
    theme: str = widget.app.theme  # pyright: ignore[reportUnknownMemberType]  # App[Unknown]
    return palette_named(theme)


class Seen:
    """Records for each row of a text how many characters from its start were on screen.

    Characters, not cells, so that it stays valid for another width. ``weights`` is the number of
    lines each row counts for; 0 for rows that need not be seen.
    """

    def __init__(self, lengths: Sequence[int], weights: Sequence[int]) -> None:
        self._lengths = lengths
        self._weights = weights
        self._upto = [-1] * len(lengths)  # -1: not even its start
        self._left = sum(weights)

    @property
    def unseen_lines(self) -> int:
        """The number of lines of which some part was not on screen."""
        return self._left

    @property
    def total_lines(self) -> int:
        """The number of all lines."""
        return sum(self._weights)

    def weight_of(self, rows: Iterable[int]) -> int:
        """Return the number of lines that these rows count for."""
        return sum(self._weights[row] for row in rows)

    def is_left(self, row: int) -> bool:
        """Whether the row counts and some part of it was not on screen."""
        return self._weights[row] > 0 and not self.is_whole(row)

    def mark_seen(self, row: int, start: int, stop: int) -> bool:
        """Record that characters ``start`` to ``stop`` of a row are on screen. Returns whether that
        is new and counts.

        A part after a gap counts only once the gap was on screen.
        """
        upto = self._upto[row]
        if self.is_whole(row) or start > max(upto, 0) or stop <= upto:
            return False  # what is drawn behind the text counts for nothing
        self._upto[row] = stop
        if stop < self._lengths[row]:
            return True
        self._left -= self._weights[row]
        return self._weights[row] > 0

    def count_seen(self, row: int) -> int:
        """Return how many characters from the start of the row were on screen."""
        return max(self._upto[row], 0)

    def is_whole(self, row: int) -> bool:
        """Whether the whole row was on screen."""
        return self._upto[row] >= self._lengths[row]


def whole_spans(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Extend the spans of a wrapped text by the spaces at its breaks, which count as shown."""
    starts = [0, *(start for start, _ in spans[1:])]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar. Where room is short, the parts with the lowest ``weight`` are left out
    first.
    """

    text: str
    style: Style
    weight: int = 5
    gap: int = 3  # columns before it


def arrange_bar(left: Sequence[BarPart], right: Sequence[BarPart], width: int, fill: Style) -> Row:
    """Return one row of exactly ``width`` cells with parts at both ends; the last remaining part is
    cut if needed.
    """
    left, right = list(left), list(right)
    while left or right:
        need = _count_cells(left) + _count_cells(right) + (2 if left and right else 0) + 2
        if need <= width or len({part.weight for part in (*left, *right)}) == 1:
            break
        least = min(part.weight for part in (*left, *right))
        # Parts of one weight belong together and go together.
        left = [part for part in left if part.weight != least]
        right = [part for part in right if part.weight != least]
    row: Row = [Segment(" " * min(1, width), fill)]
    row += _bar_segments(left, fill)
    tail = _bar_segments(right, fill)
    used = sum(cell_len(s.text) for s in row) + sum(cell_len(s.text) for s in tail)
    row += [Segment(" " * max(0, width - used - 1), fill), *tail, Segment(" ", fill)]
    return list(Strip(row).adjust_cell_length(width, fill))


def _count_cells(parts: Sequence[BarPart]) -> int:
    gaps = sum(part.gap for part in parts[1:])
    return gaps + sum(cell_len(part.text) for part in parts)


def _bar_segments(parts: Sequence[BarPart], fill: Style) -> Row:
    row: Row = []
    for number, part in enumerate(parts):
        if number:
            row.append(Segment(" " * part.gap, fill))
        row.append(Segment(part.text, fill + part.style))
    return row


class Rows(Widget):
    """A widget whose content is the rows returned by ``lines``; its height is their number."""

    words: reactive[Catalogue] = reactive(Catalogue, layout=True)

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._made: tuple[int, list[Row]] | None = None

    def lines(self, width: int) -> list[Row]:
        """Return the rows for this width; each is cut or padded to it."""
        raise NotImplementedError

    @property
    def palette(self) -> Palette:
        """The colours of the theme at hand."""
        return palette_of(self)

    def invalidate(self, *, layout: bool = False) -> None:
        """Compute the rows again; ``layout`` where their number may change."""
        self.refresh(layout=layout)

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        self._made = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._made = None

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows(width))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        rows = self._rows(width)
        background = self.rich_style.background_style
        if y >= len(rows):
            return Strip.blank(width, background)
        row = [Segment(text, background + (style or Style())) for text, style, _ in rows[y]]
        return Strip(row).adjust_cell_length(width, background)

    def _rows(self, width: int) -> list[Row]:
        if self._made is None or self._made[0] != width:
            self._made = (width, self.lines(width))
        return self._made[1]


class LineView(ScrollView):
    """A scrolled view that draws lines instead of widgets, and only those in sight.

    A subclass says how many lines there are and what is on each. Drawn lines are cached until size,
    theme, language or selection change, or ``redraw`` is called.
    """

    words: var[Catalogue] = var(Catalogue)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._strips: LRUCache[int, Strip] = LRUCache(512)  # by line

    # --- what each view says for itself --------------------------------------------------------

    def line_count(self, width: int) -> int:
        """Return the number of lines at this width."""
        raise NotImplementedError

    def row(self, line: int, width: int) -> Row:
        """Return the row on a line; empty below the last one."""
        raise NotImplementedError

    def on_screen(self, line: int) -> None:
        """Called when a line is about to be shown, from the cache or not."""

    # --- what a view calls ---------------------------------------------------------------------

    @property
    def ground_style(self) -> Style:
        """The background of every line."""
        palette = palette_of(self)
        return ink(palette.text, on=palette.background)

    @property
    def lines_in_sight(self) -> int:
        """Lines that the view has room for."""
        return self.scrollable_content_region.height

    @property
    def first_line(self) -> int:
        """The line at the top of the view."""
        return self.scroll_offset.y

    def redraw(self, first: int = 0, stop: int | None = None) -> None:
        """Draw these lines again; without a ``stop`` all from ``first`` on."""
        for line in list(self._strips.keys()):
            if first <= line and (stop is None or line < stop):
                self._strips.discard(line)
        width, height = self.scrollable_content_region.size
        low = max(0, first - self.first_line)
        high = height if stop is None else min(height, stop - self.first_line)
        if not first and stop is None:
            self.refresh()
        elif low < high:
            self.refresh(Region(0, low, width, high - low))

    def invalidate(self, *, layout: bool = False) -> None:
        """Draw everything again, because lines and their number may have changed; ``layout`` where
        the widget's height may change too.
        """
        self.fit_lines()
        self.redraw()
        if layout:
            self.refresh(layout=True)

    def fit_lines(self) -> None:
        """Set the scrollable height to the present number of lines."""
        width = self.scrollable_content_region.width
        if width and (size := Size(width, self.line_count(width))) != self.virtual_size:
            self.virtual_size = size

    def reveal_lines(self, first: int, stop: int) -> None:
        """Scroll so that line ``first`` is in sight, and as many of the following up to ``stop`` as
        fit.
        """
        top, height = self.first_line, max(1, self.lines_in_sight)
        if first < top:
            self.scroll_to(0, first, animate=False)
        elif stop > top + height:
            self.scroll_to(0, min(first, stop - height), animate=False)

    # --- Textual -------------------------------------------------------------------------------

    def watch_words(self) -> None:
        self.invalidate(layout=True)

    def on_resize(self) -> None:
        self.invalidate()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    def selection_updated(self, selection: Selection | None) -> None:
        self.redraw()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        width = self.scrollable_content_region.width
        rows = [self.row(line, width) for line in range(self.line_count(width))]
        return text_of(rows, 0, selection), "\n"

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        line = self.first_line + y
        self.on_screen(line)
        strip = self._strips.get(line)
        if strip is None or strip.cell_length != width:
            strip = self._strips[line] = self.draw_line(line, width)
        return strip

    def draw_line(self, line: int, width: int) -> Strip:
        """Return a line as a strip, with its selected part marked."""
        ground = self.ground_style
        row = self.row(line, width)
        if not row:
            return Strip.blank(width, ground)
        row = [Segment(s.text, ground + s.style if s.style else ground) for s in row]
        if not self.ALLOW_SELECT:
            return Strip(row).adjust_cell_length(width, ground)
        over = ink(None, on=palette_of(self).selection)
        return strip_of(mark_selection(row, line, self.text_selection, over), line, width, ground)


def two_sided(left: Row, right: Row, width: int) -> Row:
    """Return a row with ``right`` at the right edge and ``left`` cut to the remaining room."""
    room = width - sum(cell_len(s.text) for s in right)
    body: Row = []
    used = 0
    for segment in left:
        text = fit(segment.text, max(0, room - used))
        used += cell_len(text)
        body.append(Segment(text, segment.style))
        if text != segment.text:
            break
    return [*body, Segment(" " * max(0, room - used), ink(None)), *right]
