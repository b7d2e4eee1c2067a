"""Pause, resume, redirect: how the user steers a running turn, at its safe points."""

from __future__ import annotations

import asyncio

from duckflow_tui.loops.pace_keeper import PaceKeeper
from duckflow_tui.state.agent import TurnOutcome
from duckflow_tui.state.events import PauseRequested, TurnPaused, TurnResumed
from duckflow_tui.state.messages import QueuedMessage
from duckflow_tui.state.phase import Status
from duckflow_tui.state.store import Store


class TurnControl:
    """Belongs to one turn. Its truth is ``state.turn.pause``; here is only what wakes a waiter."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.turn_pace: PaceKeeper | None = None
        self.step_pace: PaceKeeper | None = None  # of the step that runs
        self.turn_end: tuple[TurnOutcome, Status] | None = None  # which the user chose in a step
        self._go = asyncio.Event()
        self._redirect: QueuedMessage | None = None

    @property
    def pace(self) -> PaceKeeper | None:
        """Of what is being worked on: the step that runs, or the turn."""
        return self.step_pace or self.turn_pace

    def pause(self) -> None:
        """Ask the turn to halt at its next safe point."""
        turn = self._store.state.turn
        if turn is not None and turn.pause == "running":
            self._go.clear()
            self._store.dispatch(PauseRequested())

    def resume(self) -> None:
        """Let the turn go on, or take back a pause that has not taken hold."""
        turn = self._store.state.turn
        if turn is not None and turn.pause != "running":
            self._store.dispatch(TurnResumed())
            self._go.set()

    def redirect(self, message: QueuedMessage) -> None:
        """Go on with something new to say: actions not yet begun are skipped."""
        self._redirect = message
        self.resume()

    @property
    def redirected(self) -> bool:
        """Whether a message waits to be taken up at the next decision."""
        return self._redirect is not None

    def take_redirect(self) -> QueuedMessage | None:
        """The message, once."""
        message, self._redirect = self._redirect, None
        return message

    async def safe_point(self) -> None:
        """Where nothing is half done: returns at once, or after the user resumes."""
        turn = self._store.state.turn
        if turn is None or turn.pause == "running":
            return
        self._go.clear()
        await self._store.commit(TurnPaused())
        await self._go.wait()
