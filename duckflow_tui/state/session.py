"""The session as a whole: its facts, name, mode, sandbox, models, and how it is resumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from duckflow_tui.state.base import Event, Frozen, StateError, copy_slices
from duckflow_tui.state.calls import OperationMessage, note_read
from duckflow_tui.state.gates import CardKind, DraftRemarks, GateState
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.pace import TaskProfile
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.plan import Plan, Step, Task, WorkStatus
from duckflow_tui.state.plan_events import count_wait
from duckflow_tui.state.turn import Interrupted, TurnInfo
from duckflow_tui.state.usage import PromptFigures, list_pending_requests

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState

#: ``untested``: no command was run yet, so nothing is known.
SandboxLevel = Literal["untested", "full", "partial", "seatbelt", "external", "none"]

#: Levels that hold all that a command does.
HOLDS: Final = frozenset[SandboxLevel]({"full", "seatbelt", "external"})


class SessionInfo(Frozen):
    """Facts about the session as a whole."""

    session_id: str = ""
    workspace: str = ""  # absolute path
    title: str = ""  # name of the workspace folder
    demo: bool = False
    headless: bool = False
    started_at: float = 0.0
    model: str = ""  # of the main role
    endpoint: str = ""
    base_url: str = ""  # of that endpoint
    api_key_env: str = ""  # the variable with its key
    sandbox: SandboxLevel = "none"  # what holds commands of the model
    branch: str = ""  # of git when it began; empty where there is none
    name: str = ""  # the user's, empty for none
    goal: str = ""  # the goal, or the name of the plan, that the model stated last
    pinned: bool = False  # at the top of the list
    forked_from: str = ""  # id of the session that it goes on from a message of
    forked_title: str = ""  # what that one was called


#: Cards that the work opens again by itself, as they were, before it does anything else.
OPENED_AGAIN: Final = (
    CardKind.PLAN,
    CardKind.PLAN_CHANGE,
    CardKind.PLAN_END,
    CardKind.REPORT,
    CardKind.BREAKPOINT,
)

#: Cards that whoever had asked asks again, before the next call to a model.
ASKED_AGAIN: Final = (
    CardKind.CONSULTATION,
    CardKind.ESCALATION,
    CardKind.BUDGET,
    CardKind.QUESTION,
)

CUT: Final = "the app ended while it ran"


@dataclass(eq=False)
class SessionState:
    """The session itself, and what the user set for it."""

    session: SessionInfo = field(default_factory=SessionInfo)
    mode: ApprovalMode = ApprovalMode.STANDARD
    profile_choice: TaskProfile | None = None  # the user's, before all others
    draft: str = ""  # of the composer, as last kept
    remarks: DraftRemarks = field(default_factory=DraftRemarks)  # on what waits for an answer
    folder_since: float = 0.0  # calls that ended before changed another folder than this one


def end_with_process(state: AgentState, at: float) -> None:
    """End everything that lived only in a process that ended at this time: running calls, waiting
    questions, consents.
    """
    copy_slices(state, GateState(), GateState)
    state.work, state.running = None, ()
    state.live, state.outputs, state.servers = {}, {}, ()
    state.processes = tuple(
        p.replace(ended_at=at, ended_by="app") if p.is_running else p for p in state.processes
    )


class SessionResumed(Event, kind="session_resumed"):
    """The session was resumed in another process; what lived in the old process has ended.

    Gates and cards close; a call that waited at its gate is removed without a result, and asked for
    again. Consents for the session end.
    """

    session: SessionInfo
    mode: ApprovalMode
    context_window: int = 0
    ended: tuple[OperationMessage, ...] = ()  # calls that ran, and what is known of them
    files_read: dict[str, str] = Field(default_factory=dict)  # path → SHA-256; "" forgets it
    another_folder: bool = False  # the workspace is not the folder it was: nothing read holds
    asks_again: bool = False  # a gate or card opens again at once; else the turn is paused
    ends_turn: bool = False  # nobody is there who could let it go on
    interrupted_at: float  # when the newest record was written, seconds since the epoch
    at: float

    def apply(self, state: AgentState) -> None:
        if state.session.session_id not in ("", self.session.session_id):
            raise StateError(f"this is the session {state.session.session_id}")
        state.session = self.session
        state.mode = self.mode
        state.usage = state.usage.replace(context_window=self.context_window)
        count_wait(state, self.interrupted_at, ends=True)
        if state.turn is not None:
            self._count_lost(state, list_pending_requests(state.requests, state.turn.turn_id))
        state.messages.extend(self.ended)
        if self.another_folder:
            state.files_read, state.folder_since = {}, self.at
        note_read(state, self.files_read)
        self._end_steps(state)
        if state.turn is not None:
            self._end_turn(state, state.turn)
        end_with_process(state, self.interrupted_at)

    def _count_lost(self, state: AgentState, lost: tuple[PromptFigures, ...]) -> None:
        """Count requests whose replies were lost, by their estimates, and mark them as ended."""
        if not lost:
            return
        usage = state.usage
        sent = sum(figures.tokens for figures in lost)
        state.usage = usage.replace(calls=usage.calls + len(lost), tokens_in=usage.tokens_in + sent)
        state.requests = tuple(f.replace(ended=True) if f in lost else f for f in state.requests)

    def _end_turn(self, state: AgentState, turn: TurnInfo) -> None:
        """End the interrupted turn, or leave it paused with what waited for an answer."""
        if self.ends_turn:
            state.turn = state.interrupted = None
            state.phase, state.status, state.status_detail = Phase.IDLE, Status.SUCCESS, ""
            state.last_turn = turn.summarize_as_stopped(state, self.interrupted_at)
            state.turns.append(state.last_turn)
            return
        away = max(self.at - self.interrupted_at, 0.0)
        pause = "running" if self.asks_again else "paused"
        state.turn = turn.replace(pause=pause, away_s=turn.away_s + away)
        state.waits_since = self.at if pause == "paused" else None
        before = state.interrupted or Interrupted()
        drafts = (c.plan_id for c in state.cards if c.kind is CardKind.PLAN)
        reports = (c.report for c in state.cards if c.kind is CardKind.REPORT)
        asked = tuple(card for card in state.cards if card.kind in ASKED_AGAIN)
        state.interrupted = Interrupted(
            work=state.work or before.work,
            plan_card=next(drafts, before.plan_card),
            report=next(reports, before.report),
            asked=asked or before.asked,
        )

    def _end_steps(self, state: AgentState) -> None:
        """Reset running steps and tasks, so that they may start again."""
        worked_on = state.work.plan_id if state.work is not None else ""
        cut = {message.call_id for message in self.ended}

        def reset_task(old: Task) -> Task:
            if old.status is not WorkStatus.IN_PROGRESS:
                return old
            if old.call_id in cut:
                return old.replace(status=WorkStatus.CANCELLED, result=CUT)
            return old.replace(status=WorkStatus.PENDING, started_at=None)

        def reset_step(plan: Plan, old: Step) -> Step:
            tasks = tuple(reset_task(t) for t in old.task_list)
            update: dict[str, object] = {"task_list": tasks}
            begun = old.status is WorkStatus.IN_PROGRESS
            if begun and (self.ends_turn or plan.plan_id == worked_on):
                ran = max(self.interrupted_at - (old.started_at or self.interrupted_at), 0.0)
                status = WorkStatus.CANCELLED if self.ends_turn else WorkStatus.PENDING
                note = CUT if self.ends_turn else ""
                update |= {"status": status, "note": note, "started_at": None}
                update["elapsed_s"] = old.elapsed_s + ran
            return old.replace(**update)

        state.plans = tuple(
            plan.replace(steps=tuple(reset_step(plan, s) for s in plan.steps))
            for plan in state.plans
        )


class DraftSaved(Event, kind="draft"):
    """The unsent text of the composer was saved."""

    text: str

    def apply(self, state: AgentState) -> None:
        state.draft = self.text


class RemarksSaved(Event, kind="remarks"):
    """Unsent remarks on a proposal were saved; empty for none."""

    kept: DraftRemarks

    def apply(self, state: AgentState) -> None:
        state.remarks = self.kept


NO_SESSION: Final = "no_session"  # as a reason: nobody wanted it kept


class JournalChanged(Event, kind="journal", transient=True):
    """The session can no longer be saved to disk, or can again."""

    unkept: str  # a code of ``session.faults``, ``no_session`` where it was wanted, or empty

    def apply(self, state: AgentState) -> None:
        state.unkept = self.unkept
        state.unkept_agreed = False


MAX_NAME: Final = 200  # characters


class SessionTitled(Event, kind="session_titled"):
    """The user named the session; an empty name restores the automatic one."""

    name: str = Field(max_length=MAX_NAME)

    def apply(self, state: AgentState) -> None:
        state.session = state.session.replace(name=self.name)


class SessionPinned(Event, kind="session_pinned"):
    """The user pinned the session to the top of the list, or unpinned it."""

    pinned: bool

    def apply(self, state: AgentState) -> None:
        state.session = state.session.replace(pinned=self.pinned)


class SessionStarted(Event, kind="session_started"):
    """The first event of a session."""

    session: SessionInfo
    mode: ApprovalMode
    context_window: int = 0

    def apply(self, state: AgentState) -> None:
        if state.session.session_id:
            raise StateError("the session has begun already")
        state.session = self.session
        state.mode = self.mode
        state.usage = state.usage.replace(context_window=self.context_window)


class SandboxTested(Event, kind="sandbox_tested"):
    """The sandbox for the model's commands from now on, as a test has shown."""

    level: SandboxLevel

    def apply(self, state: AgentState) -> None:
        state.session = state.session.replace(sandbox=self.level)


class ModeChanged(Event, kind="mode_changed"):
    """The user set another approval mode. It never answers an open gate."""

    mode: ApprovalMode
    at: float  # seconds since the epoch

    def apply(self, state: AgentState) -> None:
        state.mode = self.mode
        state.mode_log = (*state.mode_log, (self.mode, self.at))


class ModelsChosen(Event, kind="models_chosen"):
    """The user chose the models that answer from the next request on."""

    endpoint: str  # of the main role
    model: str
    base_url: str = ""
    api_key_env: str = ""
    context_window: int = 0  # tokens of the main model; 0 when unknown
    roles: dict[str, str] = Field(default_factory=dict)  # others, as endpoint/model
    at: float

    def apply(self, state: AgentState) -> None:
        state.session = state.session.replace(
            endpoint=self.endpoint,
            model=self.model,
            base_url=self.base_url,
            api_key_env=self.api_key_env,
        )
        state.usage = state.usage.replace(context_window=self.context_window)
