"""Folders of sessions on disk: find, open and lock them, and write files in them atomically."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.session.faults import SessionFault, SessionInUse, make_fault
from duckflow_tui.state.base import hash_data

_PLAIN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OWN: Final = 0o600  # of a file that only the user may read and write
OWN_FOLDER: Final = 0o700  # of a folder for the user alone
TRASH: Final = "trash"  # beside ``sessions``, with the same folders in it
INDEX_NAME: Final = "index.json"  # in a session's folder: facts and texts from its journal


class SessionPlace(NamedTuple):
    """The folder of a session on disk. ``stamp`` differs after every write to its journal."""

    path: Path
    key: str  # the path from the state folder on
    stamp: str
    changed_at: float  # of the newest file in it, seconds since the epoch

    @property
    def session_id(self) -> str:
        """The id of the session: the name of its folder."""
        return self.path.name

    @property
    def in_trash(self) -> bool:
        """Whether the session is in the trash."""
        return self.key.startswith(f"{TRASH}/")


def list_places(
    state_dir: Path, workspace: Path | str | None = None, *, trash: bool = False
) -> list[SessionPlace]:
    """Return the places of all sessions, or of one workspace, last written first; an unreadable
    folder gives none.
    """
    root = TRASH if trash else FOLDER
    if workspace is not None:
        shelves = [workspace_key(workspace)]
    else:
        inside = [e for e in _list_entries(state_dir / root) if e.is_dir(follow_symlinks=False)]
        shelves = [entry.name for entry in inside if _ID.fullmatch(entry.name)]
    found = [
        _make_place(f"{root}/{shelf}", entry)
        for shelf in shelves
        for entry in _list_entries(state_dir / root / shelf)
        if _ID.fullmatch(entry.name)
    ]
    return sorted(found, key=lambda place: place.changed_at, reverse=True)


def find_places(
    state_dir: Path, prefix: str, workspace: Path | str | None = None, *, trash: bool = False
) -> list[SessionPlace]:
    """Return the sessions whose id begins with ``prefix``, with or without ``session_``; for a
    complete id only that one, for an empty prefix none.
    """
    found = list_places(state_dir, workspace, trash=trash)
    same = [place for place in found if place.session_id == prefix]
    if same or not prefix:
        return same
    starts = (prefix, f"session_{prefix}")
    return [place for place in found if place.session_id.startswith(starts)]


def is_written(path: Path) -> bool:
    """Whether a running process holds the session's lock.

    Tries the lock, shared and for a moment, only where the process id in the lock file is alive.
    """
    with contextlib.suppress(OSError), open_plain(f"{path}/{_LOCK}") as file:
        pid = file.read(_PID_BUFFER).strip()
        if pid.isdigit() and _is_alive(int(pid)):
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def measure_size(path: Path | str) -> int:
    """Return the bytes of all files in the folder except the index; links are not followed."""
    total = 0
    for entry in _list_entries(path):
        if entry.name == INDEX_NAME:
            continue
        with contextlib.suppress(OSError):  # it has just gone
            if entry.is_dir(follow_symlinks=False):
                total += measure_size(entry.path)
            else:
                total += entry.stat(follow_symlinks=False).st_size
    return total


def _make_place(shelf: str, entry: os.DirEntry[str]) -> SessionPlace:
    """Return the place of a session's folder, with a stamp made of its journal files."""
    files = sorted(_iter_journal_files(entry))
    times = [at for *_, at in files]
    if not times:
        with contextlib.suppress(OSError):
            times.append(entry.stat(follow_symlinks=False).st_mtime_ns)
    stamp = " ".join(f"{name}:{size}:{at}" for name, size, at in files)
    changed_at = max(times, default=0) / 1e9
    return SessionPlace(Path(entry.path), f"{shelf}/{entry.name}", stamp, changed_at)


def _iter_journal_files(entry: os.DirEntry[str]) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and modification time (ns) of each journal file in a folder; links are not
    followed.
    """
    if not entry.is_dir(follow_symlinks=False):
        return
    for file in _list_entries(entry.path):
        if file.name.startswith("journal-"):
            with contextlib.suppress(OSError):  # it has just gone
                status = file.stat(follow_symlinks=False)
                yield file.name, status.st_size, status.st_mtime_ns


def _list_entries(folder: Path | str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder except hidden ones; empty where it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return [entry for entry in found if not entry.name.startswith(".")]
    except OSError:
        return []


def _is_alive(pid: int) -> bool:
    """Whether a process with this number is running, of any user."""
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # the latter for a number no process has
        return False
    except OSError:
        return True
    return True


FOLDER: Final = "sessions"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SEGMENT: Final = re.compile(r"journal-([1-9][0-9]*)\.d1")
#: Named by the number of its last record: 12 digits, more than any session needs.
_SNAPSHOT: Final = re.compile(r"snapshot-([1-9][0-9]{0,11})\.d1")
_KEY_LENGTH: Final = 16  # hex digits of a workspace's hash


def workspace_key(workspace: Path | str) -> str:
    """Return the folder name of a workspace: 16 hex digits of the SHA-256 of its absolute path."""
    return hash_data(os.fsencode(workspace))[:_KEY_LENGTH]


def session_path(state_dir: Path, workspace: Path | str, session_id: str) -> Path:
    """Return the folder of a session, which need not exist. Raises SessionFault for a
    malformed id.
    """
    if not _ID.fullmatch(session_id):
        raise SessionFault("bad_id", Path(session_id))
    return state_dir / FOLDER / workspace_key(workspace) / session_id


def segment_name(number: int) -> str:
    """Return the name of the ``number``-th file of a journal, counted from 1."""
    return f"journal-{number}.d1"


def snapshot_name(seq: int) -> str:
    """Return the file name of the snapshot taken after the record ``seq``."""
    return f"snapshot-{seq}.d1"


_LOCK: Final = "lock"
_PID_BUFFER: Final = 20  # bytes, more than any process id takes


class NotAFile(OSError):
    """Raised where a name belongs to a folder, pipe or device instead of a regular file."""


def open_plain(name: str | Path, folder: int | None = None) -> BufferedReader:
    """Open a regular file for reading, by path or by its name in an open folder, without blocking.
    Raises OSError: ELOOP for a link, NotAFile for anything but a regular file.
    """
    descriptor = os.open(name, _PLAIN, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotAFile(errno.EINVAL, os.strerror(errno.EINVAL), str(name))
    return BufferedReader(FileIO(descriptor), buffer_size=1 << 18)


def read_private(path: Path, most: int) -> bytes | None:
    """Read a file of the app; None where it is missing. Returns up to ``most`` + 1 bytes, so that a
    longer result means a file over the limit. Raises OSError, also for a link.
    """
    try:
        with open_plain(path) as file:
            return file.read(most + 1)
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def open_directory(
    path: str | Path, within: int | None = None, *, flags: int = 0
) -> Generator[int]:
    """Open a folder, by path or by its name in the open folder ``within``; yields its descriptor
    and closes it after the block. Raises OSError.
    """
    flags |= os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(path, flags, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class SessionFolder:
    """The open folder of one session. File names are relative to its descriptor."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.locked = False  # whether its lock is held here
        self._lock = -1

    @classmethod
    def create(cls, path: Path, disk: Disk) -> SessionFolder:
        """Create the folder and its parents where they are missing, and open it. Raises OSError,
        also for a link below the state folder.
        """
        state_dir = path.parents[2]
        state_dir.mkdir(mode=OWN_FOLDER, parents=True, exist_ok=True)
        descriptor = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in path.relative_to(state_dir).parts:
            descriptor = _open_subfolder(descriptor, part, disk)
        return cls(path, descriptor)

    @classmethod
    def open(cls, path: Path) -> SessionFolder:
        """Open an existing folder. Raises SessionFault."""
        try:
            return cls(path, _open_folder(None, str(path)))
        except NotADirectoryError:
            raise SessionFault("link" if path.is_symlink() else "foreign", path) from None
        except OSError as error:
            raise make_fault(path, error) from error

    def lock(self) -> None:
        """Lock the session for this process until ``close``; the lock file then holds the process
        id and is never deleted. Raises SessionInUse where another process holds the lock,
        OSError where locking is impossible.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(_LOCK, flags, OWN, dir_fd=self.descriptor)
        try:
            os.fchmod(descriptor, OWN)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except BlockingIOError:
            pid = os.pread(descriptor, _PID_BUFFER, 0).strip()
            os.close(descriptor)
            raise SessionInUse(self.path, int(pid) if pid.isdigit() else 0) from None
        except OSError:
            os.close(descriptor)
            raise
        self._lock, self.locked = descriptor, True

    def close(self) -> None:
        """Close the folder and release its lock; a second call does nothing."""
        for descriptor in (self._lock, self.descriptor):
            if descriptor >= 0:
                os.close(descriptor)
        self._lock = self.descriptor = -1
        self.locked = False

    def list_segments(self) -> list[int]:
        """Return the numbers of the journal's files in ascending order."""
        return self._list_numbers(_SEGMENT)

    def list_snapshots(self) -> list[int]:
        """Return the sequence numbers of the snapshots in ascending order."""
        return self._list_numbers(_SNAPSHOT)

    def open_file(self, name: str) -> BinaryIO:
        """Open a file of this folder for reading. Raises OSError, ELOOP for a link, and
        SessionFault for anything but a regular file.
        """
        try:
            return open_plain(name, self.descriptor)
        except NotAFile:
            raise SessionFault("foreign", self.path / name) from None

    def _list_numbers(self, pattern: re.Pattern[str]) -> list[int]:
        """Return the numbers in the file names that match the pattern, in ascending order."""
        found = (pattern.fullmatch(name) for name in os.listdir(self.descriptor))
        return sorted(int(match[1]) for match in found if match)


def _open_subfolder(parent: int, name: str, disk: Disk) -> int:
    """Open a folder inside an open one, created where it is missing. Closes ``parent``."""
    try:
        try:
            os.mkdir(name, OWN_FOLDER, dir_fd=parent)
        except FileExistsError:
            pass
        else:
            os.chmod(name, OWN_FOLDER, dir_fd=parent)  # the umask may have taken our own rights
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
    """Open a folder without following a link, and set the user's own to mode 0700. Raises
    OSError.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=parent)
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & 0o077:
        with contextlib.suppress(OSError):  # on a disk that can only be read
            os.fchmod(descriptor, OWN_FOLDER)
    return descriptor


_SUFFIX: Final = ".draft"
_DRAFT: Final = re.compile(rf"\.[0-9a-f]{{16}}{re.escape(_SUFFIX)}")


@dataclass(frozen=True, slots=True)
class NewFile:
    """A new file with mode 0600 under a temporary name. Its methods raise OSError."""

    _disk: Disk
    _folder: int
    _name: str
    _file: int

    def write(self, data: bytes) -> None:
        """Append the bytes."""
        self._disk.write_all(self._file, data)

    def publish_as(
        self, folder: int, name: str, *, new: bool = False, lasting: bool = True
    ) -> None:
        """Sync the file, unless ``lasting`` is False, and rename it to ``name`` in the open folder
        ``folder``.

        An existing file is replaced; with ``new`` FileExistsError is raised instead. The caller
        syncs the folder.
        """
        if lasting:
            self._disk.sync(self._file)
        move = self._disk.rename_new if new else self._disk.rename
        move(self._folder, self._name, folder, name)


@contextlib.contextmanager
def draft_in(disk: Disk, folder: int) -> Generator[NewFile]:
    """Yield a new file in an open folder, to be published in the block; it is deleted where the
    block raises, GeneratorExit included. Raises OSError.
    """
    name = f".{secrets.token_hex(8)}{_SUFFIX}"
    file = disk.create(folder, name, OWN)
    try:
        os.fchmod(file, OWN)  # the umask may have taken our own rights
        yield NewFile(disk, folder, name, file)
    except BaseException:  # whatever it was, no draft may stay
        with contextlib.suppress(OSError):
            disk.unlink(folder, name)
        raise
    finally:
        os.close(file)


def sweep_drafts(folder: int) -> None:
    """Delete drafts that a killed process left in a folder; only for a folder that no other process
    writes in.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if _DRAFT.fullmatch(name):
                os.unlink(name, dir_fd=folder)
