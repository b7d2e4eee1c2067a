"""A recorded session to be watched again: its events, the states between them, the turning points.

Nothing here writes, locks or asks a model; what could not be read is counted and left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from pydantic import ValidationError

from duckflow_tui.session.export import parse_json, read_bytes, read_export
from duckflow_tui.session.faults import NotASession
from duckflow_tui.session.folders import SessionFolder
from duckflow_tui.session.reader import MAX_SEQ, RecordedEvent, SessionRead, Unread, read_session
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event, StateError, copy_slices, event_from_json, parse_time
from duckflow_tui.state.calls import OperationFinished
from duckflow_tui.state.conversation import AssistantMessage, AssistantReplied, Level, NoticeAdded
from duckflow_tui.state.gates import CardKind, CardOpened, GateOpened
from duckflow_tui.state.goal import ObjectiveReviewed
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan_events import ReportAdded
from duckflow_tui.state.turn import TurnFinished
from duckflow_tui.state.usage import LlmCall, LlmCallFinished

EVERY: Final = 250  # events between two states that are kept

MarkKind = Literal["gate", "failure", "consultation", "review", "unmet"]

_STUCK: Final = frozenset({CardKind.CONSULTATION, CardKind.ESCALATION, CardKind.BUDGET})
_FAILED: Final = frozenset({Outcome.ERROR, Outcome.INVALID, Outcome.DENIED})


class Beat(NamedTuple):
    """An event that changed the state, and when: seconds since the epoch."""

    at: float
    event: Event


class Mark(NamedTuple):
    """A turning point: ``position`` is the number of events after which it is on the screen."""

    position: int
    kind: MarkKind


class Tape:
    """The events of a session. A position counts those that have happened, 0 is before all."""

    def __init__(
        self, entries: Iterable[RecordedEvent], lost: int = 0, *, every: int = EVERY
    ) -> None:
        """``lost`` events are known to be missing; those that fit no state are added to it. A state
        is kept of each position that ``every`` divides.
        """
        self._every = every
        self.beats: list[Beat] = []
        self.marks: list[Mark] = []
        self.lost = lost
        self._stops: list[int] = []  # positions after which the screen shows something new
        self._states: list[AgentState] = []
        self._replies: dict[str, AssistantMessage] = {}
        self._read_entries(entries)
        self._marked = [mark.position for mark in self.marks]

    def __len__(self) -> int:
        return len(self.beats)

    def time_at(self, position: int) -> float:
        """When the event before this position was recorded; before the first, when that was."""
        return self.beats[max(0, position - 1)].at

    def state_at(self, position: int) -> AgentState:
        """The state at this position, made from the nearest one that is kept."""
        kept = position // self._every
        state = _copy_state(self._states[kept])
        for beat in self.beats[kept * self._every : position]:
            beat.event.apply(state)
        return state

    def stop_after(self, position: int) -> int:
        """The next position where something new is seen, or the end."""
        at = bisect_right(self._stops, position)
        return self._stops[at] if at < len(self._stops) else len(self)

    def stop_before(self, position: int) -> int:
        """The last position before this one where something new is seen, or the start."""
        at = bisect_left(self._stops, position)
        return self._stops[at - 1] if at else 0

    def mark_after(self, position: int) -> Mark | None:
        """The next turning point."""
        at = bisect_right(self._marked, position)
        return self.marks[at] if at < len(self.marks) else None

    def mark_before(self, position: int) -> Mark | None:
        """The turning point before this position."""
        at = bisect_left(self._marked, position)
        return self.marks[at - 1] if at else None

    def reply_at(self, position: int) -> tuple[LlmCall, AssistantMessage] | None:
        """The model's call that the event behind this position ends, with its reply."""
        event = self.beats[position].event
        if not isinstance(event, LlmCallFinished) or event.call.purpose not in ("main", "task"):
            return None
        reply = self._replies.get(event.call.llm_id)
        return (event.call, reply) if reply is not None else None

    def _read_entries(self, entries: Iterable[RecordedEvent]) -> None:
        """Apply recorded events one by one; keep beats, marks, stops and a state every so often."""
        state = AgentState()
        self._states.append(_copy_state(state))
        seen = _visible_parts(state)
        for entry in entries:
            try:
                event = event_from_json(entry.fields)
                event.apply(state)
            except (ValidationError, StateError):
                self.lost += 1
                continue
            self.beats.append(Beat(entry.at, event))
            if isinstance(event, AssistantReplied):
                self._replies[event.message.llm_id] = event.message
            position = len(self.beats)
            kind = _mark_kind(event)
            if kind is not None:
                self.marks.append(Mark(position, kind))
            before, seen = seen, _visible_parts(state)
            if kind is not None or not all(map(_is_same, before, seen)):
                self._stops.append(position)
            if position % self._every == 0:
                self._states.append(_copy_state(state))


def load_tape(path: Path) -> Tape:
    """The session in this folder, or in this file: an export, or the lines of ``--json``. Raises
    NotASession, NewerSession or SessionUnreadable; then nothing was changed.
    """
    if path.is_dir():
        with closing(SessionFolder.open(path)) as folder:
            read = read_session(folder)
        return _make_tape(read, read.lost_count, path)
    return _load_file(path)


def _make_tape(read: SessionRead, lost: int, path: Path) -> Tape:
    """A tape of what was read. Raises NotASession where no event is left."""
    tape = Tape(read.entries, lost)
    if not len(tape):
        raise NotASession("foreign" if tape.lost else "empty", path)
    return tape


def _load_file(path: Path) -> Tape:
    """Read a file as an export, else as lines of a journal. Raises NotASession."""
    try:
        read = read_export(path)
        return _make_tape(read, read.lost_count, path)
    except NotASession:
        data = read_bytes(path)
        if not data.strip():
            raise NotASession("empty", path) from None
        read = _read_lines(data)
        if not read.entries:
            raise
        return _make_tape(read, len(read.unread), path)


def _read_lines(data: bytes) -> SessionRead:
    """The records that ``--json`` printed, one a line. Lines that are none are left out."""
    read = SessionRead()
    for number, line in enumerate(filter(bytes.strip, data.splitlines())):
        try:
            fields = cast("dict[str, Any]", parse_json(line))
            if fields["seq"] is None:  # of ``--stream``: shown once, and no record
                continue
            entry = RecordedEvent(
                int(fields.pop("seq")), parse_time(fields["at"]), _event_fields(fields)
            )
        except (TypeError, ValueError, KeyError, OverflowError, RecursionError):
            entry = None
        if entry is None or not read.last_seq < entry.seq <= MAX_SEQ:
            read.unread.append(Unread(0, number, "no_event"))
        else:
            read.last_seq = entry.seq
            read.entries.append(entry)
    return read


def _event_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """An event's fields without the record's time, where it has none of its own."""
    try:
        event_from_json(fields)
    except ValidationError:
        return {name: value for name, value in fields.items() if name != "at"}
    return fields


def _mark_kind(event: Event) -> MarkKind | None:
    """The mark on the scrubber for an event; None for an ordinary one."""
    match event:
        case GateOpened():
            return "gate"
        case CardOpened():
            return "consultation" if event.card.kind in _STUCK else "gate"
        case OperationFinished() if event.message.result.outcome in _FAILED:
            return "failure"
        case NoticeAdded() if event.message.level is Level.ERROR:
            return "failure"
        case ReportAdded() if event.message.report.status == "failed":
            return "failure"
        case TurnFinished() if event.outcome == "failed":
            return "failure"
        case OperationFinished() if event.message.for_requirement:  # a check says yes or no
            return None if event.message.result.went_well else "failure"
        case ObjectiveReviewed():
            return "review" if event.message.review.done else "unmet"
        case _:
            return None


def _visible_parts(state: AgentState) -> tuple[object, ...]:
    """The visible parts of a state, without gauges and figures."""
    return (
        *(len(state.messages), len(state.turns), state.queue, state.gates, state.cards),
        *(state.plans, state.running, state.objective, state.undone_calls, state.mode),
        state.turn.pause if state.turn is not None else "",
    )


def _is_same(old: object, new: object) -> bool:
    return old is new or (isinstance(old, int | str) and old == new)


def _copy_state(state: AgentState) -> AgentState:
    """The same state with containers of its own; their values never change."""
    copied = AgentState()
    copy_slices(copied, state, AgentState)
    return copied
