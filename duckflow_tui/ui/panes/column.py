"""A vertical list of blocks: the line on which each begins, and which of them are drawn."""

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
    """A line of the column: a block's index and a row of it; row -1 is the blank line above the
    block.
    """

    index: int
    row: int


class Column:
    """Finished blocks, which are only appended, and below them live ones, which are replaced."""

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
        """Return the block at this index; live blocks follow the finished ones."""
        count = len(self.finished)
        return self.finished[index] if index < count else self.live[index - count]

    @property
    def total_height(self) -> int:
        """The lines of all blocks, including blank lines between them."""
        self._measure_ends()
        return self._ends[-1] if self._ends else 0

    @property
    def finished_height(self) -> int:
        """Lines of the finished blocks."""
        self._measure_ends()
        return self._ends[len(self.finished) - 1] if self.finished else 0

    def append_blocks(self, blocks: Iterable[Block]) -> None:
        """Append finished blocks."""
        self._sure = min(self._sure, len(self.finished))
        self.finished.extend(blocks)

    def set_live(self, blocks: list[Block]) -> None:
        """Replace the live blocks."""
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
        """Drop all drawn rows, because the look changed; blocks are drawn again when needed."""
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
        """Draw the block unless it is drawn. Returns by how many lines its height had been
        underestimated.
        """
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
        """Return what is on this line; None above the first or below the last block."""
        self._measure_ends()
        if line < 0 or not self._ends or line >= self._ends[-1]:
            return None
        index = bisect_right(self._ends, line)
        return LinePosition(index, max(-1, line - self.top_of(index)))

    def row_at(self, place: LinePosition) -> Row:
        """Return the row at this position; empty for a blank line and for a block that is not
        drawn.
        """
        rows = self.block_at(place.index).rows
        if place.row < 0 or rows is None or place.row >= len(rows):
            return _BLANK
        return rows[place.row]

    def blocks_between(self, first: int, last: int) -> range:
        """Return the indices of blocks on the lines from ``first`` up to, not including,
        ``last``.
        """
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
        """Recompute positions from this block on, because blocks were hidden or shown."""
        self._sure = min(self._sure, index)

    def _gap_above(self, index: int) -> int:
        """Return the number of blank lines between a block and the nearest shown block above it."""
        block, above = self.block_at(index), self._shown_above(index)
        return 0 if block.hidden or above is None else _gap_between(above, block)

    def _shown_above(self, index: int) -> Block | None:
        """Return the nearest block above that is not hidden; None without."""
        blocks = (self.block_at(above) for above in range(index - 1, -1, -1))
        return next((block for block in blocks if not block.hidden), None)

    def _measure_ends(self) -> None:
        """Recompute the line at which each block ends, from the first changed one on."""
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
    """Return the number of blank lines between two adjacent blocks, 0 or 1."""
    if above.group == "head" or (above.group == below.group and below.group != "text"):
        return 0
    return 1
