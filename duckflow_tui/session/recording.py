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

#: Why a session lives in memory, where the screen has words of its own for it.
_NAMED: Final = ("no_space", "read_only", "no_permission", "io_error")


@dataclass(slots=True)
class Recording:
    """Records a session, and can be frozen: once the process ends, cancelled work and withdrawn
    questions are not recorded, so that a resumed session still has its open gate.
    """

    session_id: str
    recorder: Recorder
    path: Path | None = None  # of the session's folder
    blobs: FileBlobs | MemoryBlobs = field(default_factory=MemoryBlobs)  # the session's own
    restored: Restored | None = None  # until the session is taken up
    newest: int = 0  # the last record that was handed over
    frozen: bool = False
    _told: tuple[Store, Notices] | None = None  # that are told how the disk is
    _health: JournalHealth = field(default_factory=JournalHealth)

    @property
    def journal(self) -> Journal | None:
        """The journal; None for a session that is kept in memory only."""
        return self.recorder if isinstance(self.recorder, Journal) else None

    @property
    def state(self) -> AgentState:
        """The state the session begins with."""
        return self.restored.state if self.restored is not None else AgentState()

    @property
    def last_seq(self) -> int:
        """The sequence number of the last record; the Store counts on from it."""
        return self.restored.last_seq if self.restored is not None else 0

    @property
    def is_resumable(self) -> bool:
        """Whether the session can be resumed later."""
        journal = self.journal
        return journal is not None and journal.health.reason is None

    @property
    def is_closed(self) -> bool:
        """Whether everything was written and the journal is closed."""
        return self.journal is None or self.journal.health.mode == "closed"

    def follow_store(self, store: Store, notices: Notices) -> None:
        """Take snapshots of this Store's state, and tell its user how the disk is."""
        self._told = store, notices
        if self.journal is None:
            store.dispatch(JournalChanged(unkept=NO_SESSION))
            return
        self.journal.follow_store(store)
        if self._health.mode == "memory":
            self.report_health(self._health)

    def report_health(self, health: JournalHealth) -> None:
        """Tell the user, once each time, that the session cannot be kept, or can be again."""
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
        """Hand a record over; nothing once frozen."""
        if not self.frozen:
            assert record.seq is not None  # the Store hands over none that passes by
            self.newest = record.seq
            self.recorder.append(record)

    async def wait_until_flushed(self, seq: int) -> None:
        """Return once the record survives a crash; at once when it will never be written."""
        if not self.frozen:
            await self.recorder.wait_until_flushed(seq)

    def freeze(self) -> None:
        """Record nothing more; what was recorded is being written. Never waits."""
        if not self.frozen:
            self.frozen = True
            if self.journal is not None:
                self.journal.close_now(within=0.0)

    async def close(self) -> None:
        """Write and sync what is left, without further notices."""
        self.frozen = True
        self._told = None
        if self.journal is not None:
            await self.journal.close()

    def close_now(self) -> None:
        """``close`` where no loop runs any more."""
        self.frozen = True
        if self.journal is not None:
            self.journal.close_now()


def start_recording(
    state_dir: Path, workspace: Path, redact: Redact, *, resume: str = "", keep: bool = True
) -> Recording:
    """A new session of this workspace, or the one of the id ``resume``, whose files are read.
    Raises SessionFault when that one cannot go on. Not to ``keep`` it: it is lost with the process.
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
    """The journal of a new session; returns at once, the disk is touched by its thread. Raises
    NotASession for what is no id. A disk that cannot be written is no error: see ``JournalHealth``.
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
