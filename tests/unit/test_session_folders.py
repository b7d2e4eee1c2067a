"""The folders of sessions as they lie on the disk: which there are, how large, and who writes."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.journal_disks import FaultyDisk

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import (
    SessionFolder,
    draft_in,
    find_places,
    is_written,
    list_places,
    measure_size,
    open_directory,
    session_path,
    snapshot_name,
    sweep_drafts,
    workspace_key,
)

HERE, THERE = "/work/here", "/work/there"


def made(
    state: Path, name: str, workspace: str = HERE, *, at: int = 1, top: str = "sessions"
) -> Path:
    """A session whose journal was written so many seconds after the epoch."""
    path = state / top / workspace_key(workspace) / name
    path.mkdir(parents=True)
    journal = path / "journal-1.d1"
    journal.write_bytes(b"12345")
    os.utime(journal, (at, at))
    return path


def test_sessions_are_found_where_they_lie_the_last_written_first(tmp_path: Path) -> None:
    first = made(tmp_path, "s1", at=5)
    made(tmp_path, "s2", THERE, at=9)
    made(tmp_path, "s3", at=7)
    made(tmp_path, "gone", at=8, top="trash")
    made(tmp_path, ".hidden")
    (tmp_path / "sessions" / "file").write_text("")
    (tmp_path / "sessions" / "link").symlink_to(first.parent)
    assert [place.session_id for place in list_places(tmp_path)] == ["s2", "s3", "s1"]
    assert [place.session_id for place in list_places(tmp_path, HERE)] == ["s3", "s1"]
    assert list_places(tmp_path, "/work/nowhere") == []
    (gone,) = list_places(tmp_path, trash=True)
    assert (gone.session_id, gone.in_trash) == ("gone", True)
    assert [place.in_trash for place in list_places(tmp_path)] == [False] * 3
    last = list_places(tmp_path)[-1]
    assert (last.path, last.changed_at) == (first, 5.0)
    assert last.key == str(first.relative_to(tmp_path))


def test_the_stamp_tells_a_journal_that_grew_from_one_that_did_not(tmp_path: Path) -> None:
    path = made(tmp_path, "s1", at=5)
    (path / "journal-2.d1").write_bytes(b"1")
    os.utime(path / "journal-2.d1", (4, 4))
    (path / "snapshot-9.d1").write_bytes(b"x" * 9)
    (place,) = list_places(tmp_path)
    assert place.stamp == "journal-1.d1:5:5000000000 journal-2.d1:1:4000000000"
    assert place.changed_at == 5.0
    for name in ("journal-1.d1", "journal-2.d1"):
        (path / name).unlink()
    os.utime(path, (3, 3))
    (place,) = list_places(tmp_path)
    assert (place.stamp, place.changed_at) == ("", 3.0)


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("session_1", ["session_1"]),
        ("session_", ["session_1", "session_12"]),
        ("12", ["session_12"]),
        ("1", ["session_1", "session_12"]),
        ("x", []),
        ("", []),
    ],
)
def test_a_whole_id_means_one_session_and_a_beginning_all_that_have_it(
    tmp_path: Path, prefix: str, found: list[str]
) -> None:
    made(tmp_path, "session_1", at=9)
    made(tmp_path, "session_12", THERE)
    assert [place.session_id for place in find_places(tmp_path, prefix)] == found
    there = [] if prefix in ("x", "") else ["session_12"]
    assert [place.session_id for place in find_places(tmp_path, prefix, THERE)] == there
    assert find_places(tmp_path, prefix, trash=True) == []


def test_a_size_counts_every_file_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "a").write_bytes(b"x" * 10)
    (tmp_path / "in" / "b").write_bytes(b"x" * 200)
    (tmp_path / "in" / "deep" / "c").write_bytes(b"x" * 3000)
    (tmp_path / "in" / "loop").symlink_to(tmp_path)
    link = (tmp_path / "in" / "loop").lstat().st_size
    assert measure_size(tmp_path) == 3210 + link
    assert measure_size(tmp_path / "none") == 0


# --- the lock ----------------------------------------------------------------------------------


def a_dead_process() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_only_a_lock_that_a_living_process_holds_is_one(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert not is_written(tmp_path)
    for text in (b"", b"no number", b"%d\n" % os.getpid(), b"9" * 25):
        lock.write_bytes(text)
        assert not is_written(tmp_path), text
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not is_written(tmp_path)  # whose lock it is, it does not say
        for pid, written in ((os.getpid(), True), (1, True), (a_dead_process(), False)):
            lock.write_bytes(b"%d\n" % pid)
            assert is_written(tmp_path) is written, pid
    lock.unlink()
    os.mkfifo(lock)
    assert not is_written(tmp_path)


def test_a_folder_has_its_files_by_number_and_reads_only_plain_ones(tmp_path: Path) -> None:
    path = session_path(tmp_path, HERE, "s1")
    folder = SessionFolder.create(path, Disk())
    try:
        for name in ("journal-10.d1", "journal-2.d1", "journal-01.d1", "journal-0.d1", "x"):
            (path / name).write_bytes(b"12")
        (path / snapshot_name(7)).write_bytes(b"")
        assert (folder.list_segments(), folder.list_snapshots()) == ([2, 10], [7])
        with folder.open_file("x") as file:
            assert file.read() == b"12"
        os.mkfifo(path / "pipe")
        with pytest.raises(SessionFault, match=r": foreign$"):
            folder.open_file("pipe")
        (path / "folder").mkdir()
        with pytest.raises(SessionFault, match=r": foreign$"):
            folder.open_file("folder")
        (path / "link").symlink_to(path / "x")
        with pytest.raises(OSError, match="symbolic links"):
            folder.open_file("link")
    finally:
        folder.close()


def test_what_lies_above_a_session_is_made_with_it_and_is_on_the_disk(tmp_path: Path) -> None:
    """The state folder may be a link, as the user made it; nothing below it may be one."""
    disk = FaultyDisk()
    state = tmp_path / "home" / "state"
    path = session_path(state, HERE, "s1")
    SessionFolder.create(path, disk).close()
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert disk.calls == ["sync_directory"] * 3
    (tmp_path / "link").symlink_to(state)
    linked = session_path(tmp_path / "link", HERE, "s2")
    SessionFolder.create(linked, disk).close()
    assert (path.parent / "s2").is_dir()
    (path.parent / "s3").symlink_to(path)
    with pytest.raises(OSError, match=r"irectory|symbolic"):
        SessionFolder.create(path.parent / "s3", disk)
    for at in (1, 2, 3):  # nothing is left open
        with pytest.raises(OSError, match="Input/output error"):
            SessionFolder.create(path.parent / "s4", FaultyDisk(at))


def test_a_draft_that_was_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    for name in (".x.draft", "notes.draft", ".0123456789abcdef"):
        (tmp_path / name).write_bytes(b"")
    with open_directory(tmp_path) as folder:
        before = set(os.listdir(folder))
        with draft_in(Disk(), folder) as draft:
            draft.write(b"half")
            (name,) = set(os.listdir(folder)) - before
            draft.publish_as(folder, "whole")
        (tmp_path / name).write_bytes(b"half")
        sweep_drafts(folder)
    assert set(os.listdir(tmp_path)) == {*before, "whole"}
