"""Where sessions come from: a new journal, the journal of a session that goes on, one to read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from duckflow_tui.safety.changing import Disk
from duckflow_tui.session.faults import NotASession
from duckflow_tui.session.folders import SessionFolder, SessionLock, session_path
from duckflow_tui.session.framing import JournalHeader
from duckflow_tui.session.journal import SNAPSHOT_EVERY, Journal, JournalDisk, OnHealth
from duckflow_tui.session.payload import Redact
from duckflow_tui.session.restore import Restored, restore


@dataclass(frozen=True, slots=True)
class Resumed:
    """A session taken up again: ``Store(restored.state, clock, journal, last_seq=…)``."""

    journal: Journal
    restored: Restored


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
    """The journal of a new session; returns at once, the disk is touched by its thread.

    Raises NotASession for what is no id. A disk that cannot be written is no error: see
    ``JournalHealth``.
    """
    path = session_path(state_dir, workspace, session_id)
    device, inode = _identity(workspace)
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


def resume_journal(
    path: Path,
    now: float,
    *,
    redact: Redact | None = None,
    on_health: OnHealth | None = None,
    disk: Disk | None = None,
    snapshot_every: int = SNAPSHOT_EVERY,
) -> Resumed:
    """Take up the session in this folder; reads its files, so not on the loop.

    Raises SessionInUse, NotASession, NewerSession or SessionUnreadable; the journal is then as it
    was. A folder that can only be read gives a session that lives in memory from here on.
    """
    folder = SessionFolder.open(path)
    lock: SessionLock | None = None
    try:
        if not folder.segments():  # no session: it gets no lock file either
            raise NotASession("missing", path)
        lock = _lock(folder)
        restored = restore(folder)
    except BaseException:
        if lock is not None:
            lock.release()
        folder.close()
        raise
    old = restored.read.header
    session = restored.state.session
    header = JournalHeader(
        session_id=old.session_id if old else session.session_id or path.name,
        workspace=old.workspace if old else session.workspace,
        device=old.device if old else 0,
        inode=old.inode if old else 0,
        created_at=old.created_at if old else session.started_at,
        opened_at=now,
    )
    journal = Journal(
        JournalDisk(path, header, disk=disk, redact=redact, folder=folder, lock=lock),
        on_health=on_health,
        last_seq=restored.last_seq,
        behind=restored.read.size,
        snapshot_every=snapshot_every,
    )
    return Resumed(journal, restored)


def open_to_read(path: Path) -> Restored:
    """The session in this folder as it is now, whoever writes it; raises as ``resume_journal``."""
    folder = SessionFolder.open(path)
    try:
        return restore(folder)
    finally:
        folder.close()


def _lock(folder: SessionFolder) -> SessionLock | None:
    """None where the system gives no lock: the journal's thread finds the same, and says so."""
    try:
        return SessionLock.take(folder)
    except OSError:
        return None


def _identity(workspace: Path) -> tuple[int, int]:
    try:
        status = workspace.stat()
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino
