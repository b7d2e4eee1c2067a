"""Small files of the app's own that the user may edit: read whole, replaced at once."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Generator
from pathlib import Path
from typing import Final

from duckflow_tui.safety.disk import Disk
from duckflow_tui.session.drafts import draft_in

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SmallFiles:
    """A folder of the app, mode 0700, its files 0600. No link is followed. Raises OSError."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or Disk()

    def read(self, name: str, limit: int) -> bytes | None:
        """At most ``limit`` bytes and one more, which says that there is more; None without it."""
        try:
            folder = os.open(self._folder, _FOLDER)
        except FileNotFoundError:
            return None
        try:
            return self._read(folder, name, limit)
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def changing(self) -> Generator[int]:
        """The folder, made where it lacks, with no other process of ours changing it meanwhile."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(self._folder, _FOLDER)
        try:
            if stat.S_IMODE(os.fstat(folder).st_mode) != 0o700:
                os.fchmod(folder, 0o700)
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(folder)

    def replace(self, folder: int, name: str, data: bytes) -> None:
        """Give the file this content, wholly or not at all; ``folder`` is that of ``changing``."""
        with draft_in(self._disk, folder) as draft:
            draft.write(data)
            draft.become(folder, name)
        self._disk.sync_directory(folder)

    def read_within(self, folder: int, name: str, limit: int) -> bytes | None:
        """``read`` while the folder is held by ``changing``."""
        return self._read(folder, name, limit)

    def _read(self, folder: int, name: str, limit: int) -> bytes | None:
        try:
            file = os.open(name, _FILE, dir_fd=folder)
        except FileNotFoundError:
            return None
        with os.fdopen(file, "rb") as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise OSError(errno.EINVAL, "is no regular file", name)
            return source.read(limit + 1)
