"""Chooses which messages a request sends: all while they fit, else the newest, older ones as
digests (C23).

Where room gets short, the results that were read longest ago are first replaced by a line each,
many at once, so that the following requests share a long prefix, which servers cache. Only where
that is not enough does the history begin later. That happens when a turn begins, and leaves the
turn room to grow. Within a turn the begin moves only when the endpoint refused the request as too
long, the turn has outgrown the window, the user wanted to start over, or a compaction was made or
undone.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from duckflow_tui.prompting.budget import Fitted, Layer, ScriptCounter
from duckflow_tui.prompting.lines import cut_middle, exchange_digest, format_call, loop_digest
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import canonical_json
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, NoticeMessage, UserMessage
from duckflow_tui.state.gates import CardMessage
from duckflow_tui.state.goal import AttemptMessage, ReviewMessage
from duckflow_tui.state.memory import Compaction, CompactionMessage
from duckflow_tui.state.operations import IMAGE_TOKENS, Effect, OperationSpec
from duckflow_tui.state.plan import ReportMessage
from duckflow_tui.state.prompt import LayerUse
from duckflow_tui.state.usage import PromptFigures, PromptParts

FULL: Final = 0.7  # share of the room above which a new turn moves the start

KEPT: Final = 0.4  # share of the room that is kept then; the rest is for the turn to grow into

#: Share of the room to which leaving out results alone has to bring it; halfway between the two
#: above, so that it lasts for several requests.
LIGHT: Final = 0.55

RESULT_SHARE: Final = 4  # one result takes at most this part (1/4) of the room

#: Tokens that one result may always have, up to half of the room: about 100 lines of code, the
#: least that can be worked with.
ONE_FILE: Final = 1_000

MOST_DIGESTS: Final = 8  # five of the base layer and three of the main one (S4-11, S4-16)

SMALLEST_RESULT: Final = 200  # tokens; results are not cut below it, and shorter ones stay

_LEFT: Final = 60  # tokens of the line that replaces a result, about

_PER_MESSAGE: Final = 6  # tokens of role and separators

_PER_DECISION: Final = 110  # tokens of the field names of an encoded decision


@dataclass(frozen=True, slots=True)
class View:
    """The messages that a request sends."""

    history: tuple[Message, ...]
    digests: tuple[str, ...]  # of what is left out, oldest first
    tokens: int  # before the model's factor
    room: int  # tokens available, before the factor
    sizes: tuple[int, ...] = ()  # tokens of each message of the history
    left_out: frozenset[str] = frozenset()  # ids of calls whose results are replaced by a line
    tight: bool = False  # messages since the current request are left out or shortened


@dataclass(frozen=True, slots=True)
class Overflow:
    """The part of a conversation that a compaction would replace, in tokens before the model's
    factor.
    """

    begins_at: str  # id of the first message that stays
    messages: tuple[Message, ...]  # the messages to replace
    tokens: int  # of the conversation now
    left: int  # of the conversation without them
    room: int  # tokens available for the conversation
    context: int = 0  # tokens of a whole request


#: Makes the message that a compaction puts in place of what it replaced.
Front = Callable[[Compaction], Message]


class HistoryWindow:
    """Follows one conversation that only grows, and chooses the messages to send.

    ``left_out(n, call_id)`` returns the note for n characters cut out of a result, ``left_line``
    the line that replaces a result, ``front`` the message that replaces a compacted part.
    """

    def __init__(
        self,
        counter: ScriptCounter,
        left_out: Callable[[int, str], str],
        front: Front,
        left_line: Callable[[str], str] = "[{}]".format,
    ) -> None:
        self._counter = counter
        self._left_out = left_out
        self._left_line = left_line
        self._new_front = front
        self._front: tuple[Message, ...] = ()  # the digest of the compaction in force
        self._front_size = 0
        self._compaction = ""
        self._source: list[Message] = []
        self._shown: list[Message] = []
        self._sums: list[int] = [0]  # tokens of the first n shown messages
        self._users: list[int] = []  # indices of user messages
        self._exchanges: list[int] = []  # those of them that begin an exchange
        self._decisions: list[int] = []  # indices of replies before which all calls have returned
        self._open: dict[bool, set[str]] = {False: set(), True: set()}  # open call ids, by aside
        self._start = 0  # index of the first message that is sent
        self._fresh = 0  # index at which the user started over
        self._lines = 0  # results before this index are replaced by a line
        self._cap = 0  # most tokens of one result
        self._whole = 0  # most tokens of a message of the user
        self._turn = ""
        self._thoughts_from = 0  # reasoning data before this index is not sent
        self._request = 0  # index of the message with the current request

    def make_view(
        self, messages: Sequence[Message], state: AgentState, room: int, whole: int, full: float
    ) -> View:
        """Return the messages to send in a request of the running turn, and remember the turn.

        ``room`` is the tokens available, before the model's factor; a user's message above
        ``whole`` tokens is cut in its middle. Without a turn, each request counts as a new one. A
        turn that begins with more than the share ``full`` of the room moves the begin of the
        history. Always sent: the turn's message, the one of the current request, and the user's
        last one. Within a turn a message stays the same object.
        """
        begins, current = self._take_new(messages, state, room, whole)
        self._turn = state.turn.turn_id if state.turn else ""
        if begins and current > self._thoughts_from:
            self._forget_thoughts(current)
        request = state.objective
        self._request = self._index_of(request.message_id) if request else current
        fits = self._sum_total(current) <= room
        full = full if begins else 1.0
        if (fits and self._sum_sizes(self._start) <= full * room) or self._drop_old_results(
            room, current
        ):
            pass
        elif not fits:
            self._make_room(room, current)
        else:
            self._start = max(self._start, self._find_boundary(self._up_to(current), KEPT * room))
        history = [*self._front]
        sizes = [self._front_size] if self._front else []
        for place in (*self._list_pinned(current), *range(self._start, len(self._shown))):
            history.append(self._shown[place])
            sizes.append(self._sum_sizes(place, place + 1))
        left_out: frozenset[str] = frozenset()
        if self._lines > self._start:
            pairs = [*zip(self._source, self._shown, strict=True)][self._start : self._lines]
            left_out = frozenset(
                a.call_id for a, b in pairs if isinstance(a, OperationMessage) and a is not b
            )
        return View(
            history=tuple(history),
            digests=self._list_digests(current),
            tokens=self._sum_total(current),
            room=room,
            sizes=tuple(sizes),
            left_out=left_out,
            tight=max(self._start, self._lines) > self._request,
        )

    def find_overflow(
        self,
        messages: Sequence[Message],
        state: AgentState,
        room: int,
        whole: int,
        *,
        full: float = FULL,
        keep: float = KEPT,
        inside: bool = False,
    ) -> Overflow | None:
        """Return the messages to compact so that the share ``keep`` of ``room`` tokens stays used;
        None where nothing has to be compacted, or can be. A running turn is compacted only where
        it does not fit; a new one, or ``inside``, from the share ``full`` on.

        ``inside``: the cut may fall between the decisions of an exchange where whole exchanges are
        not enough.
        """
        begins, current = self._take_new(messages, state, room, whole)
        total = self._sum_total(current)
        if total <= room and not (
            (begins or inside) and self._sum_sizes(self._start) > full * room
        ):
            return None
        if not inside and self._drop_old_results(room, current):
            return None
        start = max(self._start, self._find_boundary(self._up_to(current), keep * room))
        if self._sum_sizes(start) > (keep if inside else FULL) * room:
            decisions = [current, *(i for i in self._decisions if i > current)]
            start = max(start, self._find_boundary(decisions, keep * room))
        begins_at = _id_of(self._source[start]) if start < len(self._source) else ""
        if start <= self._start or not begins_at:
            return None
        gone = self._source[self._start : start]
        left = self._sum_sizes(start) + sum(
            self._sum_sizes(i, i + 1) for i in {current, *self._users[-1:]} if i < start
        )
        return Overflow(begins_at, tuple(gone), total, left, room)

    def total_with(self, messages: Sequence[Message], compaction: Compaction | None) -> int:
        """Return the tokens of the conversation as it would be sent with this compaction; None:
        with none.
        """
        self._follow_messages(messages)
        if compaction is None:
            return self._sum_sizes(self._fresh)
        front = self._new_front(compaction) if compaction.digest else None
        digest = message_tokens(front, self._counter.count) if front else 0
        return digest + self._sum_sizes(max(self._begin_of(compaction.begins_at), self._fresh))

    def _take_new(
        self, messages: Sequence[Message], state: AgentState, room: int, whole: int
    ) -> tuple[bool, int]:
        """Take in new messages, another limit of a result and another compaction. Returns whether a
        turn begins, and the index of its message.
        """
        turn, compaction = state.turn, state.compaction
        begins = turn is None or turn.turn_id != self._turn
        cap = max(room // RESULT_SHARE, min(room // 2, ONE_FILE), SMALLEST_RESULT)
        # Small moves of the room must not change how old results look: caches would miss.
        if begins and (self._cap > 1.25 * cap or cap > 2 * self._cap):
            self._cap, self._whole = cap, max(whole, cap)
            self._show_again()
        self._follow_messages(messages)
        name = compaction.compaction_id if compaction else ""
        if name != self._compaction:  # another one, or the one before where it was taken back
            self._compaction = name
            self._start = 0 if compaction is None else self._begin_of(compaction.begins_at)
            self._front, self._front_size = (), 0
            if compaction is not None and compaction.digest:
                front = self._new_front(compaction)
                self._front = (front,)
                self._front_size = message_tokens(front, self._counter.count)
        self._start = max(self._start, self._fresh)
        return begins, self._index_of(turn.message_id if turn else "")

    def _begin_of(self, message_id: str) -> int:
        """Return the newest index of the message with this id; 0 where it is missing."""
        for place in range(len(self._source) - 1, -1, -1):
            if _id_of(self._source[place]) == message_id:
                return place
        return 0

    def _follow_messages(self, messages: Sequence[Message]) -> None:
        """Take in messages that are new; start over where the list does not continue the
        last one.
        """
        known = len(self._source)
        if known > len(messages) or (known and messages[known - 1] is not self._source[-1]):
            for places in (self._users, self._exchanges, self._decisions):
                places.clear()
            self._source.clear()
            self._open = {False: set(), True: set()}
            self._start = self._fresh = self._lines = self._thoughts_from = known = 0
            self._compaction = ""
            self._show_again()
        for place, message in enumerate(messages[known:], start=known):
            self._mark_boundary(place, message)
            self._source.append(message)
            self._show_message(message)

    def _mark_boundary(self, place: int, message: Message) -> None:
        """Record whether the history could begin at this message without a result whose call is
        missing.
        """
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
            case NoticeMessage(fresh=True):
                self._fresh = place
            case _:
                pass

    def _show_again(self) -> None:
        """Recompute how each message is sent, and the running sums of tokens."""
        self._shown.clear()
        self._sums = [0]
        for message in self._source:
            self._show_message(message)

    def _show_message(self, message: Message) -> None:
        """Append a message as it is sent: whole, shortened, or a result replaced by a line."""
        if len(self._shown) < self._thoughts_from and _holds_thought_of_turn(message):
            message = message.model_copy(update={"thought": None})
        size = message_tokens(message, self._counter.count)
        most = self._cap if isinstance(message, OperationMessage) else self._whole
        if len(self._shown) < self._lines and isinstance(message, OperationMessage):
            if size > SMALLEST_RESULT:
                message = left_line(message, self._left_line)
                size = message_tokens(message, self._counter.count)
        elif size > most and isinstance(message, OperationMessage | UserMessage):
            message = shorten_message(message, most / size, self._left_out)
            size = message_tokens(message, self._counter.count)
        self._shown.append(message)
        self._sums.append(self._sums[-1] + size)

    def _forget_thoughts(self, current: int) -> None:
        """Drop the reasoning data of messages before ``current``: models want it back for the
        running turn only.
        """
        freed, before = 0, self._sums[self._thoughts_from]
        for place in range(self._thoughts_from, len(self._shown)):
            message, size = self._shown[place], self._sums[place + 1] - before
            before = self._sums[place + 1]
            if place < current and _holds_thought_of_turn(message):
                message = message.model_copy(update={"thought": None})
                freed += size - message_tokens(message, self._counter.count)
                self._shown[place] = message
            self._sums[place + 1] -= freed
        self._thoughts_from = current

    def _sum_sizes(self, begin: int, end: int | None = None) -> int:
        """Return the tokens of the messages from ``begin`` up to ``end``, before the model's
        factor.
        """
        return self._sums[-1 if end is None else end] - self._sums[begin]

    def _list_pinned(self, current: int) -> list[int]:
        """List the user's messages that are sent although the history begins after them."""
        return [i for i in sorted({current, self._request, *self._users[-1:]}) if i < self._start]

    def _sum_total(self, current: int) -> int:
        """Return the tokens of the request: digest, history, and pinned messages before it."""
        total = self._front_size + self._sum_sizes(self._start)
        for place in self._list_pinned(current):
            total += self._sum_sizes(place, place + 1)
        return total

    def _up_to(self, current: int) -> list[int]:
        """Return the indices of exchanges up to ``current``; at least [0]."""
        return [i for i in self._exchanges if i <= current] or [0]

    def _index_of(self, message_id: str) -> int:
        """Return the index of a user's message; for an unknown id that of the newest one,
        else 0.
        """
        for place in reversed(self._users):
            message = self._source[place]
            if isinstance(message, UserMessage) and message_id in (message.message_id, ""):
                return place
        return self._users[-1] if self._users else 0

    def _find_boundary(self, boundaries: Sequence[int], most: float) -> int:
        """Return the earliest of the boundaries from which at most ``most`` tokens follow, else the
        last one.
        """
        at = bisect_left([self._sums[i] for i in boundaries], self._sums[-1] - most)
        return boundaries[min(at, len(boundaries) - 1)]

    def _make_room(self, room: int, current: int) -> None:
        """Leave out whole exchanges, then decisions of this turn, then the middles of results,
        until ``room`` holds.
        """
        self._start = max(self._start, self._find_boundary(self._up_to(current), KEPT * room))
        if self._sum_sizes(self._start) <= FULL * room:
            return
        decisions = [current, *(i for i in self._decisions if i > current)]
        self._start = max(self._start, self._find_boundary(decisions, KEPT * room))
        while self._sum_total(current) > room and self._cap > SMALLEST_RESULT:
            self._cap = max(self._cap // 2, SMALLEST_RESULT)
            self._show_again()

    def _drop_old_results(self, room: int, current: int) -> bool:
        """Replace the results read longest ago by a line each, down to the share ``KEPT`` of the
        room; results of the newest replies stay. Returns False and changes nothing where that
        would not come down to ``LIGHT``.
        """
        for newest in self._decisions[-2:]:
            left, place = self._sum_total(current), max(self._start, self._lines)
            while left > KEPT * room and place < newest:
                if isinstance(self._source[place], OperationMessage):
                    size = self._sum_sizes(place, place + 1)
                    left -= size - _LEFT if size > SMALLEST_RESULT else 0
                place += 1
            if left <= LIGHT * room:
                self._lines = place
                self._show_again()
                return True
        return False

    def _list_digests(self, current: int) -> tuple[str, ...]:
        """Return one line for each exchange or decision that is no longer sent, the newest
        ``MOST_DIGESTS``.
        """
        if not self._start:
            return ()
        ended = min(self._start, current)
        old = _iter_spans([i for i in self._exchanges if i < ended], ended)
        # Empty unless the turn itself was cut.
        inside = _iter_spans(
            [i for i in self._decisions if current <= i < self._start], self._start
        )
        lines = [exchange_digest(self._source[b:e]) for b, e in old[-MOST_DIGESTS:]]
        lines += [loop_digest(self._source[b:e]) for b, e in inside[-MOST_DIGESTS:]]
        return tuple(line for line in lines if line)[-MOST_DIGESTS:]


def _id_of(message: Message) -> str:
    """Return the message's id; empty for a result, which has none."""
    return "" if isinstance(message, OperationMessage) else message.message_id


def call_ids(message: AssistantMessage) -> set[str]:
    """Return the ids of the calls in a reply; empty for one that was cut off or could not
    be read.
    """
    if message.decision is None or not message.complete:
        return set()
    return {action.call_id for action in message.decision.actions}


def _holds_thought_of_turn(message: Message) -> bool:
    """Whether a message carries reasoning data that its model wants back within its own
    turn only.
    """
    thought = message.thought if isinstance(message, AssistantMessage) else None
    return thought is not None and thought.api == "chat"


def _iter_spans(starts: Sequence[int], end: int) -> list[tuple[int, int]]:
    """Pair each start with the next one, the last with ``end``."""
    return list(zip(starts, [*starts[1:], end], strict=True)) if starts else []


def message_tokens(message: Message, count: Callable[[str], int]) -> int:
    """Estimate the tokens of a message in a request, before the model's factor."""
    match message:
        case UserMessage():
            return _PER_MESSAGE + count(message.for_model)
        case OperationMessage():
            text = count(message.operation) + count(message.result.text)
            return _PER_MESSAGE + text + IMAGE_TOKENS * len(message.result.images)
        case NoticeMessage() | CardMessage() | ReportMessage() | ReviewMessage() | AttemptMessage():
            return _PER_MESSAGE + count(message.for_model) if message.for_model else 0
        case CompactionMessage():
            return 0
        case AssistantMessage():
            decision, total = message.decision, _PER_MESSAGE
            if message.thought is not None:  # what goes back with it
                total += count(canonical_json(message.thought.added_fields))
            if decision is None:
                return total + count(message.raw or message.text)
            total += _PER_DECISION + count(message.text) + count(decision.rationale)
            for action in decision.actions:
                total += count(canonical_json(action.args)) + count(action.reasoning)
                total += count(action.operation) + count(action.intent) + 20
            return total


def shorten_message(
    message: OperationMessage | UserMessage, share: float, left_out: Callable[[int, str], str]
) -> OperationMessage | UserMessage:
    """Return the message with ``share`` of its text: two thirds from the head, one third from the
    tail.
    """
    if isinstance(message, UserMessage):
        text, _ = cut_middle(message.text, share, lambda cut: left_out(cut, ""))
        return message.model_copy(update={"text": text})
    text, cut = cut_middle(message.result.text, share, lambda cut: left_out(cut, message.call_id))
    result = message.result.model_copy(
        update={"text": text, "truncated_chars": message.result.truncated_chars + cut}
    )
    return message.model_copy(update={"result": result})


def left_line(message: OperationMessage, left_out: Callable[[str], str]) -> OperationMessage:
    """Return the message with its result replaced by a line: the call, its figures, and how to read
    it again.
    """
    result, text = message.result, message.result.text
    about = f"{format_call(message.operation, message.args)}, {result.summary}".rstrip(", ")
    cut = result.truncated_chars + len(text)
    update = {"text": left_out(about), "truncated_chars": cut, "images": ()}
    result = result.model_copy(update=update)
    return message.model_copy(update={"result": result})


_PINNED: Final = (
    *("goal", "constraints", "requirements", "gates"),
    *("plan", "plan_brief", "plan_name", "plan_goal", "step", "criteria"),
)

_FILES: Final = "file_ops."

_TURNS: Final = 5  # newest ones whose growth counts


def measure_parts(
    view: View,
    base: int,
    uses: Sequence[LayerUse],
    layers: Sequence[Layer],
    fitted: Sequence[Fitted],
    operations: Sequence[OperationSpec],
    count: Callable[[str], int],
    factor: float,
) -> PromptParts:
    """Break a request's tokens down for display; ``base`` and the sizes of ``view`` are before
    ``factor``.
    """
    sizes = {use.layer: use.tokens for use in uses}
    base = math.ceil(base * factor)
    changing, kept = -base, 0
    for layer, fit in zip(layers, fitted, strict=True):
        changing += fit.use.tokens
        for name in _PINNED:
            cut = layer.cuttable.get(name)
            for text in cut.items if cut else (layer.values.get(name, ""),):
                kept += count(text)
    pinned = min(math.ceil(kept * factor), changing)
    effects = {operation.name: operation.effect for operation in operations}
    files = results = 0
    for message, size in zip(view.history, view.sizes, strict=True):
        if isinstance(message, OperationMessage):
            name = message.operation
            if effects.get(name) is Effect.READ and name.startswith(_FILES):
                files += size
            else:
                results += size
    files, results = math.ceil(files * factor), math.ceil(results * factor)
    return PromptParts(
        base=base,
        operations=sizes["operations"] + sizes["format"],
        project=sizes["project"],
        pinned=pinned,
        files=files,
        results=results,
        chat=max(math.ceil(view.tokens * factor) - files - results, 0),
        tail=max(changing - pinned, 0),
    )


def turns_left(requests: Sequence[PromptFigures], room: int) -> int | None:
    """Estimate how many turns are left until the conversation is compacted, from the growth in the
    newest five; None where it does not grow or nothing is known.

    ``room``: the tokens of a request, the reply's share taken off.
    """
    last: dict[str, PromptFigures] = {}
    for request in requests:
        if request.purpose == "main" and not request.aside and request.turn_id:
            last.pop(request.turn_id, None)
            last[request.turn_id] = request
    newest = list(last.values())[-_TURNS - 1 :]
    sizes = [request.parts.conversation for request in newest]
    grown = [after - before for before, after in pairwise(sizes)]
    grown = [step for step in grown if step > 0]  # a compaction is no growth
    if not grown:
        return None
    now = newest[-1].parts
    fixed = now.total - now.conversation
    left = FULL * (room - fixed) - now.conversation
    return max(int(left // (sum(grown) / len(grown))), 0)
