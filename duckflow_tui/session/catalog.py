"""All sessions of all workspaces: what they are, what was said in them, and what is done to them.

Every method may wait for the disk, so that a screen calls them in a thread.
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
from duckflow_tui.session.index import read_facts, read_pieces, write_index
from duckflow_tui.session.records import Redact
from duckflow_tui.session.resume import open_to_read, resume_journal
from duckflow_tui.state.base import Clock, Event, SystemClock, one_line
from duckflow_tui.state.session import MAX_NAME, SessionPinned, SessionTitled
from duckflow_tui.state.store import Store

AT_ONCE: Final = 0.2  # seconds of reading after which a list is worth showing


class Catalog:
    """The sessions under one state folder."""

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

    # --- what there is ------------------------------------------------------------------------

    def refresh(self, within: float | None = None) -> bool:
        """Read the sessions that changed since they were last read, the newest first.

        Stops after ``within`` seconds, but not before one was read; returns whether there is more.
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
        """Sessions read so far, of one workspace or of all: pinned ones first, then the newest.
        Sessions in which nothing was said are left out. ``trashed``: the deleted ones instead.
        """
        places = list_places(self.state_dir, workspace, trash=trashed)
        read = [(place, before[1]) for place in places if (before := self._recall(place))]
        found = [_add_disk_facts(place, facts) for place, facts in read if not facts.is_blank]
        return sorted(found, key=lambda facts: (not facts.pinned, -facts.last_at))

    def list_all(
        self, workspace: Path | str | None = None, *, trashed: bool = False
    ) -> list[SessionFacts]:
        """The same list, once every journal that changed was read."""
        self.refresh()
        return self.list_read(workspace, trashed=trashed)

    def search(
        self, query: str, workspace: Path | str | None = None, *, trashed: bool = False
    ) -> list[Listed]:
        """The sessions in which every word of the query stands, whatever its case, in the order of
        ``list_read``.
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
        """The last ``count`` texts of a session, or those around a place that a search found: as
        many that end with it, and half as many behind it.
        """
        texts = self._list_texts(facts)
        end = len(texts) if around is None else around + 1
        return texts[max(1, end - count) : end + count // 2]  # the first is what names it

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
        return _add_disk_facts(place, self._read_journal(place))

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

    # --- inside -------------------------------------------------------------------------------

    def _recall(self, place: SessionPlace) -> tuple[str, SessionFacts] | None:
        """The facts of a session as they were last read, with its stamp of then."""
        before = self._read.get(place.key) or read_facts(place)
        if before is not None:
            self._read[place.key] = before
        return before

    def _read_journal(self, place: SessionPlace) -> SessionFacts:
        """Read the facts of a session from its journal and note them, or why it cannot be read."""
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
        """The texts of a session, from its index or else its journal; none if it is unreadable."""
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
        return facts.replace(key=str(target.relative_to(self.state_dir)))

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
        self._read_journal(place)


def _add_disk_facts(place: SessionPlace, facts: SessionFacts) -> SessionFacts:
    """The facts with what no journal says: its place, and whether it is in use or deleted."""
    return facts.replace(
        key=place.key,
        in_use=is_written(place.path),
        trashed_at=_read_trash_time(place.path) if place.in_trash else None,
    )


def _find_words(facts: SessionFacts, texts: Sequence[Piece], words: list[str]) -> Listed | None:
    """The session with how many of its texts hold all the words, or any where none holds all of
    them, and the newest of these; None unless each word stands somewhere. Words in lower case.
    """
    plain = [piece.text.lower() for piece in texts]
    holding = [{at for at, text in enumerate(plain) if word in text} for word in words]
    if not all(holding):
        return None
    found = holding[0].intersection(*holding) or holding[0].union(*holding)
    return Listed(facts, len(found), max(found))


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
