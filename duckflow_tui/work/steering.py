"""Pausing, resuming and redirecting a running turn; also the phase while the user is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING

from duckflow_tui.state.calls import (
    ChangesRedone,
    ChangesUndone,
    OperationFinished,
    OperationMessage,
)
from duckflow_tui.state.gates import (
    ACCEPT,
    REJECT,
    CardAnswered,
    CardKind,
    CardMessage,
    CardOpened,
    CardWithdrawn,
    GateAnswered,
    GateOpened,
    GateWithdrawn,
)
from duckflow_tui.state.operations import Risk
from duckflow_tui.state.phase import Phase, Status, Trigger
from duckflow_tui.state.plan_events import PlanAnswered, WorkStarted
from duckflow_tui.state.turn import PauseRequested, TurnOutcome, TurnPaused, TurnResumed

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.state.conversation import QueuedMessage
    from duckflow_tui.state.pace import Reason
    from duckflow_tui.state.phase_machine import PhaseMachine
    from duckflow_tui.state.store import Record, Store
    from duckflow_tui.work.pace import PaceKeeper


class ReplyStopped(Exception):
    """Raised when the user paused while a model replied; the request was cancelled."""


@asynccontextmanager
async def cancel_on_pause(store: Store) -> AsyncGenerator[None]:
    """Cancel the body of this context when the user pauses the work, and raise ReplyStopped."""
    loop = asyncio.get_running_loop()

    def hear(_state: AgentState, record: Record) -> None:
        """Cancel the body when a pause is requested."""
        if isinstance(record.event, PauseRequested):
            unwatch()
            scope.reschedule(loop.time())

    scope, unwatch = asyncio.timeout(None), store.subscribe(hear)
    try:
        async with scope:
            try:
                yield
            finally:
                unwatch()
    except TimeoutError:
        if not scope.expired():
            raise
        raise ReplyStopped from None


async def wait_until(store: Store, holds: Callable[[AgentState], bool]) -> None:
    """Return once ``holds`` is true of the state."""
    changed = asyncio.Event()
    unwatch = store.subscribe(lambda state, record: changed.set())
    try:
        while not holds(store.state):
            changed.clear()
            await changed.wait()
    finally:
        unwatch()


async def wait_while_paused(store: Store) -> None:
    """Wait until the user resumes a paused turn; returns at once if it is not paused. Call it only
    where no effect is half done.
    """
    while (turn := store.state.turn) is not None and turn.pause != "running":
        await store.commit(TurnPaused(at=store.clock.now()))
        await wait_until(store, lambda state: state.turn is None or state.turn.pause != "paused")


class TurnControl:
    """Steers one turn for the user. Whether it is paused is stored only in ``state.turn.pause``."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.turn_pace: PaceKeeper | None = None
        self.step_pace: PaceKeeper | None = None  # of the step that runs
        # How the turn ends: chosen by the user in a step, or due there with nobody to ask.
        self.turn_end: tuple[TurnOutcome, Status, Reason | None] | None = None
        self.redirected: QueuedMessage | None = None  # taken up before the next decision

    @property
    def pace(self) -> PaceKeeper | None:
        """The pace of the running step, else of the turn."""
        return self.step_pace or self.turn_pace

    def pause(self) -> None:
        """Stop the reply that is arriving, and pause the turn at its next safe point."""
        turn = self._store.state.turn
        if turn is not None and turn.pause == "running":
            self._store.dispatch(PauseRequested())

    def resume(self) -> None:
        """Continue the turn, or cancel a pause that has not taken effect."""
        turn = self._store.state.turn
        if turn is not None and turn.pause != "running":
            self._store.dispatch(TurnResumed(at=self._store.clock.now()))

    def redirect(self, message: QueuedMessage) -> None:
        """Continue the turn with a new message; actions not yet begun are skipped."""
        self.redirected = message
        self.resume()

    async def safe_point(self) -> None:
        """Wait here while the turn is paused; called where no effect is half done."""
        await wait_while_paused(self._store)


class PhaseKeeper:
    """Derives phase and status from events of the Store. A high-risk approval or a plan sets phase
    AWAITING_APPROVAL (S4-42, S4-46…49); any other question sets REQUIRES_USER_INPUT (S4-29); a
    failed operation sets ERROR until the next decision (S4-53).
    """

    def __init__(self, store: Store, machine: PhaseMachine) -> None:
        self._machine = machine
        store.subscribe(self._follow_record)

    def _follow_record(self, state: AgentState, record: Record) -> None:
        """Update phase and status after an event."""
        if state.turn is None:
            objective = state.objective
            turned = isinstance(record.event, ChangesUndone | ChangesRedone)
            if turned and objective and objective.reopened:
                self._machine.reset()  # undo or redo changed the finished work
            return  # an answer after the turn changes no phase
        match record.event:
            case GateOpened(gate=gate):
                if gate.impact.risk.rank >= Risk.HIGH.rank or "for_user" in gate.impact.reasons:
                    self._machine.move_to(Phase.AWAITING_APPROVAL, Trigger.GATE_OPENED)
                else:
                    self._machine.set_status(Status.REQUIRES_USER_INPUT)
            case GateAnswered(answer=answer) if not state.gates:
                if state.phase is not Phase.AWAITING_APPROVAL:
                    self._resume_status(state)
                elif answer.is_approval:
                    self._machine.move_to(Phase.EXECUTION, Trigger.GATE_APPROVED)
                else:
                    self._machine.move_to(Phase.PLANNING, Trigger.GATE_REFUSED)
            case GateWithdrawn(reason="stopped") if not state.gates:
                self._machine.set_status(Status.IN_PROGRESS)
            case CardOpened(card=card) if card.kind is not CardKind.TRUST:
                asks = card.kind is CardKind.QUESTION and ACCEPT in card.options
                if asks or card.kind is CardKind.PLAN:
                    self._machine.move_to(Phase.AWAITING_APPROVAL, Trigger.GATE_OPENED)
                else:
                    self._machine.set_status(Status.REQUIRES_USER_INPUT)
            case PlanAnswered(run=run) if run is not None:
                self._machine.move_to(Phase.EXECUTION, Trigger.GATE_APPROVED)
            case PlanAnswered() if state.phase is Phase.AWAITING_APPROVAL:
                self._machine.move_to(Phase.PLANNING, Trigger.GATE_REFUSED)
            case WorkStarted():
                self._machine.move_to(Phase.EXECUTION, Trigger.GATE_APPROVED)
            case CardAnswered(answer=answer) if _was_approval_question(state):
                if answer.action == REJECT.action:
                    self._machine.move_to(Phase.PLANNING, Trigger.GATE_REFUSED)
                else:
                    self._machine.move_to(Phase.EXECUTION, Trigger.GATE_APPROVED)
            case CardAnswered() | CardWithdrawn(reason="stopped"):
                self._resume_status(state)
            case OperationFinished(message=message):
                if message.result.outcome.is_failure:
                    status, detail = Status.ERROR, message.result.text[:200]
                    self._machine.set_status(status, detail)
                    if not message.step_id and _failed_twice(state):  # S4-50
                        self._machine.move_to(
                            Phase.PLANNING, Trigger.ERROR, status=status, detail=detail
                        )
                elif message.result.went_well and state.status is Status.ERROR:
                    self._machine.set_status(Status.IN_PROGRESS)
            case _:
                pass

    def _resume_status(self, state: AgentState) -> None:
        """Set IN_PROGRESS after an answer, unless another question is open."""
        if not state.is_work_waiting and state.phase is not Phase.AWAITING_APPROVAL:
            self._machine.set_status(Status.IN_PROGRESS)


def _failed_twice(state: AgentState) -> bool:
    """Whether the model's last two calls in the conversation failed."""
    calls = (
        m
        for m in reversed(state.messages)
        if isinstance(m, OperationMessage) and not (m.step_id or m.by_user or m.for_requirement)
    )
    newest = list(islice(calls, 2))
    return len(newest) == 2 and all(m.result.outcome.is_failure for m in newest)


def _was_approval_question(state: AgentState) -> bool:
    """Whether the newest message answers a question of the model that awaited approval."""
    newest = state.messages[-1]
    asked = isinstance(newest, CardMessage) and newest.card.kind is CardKind.QUESTION
    return asked and state.phase is Phase.AWAITING_APPROVAL
