"""Selecting in a column of blocks, with the pointer and message by message with keys."""

from __future__ import annotations

from textual.selection import Selection

from duckflow_tui.ui.panes.column import Place
from duckflow_tui.ui.panes.column_view import ColumnView
from duckflow_tui.ui.panes.copying import copied, whole
from duckflow_tui.ui.panes.strips import Row, ink, selected


class SelectableColumn(ColumnView):
    """A column whose text can be selected and copied."""

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text: sources of replies and messages that are selected whole."""
        text = copied(self._column, self._look, selection)
        return (text, "\n") if text else None

    def selection_updated(self, selection: Selection | None) -> None:
        """Paint it; while something is selected the view stays where it is."""
        if selection is not None and self.following:
            self.following = False
            self._seen = self._column.height
        elif selection is None and self.scroll_offset.y >= self.max_scroll_y:
            self.following = True
        self._repaint()

    def action_select_everything(self) -> None:
        self._select(Selection(None, None))

    def action_select_block(self, by: int) -> None:
        """Select the message above (-1) or below (1) the selected one, the last one at first."""
        now = self.text_selection
        count = len(self._column)
        if not count:
            return
        index = count - 1
        if now is not None and now.start is not None:
            place = self._column.place(now.start.y)
            index = (place.index if place else count) + by
        index = max(0, min(index, count - 1))
        self._column.draw(index, self._look)
        self._select_block(index)
        top, height = self._column.top(index), self.rows_in_sight
        if not self.scroll_offset.y <= top < self.scroll_offset.y + height:
            self.scroll_to(y=top - height // 3, animate=False)

    def _select_block(self, index: int) -> None:
        block, top = self._column.block(index), self._column.top(index)
        self._select(whole(block, top, self._look.indent))

    def _select(self, selection: Selection) -> None:
        self.screen.selections = {self: selection}

    def _drop_selection(self) -> None:
        if self.is_attached and self.text_selection is not None:
            kept = {w: s for w, s in self.screen.selections.items() if w is not self}
            self.screen.selections = kept

    def _dressed(self, row: Row, place: Place, line: int) -> Row:
        palette = self._look.palette
        style = ink(palette.text, on=palette.selection)
        return selected(super()._dressed(row, place, line), line, self.text_selection, style)
