"""Whether a stream is alive: silence is shown early and ended late (R18)."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final

from duckflow_tui.llm.retry import WaitObserver
from duckflow_tui.state.agent import Waiting
from duckflow_tui.state.clock import Clock

SILENT: Final = "silent"


class Life:
    """A time limit that every byte pushes back; comments and keep-alives are bytes too.

    Until the first token the limit is ``first_token_s`` of silence, then ``idle_s``. After
    ``silent_s`` of silence the observer hears of it, and again when the stream goes on.
    ``stalled`` holds the limit in seconds once it has passed; leaving the block then raises
    TimeoutError.
    """

    def __init__(
        self,
        observer: WaitObserver,
        clock: Clock,
        *,
        first_token_s: float,
        idle_s: float,
        silent_s: float,
    ) -> None:
        self._observer = observer
        self._clock = clock
        self._span = first_token_s
        self._idle_s = idle_s
        self._silent_s = silent_s
        self._loop = asyncio.get_running_loop()
        self._limit = asyncio.timeout(first_token_s)
        self._last = self._loop.time()
        self._shown = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def stalled(self) -> float | None:
        """Seconds of silence that ended the stream; None while it was not ended by silence."""
        return self._span if self._limit.expired() else None

    async def __aenter__(self) -> Life:
        await self._limit.__aenter__()
        self._last = self._loop.time()
        self._arm(self._silent_s)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        if self._timer is not None:
            self._timer.cancel()
        if self._shown:
            self._observer.waiting(None)
        return await self._limit.__aexit__(kind, error, trace)

    def byte(self) -> None:
        """Something arrived."""
        self._last = self._loop.time()
        self._limit.reschedule(self._last + self._span)
        if self._shown:
            self._shown = False
            self._observer.waiting(None)
            self._arm(self._silent_s)

    def token(self) -> None:
        """A part of the answer arrived: from now on the shorter limit holds."""
        if self._span != self._idle_s:
            self._span = self._idle_s
            self._limit.reschedule(self._last + self._span)

    def _arm(self, delay: float) -> None:
        self._timer = self._loop.call_later(delay, self._look)

    def _look(self) -> None:
        quiet = self._loop.time() - self._last
        if quiet < self._silent_s:
            self._arm(self._silent_s - quiet)
            return
        self._shown = True
        since = self._clock.now() - quiet
        self._observer.waiting(Waiting(reason=SILENT, since=since))
