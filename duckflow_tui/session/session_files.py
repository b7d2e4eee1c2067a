"""Where a session lies: ``sessions/<workspace>/<session id>/`` in the app's state folder.

In it: ``journal-1.d1`` and the segments after it, ``snapshot-….d1``, ``lock``, ``blobs/``.
Every folder from ``sessions`` on is 0700, every file 0600, whatever the umask; links are refused.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO, Final

from duckflow_tui.safety.disk import Disk
from duckflow_tui.session.faults import NotASession, opening
from duckflow_tui.state.base import digest

FOLDER: Final = "sessions"

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SEGMENT: Final = re.compile(r"journal-([1-9][0-9]*)\.d1")
_SNAPSHOT: Final = re.compile(r"snapshot-([1-9][0-9]{0,14})\.d1")
_KEY_LENGTH: Final = 16  # hex digits of a workspace's hash


def workspace_key(workspace: Path | str) -> str:
    """The name of a workspace's folder: 16 hex digits of the SHA-256 of its absolute path."""
    return digest(os.fsencode(workspace))[:_KEY_LENGTH]


def session_path(state_dir: Path, workspace: Path | str, session_id: str) -> Path:
    """Where this session lies, or would; raises NotASession for what is no id."""
    if not _ID.fullmatch(session_id):
        raise NotASession("bad_id", Path(session_id))
    return state_dir / FOLDER / workspace_key(workspace) / session_id


def segment_name(number: int) -> str:
    """The name of the ``number``-th file of a journal, counted from 1."""
    return f"journal-{number}.d1"


def snapshot_name(seq: int) -> str:
    """The name of the state as it was after this record."""
    return f"snapshot-{seq}.d1"


class SessionFolder:
    """The opened folder of one session. Names in it are relative to its descriptor."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def create(cls, path: Path, disk: Disk) -> SessionFolder:
        """Make the folder with what lies above it; raises OSError, also for a link on the way."""
        state_dir = path.parents[2]
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in path.relative_to(state_dir).parts:
            descriptor = _inside(descriptor, part, disk)
        return cls(path, descriptor)

    @classmethod
    def open(cls, path: Path) -> SessionFolder:
        """Open a folder that is there; raises NotASession or SessionUnreadable."""
        try:
            return cls(path, _open_folder(None, str(path)))
        except NotADirectoryError:
            raise NotASession("link" if path.is_symlink() else "foreign", path) from None
        except OSError as error:
            raise opening(path, error) from error

    def close(self) -> None:
        """Give the descriptor back; once is enough."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def segments(self) -> list[int]:
        """The numbers of the journal's files, in their order."""
        return self._numbers(_SEGMENT)

    def snapshots(self) -> list[int]:
        """The sequence numbers there is a snapshot of, in their order."""
        return self._numbers(_SNAPSHOT)

    def read(self, name: str) -> BinaryIO:
        """Open a plain file of this folder; raises OSError, ELOOP for a link."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=self.descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotASession("foreign", self.path / name)
        return open(descriptor, "rb", buffering=1 << 18)

    def _numbers(self, pattern: re.Pattern[str]) -> list[int]:
        found = (pattern.fullmatch(name) for name in os.listdir(self.descriptor))
        return sorted(int(match[1]) for match in found if match)


def _inside(parent: int, name: str, disk: Disk) -> int:
    """Open a folder in a folder, made when it is not there; closes the outer one."""
    try:
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
        except FileExistsError:
            pass
        else:
            os.chmod(name, 0o700, dir_fd=parent)  # the umask may have taken our own rights
        descriptor = _open_folder(parent, name)
        try:
            disk.sync_directory(parent)  # also of one that an earlier try could not sync
        except OSError:
            os.close(descriptor)
            raise
        return descriptor
    finally:
        os.close(parent)


def _open_folder(parent: int | None, name: str) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=parent)
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & 0o077:
        with contextlib.suppress(OSError):  # on a disk that can only be read
            os.fchmod(descriptor, 0o700)
    return descriptor
