"""Fuzzy search in very many names: a cheap filter first, Textual's scorer for the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from heapq import nsmallest
from typing import Final

from textual.fuzzy import FuzzySearch

CHUNK: Final = 4000  # candidates looked at before others may run
SCORED: Final = 60  # candidates that the dear scorer sees
KEPT: Final = 600  # best of the sieve that are kept from chunk to chunk


class Sieve:
    """Keeps the best matches of a query among the candidates given so far, best first. A candidate
    matches if it contains the query's characters in order, ignoring case; an empty query matches
    all.
    """

    def __init__(self, query: str, limit: int) -> None:
        # Each character is looked for from the one before it on, once: no way back to try again.
        steps = (f"[^{re.escape(char)}]*{re.escape(char)}" for char in query)
        self._fits = re.compile("".join(steps), re.IGNORECASE | re.DOTALL).match
        self._query = query
        self._folded = query.casefold()
        self._limit = limit
        self._scorer = FuzzySearch()
        self._kept: list[tuple[tuple[int, int], str]] = []
        self._best: list[str] = []

    def take(self, candidates: Sequence[str]) -> list[str]:
        """Add candidates and return the best so far; the same list object where nothing better was
        added.
        """
        fresh = [(_rank(self._folded, path), path) for path in candidates if self._fits(path)]
        if not fresh:
            return self._best
        kept = nsmallest(KEPT, [*self._kept, *fresh])
        if kept[:SCORED] != self._kept[:SCORED]:
            scored = sorted(
                kept[:SCORED],
                key=lambda item: (-self._scorer.match(self._query, item[1])[0], item[0]),
            )
            self._best = [path for _, path in scored[: self._limit]]
        self._kept = kept
        return self._best


def best(query: str, candidates: Sequence[str], limit: int) -> list[str]:
    """Return the best matches among all candidates, best first; for an empty query the first
    candidates.
    """
    if not query:
        return list(candidates[:limit])
    return Sieve(query, limit).take(candidates)


def _rank(query: str, path: str) -> tuple[int, int]:
    """Return a sort key, lower is better: the file name starts with the query, contains it, the
    path contains it, other.
    """
    lower = path.casefold()
    name = lower.rpartition("/")[2]
    if name.startswith(query):
        kind = 0
    elif query in name:
        kind = 1
    else:
        kind = 2 if query in lower else 3
    return kind, len(path)
