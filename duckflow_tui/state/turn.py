"""The running turn, ended turns, and what was interrupted when the app ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from duckflow_tui.state.base import Count, Event, Frozen, StateError
from duckflow_tui.state.decision import Question
from duckflow_tui.state.gates import Card, CardKind
from duckflow_tui.state.goal import ENDED_WELL
from duckflow_tui.state.pace import Reason
from duckflow_tui.state.phase import ForbiddenTransition, Transition
from duckflow_tui.state.plan import StepReport, WorkInfo
from duckflow_tui.state.plan_events import compute_wait_s, count_wait

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.state.plan import Halt

TurnOutcome = Literal["done", "answered", "partial", "denied", "failed", "limit", "stopped"]

#: What a turn's message is to the request before it: another one, the same, or open until the
#: model's first decision says it; until then what is guessed holds.
Belongs = Literal["new", "same", "guessed_new", "guessed_same"]
PauseState = Literal["running", "pausing", "paused"]


class TurnInfo(Frozen):
    """The turn that is running."""

    turn_id: str
    message_id: str
    attempt: int = Field(default=1, ge=1)
    max_attempts: int = Field(default=3, ge=1)
    loop: int = Field(default=0, ge=0)
    limit: int = Field(default=10, ge=1)
    request: Belongs = "new"
    pause: PauseState = "running"
    started_at: float
    calls_before: int = 0  # usage.calls when the turn began
    tokens_before: Count = 0  # in and out
    cost_before: float | None = None
    away_s: float = 0.0  # seconds that the app was not running meanwhile
    waited_s: float = 0.0  # seconds that a gate or a card waited for the user, up to its answer

    def summarize_as_stopped(self, state: AgentState, at: float) -> TurnSummary:
        """The summary of this turn as if it had been stopped at that time."""
        usage = state.usage
        waited = self.waited_s + compute_wait_s(state.waits_since, self.started_at, at)
        return TurnSummary(
            turn_id=self.turn_id,
            outcome="stopped",
            llm_calls=usage.calls - self.calls_before,
            tokens=usage.tokens_in + usage.tokens_out - self.tokens_before,
            duration_s=max(at - self.started_at - self.away_s - waited, 0.0),
            waited_s=waited,
            messages=len(state.messages),
        )


class TurnResult(Frozen):
    """How a turn ended, and its calls, tokens, cost and times."""

    turn_id: str
    outcome: TurnOutcome
    reply: str = ""
    satisfaction: float | None = None
    proven: bool | None = None  # whether facts show each requirement; None where none was judged
    remarks: tuple[str, ...] = ()  # what is lacking in what is done, by who judged it
    llm_calls: int = 0
    tokens: Count = 0
    cost: float | None = None
    files_changed: tuple[str, ...] = ()
    duration_s: float = 0.0  # of work
    waited_s: float = 0.0  # beside it, for the user
    reason: Reason | None = None  # what ended it before it was done, where that is known
    question: Question | None = None  # that the model ended with, and nobody has answered


class TurnSummary(TurnResult):
    """An ended turn, placed in the conversation."""

    messages: int = 0  # that there were in the conversation when it ended


class Interrupted(Frozen):
    """Work and cards that an interrupted turn has to resume before its next decision."""

    work: WorkInfo | None = None  # on a plan, at the step it had come to
    plan_card: str = ""  # the plan that waited for approval
    report: StepReport | None = None  # whose card waited for an answer
    asked: tuple[Card, ...] = ()  # consultations, escalations, limits that no one has opened again

    def get_waiting_card(self, kind: CardKind, step_id: str = "") -> Card | None:
        """Return the card of this kind that waited in the turn itself or in this step; None
        without.
        """
        found = (c for c in self.asked if c.kind is kind and c.step_id == step_id)
        return next(found, None)

    def without_card(self, card: Card) -> Interrupted:
        """Return a copy without this card, because it was opened again."""
        same = (card.kind, card.step_id)
        left = tuple(c for c in self.asked if (c.kind, c.step_id) != same)
        return self.replace(asked=left)


@dataclass(eq=False)
class TurnState:
    """The running turn, and ended turns, which are only appended."""

    turn: TurnInfo | None = None
    work: WorkInfo | None = None  # on a plan or a list
    interrupted: Interrupted | None = None  # what the turn has to take up again
    recoveries: int = 0  # error recoveries in this turn (S4-53)
    last_turn: TurnSummary | None = None
    turns: list[TurnSummary] = field(default_factory=list[TurnSummary])  # that ended, oldest first
    transitions: tuple[Transition, ...] = ()
    refusals: tuple[ForbiddenTransition, ...] = ()


class TurnStarted(Event, kind="turn_started"):
    """Work on a user message started. This alone resumes no plan."""

    turn: TurnInfo

    def apply(self, state: AgentState) -> None:
        if state.turn is not None:
            raise StateError(f"turn {state.turn.turn_id} still runs")
        state.turn = self.turn
        _halt_plans(state, "waits")
        state.recoveries = 0


class LoopStarted(Event, kind="loop_started"):
    """A further decision of the model within the turn started."""

    loop: int = Field(ge=1)
    limit: int = Field(ge=1)

    def apply(self, state: AgentState) -> None:
        turn = _get_turn(state)
        state.turn = turn.replace(loop=self.loop, limit=self.limit)
        state.interrupted = None
        if state.pace is not None:
            state.pace = state.pace.replace(used=self.loop)


class PauseRequested(Event, kind="pause_requested"):
    """The user asked to pause at the next safe point."""

    def apply(self, state: AgentState) -> None:
        state.turn = _get_turn(state).replace(pause="pausing")


class TurnPaused(Event, kind="turn_paused"):
    """The turn paused at a safe point; nothing runs until the user resumes, and the time does not
    count as work.

    ``at``: seconds since the epoch.
    """

    at: float

    def apply(self, state: AgentState) -> None:
        state.turn = _get_turn(state).replace(pause="paused")
        count_wait(state, self.at)


class TurnResumed(Event, kind="turn_resumed"):
    """The user resumed the turn; ``at``: seconds since the epoch."""

    at: float

    def apply(self, state: AgentState) -> None:
        state.turn = _get_turn(state).replace(pause="running")
        count_wait(state, self.at)


class TurnFinished(TurnResult, Event, kind="turn_finished"):
    """The turn ended; also the last line of ``--json``."""

    def apply(self, state: AgentState) -> None:
        turn = _get_turn(state)
        if turn.turn_id != self.turn_id:
            raise StateError(f"turn {self.turn_id} does not run")
        state.turn = None
        state.interrupted = None
        if not state.is_work_waiting:
            state.waits_since = None
        if self.outcome not in ENDED_WELL or self.reason is not None:
            _halt_plans(state, "stopped")
        if self.reason is not None and self.reason.code == "accepted":
            state.plans = tuple(plan.replace(review_failed=False) for plan in state.plans)
        state.live = {llm_id: live for llm_id, live in state.live.items() if live.aside}
        summary = TurnSummary.model_validate(self, from_attributes=True)
        state.last_turn = summary.replace(messages=len(state.messages))
        state.turns.append(state.last_turn)


def _halt_plans(state: AgentState, halted: Halt) -> None:
    """Halt every plan that may go on."""
    state.plans = tuple(
        plan.replace(halted=halted) if plan.may_go_on else plan for plan in state.plans
    )


def _get_turn(state: AgentState) -> TurnInfo:
    """Return the running turn. Raises StateError without one."""
    if state.turn is None:
        raise StateError("no turn runs")
    return state.turn
