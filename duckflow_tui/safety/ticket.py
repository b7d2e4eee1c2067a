"""A change in a thread and a cancellation on the loop: which of the two came first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


class _Abandoned(Exception):
    """The caller was cancelled before the point of no return."""


class Ticket:
    """Settles between threads whether a change happens: it is committed, or abandoned before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._committed = False
        self._abandoned = False

    def commit(self) -> None:
        """Called once everything is prepared, before the first visible change."""
        with self._lock:
            if self._abandoned:
                raise _Abandoned
            self._committed = True

    def abandon(self) -> None:
        """Keep the change from happening, unless it happens already."""
        with self._lock:
            self._abandoned = not self._committed


async def finish(work: Callable[[Ticket], None]) -> None:
    """Run a change in a thread. Cancelled before its commit, nothing changes and CancelledError
    is raised; after it the change counts as done and the cancellation is raised at the caller's
    next await, so that no change goes unreported.
    """
    ticket = Ticket()
    running = asyncio.ensure_future(asyncio.to_thread(work, ticket))
    cancelled = 0
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            cancelled += 1
            ticket.abandon()
    error = running.exception()
    task = asyncio.current_task()
    if cancelled and error is not None:
        raise asyncio.CancelledError from error
    if error is not None:
        raise error
    if cancelled and task is not None:
        task.uncancel()
        task.cancel()
