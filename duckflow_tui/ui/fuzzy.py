"""Fuzzy choice out of very many: a cheap sieve first, Textual's scorer for what is left."""

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
    """The best matches of a query among what it was given, best first: all characters of the
    query in their order, case ignored. A query of nothing matches everything.
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
        """Look at these too; the best so far, the same list when nothing better was among them."""
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
    """The best matches of all, best first; without a query the first of them as they are."""
    if not query:
        return list(candidates[:limit])
    return Sieve(query, limit).take(candidates)


def _rank(query: str, path: str) -> tuple[int, int]:
    """Lower is better: the name begins with the query, holds it, the path holds it, the rest."""
    lower = path.casefold()
    name = lower.rpartition("/")[2]
    if name.startswith(query):
        kind = 0
    elif query in name:
        kind = 1
    else:
        kind = 2 if query in lower else 3
    return kind, len(path)
