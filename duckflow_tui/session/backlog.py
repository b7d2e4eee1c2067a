"""Records that a power loss would take: written and not synced, or not written at all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

SYNC_FROM: Final = 4_000_000  # bytes written that are synced though nobody waits
MOST: Final = 64_000_000  # bytes kept for a disk that cannot be written
FIRST_WAIT: Final = 5.0  # seconds until the disk is tried again, doubled each time
LONGEST_WAIT: Final = 300.0


@dataclass(frozen=True, slots=True)
class Pending:
    """A record on its way: its JSON, and what its place in the file needs besides."""

    seq: int
    body: bytes
    kind: str
    at: float


class Backlog:
    """In the order of their numbers. Past ``MOST`` bytes it gives up and keeps none."""

    def __init__(self, first_wait: float = FIRST_WAIT) -> None:
        self._pending: list[Pending] = []
        self._size = 0
        self._given_up = False
        self._first_wait = first_wait
        self._wait = 0.0
        self._not_before = 0.0

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[Pending]:
        return iter(self._pending)

    def add(self, pending: Pending) -> None:
        """Keep one more."""
        if self._given_up:
            return
        self._pending.append(pending)
        self._size += len(pending.body)
        if self._size > MOST:
            self.clear()
            self._given_up = True

    def clear(self) -> None:
        """All of them are safe."""
        self._pending.clear()
        self._size = 0
        self._wait = 0.0

    @property
    def is_large(self) -> bool:
        """Whether a sync is due for its size."""
        return self._size > SYNC_FROM

    @property
    def is_whole(self) -> bool:
        """Whether it still has all that is not safe, and there is something."""
        return bool(self._pending) and not self._given_up

    @property
    def may_try(self) -> bool:
        """Whether the disk should be tried again: never after records were given up."""
        return not self._given_up and time.monotonic() >= self._not_before

    def wait_longer(self) -> None:
        """The disk failed once more."""
        self._wait = min(self._wait * 2 or self._first_wait, LONGEST_WAIT)
        self._not_before = time.monotonic() + self._wait
