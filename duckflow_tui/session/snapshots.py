"""The state as it was after a record, so that a long session opens fast.

A file beside the journal, in the same framing: a head that names the record, the pieces of the
state, an end. It is made under another name and moved into place, and it can be lost: the events
say the same.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import fields
from functools import cache
from typing import Any, Final, NamedTuple, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError

from duckflow_tui import __version__
from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.session.faults import NotASession
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

KEPT: Final = 2  # an older one stays until the next but one is there
MAX_PIECE: Final = 256_000_000  # bytes of one line


class SnapshotPlace(NamedTuple):
    """The record a snapshot was made after."""

    seq: int
    segment: int
    start: int  # bytes from the beginning of that file
    check: int  # checksum of its line


def write_steps(
    folder: SessionFolder, disk: Disk, place: SnapshotPlace, image: Image, redact: Redact | None
) -> Generator[int, None, None]:
    """Write a snapshot, one piece at each step; yields the bytes of each. Raises OSError, and
    TypeError, ValueError or RecursionError for a state without JSON. An iterator that is closed
    before its end, or that raised, leaves nothing behind.
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
    """The state after this record; None when it is damaged, or of another program."""
    try:
        with folder.open_file(snapshot_name(seq)) as file:
            lines = _iter_lines(file)
            head = next(lines, None)
            if head is None or head.get("app") != __version__ or head.get("schema") != SCHEMA:
                return None
            place = SnapshotPlace(*(int(head[name]) for name in SnapshotPlace._fields))
            return place, restore_state(_until_end(lines))
    except (OSError, NotASession, UnreadableRecord, NotAnImage, KeyError, TypeError, ValueError):
        return None


def _iter_pieces(
    place: SnapshotPlace, image: Image, redact: Redact | None
) -> Iterator[dict[str, Any]]:
    yield {"snapshot": "state", "schema": SCHEMA, "app": __version__, **place._asdict()}
    for piece in iter_pieces(image):
        yield piece if redact is None else redact_value(piece, redact, is_restorable)
    yield {"end": "state"}


def _iter_lines(file: Any) -> Iterator[dict[str, Any]]:
    """The pieces in their order; raises Unreadable at the first that is damaged or missing."""
    for number, frame in enumerate(scan(file, MAX_PIECE)):
        if not isinstance(frame, JournalLine) or frame.seq != number:
            raise UnreadableRecord("snapshot")
        yield parse_body(frame.body)


def _until_end(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The lines up to the end mark. Raises UnreadableRecord where it is missing."""
    for piece in lines:
        if "end" in piece:
            return
        yield piece
    raise UnreadableRecord("snapshot")


#: Changed by transient events only, and therefore not the same after a replay.
IN_FLIGHT: Final = frozenset(place.name for place in fields(InFlight))
PIECE: Final = 4  # items of a list in one piece: few enough that they die young

Image = dict[str, Any]  # name of a field → its value, containers copied one level deep


class NotAnImage(ValueError):
    """A piece that does not fit the state of this program."""


def capture_image(state: AgentState) -> Image:
    """An image of the state; cheap, because its values are immutable."""
    image: Image = {}
    for name, value in vars(state).items():
        if name not in IN_FLIGHT:
            image[name] = value.copy() if isinstance(value, (list, dict)) else value
    image["running"] = tuple(r.replace(progress="") for r in state.running)
    return image


def iter_pieces(image: Image) -> Iterator[dict[str, Any]]:
    """The image as JSON objects, each small; raises ValueError for what is no value of its field. A
    list is an empty piece, then one for each few of its items.
    """
    for name, value in image.items():
        parts = [value]
        if isinstance(value, list):
            items = cast("list[Any]", value)
            parts = [[], *(items[at : at + PIECE] for at in range(0, len(items), PIECE))]
        for part in parts:
            yield {"field": name, "value": _field_adapter(name).dump_python(part, warnings="error")}


def restore_state(found: Iterable[dict[str, Any]]) -> AgentState:
    """The state of these pieces; raises NotAnImage unless they are all of this program's fields."""
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
    """Whether the piece could be read back."""
    try:
        _read_piece(piece)
    except NotAnImage:
        return False
    return True


def _read_piece(piece: dict[str, Any]) -> tuple[str, Any]:
    """The field of a piece and its value there; raises NotAnImage."""
    try:
        return piece["field"], _field_adapter(piece["field"]).validate_python(piece["value"])
    except (KeyError, ValidationError) as error:
        raise NotAnImage(str(error)) from error


@cache
def _field_types() -> dict[str, Any]:
    hints = get_type_hints(AgentState)
    return {name: hint for name, hint in hints.items() if name not in IN_FLIGHT}


@cache
def _field_adapter(field: str) -> TypeAdapter[Any]:
    """How a field of the state is written and read; raises KeyError where there is none."""
    return TypeAdapter(_field_types()[field])
