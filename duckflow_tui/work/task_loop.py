"""Runs the work of a plan as a job of its own, beside that of the chat."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from duckflow_tui.state.base import Spawn

T = TypeVar("T")
GROUP: Final = "task"


class TaskLoop:
    """Runs one piece of work at a time as a job of the group ``task``."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._work: asyncio.Task[Any] | None = None

    @property
    def is_working(self) -> bool:
        """Whether work is running."""
        return self._work is not None

    async def run(self, body: Coroutine[Any, Any, T]) -> T:
        """Run the work and return its result; its exceptions are raised here. Raises CancelledError
        if the work or the caller is cancelled.
        """
        work = self._work = asyncio.create_task(body)
        self._spawn(_hold_job(work), GROUP)
        try:
            return await work
        finally:
            self._work = None

    def stop(self) -> None:
        """Cancel the work, if any."""
        if self._work is not None:
            self._work.cancel()


async def _hold_job(work: asyncio.Task[Any]) -> None:
    """Wait for the work, as its job; cancelling the job cancels the work."""
    try:
        await asyncio.wait({work})
    except asyncio.CancelledError:
        work.cancel()
        raise
