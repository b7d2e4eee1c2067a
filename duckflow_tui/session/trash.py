"""Sessions that were deleted lie in the trash until they are fetched back or pruned by name."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Generator
from pathlib import Path

from duckflow_tui.session.faults import NotASession, SessionUnreadable
from duckflow_tui.session.folders import TRASH, SessionPlace
from duckflow_tui.session.lock import SessionLock
from duckflow_tui.session.session_files import FOLDER, SessionFolder


def put_away(state_dir: Path, place: SessionPlace) -> Path:
    """Move a session to the trash; where it lies now.

    Raises SessionInUse, and SessionUnreadable where the system refuses; then it is as it was.
    """
    target = _move(state_dir, place, TRASH)
    with contextlib.suppress(OSError):
        os.utime(target)  # says when it was deleted
    return target


def fetch_back(state_dir: Path, place: SessionPlace) -> Path:
    """The other way round; raises the same, and SessionUnreadable where its place is taken."""
    return _move(state_dir, place, FOLDER)


def trashed_at(place: SessionPlace) -> float:
    """When it was deleted, in seconds since the epoch; now where that cannot be read."""
    try:
        return place.path.stat().st_mtime
    except OSError:
        return time.time()


def prune(place: SessionPlace) -> None:
    """Remove a session of the trash for good; raises SessionUnreadable."""
    if not place.in_trash:
        raise ValueError(f"{place.path} is not in the trash")
    try:
        if place.path.is_symlink() or not place.path.is_dir():
            place.path.unlink()
        else:
            shutil.rmtree(place.path)
    except OSError as error:
        raise SessionUnreadable(place.path, error) from error
    with contextlib.suppress(OSError):
        place.path.parent.rmdir()


def _move(state_dir: Path, place: SessionPlace, root: str) -> Path:
    target = state_dir / root / place.path.parent.name / place.session_id
    with _nobody_writes(place.path):
        try:
            for folder in (target.parent.parent, target.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.chmod(0o700)
            if os.path.lexists(target):
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
            os.rename(place.path, target)
        except OSError as error:
            raise SessionUnreadable(place.path, error) from error
    with contextlib.suppress(OSError):
        place.path.parent.rmdir()
    return target


@contextlib.contextmanager
def _nobody_writes(path: Path) -> Generator[None]:
    """Hold the session's lock meanwhile; what is no session has none."""
    try:
        folder = SessionFolder.open(path)
    except NotASession as error:
        if error.code == "missing":
            raise
        yield
        return
    try:
        lock: SessionLock | None = None
        if folder.segments():
            with contextlib.suppress(OSError):  # where there can be no lock
                lock = SessionLock.take(folder)
        try:
            yield
        finally:
            if lock is not None:
                lock.release()
    finally:
        folder.close()
