"""Time and identifiers that a test holds in its hand."""

from __future__ import annotations

from duckflow_tui.state.base import IdKind

#: Seconds that a key waits before it acts, in tests: the program's own would be most of their time.
KEY_DELAY = 0.03


class ManualClock:
    """A clock that moves only when it is told to."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def set(self, now: float) -> None:
        """Say this time of the day; what is measured goes on."""
        self._now = now

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by ``seconds`` (≥ 0)."""
        if seconds < 0:
            raise ValueError("time does not go back")
        self._now += seconds
        self._monotonic += seconds


class CountingIds:
    """Identifiers that count up, the same in every run."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, kind: IdKind) -> str:
        self._next += 1
        return f"{kind}_{self._next:08x}"
