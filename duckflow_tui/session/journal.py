"""The journal: records go to the disk in order, in a thread of its own, and a fault is reported."""

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

SYNC_FROM: Final = 4_000_000  # bytes written that are synced at once though nobody waits
MOST: Final = 64_000_000  # bytes kept for a disk that cannot be written
FIRST_WAIT: Final = 5.0  # seconds until the disk is tried again, doubled each time
LONGEST_WAIT: Final = 300.0


class Pending(NamedTuple):
    """A record that is not yet safe on the disk: its JSON, and the other fields of its line."""

    seq: int
    body: bytes
    kind: str
    at: float


class Backlog:
    """Records that are not yet safe on the disk, in the order of their numbers. Past ``MOST``
    bytes it drops all of them and takes no more.
    """

    def __init__(self, first_wait: float = FIRST_WAIT) -> None:
        self.pending: list[Pending] = []
        self.size = 0  # bytes of their JSON
        self._given_up = False
        self._first_wait = first_wait
        self.wait = 0.0  # seconds, between the last try of the disk and the next one
        self._not_before = 0.0

    def add_record(self, pending: Pending) -> None:
        """Add a record."""
        if self._given_up:
            return
        self.pending.append(pending)
        self.size += len(pending.body)
        if self.size > MOST:
            self.clear()
            self._given_up = True

    def clear(self) -> None:
        """Forget the records, because all of them are safe."""
        self.pending.clear()
        self.size = 0
        self.wait = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether it holds every record that is not safe, and at least one."""
        return bool(self.pending) and not self._given_up

    @property
    def may_try(self) -> bool:
        """Whether the disk should be tried again: never after records were given up."""
        return not self._given_up and time.monotonic() >= self._not_before

    def wait_longer(self) -> None:
        """Double the wait until the next try, because the disk failed again."""
        self.wait = min(self.wait * 2 or self._first_wait, LONGEST_WAIT)
        self._not_before = time.monotonic() + self.wait


class JournalDisk:
    """The files of a journal; lines are appended to the newest. Belongs to the journal's thread.

    Methods raise OSError, after which only ``next_segment`` may be called, and SessionInUse for the
    lock.
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
        """Create the folder where it lacks, lock it, and open the newest segment or a first one."""
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
        """Begin another segment after an error, or open the journal where that failed before."""
        if self._folder is not None and self._folder.locked:
            self._begin_segment(self._folder)
        else:
            self.open_journal()

    def write_line(self, line: bytes) -> int:
        """Append a line; returns the offset where it begins. It survives the process, and a power
        loss once ``sync`` returned.
        """
        start = self._size
        left = memoryview(line)
        while left:
            written = self._disk.write(self._file, left)
            self._size += written
            left = left[written:]
        return start

    def sync(self) -> None:
        """Return once all that was written survives a power loss."""
        self._disk.sync_data(self._file)
        if os.fstat(self._file).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "somebody deleted it", segment_name(self.segment))

    def write_snapshot(self, place: SnapshotPlace, image: Image) -> Generator[int, None, None]:
        """Write a snapshot, one piece at each step."""
        return write_steps(self._get_folder(), self._disk, place, image, self.redact)

    def close(self) -> None:
        """Close the files and release the lock; a second call does nothing."""
        self._leave_segment()
        if self._folder is not None:
            if self._folder.locked:
                sweep_drafts(self._folder.descriptor)
            self._folder.close()

    def _get_folder(self) -> SessionFolder:
        """The session's folder, created and locked at first. Raises OSError, SessionFault."""
        if self._folder is None:
            self._folder = SessionFolder.create(self.path, self._disk)
        if not self._folder.locked:
            self._folder.lock()
        return self._folder

    def _continue_segment(self, folder: SessionFolder) -> None:
        """Open the newest file for appending; an unfinished last line is ended, never cut off."""
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
        """Close the file and begin the next one, of which nothing is left after an error."""
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
        """Write the header that stands before the records of a process."""
        self.write_line(encode(HEADER_SEQ, self._header.as_body(self.redact)))
        self.sync()

    def _leave_segment(self) -> None:
        if self._file >= 0:
            file, self._file = self._file, -1
            with contextlib.suppress(OSError):  # a late error of a network disk
                os.close(file)


LAZY: Final = 1.0  # seconds until what nobody waits for is synced
CLOSE_WITHIN: Final = 2.0  # seconds that the last sync may take
SNAPSHOT_EVERY: Final = 1_000_000  # bytes of records, or a quarter of what the last one took
BATCH: Final = 100  # records written between two looks at who waits
AT_ONCE: Final = (0.005, 0.02)  # seconds, least and most, of work on a snapshot between batches

log = logging.getLogger("duckflow.journal")
OnHealth = Callable[[JournalHealth], None]


class _Draw(NamedTuple):
    """A request for a snapshot: the image of the state after this record."""

    seq: int
    image: Image


_Signal = Literal["sync", "stop"]
_Item = Record | _Draw | _Signal


class Journal:
    """Writes records to a ``JournalDisk``. ``on_health`` is called on the loop that appends, in
    the context of the first ``append``: timers of the screen start in no other.

    A session that goes on says which was its ``last_seq`` and how many bytes of records there are
    ``behind`` its last snapshot.
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

    # the loop's side

    def append(self, record: Record) -> None:
        """Hand a record to the thread that writes, without waiting; dropped once that has ended."""
        if self._thread.is_alive():
            self._items.put(record)
        if self._loop is None:
            self._context = contextvars.copy_context()
            with contextlib.suppress(RuntimeError):  # who appends without a loop is told nothing
                self._loop = asyncio.get_running_loop()
            if self.health.mode == "memory":
                self._call_on_health()

    async def wait_until_flushed(self, seq: int) -> None:
        """Return once every record up to ``seq`` survives a power loss, or cannot: see health."""
        with self._guard:
            if self._is_durable(seq):
                return
            waiter = concurrent.futures.Future[None]()
            waiter.set_running_or_notify_cancel()  # set also when nobody waits any more
            self._waiters.append((seq, waiter))
        self._items.put("sync")
        await asyncio.wrap_future(waiter)

    def follow_store(self, store: Store) -> Unsubscribe:
        """Take snapshots of this Store's state from time to time, so that it opens fast again."""
        return store.subscribe(self._on_record)

    async def close(self, within: float = CLOSE_WITHIN) -> JournalHealth:
        """Write and sync what is left and release the lock; returns the health at the end."""
        self._items.put("stop")
        await asyncio.to_thread(self._thread.join, within)
        return self.health

    def close_now(self, within: float = CLOSE_WITHIN) -> JournalHealth:
        """``close`` where no loop runs any more: after a signal, at the end of the process."""
        self._items.put("stop")
        self._thread.join(within)
        return self.health

    def _on_record(self, state: AgentState, record: Record) -> None:
        if self._snapshot_due and record.seq is not None:
            self._snapshot_due = False
            self._items.put(_Draw(record.seq, capture_image(state)))

    # the thread's side

    def _run(self) -> None:
        """Write queued records until closed; the body of the writer's thread."""
        mode: Mode = "closed"
        try:
            self._begin_disk()
            while self._process_items():
                pass
            self._to_disk_again(at_end=True)
            self._sync_disk()
        except Exception as error:  # the thread may not end unsaid: the session goes on in memory
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
        """Open the journal, trying twice; after that the session lives in memory."""
        try:
            try:
                self._disk.open_journal()
            except OSError as error:
                log.warning("the journal begins once more: %s", describe_fault(error))
                self._disk.open_journal()
        except (OSError, SessionFault) as error:
            self._to_memory(error)

    def _process_items(self) -> bool:
        """Write the records handed over, then pieces of a snapshot; False once told to stop."""
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
        """The items handed over; waits for one, at most as long as records may stay unsynced."""
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
        """Write one record to disk, or keep it in the backlog while the disk refuses."""
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
        """Append one encoded record to the open segment, and see whether a snapshot is due. Raises
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
        """Sync what was written; on an error go on in a new segment."""
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
        self._backlog.clear()
        self.health = replace(self.health, durable=self.health.written)
        self._wake_waiters()

    def _next_segment(self, error: OSError) -> None:
        """Write all that is not synced into another file, since this one cannot be trusted."""
        log.warning("segment %d of the journal ends: %s", self._disk.segment, describe_fault(error))
        self._report_health(gone_wrong=self.health.gone_wrong + 1)
        try:
            self._rewrite_backlog()
        except (OSError, SessionFault) as again:
            self._to_memory(again)

    def _rewrite_backlog(self) -> None:
        """Write all records that are not synced into a new segment. Raises OSError."""
        self._disk.next_segment()
        for pending in self._backlog.pending:
            self._put_line(pending)
        self._disk.sync()
        self._report_health(mode="disk", reason=None, detail="", path=None)
        self._note_synced()

    def _to_memory(self, error: OSError | SessionFault) -> None:
        """Go on without a disk, report why, and wake who waits for a sync."""
        log.warning("the session lives in memory only: %s", describe_fault(error))
        self._leave_snapshot()
        self._backlog.wait_longer()
        code = error.code if isinstance(error, SessionFault) else code_of(error)
        self._report_health(
            mode="memory", reason=code, detail=describe_fault(error), path=self._disk.path
        )
        self._wake_waiters()

    def _to_disk_again(self, *, at_end: bool = False) -> None:
        """Try to write what lives in memory: a full disk may have room again."""
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
        """Begin to write a snapshot, where nothing was recorded since it was taken."""
        self._sync_disk()
        last = self._last
        if self.health.mode != "disk" or last is None or last.seq != wanted.seq:
            return
        self._leave_snapshot()
        self._since_snapshot = 0
        self._snapshot_size = 0
        self.drawing = self._disk.write_snapshot(last, wanted.image)

    def _draw_snapshot(self, drawing: Generator[int, None, None], seconds: float) -> None:
        """Write pieces of the snapshot for that many seconds, so that records wait no longer."""
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
        if self.drawing is not None:
            self.drawing.close()
            self.drawing = None

    # what both sides see

    def _is_durable(self, seq: int) -> bool:
        return self.health.mode != "disk" or self.health.durable >= seq

    def _wake_waiters(self) -> None:
        """Release those who wait for records that are safe now, or cannot become safe."""
        with self._guard:
            waiters, self._waiters = self._waiters, []
            for seq, waiter in waiters:
                if self._is_durable(seq):
                    waiter.set_result(None)
                else:
                    self._waiters.append((seq, waiter))

    def _report_health(self, **changes: Any) -> None:
        self.health = replace(self.health, **changes)
        self._call_on_health()

    def _call_on_health(self) -> None:
        if self._on_health is None or self._loop is None or self.health.mode == "closed":
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._on_health, self.health, context=self._context)
