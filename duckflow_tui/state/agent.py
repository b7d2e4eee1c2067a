"""AgentState: the one object that holds what is true. Changed only inside ``Event.apply``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckflow_tui.state.calls import LiveOutput, OperationMessage, RunningOperation
from duckflow_tui.state.conversation import Message, QueuedMessage
from duckflow_tui.state.decision import TaskProfile
from duckflow_tui.state.gates import Card, Gate, Grant
from duckflow_tui.state.goal import Review, TaskObjective
from duckflow_tui.state.memory import Compaction, WorkingMemory
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.pace import Pace, Vitals
from duckflow_tui.state.phase import Phase, Refusal, Status, Transition
from duckflow_tui.state.plan import Plan, WorkInfo
from duckflow_tui.state.processes import BackgroundProcess, McpServer
from duckflow_tui.state.session import SessionInfo
from duckflow_tui.state.turn import Interrupted, TurnInfo, TurnSummary
from duckflow_tui.state.usage import LiveReply, PromptFigures, UsageTotals

if TYPE_CHECKING:
    from duckflow_tui.state.rewind import Rewound


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
