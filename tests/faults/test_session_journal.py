"""A journal on a disk that fails: what was acknowledged is there, what cannot be kept is said."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import stat
import threading
import time
from contextvars import ContextVar
from pathlib import Path

import pytest
from support.journal_disks import DEADLINE, Driven, FaultyDisk, drive, gates, read, seqs, until
from support.journal_events import answered, begun, finished, opened, requested, said, started, turn
from support.pinned import ManualClock
from support.whole import some_of

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.safety.secrets import REDACTED, Redactor
from duckflow_tui.session.export import json_lines
from duckflow_tui.session.faults import SessionFault, SessionInUse
from duckflow_tui.session.folders import session_path
from duckflow_tui.session.journal import AT_ONCE, Backlog, Pending
from duckflow_tui.session.recording import start_journal
from duckflow_tui.session.records import encode
from duckflow_tui.session.resume import open_to_read, resume_journal
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.session import MAX_NAME, ModeChanged, SessionTitled
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import LlmCallStarted, ReplyDelta

STORY: list[Event] = [
    started(),
    said(2),
    said(3, "x" * 70_000),  # goes to a blob
    requested("call_1"),
    opened("call_1"),
    answered("call_1"),
    begun("call_1"),
    finished("call_1", "y" * 3000),
    said(9),
    requested("call_2"),
    opened("call_2"),
]


async def play(path: Path, disk: FaultyDisk) -> Driven:
    """The story over this disk, with a snapshot on the way."""
    driven = drive(path, disk, snapshot_every=2000)
    await driven.commit(*STORY)
    await driven.journal.close()
    return driven


async def every_fault(tmp_path: Path, number: int, *, lasting: bool) -> list[Driven]:
    """The story again and again, each time with the fault at another of its changes."""
    played: list[Driven] = []
    whole = FaultyDisk()
    await play(tmp_path / "whole" / "w" / "s", whole)
    assert len(whole.calls) >= 25
    for at in some_of(range(1, len(whole.calls) + 1), 14):
        disk = FaultyDisk(at, number, lasting=lasting)
        driven = await play(tmp_path / f"{at}" / "w" / "s", disk)
        assert driven.shown == len(STORY)  # every commit came back
        if not disk.failed:  # one sync served more than one record this time
            continue
        lost = (
            disk.after_power_loss(driven.path, tmp_path / f"{at}" / "lost")
            if (driven.durable)
            else None
        )
        if lost is not None:
            kept = read(lost)
            assert set(driven.durable) <= set(seqs(read(lost, snapshots=False))), disk.failed
            assert kept.skipped == 0
            assert gates(kept) <= {("gate_call_1", "once")}
            assert "call_2" not in {c.call_id for c in kept.state.running if c.started}
        played.append(driven)
    assert played
    return played


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
async def test_one_fault_at_any_change_loses_nothing(tmp_path: Path, number: int) -> None:
    """safety.md: an error at the n-th write, fsync or rename for every n; a new segment goes on."""
    for driven in await every_fault(tmp_path, number, lasting=False):
        health = driven.journal.health
        assert driven.durable == list(range(1, len(STORY) + 1))
        assert (health.mode, health.written, health.durable) == ("closed", 11, 11)
        for snapshots in (True, False):
            found = read(driven.path, snapshots=snapshots)
            assert found.missing_count == 0
            assert found.state.messages == driven.store.state.messages
            assert found.state.gates == driven.store.state.gates
            assert found.read.damaged_count <= 1
        segments = len(list(driven.path.glob("journal-*")))
        assert segments == 1 + health.gone_wrong
        assert not list(driven.path.rglob(".*"))


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
async def test_a_disk_that_stays_broken_leaves_the_session_in_memory_and_says_so(
    tmp_path: Path, number: int
) -> None:
    """Issue 5, a full disk: no commit raises or hangs, and the user is told."""
    code = {errno.EIO: "io_error", errno.ENOSPC: "no_space"}[number]
    silent = 0
    played = await every_fault(tmp_path, number, lasting=True)
    for driven in played:
        told = [h for h in driven.notices if h.mode == "memory"]
        if not told:  # only what nobody waits for failed: a snapshot, or the last sync
            silent += 1
            assert driven.durable == list(range(1, len(STORY) + 1))
            continue
        assert told[0].reason == code
        assert told[0].detail == os.strerror(number)
        assert told[0].path == driven.path
        assert len(driven.store.state.messages) == 4
    assert silent < len(played) / 2


async def test_what_was_acknowledged_was_synced_and_not_only_written(tmp_path: Path) -> None:
    """Promise 4: it survives a power loss at the moment of the acknowledgement."""
    disk = FaultyDisk()
    driven = drive(tmp_path / "a" / "w" / "s", disk)
    for number, event in enumerate(STORY, 1):
        await driven.commit(event)
        after = disk.after_power_loss(driven.path, tmp_path / f"after{number}")
        assert seqs(read(after)) == list(range(1, number + 1))
    await driven.journal.close()


async def test_one_sync_serves_all_who_wait(tmp_path: Path) -> None:
    disk = FaultyDisk()
    driven = drive(tmp_path / "a" / "w" / "s", disk)
    await driven.commit(started())
    before = disk.calls.count("sync_data")
    await asyncio.gather(*(driven.store.commit(said(n)) for n in range(200)))
    assert driven.journal.health.durable == 201
    assert disk.calls.count("sync_data") - before <= 20
    assert disk.calls.count("write") >= 201  # one for each record
    await driven.journal.close()


async def test_what_nobody_waits_for_is_synced_too(tmp_path: Path) -> None:
    driven = drive(tmp_path / "a" / "w" / "s")
    driven.store.dispatch(started())
    await until(lambda: driven.journal.health.durable == 1)
    await driven.journal.close()


async def test_what_passes_by_is_never_written(tmp_path: Path) -> None:
    driven = drive(tmp_path / "a" / "w" / "s")
    await driven.commit(started())
    driven.store.dispatch(LlmCallStarted(llm_id="llm_1", purpose="main", at=1.0))
    driven.store.dispatch(ReplyDelta(llm_id="llm_1", text="half a sen", at=1.0))
    await driven.commit(said(2))
    await driven.journal.close()
    assert seqs(read(driven.path)) == [1, 2]
    assert b"half a sen" not in (driven.path / "journal-1.d1").read_bytes()


async def test_a_disk_with_room_again_takes_the_session_back(tmp_path: Path) -> None:
    disk = FaultyDisk(10, errno.ENOSPC, lasting=True)
    driven = drive(tmp_path / "a" / "w" / "s", disk, retry_s=0.0)
    await driven.commit(*STORY[:6])
    assert driven.journal.health.mode == "memory"
    disk.at = 0
    await driven.commit(*STORY[6:])
    await driven.commit(said(12))
    health = await driven.journal.close()
    assert health.durable == len(STORY) + 1
    assert [h.mode for h in driven.notices][-1] == "disk"
    assert read(driven.path).missing_count == 0
    assert read(driven.path).state.messages == driven.store.state.messages


async def test_what_lived_in_memory_is_written_at_the_end_where_there_is_room(
    tmp_path: Path,
) -> None:
    disk = FaultyDisk(10, errno.ENOSPC, lasting=True)
    driven = drive(tmp_path / "a" / "w" / "s", disk, retry_s=600.0)
    await driven.commit(*STORY[:6])
    assert driven.journal.health.mode == "memory"
    disk.at = 0
    health = await driven.journal.close()
    assert (health.durable, health.reason) == (6, None)
    assert read(driven.path).state.messages == driven.store.state.messages


async def test_a_home_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    """Issue 5, a read-only home. Root may write anywhere, so a file stands in the way."""
    (tmp_path / "sessions").write_text("not a folder")
    notices: list[str] = []
    journal = start_journal(
        tmp_path, "session_1", Path("/w"), 1.0, on_health=lambda h: notices.append(h.mode)
    )
    store = Store(AgentState(), ManualClock(), journal)
    await store.commit(started())
    await store.commit(said(2))
    assert journal.health.mode == "memory"
    await asyncio.sleep(0)
    assert notices[-1] == "memory"
    await journal.close()
    assert (tmp_path / "sessions").read_text() == "not a folder"


async def test_news_of_the_disk_come_in_the_context_of_who_appends(tmp_path: Path) -> None:
    """The screen starts timers when it hears of it, and they need to know their app."""
    (tmp_path / "sessions").write_text("not a folder")
    where = ContextVar("where", default="nowhere")
    heard: list[str] = []
    journal = start_journal(
        tmp_path, "session_1", Path("/w"), 1.0, on_health=lambda _: heard.append(where.get())
    )
    where.set("in the app")
    await Store(AgentState(), ManualClock(), journal).commit(started())
    await asyncio.sleep(0)
    await journal.close()
    assert set(heard) == {"in the app"}


async def test_the_system_itself_stops_a_write_half_way(tmp_path: Path) -> None:
    driven = drive(tmp_path / "a" / "w" / "s")
    await driven.commit(started(), said(2))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        await driven.commit(said(3, "x" * 30_000), said(4))
        assert driven.journal.health.mode == "memory"
        assert driven.journal.health.reason == "no_space"
        await driven.journal.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert seqs(read(driven.path)) == [1, 2]


async def test_a_session_deleted_under_the_program_is_not_called_safe(tmp_path: Path) -> None:
    driven = drive(tmp_path / "a" / "w" / "s")
    await driven.commit(started())
    for path in driven.path.iterdir():
        path.unlink()
    driven.path.rmdir()
    await driven.commit(said(2))
    assert driven.journal.health.mode == "memory"
    assert driven.durable == [1]
    await driven.journal.close()


async def test_an_event_without_json_costs_only_itself(tmp_path: Path) -> None:
    driven = drive(tmp_path / "a" / "w" / "s")
    odd = requested("call_1").model_copy(update={"args": {"what": object()}})
    await driven.commit(started(), odd, said(3))
    await driven.journal.close()
    found = read(driven.path)
    assert seqs(found) == [1, 3]
    assert [(u.seq, u.reason) for u in found.read.unread] == [(2, "unwritable")]


# --- one writer, private files ---------------------------------------------------------------


async def test_a_second_writer_is_told_who_has_the_session_and_a_reader_is_not_kept_out(
    tmp_path: Path,
) -> None:
    """Issue 5, several instances: one session has one writer."""
    driven = drive(tmp_path / "a" / "w" / "s")
    await driven.commit(started(), said(2))
    before = (driven.path / "journal-1.d1").read_bytes()
    with pytest.raises(SessionInUse) as refused:
        resume_journal(driven.path, 2.0)
    assert refused.value.pid == os.getpid()
    assert refused.value.pid == os.getpid()
    assert (driven.path / "journal-1.d1").read_bytes() == before
    await driven.journal.close()
    resumed = resume_journal(driven.path, 2.0)
    await resumed.journal.close()


async def test_on_a_disk_that_knows_no_locks_the_session_lives_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network disk without a lock service: another might write there at the same time."""
    driven = drive(tmp_path / "a" / "w" / "s")
    await driven.commit(started(), said(2))
    await driven.journal.close()

    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    before = (driven.path / "journal-1.d1").read_bytes()
    resumed = resume_journal(driven.path, 2.0)
    restored = resumed.restored
    store = Store(restored.state, ManualClock(), resumed.journal, last_seq=restored.last_seq)
    await store.commit(said(3))
    assert resumed.journal.health.mode == "memory"
    assert resumed.journal.health.detail == os.strerror(errno.ENOLCK)
    assert (driven.path / "journal-1.d1").read_bytes() == before
    monkeypatch.undo()
    await resumed.journal.close()


@pytest.mark.parametrize("umask", [0, 0o022, 0o777], ids=oct)
async def test_folders_and_files_are_the_users_alone(tmp_path: Path, umask: int) -> None:
    """safety.md: directories 0700, files 0600, under any umask."""
    old = os.umask(umask)
    try:
        driven = drive(tmp_path / "sessions" / "w" / "s", snapshot_every=100)
        await driven.commit(started(), said(2, "x" * 70_000), said(3), said(4), said(5))
        await until(lambda: bool(list(driven.path.glob("snapshot-*"))))
        await driven.journal.close()
    finally:
        os.umask(old)
    found = [tmp_path / "sessions", *(tmp_path / "sessions").rglob("*")]
    names = {path.name.split("-")[0] for path in found}
    assert {"journal", "snapshot", "lock", "blobs"} <= names
    for path in found:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


async def test_files_others_could_read_are_taken_back(tmp_path: Path) -> None:
    driven = drive(tmp_path / "a" / "w" / "s")
    await driven.commit(started())
    await driven.journal.close()
    driven.path.chmod(0o755)
    names = ("journal-1.d1", "lock")
    for name in names:
        (driven.path / name).chmod(0o644)
    await resume_journal(driven.path, 2.0).journal.close()
    assert stat.S_IMODE(driven.path.stat().st_mode) == 0o700
    for name in names:
        assert stat.S_IMODE((driven.path / name).stat().st_mode) == 0o600


async def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("as it was")
    driven = drive(tmp_path / "a" / "w" / "s")
    await driven.commit(started())
    await driven.journal.close()
    (driven.path / "journal-2.d1").symlink_to(outside / "secret")
    (driven.path / "lock").unlink()
    (driven.path / "lock").symlink_to(outside / "lock")
    resumed = resume_journal(driven.path, 2.0)
    store = Store(resumed.restored.state, ManualClock(), resumed.journal, last_seq=1)
    await store.commit(said(2))
    assert resumed.journal.health.mode == "memory"  # no lock, no writing
    await resumed.journal.close()
    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").read_text() == "as it was"
    link = tmp_path / "a" / "w" / "link"
    link.symlink_to(driven.path)
    with pytest.raises(SessionFault) as refused:
        resume_journal(link, 2.0)
    assert refused.value.code == "link"


@pytest.mark.parametrize("name", ["../x", "", ".", "a/b", "a\0", "x" * 65, "日本"])
def test_an_id_is_never_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(SessionFault) as refused:
        session_path(tmp_path, Path("/w"), name)
    assert refused.value.code == "bad_id"


# --- secrets ---------------------------------------------------------------------------------


async def test_no_secret_is_in_any_file_of_a_session(tmp_path: Path) -> None:
    """Promise 7. A key that is also a word of ours is a secret only where text is free."""
    redactor = Redactor(['k"ey\\with/odd', "done", "user"])
    path = session_path(tmp_path, Path("/w"), "session_1")
    journal = start_journal(tmp_path, "session_1", Path("/w"), 1.0, redact=redactor.redact_text)
    store = Store(AgentState(), ManualClock(), journal)
    secret = 'k"ey\\with/odd'
    shaped = "token=q7Lr2Vx9Tb4Nw8Kd"
    story: list[Event] = [
        started(),
        said(2, f"FOO=1\n{shaped} and {secret}"),
        said(3, f"{secret} " + "x" * 70_000),
        *list(turn(4)),
    ]
    for event in story:
        await store.commit(event)
    await journal.close()
    for file in path.rglob("*"):
        if file.is_file():
            data = file.read_bytes().decode()
            assert shaped not in data
            assert "with/odd" not in data
    found = open_to_read(path)
    assert found.missing_count == 0
    assert len(found.state.messages) == len(store.state.messages)
    assert REDACTED in getattr(found.state.messages[0], "text", "")
    assert found.state.last_turn is not None
    assert found.state.last_turn.outcome == "done"


@pytest.mark.parametrize("lead", [0, 150, MAX_NAME - len("hunter2x")])
async def test_a_secret_shorter_than_its_sign_leaves_a_text_that_is_as_long_as_may_be(
    tmp_path: Path, lead: int
) -> None:
    """Promise 7."""
    name = ("n" * (lead - 1) + " " * (lead > 0) + "hunter2x " + "n" * MAX_NAME)[:MAX_NAME]
    path = session_path(tmp_path, Path("/w"), "session_1")
    redact = Redactor(["hunter2x", "session_titled"]).redact_text
    journal = start_journal(tmp_path, "session_1", Path("/w"), 1.0, redact=redact)
    store = Store(AgentState(), ManualClock(), journal)
    await store.commit(started())
    await store.commit(SessionTitled(name=name))
    await journal.close()
    assert b"hunter2x" not in (path / "journal-1.d1").read_bytes()
    found = open_to_read(path).state.session.name
    assert 0 < len(found) <= MAX_NAME
    assert found[:lead] == name[:lead]
    exported = "".join(json_lines(path, redact))
    assert "hunter2x" not in exported


async def test_a_torn_line_is_sealed_and_stays(tmp_path: Path) -> None:
    driven = drive(tmp_path / "a" / "w" / "s")
    await driven.commit(started(), said(2))
    await driven.journal.close()
    journal = driven.path / "journal-1.d1"
    torn = encode(3, b'{"at":1.0,"event":{}}')[:20]
    journal.write_bytes(journal.read_bytes() + torn)
    before = journal.read_bytes()
    await resume_journal(driven.path, 2.0).journal.close()
    after = journal.read_bytes()
    assert after.startswith(before + b"\nD1 ")
    assert [u.reason for u in read(driven.path).read.unread] == ["checksum"]


async def test_a_session_goes_on_over_many_stays(tmp_path: Path) -> None:
    """Numbers go on, the first header stays, each stay has its own."""
    path = tmp_path / "a" / "w" / "s"
    driven = drive(path)
    await driven.commit(started())
    await driven.journal.close()
    for stay in range(2, 8):
        resumed = resume_journal(path, float(stay))
        store = Store(resumed.restored.state, ManualClock(), resumed.journal, last_seq=stay - 1)
        await store.commit(ModeChanged(mode=ApprovalMode.PLAN, at=0.0))
        await resumed.journal.close()
    found = read(path)
    assert seqs(found) == list(range(1, 8))
    assert found.read.header is not None
    assert found.read.header.opened_at == 1.0
    assert found.state.mode is ApprovalMode.PLAN
    assert (path / "journal-1.d1").read_bytes().count(b'"journal"') == 7


class SlowDisk(FaultyDisk):
    """Syncs only when it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.syncing, self.go_on = threading.Event(), threading.Event()

    def sync_data(self, file: int) -> None:
        if self.slow:
            self.syncing.set()
            self.go_on.wait(DEADLINE)
        super().sync_data(file)


async def test_who_waits_no_more_for_the_disk_stops_nobody_else(tmp_path: Path) -> None:
    """Esc while a record is on its way: the journal goes on."""
    disk = SlowDisk()
    driven = drive(tmp_path / "a" / "w" / "s", disk)
    await driven.commit(started())
    disk.slow = True
    committing = asyncio.create_task(driven.commit(said(2)))
    await until(disk.syncing.is_set)
    committing.cancel()
    await asyncio.wait([committing])
    disk.go_on.set()
    async with asyncio.timeout(DEADLINE):
        await driven.commit(said(3))
    assert (await driven.journal.close(DEADLINE)).durable == 3
    assert seqs(read(driven.path)) == [1, 2, 3]


class StuckDraft(Disk):
    """Stays in the first piece of a snapshot until it is told to go on; may be full for others."""

    def __init__(self) -> None:
        self.draft = -1
        self.full = False
        self.since = 0.0
        self.drawing, self.go_on = threading.Event(), threading.Event()

    def create(self, directory: int, name: str, mode: int) -> int:
        self._room()
        file = super().create(directory, name, mode)
        if name.startswith("."):
            self.draft = file
        return file

    def write(self, file: int, data: memoryview) -> int:
        if file != self.draft:
            self._room()
            return super().write(file, data)
        if not self.drawing.is_set():
            self.since = time.monotonic()
            self.drawing.set()
            self.go_on.wait(DEADLINE)
        return super().write(file, data)

    def _room(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("then", ["the end", "a full disk", "a newer one"])
async def test_a_snapshot_that_is_not_finished_is_left_with_nothing_of_it(
    tmp_path: Path, then: str
) -> None:
    """At once, whoever still holds on to it."""
    disk = StuckDraft()
    driven = drive(tmp_path / "a" / "w" / "s", disk, snapshot_every=100)
    await driven.commit(started())
    driven.store.dispatch(said(2))
    await until(disk.drawing.is_set)
    drawing, (draft,) = driven.journal.drawing, driven.path.glob(".*.draft")
    assert drawing is not None
    await until(lambda: time.monotonic() > disk.since + AT_ONCE[1])  # no more than this piece
    closing = None
    if then == "the end":
        closing = asyncio.create_task(driven.journal.close())
        await asyncio.sleep(0)  # its first step tells the thread
    else:
        disk.full = then == "a full disk"
        driven.store.dispatch(said(3))
    disk.go_on.set()
    await until(lambda: driven.journal.drawing is not drawing)
    assert next(drawing, None) is None
    assert not draft.exists()
    assert then == "a newer one" or not list(driven.path.glob("snapshot-*"))
    await (closing or driven.journal.close())


async def test_after_its_end_a_journal_takes_nothing_and_holds_nobody(tmp_path: Path) -> None:
    driven = drive(tmp_path / "a" / "w" / "s")
    await driven.commit(started())
    await driven.journal.close()
    async with asyncio.timeout(5):
        await driven.store.commit(said(2))
    assert seqs(read(driven.path)) == [1]


def test_the_end_can_be_written_without_a_loop(tmp_path: Path) -> None:
    """safety.md, SIGTERM: the journal is closed."""
    driven = drive(tmp_path / "a" / "w" / "s")
    driven.store.dispatch(started())
    driven.store.dispatch(said(2))
    assert driven.journal.close_now().durable == 2
    assert seqs(read(driven.path)) == [1, 2]


# --- what waits for a disk -------------------------------------------------------------------


def test_what_waits_for_a_disk_is_kept_up_to_64_mb_and_then_given_up() -> None:
    """After that a disk with room again would hold only a part of the session."""
    half = b"x" * 32_000_000
    backlog = Backlog(first_wait=0.0)
    assert (backlog.is_complete, backlog.may_try) == (False, True)
    for seq in (1, 2):
        backlog.add_record(Pending(seq, half, "x", 1.0))
    assert (backlog.size, backlog.is_complete, backlog.may_try) == (64_000_000, True, True)
    for seq in (3, 4):
        backlog.add_record(Pending(seq, b"x", "x", 1.0))
        assert (backlog.pending, backlog.size) == ([], 0)
        assert (backlog.is_complete, backlog.may_try) == (False, False)
