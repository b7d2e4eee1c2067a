"""The folders of all sessions, of all workspaces and in the trash, without reading a journal."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duckflow_tui.session.lock import NAME as LOCK
from duckflow_tui.session.session_files import FOLDER, workspace_key

_PLAIN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

TRASH: Final = "trash"  # beside ``sessions``, with the same folders in it


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """Where a session lies. ``stamp`` changes whenever something is written in it."""

    path: Path
    key: bytes  # the path from the state folder on
    stamp: str
    changed_at: float  # of the newest file in it, seconds since the epoch

    @property
    def session_id(self) -> str:
        """Its id: the folder's name."""
        return self.path.name

    @property
    def in_trash(self) -> bool:
        """Whether it was deleted."""
        return self.key.startswith(TRASH.encode() + b"/")


def places(
    state_dir: Path, workspace: Path | str | None = None, *, trash: bool = False
) -> list[SessionPlace]:
    """All sessions, or those of one workspace, the last written first; raises nothing."""
    root = TRASH if trash else FOLDER
    if workspace is not None:
        shelves = [workspace_key(workspace)]
    else:
        inside = _entries(state_dir / root)
        shelves = [entry.name for entry in inside if entry.is_dir(follow_symlinks=False)]
    found = [
        _place(f"{root}/{shelf}", entry)
        for shelf in shelves
        for entry in _entries(state_dir / root / shelf)
    ]
    return sorted(found, key=lambda place: place.changed_at, reverse=True)


def find(
    state_dir: Path, prefix: str, workspace: Path | str | None = None, *, trash: bool = False
) -> list[SessionPlace]:
    """The sessions whose id begins so; exactly that one where a whole id is given.

    ``session_`` at the start of an id need not be typed.
    """
    found = places(state_dir, workspace, trash=trash)
    same = [place for place in found if place.session_id == prefix]
    if same or not prefix:
        return same
    starts = (prefix, f"session_{prefix}")
    return [place for place in found if place.session_id.startswith(starts)]


def is_written(path: Path) -> bool:
    """Whether some process holds the session's lock.

    Asks the lock itself only where the process that wrote its id into it is alive, so that the
    question stands in nobody's way.
    """
    try:
        descriptor = os.open(f"{path}/{LOCK}", _PLAIN)
    except OSError:
        return False
    try:
        pid = os.read(descriptor, 20).strip()
        if not pid.isdigit() or not _alive(int(pid)):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def size_of(path: Path | str) -> int:
    """Bytes of all files in the folder; links are not followed."""
    total = 0
    for entry in _entries(path):
        try:
            if entry.is_dir(follow_symlinks=False):
                total += size_of(entry.path)
            else:
                total += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
    return total


def _place(shelf: str, entry: os.DirEntry[str]) -> SessionPlace:
    marks: list[str] = []
    newest = 0
    for name, size, at in sorted(_journal(entry)):
        marks.append(f"{name}:{size}:{at}")
        newest = max(newest, at)
    if not marks:
        with contextlib.suppress(OSError):
            newest = entry.stat(follow_symlinks=False).st_mtime_ns
    key = os.fsencode(f"{shelf}/{entry.name}")
    return SessionPlace(Path(entry.path), key, " ".join(marks), newest / 1e9)


def _journal(entry: os.DirEntry[str]) -> Iterator[tuple[str, int, int]]:
    if not entry.is_dir(follow_symlinks=False):
        return
    for file in _entries(entry.path):
        if file.name.startswith("journal-"):
            try:
                status = file.stat(follow_symlinks=False)
            except OSError:
                continue
            yield file.name, status.st_size, status.st_mtime_ns


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    """What lies in the folder, hidden things left out; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return [entry for entry in found if not entry.name.startswith(".")]
    except OSError:
        return []


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # the latter for a number no process has
        return False
    except OSError:
        return True
    return True
