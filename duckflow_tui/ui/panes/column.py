"""Blocks one under the other, in a scrolled view that draws only what is in sight or near it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from typing import Final, cast

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip

from duckflow_tui.ui.palette import palette_named
from duckflow_tui.ui.panes.blocks import Block, Look
from duckflow_tui.ui.panes.strips import Row, fit, ink, row_text, strip_of
from duckflow_tui.words.catalogue import Catalogue

#: Rows kept drawn; those of blocks that were not looked at for longest go first.
KEPT_ROWS: Final = 2_000
_BLANK: Final[Row] = []


@dataclass(frozen=True, slots=True)
class LinePosition:
    """A line: the block's index and the row in it, -1 for the blank line above the block."""

    index: int
    row: int


class Column:
    """Finished blocks, which only grow in number, and live ones below, which come and go."""

    def __init__(self) -> None:
        self.finished: list[Block] = []
        self.live: list[Block] = []
        self._ends: list[int] = []  # line after each block, right as far as ``_sure`` of them
        self._sure = 0
        self._drawn: dict[Block, None] = {}  # finished blocks with rows, longest unused first
        self._drawn_rows = 0

    def __len__(self) -> int:
        return len(self.finished) + len(self.live)

    def block_at(self, index: int) -> Block:
        """The block at that index, live ones after the finished."""
        count = len(self.finished)
        return self.finished[index] if index < count else self.live[index - count]

    @property
    def total_height(self) -> int:
        """The lines of all blocks, with the blank ones between them."""
        self._measure_ends()
        return self._ends[-1] if self._ends else 0

    @property
    def finished_height(self) -> int:
        """Lines of the finished blocks."""
        self._measure_ends()
        return self._ends[len(self.finished) - 1] if self.finished else 0

    def append_blocks(self, blocks: Iterable[Block]) -> None:
        """Add finished blocks below those that are there."""
        self._sure = min(self._sure, len(self.finished))
        self.finished.extend(blocks)

    def set_live(self, blocks: list[Block]) -> None:
        """Put these below the finished blocks, in the place of those before."""
        self.live = blocks
        self._sure = min(self._sure, len(self.finished))

    def remove_all(self) -> None:
        """Remove all blocks."""
        self.finished.clear()
        self.live.clear()
        self._drawn.clear()
        self._drawn_rows = 0
        self._sure = 0

    def forget_rows(self, look: Look) -> None:
        """Drop all drawn rows, as the look has changed; blocks are drawn again when needed."""
        for block in (*self.finished, *self.live):
            block.forget_rows(look)
        self._drawn.clear()
        self._drawn_rows = 0
        self._sure = 0

    def invalidate_blocks(self, index: int, look: Look, others: Iterable[Block] = ()) -> None:
        """Drop the drawn rows of this block and of ``others``, which all lie below it."""
        for block in (self.block_at(index), *others):
            if block in self._drawn:
                del self._drawn[block]
                self._drawn_rows -= len(block.rows or ())
            block.forget_rows(look)
        self._sure = min(self._sure, index)

    def draw_block(self, index: int, look: Look) -> int:
        """Draw the block unless it has rows; returns by how many its height was underestimated."""
        block = self.block_at(index)
        more = 0
        if block.hidden:
            return 0
        if block.rows is None:
            rows = block.draw_rows(look)
            more = len(rows) - block.height
            block.rows = rows
            block.height = len(rows)
            block.measured = True
            if more:
                self._sure = min(self._sure, index)
        if index < len(self.finished):
            if block in self._drawn:
                del self._drawn[block]
            else:
                self._drawn_rows += block.height
            self._drawn[block] = None
        return more

    def evict_rows(self, keep: range) -> None:
        """Free rows of blocks outside ``keep`` while there are too many."""
        if self._drawn_rows <= KEPT_ROWS:
            return
        kept = {self.finished[at] for at in keep if at < len(self.finished)}
        for block in list(self._drawn):
            if self._drawn_rows <= KEPT_ROWS:
                return
            if block not in kept:
                del self._drawn[block]
                self._drawn_rows -= block.height
                block.rows = None

    def top_of(self, index: int) -> int:
        """The line of the block's first row."""
        self._measure_ends()
        above = self._ends[index - 1] if index else 0
        return above + self._gap_above(index)

    def position_at(self, line: int) -> LinePosition | None:
        """The place on that line; None below the last block or above the first line."""
        self._measure_ends()
        if line < 0 or not self._ends or line >= self._ends[-1]:
            return None
        index = bisect_right(self._ends, line)
        return LinePosition(index, max(-1, line - self.top_of(index)))

    def row_at(self, place: LinePosition) -> Row:
        """The row there; empty for a blank line, and for a block that is not drawn."""
        rows = self.block_at(place.index).rows
        if place.row < 0 or rows is None or place.row >= len(rows):
            return _BLANK
        return rows[place.row]

    def blocks_between(self, first: int, last: int) -> range:
        """Indexes of the blocks on the lines from ``first`` to before ``last``."""
        self._measure_ends()
        if not self._ends:
            return range(0)
        start = bisect_right(self._ends, max(0, first))
        stop = bisect_right(self._ends, max(0, last - 1))
        return range(min(start, len(self) - 1), min(stop + 1, len(self)))

    def live_rows(self) -> list[Row]:
        """The lines of the live blocks, blank ones included."""
        rows: list[Row] = []
        for number, block in enumerate(self.live, len(self.finished)):
            rows.extend([_BLANK] * self._gap_above(number))
            rows.extend(block.rows or ())
        return rows

    def invalidate_tops(self, index: int) -> None:
        """Compute positions from this block on again: some blocks were hidden or shown."""
        self._sure = min(self._sure, index)

    def _gap_above(self, index: int) -> int:
        """Blank lines above a block, next to the nearest block that is not hidden."""
        block = self.block_at(index)
        above = index - 1
        while above >= 0 and self.block_at(above).hidden:
            above -= 1
        return 0 if block.hidden or above < 0 else _gap_between(self.block_at(above), block)

    def _measure_ends(self) -> None:
        if self._sure == len(self) == len(self._ends):
            return
        del self._ends[self._sure :]
        base = self._ends[-1] if self._ends else 0
        heights = self._iterate_heights(self._sure)
        if not self._ends:
            self._ends = list(accumulate(heights))
        else:
            self._ends.extend(end for end in accumulate(heights, initial=base))
            del self._ends[self._sure]
        self._sure = len(self._ends)

    def _iterate_heights(self, start: int) -> Iterator[int]:
        above: Block | None = None  # the nearest that is not hidden
        gap = self._gap_above(start) if start < len(self) else 0
        for index in range(start, len(self)):
            block = self.block_at(index)
            if block.hidden:
                yield 0
                continue
            if above is not None:
                gap = _gap_between(above, block)
            elif index > start:
                gap = self._gap_above(index)
            yield gap + block.height
            above = block


def _gap_between(above: Block, below: Block) -> int:
    if above.group == "head" or (above.group == below.group and below.group != "text"):
        return 0
    return 1


#: A place that survives another width: block, and characters of it above; -1: the line above it.
Anchor = tuple[int, int]


CACHED_STRIPS: Final = 600


class ColumnView(ScrollView):
    """Keeps the view where the user left it: at the end, or at the same words.

    Heights of blocks that were never in sight are estimates. A block is drawn before it comes
    into sight, and what that changes above the view moves the view's number, not what it shows.
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.following = True
        self._column = Column()
        self._look = Look(palette_named(""), 80, Catalogue())
        self._seen = 0  # lines there were when the user left the end
        self._anchor: Anchor | None = None  # kept over changes of width until the user scrolls
        self._moving = False  # a scroll of our own is under way
        self._strips: dict[int, tuple[Row, Strip]] = {}  # by line, with the row they show

    @property
    def new_lines(self) -> int:
        """Lines that came below since the user left the end."""
        return 0 if self.following else max(0, self._column.total_height - self._seen)

    @property
    def rows_in_sight(self) -> int:
        """Lines of the view."""
        return self.scrollable_content_region.height

    def _top_place(self) -> Anchor | None:
        """The block at the top of the view, and how many of its characters lie above it."""
        place = self._column.position_at(self.scroll_offset.y)
        if place is None:
            return None
        rows = self._column.block_at(place.index).rows or []
        above = sum(_count_characters(row) for row in rows[: max(0, place.row)])
        return place.index, above if place.row >= 0 else -1

    def _line_of(self, anchor: Anchor) -> int:
        index, above = anchor
        index = min(index, len(self._column) - 1)
        top = self._column.top_of(index)
        if above < 0:
            return top - 1
        rows = self._column.block_at(index).rows or []
        for row, content in enumerate(rows):
            above -= _count_characters(content)
            if above < 0:
                return top + row
        return top + max(0, len(rows) - 1)

    def _update_view(self, anchor: Anchor | None = None) -> None:
        """Draw what is in sight or near it; then the view is where it was, or at the end."""
        column, look, height = self._column, self._look, self.rows_in_sight
        if not height or not len(column):
            self._resize_to(column.total_height)
            self._show_bar()
            return
        if anchor is not None and not self.following:
            column.draw_block(min(anchor[0], len(column) - 1), look)
            self._move_to(self._line_of(anchor))
        for _ in range(8):  # heights that turn out otherwise bring other blocks into sight
            end = max(0, column.total_height - height)
            top = end if self.following else min(self.scroll_offset.y, end)
            near = column.blocks_between(top - height, top + 2 * height)
            place = column.position_at(top)
            grown = above = 0
            for index in near:
                known = column.top_of(index) < self._seen
                more = column.draw_block(index, look)
                grown += abs(more)
                if place is not None and index < place.index:
                    above += more
                if known:
                    self._seen += more
            column.evict_rows(near)
            self._resize_to(column.total_height)
            self._move_to(column.total_height if self.following else top + above)
            if not grown:
                break
            self.refresh()
        self._show_bar()

    def measure(self, most: int) -> bool:
        """Draw up to ``most`` blocks whose height is an estimate; whether some are left."""
        blocks = self._column.finished
        unsure = [
            index
            for index in reversed(range(len(blocks)))
            if not blocks[index].measured and not blocks[index].hidden
        ]
        for index in unsure[:most]:
            self._column.draw_block(index, self._look)
        self._update_view(None if self.following else self._top_place())
        return len(unsure) > most

    def _resize_to(self, height: int) -> None:
        size = Size(self._look.width, height)
        if size == self.virtual_size:
            return
        # Assigned, it would lay the whole screen out again, many times a second.
        self.set_reactive(cast("Reactive[Size]", ColumnView.virtual_size), size)

    def _show_bar(self) -> None:
        """Give the scroll bar the size and place of the view; repaint it only if that shows."""
        height, rows = self._column.total_height, self.rows_in_sight
        if not self.show_vertical_scrollbar or not height:
            return
        # Of a page shorter than the view Textual would draw a thumb longer than its track.
        height = max(height, rows)
        bar = self.vertical_scrollbar
        # Textual writes height and rows at each layout, but not the position: all three are kept
        # up to date, so that a layout leaves the thumb where it is.
        drawn = thumb_of(bar.window_virtual_size, bar.window_size, bar.position)
        bar.set_reactive(ScrollBar.window_virtual_size, height)
        bar.set_reactive(ScrollBar.window_size, rows)
        bar.set_reactive(ScrollBar.position, self.scroll_y)
        if thumb_of(height, rows, self.scroll_y) != drawn:
            bar.refresh()

    def _move_to(self, line: int) -> None:
        self._moving = True
        line = max(0, min(line, self.max_scroll_y))
        self.scroll_target_y = self.scroll_y = line
        self._moving = False

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of the view. There is no border and no padding here, so strips that did not
        change need no styling, and filters remember what they made of them.
        """
        filters = self.get_line_filters()
        background = self.background_colors[1]
        strips: list[Strip] = []
        for y in crop.line_range:
            strip = self._drawn_line(y)
            for line_filter in filters:
                strip = strip.apply_filter(line_filter, background)
            strips.append(strip)
        left, right = crop.column_span
        if (left, right) != (0, self._look.width):
            strips = [strip.crop(left, right) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        """The line with its offsets, by which Textual finds what the pointer is at."""
        if self.new_lines and y == self.rows_in_sight - 1:
            return self._drawn_line(y)
        line = self.scroll_offset.y + y
        place, row = self._row_on(line)
        return self._make_strip(row, place, line, offsets_of=line)

    def _drawn_line(self, y: int) -> Strip:
        """The line with the offsets of the first one. With its own no two places of the page would
        have a style in common, and each that was ever drawn stays in the caches of Rich and
        Textual, 16,384 in each.
        """
        count = self.new_lines
        if count and y == self.rows_in_sight - 1:
            return self._new_lines_strip(count, self._look.width)
        line = self.scroll_offset.y + y
        place, row = self._row_on(line)
        known = self._strips.get(line)
        if known is not None and known[0] is row:
            return known[1]
        strip = self._make_strip(row, place, line, offsets_of=0)
        if len(self._strips) > CACHED_STRIPS:
            self._strips.clear()
        self._strips[line] = (row, strip)
        return strip

    def _row_on(self, line: int) -> tuple[LinePosition | None, Row]:
        place = self._column.position_at(line)
        return place, [] if place is None else self._column.row_at(place)

    def _make_strip(
        self, row: Row, place: LinePosition | None, line: int, *, offsets_of: int
    ) -> Strip:
        look = self._look
        dressed = row if place is None else self._lay_over(row, place, line)
        ground = ink(look.palette.text, on=look.palette.background)
        return strip_of(dressed, offsets_of, look.width, ground).apply_style(ground)

    def _lay_over(self, row: Row, place: LinePosition, line: int) -> Row:
        """The row with highlights added. When these change, ``_repaint_all`` must be called."""
        return row

    def _refresh_lines_in_sight(self, first: int, stop: int | None) -> None:
        """Repaint these lines, without a ``stop`` all below, and the count of new lines."""
        rows, top = self.rows_in_sight, self.scroll_offset.y
        low = max(0, first - top)
        high = rows if stop is None else min(rows, stop - top)
        if low < high:
            self.refresh(Region(0, low, self._look.width, high - low))
        if self.new_lines and rows:
            self.refresh(Region(0, rows - 1, self._look.width, 1))

    def _repaint_all(self) -> None:
        """Draw all lines again, because their highlights changed."""
        self._strips.clear()
        self.refresh()

    def _new_lines_strip(self, count: int, width: int) -> Strip:
        palette, words = self._look.palette, self._look.words
        key = "transcript.new_line" if count == 1 else "transcript.new_lines"
        text = f" {fit(words(key, count=count), max(1, width - 2))} "
        style = ink(palette.accent, on=palette.raised)
        lead = " " * self._look.margin
        return Strip([Segment(lead), Segment(text, style)]).adjust_cell_length(width, style)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if round(old_value) == round(new_value):
            return
        self.refresh(self.size.region)
        if self._moving:
            return
        self._anchor = None
        at_end = new_value >= self.max_scroll_y
        if self.following and not at_end:
            self._seen = self._column.total_height
        self.following = at_end
        self._update_view()

    def show_block(self, index: int) -> None:
        """Bring a block into sight, a third down, unless its first row is there already."""
        if self.following:
            self._seen = self._column.total_height
        self.following = False
        self._anchor = None
        self._column.draw_block(index, self._look)
        self._resize_to(self._column.total_height)
        height, line = self.rows_in_sight, self._column.top_of(index)
        if not self.scroll_offset.y <= line < self.scroll_offset.y + height - 1:
            self._move_to(line - height // 3)
        self._update_view()
        self.following = self.scroll_offset.y >= self.max_scroll_y
        self._repaint_all()

    def scroll_by(self, rows: int) -> None:
        """Move the view by so many rows, up when negative, without animation."""
        self.scroll_to(y=self.scroll_offset.y + rows, animate=False)

    def action_scroll_up(self) -> None:
        self.scroll_by(-1)

    def action_scroll_down(self) -> None:
        self.scroll_by(1)

    def action_page_up(self) -> None:
        self.scroll_by(-max(1, self.rows_in_sight - 2))

    def action_page_down(self) -> None:
        self.scroll_by(max(1, self.rows_in_sight - 2))

    def action_scroll_home(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_scroll_end(self) -> None:
        """To the end, and stay there while more comes."""
        self.following = True
        self._anchor = None
        self._update_view()
        self.refresh()


def thumb_of(height: float, rows: float, position: float) -> tuple[float, int, int]:
    """Rows of the scroll bar, start and length of its thumb in eighths of a cell, as Textual
    draws them: the thumb is never shorter than a cell.
    """
    length = max(1, rows * rows / height) if height else 1
    start = int((rows - length) * position / max(1, height - rows) * 8)
    return rows, start, ceil(length * 8)


def _count_characters(row: Row) -> int:
    """The characters of a row without spaces, a count that no wrapping changes."""
    return len("".join(row_text(row).split()))
