"""A recorded session for a replay: its events, the states between them, and its turning points.

Nothing here writes, locks or calls a model. Records that cannot be read are counted and left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import ValidationError

from duckflow_tui.session.export import read_export
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import SessionFolder
from duckflow_tui.session.reader import RecordedEvent, read_session
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event, StateError, copy_slices, event_from_json
from duckflow_tui.state.calls import OperationFinished
from duckflow_tui.state.conversation import Level, NoticeAdded
from duckflow_tui.state.gates import CardKind, CardOpened, GateOpened
from duckflow_tui.state.goal import ObjectiveReviewed
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan_events import ReportAdded
from duckflow_tui.state.turn import TurnFinished

EVERY: Final = 250  # events between two states that are kept

MarkKind = Literal["gate", "failure", "consultation", "review", "unmet"]

_STUCK: Final = frozenset({CardKind.CONSULTATION, CardKind.ESCALATION, CardKind.BUDGET})
_FAILED: Final = frozenset({Outcome.ERROR, Outcome.INVALID, Outcome.DENIED})


class Beat(NamedTuple):
    """An event that changed the state, and when: seconds since the epoch."""

    at: float
    event: Event


class Mark(NamedTuple):
    """A turning point; ``position`` is the number of events up to and including it."""

    position: int
    kind: MarkKind


class Tape:
    """The events of a session for a replay. A position is the number of events applied so far; 0 is
    the start.
    """

    def __init__(
        self, entries: Iterable[RecordedEvent], lost: int = 0, *, every: int = EVERY
    ) -> None:
        """``lost``: the number of events known to be missing; events that cannot be applied are
        added to it. A state is kept at every ``every``-th position.
        """
        self._every = every
        self.beats: list[Beat] = []
        self.marks: list[Mark] = []
        self.lost = lost
        self._stops: list[int] = []  # positions after which the screen shows something new
        self._states: list[AgentState] = []
        self._read_entries(entries)
        self._marked = [mark.position for mark in self.marks]

    def __len__(self) -> int:
        return len(self.beats)

    def time_at(self, position: int) -> float:
        """Return the time at which the last event before this position was recorded; at 0, that of
        the first event.
        """
        return self.beats[max(0, position - 1)].at

    def state_at(self, position: int) -> AgentState:
        """Return a copy of the state at this position, rebuilt from the nearest kept one
        before it.
        """
        kept = position // self._every
        state = _copy_state(self._states[kept])
        for beat in self.beats[kept * self._every : position]:
            beat.event.apply(state)
        return state

    def stop_after(self, position: int) -> int:
        """Return the next position where something visible changes, or the end."""
        at = bisect_right(self._stops, position)
        return self._stops[at] if at < len(self._stops) else len(self)

    def stop_before(self, position: int) -> int:
        """Return the last position before this one where something visible changes, or the
        start.
        """
        at = bisect_left(self._stops, position)
        return self._stops[at - 1] if at else 0

    def mark_after(self, position: int) -> Mark | None:
        """Return the next turning point after this position; None after the last."""
        at = bisect_right(self._marked, position)
        return self.marks[at] if at < len(self.marks) else None

    def mark_before(self, position: int) -> Mark | None:
        """Return the last turning point before this position; None before the first."""
        at = bisect_left(self._marked, position)
        return self.marks[at - 1] if at else None

    def _read_entries(self, entries: Iterable[RecordedEvent]) -> None:
        """Apply recorded events one by one; collect beats, turning points, stops, and a state every
        ``every`` events.
        """
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
    """Load the session from its folder, or from a file that it was exported to. Raises
    SessionFault, also where there is no event.
    """
    if path.is_dir():
        with closing(SessionFolder.open(path)) as folder:
            read = read_session(folder)
    else:
        read = read_export(path)
    tape = Tape(read.entries, read.lost_count)
    if not len(tape):
        raise SessionFault("foreign" if tape.lost else "empty", path)
    return tape


def _mark_kind(event: Event) -> MarkKind | None:
    """Return the kind of turning point that an event is; None for an ordinary event."""
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
    """Return the parts of a state that the screen shows, without gauges and figures, to compare
    states by.
    """
    return (
        *(len(state.messages), len(state.turns), state.queue, state.gates, state.cards),
        *(state.plans, state.running, state.objective, state.undone_calls, state.mode),
        state.turn.pause if state.turn is not None else "",
    )


def _is_same(old: object, new: object) -> bool:
    """Whether a part is unchanged: the same object, or an equal number or text."""
    return old is new or (isinstance(old, int | str) and old == new)


def _copy_state(state: AgentState) -> AgentState:
    """Return a copy of the state with containers of its own; the values in them are immutable and
    shared.
    """
    copied = AgentState()
    copy_slices(copied, state, AgentState)
    return copied
