"""Finding words in the conversation: counted in what was said, marked in what is drawn."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from duckflow_tui.safety.safe_text import visible
from duckflow_tui.ui.panes.blocks import Block
from duckflow_tui.ui.panes.strips import Row, row_text


@dataclass(frozen=True, slots=True)
class Hit:
    """A match on the screen: row of the block, characters of the row."""

    row: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Found:
    """A match in what was said: block, and which of the matches in the block it is."""

    index: int
    nth: int


class Search:
    """One query over some blocks. Upper and lower case are the same, a space is any space."""

    def __init__(self, query: str) -> None:
        self.query = visible(query.strip())
        words = self.query.split()
        said = r"\s+".join(re.escape(word) for word in words)
        drawn = r"\s+".join("\n?".join(re.escape(char) for char in word) for word in words)
        self._said = re.compile(said, re.IGNORECASE)
        self._drawn = re.compile(drawn, re.IGNORECASE)
        self.found: list[Found] = []
        self.at: int | None = None  # of the match that was gone to last
        self._looked = 0  # blocks looked through

    def look(self, blocks: Sequence[Block]) -> int:
        """Look through the blocks that were added; how many matches there are in all."""
        for index in range(self._looked, len(blocks)):
            matches = self._said.finditer(visible(blocks[index].said))
            self.found.extend(Found(index, nth) for nth, _ in enumerate(matches))
        self._looked = len(blocks)
        return len(self.found)

    @property
    def current(self) -> Found | None:
        """The match that was gone to last."""
        return None if self.at is None else self.found[self.at]

    def step(self, by: int) -> Found | None:
        """The next match (1) or the one before (-1), round the ends; None when there is none.

        The first step goes to the newest match whichever way it is.
        """
        if not self.found:
            return None
        last = len(self.found) - 1
        self.at = last if self.at is None else (self.at + by) % len(self.found)
        return self.found[self.at]

    def hits(self, rows: Sequence[Row], indent: int) -> list[list[Hit]]:
        """Where the query stands in drawn rows; a match that goes on in the next row is two."""
        starts: list[int] = []
        texts: list[str] = []
        at = 0
        for row in rows:
            texts.append(row_text(row)[indent:].rstrip())
            starts.append(at)
            at += len(texts[-1]) + 1
        matches: list[list[Hit]] = []
        for match in self._drawn.finditer("\n".join(texts)):
            row = bisect_right(starts, match.start()) - 1
            parts: list[Hit] = []
            while row < len(texts) and starts[row] < match.end():
                begin = max(0, match.start() - starts[row])
                end = min(len(texts[row]), match.end() - starts[row])
                if end > begin:
                    parts.append(Hit(row, begin + indent, end + indent))
                row += 1
            matches.append(parts)
        return matches
