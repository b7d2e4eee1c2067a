"""Time as the engine sees it: wall time for records, monotonic time for intervals."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Both in seconds."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when it is told to."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by ``seconds`` (≥ 0)."""
        if seconds < 0:
            raise ValueError("time does not go back")
        self._now += seconds
        self._monotonic += seconds
