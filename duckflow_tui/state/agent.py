"""AgentState, the one object that holds everything true about a session. Only ``Event.apply``
changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from duckflow_tui.state.audit import AuditState
from duckflow_tui.state.calls import CallState, LiveOutput
from duckflow_tui.state.conversation import ConversationState, UserMessage
from duckflow_tui.state.gates import GateState
from duckflow_tui.state.goal import GoalState
from duckflow_tui.state.memory import MemoryState
from duckflow_tui.state.pace import PaceState
from duckflow_tui.state.phase import PhaseState
from duckflow_tui.state.plan_events import PlanState
from duckflow_tui.state.processes import McpServer, ProcessState
from duckflow_tui.state.rewind import RewindState
from duckflow_tui.state.session import SessionState
from duckflow_tui.state.turn import TurnState
from duckflow_tui.state.usage import LiveReply, UsageState


@dataclass(eq=False)
class InFlight:
    """Values of this process that are never written to the journal."""

    live: dict[str, LiveReply] = field(default_factory=dict[str, LiveReply])  # replies that arrive
    outputs: dict[str, LiveOutput] = field(default_factory=dict[str, LiveOutput])
    """Call id or process id → what it prints."""
    servers: tuple[McpServer, ...] = ()
    unkept: str = ""  # why the session lives in this process only, empty where it is on disk
    unkept_agreed: bool = False  # the user let effects happen that no disk will know of


@dataclass(eq=False)
class AgentState(
    SessionState,
    ConversationState,
    MemoryState,
    PhaseState,
    TurnState,
    PlanState,
    GoalState,
    GateState,
    AuditState,
    CallState,
    ProcessState,
    PaceState,
    UsageState,
    RewindState,
    InFlight,
):
    """Everything true about a session, put together from slices. Values in it are frozen and
    replaced.
    """

    @property
    def first_request(self) -> str:
        """The text of the user's first message, sent or waiting; empty before there is one."""
        texts = (m.text for m in self.messages if isinstance(m, UserMessage) and m.text.strip())
        return next(texts, self.queue[0].text if self.queue else "")

    @property
    def title(self) -> str:
        """The user's name for the session, else the goal or plan that the model stated last, else
        the first request; empty before there is one. It may have several lines.
        """
        return self.session.name or self.session.goal or self.first_request
