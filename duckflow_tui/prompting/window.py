"""Which messages travel: all while they fit, else the newest, the older ones as digests (C23).

The start of what travels is moved only when a turn begins, far enough to leave the turn room
to grow; within a turn it stays, so that each request begins as the one before it did. It moves
in mid-turn in two cases: the endpoint refused the request as too long, or the turn has outgrown
the whole window, where a request would be refused, or cut from the front without a word.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from duckflow_tui.prompting.digests import exchange_digest, loop_digest
from duckflow_tui.prompting.tokens import TokenCounter
from duckflow_tui.state.base import canonical_json
from duckflow_tui.state.messages import (
    AssistantMessage,
    CardMessage,
    Message,
    NoticeMessage,
    OperationMessage,
    ReportMessage,
    UserMessage,
)

FULL: Final = 0.7  # share of the room above which a new turn moves the start
KEPT: Final = 0.4  # share of the room that is kept then; the rest is for the turn to grow into
RESULT_SHARE: Final = 4  # one result takes at most this part (1/4) of the room
MOST_DIGESTS: Final = 8  # five of the base layer and three of the main one (S4-11, S4-16)
SMALLEST_RESULT: Final = 200  # tokens; results are not cut below it
_PER_MESSAGE: Final = 6  # tokens of role and separators
_PER_DECISION: Final = 110  # tokens of the field names of an encoded decision


@dataclass(frozen=True, slots=True)
class View:
    """What a request shows of the conversation."""

    history: tuple[Message, ...]
    digests: tuple[str, ...]  # of what is left out, oldest first
    tokens: int  # before the model's factor
    room: int  # tokens it could take, before the factor


class HistoryWindow:
    """Follows one append-only conversation. ``left_out(n)`` words a cut of n characters."""

    def __init__(self, counter: TokenCounter, left_out: Callable[[int], str]) -> None:
        self._counter = counter
        self._left_out = left_out
        self._source: list[Message] = []
        self._shown: list[Message] = []
        self._sums: list[int] = [0]  # tokens of the first n shown messages
        self._users: list[int] = []  # places of user messages
        self._exchanges: list[int] = []  # of them, where exchanges begin
        self._decisions: list[int] = []  # places of replies where no older one waits for results
        self._open: dict[bool, set[str]] = {False: set(), True: set()}  # calls, by aside
        self._start = 0
        self._cap = 0
        self._turn = ""

    def view(self, messages: Sequence[Message], turn: str, turn_message: str, room: int) -> View:
        """What travels in a request of ``turn``, whose user message is ``turn_message``.

        ``room`` is in tokens before the model's factor; an empty ``turn`` is always a new one.
        The message of the turn and the last one of the user are always in it. Within a turn an
        item stays the same object.
        """
        begins = not turn or turn != self._turn
        if begins:
            self._turn = turn
            self._set_cap(max(room // RESULT_SHARE, SMALLEST_RESULT))
        self._follow(messages)
        current = self._place(turn_message)
        if self._total(current) > room:
            self._make_room(room, current)
        elif begins and self._size(self._start) > FULL * room:
            self._move_to(self._boundary(self._up_to(current), KEPT * room))
        pinned = (self._shown[i] for i in self._pinned(current))
        return View(
            history=(*pinned, *self._shown[self._start :]),
            digests=self._digests(current),
            tokens=self._total(current),
            room=room,
        )

    def _follow(self, messages: Sequence[Message]) -> None:
        known = len(self._source)
        if known > len(messages) or (known and messages[known - 1] is not self._source[-1]):
            for places in (self._users, self._exchanges, self._decisions):
                places.clear()
            self._source.clear()
            self._open = {False: set(), True: set()}
            self._start = known = 0
            self._show_again()
        for place, message in enumerate(messages[known:], start=known):
            self._mark(place, message)
            self._source.append(message)
            self._show(message)

    def _mark(self, place: int, message: Message) -> None:
        """Note where the history could begin without a result whose call is not in it."""
        match message:
            case UserMessage():
                self._users.append(place)
                if not message.aside:
                    self._exchanges.append(place)
                    self._open = {False: set(), True: set()}
            case AssistantMessage():
                if not self._open[not message.aside]:
                    self._decisions.append(place)
                self._open[message.aside] = call_ids(message)
            case OperationMessage():
                for calls in self._open.values():
                    calls.discard(message.call_id)
            case _:
                pass

    def _set_cap(self, cap: int) -> None:
        # Small moves of the room must not change how old results look: caches would miss.
        if self._cap > 1.25 * cap or cap > 2 * self._cap:
            self._cap = cap
            self._show_again()

    def _show_again(self) -> None:
        self._shown.clear()
        self._sums = [0]
        for message in self._source:
            self._show(message)

    def _show(self, message: Message) -> None:
        size = message_tokens(message, self._counter.count)
        if size > self._cap and isinstance(message, OperationMessage):
            message = shortened(message, self._cap / size, self._left_out)
            size = message_tokens(message, self._counter.count)
        self._shown.append(message)
        self._sums.append(self._sums[-1] + size)

    def _size(self, begin: int, end: int | None = None) -> int:
        return self._sums[-1 if end is None else end] - self._sums[begin]

    def _pinned(self, current: int) -> list[int]:
        """Messages of the user that travel although what follows them does not."""
        return sorted({i for i in (current, *self._users[-1:]) if i < self._start})

    def _total(self, current: int) -> int:
        pinned = sum(self._size(i, i + 1) for i in self._pinned(current))
        return pinned + self._size(self._start)

    def _move_to(self, start: int) -> None:
        self._start = max(self._start, start)

    def _up_to(self, current: int) -> list[int]:
        return [i for i in self._exchanges if i <= current] or [0]

    def _place(self, message_id: str) -> int:
        for place in reversed(self._users):
            message = self._source[place]
            if isinstance(message, UserMessage) and message_id in (message.message_id, ""):
                return place
        return self._users[-1] if self._users else 0

    def _boundary(self, boundaries: Sequence[int], most: float) -> int:
        """The earliest boundary from which at most ``most`` tokens follow, else the last."""
        at = bisect_left([self._sums[i] for i in boundaries], self._sums[-1] - most)
        return boundaries[min(at, len(boundaries) - 1)]

    def _make_room(self, room: int, current: int) -> None:
        """Whole exchanges go first, then decisions of this turn, then the middle of results."""
        self._move_to(self._boundary(self._up_to(current), KEPT * room))
        if self._size(self._start) <= FULL * room:
            return
        decisions = [current, *(i for i in self._decisions if i > current)]
        self._move_to(self._boundary(decisions, KEPT * room))
        while self._total(current) > room and self._cap > SMALLEST_RESULT:
            self._cap = max(self._cap // 2, SMALLEST_RESULT)
            self._show_again()

    def _digests(self, current: int) -> tuple[str, ...]:
        if not self._start:
            return ()
        ended = min(self._start, current)
        old = _spans([i for i in self._exchanges if i < ended], ended)
        # Empty unless the turn itself was cut.
        inside = _spans([i for i in self._decisions if current <= i < self._start], self._start)
        lines = [exchange_digest(self._source[b:e]) for b, e in old[-MOST_DIGESTS:]]
        lines += [loop_digest(self._source[b:e]) for b, e in inside[-MOST_DIGESTS:]]
        return tuple(line for line in lines if line)[-MOST_DIGESTS:]


def call_ids(message: AssistantMessage) -> set[str]:
    """The calls a reply asked for; none of one that was cut or could not be read."""
    if message.decision is None or not message.complete:
        return set()
    return {action.call_id for action in message.decision.actions}


def _spans(starts: Sequence[int], end: int) -> list[tuple[int, int]]:
    return list(zip(starts, [*starts[1:], end], strict=True)) if starts else []


def message_tokens(message: Message, count: Callable[[str], int]) -> int:
    """What a message takes in a request, before the model's factor."""
    match message:
        case UserMessage():
            return _PER_MESSAGE + count(message.text)
        case OperationMessage():
            return _PER_MESSAGE + count(message.operation) + count(message.result.text)
        case NoticeMessage() | CardMessage() | ReportMessage():
            return _PER_MESSAGE + count(message.for_model) if message.for_model else 0
        case AssistantMessage():
            decision = message.decision
            if decision is None:
                return _PER_MESSAGE + count(message.raw or message.text)
            total = _PER_MESSAGE + _PER_DECISION + count(message.text) + count(decision.rationale)
            for action in decision.actions:
                total += count(canonical_json(action.args)) + count(action.reasoning)
                total += count(action.operation) + count(action.intent) + 20
            return total


def shortened(
    message: OperationMessage, share: float, left_out: Callable[[int], str]
) -> OperationMessage:
    """The message with ``share`` of its result's text: two thirds head, one third tail."""
    text = message.result.text
    keep = int(len(text) * share)
    head = keep * 2 // 3
    tail = keep - head
    cut = len(text) - keep
    short = f"{text[:head]}\n{left_out(cut)}\n{text[len(text) - tail :]}"
    result = message.result.model_copy(
        update={"text": short, "truncated_chars": message.result.truncated_chars + cut}
    )
    return message.model_copy(update={"result": result})
