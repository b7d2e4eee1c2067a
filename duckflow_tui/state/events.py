"""Every event there is. ``apply`` is pure: no clock, no ids, no I/O; it checks, then assigns.

The ``kind`` of an event is its name in the journal and in ``--json``. Those of plans, cards and
work stand in ``plan_events``, those of processes and servers in ``process_events``.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, TypeAdapter

from duckflow_tui.state.agent import (
    AgentState,
    LiveReply,
    SessionInfo,
    TurnInfo,
    TurnOutcome,
    TurnSummary,
    Waiting,
)
from duckflow_tui.state.base import Count, JsonObject
from duckflow_tui.state.budget_events import BudgetRaised
from duckflow_tui.state.context_events import (
    CompactionUndone,
    ContextCompacted,
    PromptMeasured,
    count_request,
)
from duckflow_tui.state.event_base import BaseEvent, StateError
from duckflow_tui.state.gates import Gate, GateAnswer, GateChoice, Grant, before_hashes
from duckflow_tui.state.memory import WorkingMemory, problems
from duckflow_tui.state.messages import (
    AssistantMessage,
    NoticeMessage,
    OperationMessage,
    QueuedMessage,
    RunningOperation,
    UserMessage,
)
from duckflow_tui.state.objective_events import (
    AttemptStarted,
    ObjectiveChanged,
    ObjectiveReviewed,
    RequirementEdited,
    RequirementsFound,
    RequirementWaived,
)
from duckflow_tui.state.operations import ApprovalMode, FileChange, Outcome
from duckflow_tui.state.pace_events import LimitExtended, LimitSet, ProfileChosen
from duckflow_tui.state.phase import Refusal, Status, Transition
from duckflow_tui.state.plan_events import (
    CardAnswered,
    CardOpened,
    CardWithdrawn,
    PlanAnswered,
    PlanProposed,
    PlanRevised,
    PlanStatusChanged,
    ReportAdded,
    StepBreakSet,
    StepChanged,
    StepTasksSet,
    TaskChanged,
    WorkFinished,
    WorkProgressed,
    WorkStarted,
)
from duckflow_tui.state.process_events import (
    McpServerChanged,
    OperationOutput,
    ProcessEnded,
    ProcessOutput,
    ProcessStarted,
)
from duckflow_tui.state.rewind_events import (
    ConversationRewound,
    RewindUndone,
    SessionForked,
    forget_rewound,
)
from duckflow_tui.state.session_events import DraftSaved, JournalChanged, SessionResumed
from duckflow_tui.state.title_events import SessionPinned, SessionTitled
from duckflow_tui.state.usage import LlmCall, Purpose
from duckflow_tui.state.vitals import HISTORY, VitalChange, Vitals

TRANSITION_HISTORY = 50  # S4-55


# --- session ---------------------------------------------------------------------------------


class SessionStarted(BaseEvent):
    """The first event of a session."""

    kind: Literal["session_started"] = "session_started"
    session: SessionInfo
    mode: ApprovalMode
    context_window: int = 0

    def apply(self, state: AgentState) -> None:
        if state.session.session_id:
            raise StateError("the session has begun already")
        state.session = self.session
        state.mode = self.mode
        state.usage = state.usage.model_copy(update={"context_window": self.context_window})


class ModelChanged(BaseEvent):
    """Another main model, or an endpoint where there was none."""

    kind: Literal["model_changed"] = "model_changed"
    endpoint: str
    model: str
    context_window: int = 0

    def apply(self, state: AgentState) -> None:
        update = {"endpoint": self.endpoint, "model": self.model}
        state.session = state.session.model_copy(update=update)
        state.usage = state.usage.model_copy(update={"context_window": self.context_window})


class ModeChanged(BaseEvent):
    """The user set another approval mode. Never resolves an open gate."""

    kind: Literal["mode_changed"] = "mode_changed"
    mode: ApprovalMode

    def apply(self, state: AgentState) -> None:
        state.mode = self.mode


# --- conversation ----------------------------------------------------------------------------


class UserMessageAdded(BaseEvent):
    """A message of the user entered the conversation."""

    kind: Literal["user_message"] = "user_message"
    message: UserMessage

    def apply(self, state: AgentState) -> None:
        state.queue = tuple(q for q in state.queue if q.message_id != self.message.message_id)
        state.messages.append(self.message)
        forget_rewound(state)
        _sent(state, self.message.text)


class MessageQueued(BaseEvent):
    """A message sent while work runs waits for the next turn."""

    kind: Literal["message_queued"] = "message_queued"
    message: QueuedMessage

    def apply(self, state: AgentState) -> None:
        state.queue = (*state.queue, self.message)
        _sent(state, self.message.text)


class QueueItemChanged(BaseEvent):
    """The user rewrote a waiting message."""

    kind: Literal["queue_item_changed"] = "queue_item_changed"
    message_id: str
    text: str

    def apply(self, state: AgentState) -> None:
        if all(q.message_id != self.message_id for q in state.queue):
            raise StateError(f"no message {self.message_id} waits")
        state.queue = tuple(
            q.model_copy(update={"text": self.text}) if q.message_id == self.message_id else q
            for q in state.queue
        )


class QueueItemRemoved(BaseEvent):
    """The user took a waiting message back."""

    kind: Literal["queue_item_removed"] = "queue_item_removed"
    message_id: str

    def apply(self, state: AgentState) -> None:
        if all(q.message_id != self.message_id for q in state.queue):
            raise StateError(f"no message {self.message_id} waits")
        state.queue = tuple(q for q in state.queue if q.message_id != self.message_id)


class NoticeAdded(BaseEvent):
    """The app says something itself."""

    kind: Literal["notice"] = "notice"
    message: NoticeMessage

    def apply(self, state: AgentState) -> None:
        state.messages.append(self.message)


class AssistantReplied(BaseEvent):
    """A reply of the model ended, whole or cut short."""

    kind: Literal["assistant_message"] = "assistant_message"
    message: AssistantMessage

    def apply(self, state: AgentState) -> None:
        state.live.pop(self.message.llm_id, None)
        state.messages.append(self.message)


# --- turn ------------------------------------------------------------------------------------


class TurnStarted(BaseEvent):
    """A user message is being worked on."""

    kind: Literal["turn_started"] = "turn_started"
    turn: TurnInfo

    def apply(self, state: AgentState) -> None:
        if state.turn is not None:
            raise StateError(f"turn {state.turn.turn_id} still runs")
        state.turn = self.turn
        state.recoveries = 0


class LoopStarted(BaseEvent):
    """One more model decision in the turn."""

    kind: Literal["loop_started"] = "loop_started"
    loop: int = Field(ge=1)
    limit: int = Field(ge=1)

    def apply(self, state: AgentState) -> None:
        turn = _turn(state)
        state.turn = turn.model_copy(update={"loop": self.loop, "limit": self.limit})
        state.interrupted = None
        if state.pace is not None:
            state.pace = state.pace.model_copy(update={"used": self.loop})


class PauseRequested(BaseEvent):
    """The user wants the work to halt at the next safe point."""

    kind: Literal["pause_requested"] = "pause_requested"

    def apply(self, state: AgentState) -> None:
        state.turn = _turn(state).model_copy(update={"pause": "pausing"})


class TurnPaused(BaseEvent):
    """The safe point was reached; nothing runs until the user resumes."""

    kind: Literal["turn_paused"] = "turn_paused"

    def apply(self, state: AgentState) -> None:
        state.turn = _turn(state).model_copy(update={"pause": "paused"})


class TurnResumed(BaseEvent):
    """The user let the work go on."""

    kind: Literal["turn_resumed"] = "turn_resumed"

    def apply(self, state: AgentState) -> None:
        state.turn = _turn(state).model_copy(update={"pause": "running"})


class TurnFinished(BaseEvent):
    """The turn ended; also the last line of ``--json``."""

    kind: Literal["turn_finished"] = "turn_finished"
    turn_id: str
    outcome: TurnOutcome
    reply: str = ""
    satisfaction: float | None = None
    llm_calls: int = 0
    tokens: Count = 0
    cost: float | None = None
    files_changed: tuple[str, ...] = ()
    duration_s: float = 0.0

    def apply(self, state: AgentState) -> None:
        turn = _turn(state)
        if turn.turn_id != self.turn_id:
            raise StateError(f"turn {self.turn_id} does not run")
        state.turn = None
        state.interrupted = None
        state.live = {llm_id: live for llm_id, live in state.live.items() if live.aside}
        state.last_turn = TurnSummary(
            turn_id=self.turn_id,
            outcome=self.outcome,
            reply=self.reply,
            satisfaction=self.satisfaction,
            llm_calls=self.llm_calls,
            tokens=self.tokens,
            cost=self.cost,
            files_changed=self.files_changed,
            duration_s=self.duration_s,
            messages=len(state.messages),
        )
        state.turns.append(state.last_turn)


# --- model calls -----------------------------------------------------------------------------


class LlmCallStarted(BaseEvent):
    """A request is on its way."""

    kind: Literal["llm_call_started"] = "llm_call_started"
    transient: ClassVar[bool] = True
    llm_id: str
    purpose: Purpose
    at: float
    step_id: str = ""
    aside: bool = False

    def apply(self, state: AgentState) -> None:
        state.live[self.llm_id] = LiveReply(
            self.llm_id, self.purpose, self.at, step_id=self.step_id, aside=self.aside
        )


class ReplyDelta(BaseEvent):
    """A piece of the reply, as soon as it can be read."""

    kind: Literal["reply_delta"] = "reply_delta"
    transient: ClassVar[bool] = True
    llm_id: str
    text: str
    at: float

    def apply(self, state: AgentState) -> None:
        live = state.live.get(self.llm_id)
        if live is None:
            return
        live.waiting = None
        if live.first_text_at is None:
            live.first_text_at = self.at
        live.text.append(self.text)


class ReasoningDelta(BaseEvent):
    """A piece of the model's reasoning."""

    kind: Literal["reasoning_delta"] = "reasoning_delta"
    transient: ClassVar[bool] = True
    llm_id: str
    text: str
    at: float

    def apply(self, state: AgentState) -> None:
        live = state.live.get(self.llm_id)
        if live is None:
            return
        live.waiting = None
        if live.reasoning_started is None:
            live.reasoning_started = self.at
        live.reasoning.append(self.text)


class LlmWaiting(BaseEvent):
    """A call waits: for a retry, or for a stream that fell silent. None: it moves again."""

    kind: Literal["llm_waiting"] = "llm_waiting"
    transient: ClassVar[bool] = True
    llm_id: str
    waiting: Waiting | None

    def apply(self, state: AgentState) -> None:
        live = state.live.get(self.llm_id)
        if live is not None:
            live.waiting = self.waiting


class LlmCallFinished(BaseEvent):
    """What a call cost and how it ended."""

    kind: Literal["llm_call"] = "llm_call"
    call: LlmCall

    def apply(self, state: AgentState) -> None:
        decides = self.call.purpose in ("main", "task")  # whose reply ends it
        if self.call.outcome in ("error", "cancelled") or not decides:
            state.live.pop(self.call.llm_id, None)
        state.usage = state.usage.plus(self.call)
        count_request(state, self.call)
        if self.call.step_id:
            _account(state, self.call)


# --- memory, phase, vitals, objective --------------------------------------------------------


class WorkingMemoryChanged(BaseEvent):
    """A decision changed the working memory; ``cuts`` name what its limits took away."""

    kind: Literal["working_memory"] = "working_memory"
    memory: WorkingMemory
    cuts: tuple[str, ...] = ()

    def apply(self, state: AgentState) -> None:
        broken = problems(self.memory)
        if broken:
            raise StateError("; ".join(broken))
        state.memory = self.memory


class PhaseChanged(BaseEvent):
    """The phase machine made a move, with the status that goes with it."""

    kind: Literal["phase_changed"] = "phase_changed"
    transition: Transition
    status: Status

    def apply(self, state: AgentState) -> None:
        if self.transition.old is not state.phase:
            raise StateError(f"the phase is {state.phase}, not {self.transition.old}")
        state.phase = self.transition.new
        state.status = self.status
        state.status_detail = ""
        state.transitions = (*state.transitions, self.transition)[-TRANSITION_HISTORY:]


class TransitionRefused(BaseEvent):
    """The phase machine did not make a move (S4-51)."""

    kind: Literal["transition_refused"] = "transition_refused"
    refusal: Refusal

    def apply(self, state: AgentState) -> None:
        state.refusals = (*state.refusals, self.refusal)[-TRANSITION_HISTORY:]


class StatusChanged(BaseEvent):
    """The status changed within the phase (S4-28); ``detail`` says why (S4-29, S4-53).

    ``recovery`` marks the start of an error recovery, which are counted in a turn.
    """

    kind: Literal["status_changed"] = "status_changed"
    status: Status
    detail: str = ""
    recovery: bool = False

    def apply(self, state: AgentState) -> None:
        if self.recovery:
            state.recoveries += 1
        state.status = self.status
        state.status_detail = self.detail


class VitalsChanged(BaseEvent):
    """One vital moved, with its cause."""

    kind: Literal["vitals"] = "vitals"
    change: VitalChange

    def apply(self, state: AgentState) -> None:
        if self.change.old != getattr(state.vitals, self.change.vital):
            raise StateError(f"{self.change.vital} is not {self.change.old}")
        kept: list[VitalChange] = []
        for vital in ("mood", "focus", "stamina"):
            mine = [c for c in (*state.vitals.history, self.change) if c.vital == vital]
            kept.extend(mine[-HISTORY:])
        values: dict[str, Any] = {
            "mood": state.vitals.mood,
            "focus": state.vitals.focus,
            "stamina": state.vitals.stamina,
            self.change.vital: self.change.new,
        }
        kept.sort(key=lambda c: c.at)
        state.vitals = Vitals(**values, history=tuple(kept))


# --- operations ------------------------------------------------------------------------------


class OperationRequested(BaseEvent):
    """The intent: on disk before anything is touched."""

    kind: Literal["operation_requested"] = "operation_requested"
    call_id: str
    operation: str
    args: JsonObject
    reasoning: str = ""
    intent: str = ""
    step_id: str = ""  # the plan's step it belongs to
    by_user: bool = False  # the user ran it, not the model
    at: float

    def apply(self, state: AgentState) -> None:
        if any(r.call_id == self.call_id for r in state.running):
            raise StateError(f"call {self.call_id} runs already")
        state.running = (
            *state.running,
            RunningOperation(
                call_id=self.call_id,
                operation=self.operation,
                args=self.args,
                reasoning=self.reasoning,
                intent=self.intent,
                step_id=self.step_id,
                by_user=self.by_user,
                at=self.at,
            ),
        )


class OperationStarted(BaseEvent):
    """Consent is there; it runs now."""

    kind: Literal["operation_started"] = "operation_started"
    call_id: str
    at: float
    expects: tuple[FileChange, ...] = ()  # what it is about to do to files

    def apply(self, state: AgentState) -> None:
        _running(state, self.call_id)
        update = {"started": True, "at": self.at, "expects": self.expects}
        _change_running(state, self.call_id, update)


class OperationProgress(BaseEvent):
    """A running operation says how far it is."""

    kind: Literal["operation_progress"] = "operation_progress"
    transient: ClassVar[bool] = True
    call_id: str
    text: str

    def apply(self, state: AgentState) -> None:
        _change_running(state, self.call_id, {"progress": self.text})


class OperationFinished(BaseEvent):
    """The result; the call leaves ``running`` and enters the conversation."""

    kind: Literal["operation_finished"] = "operation_finished"
    message: OperationMessage
    files_read: dict[str, str] = Field(default_factory=dict)  # path → SHA-256; "" forgets it

    def apply(self, state: AgentState) -> None:
        _running(state, self.message.call_id)
        state.running = tuple(r for r in state.running if r.call_id != self.message.call_id)
        state.outputs.pop(self.message.call_id, None)
        state.messages.append(self.message)
        for path, sha in self.files_read.items():
            if sha:
                state.files_read[path] = sha
            else:
                state.files_read.pop(path, None)
        could_not = self.message.result.outcome in (Outcome.ERROR, Outcome.INVALID)
        if could_not and not self.message.by_user and state.pace is not None:
            failed = state.pace.failed_operations + 1
            state.pace = state.pace.model_copy(update={"failed_operations": failed})


class FileChangedOutside(BaseEvent):
    """A file that was read or is in a preview changed, and not by us."""

    kind: Literal["file_changed_outside"] = "file_changed_outside"
    path: str
    sha: str  # new hash, empty when the file is gone

    def apply(self, state: AgentState) -> None:
        if self.path in state.files_read:
            state.files_read[self.path] = self.sha
        if self.path not in state.changed_outside:
            state.changed_outside = (*state.changed_outside, self.path)


class OutsideChangesTold(BaseEvent):
    """The model was told which files changed outside."""

    kind: Literal["outside_changes_told"] = "outside_changes_told"
    paths: tuple[str, ...]

    def apply(self, state: AgentState) -> None:
        state.changed_outside = tuple(p for p in state.changed_outside if p not in self.paths)


class ChangesUndone(BaseEvent):
    """The user took changes back; files are as they were before them."""

    kind: Literal["changes_undone"] = "changes_undone"
    call_id: str  # the call whose changes were undone
    changes: tuple[FileChange, ...]

    def apply(self, state: AgentState) -> None:
        state.undone_calls = (*state.undone_calls, self.call_id)
        for change in self.changes:
            state.files_read.pop(change.path, None)
            state.files_read.pop(change.target, None)


# --- gates -----------------------------------------------------------------------------------


class GateOpened(BaseEvent):
    """A proposal waits for the user. The same gate id again: the preview was renewed."""

    kind: Literal["gate_opened"] = "gate_opened"
    gate: Gate

    def apply(self, state: AgentState) -> None:
        if any(g.gate_id == self.gate.gate_id for g in state.gates):
            raise StateError(f"gate {self.gate.gate_id} is open already")
        state.gates = (*state.gates, self.gate)


class GateAnswered(BaseEvent):
    """The user's key. Refused unless it is bound to exactly what an open gate shows."""

    kind: Literal["gate_answered"] = "gate_answered"
    answer: GateAnswer

    def apply(self, state: AgentState) -> None:
        gate = next((g for g in state.gates if g.gate_id == self.answer.gate_id), None)
        if gate is None:
            raise StateError(f"gate {self.answer.gate_id} is not open")
        same = (
            self.answer.call_id == gate.call_id
            and self.answer.args_hash == gate.args_hash
            and self.answer.before_hashes == before_hashes(gate)
        )
        if not same:
            raise StateError("the answer is for something other than what the gate shows")
        if self.answer.choice is GateChoice.ALTERNATIVE and (
            self.answer.alternative is None or self.answer.alternative > len(gate.alternatives)
        ):
            raise StateError("there is no such alternative")
        if self.answer.choice is GateChoice.SESSION and not gate.can_grant_session:
            raise StateError("this call can only be allowed once")
        if self.answer.choice is GateChoice.STEP and not gate.can_grant_step:
            raise StateError("this call can only be allowed once")
        if gate.needs_word and self.answer.approves:
            if self.answer.word.strip() != gate.needs_word:
                raise StateError(f"the word {gate.needs_word!r} is wanted first")
            state.accepted_words = (*state.accepted_words, gate.needs_word)
        state.gates = tuple(g for g in state.gates if g.gate_id != gate.gate_id)
        _change_running(state, gate.call_id, {"gate": gate, "answer": self.answer})


class GateWithdrawn(BaseEvent):
    """A gate closed without an answer: the turn stopped, or the preview was renewed."""

    kind: Literal["gate_withdrawn"] = "gate_withdrawn"
    gate_id: str
    reason: Literal["stopped", "renewed", "edited"]

    def apply(self, state: AgentState) -> None:
        if all(g.gate_id != self.gate_id for g in state.gates):
            raise StateError(f"gate {self.gate_id} is not open")
        state.gates = tuple(g for g in state.gates if g.gate_id != self.gate_id)


class GrantAdded(BaseEvent):
    """The user allowed the same for the rest of the session."""

    kind: Literal["grant_added"] = "grant_added"
    grant: Grant

    def apply(self, state: AgentState) -> None:
        state.grants = (*state.grants, self.grant)


def _sent(state: AgentState, text: str) -> None:
    """What was sent is no draft any more."""
    if state.draft.strip() == text:
        state.draft = ""


def _turn(state: AgentState) -> TurnInfo:
    if state.turn is None:
        raise StateError("no turn runs")
    return state.turn


def _account(state: AgentState, call: LlmCall) -> None:
    """Add a call to what its step took; a step that was dropped meanwhile takes nothing."""
    for plan in state.plans:
        step = plan.step(call.step_id)
        if step is None:
            continue
        cost = step.cost if call.cost is None else (step.cost or 0.0) + call.cost
        changed = plan.with_step(step.model_copy(update={"calls": step.calls + 1, "cost": cost}))
        state.plans = tuple(changed if p.plan_id == plan.plan_id else p for p in state.plans)


def _change_running(state: AgentState, call_id: str, update: dict[str, Any]) -> None:
    state.running = tuple(
        r.model_copy(update=update) if r.call_id == call_id else r for r in state.running
    )


def _running(state: AgentState, call_id: str) -> RunningOperation:
    found = next((r for r in state.running if r.call_id == call_id), None)
    if found is None:
        raise StateError(f"call {call_id} does not run")
    return found


Event = (
    SessionStarted
    | ModelChanged
    | ModeChanged
    | UserMessageAdded
    | MessageQueued
    | QueueItemRemoved
    | NoticeAdded
    | AssistantReplied
    | TurnStarted
    | LoopStarted
    | PauseRequested
    | TurnPaused
    | TurnResumed
    | TurnFinished
    | LlmCallStarted
    | ReplyDelta
    | ReasoningDelta
    | LlmWaiting
    | LlmCallFinished
    | WorkingMemoryChanged
    | PhaseChanged
    | TransitionRefused
    | StatusChanged
    | ObjectiveChanged
    | VitalsChanged
    | OperationRequested
    | OperationStarted
    | OperationProgress
    | OperationFinished
    | FileChangedOutside
    | OutsideChangesTold
    | ChangesUndone
    | GateOpened
    | GateAnswered
    | GateWithdrawn
    | GrantAdded
    | QueueItemChanged
    | PlanProposed
    | PlanRevised
    | PlanAnswered
    | PlanStatusChanged
    | StepChanged
    | StepTasksSet
    | TaskChanged
    | StepBreakSet
    | CardOpened
    | CardAnswered
    | CardWithdrawn
    | ReportAdded
    | WorkStarted
    | WorkProgressed
    | WorkFinished
    | OperationOutput
    | ProcessStarted
    | ProcessOutput
    | ProcessEnded
    | McpServerChanged
    | RequirementsFound
    | RequirementEdited
    | RequirementWaived
    | ObjectiveReviewed
    | AttemptStarted
    | ProfileChosen
    | LimitSet
    | LimitExtended
    | BudgetRaised
    | SessionTitled
    | SessionPinned
    | SessionResumed
    | DraftSaved
    | JournalChanged
    | PromptMeasured
    | ContextCompacted
    | CompactionUndone
    | ConversationRewound
    | RewindUndone
    | SessionForked
)

#: Every kind, in the order of this file; ``--json`` prints no other.
EVENT_KINDS: tuple[str, ...] = tuple(
    str(cls.model_fields["kind"].default) for cls in get_args(Event)
)


@cache
def _adapter() -> TypeAdapter[Event]:
    # Builds every model there is, which a start without a journal need not wait for.
    return TypeAdapter(Annotated[Event, Field(discriminator="kind")])


def event_from_json(fields: dict[str, Any]) -> Event:
    """Read an event back from its fields; raises pydantic.ValidationError when it is none."""
    return _adapter().validate_python(fields)
