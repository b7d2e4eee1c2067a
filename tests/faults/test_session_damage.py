"""Journals that were cut, damaged, or are none: what is whole is read, nothing is deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.journal_disks import content, drive, gates, put, read, seqs, until
from support.journal_events import answered, begun, finished, opened, requested, said, started
from support.pinned import ManualClock
from support.whole import some_of

from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.reader import Unread
from duckflow_tui.session.records import JournalHeader, as_bytes, encode
from duckflow_tui.session.resume import Restored, resume_journal
from duckflow_tui.state.base import Event
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.store import Store

#: Twenty events; the gate of call_3 waits at the end, that of call_2 was refused.
EVENTS: list[Event] = [
    started(),
    said(2),
    said(3, "日本語の文"),
    requested("call_1"),
    opened("call_1"),
    answered("call_1"),
    begun("call_1"),
    finished("call_1", "output\n"),
    said(9),
    requested("call_2"),
    opened("call_2"),
    answered("call_2", GateChoice.REJECT),
    finished("call_2"),
    said(14),
    said(15),
    said(16, "a \ud800 half"),
    said(17),
    requested("call_3"),
    opened("call_3"),
    said(20),
]
ANSWERS = {("gate_call_1", "once"), ("gate_call_2", "reject")}


@pytest.fixture
async def journal(tmp_path: Path) -> Path:
    """A session of twenty events, closed."""
    driven = drive(tmp_path / "sessions" / "w" / "whole")
    await driven.commit(*EVENTS)
    await driven.journal.close()
    return driven.path / "journal-1.d1"


def lines_of(data: bytes) -> list[tuple[int, int]]:
    """First and last byte of each line, the newline not counted."""
    spans: list[tuple[int, int]] = []
    start = 0
    for line in data.splitlines(keepends=True):
        spans.append((start, start + len(line) - 2))
        start += len(line)
    return spans


def only_what_was_written(restored: Restored, whole: Restored) -> None:
    """No event that was not there, none twice, and no gate approved by itself."""
    known = {entry.seq: entry.fields for entry in whole.read.entries}
    assert len(set(seqs(restored))) == len(seqs(restored))
    for entry in restored.read.entries:
        assert entry.fields == known[entry.seq]
    assert gates(restored) <= ANSWERS
    waiting = {gate.call_id for gate in restored.state.gates}
    assert waiting <= {"call_1", "call_2", "call_3"}
    for call in restored.state.running:
        assert not call.started or ("gate_" + call.call_id, "once") in gates(restored)


async def go_on(session: Path, before: Restored) -> None:
    """Take the session up, add a message, and find all of it again."""
    resumed = resume_journal(session, 2.0)
    state, last = resumed.restored.state, resumed.restored.last_seq
    assert seqs(resumed.restored) == seqs(before)
    store = Store(state, ManualClock(), resumed.journal, last_seq=last)
    await store.commit(said(99))
    health = await resumed.journal.close()
    assert health.durable == last + 1
    again = read(session)
    assert seqs(again) == [*seqs(before), last + 1]
    assert again.read.damaged_count == before.read.damaged_count
    assert again.state.messages == state.messages


@pytest.mark.long
async def test_a_journal_cut_at_any_byte_keeps_every_whole_record(journal: Path) -> None:
    """safety.md, session journal: truncation at every byte. At most one line is torn.

    Every end of a line and 300 other places unless ``DUCKFLOW_TEST_WHOLE=1``.
    """
    data = content(journal)
    whole = read(journal.parent)
    assert seqs(whole) == list(range(1, 21))
    spans = lines_of(data)
    at_ends = {cut for cut in range(len(data)) if b"\n" in data[max(cut - 1, 0) : cut + 1]}
    for cut in sorted(at_ends | set(some_of(range(len(data)), 300))):
        put(journal, data[:cut])
        complete = sum(1 for _, last in spans if last < cut)
        if complete == 0:
            with pytest.raises(SessionFault) as refused:
                read(journal.parent)
            assert refused.value.code == "empty"
            assert content(journal) == data[:cut]
            continue
        found = read(journal.parent)
        assert seqs(found) == list(range(1, complete))
        torn = any(first < cut <= last for first, last in spans)
        assert found.read.damaged_count == int(torn), cut
        only_what_was_written(found, whole)
        if cut % 23 == 0 or data[cut - 1 : cut + 1].count(b"\n"):
            await go_on(journal.parent, found)
            assert content(journal).startswith(data[:cut])


@pytest.mark.long
async def test_a_flipped_bit_in_any_byte_costs_at_most_its_record(journal: Path) -> None:
    """safety.md, session journal: a flipped bit in every byte, reported once.

    In 300 bytes and every end of a line unless ``DUCKFLOW_TEST_WHOLE=1``.
    """
    data = content(journal)
    whole = read(journal.parent)
    spans = lines_of(data)
    always = {*(last for _, last in spans), *range(0, len(data), 211)}
    for at in sorted(always | set(some_of(range(len(data)), 300))):
        broken = bytearray(data)
        broken[at] ^= 1 << (at % 8)
        put(journal, bytes(broken))
        found = read(journal.parent)
        touched = next((n for n, (first, last) in enumerate(spans) if first <= at <= last), None)
        assert seqs(found) == [n for n in range(1, 21) if n != touched], at
        assert found.read.damaged_count == 1, at
        assert found.missing_count == int(touched not in (None, 0, 20)) + found.skipped
        only_what_was_written(found, whole)
        if at % 211 == 0:
            await go_on(journal.parent, found)
            assert content(journal).startswith(broken)


async def test_events_that_rest_on_a_lost_one_are_refused_and_said(journal: Path) -> None:
    """The record that opened a gate is lost: its answer approves nothing."""
    lines = content(journal).splitlines(keepends=True)
    lines[5] = lines[5].replace(b"gate_opened", b"gate_0pened")
    put(journal, b"".join(lines))
    found = read(journal.parent)
    assert found.read.damaged_count == 1
    assert found.skipped == 1
    assert found.missing_count == 2
    assert [gate.call_id for gate in found.state.gates] == ["call_3"]


async def test_a_number_that_comes_twice_counts_once(journal: Path) -> None:
    data = content(journal)
    lines = data.splitlines(keepends=True)
    put(journal, data + b"".join(lines[3:9]))
    found = read(journal.parent)
    assert seqs(found) == list(range(1, 21))
    assert found.state.messages == read(journal.parent).state.messages
    assert (found.read.damaged_count, found.missing_count) == (0, 0)


async def test_records_are_found_in_whichever_segment_they_are_whole(journal: Path) -> None:
    lines = content(journal).splitlines(keepends=True)
    (journal.parent / "journal-2.d1").write_bytes(lines[0] + b"".join(lines[8:]))
    put(journal, b"".join(lines[:9]) + b"D1 garbage\n" + lines[10])
    found = read(journal.parent)
    assert seqs(found) == list(range(1, 21))
    assert found.read.damaged_count == 1


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty"),
        (encode(0, b"{}" * 50)[:30], "empty"),
        (b"just some notes\nof somebody\n", "foreign"),
        (b"\x00" * 5000, "foreign"),
        ("日本語\n".encode("shift_jis") * 50, "foreign"),
        (b"x" * 3_000_000, "foreign"),
        (encode(1, b"[]").replace(b"D1", b"D2"), "newer"),
    ],
    ids=["0-byte", "torn header", "text", "zeros", "not utf-8", "one huge line", "later frame"],
)
async def test_what_is_no_session_is_named_and_left_alone(
    tmp_path: Path, content: bytes, code: str
) -> None:
    """Issue 5: a clear message, nothing deleted, nothing written."""
    session = tmp_path / "s"
    session.mkdir()
    (session / "journal-1.d1").write_bytes(content)
    with pytest.raises(SessionFault) as refused:
        resume_journal(session, 1.0)
    assert refused.value.code == code
    assert getattr(refused.value, "version", 0) == 0  # of a later frame it is not known
    assert (session / "journal-1.d1").read_bytes() == content


@pytest.mark.parametrize("code", ["link", "foreign"])
def test_a_journal_that_is_no_file_is_named_by_what_it_is(tmp_path: Path, code: str) -> None:
    segment = tmp_path / "journal-1.d1"
    segment.symlink_to("/dev/null") if code == "link" else segment.mkdir()
    with pytest.raises(SessionFault) as refused:
        resume_journal(tmp_path, 1.0)
    assert (refused.value.code, refused.value.path) == (code, segment)


FIRST = JournalHeader(session_id="s", workspace="/w", created_at=7.0, opened_at=7.0)


@pytest.mark.parametrize(
    ("first", "created_at"),
    [
        (encode(0, FIRST.as_body(None)) + b"D1 garbage\n", 7.0),
        (b"D1 garbage\n", None),
        (b"", None),
        (encode(1, b"{}"), None),
    ],
    ids=["a header", "garbage", "nothing", "a record"],
)
async def test_a_session_opens_from_a_snapshot_whatever_lies_in_the_files_before_it(
    tmp_path: Path, first: bytes, created_at: float | None
) -> None:
    """Only the header of the first of them is read."""
    path = tmp_path / "sessions" / "w" / "s"
    (path / "journal-2.d1").mkdir(parents=True)
    put(path / "journal-1.d1", first)
    driven = drive(path, snapshot_every=1)
    await driven.commit(*EVENTS[:4])
    await until(lambda: bool(list(path.glob("snapshot-*"))))
    await driven.journal.close()
    found = read(path)
    assert found.snapshot
    header = found.read.header
    assert (header.created_at if header else None, found.read.unread) == (created_at, [])
    assert Unread(2, 0, "segment") in read(path, snapshots=False).read.unread


@pytest.mark.parametrize(
    ("numbers", "counted"),
    [
        ((10**12,), 10**12),
        ((10**12 + 1,), 20),
        ((10**12, 10**12 + 1), 10**12 + 1),
        ((10**12, 10**12 + 2), 10**12),
    ],
)
async def test_a_number_above_any_session_counts_only_right_behind_one(
    journal: Path, numbers: tuple[int, ...], counted: int
) -> None:
    """Behind another the next one might fit in no line."""
    body = b'{"at":1.0,"event":{"kind":"draft","text":"x"}}'
    put(journal, content(journal) + b"".join(encode(number, body) for number in numbers))
    found = read(journal.parent, snapshots=False)
    assert found.last_seq == counted
    refused = [number for number in numbers if number > counted]
    assert [unread.reason for unread in found.read.unread] == ["frame"] * len(refused)


async def test_a_folder_without_journal_is_no_session_and_gets_no_file(tmp_path: Path) -> None:
    for path, code in ((tmp_path / "none", "missing"), (tmp_path, "missing")):
        with pytest.raises(SessionFault) as refused:
            resume_journal(path, 1.0)
        assert refused.value.code == code
    assert os.listdir(tmp_path) == []


async def test_a_session_of_a_later_version_is_not_touched(journal: Path) -> None:
    header = JournalHeader(
        schema_version=7, app="9.9", session_id="s", workspace="/w", created_at=1.0, opened_at=1.0
    )
    data = content(journal) + encode(0, header.as_body(None))
    put(journal, data)
    with pytest.raises(SessionFault, match=r": newer$"):
        resume_journal(journal.parent, 1.0)
    assert content(journal) == data


async def test_a_huge_line_among_records_costs_only_itself(journal: Path) -> None:
    lines = content(journal).splitlines(keepends=True)
    lines.insert(4, b"x" * 5_000_000 + b"\n")
    put(journal, b"".join(lines))
    found = read(journal.parent)
    assert seqs(found) == list(range(1, 21))
    assert [unread.reason for unread in found.read.unread] == ["too_long"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{not json", "not_json"),
        (b"[1]", "not_json"),
        (b"9" * 6000, "not_json"),
        (b"[" * 200_000, "not_json"),
        (b'{"at":1.0}', "no_event"),
        (b'{"at":1.0,"event":7}', "no_event"),
        (b'{"event":{"kind":"draft"}}', "no_event"),
        (b'{"at":"x","event":{}}', "no_event"),
        (b'{"at":1.0,"kind":"x","blob":"../../etc/passwd"}', "blob_missing"),
    ],
    ids=[
        "no json",
        "no object",
        "long number",
        "deep",
        "no event",
        "a number",
        "without time",
        "no time",
        "no blob",
    ],
)
async def test_a_whole_record_that_tells_nothing_is_counted(
    journal: Path, body: bytes, reason: str
) -> None:
    put(journal, content(journal) + encode(21, body))
    found = read(journal.parent)
    assert seqs(found) == list(range(1, 21))
    assert [(u.seq, u.reason) for u in found.read.unread] == [(21, reason)]
    assert found.missing_count == 1
    assert found.last_seq == 21


async def test_an_event_of_no_kind_we_know_is_counted_and_the_rest_applied(journal: Path) -> None:
    data = content(journal)
    strange = as_bytes({"at": 1.0, "event": {"kind": "made_up"}})
    put(journal, data + encode(21, strange))
    found = read(journal.parent)
    assert found.skipped == 1
    assert len(found.read.entries) == 21


async def test_large_records_lie_in_blobs_and_only_the_damaged_one_is_lost(tmp_path: Path) -> None:
    """safety.md: payloads over 64 KB go to blobs; what lies there is checked."""
    driven = drive(tmp_path / "a" / "b" / "s")
    texts = ["x" * 70_000, "日" * 30_000, "y" * 70_000, "small"]
    await driven.commit(started(), *(said(n, text) for n, text in enumerate(texts)))
    await driven.journal.close()
    assert (driven.path / "journal-1.d1").stat().st_size < 5000
    assert read(driven.path).state.messages == driven.store.state.messages
    first, second, third = sorted((driven.path / "blobs").glob("*/*"))
    first.write_bytes(b"{}")
    second.unlink()
    found = read(driven.path)
    assert {u.reason for u in found.read.unread} == {"blob_damaged", "blob_missing"}
    assert len(found.read.entries) == 3
    assert found.missing_count == 2
    assert third.exists()


@pytest.mark.parametrize("body", [b"{}", b'{"journal": 7}', b'{"journal": {"schema_version": 1}}'])
def test_a_header_that_says_nothing_is_told_and_the_records_are_read(
    journal: Path, body: bytes
) -> None:
    data = content(journal)
    end = lines_of(data)[0][1] + 2
    whole = seqs(read(journal.parent, snapshots=False))
    put(journal, encode(0, body) + data[end:])
    found = read(journal.parent, snapshots=False).read
    assert [entry.seq for entry in found.entries] == whole
    assert [unread.reason for unread in found.unread] == ["no_header"]
    assert (found.damaged_count, found.unreadable_count, found.header) == (0, 1, None)
