"""Atomic changes of single files: each happens completely or not at all (R15)."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import hashlib
import logging
import os
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final, TypeVar

from duckflow_tui.safety.paths import (
    WALK,
    ContentChanged,
    Opener,
    PathRefused,
    Place,
    load_libc,
    translate_os_error,
)
from duckflow_tui.safety.risk import TEMP_PREFIX, TEMP_SUFFIX

log = logging.getLogger("duckflow.safety")
_BLOCK = 1024 * 1024
T = TypeVar("T")


class _Abandoned(Exception):
    """The caller was cancelled before the change was committed."""


class Ticket:
    """Decides between two threads whether a change happens: either it is committed, or abandoned
    before.
    """

    def __init__(self) -> None:
        self._abandoned = False

    def commit(self) -> None:
        """Raise _Abandoned if the change was abandoned. The changing thread calls this once
        everything is prepared, before the first visible change.
        """
        if self._abandoned:
            raise _Abandoned

    def abandon_change(self) -> None:
        """Make a later ``commit`` fail; has no effect after it."""
        self._abandoned = True


async def wait_until_done(work: asyncio.Future[Any], on_cancel: Callable[[], object]) -> bool:
    """Wait until ``work`` is done, with or without an error. A cancellation calls ``on_cancel`` and
    does not end the wait. Return whether the caller was cancelled; the caller has to raise that.
    """
    cancelled = False
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            cancelled = True
            on_cancel()
    return cancelled


async def run_change(work: Callable[[Ticket], T]) -> T:
    """Run a change in a thread and return its result. Cancelled before the commit, nothing changes
    and CancelledError is raised. Cancelled after it, the result is returned and CancelledError
    is raised at the caller's next await, so that no change goes unreported.
    """
    ticket = Ticket()
    running = asyncio.ensure_future(asyncio.to_thread(work, ticket))
    cancelled = await wait_until_done(running, ticket.abandon_change)
    error = running.exception()
    if cancelled and error is not None:
        raise asyncio.CancelledError from error
    task = asyncio.current_task()
    if cancelled and task is not None:
        task.uncancel()
        task.cancel()
    return running.result()


class Changer:
    """Writes, deletes and renames regular files below an anchor directory. Blocking."""

    def __init__(self, opener: Opener, disk: Disk) -> None:
        """``opener`` opens parent directories without following links; ``disk`` makes the system
        calls.
        """
        self._opener = opener
        self._disk = disk

    def open_regular(self, anchor: int, path: str, place: Place, flags: int) -> int:
        """Open a regular file, following no link, and return its descriptor. Raises OSError and
        PathRefused.
        """
        with self._open_parent(anchor, path) as (directory, name):
            return _open_regular(directory, name, place, flags)

    def replace_file(
        self,
        anchor: int,
        path: str,
        place: Place,
        data: bytes,
        expect: str,
        mode: int | None,
        ticket: Ticket,
    ) -> list[str]:
        """Replace the content of a file whose SHA-256 is ``expect``. ``mode`` None keeps the
        permission bits and requires write permission. Returns an empty list, as no directory is
        made. Raises ContentChanged and other WorkspaceErrors.
        """
        with (
            _translate_os_errors("write", place),
            self._open_expected_file(anchor, path, place, expect) as old,
        ):
            directory, name, file = old
            if mode is None and not os.access(name, os.W_OK, dir_fd=directory):
                raise PermissionError(13, "", name)
            with self._create_temp_file(directory, data, 0o600) as (temp, new):
                _copy_metadata(new, file, mode)
                self._disk.sync(new)
                ticket.commit()
                self._swap_in(directory, temp, name, file, expect, place)
        return []

    def create_file(
        self, anchor: int, path: str, place: Place, data: bytes, mode: int | None, ticket: Ticket
    ) -> list[str]:
        """Create a file and its missing parent directories; on an error all of them are removed
        again. Returns the directories made, as paths below the anchor, outermost first. Raises
        ContentChanged where the name is in use, and other WorkspaceErrors.
        """
        with (
            _translate_os_errors("create", place),
            self._made_parents(anchor, path) as (directory, name, made),
        ):
            with self._create_temp_file(directory, data, 0o666) as (temp, new):
                if mode is not None:
                    os.fchmod(new, mode & 0o777)
                self._disk.sync(new)
                ticket.commit()
                try:
                    self._disk.rename_new(directory, temp, directory, name)
                    self._disk.sync_directory(directory)
                except FileExistsError as error:
                    raise ContentChanged(place, _hash_at(directory, name)) from error
                except BaseException:  # on any error nothing half done may stay
                    self._discard_name(directory, name, _get_identity(new))
                    raise
            return made

    def remove_file(
        self, anchor: int, path: str, place: Place, expect: str, ticket: Ticket
    ) -> None:
        """Delete a file whose SHA-256 is ``expect``; raises ContentChanged for another content."""
        with (
            _translate_os_errors("delete", place),
            self._open_expected_file(anchor, path, place, expect) as old,
        ):
            directory, name, file = old
            ticket.commit()
            with self._set_aside(directory, name, file, place, expect):
                self._disk.sync_directory(directory)

    def move_file(
        self,
        from_: tuple[int, str],
        source: Place,
        expect: str,
        to: tuple[int, str],
        target: Place,
        ticket: Ticket,
    ) -> list[str]:
        """Rename a file whose SHA-256 is ``expect`` to a name that is free, making missing
        directories. Returns those made, as paths below the target's anchor, outermost first.
        Raises ContentChanged where the source is another one or the target exists.
        """
        with (
            _translate_os_errors("move", source),
            self._open_expected_file(*from_, source, expect) as (old_dir, old_name, file),
            self._made_parents(*to) as (new_dir, new_name, made),
        ):
            ticket.commit()
            try:
                self._disk.rename_new(old_dir, old_name, new_dir, new_name)
            except FileExistsError as error:
                raise ContentChanged(target, _hash_at(new_dir, new_name)) from error
            try:
                _verify_at(new_dir, new_name, file, expect, source)
                self._disk.sync_directory(new_dir)
                self._disk.sync_directory(old_dir)
            except BaseException:  # on any error nothing half done may stay
                self._disk.rename_new(new_dir, new_name, old_dir, old_name)
                raise
        return made

    def remove_directory(self, anchor: int, path: str, place: Place, ticket: Ticket) -> None:
        """Delete an empty directory; raises WorkspaceError for one that is not empty."""
        with (
            _translate_os_errors("remove", place),
            self._open_parent(anchor, path) as (directory, name),
        ):
            ticket.commit()
            os.rmdir(name, dir_fd=directory)
            self._disk.sync_directory(directory)

    # --- parts -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _open_parent(self, anchor: int, path: str) -> Generator[tuple[int, str]]:
        """Open the parent directory of a path; give its descriptor and the last name of
        the path.
        """
        parents, _, name = path.rpartition("/")
        directory = self._opener(anchor, parents, WALK, 0)
        try:
            # A directory opened with O_PATH cannot be synced; open the same one for reading.
            full = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        except PermissionError:
            full = os.dup(directory)
        finally:
            os.close(directory)
        try:
            yield full, name
        finally:
            os.close(full)

    @contextlib.contextmanager
    def _open_expected_file(
        self, anchor: int, path: str, place: Place, expect: str
    ) -> Generator[tuple[int, str, int]]:
        """Open a file whose SHA-256 is ``expect``; give the descriptor of its directory, its name
        and its own descriptor. Raises ContentChanged where it is missing or has another content.
        """
        with contextlib.ExitStack() as stack:
            try:
                directory, name = stack.enter_context(self._open_parent(anchor, path))
                file = _open_regular(directory, name, place, os.O_RDONLY)
            except FileNotFoundError as error:
                raise ContentChanged(place, "") from error
            stack.callback(os.close, file)
            _verify_digest(file, expect, place)
            yield directory, name, file

    @contextlib.contextmanager
    def _made_parents(self, anchor: int, path: str) -> Generator[tuple[int, str, list[str]]]:
        """Make the missing parent directories of a path; give the descriptor of its parent, its
        last name and the directories made. An error in the body removes them again.
        """
        parents = path.split("/")[:-1]
        made: list[str] = []
        try:
            for at in range(1, len(parents) + 1):
                with self._open_parent(anchor, "/".join(parents[:at])) as (directory, name):
                    try:
                        os.mkdir(name, dir_fd=directory)
                    except FileExistsError:
                        continue
                    made.append("/".join(parents[:at]))
                    self._disk.sync_directory(directory)
            with self._open_parent(anchor, path) as (directory, name):
                yield directory, name, made
        except BaseException:  # on any error nothing half done may stay
            for below in reversed(made):
                with (
                    contextlib.suppress(OSError),
                    self._open_parent(anchor, below) as (directory, name),
                ):
                    os.rmdir(name, dir_fd=directory)
            raise

    @contextlib.contextmanager
    def _create_temp_file(
        self, directory: int, data: bytes, mode: int
    ) -> Generator[tuple[str, int]]:
        """Write ``data`` to a new temporary file; give its name and descriptor. At the end the name
        is removed, unless the file was renamed.
        """
        name = f"{TEMP_PREFIX}{secrets.token_hex()}{TEMP_SUFFIX}"
        file = self._disk.create(directory, name, mode)
        identity = _get_identity(file)
        try:
            self._disk.write_all(file, data)
            yield name, file
        finally:
            os.close(file)
            self._discard_name(directory, name, identity)

    def _swap_in(
        self, directory: int, temp: str, name: str, file: int, expect: str, place: Place
    ) -> None:
        """Rename ``temp`` over ``name``. Where the file system can exchange names, the old file is
        verified once more afterwards and restored if somebody wrote to it. Raises
        ContentChanged.
        """
        _verify_at(directory, name, file, expect, place)
        if not self._disk.exchange(directory, temp, name):
            self._disk.rename(directory, temp, directory, name)
            try:
                self._disk.sync_directory(directory)
            except OSError as error:
                log.warning("%s is written, its directory not synced: %s", place.shown, error)
            return
        try:
            _verify_at(directory, temp, file, expect, place)
            self._disk.sync_directory(directory)
        except BaseException:  # on any error nothing half done may stay
            self._disk.exchange(directory, temp, name)
            raise
        self._discard_name(directory, temp, _get_identity(file))

    @contextlib.contextmanager
    def _set_aside(
        self, directory: int, name: str, file: int, place: Place, expect: str
    ) -> Generator[None]:
        """Rename a file to a temporary name, restore it on an error in the body, else delete it."""
        temp = f"{TEMP_PREFIX}{secrets.token_hex()}{TEMP_SUFFIX}"
        try:
            self._disk.rename_new(directory, name, directory, temp)
        except FileNotFoundError as error:
            raise ContentChanged(place, "") from error
        try:
            _verify_at(directory, temp, file, expect, place)
            yield
        except BaseException:  # on any error nothing half done may stay
            self._disk.rename_new(directory, temp, directory, name)
            raise
        # From here nothing is reverted; at worst a temporary file stays.
        self._discard_name(directory, temp, _get_identity(file))
        try:
            self._disk.sync_directory(directory)
        except OSError as error:
            log.warning("the directory of %s is not synced: %s", place.shown, error)

    def _discard_name(self, directory: int, name: str, identity: tuple[int, int]) -> None:
        """Unlink a name if it still belongs to the file with this identity; an OSError is only
        logged.
        """
        if _identity_at(directory, name) != identity:
            return
        try:
            self._disk.unlink(directory, name)
        except OSError as error:
            log.warning("cannot remove %s: %s", name, error)


@contextlib.contextmanager
def _translate_os_errors(doing: str, place: Place) -> Generator[None]:
    """Raise OSErrors of the body as WorkspaceErrors; ``doing`` is the verb for the message."""
    try:
        yield
    except OSError as error:
        raise translate_os_error(doing, place, error) from error


def _open_regular(directory: int, name: str, place: Place, flags: int) -> int:
    """Open a regular file without following a link. Its kind is looked at first, as opening a
    device or a FIFO may have an effect. Raises PathRefused for any other kind.
    """
    mode = os.lstat(name, dir_fd=directory).st_mode
    if stat.S_ISLNK(mode):
        raise PathRefused("moved", place.shown)
    if not stat.S_ISREG(mode):
        code = "is_directory" if stat.S_ISDIR(mode) else "special_file"
        raise PathRefused(code, place.shown)
    file = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise PathRefused("moved", place.shown)


def _verify_digest(file: int, expect: str, place: Place) -> None:
    """Raise ContentChanged unless the SHA-256 of the open file is ``expect``."""
    now = _hash_file(file)
    if now != expect:  # R15a
        raise ContentChanged(place, now)


def _verify_at(directory: int, name: str, file: int, expect: str, place: Place) -> None:
    """Raise ContentChanged unless the name belongs to the open file and its SHA-256 is
    ``expect``.
    """
    if _identity_at(directory, name) != _get_identity(file):
        raise ContentChanged(place, _hash_at(directory, name))
    _verify_digest(file, expect, place)


def _hash_file(file: int) -> str:
    """Return the SHA-256 of an open file from its start; its position does not move."""
    total = hashlib.sha256()
    at = 0
    while block := os.pread(file, _BLOCK, at):
        total.update(block)
        at += len(block)
    return total.hexdigest()


def _hash_at(directory: int, name: str) -> str:
    """Return the SHA-256 of the regular file at a name; empty where there is none or it cannot be
    opened.
    """
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except OSError:
        return ""
    try:
        return _hash_file(file) if stat.S_ISREG(os.fstat(file).st_mode) else ""
    finally:
        os.close(file)


def _get_identity(file: int) -> tuple[int, int]:
    """Return device and inode of an open file."""
    info = os.fstat(file)
    return info.st_dev, info.st_ino


def _identity_at(directory: int, name: str) -> tuple[int, int] | None:
    """Return device and inode of the entry at a name, links not followed; None where there
    is none.
    """
    try:
        info = os.lstat(name, dir_fd=directory)
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _copy_metadata(new: int, old: int, mode: int | None) -> None:
    """Copy owner, extended attributes and permission bits from the old file to the new one;
    ``mode`` replaces the bits. Owner and attributes are skipped where not permitted.
    """
    was, is_ = os.fstat(old), os.fstat(new)
    if (was.st_uid, was.st_gid) != (is_.st_uid, is_.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(new, was.st_uid, was.st_gid)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(old):
                if name != "security.capability":
                    os.setxattr(new, name, os.getxattr(old, name))
    os.fchmod(new, (stat.S_IMODE(was.st_mode) if mode is None else mode) & 0o777)


_NOT_THERE: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})

# Also EBADF: a directory without read permission has only an O_PATH descriptor.
_NO_SYNC: Final = _NOT_THERE | {errno.EBADF}


class Disk:
    """System calls on files, replaceable in tests. Names are relative to open directories; every
    method raises OSError.
    """

    def create(self, directory: int, name: str, mode: int) -> int:
        """Create a file and open it for writing; fails when the name exists."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, mode, dir_fd=directory)

    def append_to(self, directory: int, name: str) -> int:
        """Open an existing file for appending."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags, dir_fd=directory)

    def write(self, file: int, data: memoryview) -> int:
        """Write bytes once; return how many were written."""
        return os.write(file, data)

    def write_all(self, file: int, data: bytes) -> None:
        """Write all bytes, in as many writes as needed."""
        left = memoryview(data)
        while left:
            left = left[self.write(file, left) :]

    def sync(self, file: int) -> None:
        """Flush a file to the disk, so that it survives a power loss."""
        os.fsync(file)

    def sync_data(self, file: int) -> None:
        """Flush the content and the length of a file to the disk, without its times."""
        if sys.platform == "darwin":
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)  # fsync leaves data in the cache of the drive
        else:
            os.fdatasync(file)

    def sync_directory(self, directory: int) -> None:
        """Flush the names in a directory to the disk; does nothing where the file system does not
        support it.
        """
        try:
            os.fsync(directory)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise

    def unlink(self, directory: int, name: str) -> None:
        """Remove a name."""
        os.unlink(name, dir_fd=directory)

    def rename(self, source_dir: int, source: str, target_dir: int, target: str) -> None:
        """Rename, replacing the target if it exists."""
        os.rename(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir)

    def rename_new(self, source_dir: int, source: str, target_dir: int, target: str) -> None:
        """Rename to a name that must be free; raises FileExistsError when it is not."""
        if _rename_exclusively(source_dir, source, target_dir, target, exchange=False):
            return
        os.link(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir, follow_symlinks=False)
        try:
            os.unlink(source, dir_fd=source_dir)
        except OSError:
            os.unlink(target, dir_fd=target_dir)  # else the file would have two names
            raise

    def exchange(self, directory: int, one: str, other: str) -> bool:
        """Exchange two names atomically; return False where the file system cannot."""
        return _rename_exclusively(directory, one, directory, other, exchange=True)


def _rename_exclusively(
    source_dir: int, source: str, target_dir: int, target: str, *, exchange: bool
) -> bool:
    """Rename without replacing the target, or exchange both names; return False where the system
    does not support it. Raises OSError.
    """
    call = _find_rename_call()
    if call is None:
        return False
    new_only, swap = (4, 2) if sys.platform == "darwin" else (1, 2)
    done = call(
        ctypes.c_int(source_dir),
        ctypes.c_char_p(os.fsencode(source)),
        ctypes.c_int(target_dir),
        ctypes.c_char_p(os.fsencode(target)),
        ctypes.c_uint(swap if exchange else new_only),
    )
    if done == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_THERE:
        return False
    raise OSError(number, os.strerror(number), target)


def _find_rename_call() -> Callable[..., int] | None:
    """Return ``renameat2`` of Linux or ``renameatx_np`` of macOS; None where libc has neither."""
    name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
    return getattr(load_libc(), name, None)


def remove_tree(folder: Path) -> None:
    """Remove a folder, which no process may use any more, and everything in it at any depth. Links
    are not followed; what cannot be removed stays. Blocking; raises nothing.
    """
    try:  # shutil.rmtree fails at a depth that a command can create
        subprocess.run(
            ["rm", "-rf", "--", folder],
            env={"PATH": os.defpath},
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
