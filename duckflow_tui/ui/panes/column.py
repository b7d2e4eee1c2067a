"""Blocks one under the other: on which line each lies, and which of them have rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from duckflow_tui.ui.panes.blocks import Block, Look
from duckflow_tui.ui.panes.strips import Row

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
        block, above = self.block_at(index), self._shown_above(index)
        return 0 if block.hidden or above is None else _gap_between(above, block)

    def _shown_above(self, index: int) -> Block | None:
        """The nearest block above that is not hidden."""
        blocks = (self.block_at(above) for above in range(index - 1, -1, -1))
        return next((block for block in blocks if not block.hidden), None)

    def _measure_ends(self) -> None:
        """Recompute the line at which each block ends, from the first one that changed."""
        if self._sure == len(self) == len(self._ends):
            return
        del self._ends[self._sure :]
        end = self._ends[-1] if self._ends else 0
        above = self._shown_above(self._sure)
        for index in range(self._sure, len(self)):
            block = self.block_at(index)
            if not block.hidden:
                end += block.height + (_gap_between(above, block) if above is not None else 0)
                above = block
            self._ends.append(end)
        self._sure = len(self._ends)


def _gap_between(above: Block, below: Block) -> int:
    if above.group == "head" or (above.group == below.group and below.group != "text"):
        return 0
    return 1
