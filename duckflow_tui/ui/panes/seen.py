"""Which part of a text has been on screen: what a user has not seen is not approved (R14)."""

from __future__ import annotations

from collections.abc import Sequence


class Seen:
    """Remembers, for each row of a text, how many characters from its start were drawn.

    Characters, not cells, so that another width or wrapping keeps what was seen. ``weights``
    say how many lines a row stands for; 0 for rows that are no part of the request.
    """

    def __init__(self, lengths: Sequence[int], weights: Sequence[int]) -> None:
        self._lengths = lengths
        self._weights = weights
        self._upto = [-1] * len(lengths)  # -1: not even its start
        self._left = sum(weights)
        self._first = 0  # no row before it is unseen

    @property
    def unseen(self) -> int:
        """Lines of which some part has not been on screen."""
        return self._left

    def mark(self, row: int, start: int, stop: int) -> bool:
        """Characters ``start`` to ``stop`` of the row are on screen; whether that is news.

        A part behind a gap does not count until the gap was on screen.
        """
        upto = self._upto[row]
        if start > max(upto, 0) or stop <= upto:
            return False
        self._upto[row] = stop
        if stop < self._lengths[row]:
            return True
        self._left -= self._weights[row]
        return self._weights[row] > 0

    def first_unseen(self) -> tuple[int, int] | None:
        """The first row that was not seen whole, and the character where it goes on."""
        if not self._left:
            return None
        while not self._weights[self._first] or self.whole(self._first):
            self._first += 1
        return self._first, max(self._upto[self._first], 0)

    def upto(self, row: int) -> int:
        """Characters of the row's start that were on screen."""
        return max(self._upto[row], 0)

    def whole(self, row: int) -> bool:
        """Whether all of the row has been on screen."""
        return self._upto[row] >= self._lengths[row]


def whole_spans(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans of a wrapped text with the spaces at its breaks: those were on screen too."""
    starts = [0, *(start for start, _ in spans[1:])]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))
