"""The files of a journal: where a line lies, what is on the disk, and what is left behind."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from support.journal_disks import FaultyDisk

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.session.faults import SessionInUse
from duckflow_tui.session.folders import SessionFolder
from duckflow_tui.session.journal import JournalDisk
from duckflow_tui.session.records import JournalHeader, encode

HEADER = JournalHeader(session_id="s", workspace="/w", created_at=1.0, opened_at=1.0)
HEAD = encode(0, HEADER.as_body(None))
DRAFT = ".0123456789abcdef.draft"


def made(tmp_path: Path, disk: Disk | None = None) -> JournalDisk:
    return JournalDisk(tmp_path / "a" / "w" / "s", HEADER, disk=disk)


def files(journal: JournalDisk) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in journal.path.glob("journal-*")}


@pytest.mark.parametrize(
    ("old", "sealed"),
    [(b"", b""), (b"D", b"D\n"), (b"D1 7", b"D1 7\n"), (b"\n", b"\n"), (b"whole\n", b"whole\n")],
)
def test_a_line_that_was_never_finished_is_sealed(
    tmp_path: Path, old: bytes, sealed: bytes
) -> None:
    journal = made(tmp_path)
    journal.path.mkdir(parents=True)
    (journal.path / "journal-1.d1").write_bytes(old)
    journal.open_journal()
    start = journal.write_line(b"x\n")
    journal.close()
    assert files(journal) == {"journal-1.d1": sealed + HEAD + b"x\n"}
    assert start == len(sealed + HEAD)


def test_another_file_goes_on_behind_the_newest(tmp_path: Path) -> None:
    journal = made(tmp_path)
    journal.next_segment()  # it had not begun
    assert journal.segment == 1
    (journal.path / "journal-7.d1").write_bytes(b"")
    journal.next_segment()
    assert journal.segment == 8
    assert journal.write_line(b"x\n") == len(HEAD)
    journal.close()
    assert files(journal) == {
        "journal-1.d1": HEAD,
        "journal-7.d1": b"",
        "journal-8.d1": HEAD + b"x\n",
    }


@pytest.mark.parametrize("number", range(1, 6))
def test_a_file_that_could_not_begin_is_not_left_behind(tmp_path: Path, number: int) -> None:
    made(tmp_path).path.mkdir(parents=True)
    above = 3  # folders that are synced first
    journal = made(tmp_path, FaultyDisk(above + number))
    journal.open_journal()
    assert files(journal) == {"journal-2.d1": HEAD}
    assert journal.write_line(b"x\n") == len(HEAD)
    journal.close()


def test_one_that_nobody_locked_is_locked_and_swept_and_left_as_it_is_without(
    tmp_path: Path,
) -> None:
    path = made(tmp_path).path
    path.mkdir(parents=True)
    draft = path / DRAFT
    draft.write_bytes(b"half")
    watched = JournalDisk(path, HEADER, folder=SessionFolder.open(path))
    watched.close()
    assert draft.exists()  # of whoever writes there
    journal = JournalDisk(path, HEADER, folder=SessionFolder.open(path))
    journal.next_segment()
    assert not draft.exists()
    with contextlib.closing(SessionFolder.open(path)) as other, pytest.raises(SessionInUse):
        other.lock()
    draft.write_bytes(b"half")
    journal.close()
    assert not draft.exists()
    with contextlib.closing(SessionFolder.open(path)) as other:
        other.lock()
