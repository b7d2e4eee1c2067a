"""The lines of a journal: ``D1 <length> <crc32> <seq> <json>`` and a newline.

``length`` counts the bytes of the JSON, ``crc32`` is that of ``<seq> <json>`` in eight hex digits,
and the JSON is ASCII without spaces between its parts, so that no newline can stand inside. A
flipped bit in any field is therefore noticed, and a newline is always the end of a record.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Literal

from pydantic import ValidationError

from duckflow_tui import __version__
from duckflow_tui.safety.changing import Disk
from duckflow_tui.session.folders import SessionFolder, segment_name
from duckflow_tui.session.payload import SCHEMA, Redact, Unreadable, as_bytes
from duckflow_tui.state.base import Frozen

MAX_LINE: Final = 1_000_000  # bytes; what is longer is no record of a journal


_HEAD: Final = re.compile(rb"D1 ([0-9]{1,9}) ([0-9a-f]{8}) ([0-9]{1,15}) ")

_OTHER: Final = re.compile(rb"D([2-9]|[1-9][0-9]{1,3}) [0-9]+ ")  # a frame of a later program


DamageReason = Literal["torn", "frame", "checksum", "too_long", "no_newline"]


@dataclass(frozen=True, slots=True)
class Frame:
    """A record whose checksum is right: bytes ``start`` to ``end`` of the file, newline and all."""

    seq: int
    body: bytes
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that is no record. ``torn``: the last one, which was never finished."""

    start: int
    reason: DamageReason


def encode(seq: int, body: bytes) -> bytes:
    """The line of a record; ``body`` is JSON in ASCII without a newline, ``seq`` ≥ 0."""
    return b"D1 %d %08x %d %b\n" % (len(body), checksum(seq, body), seq, body)


def checksum(seq: int, body: bytes) -> int:
    """CRC-32 of sequence number and JSON as they stand in the line."""
    return zlib.crc32(body, zlib.crc32(b"%d " % seq))


def of_later_program(line: bytes) -> bool:
    """Whether a line looks like a record in a frame this program does not know."""
    return _OTHER.match(line) is not None


def scan(file: BinaryIO, max_line: int = MAX_LINE) -> Iterator[Frame | Damage]:
    """Every record of the file from where it stands, and one ``Damage`` for each other line.

    A record whose newline was damaged still counts, and so does the one behind it. At most
    ``max_line`` bytes are held at once.
    """
    start = file.tell()
    while line := file.readline(max_line):
        if len(line) == max_line and not line.endswith(b"\n"):
            yield Damage(start, "too_long")
            start += len(line)
            while line and not line.endswith(b"\n"):
                line = file.readline(max_line)
                start += len(line)
            continue
        yield from _records(line, start)
        start += len(line)


def _records(line: bytes, start: int) -> Iterator[Frame | Damage]:
    """What stands between two newlines: one record, or two whose newline became another byte."""
    at = 0
    while at < len(line):
        head = _HEAD.match(line, at)
        end = head.end() + int(head[1]) if head else 0
        body = line[head.end() : end] if head else b""
        if head is None or checksum(int(head[3]), body) != int(head[2], 16):
            yield Damage(start + at, _reason(line, known=head is not None))
            return
        closed = end < len(line)
        yield Frame(int(head[3]), body, start + at, start + end + closed)
        if closed and line[end] != 0x0A:
            yield Damage(start + end, "no_newline")
        at = end + 1


def _reason(line: bytes, *, known: bool) -> DamageReason:
    if not line.endswith(b"\n"):
        return "torn"
    return "checksum" if known else "frame"


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


class JournalHeader(Frozen):
    """Says how the records after it are to be read, and whose session it is.

    ``device`` and ``inode`` tell a workspace from another one at the same path; 0: not known.
    """

    schema_version: int = SCHEMA
    app: str = __version__
    session_id: str
    workspace: str  # absolute path
    device: int = 0
    inode: int = 0
    created_at: float  # of the session, seconds since the epoch
    opened_at: float  # of this stay in it

    def as_body(self, redact: Redact | None) -> bytes:
        """The JSON of its record."""
        fields = self.model_dump()
        if redact is not None:
            fields["workspace"] = redact(self.workspace)
        return as_bytes({"journal": fields})


def header_of(fields: dict[str, Any], known: int = SCHEMA) -> JournalHeader | int:
    """The header, or the version of one of a later program; raises Unreadable."""
    inner: Any = fields.get("journal")
    if not isinstance(inner, dict):
        raise Unreadable("no_header")
    version: Any = inner.get("schema_version")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # JSON
    if isinstance(version, int) and version > known:
        return version
    try:
        return JournalHeader.model_validate(inner)
    except ValidationError:
        raise Unreadable("no_header") from None
