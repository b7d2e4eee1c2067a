"""The journal: a thread writes records to disk in order, survives errors of the disk, and reports
them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import errno
import logging
import os
import queue
import threading
import time
import zlib
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.session.blobs import BLOBS, FileBlobs
from duckflow_tui.session.faults import JournalHealth, Mode, SessionFault, code_of, describe_fault
from duckflow_tui.session.folders import OWN, SessionFolder, segment_name, sweep_drafts
from duckflow_tui.session.records import (
    HEADER_SEQ,
    JournalHeader,
    Redact,
    body_of,
    encode,
    make_stand_in,
    shelve_body,
)
from duckflow_tui.session.snapshots import Image, SnapshotPlace, capture_image, write_steps
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import describe_error
from duckflow_tui.state.store import Record, Store, Unsubscribe

SYNC_FROM: Final = 4_000_000  # unsynced bytes above which a sync is not postponed
MOST: Final = 64_000_000  # bytes of records in memory while the disk cannot be written
FIRST_WAIT: Final = 5.0  # seconds until the disk is tried again, doubled each time
LONGEST_WAIT: Final = 300.0


class Pending(NamedTuple):
    """A record that is not yet synced: its JSON, and the other fields of its line."""

    seq: int
    body: bytes
    kind: str
    at: float


class Backlog:
    """Records not yet synced to disk, in order, and the wait until the disk is tried again. Above
    ``MOST`` bytes it drops all records and accepts no more.
    """

    def __init__(self, first_wait: float = FIRST_WAIT) -> None:
        self.pending: list[Pending] = []
        self.size = 0  # bytes of their JSON
        self._given_up = False
        self._first_wait = first_wait
        self.wait = 0.0  # seconds, between the last try of the disk and the next one
        self._not_before = 0.0

    def add_record(self, pending: Pending) -> None:
        """Append a record; above ``MOST`` bytes drop all of them for good."""
        if self._given_up:
            return
        self.pending.append(pending)
        self.size += len(pending.body)
        if self.size > MOST:
            self.clear()
            self._given_up = True

    def clear(self) -> None:
        """Forget all records, because they are synced or given up, and set the wait back to 0. A
        try that was put off stays put off.
        """
        self.pending.clear()
        self.size = 0
        self.wait = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether it holds every unsynced record, and at least one."""
        return bool(self.pending) and not self._given_up

    @property
    def may_try(self) -> bool:
        """Whether the disk should be tried again: the wait is over and no records were dropped."""
        return not self._given_up and time.monotonic() >= self._not_before

    def wait_longer(self) -> None:
        """Double the wait until the next try, up to five minutes, because the disk failed again."""
        self.wait = min(self.wait * 2 or self._first_wait, LONGEST_WAIT)
        self._not_before = time.monotonic() + self.wait


class JournalDisk:
    """The files of a journal; lines are appended to the newest. Only the journal's thread may call
    it.

    Methods raise OSError, after which only ``next_segment`` or ``close`` may be called, and
    SessionInUse where another process holds the lock.
    """

    def __init__(
        self,
        path: Path,
        header: JournalHeader,
        *,
        disk: Disk | None = None,
        redact: Redact | None = None,
        folder: SessionFolder | None = None,
    ) -> None:
        self.path = path
        self.redact = redact
        self.segment = 0  # the number of the file that is written; 0 before there is one
        self._header = header
        self._disk = disk or Disk()
        self._folder = folder
        self._file = -1
        self._size = 0
        self.blobs = FileBlobs(path / BLOBS, self._disk)

    def open_journal(self) -> None:
        """Create the folder where it is missing, lock it, and open the newest segment, or begin
        another where there is none or it fails.
        """
        folder = self._get_folder()
        sweep_drafts(folder.descriptor)
        self.segment = max(folder.list_segments(), default=0)
        try:
            if self.segment:
                self._continue_segment(folder)
            else:
                self._begin_segment(folder)
        except OSError:
            self._begin_segment(folder)

    def next_segment(self) -> None:
        """Begin another segment after an error; without the lock, open the journal anew."""
        if self._folder is not None and self._folder.locked:
            self._begin_segment(self._folder)
        else:
            self.open_journal()

    def write_line(self, line: bytes) -> int:
        """Append a line and return the offset where it begins. It survives a kill of the process at
        once, and a power loss after ``sync``.
        """
        start = self._size
        left = memoryview(line)
        while left:
            written = self._disk.write(self._file, left)
            self._size += written
            left = left[written:]
        return start

    def sync(self) -> None:
        """Sync the segment, so that all its lines survive a power loss. Raises OSError, also where
        the file was deleted.
        """
        self._disk.sync_data(self._file)
        if os.fstat(self._file).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "somebody deleted it", segment_name(self.segment))

    def write_snapshot(self, place: SnapshotPlace, image: Image) -> Generator[int, None, None]:
        """Return a generator that writes a snapshot of the state, one piece a step; see
        ``write_steps``.
        """
        return write_steps(self._get_folder(), self._disk, place, image, self.redact)

    def close(self) -> None:
        """Close the files, delete drafts and release the lock; a second call does nothing."""
        self._leave_segment()
        if self._folder is not None:
            if self._folder.locked:
                sweep_drafts(self._folder.descriptor)
            self._folder.close()

    def _get_folder(self) -> SessionFolder:
        """Return the session's folder, which the first call creates and locks. Raises OSError,
        SessionInUse.
        """
        if self._folder is None:
            self._folder = SessionFolder.create(self.path, self._disk)
        if not self._folder.locked:
            self._folder.lock()
        return self._folder

    def _continue_segment(self, folder: SessionFolder) -> None:
        """Open the newest segment for appending and write a header. An unfinished last line gets a
        newline; it is never cut off.
        """
        name = segment_name(self.segment)
        self._file = self._disk.append_to(folder.descriptor, name)
        os.fchmod(self._file, OWN)
        with folder.open_file(name) as file:
            self._size = file.seek(0, os.SEEK_END)
            file.seek(max(self._size - 1, 0))
            torn = file.read(1) not in (b"", b"\n")
        if torn:
            self.write_line(b"\n")
        self._write_header()

    def _begin_segment(self, folder: SessionFolder) -> None:
        """Close the segment and begin the next one, which is deleted again on an error."""
        self._leave_segment()
        self.segment = max([self.segment, *folder.list_segments()]) + 1
        name = segment_name(self.segment)
        made = self._disk.create(folder.descriptor, name, OWN)
        try:
            os.fchmod(made, OWN)
        finally:
            os.close(made)
        self._size = 0
        try:
            self._file = self._disk.append_to(folder.descriptor, name)
            self._write_header()
            self._disk.sync_directory(folder.descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                self._disk.unlink(folder.descriptor, name)
            raise

    def _write_header(self) -> None:
        """Write and sync the header that precedes the records of a process."""
        self.write_line(encode(HEADER_SEQ, self._header.as_body(self.redact)))
        self.sync()

    def _leave_segment(self) -> None:
        """Close the segment's file, if any; errors are ignored."""
        if self._file >= 0:
            file, self._file = self._file, -1
            with contextlib.suppress(OSError):  # a late error of a network disk
                os.close(file)


LAZY: Final = 1.0  # seconds until records that nobody waits for are synced
CLOSE_WITHIN: Final = 2.0  # seconds that the last sync may take
SNAPSHOT_EVERY: Final = 1_000_000  # bytes of records, or a quarter of the last snapshot if more
BATCH: Final = 100  # items processed before waiting callers are looked at
AT_ONCE: Final = (0.005, 0.02)  # min, max seconds of work on a snapshot between batches

log = logging.getLogger("duckflow.journal")
OnHealth = Callable[[JournalHealth], None]


class _Draw(NamedTuple):
    """A request for a snapshot: the image of the state after the record ``seq``."""

    seq: int
    image: Image


_Signal = Literal["sync", "stop"]
_Item = Record | _Draw | _Signal


class Journal:
    """Records a session to a ``JournalDisk`` in a thread of its own.

    For a resumed session ``last_seq`` is the number of its last record and ``behind`` the bytes of
    records since its last snapshot. ``on_health`` is called on the loop of the first ``append`` and
    in its context, because Textual starts timers in no other.
    """

    def __init__(
        self,
        disk: JournalDisk,
        *,
        on_health: OnHealth | None = None,
        last_seq: int = 0,
        behind: int = 0,
        snapshot_every: int = SNAPSHOT_EVERY,
        retry_s: float = FIRST_WAIT,
    ) -> None:
        self._disk = disk
        self._on_health = on_health
        self._snapshot_every = snapshot_every
        self.health = JournalHealth(written=last_seq, durable=last_seq)  # how safe it is now
        self._items: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._guard = threading.Lock()  # of the two below
        self._waiters: list[tuple[int, concurrent.futures.Future[None]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: contextvars.Context | None = None
        self._backlog = Backlog(retry_s)
        self._last: SnapshotPlace | None = None  # of the newest record
        self._since_snapshot = behind
        self._snapshot_size = 0
        self._snapshot_due = False
        self.drawing: Generator[int, None, None] | None = None  # a snapshot
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    # --- called on the loop

    def append(self, record: Record) -> None:
        """Queue a record for the writer's thread without waiting; dropped after the thread has
        ended.
        """
        if self._thread.is_alive():
            self._items.put(record)
        if self._loop is None:
            self._context = contextvars.copy_context()
            with contextlib.suppress(RuntimeError):  # without a loop, health is not reported
                self._loop = asyncio.get_running_loop()
            if self.health.mode == "memory":
                self._call_on_health()

    async def wait_until_flushed(self, seq: int) -> None:
        """Return once every record up to ``seq`` is synced to disk, or cannot be; ``health`` says
        which.
        """
        with self._guard:
            if self._is_durable(seq):
                return
            waiter = concurrent.futures.Future[None]()
            waiter.set_running_or_notify_cancel()  # set also when nobody waits any more
            self._waiters.append((seq, waiter))
        self._items.put("sync")
        await asyncio.wrap_future(waiter)

    def follow_store(self, store: Store) -> Unsubscribe:
        """Take snapshots of this Store's state from time to time, so that the session opens fast.
        Returns the call that ends this.
        """
        return store.subscribe(self._on_record)

    async def close(self, within: float = CLOSE_WITHIN) -> JournalHealth:
        """Write and sync the queued records and release the lock, waiting up to ``within`` seconds;
        return the health at the end.
        """
        self._items.put("stop")
        await asyncio.to_thread(self._thread.join, within)
        return self.health

    def close_now(self, within: float = CLOSE_WITHIN) -> JournalHealth:
        """Do the work of ``close`` where no loop runs: after a signal, or at the end of the
        process. Blocks up to ``within`` seconds.
        """
        self._items.put("stop")
        self._thread.join(within)
        return self.health

    def _on_record(self, state: AgentState, record: Record) -> None:
        """Queue a snapshot of the state where one is due."""
        if self._snapshot_due and record.seq is not None:
            self._snapshot_due = False
            self._items.put(_Draw(record.seq, capture_image(state)))

    # --- run in the writer's thread

    def _run(self) -> None:
        """Write queued records until closed. The body of the writer's thread."""
        mode: Mode = "closed"
        try:
            self._begin_disk()
            while self._process_items():
                pass
            self._to_disk_again(at_end=True)
            self._sync_disk()
        except Exception as error:  # report any failure: the session goes on in memory
            log.exception("the journal's writer failed")
            mode = "memory"
            self.health = replace(self.health, detail=describe_error(error), path=self._disk.path)
        finally:
            try:
                self._leave_snapshot()
                self._disk.close()
            finally:
                self._report_health(mode=mode)
                self._wake_waiters()

    def _begin_disk(self) -> None:
        """Open the journal, in two tries; after a second failure the session lives in memory."""
        try:
            try:
                self._disk.open_journal()
            except OSError as error:
                log.warning("the journal begins once more: %s", describe_fault(error))
                self._disk.open_journal()
        except (OSError, SessionFault) as error:
            self._to_memory(error)

    def _process_items(self) -> bool:
        """Write the queued records, sync where somebody waits, then write pieces of a snapshot.
        Returns False once asked to stop.
        """
        batch = self._take_items()
        since = time.monotonic()
        for item in batch:
            match item:
                case Record():
                    self._write_record(item)
                case _Draw():
                    self._start_snapshot(item)
                case _:
                    pass
        if "stop" in batch:
            return False
        with self._guard:
            awaited = bool(self._waiters)
        if not batch or awaited or self._backlog.size > SYNC_FROM:
            self._sync_disk()
        if self.drawing is not None:
            least, most = AT_ONCE
            self._draw_snapshot(self.drawing, min(max(time.monotonic() - since, least), most))
        return True

    def _take_items(self) -> list[_Item]:
        """Return up to 100 queued items. Waits for the first one; at most a second while records
        are unsynced, not at all while a snapshot is written.
        """
        batch: list[_Item] = []
        try:
            if self.drawing is not None:
                batch.append(self._items.get_nowait())
            else:
                unsynced = self.health.mode == "disk" and bool(self._backlog.pending)
                batch.append(self._items.get(timeout=LAZY if unsynced else None))
            while len(batch) < BATCH:
                batch.append(self._items.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _write_record(self, record: Record) -> None:
        """Write one record to disk, or keep it in the backlog while the disk cannot be written."""
        seq = record.seq
        assert seq is not None  # the Store hands over none that passes by
        try:
            body = body_of(record, self._disk.redact)
        except (TypeError, ValueError, RecursionError) as error:
            log.exception("an event has no JSON: %s", record.event.kind)
            body = make_stand_in(record, error)
        pending = Pending(seq, body, record.event.kind, record.at)
        self._backlog.add_record(pending)
        if self.health.mode != "disk":
            self._to_disk_again()
            return
        try:
            self._put_line(pending)
        except OSError as error:
            self._next_segment(error)

    def _put_line(self, pending: Pending) -> None:
        """Append one record to the open segment, and note whether a snapshot is due. Raises
        OSError.
        """
        body = shelve_body(pending.body, pending.kind, pending.at, self._disk.blobs)
        line = encode(pending.seq, body)
        start = self._disk.write_line(line)
        self._last = SnapshotPlace(pending.seq, self._disk.segment, start, zlib.crc32(line))
        self._since_snapshot += len(line)
        if self._since_snapshot > max(self._snapshot_every, self._snapshot_size // 4):
            self._snapshot_due = self.drawing is None
        self.health = replace(self.health, written=pending.seq)

    def _sync_disk(self) -> None:
        """Sync the written records; on an error continue in a new segment."""
        if self.health.mode != "disk":
            return
        try:
            if self._backlog.pending:
                self._disk.sync()
        except OSError as error:
            self._next_segment(error)
        else:
            self._note_synced()

    def _note_synced(self) -> None:
        """Note that all written records are synced, and release the calls that wait for them."""
        self._backlog.clear()
        self.health = replace(self.health, durable=self.health.written)
        self._wake_waiters()

    def _next_segment(self, error: OSError) -> None:
        """Write all unsynced records to a new segment, because the present one failed; if that
        fails too, continue in memory.
        """
        log.warning("segment %d of the journal ends: %s", self._disk.segment, describe_fault(error))
        self._report_health(gone_wrong=self.health.gone_wrong + 1)
        try:
            self._rewrite_backlog()
        except (OSError, SessionFault) as again:
            self._to_memory(again)

    def _rewrite_backlog(self) -> None:
        """Write and sync all unsynced records in a new segment. Raises OSError, SessionFault."""
        self._disk.next_segment()
        for pending in self._backlog.pending:
            self._put_line(pending)
        self._disk.sync()
        self._report_health(mode="disk", reason=None, detail="", path=None)
        self._note_synced()

    def _to_memory(self, error: OSError | SessionFault) -> None:
        """Continue without a disk, report why, and release the calls that wait for a sync."""
        log.warning("the session lives in memory only: %s", describe_fault(error))
        self._leave_snapshot()
        self._backlog.wait_longer()
        code = error.code if isinstance(error, SessionFault) else code_of(error)
        self._report_health(
            mode="memory", reason=code, detail=describe_fault(error), path=self._disk.path
        )
        self._wake_waiters()

    def _to_disk_again(self, *, at_end: bool = False) -> None:
        """Try to write the records kept in memory: a full disk may have room again. ``at_end``:
        regardless of the wait.
        """
        backlog = self._backlog
        if self.health.mode != "memory" or not (backlog.is_complete if at_end else backlog.may_try):
            return
        try:
            self._rewrite_backlog()
        except (OSError, SessionFault) as error:
            log.warning("the journal still cannot be written: %s", describe_fault(error))
            backlog.wait_longer()

    # snapshots

    def _start_snapshot(self, wanted: _Draw) -> None:
        """Begin to write a snapshot in place of one that is being written; nothing in memory mode,
        or where records were written after its image was taken.
        """
        self._sync_disk()
        last = self._last
        if self.health.mode != "disk" or last is None or last.seq != wanted.seq:
            return
        self._leave_snapshot()
        self._since_snapshot = 0
        self._snapshot_size = 0
        self.drawing = self._disk.write_snapshot(last, wanted.image)

    def _draw_snapshot(self, drawing: Generator[int, None, None], seconds: float) -> None:
        """Write pieces of the snapshot for ``seconds`` at most, so that records wait no longer than
        that.
        """
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                self._snapshot_size += next(drawing)
        except StopIteration:
            self.drawing = None
        except (OSError, TypeError, ValueError, RecursionError) as error:
            log.warning("no snapshot of the session: %s", error)
            self.drawing = None

    def _leave_snapshot(self) -> None:
        """Abandon the snapshot being written, if any."""
        if self.drawing is not None:
            self.drawing.close()
            self.drawing = None

    # --- used by both

    def _is_durable(self, seq: int) -> bool:
        """Whether the record is synced, or cannot be because the session lives in memory."""
        return self.health.mode != "disk" or self.health.durable >= seq

    def _wake_waiters(self) -> None:
        """Release the calls that wait for records that are synced now, or cannot be."""
        with self._guard:
            waiters, self._waiters = self._waiters, []
            for seq, waiter in waiters:
                if self._is_durable(seq):
                    waiter.set_result(None)
                else:
                    self._waiters.append((seq, waiter))

    def _report_health(self, **changes: Any) -> None:
        """Change fields of ``health`` and report it."""
        self.health = replace(self.health, **changes)
        self._call_on_health()

    def _call_on_health(self) -> None:
        """Call ``on_health`` on the loop, unless the journal is closed."""
        if self._on_health is None or self._loop is None or self.health.mode == "closed":
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._on_health, self.health, context=self._context)
