"""Orders messages for a model: those of the conversation with its plan steps, and those of asides.

While work runs, the user may be answered beside it, so messages arrive in an order in which no
model can read them. A log reorders them and only ever grows: a reply with calls enters once all
results are there, together with them.
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
    """Return a step and its plan by the step's id, from the newest plan that has it; None where
    none has.
    """
    for plan in reversed(state.plans):
        if (step := plan.get_step(step_id)) is not None:
            return plan, step
    return None


def step_of_thread(state: AgentState, thread: str) -> tuple[Plan, Step]:
    """Return the plan and the step with the id ``thread``. Raises ValueError where no plan
    has it.
    """
    if (found := step_of(state, thread)) is None:
        raise ValueError(f"no plan has a step {thread!r}")
    return found


@dataclass(slots=True)
class _PendingReply:
    """A reply whose calls have not all returned, with the results so far."""

    items: list[Message]
    waiting: set[str]
    aside: bool


class ThreadLog:
    """The messages of the conversation, or of ``aside`` answers, in an order that only grows.

    A reply is held back until its calls have returned or never will. The conversation holds back
    only the replies of asides; the log of asides holds back both, because an aside may be answered
    while another one waits for the user. A user's message beside the work enters the log of asides
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
        """Take in the messages that are new and return the log. A list that is no continuation of
        the last one starts the log over.

        ``answers`` is the id of the message that an aside answers; empty: all that wait.
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
        """Append a message to the log, or hold it back until its calls have returned."""
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
        """Append the user's waiting messages to the log, up to the message ``answers``;
        empty: all.
        """
        if not answers or any(message.message_id == answers for message in self._said):
            while self._said:
                message = self._said.pop(0)
                self._log.append(message)
                if message.message_id == answers:
                    return

    def _release_replies(self, held: Sequence[_PendingReply]) -> None:
        """Append replies that were held back to the log, with the results they have."""
        for reply in list(held):
            self._held.remove(reply)
            self._log.extend(reply.items)


def full_share(state: AgentState) -> float:
    """Return the share of the room at which a new turn compacts the conversation: 1.0 after the
    user undid the newest compaction.
    """
    if not state.undone_compactions:
        return FULL
    made = (m for m in reversed(state.messages) if isinstance(m, CompactionMessage))
    newest = next(made, None)
    undone = newest is not None and newest.compaction.compaction_id in state.undone_compactions
    return 1.0 if undone else FULL


@dataclass(slots=True)
class _Thread:
    """A log and the window over it."""

    log: ThreadLog
    window: HistoryWindow


@dataclass(slots=True)
class Threads:
    """The log and window of the conversation, and those of asides while work runs."""

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
        """Return the part of the conversation to send; ``room`` and ``whole`` as in
        ``HistoryWindow``, ``answers`` as in ``ThreadLog``.
        """
        if not aside and state.turn is None and state.work is None:
            self._kept.pop(True, None)  # there is nothing left to be beside
        kept = self._get_thread(aside)
        messages = kept.log.follow(state.messages, answers)
        return kept.window.make_view(messages, state, room, whole, full_share(state))

    def without_newest(self, state: AgentState) -> int:
        """Return the tokens of the conversation if its newest compaction were undone."""
        window = self._get_thread(aside=False)
        before = state.compactions[-2] if len(state.compactions) > 1 else None
        return window.window.total_with(window.log.follow(state.messages), before)

    def find_overflow(
        self, state: AgentState, room: int, whole: int, *, full: float, keep: float, inside: bool
    ) -> Overflow | None:
        """Return the part of the conversation to compact; see ``HistoryWindow.find_overflow``."""
        kept = self._get_thread(aside=False)
        messages = kept.log.follow(state.messages)
        return kept.window.find_overflow(
            messages, state, room, whole, full=full, keep=keep, inside=inside
        )

    def _get_thread(self, aside: bool) -> _Thread:
        """Return the log and window of the conversation or of asides, made at the first use."""
        kept = self._kept.get(aside)
        if kept is None:
            window = HistoryWindow(self.counter, self.left_out, self.front, self.left_line)
            kept = self._kept[aside] = _Thread(ThreadLog(aside=aside), window)
        return kept
