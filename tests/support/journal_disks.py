"""Disks that fail and forget under a journal, and a session that is driven over one."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from support.pinned import ManualClock

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.session.faults import JournalHealth
from duckflow_tui.session.folders import SessionFolder
from duckflow_tui.session.journal import Journal, JournalDisk
from duckflow_tui.session.records import JournalHeader
from duckflow_tui.session.resume import Restored, restore
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event
from duckflow_tui.state.store import Store

DEADLINE = 30.0  # seconds until a wait has failed


class FaultyDisk(Disk):
    """Fails at its n-th change, once or from there on, and knows what a power loss would leave."""

    def __init__(self, at: int = 0, number: int = 5, *, lasting: bool = False) -> None:
        self.at = at
        self.number = number
        self.lasting = lasting
        self.calls: list[str] = []
        self.failed: list[str] = []
        self.synced: dict[int, int] = {}  # inode → bytes that were synced

    def _step(self, name: str) -> None:
        self.calls.append(name)
        count = len(self.calls)
        if self.at and (count == self.at or (self.lasting and count > self.at)):
            self.failed.append(name)
            raise OSError(self.number, os.strerror(self.number))

    def create(self, directory: int, name: str, mode: int) -> int:
        self._step("create")
        return super().create(directory, name, mode)

    def append_to(self, directory: int, name: str) -> int:
        self._step("append_to")
        return super().append_to(directory, name)

    def write(self, file: int, data: memoryview) -> int:
        half = len(self.calls) + 1 == self.at
        if half:
            super().write(file, data[: len(data) // 2])  # it fails in the middle of the line
        self._step("write")
        return super().write(file, data)

    def sync(self, file: int) -> None:
        self._step("sync")
        super().sync(file)

    def sync_data(self, file: int) -> None:
        self._step("sync_data")
        status = os.fstat(file)
        self.synced[status.st_ino] = status.st_size

    def sync_directory(self, directory: int) -> None:
        self._step("sync_directory")

    def rename(self, source_dir: int, source: str, target_dir: int, target: str) -> None:
        self._step("rename")
        super().rename(source_dir, source, target_dir, target)

    def unlink(self, directory: int, name: str) -> None:
        self._step("unlink")
        super().unlink(directory, name)

    def after_power_loss(self, session: Path, copy: Path) -> Path:
        """The session as it would be: of each segment only what was synced."""
        shutil.copytree(session, copy, symlinks=True)
        for name in os.listdir(session):
            if name.startswith("journal-"):
                os.truncate(copy / name, self.synced.get((session / name).stat().st_ino, 0))
        return copy


@dataclass
class Driven:
    """A Store over a journal, and what of it was acknowledged as durable."""

    path: Path
    journal: Journal
    store: Store
    notices: list[JournalHealth]
    durable: list[int] = field(default_factory=list[int])
    shown: int = 0  # events that were committed, durable or not

    async def commit(self, *events: Event) -> None:
        for event in events:
            await self.store.commit(event)
            self.shown += 1
            if self.journal.health.durable >= self.shown:
                self.durable.append(self.shown)


def drive(
    path: Path,
    disk: Disk | None = None,
    *,
    snapshot_every: int = 1_000_000,
    retry_s: float = 1000.0,
) -> Driven:
    """A new session in this folder."""
    header = JournalHeader(session_id=path.name, workspace="/w", created_at=1.0, opened_at=1.0)
    notices: list[JournalHealth] = []
    journal = Journal(
        JournalDisk(path, header, disk=disk),
        on_health=notices.append,
        snapshot_every=snapshot_every,
        retry_s=retry_s,
    )
    store = Store(AgentState(), ManualClock(), journal)
    journal.follow_store(store)
    return Driven(path, journal, store, notices)


def read(path: Path, *, snapshots: bool = True) -> Restored:
    """The session in this folder."""
    folder = SessionFolder.open(path)
    try:
        return restore(folder, snapshots=snapshots)
    finally:
        folder.close()


async def until(holds: Callable[[], bool]) -> None:
    """Return once it is so; fails after a deadline."""
    async with asyncio.timeout(DEADLINE):
        while not holds():  # noqa: ASYNC110  # the journal's thread makes it so, and tells nobody
            await asyncio.sleep(0.002)


def content(path: Path) -> bytes:
    """What a file holds."""
    return path.read_bytes()


def put(path: Path, data: bytes) -> None:
    """Let a file hold this; emptied before, it would be waited for until it is on the disk."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666), "wb") as file:
        file.write(data)
        file.truncate()


def seqs(restored: Restored) -> list[int]:
    """The numbers of the events that were read."""
    return [entry.seq for entry in restored.read.entries]


def gates(restored: Restored) -> set[tuple[str, str]]:
    """Every answer to a gate that was read."""
    answers: Iterable[dict[str, str]] = (
        entry.fields["answer"]
        for entry in restored.read.entries
        if entry.fields["kind"] == "gate_answered"
    )
    return {(answer["gate_id"], answer["choice"]) for answer in answers}
