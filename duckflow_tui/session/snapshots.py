"""Snapshots: the state after a record, in a file beside the journal, so that a long session opens
fast.

The file has the journal's line format: a head that names the record, the pieces of the state, an
end mark. It is written as a draft and renamed. It may be lost, since the records hold the same.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import fields
from functools import cache
from typing import Any, Final, NamedTuple, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError

from duckflow_tui import __version__
from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import SessionFolder, draft_in, snapshot_name
from duckflow_tui.session.records import (
    SCHEMA,
    JournalLine,
    Redact,
    UnreadableRecord,
    as_bytes,
    encode,
    parse_body,
    redact_value,
    scan,
)
from duckflow_tui.state.agent import AgentState, InFlight

KEPT: Final = 2  # snapshots that are not deleted
MAX_PIECE: Final = 256_000_000  # bytes of one line


class SnapshotPlace(NamedTuple):
    """The record that a snapshot was taken after, and its place in the journal."""

    seq: int
    segment: int
    start: int  # bytes from the beginning of that file
    check: int  # checksum of its line


def write_steps(
    folder: SessionFolder, disk: Disk, place: SnapshotPlace, image: Image, redact: Redact | None
) -> Generator[int, None, None]:
    """Write a snapshot, one piece a step, and yield the number of bytes of each; at the end older
    snapshots are deleted.

    Raises OSError; and TypeError, ValueError or RecursionError for a state that cannot be written
    as JSON. A generator that raised or was closed early leaves no file.
    """
    with draft_in(disk, folder.descriptor) as draft:
        for number, piece in enumerate(_iter_pieces(place, image, redact)):
            line = encode(number, as_bytes(piece))
            draft.write(line)
            yield len(line)
        draft.publish_as(folder.descriptor, snapshot_name(place.seq))
    disk.sync_directory(folder.descriptor)
    for seq in folder.list_snapshots()[:-KEPT]:
        disk.unlink(folder.descriptor, snapshot_name(seq))


def read_snapshot(folder: SessionFolder, seq: int) -> tuple[SnapshotPlace, AgentState] | None:
    """Return the place and the state of the snapshot after the record ``seq``; None where it is
    missing, damaged or of another version of the program.
    """
    try:
        with folder.open_file(snapshot_name(seq)) as file:
            lines = _iter_lines(file)
            head = next(lines, None)
            if head is None or head.get("app") != __version__ or head.get("schema") != SCHEMA:
                return None
            place = SnapshotPlace(*(int(head[name]) for name in SnapshotPlace._fields))
            return place, restore_state(_until_end(lines))
    except (OSError, SessionFault, UnreadableRecord, NotAnImage, KeyError, TypeError, ValueError):
        return None


def _iter_pieces(
    place: SnapshotPlace, image: Image, redact: Redact | None
) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a snapshot file: head, pieces of the state, end mark."""
    yield {"snapshot": "state", "schema": SCHEMA, "app": __version__, **place._asdict()}
    for piece in iter_pieces(image):
        yield piece if redact is None else redact_value(piece, redact, is_restorable)
    yield {"end": "state"}


def _iter_lines(file: Any) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a snapshot file in order. Raises UnreadableRecord at the first that
    is damaged or missing.
    """
    for number, frame in enumerate(scan(file, MAX_PIECE)):
        if not isinstance(frame, JournalLine) or frame.seq != number:
            raise UnreadableRecord("snapshot")
        yield parse_body(frame.body)


def _until_end(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the pieces before the end mark. Raises UnreadableRecord where it is missing."""
    for piece in lines:
        if "end" in piece:
            return
        yield piece
    raise UnreadableRecord("snapshot")


#: Fields that only transient events change; they are not recorded.
IN_FLIGHT: Final = frozenset(place.name for place in fields(InFlight))
PIECE: Final = 4  # items of a list in one piece: few enough that they die young

Image = dict[str, Any]  # name of a field → its value, containers copied one level deep


class NotAnImage(ValueError):
    """Raised for a piece that does not fit the state of this version of the program."""


def capture_image(state: AgentState) -> Image:
    """Return an image of the state, without what is in flight. Cheap: containers are copied, their
    immutable values shared.
    """
    image: Image = {}
    for name, value in vars(state).items():
        if name not in IN_FLIGHT:
            image[name] = value.copy() if isinstance(value, (list, dict)) else value
    image["running"] = tuple(r.replace(progress="") for r in state.running)
    return image


def iter_pieces(image: Image) -> Iterator[dict[str, Any]]:
    """Yield the image as small JSON objects: one for a field; for a list an empty one, then one for
    each few items. Raises ValueError for a value of the wrong type.
    """
    for name, value in image.items():
        parts = [value]
        if isinstance(value, list):
            items = cast("list[Any]", value)
            parts = [[], *(items[at : at + PIECE] for at in range(0, len(items), PIECE))]
        for part in parts:
            yield {"field": name, "value": _field_adapter(name).dump_python(part, warnings="error")}


def restore_state(found: Iterable[dict[str, Any]]) -> AgentState:
    """Return the state made of these pieces. Raises NotAnImage for a piece that does not fit, and
    for a missing field.
    """
    state = AgentState()
    seen: set[str] = set()
    for piece in found:
        name, value = _read_piece(piece)
        if isinstance(value, list):
            getattr(state, name).extend(value)
        else:
            setattr(state, name, value)
        seen.add(name)
    if missing := vars(state).keys() - IN_FLIGHT - seen:
        raise NotAnImage(f"no field {min(missing)}")
    return state


def is_restorable(piece: dict[str, Any]) -> bool:
    """Whether the piece can be read back."""
    try:
        _read_piece(piece)
    except NotAnImage:
        return False
    return True


def _read_piece(piece: dict[str, Any]) -> tuple[str, Any]:
    """Return the field of a piece and its validated value. Raises NotAnImage."""
    try:
        return piece["field"], _field_adapter(piece["field"]).validate_python(piece["value"])
    except (KeyError, ValidationError) as error:
        raise NotAnImage(str(error)) from error


@cache
def _field_types() -> dict[str, Any]:
    """Return the type of each field of the state that a snapshot holds."""
    hints = get_type_hints(AgentState)
    return {name: hint for name, hint in hints.items() if name not in IN_FLIGHT}


@cache
def _field_adapter(field: str) -> TypeAdapter[Any]:
    """Return the adapter that writes and validates a field of the state. Raises KeyError for an
    unknown field.
    """
    return TypeAdapter(_field_types()[field])
