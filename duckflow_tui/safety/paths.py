"""Resolves a path component by component and records every link (R02); the values and errors of
paths; openers that follow no link (R01).
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
import sys
import unicodedata
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from duckflow_tui.state.base import ToldError, clip_value
from duckflow_tui.state.operations import Zone

MAX_LINKS = 40  # as Linux counts them
MAX_PATH = 4096  # bytes

#: (device, inode)
Identity = tuple[int, int]


@dataclass(frozen=True)
class Location:
    """A location without links: the names from ``/`` on, with the identities of the names that
    exist, which come first.
    """

    names: tuple[str, ...]
    ids: tuple[Identity | None, ...]

    @property
    def path(self) -> str:
        """The absolute path."""
        return "/" + "/".join(self.names)


@dataclass
class Walk:
    """The location that a path leads to, and every link that was followed on the way."""

    end: Location
    at: Location  # of the last name of the path; differs from ``end`` when it is a link
    links: list[Location] = field(default_factory=list[Location])
    missing: int = 0  # how many of the last names do not exist
    info: os.stat_result | None = None  # of the end, None while absent


def walk_path(start: Location, path: str, shown: str) -> Walk:
    """Resolve ``path`` from ``start`` as the system would; ``shown`` names it in errors. Raises
    PathRefused.

    Whenever the walk reaches the directory ``start`` itself, recognized by its identity, it
    continues as if it had begun there: links, mounts and spellings used to reach it are forgotten.
    Exception: a link that is the last name of the path and leads further down stays recorded.
    """
    pending = deque(path.split("/"))
    names, ids = list(start.names), list(start.ids)
    root = ids[-1] if ids else None
    if path.startswith("/"):
        names, ids = [], []
    links: list[Location] = []
    at: Location | None = None
    followed = missing = 0
    info: os.stat_result | None = None
    while True:
        if root is not None and not missing and ids[-1:] == [root]:
            names, ids = list(start.names), list(start.ids)
            if at is None or not any(map(_is_name, pending)):
                links, at = [], None
        if not pending:
            break
        name = pending.popleft()
        if not _is_name(name):
            continue
        if info is not None and not stat.S_ISDIR(info.st_mode):
            raise PathRefused("not_a_directory", shown)
        if name == "..":
            if missing:
                raise PathRefused("parent_of_missing", shown)
            del names[-1:], ids[-1:]
            info = None
            continue
        if missing:
            names.append(name)
            missing += 1
            continue
        here = "/" + "/".join(names)
        name, info = _look_up_entry(here, name, shown)
        if info is None:
            names.append(name)
            missing = 1
            continue
        spot = Location((*names, name), (*ids, (info.st_dev, info.st_ino)))
        if not stat.S_ISLNK(info.st_mode):
            names.append(name)
            ids.append(spot.ids[-1])
            continue
        links.append(spot)
        followed += 1  # not ``len(links)``, which is reset at the root
        if followed > MAX_LINKS:
            raise PathRefused("link_loop", shown)
        if at is None and not any(map(_is_name, pending)):
            at = spot
        target = _read_link(spot.path, shown)
        if target.startswith("/"):
            names, ids = [], []
        pending.extendleft(reversed(target.split("/")))
        info = None
    end = Location(tuple(names), tuple(ids))
    if info is None and not missing:
        info = _stat_entry(end.path, shown)
        if info is None:
            raise PathRefused("moved", shown)
    return Walk(end=end, at=at or end, links=links, missing=missing, info=info)


def _is_name(part: str) -> bool:
    """Whether a component of a path moves the walk: not empty and not ``.``."""
    return part not in ("", ".")


def _look_up_entry(directory: str, name: str, shown: str) -> tuple[str, os.stat_result | None]:
    """Return the name as the directory spells it, and its stat result; None where it is absent.
    Non-ASCII names match in any Unicode normal form. Raises PathRefused where two match.
    """
    info = _stat_entry(f"{directory}/{name}" if directory != "/" else f"/{name}", shown)
    if info is not None or name.isascii():
        return name, info
    wanted = unicodedata.normalize("NFC", name)
    try:
        entries = os.listdir(directory)
    except OSError:
        return name, None
    twins = [e for e in entries if unicodedata.normalize("NFC", e) == wanted]
    if len(twins) > 1:  # R02c
        raise PathRefused("ambiguous", shown)
    if not twins:
        return name, None
    return twins[0], _stat_entry(f"{directory}/{twins[0]}", shown)


def _stat_entry(path: str, shown: str) -> os.stat_result | None:
    """Return the stat result of a path, a link not followed; None where it is absent. Raises
    PathRefused.
    """
    try:
        return os.lstat(path)
    except OSError as error:
        code = _CODES.get(error.errno, "unreadable")  # R02b
        if code == "absent":
            return None
        raise PathRefused(code, shown) from error


def _read_link(path: str, shown: str) -> str:
    """Return the target of a link; raises PathRefused where it changed meanwhile."""
    try:
        return os.readlink(path)
    except OSError as error:
        raise PathRefused("moved", shown) from error


_CODES: Final[dict[int | None, str]] = {
    errno.ENOENT: "absent",
    errno.ENOTDIR: "not_a_directory",
    errno.ELOOP: "link_loop",
    errno.ENAMETOOLONG: "too_long",
}


class FileKind(StrEnum):
    """The kind of a directory entry. ``SPECIAL``: FIFO, socket or device; listed, never opened."""

    FILE = "file"
    DIR = "dir"
    LINK = "link"
    SPECIAL = "special"


@dataclass(frozen=True)
class Place:
    """A judged path, with the facts at the moment of ``Workspace.locate_path``. ``zone`` is the
    strictest of the path itself and of every link on the way (R02).
    """

    given: str  # the path as given
    shown: str  # path of the name: relative to the workspace inside, absolute outside
    resolved: str  # ``real``, relative or absolute likewise; differs from ``shown`` behind a link
    real: Path  # absolute, no link in it
    zone: Zone
    exists: bool = False
    is_dir: bool = False
    is_link: bool = False  # the last name is a symbolic link, ``real`` is what it leads to
    leads_out: bool = False  # the link lies inside the workspace and leads outside
    size: int = 0  # bytes of the file
    mode: int | None = None  # permission bits of the file
    secret: bool = False  # a secret's name, outside the workspace too
    reasons: tuple[str, ...] = ()  # codes: why the zone is what it is

    @property
    def label(self) -> str:
        """``shown`` for use in a sentence: unprintable characters escaped, cut to a limit."""
        return clip_value(self.shown)

    @property
    def resolved_prefix(self) -> str:
        """The text with which ``resolved`` begins for every path in this directory; empty for the
        root.
        """
        return "" if self.resolved == "." else f"{self.resolved.rstrip('/')}/"

    @property
    def names_directory(self) -> bool:
        """Whether the path was written like a directory: ``new/`` or ``new/.``."""
        return self.given.endswith((os.sep, f"{os.sep}."))


class DirectoryEntry(NamedTuple):
    """An entry found by ``Workspace.scan_directory``. A tuple, because there may be 100,000 of
    them.
    """

    path: str  # relative to the workspace, absolute for a place outside
    name: str
    kind: FileKind
    zone: Zone
    size: int = 0  # bytes, of a file
    depth: int = 1  # 1 for entries of the scanned directory itself
    deep: bool = False  # a directory too deep to be entered: see ``scan_below``


class WorkspaceError(ToldError):
    """The path ``shown`` cannot be used. ``code`` is stable; the text for the model is
    ``path.<text>``, or ``path.<code>`` without ``text``.
    """

    def __init__(self, code: str, shown: str, text: str = "", **values: str) -> None:
        super().__init__(f"path.{text or code}", shown=clip_value(shown), **values)
        self.code = code
        self.shown = shown


class PathRefused(WorkspaceError):
    """The path may not be used in this way, with or without approval."""


class ContentChanged(WorkspaceError):
    """The file is not the one that was shown to the user (R15); nothing was changed. ``now_sha`` is
    the SHA-256 of the present file, empty when there is none.
    """

    def __init__(self, place: Place, now_sha: str) -> None:
        """``now_sha``: SHA-256 of the present file, empty when there is none."""
        super().__init__("content_changed", place.shown, "changed" if now_sha else "gone")
        self.place = place
        self.now_sha = now_sha


class WorkspaceGone(WorkspaceError):
    """The workspace directory was deleted, renamed or replaced (R03)."""

    def __init__(self, root: Path) -> None:
        super().__init__("workspace_gone", str(root))


class FileFailed(WorkspaceError):
    """The system reported an error: not found, no space, read-only, I/O. The old content is intact.

    ``code`` is ``not_found``, ``exists``, ``no_space``, ``read_only``, ``no_permission``,
    ``other_device`` or ``io_error``; ``errno`` is the system's. ``doing`` is the verb that selects
    the text ``path.cannot_<doing>``.
    """

    def __init__(self, doing: str, shown: str, error: OSError) -> None:
        number = error.errno or errno.EIO
        code = FAILURES.get(number, "io_error")
        super().__init__(code, shown, f"cannot_{doing}", reason=os.strerror(number))
        self.errno = number


FAILURES: dict[int, str] = {
    errno.ENOENT: "not_found",
    errno.EEXIST: "exists",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EFBIG: "no_space",
    errno.EROFS: "read_only",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.EXDEV: "other_device",
}


def translate_os_error(doing: str, place: Place, error: OSError) -> WorkspaceError:
    """Return the WorkspaceError for an OSError on a judged path: PathRefused where a component
    became a link, else FileFailed. ``doing`` is the verb for the message.
    """
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return PathRefused("moved", place.shown)
    return FileFailed(doing, place.shown, error)


#: ``opener(directory, path, flags, mode)``: ``path`` is relative, holds no link and no ``..``.
#: Raises OSError: ELOOP or ENOTDIR when a component is a link.
Opener = Callable[[int, str, int, int], int]

#: Flags for a directory that is only traversed: needs no read permission where possible.
WALK: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPENAT2: Final = 437  # the same number on every architecture that Python has wheels for
_NO_MAGICLINKS: Final = 0x02
_NO_SYMLINKS: Final = 0x04
_BENEATH: Final = 0x08
_TRIES: Final = 16  # EAGAIN: a rename elsewhere raced with the walk; the kernel asks to retry


class _OpenHow(ctypes.Structure):
    """``struct open_how`` of Linux."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_in_kernel(directory: int, path: str, flags: int, mode: int = 0) -> int:
    """Open a path below a directory by ``openat2`` with RESOLVE_BENEATH and no links; return the
    descriptor. Linux only. Raises OSError.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, mode, _BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS)  # R01b
    name = os.fsencode(path or ".")
    for _ in range(_TRIES):
        result = load_libc().syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(directory),
            ctypes.c_char_p(name),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if result >= 0:
            return int(result)
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number), path)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


def open_by_component(directory: int, path: str, flags: int, mode: int = 0) -> int:
    """Open a path below a directory one component at a time, following no link; return the
    descriptor. For systems without ``openat2``. Raises OSError.
    """
    *parents, name = path.split("/") if path else ["."]
    if "" in parents or ".." in (*parents, name):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    here = os.dup(directory)
    try:
        for parent in parents:
            below = os.open(parent, WALK, dir_fd=here)  # R01c
            os.close(here)
            here = below
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=here)
    finally:
        os.close(here)


@functools.cache
def choose_opener() -> Opener:
    """Return the opener for this machine: ``open_in_kernel`` where it works, else
    ``open_by_component`` (old kernels, some containers, macOS). Cached.
    """
    if not sys.platform.startswith("linux"):
        return open_by_component
    try:
        here = os.open("/", WALK)
        try:
            os.close(open_in_kernel(here, ".", WALK))
        finally:
            os.close(here)
    except OSError:
        return open_by_component
    return open_in_kernel


@functools.cache
def load_libc() -> ctypes.CDLL:
    """Return the C library of this process, loaded once; ``ctypes.get_errno`` gives its errors."""
    return ctypes.CDLL(None, use_errno=True)


def lies_inside(path: str, workspace: Path) -> bool:
    """Whether a path lies in the workspace or leads into it through links, however it is spelled.
    ``workspace`` must hold no link.
    """
    folder, name = os.path.split(os.path.abspath(path))
    spelled = (os.path.join(os.path.realpath(folder), name), os.path.realpath(path))
    return any(Path(one).is_relative_to(workspace) for one in spelled)
