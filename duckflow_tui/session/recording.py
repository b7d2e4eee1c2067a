"""What a session's Store records into, from its first event to the end of the process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from duckflow_tui.session.blobs import FileBlobs, MemoryBlobs, session_blobs
from duckflow_tui.session.faults import JournalHealth
from duckflow_tui.session.folders import session_path
from duckflow_tui.session.journal import Journal
from duckflow_tui.session.journals import resume_journal, start_journal
from duckflow_tui.session.payload import Redact
from duckflow_tui.session.restore import Restored
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import random_id
from duckflow_tui.state.store import MemoryRecorder, Record, Recorder, Store

NO_SESSION: Final = "no_session"  # as a reason: nobody wanted it kept


@dataclass(slots=True)
class Recording:
    """A Recorder that can be frozen: what an end undoes must not look as if it had happened.

    A session that is frozen while a gate is open, and resumed, has that gate open.
    """

    session_id: str
    recorder: Recorder
    path: Path | None = None  # of the session's folder
    blobs: FileBlobs | MemoryBlobs = field(default_factory=MemoryBlobs)  # the session's own
    restored: Restored | None = None  # until the session is taken up
    newest: int = 0  # the last record that was handed over
    frozen: bool = False
    heard: Callable[[JournalHealth], None] | None = None  # who tells the user
    _health: JournalHealth = field(default_factory=JournalHealth)

    @property
    def journal(self) -> Journal | None:
        """The journal; None for a session that nobody wanted kept."""
        return self.recorder if isinstance(self.recorder, Journal) else None

    @property
    def state(self) -> AgentState:
        """The state the session begins with."""
        return self.restored.state if self.restored is not None else AgentState()

    @property
    def last_seq(self) -> int:
        """The Store counts on from here."""
        return self.restored.last_seq if self.restored is not None else 0

    @property
    def is_kept(self) -> bool:
        """Whether the session can be taken up again."""
        journal = self.journal
        return journal is not None and journal.health.reason is None

    @property
    def is_closed(self) -> bool:
        """Whether nothing of it is left to write."""
        return self.journal is None or self.journal.health.mode == "closed"

    def taken_up(self) -> None:
        """The session goes on; let go what was read of it, in a long one many megabytes."""
        self.restored = None

    def follow(self, store: Store, heard: Callable[[JournalHealth], None]) -> None:
        """Take snapshots of this Store's state; ``heard`` is told how the disk is."""
        self.heard = heard
        if self.journal is not None:
            self.journal.follow(store)
            if self._health.mode == "memory":
                heard(self._health)

    def tell(self, health: JournalHealth) -> None:
        """The journal's ``on_health``."""
        self._health = health
        if self.heard is not None and not self.frozen:
            self.heard(health)

    def append(self, record: Record) -> None:
        """Hand a record over; nothing once frozen."""
        if not self.frozen:
            self.newest = record.seq or self.newest
            self.recorder.append(record)

    async def flushed(self, seq: int) -> None:
        """Return once the record survives a crash; at once when it will never be written."""
        if not self.frozen:
            await self.recorder.flushed(seq)

    def freeze(self) -> None:
        """Record nothing more; what was recorded is being written. Never waits."""
        if not self.frozen:
            self.frozen = True
            if self.journal is not None:
                self.journal.close_now(within=0.0)

    async def close(self) -> None:
        """Write and sync what is left; nobody is told of it any more."""
        self.frozen = True
        self.heard = None
        if self.journal is not None:
            await self.journal.close()

    def close_now(self) -> None:
        """``close`` where no loop runs any more."""
        self.frozen = True
        if self.journal is not None:
            self.journal.close_now()


def unrecorded() -> Recording:
    """A session that is lost with the process."""
    return Recording(random_id("session"), MemoryRecorder())


def new_recording(state_dir: Path, workspace: Path, now: float, redact: Redact) -> Recording:
    """A new session of this workspace; the disk is touched by the journal's own thread."""
    recording = unrecorded()
    recording.path = session_path(state_dir, workspace, recording.session_id)
    recording.blobs = session_blobs(recording.path)
    recording.recorder = start_journal(
        state_dir, recording.session_id, workspace, now, redact=redact, on_health=recording.tell
    )
    return recording


def resumed_recording(
    state_dir: Path, workspace: Path, session_id: str, now: float, redact: Redact
) -> Recording:
    """The session of that id goes on; reads its files. Raises what ``resume_journal`` raises."""
    path = session_path(state_dir, workspace, session_id)
    recording = Recording(session_id, MemoryRecorder(), path, session_blobs(path))
    resumed = resume_journal(path, now, redact=redact, on_health=recording.tell)
    recording.recorder = resumed.journal
    recording.restored = resumed.restored
    return recording
