"""A tape: where sessions to be replayed come from, and the state at any position of them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.consults import budget, consultation, escalation, question
from support.journal_disks import content, drive, put
from support.journal_events import answered, begun, finished, opened, requested, started, turn
from support.plans import draft, failed_report, plan_card, report

from duckflow_tui.session.export import json_lines, write_file
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.reader import RecordedEvent
from duckflow_tui.session.records import JournalHeader, encode
from duckflow_tui.session.replay import Tape, load_tape
from duckflow_tui.session.snapshots import capture_image, iter_pieces
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event
from duckflow_tui.state.calls import OperationFinished, OperationMessage
from duckflow_tui.state.conversation import Level, NoticeAdded, NoticeMessage
from duckflow_tui.state.gates import CardOpened
from duckflow_tui.state.goal import (
    AttemptResult,
    ObjectiveChanged,
    ObjectiveReviewed,
    Review,
    ReviewMessage,
    TaskObjective,
)
from duckflow_tui.state.operations import OperationResult, Outcome
from duckflow_tui.state.pace import Pattern
from duckflow_tui.state.plan import ReportMessage
from duckflow_tui.state.plan_events import ReportAdded
from duckflow_tui.state.session import DraftSaved
from duckflow_tui.state.turn import TurnFinished, TurnInfo, TurnStarted

EVENTS: list[Event] = [started(), *turn(1), *turn(2), requested("c"), opened("c"), answered("c")]


def entries(events: list[Event]) -> list[RecordedEvent]:
    return [
        RecordedEvent(n, 1000.0 + n, e.model_dump(mode="json")) for n, e in enumerate(events, 1)
    ]


def image(state: AgentState) -> list[dict[str, object]]:
    return list(iter_pieces(capture_image(state)))


async def kept(tmp_path: Path, *events: Event) -> Path:
    driven = drive(tmp_path / "state" / "w" / "s")
    await driven.commit(*events)
    await driven.journal.close()
    return driven.path


@pytest.mark.parametrize("every", [1, 4, 250])
def test_the_state_at_any_position_is_that_of_the_events_before_it(every: int) -> None:
    tape = Tape(entries(EVENTS), every=every)
    state = AgentState()
    wanted = [image(state)]
    for event in EVENTS:
        event.apply(state)
        wanted.append(image(state))
    assert len(tape) == len(EVENTS)
    for position in (*range(len(tape) + 1), *reversed(range(len(tape) + 1))):
        assert image(tape.state_at(position)) == wanted[position], position


def test_what_is_done_to_a_state_of_the_tape_does_not_reach_the_next_one() -> None:
    tape = Tape(entries(EVENTS), every=8)
    before = image(tape.state_at(16))
    state = tape.state_at(16)
    for event in EVENTS[16:]:
        event.apply(state)
    state.files_read["x"] = "y"
    assert image(tape.state_at(16)) == before


def reviewed(*, done: bool) -> ObjectiveReviewed:
    review = Review(review_id="v", attempt=1, max_attempts=3, score=0.5, done=done)
    message = ReviewMessage(message_id="m", review=review, at=1.0)
    return ObjectiveReviewed(message=message, result=AttemptResult(attempt_number=1))


def test_turning_points_are_where_they_are_first_seen() -> None:
    error = NoticeMessage(message_id="n", level=Level.ERROR, key="llm.error.connect", at=1.0)
    bad = OperationMessage(
        call_id="c",
        operation="shell.run",
        args={},
        result=OperationResult(outcome=Outcome.ERROR, text="", summary="exit 1"),
        at=3.0,
    )
    asked = TaskObjective(objective_id="o", original_query="x", created_at=1.0)
    events: list[Event] = [
        started(),
        requested("c"),
        opened("c"),
        answered("c"),
        begun("c"),
        OperationFinished(message=bad),
        NoticeAdded(message=error),
        requested("d"),
        begun("d"),
        finished("d"),
        ReportAdded(message=ReportMessage(message_id="r", report=failed_report(), at=1.0)),
        ReportAdded(message=ReportMessage(message_id="s", report=report(), at=1.0)),
        ObjectiveChanged(objective=asked),
        *(reviewed(done=is_done) for is_done in (False, True)),
    ]
    tape = Tape(entries(events))
    assert [(m.position, m.kind) for m in tape.marks] == [
        (3, "gate"),
        (6, "failure"),
        (7, "failure"),
        (11, "failure"),
        (14, "unmet"),
        (15, "review"),
    ]
    assert len(tape.state_at(3).gates) == 1
    after, before = tape.mark_after(3), tape.mark_before(6)
    assert after is not None
    assert after.position == 6
    assert before is not None
    assert before.position == 3
    assert (tape.mark_after(15), tape.mark_before(3)) == (None, None)


def check(outcome: Outcome, exit_code: int | None, *, for_requirement: str) -> OperationFinished:
    result = OperationResult(outcome=outcome, text="", exit_code=exit_code)
    return OperationFinished(
        message=OperationMessage(
            call_id="c",
            operation="shell.run",
            args={},
            result=result,
            for_requirement=for_requirement,
            at=3.0,
        )
    )


def notice(level: Level) -> NoticeAdded:
    return NoticeAdded(message=NoticeMessage(message_id="n", level=level, key="x", at=1.0))


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (CardOpened(card=plan_card(draft())), "gate"),
        (CardOpened(card=consultation(Pattern.STAGNATION)), "consultation"),
        (CardOpened(card=escalation()), "consultation"),
        (CardOpened(card=budget()), "consultation"),
        (CardOpened(card=question()), "gate"),
        (notice(Level.ERROR), "failure"),
        (notice(Level.WARNING), None),
        (check(Outcome.ERROR, None, for_requirement=""), "failure"),
        (check(Outcome.INVALID, None, for_requirement=""), "failure"),
        (check(Outcome.DENIED, None, for_requirement=""), "failure"),
        (check(Outcome.REJECTED, None, for_requirement=""), None),
        (check(Outcome.OK, 1, for_requirement=""), None),
        (check(Outcome.OK, 1, for_requirement="r1"), "failure"),
        (check(Outcome.OK, 0, for_requirement="r1"), None),
        (TurnFinished(turn_id="turn_0", outcome="failed", llm_calls=1), "failure"),
        (TurnFinished(turn_id="turn_0", outcome="done", llm_calls=1), None),
    ],
)
def test_what_is_a_turning_point(event: Event, kind: str | None) -> None:
    info = TurnInfo(turn_id="turn_0", message_id="m", started_at=1.0)
    before = [started(), TurnStarted(turn=info), requested("c"), begun("c")]
    tape = Tape(entries([*before, event]))
    assert (len(tape), tape.lost) == (5, 0)
    assert [mark.kind for mark in tape.marks] == ([kind] if kind else [])


def test_times_are_those_of_the_records() -> None:
    tape = Tape(entries(EVENTS))
    assert [tape.time_at(position) for position in (0, 1, 2, len(tape))] == [
        *(1001.0, 1001.0, 1002.0),
        1000.0 + len(EVENTS),
    ]


def test_what_is_no_event_or_does_not_fit_is_counted_and_left_out() -> None:
    found = entries([started(), begun("never"), DraftSaved(text="x")])
    found.insert(1, RecordedEvent(9, 1.0, {"kind": "of_a_later_version"}))
    tape = Tape(found, lost=3)
    assert [beat.event.kind for beat in tape.beats] == ["session_started", "draft"]
    assert tape.lost == 5


def test_steps_end_at_the_end_and_at_the_start() -> None:
    tape = Tape(entries(EVENTS))
    end = len(tape)
    assert (tape.stop_after(end), tape.stop_before(0), tape.stop_before(1)) == (end, 0, 0)
    assert tape.stop_after(end - 1) == end
    nothing = Tape(entries([started()]))
    assert (nothing.stop_after(0), nothing.stop_before(1)) == (1, 0)
    assert (nothing.mark_after(0), nothing.mark_before(1)) == (None, None)


def test_a_step_passes_over_what_is_not_seen() -> None:
    """The cost of a call and the count of a loop are figures beside the conversation."""
    tape = Tape(entries([started(), *turn(1)]))
    stops: list[int] = []
    while not stops or stops[-1] < len(tape):
        stops.append(tape.stop_after(stops[-1] if stops else 0))
    kinds = [tape.beats[stop - 1].event.kind for stop in stops]
    assert {"llm_call", "loop_started"}.isdisjoint(kinds)
    assert {"user_message", "assistant_message", "operation_finished"} <= set(kinds)
    back = [tape.stop_before(stop) for stop in stops]
    assert back == [0, *stops[:-1]]


async def test_a_folder_and_its_export_give_the_same_tape(tmp_path: Path) -> None:
    path = await kept(tmp_path, *EVENTS)
    exported = tmp_path / "kept.json"
    write_file(exported, json_lines(path, str))
    tapes = [load_tape(source) for source in (path, exported)]
    assert [len(tape) for tape in tapes] == [len(EVENTS)] * 2
    assert [tape.lost for tape in tapes] == [0, 0]
    for tape in tapes:
        assert [beat.event for beat in tape.beats] == EVENTS


async def test_what_of_a_session_is_damaged_is_left_out_and_counted(tmp_path: Path) -> None:
    path = await kept(tmp_path, *EVENTS)
    journal = path / "journal-1.d1"
    whole = content(journal).splitlines(keepends=True)
    torn = [*whole[:5], whole[5][:20] + b"\n", *whole[6:], whole[-1][:30]]
    put(journal, b"".join(torn))
    tape = load_tape(path)
    assert len(tape) + tape.lost == len(EVENTS)
    assert 0 < tape.lost < 6
    assert content(journal) == b"".join(torn)


NEWER = JournalHeader(
    schema_version=9, app="9.9", session_id="s", workspace="/w", created_at=1.0, opened_at=1.0
)
NO_SESSIONS = {
    "empty": (b"", "empty"),
    "blank": (b"\n \n", "empty"),
    "foreign": (b"# notes\nnothing here\n", "foreign"),
    "binary": (bytes(range(256)) * 9, "foreign"),
    "other_json": (b'{"name": "package"}', "foreign"),
    "other_lines": (b'{"level": "info", "at": 1}\n' * 3, "foreign"),
    "deep": (b"[" * 100_000, "foreign"),
    "newer": (b'{"duckflow_session": 99, "schema_version": 1, "records": []}', "newer"),
    "no_records": (b'{"duckflow_session": 1, "schema_version": 1, "records": []}', "empty"),
    "wrong_records": (b'{"duckflow_session": 1, "schema_version": 1, "records": 3}', "foreign"),
}


@pytest.mark.parametrize("name", NO_SESSIONS)
def test_a_file_that_is_no_session_is_named_and_left_as_it_is(tmp_path: Path, name: str) -> None:
    data, code = NO_SESSIONS[name]
    path = tmp_path / "kept.json"
    put(path, data)
    with pytest.raises(SessionFault) as refused:
        load_tape(path)
    assert refused.value.code == code
    assert content(path) == data
    assert [found.name for found in tmp_path.iterdir()] == ["kept.json"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (None, "missing"),
        (b"", "empty"),
        (b"not one of ours\n" * 4, "foreign"),
        (encode(0, NEWER.as_body(None)), "newer"),
    ],
    ids=["none", "empty", "foreign", "newer"],
)
def test_a_folder_that_is_no_session_is_named_and_left_as_it_is(
    tmp_path: Path, data: bytes | None, code: str
) -> None:
    if data is not None:
        put(tmp_path / "journal-1.d1", data)
    before = sorted((path.name, content(path)) for path in tmp_path.iterdir())
    with pytest.raises(SessionFault) as refused:
        load_tape(tmp_path)
    assert refused.value.code == code
    assert sorted((path.name, content(path)) for path in tmp_path.iterdir()) == before


def test_going_back_in_a_long_session_does_not_begin_at_its_start() -> None:
    """Each state takes as many events as lie behind the last that is kept, however long it is."""
    events = [started(), *(event for number in range(630) for event in turn(number))]
    tape = Tape(entries(events))
    assert len(tape) > 15_000
    took: list[float] = []
    for position in (len(tape), len(tape) - 1, len(tape) // 2, 10_001, 249):
        began = time.thread_time()
        tape.state_at(position)
        took.append(time.thread_time() - began)
    assert max(took) < 0.3, took
