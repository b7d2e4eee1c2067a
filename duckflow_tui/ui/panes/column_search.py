"""Going from match to match in a column of blocks."""

from __future__ import annotations

from duckflow_tui.ui.panes.blocks import Block
from duckflow_tui.ui.panes.column import Place
from duckflow_tui.ui.panes.column_select import SelectableColumn
from duckflow_tui.ui.panes.strips import Row, ink, marked
from duckflow_tui.ui.panes.transcript_search import Hit, Search


class SearchableColumn(SelectableColumn):
    """A column that marks what is searched for, in its finished blocks."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._search: Search | None = None
        self._hits: dict[Block, list[list[Hit]]] = {}

    def search(self, query: str) -> int:
        """Mark every match of the query; how many there are. An empty query ends the search."""
        self._hits.clear()
        self._search = Search(query) if query.strip() else None
        self._repaint()
        return self._search.look(self._column.finished) if self._search else 0

    @property
    def search_position(self) -> tuple[int, int]:
        """Number of the current match, from 1, 0 before the first step; and of all matches."""
        if self._search is None:
            return 0, 0
        at = self._search.at
        return (0 if at is None else at + 1), len(self._search.found)

    def search_next(self) -> bool:
        """To the next match further down, round the end; False when there is none."""
        return self._go_to_match(1)

    def search_previous(self) -> bool:
        """To the next match further up, round the beginning; False when there is none."""
        return self._go_to_match(-1)

    def _go_to_match(self, by: int) -> bool:
        found = self._search.step(by) if self._search else None
        if found is None:
            return False
        column, block = self._column, self._column.block(found.index)
        column.draw(found.index, self._look)
        if block.foldable and not block.opened and len(self._matches(block)) <= found.nth:
            block.opened = True
            self._redraw(found.index)
            column.draw(found.index, self._look)
        matches = self._matches(block)
        match = matches[min(found.nth, len(matches) - 1)] if matches else []
        row = match[0].row if match else 0
        new_lines = self.new_lines  # drawing what was not in sight changes heights, adds nothing
        self.following = False
        self._anchor = None
        self._resize_to(column.height)
        height = self.rows_in_sight
        line = column.top(found.index) + row
        top = self.scroll_offset.y
        if not top <= line < top + height - 1:
            self._move(line - height // 3)
        self._settle()
        self._seen = column.height - new_lines
        self.following = self.scroll_offset.y >= self.max_scroll_y
        self._repaint()
        return True

    def _matches(self, block: Block) -> list[list[Hit]]:
        if self._search is None or block.rows is None:
            return []
        if block not in self._hits:
            self._hits[block] = self._search.hits(block.rows, self._look.indent)
        return self._hits[block]

    def _search_on(self) -> None:
        """Look through blocks that were added."""
        if self._search is not None:
            self._search.look(self._column.finished)

    def _forget_search(self) -> None:
        self._search = None
        self._hits.clear()

    def _forget_matches(self) -> None:
        """Rows are about to be drawn anew."""
        self._hits.clear()

    def _redraw(self, index: int) -> None:
        self._hits.pop(self._column.block(index), None)
        self._column.redraw(index, self._look)

    def _dressed(self, row: Row, place: Place, line: int) -> Row:
        if self._search is not None and place.index < len(self._column.finished):
            palette, current = self._look.palette, self._search.current
            matches = self._matches(self._column.block(place.index))
            here = current is not None and current.index == place.index
            chosen = min(current.nth, len(matches) - 1) if here and current else -1
            for nth, match in enumerate(matches):
                style = ink(palette.text, on=palette.selection, underline=True)
                if nth == chosen:
                    style = ink(palette.on_accent, on=palette.accent)
                for hit in match:
                    if hit.row == place.row:
                        row = marked(row, hit.start, hit.stop, style)
        return super()._dressed(row, place, line)
