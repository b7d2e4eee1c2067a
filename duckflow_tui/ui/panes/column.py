"""Blocks one under the other: which row of which block lies on which line."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from duckflow_tui.ui.panes.blocks import Block, Look
from duckflow_tui.ui.panes.strips import Row

#: Rows kept drawn; those of blocks that were not looked at for longest go first.
KEPT_ROWS: Final = 2_000

_BLANK: Final[Row] = []


@dataclass(frozen=True, slots=True)
class Place:
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

    def block(self, index: int) -> Block:
        """The block at that index, live ones after the finished."""
        count = len(self.finished)
        return self.finished[index] if index < count else self.live[index - count]

    @property
    def height(self) -> int:
        """Lines in all."""
        self._measure()
        return self._ends[-1] if self._ends else 0

    @property
    def finished_height(self) -> int:
        """Lines of the finished blocks."""
        self._measure()
        return self._ends[len(self.finished) - 1] if self.finished else 0

    def append(self, blocks: Iterable[Block]) -> None:
        """Add finished blocks below those that are there."""
        self._sure = min(self._sure, len(self.finished))
        self.finished.extend(blocks)

    def set_live(self, blocks: list[Block]) -> None:
        """Put these below the finished blocks, in the place of those before."""
        self.live = blocks
        self._sure = min(self._sure, len(self.finished))

    def clear(self) -> None:
        """No blocks at all."""
        self.finished.clear()
        self.live.clear()
        self._drawn.clear()
        self._drawn_rows = 0
        self._sure = 0

    def forget(self, look: Look) -> None:
        """The look is another: draw everything anew when it is needed."""
        for block in self.finished:
            block.forget(look)
        self._drawn.clear()
        self._drawn_rows = 0
        self._sure = 0

    def redraw(self, index: int, look: Look) -> None:
        """This block alone looks different now."""
        block = self.block(index)
        if block in self._drawn:
            del self._drawn[block]
            self._drawn_rows -= len(block.rows or ())
        block.forget(look)
        self._sure = min(self._sure, index)

    def draw(self, index: int, look: Look) -> int:
        """Have the block's rows at hand; how many more rows it has than was thought."""
        block = self.block(index)
        more = 0
        if block.rows is None:
            rows = block.draw(look)
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

    def let_go(self, keep: range) -> None:
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

    def top(self, index: int) -> int:
        """The line of the block's first row."""
        self._measure()
        above = self._ends[index - 1] if index else 0
        return above + self._gap(index)

    def place(self, line: int) -> Place | None:
        """What lies on that line; None below the last block or above the first line."""
        self._measure()
        if line < 0 or not self._ends or line >= self._ends[-1]:
            return None
        index = bisect_right(self._ends, line)
        return Place(index, max(-1, line - self.top(index)))

    def row(self, place: Place) -> Row:
        """The row there; empty for a blank line, and for a block that is not drawn."""
        rows = self.block(place.index).rows
        if place.row < 0 or rows is None or place.row >= len(rows):
            return _BLANK
        return rows[place.row]

    def between(self, first: int, last: int) -> range:
        """Indexes of the blocks on the lines from ``first`` to before ``last``."""
        self._measure()
        if not self._ends:
            return range(0)
        start = bisect_right(self._ends, max(0, first))
        stop = bisect_right(self._ends, max(0, last - 1))
        return range(min(start, len(self) - 1), min(stop + 1, len(self)))

    def live_rows(self) -> list[Row]:
        """The lines of the live blocks, blank ones included."""
        rows: list[Row] = []
        for number, block in enumerate(self.live, len(self.finished)):
            rows.extend([_BLANK] * self._gap(number))
            rows.extend(block.rows or ())
        return rows

    def _gap(self, index: int) -> int:
        if not index:
            return 0
        above, below = self.block(index - 1).group, self.block(index).group
        return 0 if above == "head" or (above == below and below != "text") else 1

    def _measure(self) -> None:
        if self._sure == len(self) == len(self._ends):
            return
        del self._ends[self._sure :]
        base = self._ends[-1] if self._ends else 0
        heights = self._heights(self._sure)
        if not self._ends:
            self._ends = list(accumulate(heights))
        else:
            self._ends.extend(end for end in accumulate(heights, initial=base))
            del self._ends[self._sure]
        self._sure = len(self._ends)

    def _heights(self, start: int) -> Iterator[int]:
        for index in range(start, len(self)):
            yield self._gap(index) + self.block(index).height
