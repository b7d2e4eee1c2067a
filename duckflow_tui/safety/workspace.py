"""The workspace: judges and opens every path that a model gives, by descriptor (R01…R03, R09)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Generator, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Final

import aiofiles

from duckflow_tui.safety.file_changes import Changer, Disk, run_change
from duckflow_tui.safety.names import has_unseen_characters
from duckflow_tui.safety.paths import (
    MAX_PATH,
    WALK,
    DirectoryEntry,
    FileFailed,
    Location,
    Opener,
    PathRefused,
    Place,
    Walk,
    WorkspaceGone,
    choose_opener,
    translate_os_error,
    walk_path,
)
from duckflow_tui.safety.risk import ZoneMap, scan_below, strictest_zone
from duckflow_tui.state.operations import Zone

MAX_READ: Final = 32 * 1024 * 1024  # bytes of a file that is read whole; safety.md, R18


class Workspace:
    """One directory, pinned by device and inode for the lifetime of the object (R03).

    ``root`` is absolute and holds no link. ``locate_path`` judges a path and gives a ``Place``;
    every other method opens that place anew by descriptor, and refuses if a component was replaced
    meanwhile.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        own_dirs: Iterable[Path] = (),
        repositories: Iterable[Path] = (),
        home: Path | None = None,
        opener: Opener | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Pin ``path``. ``own_dirs`` (config, data, state of the app) are protected, also while
        absent; so are ``repositories``, to which environment variables of git lead, except one
        that contains the workspace. ``home`` is the value of ``~``. ``opener`` and ``disk``
        replace the system calls. Raises ``WorkspaceGone`` when ``path`` is no directory.
        """
        self.root = Path(os.path.realpath(path))
        try:
            self._fd = os.open(self.root, WALK)
        except OSError as error:
            raise WorkspaceGone(self.root) from error
        info = os.fstat(self._fd)
        led = (Path(os.path.realpath(place)) for place in repositories)
        closed = (*own_dirs, *(place for place in led if not self.root.is_relative_to(place)))
        self._zones = ZoneMap(self.root, (info.st_dev, info.st_ino), closed)
        names = self.root.parts[1:]
        ids = (*(None for _ in names[1:]), self._zones.identity) if names else ()
        self._start = Location(names, ids)  # of every relative path
        self._home = home
        self._opener = opener or choose_opener()
        self._changer = Changer(self._opener, disk or Disk())

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode of the pinned directory."""
        return self._zones.identity

    def close(self) -> None:
        """Close the descriptor of the directory; the object cannot be used afterwards."""
        if self._fd != -1:
            os.close(self._fd)
            self._fd = -1

    def is_intact(self) -> bool:
        """Whether the root's path still leads to the pinned directory."""
        try:
            info = os.lstat(self.root)
        except OSError:
            return False
        return (info.st_dev, info.st_ino) == self._zones.identity  # R03a

    @property
    def closed_places(self) -> tuple[Path, ...]:
        """Places of git and of the app that no command may change; they may be absent."""
        return (self.root / ".git", self.root / ".duckflow", *self._zones.own)

    @property
    def git_places(self) -> tuple[Path, ...]:
        """Places whose content git obeys; they may be absent."""
        return (self.root / ".git", *self._zones.git)

    def read_git_settings(self) -> None:
        """Update ``closed_places`` and ``git_places`` from the present settings of git, which may
        change at any time. ``locate_path`` calls this. Blocking.
        """
        self._zones.read_git_settings()

    def protect_found(self, paths: Iterable[Path]) -> None:
        """Protect these places, found by a search below the root, in place of those of the last
        call. They are where repositories in the workspace lead, and may lie anywhere.
        """
        self._zones.protect_found(paths)

    # --- judging -----------------------------------------------------------------------------

    def locate_path(self, given: str) -> Place:
        """Judge a path: relative to the root, absolute, or ``~/…``. Fast; reads no content of files
        except git's settings. Raises ``PathRefused`` for an invalid or ambiguous path (R02), and
        ``WorkspaceGone``.
        """
        self._check_intact()
        self.read_git_settings()
        path = self._expand_path(given)
        found = walk_path(self._start, path, given)
        if found.missing and any(map(has_unseen_characters, found.end.names[-found.missing :])):
            raise PathRefused("odd_name", given)
        end = self._zones.judge_location(found.end)
        zone, secret, reasons = end.zone, end.secret, {end.reason}
        for link in map(self._zones.judge_location, found.links):
            zone = strictest_zone((zone, link.zone))  # R02a
            secret = secret or link.secret
            reasons.add(link.reason)
        at = self._zones.below_root(found.at)
        leads_out = at is not None and end.inside is None
        if leads_out:
            reasons.add("link_out")
        info = found.info
        if info is not None:
            if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
                if at is not None:
                    raise PathRefused("special_file", given)
                reasons.add("special_file")  # outside, nothing is told before the user agrees
            self._verify_walk(found, end.inside, given)
        file = info if info is not None and stat.S_ISREG(info.st_mode) else None
        if file is not None and file.st_nlink > 1:
            reasons.add("hard_link")
            if self._zones.shares_protected_inode((file.st_dev, file.st_ino)):  # R09b
                zone = Zone.PROTECTED
                reasons.add("protected_inode")
        return Place(
            given=given,
            shown=found.at.path if at is None else "/".join(at) or ".",
            resolved=found.end.path if end.inside is None else "/".join(end.inside) or ".",
            real=Path(found.end.path) if end.inside is None else self.root.joinpath(*end.inside),
            zone=zone,
            exists=info is not None,
            is_dir=info is not None and stat.S_ISDIR(info.st_mode),
            is_link=found.at is not found.end,
            leads_out=leads_out,
            size=0 if file is None else file.st_size,
            mode=None if file is None else stat.S_IMODE(file.st_mode),
            secret=secret,
            reasons=tuple(sorted(reasons - {""})),
        )

    # --- reading -----------------------------------------------------------------------------

    async def read_bytes(self, place: Place, start: int = 0, limit: int | None = None) -> bytes:
        """Return the bytes of a regular file from ``start``, at most ``limit`` of them; None: to
        its end, raising ``PathRefused`` over 32 MiB. Also raises ``FileFailed`` and
        ``WorkspaceGone``.
        """
        try:
            async with aiofiles.open(
                place.real, "rb", opener=lambda _, flags: self.open_place(place, flags)
            ) as file:
                size = os.fstat(file.fileno()).st_size
                if limit is None and size - start > MAX_READ:
                    raise PathRefused("too_large", place.shown)
                if start:
                    await file.seek(start)
                return await file.read(MAX_READ if limit is None else limit)
        except OSError as error:
            raise FileFailed("read", place.shown, error) from error

    async def hash_file(self, place: Place) -> str:
        """Return the SHA-256 of the present file, empty when there is none. Raises
        WorkspaceError.
        """
        return await asyncio.to_thread(self._read_digest, place)

    def scan_directory(
        self,
        place: Place,
        *,
        depth: int | None = 1,
        enter: Callable[[DirectoryEntry], bool] | None = None,
        sizes: bool = True,
    ) -> Generator[DirectoryEntry]:
        """Yield the entries below a directory, sorted by name within each. Blocking: run it in a
        thread.

        ``depth`` None: all levels. ``enter(entry)`` tells whether to go into a directory. Links are
        listed, never followed; protected directories are listed, never entered. Without ``sizes``
        files are not looked at, which is faster; their sizes are 0. Raises WorkspaceError.
        """
        directory = self._open_folder(place)
        return scan_below(
            directory, place, depth=depth, enter=enter, sizes=sizes, zones=self._zones
        )

    def stat_path(self, path: str) -> os.stat_result | None:
        """Return the stat result of a path that ``scan_directory`` gave, a link not followed; None
        on an error.
        """
        try:
            return os.stat(path, dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return None

    def open_below(self, path: str, *, folder: bool = False) -> int:
        """Open the regular file, or with ``folder`` the directory, at a path below the root for
        reading, following no link; return the descriptor. The caller must have checked its zone.
        Raises OSError.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        flags |= os.O_DIRECTORY if folder else 0
        file = self._opener(self._fd, path, flags, 0)
        if not folder and not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        return file

    @contextlib.contextmanager
    def open_folder_path(self, place: Place) -> Generator[str]:
        """Give a path by which a child process reaches exactly the judged directory.

        It is valid inside the context. Raises ``PathRefused``, ``FileFailed``, ``WorkspaceGone``.
        """
        folder = self._open_folder(place)
        try:
            by_descriptor = f"/proc/self/fd/{folder}"
            yield by_descriptor if os.path.isdir(by_descriptor) else str(place.real)
        finally:
            os.close(folder)

    # --- changing ----------------------------------------------------------------------------

    async def replace_file(
        self, place: Place, data: bytes, expect: str, mode: int | None = None
    ) -> tuple[str, ...]:
        """Write ``data`` to a file atomically (R15); return the directories made for it, as paths
        to show, outermost first.

        ``expect`` is the SHA-256 of the present file, empty for a file that must not exist.
        ``mode``: permission bits; None keeps those of the present file, which then must be
        writable. Raises ``ContentChanged``, ``FileFailed``, ``PathRefused``, ``WorkspaceGone``;
        nothing is changed then. Cancelled before the swap, nothing changes and CancelledError is
        raised; cancelled after it, the call returns, and CancelledError is raised at the caller's
        next await.
        """
        self._check_changeable(place)
        anchor, path = self._open_anchor(place)
        if expect:
            work = partial(self._changer.replace_file, anchor, path, place, data, expect, mode)
        else:
            work = partial(self._changer.create_file, anchor, path, place, data, mode)
        return self._as_shown(anchor, await run_change(work))

    async def remove_file(self, place: Place, expect: str) -> None:
        """Delete a regular file whose SHA-256 is ``expect``. Raises ``PathRefused`` for directories
        and links, ``ContentChanged``, ``FileFailed`` and ``WorkspaceGone``.
        """
        self._check_changeable(place)
        if place.is_link:
            raise PathRefused("is_link", place.shown)
        anchor, path = self._open_anchor(place)
        await run_change(partial(self._changer.remove_file, anchor, path, place, expect))

    async def move_file(self, source: Place, target: Place, expect: str) -> tuple[str, ...]:
        """Rename a file whose SHA-256 is ``expect``, never over another one; return the directories
        made, as paths to show, outermost first. Raises WorkspaceError; links are refused.
        """
        for place in (source, target):
            self._check_changeable(place)
            if place.is_link:
                raise PathRefused("is_link", place.shown)
        if source.real == target.real:
            raise PathRefused("same_file", target.shown)
        from_, to = self._open_anchor(source), self._open_anchor(target)
        made = await run_change(partial(self._changer.move_file, from_, source, expect, to, target))
        return self._as_shown(to[0], made)

    async def remove_directory(self, place: Place) -> None:
        """Delete an empty directory. Raises WorkspaceError for one that is not empty, and for a
        link.
        """
        self._check_intact()
        no_folder = not place.is_dir or place.real == self.root
        _refuse_protected(place, is_link=place.is_link, not_directory=no_folder)
        anchor, path = self._open_anchor(place)
        await run_change(partial(self._changer.remove_directory, anchor, path, place))

    # --- how ---------------------------------------------------------------------------------

    def _expand_path(self, given: str) -> str:
        """Return the path with ``~`` expanded; raises PathRefused for text that cannot be
        a path.
        """
        if not given.strip():
            raise PathRefused("empty", given)
        if "\0" in given:
            raise PathRefused("nul", given)
        try:
            raw = os.fsencode(given)
        except UnicodeEncodeError as error:
            raise PathRefused("encoding", given) from error
        if len(raw) > MAX_PATH:
            raise PathRefused("too_long", given[:200])
        if given == "~" or given.startswith("~/"):
            given = str(self._home or Path.home()) + given[1:]
        return given

    def _verify_walk(self, found: Walk, inside: tuple[str, ...] | None, given: str) -> None:
        """Check that the judged names lead to the same file when opened by descriptor without links
        (R01). Raises PathRefused.
        """
        names = found.end.names if inside is None else inside
        anchor = self._fd if inside is not None else _open_slash()
        assert found.info is not None
        try:
            parent = self._opener(anchor, "/".join(names[:-1]), WALK, 0)
        except OSError as error:
            code = "unreadable" if error.errno == errno.EACCES else "moved"
            raise PathRefused(code, given) from error
        try:
            info = os.lstat(names[-1] if names else ".", dir_fd=parent)
        except OSError as error:
            raise PathRefused("moved", given) from error
        finally:
            os.close(parent)
        if (info.st_dev, info.st_ino) != (found.info.st_dev, found.info.st_ino):  # R01a
            raise PathRefused("moved", given)

    def _open_anchor(self, place: Place) -> tuple[int, str]:
        """Return a descriptor of the root, or of ``/`` for a place outside, and the link-free path
        from there. The descriptor must not be closed.
        """
        if place.real == self.root:
            return self._fd, ""
        if place.real.is_relative_to(self.root):
            return self._fd, str(place.real.relative_to(self.root))
        return _open_slash(), str(place.real)[1:]

    def _as_shown(self, anchor: int, paths: Iterable[str]) -> tuple[str, ...]:
        """Return paths below an anchor as they are shown: relative to the workspace, else
        absolute.
        """
        return tuple(paths) if anchor == self._fd else tuple(map("/{}".format, paths))

    def _open_folder(self, place: Place) -> int:
        """Open a judged directory for listing and return its descriptor. Raises WorkspaceError."""
        _refuse_protected(place, not_directory=not place.is_dir)
        self._check_intact()
        try:
            return self._opener(*self._open_anchor(place), os.O_RDONLY | os.O_DIRECTORY, 0)
        except OSError as error:
            raise translate_os_error("list", place, error) from error

    def open_place(self, place: Place, flags: int = os.O_RDONLY) -> int:
        """Open the regular file at a place and return its descriptor. Raises PathRefused,
        FileFailed and WorkspaceGone.
        """
        _refuse_protected(place, is_directory=place.is_dir)
        self._check_intact()
        try:
            return self._changer.open_regular(*self._open_anchor(place), place, flags)
        except OSError as error:
            raise translate_os_error("read", place, error) from error

    def _read_digest(self, place: Place) -> str:
        """Return the SHA-256 of the file at a place, empty when there is none. Blocking. Raises
        WorkspaceError.
        """
        try:
            file = self.open_place(place)
        except FileFailed as error:
            if error.code == "not_found":
                return ""
            raise
        try:
            with os.fdopen(file, "rb") as opened:
                return hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            raise translate_os_error("read", place, error) from error

    def _check_intact(self) -> None:
        """Raise WorkspaceGone if the workspace is closed, or its path leads to another
        directory.
        """
        if self._fd == -1 or not self.is_intact():
            raise WorkspaceGone(self.root)

    def _check_changeable(self, place: Place) -> None:
        """Raise PathRefused for a place that no file operation may change, or WorkspaceGone."""
        self._check_intact()
        _refuse_protected(place, is_directory=place.is_dir, link_out=place.leads_out)


def _refuse_protected(place: Place, **others: bool) -> None:
    """Raise PathRefused for a protected place, else for the first code in ``others`` that
    is True.
    """
    for code, holds in {"protected": place.zone is Zone.PROTECTED, **others}.items():
        if holds:
            raise PathRefused(code, place.shown)


@cache
def _open_slash() -> int:
    """Return a descriptor of ``/``, opened once, as the anchor of places outside the workspace."""
    return os.open("/", WALK)
