"""The recorder of a session's Store, from its first event to the end of the process."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.session.blobs import FileBlobs, MemoryBlobs, session_blobs
from duckflow_tui.session.faults import JournalHealth
from duckflow_tui.session.folders import session_path
from duckflow_tui.session.journal import SNAPSHOT_EVERY, Journal, JournalDisk, OnHealth
from duckflow_tui.session.records import JournalHeader, Redact
from duckflow_tui.session.resume import Restored, resume_journal
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import random_id
from duckflow_tui.state.session import NO_SESSION, JournalChanged
from duckflow_tui.state.store import MemoryRecorder, Record, Recorder, Store
from duckflow_tui.tools.notices import Notices

#: Reasons for a session in memory that have words of their own.
_NAMED: Final = ("no_space", "read_only", "no_permission", "io_error")


@dataclass(slots=True)
class Recording:
    """Records a session, and can be frozen: when the process ends, cancelled work and withdrawn
    questions are not recorded, so that the session resumes with its gate open.
    """

    session_id: str
    recorder: Recorder
    path: Path | None = None  # of the session's folder
    blobs: FileBlobs | MemoryBlobs = field(default_factory=MemoryBlobs)  # the session's own
    restored: Restored | None = None  # of a resumed session
    newest: int = 0  # sequence number of the last record appended
    frozen: bool = False
    _told: tuple[Store, Notices] | None = None  # receive reports of the disk's health
    _health: JournalHealth = field(default_factory=JournalHealth)

    @property
    def journal(self) -> Journal | None:
        """The journal; None for a session that is kept in memory only."""
        return self.recorder if isinstance(self.recorder, Journal) else None

    @property
    def state(self) -> AgentState:
        """The state the session begins with: the restored one, or an empty one."""
        return self.restored.state if self.restored is not None else AgentState()

    @property
    def last_seq(self) -> int:
        """The sequence number of the last restored record, after which the Store continues; 0 for a
        new session.
        """
        return self.restored.last_seq if self.restored is not None else 0

    @property
    def is_resumable(self) -> bool:
        """Whether the session can be resumed later: its journal is on disk without a fault."""
        journal = self.journal
        return journal is not None and journal.health.reason is None

    @property
    def is_closed(self) -> bool:
        """Whether the journal is closed, or the session has none."""
        return self.journal is None or self.journal.health.mode == "closed"

    def follow_store(self, store: Store, notices: Notices) -> None:
        """Take snapshots of this Store's state, and report the health of the disk to the Store and
        the user from now on.
        """
        self._told = store, notices
        if self.journal is None:
            store.dispatch(JournalChanged(unkept=NO_SESSION))
            return
        self.journal.follow_store(store)
        if self._health.mode == "memory":
            self.report_health(self._health)

    def report_health(self, health: JournalHealth) -> None:
        """Record in the state, and tell the user, where the session has become unsafe, or safe
        again; nothing where that did not change. Before ``follow_store`` the report is kept for
        it; once frozen it is dropped.
        """
        self._health = health
        if self._told is None or self.frozen:
            return
        store, notices = self._told
        code = str(health.reason or "fault") if health.mode == "memory" else ""
        before = store.state.unkept
        if code == before:
            return
        store.dispatch(JournalChanged(unkept=code))
        if code and not before:
            key = code if code in _NAMED else "other"
            path = str(health.path or "")
            notices.warn(f"resume.memory.{key}", path=path, detail=health.detail)
        elif before and not code:
            notices.say("resume.kept_again")

    def append(self, record: Record) -> None:
        """Pass a record to the recorder; dropped once frozen."""
        if not self.frozen:
            assert record.seq is not None  # the Store hands over none that passes by
            self.newest = record.seq
            self.recorder.append(record)

    async def wait_until_flushed(self, seq: int) -> None:
        """Return once the record is synced to disk, or at once where it never will be."""
        if not self.frozen:
            await self.recorder.wait_until_flushed(seq)

    def freeze(self) -> None:
        """Accept no more records and start to close the journal, without waiting for it."""
        if not self.frozen:
            self.frozen = True
            if self.journal is not None:
                self.journal.close_now(within=0.0)

    async def close(self) -> None:
        """Write and sync the queued records and close the journal, without further notices."""
        self.frozen = True
        self._told = None
        if self.journal is not None:
            await self.journal.close()

    def close_now(self) -> None:
        """Do the work of ``close`` where no loop runs any more; blocks."""
        self.frozen = True
        if self.journal is not None:
            self.journal.close_now()


def start_recording(
    state_dir: Path, workspace: Path, redact: Redact, *, resume: str = "", keep: bool = True
) -> Recording:
    """Start to record a new session of this workspace, or resume the one with the id ``resume``,
    whose files are then read. Raises SessionFault where it cannot be resumed. ``keep=False``:
    record in memory only.
    """
    if not keep:
        return Recording(random_id("session"), MemoryRecorder())
    workspace = Path(os.path.realpath(workspace))
    session_id, now = resume or random_id("session"), time.time()
    path = session_path(state_dir, workspace, session_id)
    recording = Recording(session_id, MemoryRecorder(), path, session_blobs(path))
    if resume:
        resumed = resume_journal(path, now, redact=redact, on_health=recording.report_health)
        recording.recorder, recording.restored = resumed.journal, resumed.restored
    else:
        recording.recorder = start_journal(
            state_dir, session_id, workspace, now, redact=redact, on_health=recording.report_health
        )
    return recording


def start_journal(
    state_dir: Path,
    session_id: str,
    workspace: Path,
    now: float,
    *,
    redact: Redact | None = None,
    on_health: OnHealth | None = None,
    disk: Disk | None = None,
    snapshot_every: int = SNAPSHOT_EVERY,
) -> Journal:
    """Create the journal of a new session. Returns at once; the journal's thread writes the disk.
    Raises SessionFault for a malformed id. A disk that cannot be written raises nothing: see
    ``JournalHealth``.
    """
    path = session_path(state_dir, workspace, session_id)
    try:
        status = workspace.stat()
        device, inode = status.st_dev, status.st_ino
    except OSError:
        device, inode = 0, 0
    header = JournalHeader(
        session_id=session_id,
        workspace=str(workspace),
        device=device,
        inode=inode,
        created_at=now,
        opened_at=now,
    )
    return Journal(
        JournalDisk(path, header, disk=disk, redact=redact),
        on_health=on_health,
        snapshot_every=snapshot_every,
    )
