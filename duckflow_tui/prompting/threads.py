"""Which messages a model reads for the conversation, steps of plans included, and beside work.

The conversation of a turn goes on while the user is answered beside it, so its items arrive out of
the order in which a model can read them. A log puts them in one that only grows: what waits for
results enters once they are there, and together with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from duckflow_tui.prompting.budget import ScriptCounter
from duckflow_tui.prompting.window import FULL, Front, HistoryWindow, Overflow, View, call_ids
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, NoticeMessage, UserMessage
from duckflow_tui.state.memory import CompactionMessage
from duckflow_tui.state.plan import Plan, Step


def step_of(state: AgentState, step_id: str) -> tuple[Plan, Step] | None:
    """The step of that id in the newest plan that has it."""
    for plan in reversed(state.plans):
        if (step := plan.get_step(step_id)) is not None:
            return plan, step
    return None


def step_of_thread(state: AgentState, thread: str) -> tuple[Plan, Step]:
    """The step that a thread belongs to; raises ValueError when no plan has it."""
    if (found := step_of(state, thread)) is None:
        raise ValueError(f"no plan has a step {thread!r}")
    return found


@dataclass(slots=True)
class _PendingReply:
    """A reply that waits for results, and those that came."""

    items: list[Message]
    waiting: set[str]
    aside: bool


class ThreadLog:
    """The messages of the conversation, or of answers ``aside``, in an order that only grows.

    A reply is held back until its calls have their results or can get none any more: for the turn
    and its steps those of asides, for an aside those of both sides, because one aside may be
    answered while another waits for the user. What is said beside the work enters an aside's log
    when it is answered, so that each request ends with its own message.
    """

    def __init__(self, *, aside: bool = False) -> None:
        self._aside = aside
        self._read = 0
        self._last: Message | None = None
        self._held: list[_PendingReply] = []
        self._said: list[UserMessage] = []  # beside the work, for an aside; not answered yet
        self._log: list[Message] = []

    def follow(self, messages: Sequence[Message], answers: str = "") -> Sequence[Message]:
        """The log after all of these; ``messages`` only grows, or is another conversation.

        ``answers`` is the message that an aside answers; empty: all that were said.
        """
        known = self._read
        if known > len(messages) or (known and messages[known - 1] is not self._last):
            known = 0
            self._held.clear()
            self._said.clear()
            self._log = []
        for message in messages[known:]:
            self._take_message(message)
        self._admit_asides(answers)
        self._read = len(messages)
        self._last = messages[-1] if messages else None
        return self._log

    def _take_message(self, message: Message) -> None:
        """Append a message to the log, or hold it until the results of its calls are there."""
        match message:
            case UserMessage(aside=True) if self._aside:
                self._said.append(message)
                return
            case UserMessage(aside=False):
                self._release_replies(self._held)
                self._admit_asides()
            case AssistantMessage():
                if not message.aside:  # one after the other; asides may wait for each other's end
                    self._release_replies([held for held in self._held if not held.aside])
                waiting = call_ids(message)
                if message.decision is not None and message.decision.refused_by_itself:
                    waiting.clear()  # nothing of it runs
                if waiting and (message.aside or self._aside):
                    self._held.append(_PendingReply([message], waiting, message.aside))
                    return
            case NoticeMessage(aside=True) if not self._aside:
                return
            case OperationMessage():
                for held in self._held:
                    if message.call_id in held.waiting:
                        held.items.append(message)
                        held.waiting.discard(message.call_id)
                        if not held.waiting:
                            self._release_replies([held])
                        return
            case _:
                pass
        self._log.append(message)

    def _admit_asides(self, answers: str = "") -> None:
        """Take in messages beside the work, up to the message that is answered."""
        if not answers or any(message.message_id == answers for message in self._said):
            while self._said:
                message = self._said.pop(0)
                self._log.append(message)
                if message.message_id == answers:
                    return

    def _release_replies(self, held: Sequence[_PendingReply]) -> None:
        for reply in list(held):
            self._held.remove(reply)
            self._log.extend(reply.items)


def full_share(state: AgentState) -> float:
    """Share of the room above which a new turn is compacted: all of it once the user took the
    newest compaction back.
    """
    if not state.undone_compactions:
        return FULL
    made = (m for m in reversed(state.messages) if isinstance(m, CompactionMessage))
    newest = next(made, None)
    undone = newest is not None and newest.compaction.compaction_id in state.undone_compactions
    return 1.0 if undone else FULL


@dataclass(slots=True)
class _Thread:
    log: ThreadLog
    window: HistoryWindow


@dataclass(slots=True)
class Threads:
    """A log and a window for the conversation, and for answers beside it while work goes on."""

    counter: ScriptCounter
    left_out: Callable[[int, str], str]
    front: Front  # what travels for what was compacted
    left_line: Callable[[str], str]  # words for a result that was left out
    _kept: dict[bool, _Thread] = field(default_factory=dict[bool, _Thread])

    def make_view(
        self,
        state: AgentState,
        aside: bool,
        room: int,
        whole: int,
        answers: str = "",
    ) -> View:
        """The part of the conversation that a request sends; ``room`` and ``whole`` as in the
        window, ``answers`` as in the log.
        """
        if not aside and state.turn is None and state.work is None:
            self._kept.pop(True, None)  # there is nothing left to be beside
        kept = self._get_thread(aside)
        turn = state.turn
        return kept.window.make_view(
            kept.log.follow(state.messages, answers),
            turn.turn_id if turn else "",
            turn.message_id if turn else "",
            room,
            whole,
            state.compaction,
            full_share(state),
            state.objective.message_id if state.objective else "",
        )

    def without_newest(self, state: AgentState) -> int:
        """Tokens of the conversation as it would travel without the newest compaction."""
        window = self._get_thread(aside=False)
        before = state.compactions[-2] if len(state.compactions) > 1 else None
        return window.window.total_with(window.log.follow(state.messages), before)

    def find_overflow(
        self, state: AgentState, room: int, whole: int, *, full: float, keep: float, inside: bool
    ) -> Overflow | None:
        """The part of the conversation to leave out; as in the window."""
        kept = self._get_thread(aside=False)
        turn = state.turn
        return kept.window.find_overflow(
            kept.log.follow(state.messages),
            turn.turn_id if turn else "",
            turn.message_id if turn else "",
            room,
            whole,
            state.compaction,
            full=full,
            keep=keep,
            inside=inside,
        )

    def _get_thread(self, aside: bool) -> _Thread:
        kept = self._kept.get(aside)
        if kept is None:
            window = HistoryWindow(self.counter, self.left_out, self.front, self.left_line)
            kept = self._kept[aside] = _Thread(ThreadLog(aside=aside), window)
        return kept
