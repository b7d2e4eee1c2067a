"""The workspace's file names, searchable while they are still being listed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from heapq import nsmallest

from duckflow_tui.ui.fuzzy import CHUNK, Sieve


class FileNames:
    """A list of file names that grows while ``read`` runs; searches see each batch as it comes."""

    def __init__(self, batches: AsyncGenerator[list[str], None]) -> None:
        self._batches = batches
        self._names: list[str] = []
        self.complete = False  # nothing more comes
        self._grown = asyncio.Event()

    async def read(self) -> None:
        """Read all batches; returns when there are no more."""
        try:
            async with aclosing(self._batches) as batches:
                async for batch in batches:
                    self._names.extend(batch)
                    self._grown.set()
                    await asyncio.sleep(0)  # a key may be waiting
        finally:
            self.complete = True
            self._grown.set()

    async def matches(self, query: str, limit: int) -> AsyncIterator[list[str]]:
        """Yield the best matches so far, best first, again whenever they change."""
        sieve = Sieve(query, limit)
        best: list[str] | None = None
        at = 0
        while True:
            complete = self.complete
            while at < len(self._names):
                chunk = self._names[at : at + CHUNK]
                at += len(chunk)
                if query:
                    found = await asyncio.to_thread(sieve.take, chunk)
                else:
                    found = nsmallest(limit, [*(best or ()), *chunk])
                if found != best:
                    best = found
                    yield found
            if complete:
                break
            self._grown.clear()
            if at == len(self._names) and not self.complete:
                await self._grown.wait()
        if best is None:
            yield []
