"""ChatLoop: the inbox. It takes messages at any time and is never held up by the work."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.turn import Turn
from duckflow_tui.state.events import MessageQueued, QueueItemRemoved, UserMessageAdded
from duckflow_tui.state.messages import QueuedMessage, UserMessage


class Job(Protocol):
    """Something that runs beside the caller and can be cancelled: a task or a Textual worker."""

    def cancel(self) -> object:
        """Ask it to end."""
        ...


class Spawn(Protocol):
    """Starts a coroutine beside the caller, in a group: ``chat``, ``turn`` or ``task``."""

    def __call__(self, coroutine: Coroutine[Any, Any, None], group: str) -> Job:
        """Its exceptions go to whoever spawns; they do not come back here."""
        ...


class ChatLoop:
    """Starts a turn for each message, one after the other; what comes meanwhile waits visibly."""

    def __init__(self, parts: TurnParts, spawn: Spawn) -> None:
        self._parts = parts
        self._store = parts.store
        self._spawn = spawn
        self._wake = asyncio.Event()
        self._turn: Turn | None = None
        self._job: Job | None = None
        self._held = False  # after a stop the queue waits for the user

    async def run(self) -> None:
        """Runs as long as the session."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._turn is None and not self._held:
                await self._next()

    async def send(self, text: str) -> None:
        """Take a message; returns once it would survive a crash.

        While work runs it waits for the next turn; while work is paused it redirects the work.
        """
        message = QueuedMessage(
            message_id=self._parts.ids("msg"), text=text, at=self._store.clock.now()
        )
        await self._store.commit(MessageQueued(message=message))
        turn = self._store.state.turn
        if self._turn is not None and turn is not None and turn.pause == "paused":
            self._turn.control.redirect(message)
            return
        self._held = False
        self._wake.set()

    def release(self) -> None:
        """Go on with messages that a stop left waiting."""
        self._held = False
        self._wake.set()

    def take_back(self, message_id: str) -> str | None:
        """Take a waiting message out of the queue; its text, or None when it is gone."""
        for message in self._store.state.queue:
            if message.message_id == message_id:
                self._store.dispatch(QueueItemRemoved(message_id=message_id))
                return message.text
        return None

    async def retry(self) -> bool:
        """Work on the last user message again; False when there is none or work runs."""
        last = next((m for m in reversed(self._store.state.messages) if m.kind == "user"), None)
        if self._turn is not None or not isinstance(last, UserMessage):
            return False
        self._start(last)
        return True

    def pause(self) -> None:
        """Halt at the next safe point."""
        if self._turn is not None:
            self._turn.control.pause()

    def resume(self) -> None:
        """Go on after a pause."""
        if self._turn is not None:
            self._turn.control.resume()

    def stop(self) -> None:
        """End the turn now; what it has done stays, and is told."""
        if self._job is not None:
            self._held = True
            # Behind the job's first step, without which it could not say that it was stopped.
            asyncio.get_running_loop().call_soon(self._job.cancel)

    async def _next(self) -> None:
        queue = self._store.state.queue
        if not queue:
            return
        first = queue[0]
        message = UserMessage(message_id=first.message_id, text=first.text, at=first.at)
        await self._store.commit(UserMessageAdded(message=message))
        self._start(message)

    def _start(self, message: UserMessage) -> None:
        self._turn = Turn(self._parts, message)
        self._job = self._spawn(self._guarded(self._turn), "turn")

    async def _guarded(self, turn: Turn) -> None:
        try:
            await turn.run()
        finally:
            self._turn = None
            self._job = None
            self._wake.set()
