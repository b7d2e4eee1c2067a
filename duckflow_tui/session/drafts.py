"""Writing a draft beside a file, then giving it the file's name: wholly there, or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Generator
from pathlib import Path
from typing import Final

from duckflow_tui.safety.changing import Disk

_SUFFIX: Final = ".draft"

_DRAFT: Final = re.compile(rf"\.[0-9a-f]{{16}}{re.escape(_SUFFIX)}")


class Draft:
    """A new file 0600 that has no name of its own yet. Every method raises OSError."""

    def __init__(self, disk: Disk, folder: int, name: str) -> None:
        self._disk = disk
        self._folder = folder
        self._name = name
        self._file = disk.create(folder, name, 0o600)

    def write(self, data: bytes) -> None:
        """Append these bytes."""
        self._disk.write_all(self._file, data)

    def become(self, folder: int, name: str, *, new: bool = False) -> None:
        """Sync what was written, and move it to this name; ``new``: only where that is free,
        FileExistsError where it is not. The folder's own sync is left to the caller.
        """
        self._disk.sync(self._file)
        self.close()
        move = self._disk.rename_new if new else self._disk.rename
        move(self._folder, self._name, folder, name)

    def make_private(self) -> None:
        """The umask may have taken our own rights."""
        os.fchmod(self._file, 0o600)

    def close(self) -> None:
        """Give the descriptor back; once is enough."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)

    def drop(self) -> None:
        """Take it away."""
        self.close()
        self._disk.unlink(self._folder, self._name)


@contextlib.contextmanager
def draft_in(disk: Disk, folder: int) -> Generator[Draft]:
    """A draft in an open folder; nothing of it is left when the block raises. Raises OSError.

    GeneratorExit counts: a writer that is a generator may be closed before its end.
    """
    draft = Draft(disk, folder, f".{secrets.token_hex(8)}{_SUFFIX}")
    try:
        draft.make_private()
        yield draft
    except BaseException:
        with contextlib.suppress(OSError):
            draft.drop()
        raise
    finally:
        draft.close()


def sweep(folder: int) -> None:
    """Take away what a killed process, or a disk that failed, left of drafts in an open folder
    that nobody else writes in. Raises nothing.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if _DRAFT.fullmatch(name):
                os.unlink(name, dir_fd=folder)


MAX_LINES = 1000


class ConfirmedOrigins:
    """A text file in the app's data folder, one origin a line; the user may edit it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "confirmed_origins.txt"

    def has(self, origin: str) -> bool:
        """Whether the user confirmed exactly this origin; False when the file cannot be read."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()[:MAX_LINES]
        except (OSError, UnicodeDecodeError):
            return False
        return origin in lines

    def add(self, origin: str) -> None:
        """Remember it; raises OSError when the file cannot be written."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(f"{origin}\n")
