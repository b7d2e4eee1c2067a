"""The state as JSON and back, and the snapshots that are made of it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from support import plans, prompt_states, running_states
from support.journal_disks import FaultyDisk, drive, read, seqs, until
from support.journal_events import said, started, turn
from support.pinned import ManualClock

from duckflow_tui.safety.secrets import REDACTED, Redactor
from duckflow_tui.session.folders import SessionFolder
from duckflow_tui.session.records import JournalLine, as_bytes, encode, redact_value, scan
from duckflow_tui.session.resume import resume_journal
from duckflow_tui.session.snapshots import (
    IN_FLIGHT,
    NotAnImage,
    SnapshotPlace,
    capture_image,
    is_restorable,
    iter_pieces,
    read_snapshot,
    restore_state,
    write_steps,
)
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationOutput, OperationProgress, OperationRequested
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.phase import Phase
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import LlmCallStarted, ReplyDelta


def through_json(state: AgentState) -> AgentState:
    return restore_state(
        [json.loads(json.dumps(piece)) for piece in iter_pieces(capture_image(state))]
    )


def same(one: AgentState, other: AgentState) -> None:
    """Equal in value and in type, field by field."""
    assert vars(one).keys() == vars(other).keys()
    for name, value in vars(one).items():
        if name not in IN_FLIGHT:
            found = getattr(other, name)
            assert (name, found, type(found)) == (name, value, type(value))


def busy() -> list[AgentState]:
    plan = plans.running()
    in_background = running_states.working()
    running_states.in_background(in_background)
    return [
        AgentState(),
        prompt_states.busy_state(Phase.EXECUTION),
        plans.working(at_gate=True, cards=(plans.plan_card(plan), plans.break_card())).state,
        running_states.working("ja").state,
        in_background.state,
    ]


def test_every_field_of_the_state_comes_back_as_it_was() -> None:
    for state in busy():
        same(state, through_json(state))


def test_half_a_surrogate_pair_comes_back_as_it_was() -> None:
    state = AgentState(draft="a \ud800 half", files_read={"name \udcff": "0"})
    same(state, through_json(state))


def test_a_secret_that_is_also_a_word_of_ours_leaves_a_snapshot_readable() -> None:
    redact = Redactor(["standard"]).redact_text
    state = AgentState(draft="the standard")
    found = restore_state(
        redact_value(piece, redact, is_restorable) for piece in iter_pieces(capture_image(state))
    )
    assert (found.mode, found.draft) == (ApprovalMode.STANDARD, f"the {REDACTED}")


def test_a_snapshot_of_another_program_is_refused() -> None:
    made = list(iter_pieces(capture_image(AgentState())))
    wrongs: tuple[list[dict[str, Any]], ...] = (
        made[1:],
        [*made, {"field": "unkept", "value": ""}],
        [*made, {"field": "new_field", "value": 1}],
        [*made, {"field": "phase", "value": "NOWHERE"}],
        [*made, {"field": "session", "value": {"no_such_field": 1}}],
        [*made, {"field": "phase", "items": [1]}],
    )
    for wrong in wrongs:
        with pytest.raises(NotAnImage):
            restore_state(wrong)


def test_what_was_captured_does_not_change_any_more() -> None:
    state = AgentState()
    started().apply(state)
    image = capture_image(state)
    before = list(iter_pieces(image))
    said(2).apply(state)
    state.files_read["a"] = "0"
    assert list(iter_pieces(image)) == before


def test_what_passes_by_is_in_no_snapshot() -> None:
    quiet, loud = AgentState(), AgentState()
    call = OperationRequested(call_id="c", operation="shell.run", args={}, at=1.0)
    for state in (quiet, loud):
        call.apply(state)
    LlmCallStarted(llm_id="l", purpose="main", at=1.0).apply(loud)
    ReplyDelta(llm_id="l", text="half", at=1.0).apply(loud)
    OperationOutput(call_id="c", text="line\n", at=0.0).apply(loud)
    OperationProgress(call_id="c", text="40 %").apply(loud)
    assert list(iter_pieces(capture_image(loud))) == list(iter_pieces(capture_image(quiet)))


def test_a_snapshot_of_which_any_line_is_gone_or_broken_is_none(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with contextlib.closing(SessionFolder.create(tmp_path / "a" / "w" / "s", disk)) as folder:
        place = SnapshotPlace(7, 1, 0, 5)
        state = AgentState(draft="half a thought")
        sizes = list(write_steps(folder, disk, place, capture_image(state), None))
        assert disk.calls[-3:] == ["sync", "rename", "sync_directory"]
        path = folder.path / "snapshot-7.d1"
        lines = path.read_bytes().splitlines(keepends=True)
        assert sizes == [len(line) for line in lines]
        found = read_snapshot(folder, 7)
        assert found is not None
        assert found[0] == place
        same(found[1], state)
        for number, line in enumerate(lines):
            broken = line[:-3] + bytes([line[-3] ^ 1]) + line[-2:]
            for instead in (b"", broken):
                path.write_bytes(b"".join([*lines[:number], instead, *lines[number + 1 :]]))
                assert read_snapshot(folder, 7) is None
        for seq in (8, 9):
            list(write_steps(folder, disk, place._replace(seq=seq), capture_image(state), None))
        assert folder.list_snapshots() == [8, 9]


# --- in a session ----------------------------------------------------------------------------


async def session(path: Path) -> Path:
    """A closed session of 30 turns with snapshots."""
    driven = drive(path / "a" / "w" / "s", snapshot_every=20_000)
    await driven.commit(started())
    for number in range(30):
        await driven.commit(*turn(number))
        await until(lambda: not driven.journal.drawing)
    await driven.journal.close()
    return driven.path


async def test_a_session_opens_from_its_last_snapshot_as_from_its_first_event(
    tmp_path: Path,
) -> None:
    path = await session(tmp_path)
    fast, slow = read(path), read(path, snapshots=False)
    assert fast.snapshot > slow.last_seq / 2
    assert seqs(fast) == list(range(fast.snapshot + 1, slow.last_seq + 1))
    same(slow.state, fast.state)
    assert fast.missing_count == 0
    assert fast.read.header == slow.read.header
    assert len(list(path.glob("snapshot-*"))) == 2


async def test_a_damaged_snapshot_is_passed_over(tmp_path: Path) -> None:
    """Any byte of it: the one before is used, and after that the events."""
    path = await session(tmp_path)
    slow = read(path, snapshots=False)
    older, newer = sorted(path.glob("snapshot-*"), key=lambda p: int(p.stem.split("-")[1]))
    data = newer.read_bytes()
    for at in range(0, len(data) - 1, len(data) // 40):
        broken = bytearray(data)
        broken[at] ^= 4
        newer.write_bytes(broken)
        found = read(path)
        assert f"snapshot-{found.snapshot}.d1" == older.name
        same(slow.state, found.state)
    for cut in (0, 10, len(data) // 2, len(data) - 3):
        newer.write_bytes(data[:cut])
        assert f"snapshot-{read(path).snapshot}.d1" == older.name
    older.write_bytes(b"")
    found = read(path)
    assert found.snapshot == 0
    same(slow.state, found.state)


async def test_what_a_killed_process_left_of_a_snapshot_goes_with_the_next_stay(
    tmp_path: Path,
) -> None:
    path = await session(tmp_path)
    left, not_ours = path / f".{'0a' * 8}.draft", path / ".mine"
    left.write_bytes(b"half of one")
    not_ours.write_bytes(b"")
    read(path)
    assert left.exists()  # who only reads changes nothing
    resume_journal(path, 2.0).journal.close_now()
    assert not left.exists()
    assert not_ours.exists()


async def test_a_snapshot_of_another_journal_is_passed_over(tmp_path: Path) -> None:
    path = await session(tmp_path)
    journal = path / "journal-1.d1"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3]) + encode(3, b"{}") + b"".join(lines[4:]))
    found = read(path)
    assert found.snapshot == 0
    assert found.read.lost_count == 1


async def test_a_snapshot_made_after_a_record_that_says_something_else_is_passed_over(
    tmp_path: Path,
) -> None:
    """The record is where the snapshot says, has its number and is whole, but is another one."""
    path = await session(tmp_path)
    older, newer = sorted(int(p.stem.split("-")[1]) for p in path.glob("snapshot-*"))
    journal = path / "journal-1.d1"
    data = journal.read_bytes()
    with journal.open("rb") as file:
        frame = next(f for f in scan(file) if isinstance(f, JournalLine) and f.seq == newer)
    at = frame.body.index(b'"at":') + len(b'"at":')
    body = frame.body[:at] + (b"2" if frame.body[at : at + 1] != b"2" else b"3")
    other = encode(newer, body + frame.body[at + 1 :])
    assert len(other) == frame.end - frame.start
    journal.write_bytes(data[: frame.start] + other + data[frame.end :])
    assert read(path).snapshot == older


@pytest.mark.parametrize("wrong", [{"app": "0.0.1"}, {"schema": 99}])
async def test_a_snapshot_of_another_version_is_passed_over(
    tmp_path: Path, wrong: dict[str, object]
) -> None:
    path = await session(tmp_path)
    older, newer = sorted(int(p.stem.split("-")[1]) for p in path.glob("snapshot-*"))
    snapshot = path / f"snapshot-{newer}.d1"
    head, rest = snapshot.read_bytes().split(b"\n", 1)
    fields = json.loads(head[head.index(b"{") :])
    snapshot.write_bytes(encode(0, as_bytes({**fields, **wrong})) + rest)
    assert read(path).snapshot == older
    snapshot.write_bytes(encode(0, as_bytes(fields)) + rest)
    assert read(path).snapshot == newer


async def test_stays_too_short_for_a_snapshot_make_one_together(tmp_path: Path) -> None:

    driven = drive(tmp_path / "a" / "w" / "s", snapshot_every=20_000)
    await driven.commit(started(), *turn(0))
    await driven.journal.close()
    for number in range(1, 5):
        resumed = resume_journal(driven.path, 2.0, snapshot_every=20_000)
        store = Store(
            resumed.restored.state,
            ManualClock(),
            resumed.journal,
            last_seq=resumed.restored.last_seq,
        )
        resumed.journal.follow_store(store)
        for event in turn(number):
            await store.commit(event)
        journal = resumed.journal
        await until(lambda journal=journal: not journal.drawing)
        await resumed.journal.close()
    assert list(driven.path.glob("snapshot-*"))
    same(read(driven.path, snapshots=False).state, read(driven.path).state)
