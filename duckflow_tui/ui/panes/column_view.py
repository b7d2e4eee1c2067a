"""A scrolled view of blocks that draws only those in sight or near it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from time import thread_time
from typing import Final, cast

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from duckflow_tui.ui.palette import palette_named
from duckflow_tui.ui.panes.blocks import Block, Look
from duckflow_tui.ui.panes.column import Column, LinePosition
from duckflow_tui.ui.panes.column_text import copied_text, whole_selection
from duckflow_tui.ui.panes.search import BlockSearch, Hit
from duckflow_tui.ui.panes.strips import (
    Row,
    fit,
    ink,
    mark_row,
    mark_selection,
    row_text,
    strip_of,
)
from duckflow_tui.words.catalogue import Catalogue

#: Seconds of work in which a search makes no pause; a chat of 5,000 messages takes about one.
SEARCH_SLICE: Final = 0.05
#: A place that survives another width: block, and characters of it above; -1: the line above it.
Anchor = tuple[int, int]


CACHED_STRIPS: Final = 600


class ColumnView(ScrollView):
    """A column of blocks that can be scrolled, selected, copied and searched. It stays at its end,
    or at the text the user scrolled to.

    Heights of blocks that were never in sight are estimates. A block is drawn before it comes into
    sight; where its height differs, the scroll offset changes, not the text in view.
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.when_resized: Callable[[], None] | None = (
            None  # called when the content is taller, or less
        )
        self.following = True
        self._column = Column()
        self._look = Look(palette_named(""), 80, Catalogue())
        self._seen = 0  # lines there were when the user left the end
        self._anchor: Anchor | None = None  # kept over changes of width until the user scrolls
        self._moving = False  # a scroll of our own is under way
        self._strips: dict[int, tuple[Row, Strip]] = {}  # by line, with the row they show
        self._search: BlockSearch | None = None
        self._on_more: Callable[[], None] | None = None
        self._texts: dict[Block, str] = {}  # of blocks that were searched, while a search goes on
        self._hits: dict[Block, list[list[Hit]]] = {}

    @property
    def new_lines(self) -> int:
        """The number of lines added below since the user scrolled away from the end."""
        return 0 if self.following else max(0, self._column.total_height - self._seen)

    @property
    def rows_in_sight(self) -> int:
        """The height of the view in lines."""
        return self.scrollable_content_region.height

    def _top_place(self) -> Anchor | None:
        """Return the block at the top of the view and how many of its characters are above it; None
        without blocks.
        """
        place = self._column.position_at(self.scroll_offset.y)
        if place is None:
            return None
        rows = self._column.block_at(place.index).rows or []
        above = sum(_count_characters(row) for row in rows[: max(0, place.row)])
        return place.index, above if place.row >= 0 else -1

    def _line_of(self, anchor: Anchor) -> int:
        """Return the line on which the anchor's character is drawn now."""
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
        """Draw the blocks in sight or near it, then scroll to the anchor, or to the end while
        following.
        """
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
        """Draw up to ``most`` blocks whose height is an estimate. Returns whether any are left."""
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
        """Set the scrollable height without laying the screen out again."""
        size = Size(self._look.width, height)
        if size == self.virtual_size:
            return
        # Assigned, it would lay the whole screen out again, many times a second.
        self.set_reactive(cast("Reactive[Size]", ColumnView.virtual_size), size)
        if self.when_resized is not None:
            self.when_resized()

    def _show_bar(self) -> None:
        """Set size and position of the scroll bar as a layout would."""
        height, rows = self._column.total_height, self.rows_in_sight
        if not self.show_vertical_scrollbar or not height:
            return
        bar = self.vertical_scrollbar
        # Of a page shorter than the view Textual would draw a thumb longer than its track.
        bar.window_virtual_size, bar.window_size = max(height, rows), rows
        bar.position = self.scroll_y

    def _move_to(self, line: int) -> None:
        """Scroll to a line at once, without the effects of scrolling by the user."""
        self._moving = True
        line = max(0, min(line, self.max_scroll_y))
        self.scroll_target_y = self.scroll_y = line
        self._moving = False

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines of the view. There is no border and no padding, so unchanged strips need
        no styling and their cached filtered versions are used.
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
        """Return a line with its offsets, by which Textual finds the text under the pointer."""
        if self.new_lines and y == self.rows_in_sight - 1:
            return self._drawn_line(y)
        line = self.scroll_offset.y + y
        place, row = self._row_on(line)
        return self._make_strip(row, place, line, offsets_of=line)

    def _drawn_line(self, y: int) -> Strip:
        """Return a line with the offsets of line 0. With its own offsets no two lines would share a
        style, and each ever drawn would stay in Rich's and Textual's caches of 16,384 entries.
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
        """Return the place and the segments of a line; None and no segments outside the blocks."""
        place = self._column.position_at(line)
        return place, [] if place is None else self._column.row_at(place)

    def _make_strip(
        self, row: Row, place: LinePosition | None, line: int, *, offsets_of: int
    ) -> Strip:
        """Return a row as a strip with selection, search matches and cursor applied."""
        look = self._look
        dressed = row if place is None else self._lay_over(row, place, line)
        ground = ink(look.palette.text, on=look.palette.background)
        return strip_of(dressed, offsets_of, look.width, ground).apply_style(ground)

    def _lay_over(self, row: Row, place: LinePosition, line: int) -> Row:
        """Return the row with search matches and selection marked. When these change,
        ``_repaint_all`` must be called.
        """
        if self._search is not None and place.index < len(self._column.finished):
            palette, current = self._look.palette, self._search.current_match
            matches = self._hits_in(self._column.block_at(place.index))
            here = current is not None and current.index == place.index
            chosen = min(current.nth, len(matches) - 1) if here and current else -1
            for nth, match in enumerate(matches):
                style = ink(palette.text, on=palette.selection, underline=True)
                if nth == chosen:
                    style = ink(palette.on_accent, on=palette.accent)
                for hit in match:
                    if hit.row == place.row:
                        row = mark_row(row, hit.start, hit.stop, style)
        selected = ink(self._look.palette.text, on=self._look.palette.selection)
        return mark_selection(row, line, self.text_selection, selected)

    def _refresh_lines_in_sight(self, first: int, stop: int | None) -> None:
        """Repaint these lines, or all from ``first`` on without a ``stop``, and the count of new
        lines.
        """
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
        """Return the bar that shows how many lines were added below."""
        palette, words = self._look.palette, self._look.words
        text = f" {fit(words('transcript.new_lines', count=count), max(1, width - 2))} "
        style = ink(palette.accent, on=palette.raised)
        lead = " " * self._look.margin
        return Strip([Segment(lead), Segment(text, style)]).adjust_cell_length(width, style)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw the rows in view; where the user scrolled, follow new content only at the end."""
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
        """Scroll a block into sight, a third down, unless its first row is visible."""
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
        """Scroll by so many rows, up when negative, without animation."""
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
        """Scroll to the end and follow it."""
        self.following = True
        self._anchor = None
        self._update_view()
        self.refresh()

    # --- selecting and copying --------------------------------------------------------------

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text: sources of replies and messages that are selected whole."""
        text = copied_text(self._column, self._look, selection)
        return (text, "\n") if text else None

    def selection_updated(self, selection: Selection | None) -> None:
        """Repaint the selection; the view stays in place while something is selected."""
        if selection is not None and self.following:
            self.following = False
            self._seen = self._column.total_height
        elif selection is None and self.scroll_offset.y >= self.max_scroll_y:
            self.following = True
        self._repaint_all()

    def action_select_everything(self) -> None:
        self._select_text(Selection(None, None))

    def action_select_block(self, by: int) -> None:
        """Select the message above (-1) or below (1) the selected one; the last one at first."""
        now = self.text_selection
        shown = [n for n in range(len(self._column)) if not self._column.block_at(n).hidden]
        if not shown:
            return
        index = shown[-1]
        if now is not None and now.start is not None:
            place = self._column.position_at(now.start.y)
            at = bisect_left(shown, place.index if place else len(self._column)) + by
            index = shown[max(0, min(at, len(shown) - 1))]
        self._column.draw_block(index, self._look)
        self._select_block(index)
        top, height = self._column.top_of(index), self.rows_in_sight
        if not self.scroll_offset.y <= top < self.scroll_offset.y + height:
            self.scroll_to(y=top - height // 3, animate=False)

    def _select_block(self, index: int) -> None:
        block, top = self._column.block_at(index), self._column.top_of(index)
        self._select_text(whole_selection(block, top, self._look.indent))

    def _select_text(self, selection: Selection) -> None:
        self.screen.selections = {self: selection}

    def _drop_selection(self) -> None:
        if self.is_attached and self.text_selection is not None:
            kept = {w: s for w, s in self.screen.selections.items() if w is not self}
            self.screen.selections = kept

    # --- searching ---------------------------------------------------------------------------

    def search(self, query: str, on_more: Callable[[], None] | None = None) -> int:
        """Mark every match of the query and return how many were found at once; an empty query ends
        the search. A long chat is searched piece by piece; ``on_more`` is called after each.
        """
        self._forget_search()
        if query.strip():
            self._search = BlockSearch(query, len(self._column.finished))
            self._on_more = on_more
            self._search_on()
        else:
            self._texts.clear()
        self._repaint_all()
        return self.search_position[1]

    @property
    def search_position(self) -> tuple[int, int]:
        """Return the number of the current match (from 1; 0 before the first step) and the number
        of all.
        """
        return self._search.position if self._search is not None else (0, 0)

    def next_match(self, step: int = 1) -> int:
        """Go to the next match below (1) or above (-1), wrapping around. Returns its number from 1;
        0 without matches.
        """
        found = self._search.step_to_match(step) if self._search else None
        if self._search is None or found is None:
            return 0
        column, block = self._column, self._column.block_at(found.index)
        self._bring_out(found.index)
        column.draw_block(found.index, self._look)
        in_block = sum(match.index == found.index for match in self._search.found)
        if block.foldable and not block.opened and len(self._hits_in(block)) < in_block:
            block.set_open(opened=True)
            self._invalidate_blocks(found.index)
            column.draw_block(found.index, self._look)
        matches = self._hits_in(block)
        match = matches[min(found.nth, len(matches) - 1)] if matches else []
        row = match[0].row if match else 0
        new_lines = self.new_lines  # drawing what was not in sight changes heights, adds nothing
        self.following = False
        self._anchor = None
        self._resize_to(column.total_height)
        height = self.rows_in_sight
        line = column.top_of(found.index) + row
        top = self.scroll_offset.y
        if not top <= line < top + height - 1:
            self._move_to(line - height // 3)
        self._update_view()
        self._seen = column.total_height - new_lines
        self.following = self.scroll_offset.y >= self.max_scroll_y
        self._repaint_all()
        return self.search_position[0]

    def _hits_in(self, block: Block) -> list[list[Hit]]:
        """Return the matches in a block's rows, a list for each row; cached."""
        if self._search is None or block.rows is None:
            return []
        if block not in self._hits:
            self._hits[block] = self._search.find_hits(block.rows, self._look)
        return self._hits[block]

    def _bring_out(self, index: int) -> None:
        """Show the block where it is folded away; does nothing here."""

    def _search_on(self) -> None:
        """Search added blocks, and older ones for one time slice."""
        search, blocks = self._search, self._column.finished
        if search is None:
            return
        while search.stop < len(blocks):
            search.read_newer(self._text_of(blocks[search.stop]))
        until = thread_time() + SEARCH_SLICE
        while search.first and thread_time() < until:
            search.read_older(self._text_of(blocks[search.first - 1]))
        if search.first:
            self.call_later(self._search_more, search)

    def _search_more(self, search: BlockSearch) -> None:
        """Go on with a search that was interrupted, unless it is over or another one has begun."""
        if search is self._search and search.first:
            self._search_on()
            if self._on_more is not None:
                self._on_more()

    def _text_of(self, block: Block) -> str:
        """Return the text of a block that a search reads, kept for the length of the search."""
        if block not in self._texts:
            self._texts[block] = block.search_text(self._look)
        return self._texts[block]

    def _forget_search(self) -> None:
        self._search = self._on_more = None
        self._hits.clear()

    def _forget_matches(self) -> None:
        """Drop the cached matches, because rows are about to be drawn again."""
        self._hits.clear()
        self._texts.clear()

    def _invalidate_blocks(self, index: int, others: Sequence[Block] = ()) -> None:
        for block in (self._column.block_at(index), *others):
            self._hits.pop(block, None)
            self._texts.pop(block, None)
        self._column.invalidate_blocks(index, self._look, others)


def _count_characters(row: Row) -> int:
    """Count the characters of a row without spaces, which wrapping does not change."""
    return len("".join(row_text(row).split()))
