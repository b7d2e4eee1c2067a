"""Where the rows of a diff lie on the screen: entries, their heights, what a line shows."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from rich.cells import cell_len

from duckflow_tui.ui.panes.diff_rows import DiffDocument, RowKind
from duckflow_tui.ui.panes.seen import whole_spans
from duckflow_tui.ui.panes.strips import Span, fold, wrap

NARROWEST_SPLIT: Final = 72  # cells; below, two versions side by side are unreadable
_NARROWEST_NUMBERS: Final = 30  # cells; below, line numbers take room that the text needs

# Characters whose width is known without a look at their neighbours: one cell, two cells.
_NARROW = "\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff\u0391-\u03c9\u0410-\u044f\u2190-\u21ff\u2500-\u259f"
_WIDE = (
    "\u3001-\u3029\u3041-\u3096\u309b-\u30ff\u3131-\u3163\u3165-\u318e\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufa6d\uff01-\uff60\uffe0-\uffe6"
)
_ONLY_SIMPLE: Final = re.compile(f"[{_NARROW}{_WIDE}]*")
_EACH_WIDE: Final = re.compile(f"[{_WIDE}]")

_CAPTIONS: Final = (RowKind.FILE, RowKind.NOTE, RowKind.HUNK, RowKind.BLANKS)


def cut_cells(text: str, width: int) -> list[Span]:
    """Like ``fold``, many times as fast for text of plain and of wide characters."""
    if text.isascii() or width < 2 or _ONLY_SIMPLE.fullmatch(text) is None:
        return fold(text, width)
    spans: list[Span] = []
    start = 0
    while start < len(text):
        stop = min(start + width, len(text))
        # A character takes two cells at most, so this never takes away too many.
        while over := max(0, stop - start + _wide_ones(text, start, stop) - width):
            stop -= (over + 1) // 2
        spans.append((start, stop))
        start = stop
    return spans


def _wide_ones(text: str, start: int, stop: int) -> int:
    piece = text[start:stop]
    return 0 if piece.isascii() else len(_EACH_WIDE.findall(piece))


@dataclass(frozen=True, slots=True)
class Part:
    """What one side of a screen line shows: a row, and which of its characters."""

    row: int  # -1: this side is empty
    span: Span
    first: bool  # whether the row begins here


class DiffLayout:
    """The lines of a document at one width. Built in one pass, looked up by line.

    ``caption`` gives the words of rows that are no lines of a file; they are as long as they
    are in the language at hand.
    """

    def __init__(
        self,
        document: DiffDocument,
        width: int,
        caption: Callable[[int], str],
        *,
        split: bool,
        wraps: bool,
    ) -> None:
        self.document = document
        self.given_width = width
        self.width = max(1, width)
        self.split = split and width >= NARROWEST_SPLIT
        self.wraps = wraps and width > 0  # without room there is nothing to measure
        self._caption = caption
        last = max((max(r.old or 0, r.new or 0) for r in document.rows), default=0)
        self.digits = max(3, len(str(last))) if width >= _NARROWEST_NUMBERS else 0
        #: characters before the text: margin, number, space, mark, space
        self.gutter = self.digits + (3 if self.split else 4) if self.digits else 2
        self.half = (self.width - 1) // 2
        room = self.half if self.split else self.width
        self.room = max(1, room - self.gutter)
        self._folds: dict[int, list[Span]] = {}
        # Numbers in two sequences, not pairs: 10,000 tuples more, and the collector of garbage
        # looks through everything while the diff should be drawn.
        count = len(document.rows)
        self._left: Sequence[int] = range(count)
        self._right: Sequence[int] = array("l", [-1]) * count
        if self.split:
            self._left, self._right = array("l"), array("l")
            for left, right in document.pairs():
                self._left.append(left)
                self._right.append(right)
        pairs = zip(self._left, self._right, strict=True)
        self.tops = [0, *accumulate(self._height(left, right) for left, right in pairs)]
        weights = document.weights
        pairs = zip(self._left, self._right, strict=True)
        self.weights = [
            0,
            *accumulate(
                (weights[left] if left >= 0 else 0)
                + (weights[right] if right >= 0 and right != left else 0)
                for left, right in pairs
            ),
        ]
        self.entry_of = [0] * len(document.rows)
        for entry, left in enumerate(self._left):
            right = self._right[entry]
            if left >= 0:
                self.entry_of[left] = entry
            if right >= 0:
                self.entry_of[right] = entry
        self.longest = (
            0
            if self.wraps or width < 1
            else max((cell_len(r.text) for r in document.rows), default=0)
        )

    @property
    def count(self) -> int:
        """How many entries there are: rows, or pairs of rows side by side."""
        return len(self._left)

    def entry(self, index: int) -> tuple[int, int]:
        """Rows of an entry, old and new; -1 for an empty side."""
        return self._left[index], self._right[index]

    @property
    def height(self) -> int:
        """Screen lines in all."""
        return self.tops[-1]

    def locate(self, y: int) -> tuple[int, int]:
        """The entry that line ``y`` belongs to, and which of its lines it is."""
        entry = min(bisect_right(self.tops, y) - 1, self.count - 1)
        return entry, y - self.tops[entry]

    def parts(self, y: int) -> tuple[Part, ...]:
        """What line ``y`` shows: one part, or the old and the new side."""
        entry, line = self.locate(y)
        left, right = self.entry(entry)
        if not self.split or self.is_caption(left):
            return (self._part(left, line),)
        return self._part(left, line), self._part(right, line)

    def is_caption(self, row: int) -> bool:
        """Whether the row holds words of ours across the whole width."""
        return row >= 0 and self.document.rows[row].kind in (
            RowKind.FILE,
            RowKind.NOTE,
            RowKind.HUNK,
        )

    def spans(self, row: int) -> list[Span]:
        """How the row's text is cut into lines; one span, the whole text, without wrapping."""
        if row not in self._folds:
            kind = self.document.rows[row].kind
            if kind in (RowKind.FILE, RowKind.NOTE):
                caption = self._caption(row)
                self._folds[row] = whole_spans(caption, wrap(caption, self.width - 2))
            else:
                text = self.document.rows[row].text
                self._folds[row] = cut_cells(text, self.room) if self.wraps else [(0, len(text))]
        return self._folds[row]

    def on_screen(self, part: Part, scrolled: int) -> Span:
        """The characters of a part that are on screen, its line being scrolled by cells."""
        if self.wraps or part.row < 0:
            return part.span
        text = self.document.rows[part.row].text
        left = scrolled
        if text.isascii():
            start = min(left, len(text))
            cut = len(text) - start > self.room
            return start, min(left + self.room - cut, len(text))
        start = fold(text, left)[0][1] if left else 0
        cut = cell_len(text[start:]) > self.room
        return start, start + fold(text[start:], self.room - cut)[0][1]

    def top_of(self, row: int, character: int = 0) -> int:
        """The screen line on which this character of the row is."""
        line = sum(1 for start, _ in self.spans(row)[1:] if start <= character)
        return self.tops[self.entry_of[row]] + line

    def _height(self, left: int, right: int) -> int:
        return max(self._lines(left), self._lines(right) if right != left else 0)

    def _lines(self, row: int) -> int:
        if row < 0:
            return 0
        kind = self.document.rows[row].kind
        if kind in _CAPTIONS:
            return len(self.spans(row)) if kind in (RowKind.FILE, RowKind.NOTE) else 1
        text = self.document.rows[row].text
        if not self.wraps:
            return 1
        if text.isascii():  # by number, so that 10,000 lines are laid out at once
            return max(1, -(-len(text) // self.room))
        return len(self.spans(row))

    def _part(self, row: int, line: int) -> Part:
        if row < 0:
            return Part(-1, (0, 0), first=False)
        spans = self.spans(row)
        if line >= len(spans):
            return Part(-1, (0, 0), first=False)
        return Part(row, spans[line], first=line == 0)
