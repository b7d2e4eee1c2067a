"""The inbox: accepts the user's messages at any time, and starts turns for them."""

from __future__ import annotations

import asyncio
from typing import Literal

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Job, Spawn
from duckflow_tui.state.conversation import (
    MessageQueued,
    QueuedMessage,
    QueueItemChanged,
    QueueItemRemoved,
    UserMessage,
    UserMessageAdded,
)
from duckflow_tui.state.gates import TELL, CardAnswer, CardKind, parse_typed_number
from duckflow_tui.state.session import SessionResumed
from duckflow_tui.state.store import Record
from duckflow_tui.state.turn import TurnFinished, TurnResumed
from duckflow_tui.work.aside import Aside
from duckflow_tui.work.plan_dispatch import PlanDesk
from duckflow_tui.work.resumed_work import find_turn_message, find_unanswered_message
from duckflow_tui.work.services import TurnParts
from duckflow_tui.work.turn import Turn

Stage = Literal[
    "free",  # the next message begins a turn
    "beginning",  # a message has left the queue, its turn does not exist yet
    "stopping",  # the same, but the turn is to be stopped at once
    "running",  # a turn runs
]


class Inbox:
    """Starts one turn after the other, one for each message. Messages sent while a turn runs wait
    in a visible queue, or are answered beside the work.
    """

    def __init__(self, parts: TurnParts, desk: PlanDesk, spawn: Spawn) -> None:
        self._parts = parts
        self._desk = desk
        self._store = parts.store
        self._spawn = spawn
        self._wake = asyncio.Event()
        self._stage: Stage = "free"
        self._held = False  # after a stop, queued messages wait for the user
        self._turn: Turn | None = None
        self._job: Job | None = None
        self._asides: set[Job] = set()
        self._floor = asyncio.Lock()  # lock of the answers beside the work
        self._taking = asyncio.Lock()  # keeps messages in order
        self._ahead = ""  # id of the message sent after a stop, which goes first
        self._forget = parts.store.subscribe(self._on_record)

    async def run(self) -> None:
        """Resume the work of an earlier process, then start turns for messages until cancelled."""
        if self._turn is None:  # the user may have started one already
            self._take_up()
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._stage == "free" and (self._ahead or not self._held):
                await self._begin_next()

    def close_inbox(self) -> None:
        """Leave the session: cancel the jobs, and leave the running turn resumable as it is
        recorded.
        """
        self._forget()
        for job in (*self._asides, self._job):
            if job is not None:
                job.cancel()
        if self._turn is not None:
            self._turn.leave()
            self._turn = None

    @property
    def turn(self) -> Turn | None:
        """The running turn, or None."""
        return self._turn

    @property
    def is_working(self) -> bool:
        """Whether a turn runs, or starts without further input from the user."""
        waits = bool(self._ahead) or (bool(self._store.state.queue) and not self._held)
        return self._stage != "free" or waits

    # --- what the user sends ----------------------------------------------------------------

    async def send(
        self, text: str, when: Literal["now", "next"] = "next", *, quoted: bool = False
    ) -> None:
        """Accept a message; returns once it is on disk. ``quoted``: the text may contain words that
        the user did not write.

        While a turn runs, the message is answered beside it (``now``) or queued for the next turn
        (``next``); while a turn is paused, it redirects the turn. After a stop, this message is
        worked on first, and messages queued before the stop wait for ``resume``.
        """
        running = self._store.state.turn
        if when == "now" and running is not None and running.pause != "paused":
            if not await self._answer_question(text):
                await self._answer_beside(text)
            return
        if not self._store.state.queue:
            self._held = False  # the queue of the stop is empty
            last = self._store.state.last_turn
            if running is None and last is not None and last.question is not None:
                options, number = last.question.options, parse_typed_number(text)
                if 0 < number <= len(options):
                    text, quoted = options[number - 1], True
        message = QueuedMessage(
            message_id=self._parts.ids("msg"),
            text=text,
            at=self._store.clock.now(),
            quoted=quoted,
        )
        await self._store.commit(MessageQueued(message=message))
        turn = self._store.state.turn
        if self._turn is not None and turn is not None and turn.pause == "paused":
            self._turn.steering.redirect(message)
            return
        if self._held and self._stage == "free":
            self._ahead = self._ahead or message.message_id
        self._wake.set()

    async def _answer_question(self, text: str) -> bool:
        """Answer with this text the model's open question, or the one after the last attempt, at
        which nothing runs; return False if neither is open.
        """
        for card in self._store.state.cards:
            if card.kind in (CardKind.QUESTION, CardKind.ESCALATION):
                key = str(parse_typed_number(text))
                option = next((o for o in card.options if o.key == key), TELL)
                answer = CardAnswer(
                    card_id=card.card_id,
                    subject=card.subject,
                    action=option.action,
                    text=text if option is TELL else "",
                )
                await self._parts.desk.record_answer(answer)
                return True
        return False

    async def _answer_beside(self, text: str) -> None:
        """Record a message and start a job that answers it beside the work."""
        message = UserMessage(
            message_id=self._parts.ids("msg"), text=text, aside=True, at=self._store.clock.now()
        )
        async with self._taking:
            await self._store.commit(UserMessageAdded(message=message))
            aside = Aside(self._parts, message, self._floor)
            job: Job | None = None

            async def answer() -> None:
                """Run the answer and forget its job."""
                try:
                    await aside.run()
                finally:
                    if job is not None:
                        self._asides.discard(job)

            job = self._spawn(answer(), "aside")
            self._asides.add(job)

    def change_queued(self, message_id: str, text: str) -> bool:
        """Replace the text of a queued message; False if it is no longer queued."""
        if all(message.message_id != message_id for message in self._store.state.queue):
            return False
        self._store.dispatch(QueueItemChanged(message_id=message_id, text=text))
        return True

    def take_back(self, message_id: str) -> str | None:
        """Remove a queued message and return its text; None if it is no longer queued."""
        for message in self._store.state.queue:
            if message.message_id == message_id:
                self._store.dispatch(QueueItemRemoved(message_id=message_id))
                return message.text
        return None

    # --- how the user steers ----------------------------------------------------------------

    def work_again(self, *, plan_first: bool = False) -> bool:
        """Start a turn on the last user message again; with ``plan_first`` it begins with the
        approved plan. False if a turn runs or begins, or there is no message.
        """
        asked = (m for m in reversed(self._store.state.messages) if isinstance(m, UserMessage))
        last = next((m for m in asked if not m.aside), None)
        if self._stage != "free" or last is None:
            return False
        self._begin_turn(Turn(self._parts, self._desk, last, plan_first=plan_first))
        return True

    def take_plan_up(self) -> None:
        """Start a turn that continues the approved plan, if that needs no word from the user and no
        turn runs. Nothing is started after a stop.
        """
        if not self._held and self._desk.goes_on:
            self.work_again(plan_first=True)

    def pause(self) -> None:
        """Stop the reply that is arriving, and pause the running turn at its next safe point."""
        if self._turn is not None:
            self._turn.steering.pause()

    def resume(self) -> None:
        """Continue after a pause, and start messages that a stop left queued."""
        if self._turn is not None:
            self._turn.steering.resume()
        elif self._store.state.turn is not None:  # of an earlier process, not yet taken up
            self._store.dispatch(TurnResumed(at=self._store.clock.now()))
        self._held = False
        self._wake.set()

    def stop(self) -> None:
        """Cancel the running turn and all answers beside it; effects so far remain. Queued messages
        wait until the user resumes or sends another.
        """
        for aside in tuple(self._asides):
            aside.cancel()
        if self._stage == "free":
            return
        self._held = True
        if self._stage == "beginning":
            self._stage = "stopping"
        elif self._job is not None:
            # After the job's first step, or it could not record that it was stopped.
            asyncio.get_running_loop().call_soon(self._job.cancel)

    # --- from one turn to the next ------------------------------------------------------------

    def _take_up(self) -> None:
        """Resume the turn of an earlier process, or prepare, paused, one for a message without a
        turn.
        """
        state = self._store.state
        if state.turn is not None:
            message = find_turn_message(state, state.turn)
            self._begin_turn(Turn(self._parts, self._desk, message, resumed=state.turn))
        elif (message := find_unanswered_message(state)) is not None:
            self._begin_turn(Turn(self._parts, self._desk, message, paused=True))

    async def _begin_next(self) -> None:
        """Start the turn of the next queued message; without one, continue a plan that has more to
        do.
        """
        queue = self._store.state.queue
        ahead, self._ahead = self._ahead, ""
        waiting = [m for m in queue if m.message_id == ahead]
        if not waiting and not self._held:
            waiting = list(queue)
        if not waiting:
            last = self._store.state.last_turn
            if last is not None and last.outcome == "done":
                self.take_plan_up()  # the plan got steps after the turn's end
            return
        first = waiting[0]
        message = UserMessage(
            message_id=first.message_id, text=first.text, at=first.at, quoted=first.quoted
        )
        await self._take_from_queue(message)
        stopped = self._stage == "stopping"
        self._begin_turn(Turn(self._parts, self._desk, message))
        if stopped:
            self.stop()

    async def _take_from_queue(self, message: UserMessage) -> None:
        """Move a queued message into the conversation."""
        self._stage = "beginning"
        try:
            await self._store.commit(UserMessageAdded(message=message))
        except BaseException:  # a cancellation too: the message still waits
            self._stage = "free"
            raise

    def _begin_turn(self, turn: Turn) -> None:
        """Start the job of a turn."""
        self._stage, self._turn = "running", turn
        self._job = self._spawn(self._run_guarded(turn), "turn")

    async def _run_guarded(self, turn: Turn) -> None:
        """Run a turn; whatever happens, the next can begin afterwards."""
        try:
            await turn.run()
        finally:
            self._on_turn_over(turn)
            self._wake.set()

    def _on_record(self, state: AgentState, record: Record) -> None:
        """Note the end of a turn at ``TurnFinished``, before it is on disk. After resuming a
        session, queued messages wait for the user.
        """
        match record.event:
            case TurnFinished() if self._turn is not None:
                self._on_turn_over(self._turn)
            case SessionResumed():
                self._held = bool(state.queue)
            case _:
                pass

    def _on_turn_over(self, turn: Turn) -> None:
        """Forget the turn if it is the running one, so that the next can begin."""
        if self._turn is turn:
            self._turn = self._job = None
            self._stage = "free"
