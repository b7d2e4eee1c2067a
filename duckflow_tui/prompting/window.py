"""Which messages travel: all while they fit, else the newest, the older ones as digests (C23).

Where it grows tight, the results that were read longest ago are left out first, each but for a
line, many at once: what stays begins with the same words for many requests after. Only where that
does not make room enough is the start of what travels moved, when a turn begins, far enough to
leave the turn room to grow; within a turn it stays, so that each request begins as the one before
it did. It moves in mid-turn in four cases: the endpoint refused the request as too long, the turn
has outgrown the whole window, where a request would be refused, or cut from the front without a
word, the user wanted to start over, or compacted the conversation or took that back.
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
from duckflow_tui.state.base import canonical_json
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, NoticeMessage, UserMessage
from duckflow_tui.state.gates import CardMessage
from duckflow_tui.state.goal import AttemptMessage, ReviewMessage
from duckflow_tui.state.memory import Compaction, CompactionMessage
from duckflow_tui.state.operations import Effect, OperationSpec
from duckflow_tui.state.plan import ReportMessage
from duckflow_tui.state.prompt import LayerUse
from duckflow_tui.state.usage import PromptFigures, PromptParts

FULL: Final = 0.7  # share of the room above which a new turn moves the start

KEPT: Final = 0.4  # share of the room that is kept then; the rest is for the turn to grow into

#: Share of the room that has to be reached by leaving results out alone; halfway between the two
#: above, so that what is freed lasts for several requests.
LIGHT: Final = 0.55

RESULT_SHARE: Final = 4  # one result takes at most this part (1/4) of the room

#: Tokens that one result may have all the same, as long as that is no more than half of the room:
#: some 100 lines of code, which less could not be worked with.
ONE_FILE: Final = 1_000

MOST_DIGESTS: Final = 8  # five of the base layer and three of the main one (S4-11, S4-16)

SMALLEST_RESULT: Final = 200  # tokens; results are not cut below it, and shorter ones stay

_LEFT: Final = 60  # about the tokens of the line that stays of a result

_PER_MESSAGE: Final = 6  # tokens of role and separators

_PER_DECISION: Final = 110  # tokens of the field names of an encoded decision


@dataclass(frozen=True, slots=True)
class View:
    """The part of the conversation that a request sends."""

    history: tuple[Message, ...]
    digests: tuple[str, ...]  # of what is left out, oldest first
    tokens: int  # before the model's factor
    room: int  # tokens it could take, before the factor
    sizes: tuple[int, ...] = ()  # of them what each item of the history takes
    left_out: frozenset[str] = frozenset()  # calls of whose results only a line is in the history
    tight: bool = False  # something since the request in hand does not travel, or only as a line


@dataclass(frozen=True, slots=True)
class Overflow:
    """The part that a compaction would replace; tokens are before the model's factor."""

    begins_at: str  # id of the first message that would
    messages: tuple[Message, ...]  # that would not, and did before
    tokens: int  # of the conversation now
    left: int  # of it without them
    room: int
    context: int = 0  # tokens that a whole request may have


#: The message a compaction puts at the head of what travels.
Front = Callable[[Compaction], Message]


class HistoryWindow:
    """Follows one append-only conversation. ``left_out(n, id)`` words a cut of n characters of
    the result of a call, ``left_line`` what stands for a result of which nothing travels;
    ``front`` makes what travels for what was compacted.
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
        self._front: tuple[Message, ...] = ()  # the digest, while there is one
        self._front_size = 0
        self._compaction = ""
        self._source: list[Message] = []
        self._shown: list[Message] = []
        self._sums: list[int] = [0]  # tokens of the first n shown messages
        self._users: list[int] = []  # places of user messages
        self._exchanges: list[int] = []  # of them, where exchanges begin
        self._decisions: list[int] = []  # places of replies where no older one waits for results
        self._open: dict[bool, set[str]] = {False: set(), True: set()}  # calls, by aside
        self._start = 0
        self._fresh = 0  # place where the user wanted to start over
        self._lines = 0  # place before which results are left out but for a line
        self._cap = 0  # tokens of one result
        self._whole = 0  # and of a message of the user
        self._turn = ""
        self._thoughts_from = 0  # place before which none travels
        self._request = 0  # place of the message with the request in hand

    def make_view(
        self,
        messages: Sequence[Message],
        turn: str,
        turn_message: str,
        room: int,
        whole: int,
        compaction: Compaction | None = None,
        full: float = FULL,
        request: str = "",
    ) -> View:
        """The messages sent in a request of ``turn``, whose user message is ``turn_message``.

        ``room`` is in tokens before the model's factor, and so is ``whole``, above which a message
        of the user is cut in its middle; an empty ``turn`` is always a new one,
        and one that begins above the ``full`` share of the room moves the start.
        The message of the turn, that of the ``request`` in hand and the last one of the user are
        always in it. Within a turn an
        item stays the same object.
        """
        begins = self._take_new(messages, turn, room, whole, compaction)
        self._turn = turn
        current = self._index_of(turn_message)
        if begins and current > self._thoughts_from:
            self._forget_thoughts(current)
        self._request = self._index_of(request) if request else current
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
        turn: str,
        turn_message: str,
        room: int,
        whole: int,
        compaction: Compaction | None,
        *,
        full: float = FULL,
        keep: float = KEPT,
        inside: bool = False,
    ) -> Overflow | None:
        """The part to leave out for ``room``, with ``full`` of it filled, so that ``keep`` of
        it is left; None where nothing has to be, or can. A turn that goes on is cut only when it
        does not fit; a new one, or ``inside``, as soon as it is full.

        ``inside``: also at the decisions of an exchange, where whole exchanges are not enough.
        """
        begins = self._take_new(messages, turn, room, whole, compaction)
        current = self._index_of(turn_message)
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
        """Tokens of the conversation if it began where this compaction has it begin."""
        self._follow_messages(messages)
        if compaction is None:
            return self._sum_sizes(self._fresh)
        front = self._new_front(compaction) if compaction.digest else None
        digest = message_tokens(front, self._counter.count) if front else 0
        return digest + self._sum_sizes(max(self._begin_of(compaction.begins_at), self._fresh))

    def _take_new(
        self,
        messages: Sequence[Message],
        turn: str,
        room: int,
        whole: int,
        compaction: Compaction | None,
    ) -> bool:
        """Take in what is new; whether a turn begins."""
        begins = not turn or turn != self._turn
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
        return begins

    def _begin_of(self, message_id: str) -> int:
        """The newest index of the message with this id; 0 for one that is not there."""
        for place in range(len(self._source) - 1, -1, -1):
            if _id_of(self._source[place]) == message_id:
                return place
        return 0

    def _follow_messages(self, messages: Sequence[Message]) -> None:
        """Take in messages that are new; start over where the list is not a continuation."""
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
            case NoticeMessage(fresh=True):
                self._fresh = place
            case _:
                pass

    def _show_again(self) -> None:
        """Recompute how every message is shown, and the running sums of tokens."""
        self._shown.clear()
        self._sums = [0]
        for message in self._source:
            self._show_message(message)

    def _show_message(self, message: Message) -> None:
        """Append one message as the model gets it: whole, shortened, or a result as one line."""
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
        """Drop reasoning data of older turns, which models want back for the current one only."""
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
        return self._sums[-1 if end is None else end] - self._sums[begin]

    def _list_pinned(self, current: int) -> list[int]:
        """Messages of the user that travel although what follows them does not."""
        return [i for i in sorted({current, self._request, *self._users[-1:]}) if i < self._start]

    def _sum_total(self, current: int) -> int:
        """Tokens of the request: fixed front, window, and older messages that stay."""
        total = self._front_size + self._sum_sizes(self._start)
        for place in self._list_pinned(current):
            total += self._sum_sizes(place, place + 1)
        return total

    def _up_to(self, current: int) -> list[int]:
        return [i for i in self._exchanges if i <= current] or [0]

    def _index_of(self, message_id: str) -> int:
        """The index of a user's message; for an unknown id that of the newest one, else 0."""
        for place in reversed(self._users):
            message = self._source[place]
            if isinstance(message, UserMessage) and message_id in (message.message_id, ""):
                return place
        return self._users[-1] if self._users else 0

    def _find_boundary(self, boundaries: Sequence[int], most: float) -> int:
        """The earliest boundary from which at most ``most`` tokens follow, else the last."""
        at = bisect_left([self._sums[i] for i in boundaries], self._sums[-1] - most)
        return boundaries[min(at, len(boundaries) - 1)]

    def _make_room(self, room: int, current: int) -> None:
        """Whole exchanges go first, then decisions of this turn, then the middle of results."""
        self._start = max(self._start, self._find_boundary(self._up_to(current), KEPT * room))
        if self._sum_sizes(self._start) <= FULL * room:
            return
        decisions = [current, *(i for i in self._decisions if i > current)]
        self._start = max(self._start, self._find_boundary(decisions, KEPT * room))
        while self._sum_total(current) > room and self._cap > SMALLEST_RESULT:
            self._cap = max(self._cap // 2, SMALLEST_RESULT)
            self._show_again()

    def _drop_old_results(self, room: int, current: int) -> bool:
        """Leave out the results that were read longest ago, each but for a line, down to ``KEPT``
        of the room; those of the newest replies stay. False, and nothing is done, where that does
        not come down to ``LIGHT`` of it.
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
        """One line for each exchange or loop that fell out of the window, the newest
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
    return "" if isinstance(message, OperationMessage) else message.message_id


def call_ids(message: AssistantMessage) -> set[str]:
    """The calls a reply asked for; none of one that was cut or could not be read."""
    if message.decision is None or not message.complete:
        return set()
    return {action.call_id for action in message.decision.actions}


def _holds_thought_of_turn(message: Message) -> bool:
    """Whether a message carries reasoning data that its model wants back in its own turn only."""
    thought = message.thought if isinstance(message, AssistantMessage) else None
    return thought is not None and thought.api == "chat"


def _iter_spans(starts: Sequence[int], end: int) -> list[tuple[int, int]]:
    return list(zip(starts, [*starts[1:], end], strict=True)) if starts else []


def message_tokens(message: Message, count: Callable[[str], int]) -> int:
    """Tokens of a message in a request, before the model's factor."""
    match message:
        case UserMessage():
            return _PER_MESSAGE + count(message.for_model)
        case OperationMessage():
            return _PER_MESSAGE + count(message.operation) + count(message.result.text)
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
    """The message with ``share`` of its text: two thirds head, one third tail."""
    if isinstance(message, UserMessage):
        text, _ = cut_middle(message.text, share, lambda cut: left_out(cut, ""))
        return message.model_copy(update={"text": text})
    text, cut = cut_middle(message.result.text, share, lambda cut: left_out(cut, message.call_id))
    result = message.result.model_copy(
        update={"text": text, "truncated_chars": message.result.truncated_chars + cut}
    )
    return message.model_copy(update={"result": result})


def left_line(message: OperationMessage, left_out: Callable[[str], str]) -> OperationMessage:
    """The message with a line in place of its result: what was called, its figures, how to have it
    again.
    """
    result, text = message.result, message.result.text
    about = f"{format_call(message.operation, message.args)}, {result.summary}".rstrip(", ")
    cut = result.truncated_chars + len(text)
    result = result.model_copy(update={"text": left_out(about), "truncated_chars": cut})
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
    """The parts of a request; ``base`` and the sizes of ``view`` are before the factor."""
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
    """About how many turns more until the conversation is compacted, at the growth of the newest
    ones; None while it does not grow or nothing is known.

    ``room``: tokens that a request may have, the reply's share taken off.
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
