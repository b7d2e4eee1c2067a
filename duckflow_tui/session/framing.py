"""The lines of a journal: ``D1 <length> <crc32> <seq> <json>`` and a newline.

``length`` counts the bytes of the JSON, ``crc32`` is that of ``<seq> <json>`` in eight hex digits,
and the JSON is ASCII without spaces between its parts, so that no newline can stand inside. A
flipped bit in any field is therefore noticed, and a newline is always the end of a record.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, Literal

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
