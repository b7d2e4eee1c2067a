"""The state as it was after a record, so that a long session opens fast.

A file beside the journal, in the same framing: a head that names the record, the pieces of the
state, an end. It is made under another name and moved into place, and it can be lost: the events
say the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from duckflow_tui import __version__
from duckflow_tui.safety.disk import Disk
from duckflow_tui.session.drafts import draft_in
from duckflow_tui.session.faults import NotASession
from duckflow_tui.session.framing import Frame, encode, scan
from duckflow_tui.session.migrations import SCHEMA
from duckflow_tui.session.payload import Redact, Unreadable, as_bytes, parsed, without_secrets
from duckflow_tui.session.segments import Position
from duckflow_tui.session.session_files import SessionFolder, snapshot_name
from duckflow_tui.session.state_image import Image, NotAnImage, fits, pieces, restored
from duckflow_tui.state.agent import AgentState

KEPT: Final = 2  # an older one stays until the next but one is there
MAX_PIECE: Final = 256_000_000  # bytes of one line


@dataclass(frozen=True, slots=True)
class Place:
    """The record a snapshot was made after: where it is, and the checksum of its line."""

    seq: int
    position: Position
    check: int

    @classmethod
    def of(cls, seq: int, position: Position, line: bytes) -> Place:
        """The place of this line."""
        return cls(seq, position, zlib.crc32(line))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state and the record it was true after."""

    place: Place
    state: AgentState


def write_steps(
    folder: SessionFolder, disk: Disk, place: Place, image: Image, redact: Redact | None
) -> Generator[int, None, None]:
    """Write a snapshot, one piece at each step; yields the bytes of each.

    Raises OSError, and TypeError, ValueError or RecursionError for a state without JSON. An
    iterator that is closed before its end, or that raised, leaves nothing behind.
    """
    with draft_in(disk, folder.descriptor) as draft:
        for number, piece in enumerate(_all(place, image, redact)):
            line = encode(number, as_bytes(piece))
            draft.write(line)
            yield len(line)
        draft.become(folder.descriptor, snapshot_name(place.seq))
    disk.sync_directory(folder.descriptor)
    for seq in folder.snapshots()[:-KEPT]:
        disk.unlink(folder.descriptor, snapshot_name(seq))


def read_snapshot(folder: SessionFolder, seq: int) -> Snapshot | None:
    """The snapshot after this record; None when it is damaged, or of another program."""
    try:
        with folder.read(snapshot_name(seq)) as file:
            lines = _lines(file)
            head = next(lines, None)
            if head is None or head.get("app") != __version__ or head.get("schema") != SCHEMA:
                return None
            place = Place(
                int(head["seq"]),
                Position(int(head["segment"]), int(head["start"])),
                int(head["check"]),
            )
            return Snapshot(place, restored(_until_end(lines)))
    except (OSError, NotASession, Unreadable, NotAnImage, KeyError, TypeError, ValueError):
        return None


def _all(place: Place, image: Image, redact: Redact | None) -> Iterator[dict[str, Any]]:
    yield {
        "snapshot": "state",
        "schema": SCHEMA,
        "app": __version__,
        "seq": place.seq,
        "segment": place.position.segment,
        "start": place.position.start,
        "check": place.check,
    }
    for piece in pieces(image):
        yield piece if redact is None else without_secrets(piece, redact, fits)
    yield {"end": True}


def _lines(file: Any) -> Iterator[dict[str, Any]]:
    """The pieces in their order; raises Unreadable at the first that is damaged or missing."""
    for number, frame in enumerate(scan(file, MAX_PIECE)):
        if not isinstance(frame, Frame) or frame.seq != number:
            raise Unreadable("snapshot")
        yield parsed(frame.body)


def _until_end(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for piece in lines:
        if "end" in piece:
            return
        yield piece
    raise Unreadable("snapshot")
