"""Search state for a diff, found at once, and for a long chat, found piece by piece."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Generic, TypeVar

from duckflow_tui.safety.safe_text import make_visible
from duckflow_tui.ui.panes.blocks import Look, text_of_rows
from duckflow_tui.ui.panes.strips import Row

Match = TypeVar("Match")

#: Between two words of a text: also a line that stands before rows that belong together.
_GAP: Final = r"[\s│▌]+"
_BROKEN: Final = r"(?:\n[ │▌]*)?"  # where a word too long for a row goes on in the next


class Search(Generic[Match]):
    """The matches of a query from top to bottom, and the current one. Case is ignored; a space
    matches any white space.
    """

    def __init__(self, query: str = "") -> None:
        words = make_visible(query).split()
        self.pattern = re.compile(
            _GAP.join(_BROKEN.join(map(re.escape, word)) for word in words) or "(?!)", re.IGNORECASE
        )
        self.found: list[Match] = []
        self.at: int | None = None  # index of the match that was gone to last

    @property
    def position(self) -> tuple[int, int]:
        """Return the number of the current match (from 1; 0 before the first step) and the number
        of all.
        """
        return (0 if self.at is None else self.at + 1), len(self.found)

    @property
    def current_match(self) -> Match | None:
        """Return the match that was visited last."""
        return None if self.at is None else self.found[self.at]

    def step_to_match(self, by: int) -> Match | None:
        """Go to the next (1) or previous (-1) match, wrapping around; None without matches.

        The first step always goes to the last match.
        """
        if not self.found:
            return None
        last = len(self.found) - 1
        self.at = last if self.at is None else (self.at + by) % len(self.found)
        return self.found[self.at]


@dataclass(frozen=True, slots=True)
class Hit:
    """A match on the screen: a row of a block and a character span."""

    row: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A match in a block's text: the block's index, and the number of the match in the block."""

    index: int
    nth: int


class BlockSearch(Search[TextMatch]):
    """Searches blocks from the last one backwards."""

    def __init__(self, query: str, blocks: int) -> None:
        """``blocks`` is the number of blocks."""
        super().__init__(query)
        self.first = self.stop = blocks  # the blocks between them were read

    def read_newer(self, text: str) -> None:
        """Search the text of the next block below those searched so far."""
        self.found += self._match_text(text, self.stop)
        self.stop += 1

    def read_older(self, text: str) -> None:
        """Search the text of the next block above those searched so far."""
        self.first -= 1
        matches = self._match_text(text, self.first)
        self.found[:0] = matches
        if self.at is not None:
            self.at += len(matches)

    def _match_text(self, text: str, index: int) -> list[TextMatch]:
        """Return the matches in the text of the block ``index``."""
        return [TextMatch(index, nth) for nth, _ in enumerate(self.pattern.finditer(text))]

    def find_hits(self, rows: Sequence[Row], look: Look) -> list[list[Hit]]:
        """Return the spans of the query in drawn rows; a match across two rows gives two hits."""
        text = text_of_rows(rows, look)
        lines = text.split("\n")
        starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        matches: list[list[Hit]] = []
        for match in self.pattern.finditer(text):
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
