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
