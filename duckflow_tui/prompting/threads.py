"""Which messages a model reads for the conversation, for an answer beside work, and for a step.

The conversation of a turn goes on while TaskLoop works and while the user is answered beside
it, so its items arrive out of the order in which a model can read them. A log puts them in
one that only grows: what waits for results enters once they are there, and together with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from duckflow_tui.prompting.tokens import TokenCounter
from duckflow_tui.prompting.window import HistoryWindow, View, call_ids
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.messages import (
    AssistantMessage,
    Message,
    NoticeMessage,
    OperationMessage,
    UserMessage,
)
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.work import Plan, Step, WorkStatus


def find_thread(state: AgentState, thread: str) -> tuple[Plan, Step] | None:
    """The step a thread belongs to; None for the conversation, whose thread is empty.

    Raises ValueError when no plan has such a step.
    """
    if not thread:
        return None
    for plan in reversed(state.plans):
        if (step := plan.step(thread)) is not None:
            return plan, step
    raise ValueError(f"no plan has a step {thread!r}")


@dataclass(slots=True)
class _Held:
    """A reply that waits for results, and those that came."""

    items: list[Message]
    waiting: set[str]
    aside: bool


class ThreadLog:
    """The messages of one thread, in an order that only grows.

    ``opening`` stands before them. A reply of the other side of the conversation is held back
    until its calls have their results or can get none any more: for the turn those of asides,
    for an aside those of the turn.
    """

    def __init__(self, thread: str, *, aside: bool = False, opening: Message | None = None) -> None:
        self._thread = thread
        self._aside = aside
        self._opening = () if opening is None else (opening,)
        self._read = 0
        self._last: Message | None = None
        self._held: list[_Held] = []
        self._log: list[Message] = list(self._opening)

    def follow(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The log after all of these; ``messages`` only grows, or is another conversation."""
        known = self._read
        if known > len(messages) or (known and messages[known - 1] is not self._last):
            known = 0
            self._held.clear()
            self._log = list(self._opening)
        for message in messages[known:]:
            if message.step_id == self._thread:
                self._take(message)
        self._read = len(messages)
        self._last = messages[-1] if messages else None
        return self._log

    def _take(self, message: Message) -> None:
        match message:
            case UserMessage(aside=False):
                self._release(self._held)
            case AssistantMessage():
                self._release([held for held in self._held if held.aside == message.aside])
                waiting = call_ids(message)
                if waiting and not self._thread and message.aside != self._aside:
                    self._held.append(_Held([message], waiting, message.aside))
                    return
            case NoticeMessage(aside=True) if not self._aside:
                return
            case OperationMessage():
                for held in self._held:
                    if message.call_id in held.waiting:
                        held.items.append(message)
                        held.waiting.discard(message.call_id)
                        if not held.waiting:
                            self._release([held])
                        return
            case _:
                pass
        self._log.append(message)

    def _release(self, held: Sequence[_Held]) -> None:
        for reply in list(held):
            self._held.remove(reply)
            self._log.extend(reply.items)


class Tally:
    """Counts over all threads of one conversation (S4-9)."""

    def __init__(self) -> None:
        self.asked = 0  # requests of the user; what was said beside work is none
        self.succeeded = 0  # operations that went well
        self._read = 0
        self._last: Message | None = None

    def follow(self, messages: Sequence[Message]) -> None:
        """Count what is new; ``messages`` only grows, or is another conversation."""
        known = self._read
        if known > len(messages) or (known and messages[known - 1] is not self._last):
            known = self.asked = self.succeeded = 0
        for message in messages[known:]:
            if isinstance(message, UserMessage):
                self.asked += not message.aside
            elif isinstance(message, OperationMessage):
                self.succeeded += message.result.outcome is Outcome.OK
        self._read = len(messages)
        self._last = messages[-1] if messages else None


@dataclass(slots=True)
class _Thread:
    log: ThreadLog
    window: HistoryWindow


@dataclass(slots=True)
class Threads:
    """A log and a window for each thread that a request was made for, while it is needed."""

    counter: TokenCounter
    left_out: Callable[[int], str]
    opening: Callable[[Step], str]  # words that a step's history begins with
    _kept: dict[tuple[str, bool], _Thread] = field(default_factory=dict[tuple[str, bool], _Thread])

    @property
    def kept(self) -> tuple[str, ...]:
        """The threads whose windows are held; the conversation's is ``""``."""
        return tuple(thread for thread, aside in self._kept if not aside)

    def view(self, state: AgentState, thread: str, aside: bool, room: int) -> View:
        """What a request of the thread shows of the conversation; ``room`` as in the window."""
        self._drop(state, thread, aside)
        kept = self._kept.get((thread, aside))
        if kept is None:
            log = ThreadLog(thread, aside=aside, opening=self._opening(state, thread))
            kept = _Thread(log, HistoryWindow(self.counter, self.left_out))
            self._kept[thread, aside] = kept
        turn = state.turn
        return kept.window.view(
            kept.log.follow(state.messages),
            turn.turn_id if turn else "",
            turn.message_id if turn and not thread else "",
            room,
        )

    def _opening(self, state: AgentState, thread: str) -> Message | None:
        found = find_thread(state, thread)
        if found is None:
            return None
        text = self.opening(found[1])
        return UserMessage(message_id=f"opening_{thread}", text=text, step_id=thread, at=0.0)

    def _drop(self, state: AgentState, thread: str, aside: bool) -> None:
        """Forget steps that do not run, and asides once there is nothing to be beside."""
        running = {
            step.step_id
            for plan in state.plans
            for step in plan.steps
            if step.status is WorkStatus.IN_PROGRESS
        }
        for key in list(self._kept):
            of, beside = key
            needed = (state.work is not None) if beside else (not of or of in running)
            if not needed and key != (thread, aside):
                del self._kept[key]
