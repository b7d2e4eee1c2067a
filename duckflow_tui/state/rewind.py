"""Rewinding the conversation: what is restored, and what is kept to undo the rewind."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import Field

from duckflow_tui.state.audit import iter_entries
from duckflow_tui.state.base import Count, Event, Frozen, StateError, copy_slices
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import Message, NoticeMessage, UserMessage, forget_rewound
from duckflow_tui.state.gates import DraftRemarks
from duckflow_tui.state.goal import GoalState
from duckflow_tui.state.memory import MemoryState, WorkingMemory
from duckflow_tui.state.pace import PaceState
from duckflow_tui.state.phase import Phase, PhaseState
from duckflow_tui.state.plan_events import PlanState
from duckflow_tui.state.session import SessionInfo, end_with_process
from duckflow_tui.state.turn import TurnSummary

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState


@dataclass
class WorkSnapshot(PhaseState, MemoryState, GoalState, PaceState, PlanState):
    """The work as it stood at a message; a rewind restores these slices. Costs, mode and rules are
    not among them: a rewind leaves them as they are.
    """

    last_context: Count = 0  # tokens of the newest main request

    @classmethod
    def capture_from(cls, state: AgentState) -> WorkSnapshot:
        """Return a snapshot of the work in this state."""
        standing = cls(last_context=state.usage.last_context)
        copy_slices(standing, state, *cls.__bases__)
        return standing

    def restore_to(self, state: AgentState) -> None:
        """Copy these slices into the state, and the size of the last context into its usage, marked
        as estimated.
        """
        copy_slices(state, self, *type(self).__bases__)
        state.usage = state.usage.replace(last_context=self.last_context, estimated=True)


def reopen_objective(
    standing: WorkSnapshot | AgentState, paths: Collection[str] | None = None
) -> None:
    """Reopen requirements whose evidence is in files that changed: those in ``paths``, or any for
    None. Requirements with evidence in other files stay as they are.
    """
    old = standing.objective
    standing.objective = old.after_file_changes(paths) if old is not None else None
    if standing.objective is not old and standing.phase is Phase.DONE:
        standing.phase = Phase.IDLE


class Rewound(Frozen):
    """A rewind that can be undone until something is said after it. The removed messages are in
    ``AgentState.rewound_messages``.
    """

    message_id: str  # of the user, the first that left
    at: int = Field(ge=0)  # messages that stayed
    added: int = Field(ge=0)  # behind them, with it
    turns: int = Field(ge=0)  # that ended before it, as they stand now
    turns_kept: int = Field(ge=0)  # of those that had ended
    turns_left: tuple[TurnSummary, ...] = ()  # that left the conversation
    standing: WorkSnapshot  # before it
    draft: str = ""  # what it put into the composer
    memory: WorkingMemory = WorkingMemory()  # as it stood right behind it
    put_back: tuple[str, ...] = ()  # calls whose changes of files were undone with it, in order


@dataclass(eq=False)
class RewindState:
    """The last rewind, while it can be undone."""

    rewound: Rewound | None = None
    rewound_messages: list[Message] = field(default_factory=list[Message])  # that left with it


def list_undo_calls(messages: list[Message]) -> tuple[OperationMessage, ...]:
    """Return of messages about to be removed the calls that an undo of files needs: calls that
    changed files, and commands, without their output.
    """
    found: list[OperationMessage] = []
    for message in messages:
        if not isinstance(message, OperationMessage):
            continue
        if message.result.undoable_changes or "command" in message.args:
            result = message.result.replace(text="")
            found.append(message.replace(result=result, previews=(), gate=None, answer=None))
    return tuple(found)


def list_all_calls(state: AgentState) -> list[OperationMessage]:
    """Return all calls in order of their ends, including removed ones, whose file changes still
    stand.
    """
    found = [m for m in state.messages if isinstance(m, OperationMessage)]
    if state.left_behind:
        found = sorted([*state.left_behind, *found], key=lambda message: message.at)
    return found


class ConversationRewound(Event, kind="conversation_rewound"):
    """The user rewound the conversation to before a message; changes of files are not
    undone by it.
    """

    message_id: str
    standing: WorkSnapshot  # at the message
    turns: int = Field(ge=0)  # that had ended by then
    stopped: TurnSummary | None = None  # the turn that ran then: it is as if it had been stopped
    carried: tuple[str, ...] = ()  # calls that ran then: their results stay
    draft: str  # what stands in the composer now
    notices: tuple[NoticeMessage, ...] = ()  # what the user and the model are told
    put_back: tuple[str, ...] = ()  # as in Rewound

    def apply(self, state: AgentState) -> None:
        if state.turn is not None or state.is_work_waiting or state.work is not None:
            raise StateError("work is under way")
        at = _index_of(state.messages, self.message_id)
        if self.turns > len(state.turns):
            raise StateError(f"there were no {self.turns} turns")
        before = WorkSnapshot.capture_from(state)
        gone = state.messages[at:]
        carried = [m for m in gone if isinstance(m, OperationMessage) and m.call_id in self.carried]
        state.messages = [*state.messages[:at], *carried]
        turns_left = tuple(state.turns[self.turns :])
        state.turns = state.turns[: self.turns]
        _end_turn(state, self.stopped)
        state.messages.extend(self.notices)
        self.standing.restore_to(state)
        # What the user wrote by hand and no model has read belongs to no message: it stands.
        state.memory = state.memory.with_user_fields(before.memory, before.memory.untold)
        state.interrupted = None
        state.draft, state.remarks = self.draft, DraftRemarks()
        left = [m for m in gone if m not in carried]
        state.left_behind += list_undo_calls(left)
        state.gone_decisions += tuple(iter_entries(left))
        state.rewound_messages = gone
        state.rewound = Rewound(
            message_id=self.message_id,
            at=at,
            added=len(carried) + len(self.notices),
            turns=len(state.turns),
            turns_kept=self.turns,
            turns_left=turns_left,
            standing=before,
            draft=self.draft,
            memory=state.memory,
            put_back=self.put_back,
        )


class RewindUndone(Event, kind="rewind_undone"):
    """The user undid a rewind; the conversation is as before it."""

    message_id: str  # that it had gone back to
    reopens: bool = False  # whether changes of files that come back with it were undone
    paths: tuple[str, ...] = ()  # the files of those changes; empty: not known

    def apply(self, state: AgentState) -> None:
        rewound = state.rewound
        if rewound is None or rewound.message_id != self.message_id:
            raise StateError(f"the conversation did not go back to {self.message_id}")
        if not can_be_undone(state):
            raise StateError("something was said since")
        since = state.messages[rewound.at + rewound.added :]
        state.messages = [*state.messages[: rewound.at], *state.rewound_messages, *since]
        state.turns = [*state.turns[: rewound.turns_kept], *rewound.turns_left]
        state.last_turn = state.turns[-1] if state.turns else None
        now, then = state.memory, rewound.memory
        rewound.standing.restore_to(state)
        state.memory = state.memory.with_user_fields(  # what was written by hand since then
            now, tuple(n for n in now.untold if getattr(now, n) != getattr(then, n))
        )
        back = {m.call_id for m in state.rewound_messages if isinstance(m, OperationMessage)}
        if self.reopens:
            reopen_objective(state, self.paths or None)
        state.left_behind = tuple(m for m in state.left_behind if m.call_id not in back)
        returned = {entry.ref for entry in iter_entries(state.rewound_messages)}
        state.gone_decisions = tuple(e for e in state.gone_decisions if e.ref not in returned)
        if state.draft.strip() == rewound.draft.strip():
            state.draft = ""
        forget_rewound(state)


class SessionForked(Event, kind="session_forked"):
    """A session was forked at a message of another one: a copy without consents and
    running calls.
    """

    session: SessionInfo
    standing: WorkSnapshot  # at the message
    stopped: TurnSummary | None = None  # the turn that ran then: it is as if it had been stopped
    carried: tuple[OperationMessage, ...] = ()  # calls that ran then, and what came of them
    draft: str = ""
    notices: tuple[NoticeMessage, ...] = ()
    at: float

    def apply(self, state: AgentState) -> None:
        if state.session.session_id == self.session.session_id:
            raise StateError(f"this is the session {self.session.session_id}")
        state.session = self.session
        state.messages.extend(self.carried)
        _end_turn(state, self.stopped)
        state.messages.extend(self.notices)
        self.standing.restore_to(state)
        state.turn = state.interrupted = None
        state.queue = ()
        end_with_process(state, self.at)
        state.draft, state.remarks = self.draft, DraftRemarks()
        forget_rewound(state)


def can_be_undone(state: AgentState) -> bool:
    """Whether the last rewind can be undone: since then only the app spoke, and only the user ran
    commands.
    """
    rewound = state.rewound
    if rewound is None or len(state.turns) != rewound.turns:
        return False
    since = state.messages[rewound.at + rewound.added :]
    return all(
        isinstance(m, NoticeMessage) or (isinstance(m, OperationMessage) and m.by_user)
        for m in since
    )


def _index_of(messages: list[Message], message_id: str) -> int:
    """Return the index of this message of the user, the newest where an id occurs twice. Raises
    StateError.
    """
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, UserMessage) and message.message_id == message_id:
            return at
    raise StateError(f"there is no message {message_id}")


def _end_turn(state: AgentState, turn: TurnSummary | None) -> None:
    """End the turn that ran, if any, and set the last turn."""
    if turn is not None:
        stopped = turn.replace(messages=len(state.messages))
        state.turns = [*state.turns, stopped]
    state.last_turn = state.turns[-1] if state.turns else None
