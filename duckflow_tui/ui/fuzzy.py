"""Fuzzy choice out of very many: a cheap sieve first, Textual's scorer for what is left."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from textual.fuzzy import FuzzySearch

CHUNK: Final = 4000  # candidates looked at before others may run
SCORED: Final = 60  # candidates that the dear scorer sees
KEPT: Final = 600  # best of the sieve that are kept from chunk to chunk


def best(query: str, candidates: Sequence[str], limit: int) -> list[str]:
    """The best matches, best first; all characters of the query in order, case ignored."""
    return deque(progress(query, candidates, limit), maxlen=1)[0]


def progress(query: str, candidates: Sequence[str], limit: int) -> Iterator[list[str]]:
    """The same, chunk by chunk: each list is the best of what was looked at so far."""
    if not query:
        yield list(candidates[:limit])
        return
    sieve = re.compile(".*?".join(map(re.escape, query)), re.IGNORECASE | re.DOTALL)
    folded = query.casefold()
    scorer = FuzzySearch()
    kept: list[tuple[tuple[int, int], str]] = []
    for start in range(0, max(len(candidates), 1), CHUNK):
        chunk = candidates[start : start + CHUNK]
        fresh = [(_rank(folded, path), path) for path in chunk if sieve.search(path)]
        if fresh or not start:
            kept = sorted([*kept, *fresh])[:KEPT]
            scored = sorted(
                kept[:SCORED], key=lambda item: (-scorer.match(query, item[1])[0], item[0])
            )
            yield [path for _, path in scored[:limit]]


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
