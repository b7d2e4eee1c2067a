"""How long a call is tried: retries while nothing of the answer was shown, and for how long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.state.agent import Waiting
from duckflow_tui.state.clock import Clock

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Patience:
    """The figures of safety: times in seconds. Sleep and randomness can be handed in."""

    retries: int = 5
    total_s: float = 60.0  # of one call's retries in all, and the longest Retry-After
    base_s: float = 1.0  # doubled at each retry; the wait is a random part of it
    cap_s: float = 20.0
    silent_s: float = 10.0  # of silence until it is shown
    connect_s: float = 15.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draw: Callable[[], float] = random.random  # 0.0 to 1.0


class WaitObserver(Protocol):
    """Who shows that a call does not move."""

    def waiting(self, waiting: Waiting | None) -> None:
        """It waits, or (None) it moves again."""
        ...


async def persist(
    attempt: Callable[[], Awaitable[_T]],
    *,
    may_retry: Callable[[], bool],
    observer: WaitObserver,
    clock: Clock,
    patience: Patience,
) -> _T:
    """Call ``attempt`` until it succeeds, or raises an LlmError that is not to be retried.

    A Retry-After is obeyed to the second; without one the wait is drawn from the whole range
    (full jitter). What does not fit into ``total_s`` is raised, with the time in ``seconds``.
    """
    begun = clock.monotonic()
    tries = 0
    while True:
        try:
            return await attempt()
        except LlmError as error:
            tries += 1
            if not error.retryable or tries > patience.retries or not may_retry():
                raise
            delay = error.retry_after or 0.0
            if not delay:
                delay = patience.draw() * min(patience.cap_s, patience.base_s * 2 ** (tries - 1))
            if clock.monotonic() - begun + delay > patience.total_s:
                error.seconds = delay
                raise
            reason = error.code
        now = clock.now()
        observer.waiting(Waiting(reason=reason, until=now + delay, since=now))
        try:
            await patience.sleep(delay)
        finally:
            observer.waiting(None)
