"""The rows of a card: those that are about a place in the chat can be chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message

from duckflow_tui.ui.panes.gate_request import RequestView
from duckflow_tui.ui.panes.gate_rows import GateRow
from duckflow_tui.ui.panes.strips import Row, ink, marked, row_cells
from duckflow_tui.ui.panes.theme_palette import palette_of


class CardView(RequestView):
    """Rows with one of them at the cursor, once a key or the pointer put it there."""

    class Pointed(Message):
        """The pointer chose a row; ``again``: the one that was chosen already."""

        def __init__(self, *, again: bool) -> None:
            super().__init__()
            self.again = again

    def __init__(self, allot: Callable[[Size], int], *, id: str | None = None) -> None:
        super().__init__(allot, id=id)
        self._cursor = ""  # the place that the chosen row is about
        self.one_scroll = False  # every row whole, and a page at a time; else each cut to a line

    def show(self, rows: Sequence[GateRow], *, fresh: bool) -> None:
        super().show(rows, fresh=fresh)
        if fresh:
            self._cursor = ""

    def _folds(self, width: int) -> bool:
        return not self.one_scroll and super()._folds(width)

    @property
    def chosen(self) -> str:
        """The place that the row at the cursor is about; empty while none is chosen."""
        return self._cursor

    def step(self, by: int) -> bool:
        """To the next row that is about a place; False where there is none."""
        places = [at for at, row in enumerate(self.rows) if row.ref]
        if not places:
            return False
        refs = [self.rows[at].ref for at in places]
        if self._cursor in refs:
            nth = max(0, min(refs.index(self._cursor) + by, len(refs) - 1))
        else:
            nth = 0 if by > 0 else -1
        self.choose(places[nth])
        return True

    def choose(self, at: int) -> None:
        """Put the cursor on this row and bring it into sight."""
        self._cursor = self.rows[at].ref
        lines = [n for n, line in enumerate(self._lines) if line.row == at]
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if lines and not top <= lines[0] < top + height:
            self.scroll_to(0, lines[0] if lines[0] < top else lines[-1] - height + 1, animate=False)
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        line = self.scroll_offset.y + event.y
        if not 0 <= line < len(self._lines):
            return
        at = self._lines[line].row
        if ref := self.rows[at].ref:
            again = ref == self._cursor
            self.choose(at)
            self.post_message(self.Pointed(again=again))

    def _draw(self, line: int) -> Row:
        row = super()._draw(line)
        ref = self.rows[self._lines[line].row].ref
        if not self.lit or not ref or ref != self._cursor:
            return row
        over = ink(None, on=palette_of(self).bars)
        rest = " " * max(0, self.scrollable_content_region.width - row_cells(row))
        return marked([*row, Segment(rest, self._ground)] if rest else row, 0, -1, over)
