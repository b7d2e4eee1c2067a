"""Opening below a directory descriptor, so that no link and no ``..`` leads out of it (R01)."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable
from typing import Final

#: ``opener(directory, path, flags, mode)``: ``path`` is relative, holds no link and no ``..``.
#: Raises OSError: ELOOP or ENOTDIR when a component is a link.
Opener = Callable[[int, str, int, int], int]

#: Flags for a directory that is only walked through: needs no read permission where possible.
WALK: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_OPENAT2: Final = 437  # the same number on every architecture that Python has wheels for
_NO_MAGICLINKS: Final = 0x02
_NO_SYMLINKS: Final = 0x04
_BENEATH: Final = 0x08
_TRIES: Final = 16  # EAGAIN: a rename elsewhere raced with the walk; the kernel asks to retry


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_in_kernel(directory: int, path: str, flags: int, mode: int = 0) -> int:
    """``openat2`` with RESOLVE_BENEATH: the kernel itself refuses to leave the directory."""
    libc = _libc()
    how = _OpenHow(flags | os.O_CLOEXEC, mode, _BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS)
    name = os.fsencode(path or ".")
    for _ in range(_TRIES):
        result = libc.syscall(
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
    """The same where the kernel cannot: one descriptor a component, none of them a link."""
    *parents, name = path.split("/") if path else ["."]
    here = os.dup(directory)
    try:
        for parent in parents:
            if parent in ("", ".."):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
            below = os.open(parent, WALK, dir_fd=here)
            os.close(here)
            here = below
        if name == "..":
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=here)
    finally:
        os.close(here)


@functools.cache
def best_opener() -> Opener:
    """What this machine has; old kernels and some containers refuse ``openat2``."""
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
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
