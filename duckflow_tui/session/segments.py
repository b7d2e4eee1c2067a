"""The file of the journal that is written now, and the next one when it cannot go on."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from duckflow_tui.safety.disk import Disk
from duckflow_tui.session.framing import encode
from duckflow_tui.session.session_files import SessionFolder, segment_name

HEADER_SEQ: Final = 0  # a header is no event


@dataclass(frozen=True, slots=True)
class Position:
    """Where a record begins."""

    segment: int
    start: int  # bytes from the beginning of that file


class Segments:
    """Appends lines. Every method raises OSError, after which only ``next`` may be called.

    ``header`` gives the JSON each stay in a file begins with.
    """

    def __init__(self, folder: SessionFolder, disk: Disk, header: Callable[[], bytes]) -> None:
        self.number = 0  # of the file that is open; 0 before one is
        self._folder = folder
        self._disk = disk
        self._header = header
        self._file = -1
        self._size = 0

    def go_on(self) -> bool:
        """Append to the newest file that is there, or make the first one.

        A line that was never finished is sealed with a newline, never cut: True when there was
        one.
        """
        numbers = self._folder.segments()
        if not numbers:
            self.next()
            return False
        self.number = numbers[-1]
        name = segment_name(self.number)
        self._file = self._disk.append_to(self._folder.descriptor, name)
        os.fchmod(self._file, 0o600)
        torn = self._torn(name)
        if torn:
            self._put(b"\n")
        self._begin()
        return torn

    def next(self) -> None:
        """Leave the file as it is and begin another; what cannot begin leaves none behind."""
        self.close()
        self.number = max([self.number, *self._folder.segments()]) + 1
        name = segment_name(self.number)
        made = self._disk.create(self._folder.descriptor, name, 0o600)
        try:
            os.fchmod(made, 0o600)
        finally:
            os.close(made)
        self._size = 0
        try:
            self._file = self._disk.append_to(self._folder.descriptor, name)
            self._begin()
            self._disk.sync_directory(self._folder.descriptor)
        except OSError:
            self.close()
            with contextlib.suppress(OSError):
                self._disk.unlink(self._folder.descriptor, name)
            raise

    def write(self, line: bytes) -> Position:
        """Append one line; it survives the process, not yet a power loss."""
        position = Position(self.number, self._size)
        self._put(line)
        return position

    def sync(self) -> None:
        """Return once all that was written survives a power loss."""
        self._disk.sync_data(self._file)
        if os.fstat(self._file).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "somebody deleted it", segment_name(self.number))

    def close(self) -> None:
        """Give the file back; once is enough. Never raises."""
        if self._file >= 0:
            file, self._file = self._file, -1
            try:
                os.close(file)
            except OSError:
                return  # a late error of a network disk; what counts was synced before

    def _begin(self) -> None:
        self._put(encode(HEADER_SEQ, self._header()))
        self.sync()

    def _put(self, line: bytes) -> None:
        left = memoryview(line)
        while left:
            written = self._disk.write(self._file, left)
            self._size += written
            left = left[written:]

    def _torn(self, name: str) -> bool:
        with self._folder.read(name) as file:
            self._size = file.seek(0, os.SEEK_END)
            if not self._size:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
