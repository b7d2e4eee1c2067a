"""AgentState: the one object that holds what is true. Changed only inside ``Event.apply``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from duckflow_tui.state.base import Count, Frozen
from duckflow_tui.state.cards import Card
from duckflow_tui.state.context import Compaction, PromptFigures
from duckflow_tui.state.decision import TaskProfile
from duckflow_tui.state.gates import Gate, Grant
from duckflow_tui.state.interrupted import Interrupted
from duckflow_tui.state.memory import WorkingMemory
from duckflow_tui.state.messages import (
    Message,
    OperationMessage,
    QueuedMessage,
    RunningOperation,
)
from duckflow_tui.state.objective import Review, TaskObjective
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.pace import Pace
from duckflow_tui.state.phase import Phase, Refusal, Status, Transition
from duckflow_tui.state.processes import BackgroundProcess, LiveOutput, McpServer
from duckflow_tui.state.usage import Purpose, UsageTotals
from duckflow_tui.state.vitals import Vitals
from duckflow_tui.state.work import Plan, WorkInfo

if TYPE_CHECKING:
    from duckflow_tui.state.rewinding import Rewound

TurnOutcome = Literal["done", "partial", "denied", "failed", "limit", "stopped"]
#: What a turn's message is to the request before it: another one, the same, or open until the
#: model's first decision says it; until then what is guessed holds.
Belongs = Literal["new", "same", "guessed_new", "guessed_same"]
PauseState = Literal["running", "pausing", "paused"]
SandboxLevel = Literal["full", "partial", "seatbelt", "external", "none"]


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
    sandbox: SandboxLevel = "none"  # what holds commands of the model
    branch: str = ""  # of git when it began; empty where there is none
    name: str = ""  # the user's, empty for none
    pinned: bool = False  # at the top of the list
    forked_from: str = ""  # id of the session that it goes on from a message of
    forked_title: str = ""  # what that one was called


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


class TurnSummary(Frozen):
    """How the last turn ended."""

    turn_id: str
    outcome: TurnOutcome
    reply: str = ""
    satisfaction: float | None = None
    llm_calls: int = 0
    tokens: Count = 0
    cost: float | None = None
    files_changed: tuple[str, ...] = ()
    duration_s: float = 0.0
    messages: int = 0  # that there were in the conversation when it ended


class Waiting(Frozen):
    """Why a model call does not move: a retry after a time, or a stream that fell silent."""

    reason: str  # code of llm.errors: rate_limited, server_error, connect, silent
    until: float | None = None  # seconds since the epoch; None: no end known
    since: float = 0.0


class LiveReply:
    """A reply that is arriving. Mutable, because it grows many times a second."""

    def __init__(
        self,
        llm_id: str,
        purpose: Purpose,
        started_at: float,
        *,
        step_id: str = "",
        aside: bool = False,
    ) -> None:
        self.llm_id = llm_id
        self.purpose: Purpose = purpose
        self.started_at = started_at
        self.step_id = step_id
        self.aside = aside
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.reasoning_started: float | None = None
        self.first_text_at: float | None = None
        self.waiting: Waiting | None = None


class AgentState:
    """Everything that is true about a session.

    Slices that widgets watch are frozen values replaced whole; ``messages`` and ``turns`` only
    grow, but for a way back in the conversation, which puts others in their place; ``live`` holds
    what is in flight and is never journalled.
    """

    def __init__(self) -> None:
        self.session = SessionInfo()
        self.mode = ApprovalMode.STANDARD
        self.phase = Phase.IDLE
        self.status = Status.SUCCESS
        self.status_detail = ""
        self.transitions: tuple[Transition, ...] = ()
        self.refusals: tuple[Refusal, ...] = ()
        self.messages: list[Message] = []
        self.queue: tuple[QueuedMessage, ...] = ()
        self.turn: TurnInfo | None = None
        self.last_turn: TurnSummary | None = None
        self.turns: list[TurnSummary] = []  # all that ended, oldest first
        self.memory = WorkingMemory()
        self.objective: TaskObjective | None = None
        self.last_review: Review | None = None  # of the objective
        self.earlier: tuple[TaskObjective, ...] = ()  # requests left before they were done
        self.profile_choice: TaskProfile | None = None  # the user's, before all others
        self.pace: Pace | None = None  # of the attempt that runs, or of the last one
        self.plans: tuple[Plan, ...] = ()
        self.active_plan_id: str | None = None
        self.cards: tuple[Card, ...] = ()  # open ones, oldest first
        self.work: WorkInfo | None = None  # what TaskLoop does
        self.vitals = Vitals()
        self.usage = UsageTotals()
        self.requests: tuple[PromptFigures, ...] = ()  # to models, the newest last
        self.compactions: tuple[Compaction, ...] = ()  # in force, oldest first
        self.undone_compactions: tuple[str, ...] = ()  # that the user took back
        self.gates: tuple[Gate, ...] = ()  # open ones, oldest first
        self.grants: tuple[Grant, ...] = ()
        self.running: tuple[RunningOperation, ...] = ()
        self.files_read: dict[str, str] = {}  # shown path → SHA-256 when last read or written
        self.changed_outside: tuple[str, ...] = ()  # paths the model was not told about yet
        self.undone_calls: tuple[str, ...] = ()  # calls whose changes the user took back
        self.live: dict[str, LiveReply] = {}
        self.outputs: dict[str, LiveOutput] = {}  # call id or process id → what it prints
        self.processes: tuple[BackgroundProcess, ...] = ()  # oldest first
        self.servers: tuple[McpServer, ...] = ()
        self.accepted_words: tuple[str, ...] = ()  # typed once in a gate of this session
        self.recoveries = 0  # error recoveries in this turn (S4-53)
        self.interrupted: Interrupted | None = None  # what the turn has to take up again
        self.draft = ""  # of the composer, as last kept
        self.rewound: Rewound | None = None  # the last way back, while it can be undone
        self.rewound_messages: list[Message] = []  # that left the conversation with it
        self.left_behind: tuple[OperationMessage, ...] = ()  # calls that any way back left
        self.unkept = ""  # why the session lives in this process only, empty where it is on disk

    @property
    def pending_gate(self) -> bool:
        """Whether an approval is open (S4-42)."""
        return bool(self.gates)

    @property
    def active_plan(self) -> Plan | None:
        """The plan being worked on."""
        return next((p for p in self.plans if p.plan_id == self.active_plan_id), None)

    @property
    def compaction(self) -> Compaction | None:
        """What holds now; None while the whole conversation travels."""
        return self.compactions[-1] if self.compactions else None
