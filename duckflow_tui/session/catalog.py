"""The catalog of all sessions: list, search, rename, pin, delete, restore and prune them.

Every method may block on the disk; a screen calls them in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Generator, Sequence
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
from duckflow_tui.session.faults import SessionFault, make_fault
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
from duckflow_tui.session.index import read_facts, read_pieces, write_index
from duckflow_tui.session.records import Redact
from duckflow_tui.session.resume import open_to_read, resume_journal
from duckflow_tui.state.base import Clock, Event, SystemClock, one_line
from duckflow_tui.state.session import MAX_NAME, SessionPinned, SessionTitled
from duckflow_tui.state.store import Store

AT_ONCE: Final = 0.2  # seconds of reading after which a list is worth showing


class Catalog:
    """All sessions below one state folder, with a cache of the facts read from their journals."""

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
        self._read: dict[str, tuple[str, SessionFacts]] = {}  # stamp and facts, by key

    # --- lists and searches ------------------------------------------------------------------

    def refresh(self, within: float | None = None) -> bool:
        """Read the journals that changed since they were last read, newest first.

        Stops after ``within`` seconds, but reads at least one. Returns whether some are still
        unread.
        """
        until: float | None = None
        for place in [*list_places(self.state_dir), *list_places(self.state_dir, trash=True)]:
            before = self._recall(place)
            if before is not None and before[0] == place.stamp:
                continue
            if until is not None and time.monotonic() > until:
                return True
            if within is not None and until is None:
                until = time.monotonic() + within
            self._read_journal(place)
        return False

    def list_read(
        self, workspace: Path | str | None = None, *, trashed: bool = False
    ) -> list[SessionFacts]:
        """Return the facts read so far, of one workspace or of all: pinned sessions first, then the
        newest. Blank sessions are left out. ``trashed``: those in the trash instead.
        """
        places = list_places(self.state_dir, workspace, trash=trashed)
        read = [(place, before[1]) for place in places if (before := self._recall(place))]
        found = [_add_disk_facts(place, facts) for place, facts in read if not facts.is_blank]
        return sorted(found, key=lambda facts: (not facts.pinned, -facts.last_at))

    def list_all(
        self, workspace: Path | str | None = None, *, trashed: bool = False
    ) -> list[SessionFacts]:
        """Read every journal that changed, then return the same list as ``list_read``."""
        self.refresh()
        return self.list_read(workspace, trashed=trashed)

    def search(
        self, query: str, workspace: Path | str | None = None, *, trashed: bool = False
    ) -> list[Listed]:
        """Return the sessions whose texts contain every word of the query, ignoring case, in the
        order of ``list_read``; none for an empty query. Only sessions read so far are searched.
        """
        words = query.lower().split()
        found: list[Listed] = []
        for facts in self.list_read(workspace, trashed=trashed) if words else ():
            if listed := _find_words(facts, self._list_texts(facts), words):
                found.append(listed)
        return found

    def list_pieces(
        self, facts: SessionFacts, count: int, around: int | None = None
    ) -> list[Piece]:
        """Return the last ``count`` texts of a session. With ``around``, the index of a text that a
        search found: the ``count`` texts that end with it, and half as many after it.
        """
        texts = self._list_texts(facts)
        end = len(texts) if around is None else around + 1
        return texts[
            max(1, end - count) : end + count // 2
        ]  # the first holds name, plans and requirements

    def path_of(self, facts: SessionFacts) -> Path:
        """Return the folder of the session."""
        return self.state_dir / facts.key

    def find(
        self, prefix: str, workspace: Path | str | None = None, *, trashed: bool = False
    ) -> list[SessionPlace]:
        """Return the sessions whose id begins with ``prefix``: those of the workspace if any match,
        else those of all workspaces.
        """
        here = find_places(self.state_dir, prefix, workspace, trash=trashed) if workspace else []
        return here or find_places(self.state_dir, prefix, trash=trashed)

    def facts_at(self, place: SessionPlace) -> SessionFacts:
        """Read one session's journal now and return its facts."""
        return _add_disk_facts(place, self._read_journal(place))

    # --- changes -----------------------------------------------------------------------------

    def rename(self, facts: SessionFacts, name: str) -> None:
        """Record a new name in the journal of a session that is not open. Raises SessionFault."""
        self._append_event(facts, SessionTitled(name=one_line(name, MAX_NAME)))

    def pin(self, facts: SessionFacts, pinned: bool) -> None:
        """Record in the journal of a session that is not open whether it is listed first. Raises
        SessionFault.
        """
        self._append_event(facts, SessionPinned(pinned=pinned))

    def delete(self, facts: SessionFacts) -> SessionFacts:
        """Move a session to the trash and return its facts with the new key. Raises
        SessionFault.
        """
        return self._move(facts, TRASH)

    def restore(self, facts: SessionFacts) -> SessionFacts:
        """Move a session from the trash back and return its facts with the new key. Raises
        SessionFault.
        """
        return self._move(facts, FOLDER)

    def prune(self, *gone: SessionFacts) -> None:
        """Delete sessions of the trash with their blobs for good. Raises SessionFault, and
        ValueError for one that is not in the trash.
        """
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
                raise make_fault(path, error) from error
            with contextlib.suppress(OSError):
                path.parent.rmdir()

    # --- private -----------------------------------------------------------------------------

    def _recall(self, place: SessionPlace) -> tuple[str, SessionFacts] | None:
        """Return the facts of a session as last read, with the stamp its journal had then, from the
        cache or the index; None where neither has them.
        """
        before = self._read.get(place.key) or read_facts(place)
        if before is not None:
            self._read[place.key] = before
        return before

    def _read_journal(self, place: SessionPlace) -> SessionFacts:
        """Read a session's journal and return its facts, or facts that say why it cannot be read.
        Updates the cache and the index.
        """
        size = self._measure(place.path)
        try:
            found = open_to_read(place.path)
        except SessionFault as fault:
            facts = make_unreadable_facts(place.session_id, fault)
            facts = facts.replace(size=size, last_at=place.changed_at)
        else:
            facts = make_facts(place.session_id, found).replace(size=size)
            write_index(place, facts, iter_pieces(found.state))
        self._read[place.key] = place.stamp, facts
        return facts

    def _list_texts(self, facts: SessionFacts) -> list[Piece]:
        """Return the texts of a session from its index, else from its journal; none if it is
        unreadable.
        """
        path = self.path_of(facts)
        if facts.problem:
            return []
        if (texts := read_pieces(path)) is not None:
            return texts
        try:
            return list(iter_pieces(open_to_read(path).state))
        except SessionFault:
            return []

    def _move(self, facts: SessionFacts, root: str) -> SessionFacts:
        """Move a session's folder below ``root``, the trash or the sessions, and return its facts
        with the new key.

        Raises SessionFault, also where the target exists; the session is then unchanged.
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
                raise make_fault(path, error) from error
        with contextlib.suppress(OSError):
            path.parent.rmdir()
        if root == TRASH:
            with contextlib.suppress(OSError):
                os.utime(target)  # the time of deletion
        return facts.replace(key=str(target.relative_to(self.state_dir)))

    def _append_event(self, facts: SessionFacts, event: Event) -> None:
        """Write one event to the journal of a session that is not open, and read the journal again.
        Raises SessionFault.
        """
        path = self.path_of(facts)
        if facts.trashed_at is not None:
            raise SessionFault("missing", path)
        resumed = resume_journal(path, self._clock.now(), redact=self.redact, disk=self._disk)
        try:
            restored = resumed.restored
            store = Store(restored.state, self._clock, resumed.journal, last_seq=restored.last_seq)
            store.dispatch(event)
        finally:
            health = resumed.journal.close_now()
        if health.durable <= restored.last_seq:
            raise make_fault(path, OSError(health.detail))
        for place in find_places(self.state_dir, path.name):
            if place.path == path:
                self._read_journal(place)
                return
        raise SessionFault("missing", path)


def _add_disk_facts(place: SessionPlace, facts: SessionFacts) -> SessionFacts:
    """Return the facts completed by those that no journal holds: key, use by a process, and time of
    deletion.
    """
    return facts.replace(
        key=place.key,
        in_use=is_written(place.path),
        trashed_at=_read_trash_time(place.path) if place.in_trash else None,
    )


def _find_words(facts: SessionFacts, texts: Sequence[Piece], words: list[str]) -> Listed | None:
    """Match a session's texts against words in lower case; None unless each word occurs in some
    text.

    The hits are the texts that contain all words or, without such a text, any of them; ``at`` is
    the index of the newest.
    """
    plain = [piece.text.lower() for piece in texts]
    holding = [{at for at, text in enumerate(plain) if word in text} for word in words]
    if not all(holding):
        return None
    found = holding[0].intersection(*holding) or holding[0].union(*holding)
    return Listed(facts, len(found), max(found))


def _read_trash_time(path: Path) -> float:
    """Return the time at which a session was moved to the trash, in seconds since the epoch; the
    present time if unreadable.
    """
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


@contextlib.contextmanager
def _hold_lock(path: Path) -> Generator[None]:
    """Hold the lock of the session in this folder for the block, where there can be one; without
    journal files nothing is locked. Raises SessionFault.
    """
    try:
        folder = SessionFolder.open(path)
    except SessionFault as fault:
        if fault.code not in ("foreign", "link"):
            raise
        yield
        return
    with contextlib.closing(folder):
        if folder.list_segments():
            with contextlib.suppress(OSError):  # where there can be no lock
                folder.lock()
        yield
