"""Time as the engine sees it: wall time for records, monotonic time for intervals."""

from __future__ import annotations

import time
from datetime import datetime, tzinfo
from typing import Final, Protocol

_LAST: Final = 1e11  # some three thousand years


class Clock(Protocol):
    """Both in seconds."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...


def moment(value: object) -> float:
    """A time out of a file, in seconds since the epoch; raises ValueError for what is none, or
    over three thousand years away.
    """
    if not isinstance(value, int | float | str):
        raise ValueError("no time")
    try:
        at = float(value)
    except OverflowError as error:
        raise ValueError("no time") from error
    if not abs(at) <= _LAST:
        raise ValueError("no time")
    return at


def calendar(at: float, zone: tzinfo | None = None) -> datetime | None:
    """Date and time of day there, or on this machine; None for 0 and where no calendar has it."""
    try:
        return datetime.fromtimestamp(at, zone) if at else None
    except (ValueError, OverflowError, OSError):
        return None


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
