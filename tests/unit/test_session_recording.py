"""What a session's Store records into, and what is known of it."""

from __future__ import annotations

from pathlib import Path

from support.journal_disks import until
from support.journal_events import said, started
from support.pinned import ManualClock

from duckflow_tui.session.recording import Recording, start_recording
from duckflow_tui.session.resume import open_to_read
from duckflow_tui.state.store import Store


def store_of(recording: Recording) -> Store:
    return Store(recording.state, ManualClock(), recording, last_seq=recording.last_seq)


async def test_a_new_session_begins_with_nothing_and_a_resumed_one_where_it_was(
    tmp_path: Path,
) -> None:
    recording = start_recording(tmp_path / "state", tmp_path, str)
    assert (recording.last_seq, recording.newest, recording.restored) == (0, 0, None)
    assert (recording.is_resumable, recording.is_closed, recording.frozen) == (True, False, False)
    store = store_of(recording)
    await store.commit(started(recording.session_id))
    await store.commit(said(2))
    assert recording.journal is not None
    assert (recording.journal.health.durable, recording.newest) == (2, 2)
    await recording.close()
    assert (recording.is_closed, recording.frozen) == (True, True)
    again = start_recording(tmp_path / "state", tmp_path, str, resume=recording.session_id)
    assert (again.session_id, again.last_seq) == (recording.session_id, 2)
    assert again.state.messages == store.state.messages
    assert again.path == recording.path
    again.close_now()
    assert (again.frozen, again.is_closed) == (True, True)


async def test_a_frozen_session_records_nothing_and_holds_nobody(tmp_path: Path) -> None:
    recording = start_recording(tmp_path / "state", tmp_path, str)
    store = store_of(recording)
    await store.commit(started())
    recording.freeze()
    await store.commit(said(2))
    await until(lambda: recording.is_closed)
    assert recording.path is not None
    assert len(open_to_read(recording.path).read.entries) == 1


async def test_a_session_that_a_disk_refused_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "sessions").write_text("in the way")
    recording = start_recording(tmp_path / "state", tmp_path, str)
    store = store_of(recording)
    await store.commit(started())
    assert not recording.is_resumable
    await recording.close()
