"""The state as it was after a record, so that a long session opens fast.

A file beside the journal, in the same framing: a head that names the record, the pieces of the
state, an end. It is made under another name and moved into place, and it can be lost: the events
say the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import Any, Final, cast

from duckflow_tui import __version__
from duckflow_tui.safety.changing import Disk
from duckflow_tui.session.faults import NotASession
from duckflow_tui.session.folders import SessionFolder, draft_in, snapshot_name
from duckflow_tui.session.records import (
    SCHEMA,
    Frame,
    Position,
    Redact,
    UnreadableRecord,
    as_bytes,
    encode,
    parsed,
    scan,
    without_secrets,
)
from duckflow_tui.state.agent import AgentState, InFlight
from duckflow_tui.state.base import Frozen

KEPT: Final = 2  # an older one stays until the next but one is there

MAX_PIECE: Final = 256_000_000  # bytes of one line


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """The record a snapshot was made after: where it is, and the checksum of its line."""

    seq: int
    position: Position
    check: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state and the record it was true after."""

    place: SnapshotPlace
    state: AgentState


def write_steps(
    folder: SessionFolder, disk: Disk, place: SnapshotPlace, image: Image, redact: Redact | None
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
            place = SnapshotPlace(
                int(head["seq"]),
                Position(int(head["segment"]), int(head["start"])),
                int(head["check"]),
            )
            return Snapshot(place, restored(_until_end(lines)))
    except (OSError, NotASession, UnreadableRecord, NotAnImage, KeyError, TypeError, ValueError):
        return None


def _all(place: SnapshotPlace, image: Image, redact: Redact | None) -> Iterator[dict[str, Any]]:
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
            raise UnreadableRecord("snapshot")
        yield parsed(frame.body)


def _until_end(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for piece in lines:
        if "end" in piece:
            return
        yield piece
    raise UnreadableRecord("snapshot")


#: Changed by transient events only, and therefore not the same after a replay.
IN_FLIGHT: Final = frozenset(place.name for place in fields(InFlight))


PIECE: Final = 4  # items of a list in one piece: few enough that they die young


_SEQUENCES: Final[dict[str, Any]] = {
    "tuple": tuple,
    "list": list,
    "set": set,
    "frozenset": frozenset,
    "deque": deque,
}


Image = dict[str, Any]  # name of a field → its value, containers copied one level deep


class NotAnImage(ValueError):
    """A piece that does not fit the state of this program."""


def capture(state: AgentState) -> Image:
    """What is true now; cheap, because the values in it are never changed."""
    image: Image = {}
    for name, value in vars(state).items():
        if name in IN_FLIGHT:
            continue
        image[name] = value.copy() if isinstance(value, (list, dict, set, deque)) else value
    image["running"] = tuple(r.model_copy(update={"progress": ""}) for r in state.running)
    return image


def pieces(image: Image) -> Iterator[dict[str, Any]]:
    """The image as JSON objects, each small; raises TypeError for a value that has no JSON."""
    for name, value in image.items():
        if not isinstance(value, list):
            yield {"field": name, "value": _plain(value)}
            continue
        items = cast("list[Any]", value)
        yield {"field": name, "value": _plain([])}
        for at in range(0, len(items), PIECE):
            yield {"field": name, "items": [_plain(item) for item in items[at : at + PIECE]]}


def restored(found: Iterable[dict[str, Any]]) -> AgentState:
    """The state of these pieces; raises NotAnImage unless they are all of this program's fields."""
    state = AgentState()
    wanted = vars(state).keys() - IN_FLIGHT
    seen: set[str] = set()
    for piece in found:
        name = piece.get("field")
        if name not in wanted:
            raise NotAnImage(f"there is no field {name}")
        try:
            if "items" in piece:
                held = getattr(state, name)
                held.extend(_value(item) for item in piece["items"])
            else:
                setattr(state, name, _value(piece["value"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NotAnImage(f"{name}: {error}") from error
        seen.add(name)
    if missing := wanted - seen:
        raise NotAnImage(f"no field {min(missing)}")
    return state


def fits(piece: dict[str, Any]) -> bool:
    """Whether the piece could be read back."""
    try:
        values = piece["items"] if "items" in piece else [piece["value"]]
        for value in values:
            _value(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    return piece["field"] in vars(AgentState())


def _plain(value: Any) -> Any:
    """Text, numbers, truth and None as they are, everything else as ``{"$": type, "v": …}``."""
    match value:
        case Enum():
            return {"$": f"enum {type(value).__name__}", "v": value.value}
        case None | bool() | int() | float() | str():
            return value
        case Frozen():
            return {"$": type(value).__name__, "v": value.model_dump()}
        case dict():
            entries = cast("dict[Any, Any]", value)
            return {"$": "dict", "v": [[_plain(k), _plain(v)] for k, v in entries.items()]}
        case tuple() | list() | set() | frozenset() | deque():
            kind = type(cast("object", value)).__name__
            plain: Image = {"$": kind, "v": [_plain(v) for v in cast("Iterable[Any]", value)]}
            if isinstance(value, deque):
                plain["most"] = cast("deque[Any]", value).maxlen
            return plain
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON")


def _value(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    tagged = cast("dict[str, Any]", plain)
    kind, inner = tagged["$"], tagged["v"]
    if kind == "dict":
        return {_value(key): _value(value) for key, value in inner}
    if kind == "deque":
        return deque((_value(item) for item in inner), tagged["most"])
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](_value(item) for item in inner)
    if kind.startswith("enum "):
        return _named(Enum)[kind.removeprefix("enum ")](inner)
    return _named(Frozen)[kind].model_validate(inner)


@cache
def _named(base: type) -> dict[str, Any]:
    """The state room's subclasses by name."""
    found: dict[str, Any] = {}
    waiting: list[type] = [base]
    while waiting:
        for cls in waiting.pop().__subclasses__():
            waiting.append(cls)
            if cls.__module__.startswith("duckflow_tui.state."):
                found[cls.__name__] = cls
    return found
