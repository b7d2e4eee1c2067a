"""All sessions of all workspaces: what they are, what was said in them, and what is done to them.

Every method may wait for the disk, so that a screen calls them in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.session.facts import (
    Listed,
    Piece,
    SessionFacts,
    iter_pieces,
    make_facts,
    make_unreadable_facts,
)
from duckflow_tui.session.faults import NotASession, SessionFault, SessionUnreadable
from duckflow_tui.session.folders import (
    FOLDER,
    OWN_FOLDER,
    TRASH,
    SessionFolder,
    SessionPlace,
    find_places,
    is_written,
    list_places,
    measure_size,
)
from duckflow_tui.session.index import FILE_NAME, SessionIndex
from duckflow_tui.session.records import Redact
from duckflow_tui.session.resume import open_to_read, resume_journal
from duckflow_tui.state.base import Clock, Event, SystemClock, one_line
from duckflow_tui.state.session import MAX_NAME, SessionPinned, SessionTitled
from duckflow_tui.state.store import Store

AT_ONCE: Final = 0.2  # seconds of reading after which a list is worth showing


class Catalog:
    """The sessions under one state folder. The index beside them can be deleted at any time."""

    def __init__(
        self,
        state_dir: Path,
        *,
        redact: Redact | None = None,
        clock: Clock | None = None,
        measure: Callable[[Path], int] = measure_size,
        disk: Disk | None = None,
    ) -> None:
        self.state_dir = state_dir
        self.redact = redact
        self._clock = clock or SystemClock()
        self._measure = measure
        self._disk = disk
        self._index = SessionIndex(state_dir / FILE_NAME)

    # --- what there is ------------------------------------------------------------------------

    def refresh(self, within: float | None = None, *, again: bool = False) -> bool:
        """Read the sessions that changed since they were last read, the newest first.

        Stops after ``within`` seconds, but not before one was read; returns whether there is more.
        ``again``: also try what could not be read before.
        """
        if again:
            facts = self._index.read_all().items()
            self._index.drop_sessions(key for key, found in facts if found.problem)
        stamps = self._index.read_stamps()
        there = [*list_places(self.state_dir), *list_places(self.state_dir, trash=True)]
        self._index.drop_sessions(stamps.keys() - {place.key for place in there})
        until: float | None = None
        for place in there:
            if stamps.get(place.key) == place.stamp:
                continue
            if until is not None and time.monotonic() > until:
                return True
            if within is not None and until is None:
                until = time.monotonic() + within
            self._index_session(place)
        return False

    def list_read(
        self, workspace: Path | str | None = None, *, trash_too: bool = False
    ) -> list[SessionFacts]:
        """Sessions read so far, of one workspace or of all: pinned ones first, then the newest.
        Sessions in which nothing was said are left out. ``trash_too``: with the deleted ones.
        """
        indexed = self._index.read_all()
        places = list_places(self.state_dir, workspace)
        if trash_too:
            places += list_places(self.state_dir, workspace, trash=True)
        read = [(place, indexed[place.key]) for place in places if place.key in indexed]
        found = [self._add_disk_facts(*both) for both in read if not both[1].is_blank]
        return sorted(found, key=lambda facts: (not facts.pinned, -facts.last_at))

    def list_all(
        self, workspace: Path | str | None = None, *, trash_too: bool = False
    ) -> list[SessionFacts]:
        """The same list, once every journal that changed was read."""
        self.refresh()
        return self.list_read(workspace, trash_too=trash_too)

    def search(
        self, query: str, workspace: Path | str | None = None, *, trash_too: bool = False
    ) -> list[Listed]:
        """The sessions in which every word of the query stands, in the order of ``list_read``."""
        matches = self._index.search(query.split())
        found = self.list_read(workspace, trash_too=trash_too)
        return [Listed(facts, *matches[facts.key]) for facts in found if facts.key in matches]

    def list_pieces(
        self, facts: SessionFacts, count: int, around: int | None = None
    ) -> list[Piece]:
        """The last ``count`` texts of a session, or those around a place that a search found."""
        return self._index.list_pieces(facts.key, count, around)

    def path_of(self, facts: SessionFacts) -> Path:
        """The folder of the session."""
        return self.state_dir / facts.key

    def find(
        self, prefix: str, workspace: Path | str | None = None, *, trashed: bool = False
    ) -> list[SessionPlace]:
        """The sessions whose id begins so, those of the workspace alone where it has some."""
        here = find_places(self.state_dir, prefix, workspace, trash=trashed) if workspace else []
        return here or find_places(self.state_dir, prefix, trash=trashed)

    def facts_at(self, place: SessionPlace) -> SessionFacts:
        """The facts of one session, read from its journal now."""
        self._index_session(place)
        return self._add_disk_facts(place, self._index.read_all()[place.key])

    # --- what is done to them -----------------------------------------------------------------

    def rename(self, facts: SessionFacts, name: str) -> None:
        """Name a session that nobody has open; raises SessionFault."""
        self._append_event(facts, SessionTitled(name=one_line(name, MAX_NAME)))

    def pin(self, facts: SessionFacts, pinned: bool) -> None:
        """Put a session that nobody has open at the top; raises SessionFault."""
        self._append_event(facts, SessionPinned(pinned=pinned))

    def delete(self, facts: SessionFacts) -> SessionFacts:
        """Move a session to the trash; raises SessionFault."""
        return self._move(facts, TRASH)

    def restore(self, facts: SessionFacts) -> SessionFacts:
        """Fetch a session back from the trash; raises SessionFault."""
        return self._move(facts, FOLDER)

    def prune(self, *gone: SessionFacts) -> None:
        """Remove sessions of the trash with their blobs; raises SessionFault."""
        for facts in gone:
            if not facts.key.startswith(f"{TRASH}/"):
                raise ValueError(f"{facts.key} is not in the trash")
            path = self.path_of(facts)
            try:
                if path.is_symlink() or not path.is_dir():
                    path.unlink()
                else:
                    shutil.rmtree(path)
            except OSError as error:
                raise SessionUnreadable(path, error) from error
            with contextlib.suppress(OSError):
                path.parent.rmdir()
            self._index.drop_sessions([facts.key])

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    # --- inside -------------------------------------------------------------------------------

    def _add_disk_facts(self, place: SessionPlace, facts: SessionFacts) -> SessionFacts:
        """The facts with what no journal says: its place, and whether it is in use or deleted."""
        return facts.replace(
            key=place.key,
            in_use=is_written(place.path),
            trashed_at=_read_trash_time(place.path) if place.in_trash else None,
        )

    def _index_session(self, place: SessionPlace) -> None:
        """Read a journal and put what it says into the index, or why it cannot be read."""
        size = self._measure(place.path)
        try:
            found = open_to_read(place.path)
        except SessionFault as fault:
            facts = make_unreadable_facts(place.session_id, fault)
            facts = facts.replace(size=size, last_at=place.changed_at)
            self._index.put_session(place.key, place.stamp, facts, ())
        else:
            facts = make_facts(place.session_id, found).replace(size=size)
            self._index.put_session(place.key, place.stamp, facts, iter_pieces(found.state))

    def _move(self, facts: SessionFacts, root: str) -> SessionFacts:
        """Move a session to the trash, or fetch it back. Raises SessionInUse, and SessionUnreadable
        where the system refuses or its place is taken; then it is as it was.
        """
        path = self.path_of(facts)
        target = self.state_dir / root / path.parent.name / path.name
        with _hold_lock(path):
            try:
                for folder in (target.parent.parent, target.parent):
                    folder.mkdir(mode=OWN_FOLDER, exist_ok=True)
                    folder.chmod(OWN_FOLDER)
                if os.path.lexists(target):
                    raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
                os.rename(path, target)
            except OSError as error:
                raise SessionUnreadable(path, error) from error
        with contextlib.suppress(OSError):
            path.parent.rmdir()
        if root == TRASH:
            with contextlib.suppress(OSError):
                os.utime(target)  # says when it was deleted
        moved = facts.replace(key=str(target.relative_to(self.state_dir)))
        self._index.change_key(facts.key, moved.key)
        return moved

    def _append_event(self, facts: SessionFacts, event: Event) -> None:
        """Write one event into the journal of a session that is not open."""
        path = self.path_of(facts)
        if facts.trashed_at is not None:
            raise NotASession("missing", path)
        resumed = resume_journal(path, self._clock.now(), redact=self.redact, disk=self._disk)
        try:
            restored = resumed.restored
            store = Store(restored.state, self._clock, resumed.journal, last_seq=restored.last_seq)
            store.dispatch(event)
        finally:
            health = resumed.journal.close_now()
        if health.durable <= restored.last_seq:
            raise SessionUnreadable(path, OSError(health.detail))
        place = next(p for p in find_places(self.state_dir, path.name) if p.path == path)
        self._index_session(place)


def _read_trash_time(path: Path) -> float:
    """When a session was moved to the trash, in seconds since the epoch; now if unreadable."""
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


@contextlib.contextmanager
def _hold_lock(path: Path) -> Generator[None]:
    """Hold the lock of the session in this folder; a folder without a session has none."""
    try:
        folder = SessionFolder.open(path)
    except NotASession as error:
        if error.code == "missing":
            raise
        yield
        return
    with contextlib.closing(folder):
        if folder.list_segments():
            with contextlib.suppress(OSError):  # where there can be no lock
                folder.lock()
        yield
