"""Going back in the conversation: what goes back with it, and what is kept to undo that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from duckflow_tui.state.agent import TurnSummary
from duckflow_tui.state.base import Count, Frozen
from duckflow_tui.state.context import Compaction
from duckflow_tui.state.memory import WorkingMemory
from duckflow_tui.state.messages import Message, OperationMessage
from duckflow_tui.state.objective import Review, TaskObjective
from duckflow_tui.state.pace import Pace
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.vitals import Vitals
from duckflow_tui.state.work import Plan

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState


class Standing(Frozen):
    """Where the work stood at a message. What was paid and the mode are no part of it, nor is
    what the user allowed: a way back takes none of them back.
    """

    phase: Phase = Phase.IDLE
    status: Status = Status.SUCCESS
    status_detail: str = ""
    memory: WorkingMemory = Field(default_factory=WorkingMemory)
    objective: TaskObjective | None = None
    last_review: Review | None = None
    earlier: tuple[TaskObjective, ...] = ()
    pace: Pace | None = None
    plans: tuple[Plan, ...] = ()
    active_plan_id: str | None = None
    vitals: Vitals = Field(default_factory=Vitals)
    compactions: tuple[Compaction, ...] = ()
    undone_compactions: tuple[str, ...] = ()
    files_read: dict[str, str] = Field(default_factory=dict)  # path → SHA-256
    last_context: Count = 0  # tokens of the newest main request

    @classmethod
    def of(cls, state: AgentState) -> Standing:
        """How it stands now."""
        return cls(
            phase=state.phase,
            status=state.status,
            status_detail=state.status_detail,
            memory=state.memory,
            objective=state.objective,
            last_review=state.last_review,
            earlier=state.earlier,
            pace=state.pace,
            plans=state.plans,
            active_plan_id=state.active_plan_id,
            vitals=state.vitals,
            compactions=state.compactions,
            undone_compactions=state.undone_compactions,
            files_read=dict(state.files_read),
            last_context=state.usage.last_context,
        )

    def put(self, state: AgentState) -> None:
        """Let it stand so again."""
        state.phase, state.status = self.phase, self.status
        state.status_detail = self.status_detail
        state.memory = self.memory
        state.objective = self.objective
        state.last_review = self.last_review
        state.earlier = self.earlier
        state.pace = self.pace
        state.plans = self.plans
        state.active_plan_id = self.active_plan_id
        state.vitals = self.vitals
        state.compactions = self.compactions
        state.undone_compactions = self.undone_compactions
        state.files_read = dict(self.files_read)
        update = {"last_context": self.last_context, "estimated": True}
        state.usage = state.usage.model_copy(update=update)


class Rewound(Frozen):
    """A way back that can be undone as long as nothing was said after it. The messages that left
    the conversation stand beside it, in ``AgentState.rewound_messages``.
    """

    message_id: str  # of the user, the first that left
    at: int = Field(ge=0)  # messages that stayed
    added: int = Field(ge=0)  # behind them, with it
    turns: int = Field(ge=0)  # that ended before it, as they stand now
    turns_kept: int = Field(ge=0)  # of those that had ended
    turns_left: tuple[TurnSummary, ...] = ()  # that left the conversation
    standing: Standing  # before it
    draft: str = ""  # what it put into the composer


def left_out(messages: list[Message]) -> tuple[OperationMessage, ...]:
    """Of messages that leave the conversation, what an undo of files has to know: calls that
    changed files, and commands, without what they said.
    """
    found: list[OperationMessage] = []
    for message in messages:
        if not isinstance(message, OperationMessage):
            continue
        if message.result.changes or "command" in message.args:
            result = message.result.model_copy(update={"text": ""})
            update = {"result": result, "previews": (), "gate": None, "answer": None}
            found.append(message.model_copy(update=update))
    return tuple(found)


def all_calls(state: AgentState) -> list[OperationMessage]:
    """The calls of the session in the order in which they ended, also those that a way back left
    behind: what they did to files stands.
    """
    found = [m for m in state.messages if isinstance(m, OperationMessage)]
    if state.left_behind:
        found = sorted([*state.left_behind, *found], key=lambda message: message.at)
    return found
