"""TaskLoop: does the heavy work beside the chat, one piece at a time, in a worker of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, Literal, TypeVar

from duckflow_tui.loops.spawning import Job, Spawn
from duckflow_tui.state.events import StateError, WorkFinished
from duckflow_tui.state.store import Store

T = TypeVar("T")


class WorkStopped(Exception):
    """The work was stopped; what it had done stays. ``by_model``: by a call of task_loop.stop."""

    def __init__(self, *, by_model: bool = False) -> None:
        super().__init__("by the model" if by_model else "")
        self.by_model = by_model


class WorkBroke(Exception):
    """The work ended by a fault of the app, which whoever spawned it shows."""


class _Piece(Generic[T]):
    def __init__(self, body: Coroutine[Any, Any, T]) -> None:
        self.body = body
        self.ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.job: Job | None = None
        self.by_model = False  # who stopped it
        self.begun = False  # its job has taken its first step


class TaskLoop:
    """Takes one piece of work, runs it as a job of the group ``task``, and tells who waits.

    Neither side takes the other down: a piece that breaks raises in its own job, and who waits
    gets ``WorkBroke``; a wait that is cancelled stops the piece and lets it lay its work down.
    """

    def __init__(self, store: Store, spawn: Spawn) -> None:
        self._store = store
        self._spawn = spawn
        self._piece: _Piece[Any] | None = None

    @property
    def works(self) -> bool:
        """Whether a piece of work has not ended."""
        return self._piece is not None

    async def run(self, body: Coroutine[Any, Any, T]) -> T:
        """The result of the work.

        Raises WorkStopped, WorkBroke, and StateError while another piece goes on.
        """
        if self._piece is not None:
            body.close()
            raise StateError("other work goes on; there is one writer at a time")
        piece = self._piece = _Piece(body)
        piece.job = self._spawn(self._carry(piece), "task")
        try:
            return await asyncio.shield(piece.ended)
        except asyncio.CancelledError:
            if piece.ended.done():
                raise
            if not piece.begun:  # a job that is cancelled now never begins, and tells nobody
                piece.job.cancel()
                piece.body.close()
                self._piece = None
                raise
            self.stop()
            while not piece.ended.done():
                try:
                    await asyncio.wait({piece.ended})
                except asyncio.CancelledError:
                    self.stop()  # asked again: it need not be gentle any more
            raise

    def stop(self, *, by_model: bool = False) -> None:
        """End the work now. Who waits for it gets WorkStopped."""
        piece = self._piece
        if piece is not None and piece.job is not None:
            piece.by_model = by_model
            # Behind the job's first step, without which it could not say that it was stopped.
            asyncio.get_running_loop().call_soon(piece.job.cancel)

    async def _carry(self, piece: _Piece[T]) -> None:
        piece.begun = True
        try:
            result = await piece.body
        except asyncio.CancelledError:
            self._lay_down("stopped")
            self._tell(piece, WorkStopped(by_model=piece.by_model))
            raise
        except Exception as error:
            self._lay_down("failed")
            self._tell(piece, WorkBroke(repr(error)))
            raise
        self._piece = None
        if not piece.ended.done():
            piece.ended.set_result(result)

    def _tell(self, piece: _Piece[Any], error: Exception) -> None:
        self._piece = None
        if not piece.ended.done():
            piece.ended.set_exception(error)
            piece.ended.exception()  # whoever waited may be gone; that is no news for the log

    def _lay_down(self, outcome: Literal["failed", "stopped"]) -> None:
        work = self._store.state.work
        if work is not None:
            self._store.dispatch(WorkFinished(work_id=work.work_id, outcome=outcome))
