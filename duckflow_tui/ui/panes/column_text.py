"""The text of a column of blocks: selected, copied and searched."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from time import thread_time
from typing import Final

from rich.cells import cell_len
from textual.geometry import Offset
from textual.selection import Selection

from duckflow_tui.safety.safe_text import make_visible
from duckflow_tui.ui.panes.blocks import Block, Look, text_of_rows
from duckflow_tui.ui.panes.column import Column, ColumnView, LinePosition
from duckflow_tui.ui.panes.strips import Row, Span, ink, mark_row, mark_selection, row_text, text_of

#: Seconds of work in which a search makes no pause; a chat of 5,000 messages takes about one.
SEARCH_SLICE: Final = 0.05
#: Between two words of a text: also a line that stands before rows that belong together.
_GAP: Final = r"[\s│▌]+"
_BROKEN: Final = r"(?:\n[ │▌]*)?"  # where a word too long for a row goes on in the next


@dataclass(frozen=True, slots=True)
class Hit:
    """A match on the screen: row of the block, characters of the row."""

    row: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A match in the text of a block, by the block's index and its number among them."""

    index: int
    nth: int


class Search:
    """One query over some blocks. Upper and lower case are the same, a space is any space."""

    def __init__(self, query: str, blocks: int) -> None:
        """``blocks``: how many there are; they are read from the last one on."""
        words = make_visible(query).split()
        self._pattern = re.compile(
            _GAP.join(_BROKEN.join(map(re.escape, word)) for word in words), re.IGNORECASE
        )
        self.found: list[TextMatch] = []
        self.at: int | None = None  # index of the match that was gone to last
        self.first = self.stop = blocks  # the blocks between them were read

    def read_newer(self, text: str) -> None:
        """Take the text of the block below those that were read."""
        self.found += self._match_text(text, self.stop)
        self.stop += 1

    def read_older(self, text: str) -> None:
        """Take the text of the block above those that were read."""
        self.first -= 1
        matches = self._match_text(text, self.first)
        self.found[:0] = matches
        if self.at is not None:
            self.at += len(matches)

    def _match_text(self, text: str, index: int) -> list[TextMatch]:
        return [TextMatch(index, nth) for nth, _ in enumerate(self._pattern.finditer(text))]

    @property
    def current_match(self) -> TextMatch | None:
        """The match that the view went to last."""
        return None if self.at is None else self.found[self.at]

    def step_to_match(self, by: int) -> TextMatch | None:
        """The next match (1) or the one before (-1), round the ends; None when there is none.

        The first step goes to the newest match whichever way it is.
        """
        if not self.found:
            return None
        last = len(self.found) - 1
        self.at = last if self.at is None else (self.at + by) % len(self.found)
        return self.found[self.at]

    def find_hits(self, rows: Sequence[Row], look: Look) -> list[list[Hit]]:
        """Where the query stands in drawn rows; a match that goes on in the next row is two."""
        text = text_of_rows(rows, look)
        lines = text.split("\n")
        starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        matches: list[list[Hit]] = []
        for match in self._pattern.finditer(text):
            row = bisect_right(starts, match.start()) - 1
            parts: list[Hit] = []
            while row < len(lines) and starts[row] < match.end():
                begin = max(0, match.start() - starts[row])
                end = min(len(lines[row]), match.end() - starts[row])
                if end > begin:
                    parts.append(Hit(row, begin + look.indent, end + look.indent))
                row += 1
            matches.append(parts)
        return matches


def copied_text(column: Column, look: Look, selection: Selection) -> str:
    """The selected text: the source of blocks selected whole, else the text of the rows."""
    first = 0 if selection.start is None else selection.start.y
    last = column.total_height - 1 if selection.end is None else selection.end.y
    parts: list[str] = []
    above: Block | None = None
    for index in column.blocks_between(first, last + 1):
        block = column.block_at(index)
        if block.hidden:
            continue
        if block.source_text and covers_block(selection, block, column.top_of(index), look.indent):
            text = block.source_text
        else:
            column.draw_block(index, look)
            text = text_of(block.rows or [], column.top_of(index), selection, look.indent)
        if not text.strip("\n"):
            continue
        if above is not None:
            together = above.group == block.group and above.group != "text"
            parts.append("\n" if together else "\n\n")
        parts.append(text)
        above = block
    return "".join(parts)


def whole_selection(block: Block, top: int, indent: int) -> Selection:
    """The selection that covers a drawn block; ``top`` is the line of its first row."""
    rows = block.rows or [[]]
    return Selection(Offset(indent, top), Offset(len(row_text(rows[-1])), top + len(rows) - 1))


def word_at(text: str, cell: int, indent: int) -> Span | None:
    """The characters of the word under a cell; None between words. None begins in the margin."""
    at = next((n for n in range(len(text)) if cell_len(text[: n + 1]) > cell), None)
    if at is None or text[at].isspace():
        return None
    start = stop = at
    while start > indent and _is_one_word(text[start - 1], text[at]):
        start -= 1
    while stop < len(text) and _is_one_word(text[stop], text[at]):
        stop += 1
    return start, stop


def _is_one_word(one: str, other: str) -> bool:
    return one == other or (_in_word(one) and _in_word(other))


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def covers_block(selection: Selection, block: Block, top: int, indent: int) -> bool:
    """Whether the selection holds everything the block says."""
    start, end = selection
    bottom = top + block.height - 1
    if start is not None and (start.y > top or (start.y == top and start.x > indent)):
        return False
    if end is None or end.y > bottom:
        return True
    last = block.rows[-1] if block.rows else []
    return end.y == bottom and end.x >= len(row_text(last).rstrip())


class SelectableColumn(ColumnView):
    """A column whose text can be selected and copied."""

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text: sources of replies and messages that are selected whole."""
        text = copied_text(self._column, self._look, selection)
        return (text, "\n") if text else None

    def selection_updated(self, selection: Selection | None) -> None:
        """Paint it; while something is selected the view stays where it is."""
        if selection is not None and self.following:
            self.following = False
            self._seen = self._column.total_height
        elif selection is None and self.scroll_offset.y >= self.max_scroll_y:
            self.following = True
        self._repaint_all()

    def action_select_everything(self) -> None:
        self._select_text(Selection(None, None))

    def action_select_block(self, by: int) -> None:
        """Select the message above (-1) or below (1) the selected one, the last one at first."""
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

    def _lay_over(self, row: Row, place: LinePosition, line: int) -> Row:
        palette = self._look.palette
        style = ink(palette.text, on=palette.selection)
        return mark_selection(super()._lay_over(row, place, line), line, self.text_selection, style)


class SearchableColumn(SelectableColumn):
    """A column that marks what is searched for, in its finished blocks."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._search: Search | None = None
        self._on_more: Callable[[], None] | None = None
        self._texts: dict[Block, str] = {}  # of blocks that were searched, while a search goes on
        self._hits: dict[Block, list[list[Hit]]] = {}

    def search(self, query: str, on_more: Callable[[], None] | None = None) -> int:
        """Mark every match of the query; how many were found at once. An empty query ends the
        search. ``on_more`` is called whenever more of a long chat has been read.
        """
        self._forget_search()
        if query.strip():
            self._search = Search(query, len(self._column.finished))
            self._on_more = on_more
            self._search_on()
        else:
            self._texts.clear()
        self._repaint_all()
        return self.search_position[1]

    @property
    def search_position(self) -> tuple[int, int]:
        """Number of the current match, from 1, 0 before the first step; and of all matches."""
        if self._search is None:
            return 0, 0
        at = self._search.at
        return (0 if at is None else at + 1), len(self._search.found)

    def next_match(self, step: int = 1) -> int:
        """Go to the next match further down (1) or up (-1), round the end; its number from 1, 0
        for none.
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
        if self._search is None or block.rows is None:
            return []
        if block not in self._hits:
            self._hits[block] = self._search.find_hits(block.rows, self._look)
        return self._hits[block]

    def _bring_out(self, index: int) -> None:
        """Have the block shown where it is folded away with others."""

    def _search_on(self) -> None:
        """Search the blocks that were added, and older ones for as long as a slice lasts."""
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

    def _search_more(self, search: Search) -> None:
        if search is self._search and search.first:
            self._search_on()
            if self._on_more is not None:
                self._on_more()

    def _text_of(self, block: Block) -> str:
        if block not in self._texts:
            self._texts[block] = block.search_text(self._look)
        return self._texts[block]

    def _forget_search(self) -> None:
        self._search = self._on_more = None
        self._hits.clear()

    def _forget_matches(self) -> None:
        """Rows are about to be drawn anew."""
        self._hits.clear()
        self._texts.clear()

    def _invalidate_blocks(self, index: int, others: Sequence[Block] = ()) -> None:
        for block in (self._column.block_at(index), *others):
            self._hits.pop(block, None)
            self._texts.pop(block, None)
        self._column.invalidate_blocks(index, self._look, others)

    def _lay_over(self, row: Row, place: LinePosition, line: int) -> Row:
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
        return super()._lay_over(row, place, line)
