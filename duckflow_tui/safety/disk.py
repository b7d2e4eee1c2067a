"""The calls that change a disk. One small class, because each of them can fail on its own."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import sys
from typing import Final

_NOT_THERE: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})

# Besides, a directory that may be entered but not read has only a descriptor that cannot sync.
_NO_SYNC: Final = _NOT_THERE | {errno.EBADF}

_RENAMEAT2: Final = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "armv7l": 382, "ppc64le": 357}


class Disk:
    """Names are relative to open directories. Every method raises OSError."""

    def create(self, directory: int, name: str, mode: int) -> int:
        """A new file open for writing, refused when the name is taken."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, mode, dir_fd=directory)

    def append_to(self, directory: int, name: str) -> int:
        """A file that is there, open so that every write goes to its end."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags, dir_fd=directory)

    def write(self, file: int, data: memoryview) -> int:
        """As many bytes as fit at once; returns how many."""
        return os.write(file, data)

    def write_all(self, file: int, data: bytes) -> None:
        """All of them, in as many writes as it takes."""
        left = memoryview(data)
        while left:
            left = left[self.write(file, left) :]

    def sync(self, file: int) -> None:
        """Return once what was written to the file survives a power loss."""
        os.fsync(file)

    def sync_data(self, file: int) -> None:
        """The same for the bytes of a file and its length, not for its times."""
        if sys.platform == "darwin":
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)  # fsync leaves them in the cache of the drive
        else:
            os.fdatasync(file)

    def sync_directory(self, directory: int) -> None:
        """The same for names; some file systems cannot, and need not."""
        try:
            os.fsync(directory)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise

    def unlink(self, directory: int, name: str) -> None:
        """Take a name away."""
        os.unlink(name, dir_fd=directory)

    def rename(self, source_dir: int, source: str, target_dir: int, target: str) -> None:
        """Move over whatever is there."""
        os.rename(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir)

    def rename_new(self, source_dir: int, source: str, target_dir: int, target: str) -> None:
        """Move to a name that must be free; FileExistsError when it is not."""
        if _rename(source_dir, source, target_dir, target, exchange=False):
            return
        os.link(
            source,
            target,
            src_dir_fd=source_dir,
            dst_dir_fd=target_dir,
            follow_symlinks=False,
        )
        try:
            os.unlink(source, dir_fd=source_dir)
        except OSError:
            os.unlink(target, dir_fd=target_dir)  # one file under two names is no move
            raise

    def exchange(self, directory: int, one: str, other: str) -> bool:
        """Let two names change places at once; False where the file system cannot."""
        return _rename(directory, one, directory, other, exchange=True)


def _rename(source_dir: int, source: str, target_dir: int, target: str, *, exchange: bool) -> bool:
    """Rename without replacing, or exchanging; False where there is no such call."""
    call = _renamer()
    if call is None:
        return False
    if call(source_dir, os.fsencode(source), target_dir, os.fsencode(target), exchange) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_THERE:
        return False
    raise OSError(number, os.strerror(number), target)


class _Renamer:
    """``renameat2`` of Linux or ``renameatx_np`` of macOS."""

    def __init__(self, function: ctypes.CDLL, number: int | None) -> None:
        self._libc = function
        self._number = number

    def __call__(self, from_dir: int, old: bytes, to_dir: int, new: bytes, exchange: bool) -> int:
        names = (
            ctypes.c_int(from_dir),
            ctypes.c_char_p(old),
            ctypes.c_int(to_dir),
            ctypes.c_char_p(new),
        )
        if self._number is None:
            return int(self._libc.renameatx_np(*names, ctypes.c_uint(2 if exchange else 4)))
        flags = ctypes.c_uint(2 if exchange else 1)
        return int(self._libc.syscall(ctypes.c_long(self._number), *names, flags))


@functools.cache
def _renamer() -> _Renamer | None:
    if sys.platform == "darwin":
        return _Renamer(ctypes.CDLL(None, use_errno=True), None)
    number = _RENAMEAT2.get(os.uname().machine) if sys.platform.startswith("linux") else None
    return _Renamer(ctypes.CDLL(None, use_errno=True), number) if number else None
