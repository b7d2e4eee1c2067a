"""What stands in a record: JSON of an event, without secrets, and large ones in a blob.

``{"at": …, "event": {"kind": …, …}}``; over 64 KB ``{"at": …, "kind": …, "blob": sha, "size": …}``
with that JSON under its hash; where an event has no JSON ``{"at": …, "kind": …, "unwritable": …}``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from pydantic import ValidationError
from pydantic_core import from_json, to_jsonable_python

from duckflow_tui.session.blobs import DamagedBlob
from duckflow_tui.state.base import event_from_json
from duckflow_tui.state.store import Record

INLINE: Final = 64 * 1024  # bytes of JSON in a record; more goes to a blob first (safety.md)


Redact = Callable[[str], str]

_FILL: Final = "•"

_SEPARATOR: Final = "\x1f"  # no part of a word, of a key or of a number


class BlobShelf(Protocol):
    """Where large payloads lie; both may wait for the disk and raise OSError."""

    def keep(self, data: bytes) -> str:
        """The bytes' SHA-256, once a crash cannot take them."""
        ...

    def read(self, sha: str) -> bytes:
        """The bytes; raises KeyError when there are none, DamagedBlob when they are others."""
        ...


class Unreadable(ValueError):
    """A record whose checksum is right and that tells nothing; ``reason`` is a code."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def as_bytes(value: object) -> bytes:
    """JSON in ASCII, on one line; raises TypeError, ValueError or RecursionError."""
    return json.dumps(
        value, ensure_ascii=True, separators=(",", ":"), default=to_jsonable_python
    ).encode("ascii")


def unwritable(record: Record, error: Exception) -> bytes:
    """What stands in for an event that has no JSON."""
    return as_bytes(
        {"at": record.at, "kind": record.event.kind, "unwritable": type(error).__name__}
    )


def body_of(record: Record, redact: Redact | None) -> bytes:
    """The whole JSON of a record; raises TypeError, ValueError or RecursionError for none."""
    event = record.event.model_dump()
    if redact is not None:
        event = without_secrets(event, redact, _is_event)
    return as_bytes({"at": record.at, "event": event})


def shelved(body: bytes, kind: str, at: float, blobs: BlobShelf) -> bytes:
    """What the record holds: the body, or the place of a large one, kept first."""
    if len(body) <= INLINE:
        return body
    return as_bytes({"at": at, "kind": kind, "blob": blobs.keep(body), "size": len(body)})


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object of a record; raises Unreadable."""
    try:
        value: object = _json(body)
    except (ValueError, RecursionError):  # not ASCII, no JSON, too deep, too long a number
        raise Unreadable("not_json") from None
    if not isinstance(value, dict):
        raise Unreadable("not_json")
    return cast("dict[str, Any]", value)


def _json(body: bytes) -> object:
    """The fast parser knows no halves of surrogate pairs; a file's name may hold one."""
    try:
        return from_json(body)
    except ValueError:
        return json.loads(body.decode("ascii"))


def event_fields(fields: dict[str, Any], blobs: BlobShelf) -> dict[str, Any]:
    """The event's own fields, fetched from a blob where they are; raises Unreadable."""
    if "blob" in fields:
        try:
            fields = parsed(blobs.read(str(fields["blob"])))
        except DamagedBlob:
            raise Unreadable("blob_damaged") from None
        except KeyError:
            raise Unreadable("blob_missing") from None
        except OSError:
            raise Unreadable("blob_unreadable") from None
    if "unwritable" in fields:
        raise Unreadable("unwritable")
    event = fields.get("event")
    if not isinstance(event, dict):
        raise Unreadable("no_event")
    return cast("dict[str, Any]", event)


def without_secrets(value: Any, redact: Redact, valid: Callable[[Any], bool] | None = None) -> Any:
    """The JSON value with every text in it redacted, keys included.

    With ``valid``: where a redacted text makes the whole invalid, one no longer than it was takes
    its place. Only a text from a closed set, for which no other is valid either, stays: a key of an
    endpoint may well be ``done``, and an outcome is no secret.
    """
    texts: list[str] = []
    _collect(value, texts)
    joined = _SEPARATOR.join(texts)
    if redact(joined) == joined:
        return value
    changed = {text: new for text in set(texts) if (new := redact(text)) != text}
    redacted = _replaced(value, changed)
    if valid is None or valid(redacted) or not valid(value):
        return redacted
    fitting = {
        text: next((t for t in _fitting(text, new) if valid(_replaced(value, {text: t}))), text)
        for text, new in changed.items()
    }
    return _replaced(value, fitting)


def _fitting(text: str, redacted: str) -> Iterator[str]:
    """What may stand for the text: redacted, that cut to its length, nothing of it at all."""
    yield redacted
    yield redacted[: len(text)]
    yield _FILL * len(text)


def _is_event(fields: Any) -> bool:
    try:
        event_from_json(fields)
    except ValidationError:
        return False
    return True


def _collect(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        for key, inner in cast("dict[Any, Any]", value).items():
            _collect(key, texts)
            _collect(inner, texts)
    elif isinstance(value, (list, tuple)):
        for inner in cast("list[Any]", value):
            _collect(inner, texts)


def _replaced(value: Any, changed: dict[str, str]) -> Any:
    if isinstance(value, str):
        return changed.get(value, value)
    if isinstance(value, dict):
        return {
            changed.get(key, key): _replaced(inner, changed)
            for key, inner in cast("dict[Any, Any]", value).items()
        }
    if isinstance(value, (list, tuple)):
        return [_replaced(inner, changed) for inner in cast("list[Any]", value)]
    return value


#: What an event's fields of one version are in the next; None when it has no meaning any more.
Step = Callable[[dict[str, Any]], dict[str, Any] | None]


SCHEMA: Final = 1

STEPS: Final[Mapping[int, Step]] = {}


@dataclass(frozen=True, slots=True)
class Migrations:
    """Steps from each version before ``current`` to the one after it; versions count from 1."""

    current: int = SCHEMA
    steps: Mapping[int, Step] = field(default_factory=lambda: STEPS)

    def __post_init__(self) -> None:
        if missing := set(range(1, self.current)) - self.steps.keys():
            raise ValueError(f"no step leads on from version {min(missing)}")

    def bring_up(self, fields: dict[str, Any], version: int) -> dict[str, Any] | None:
        """The fields as they are today; ``version`` in 1 to ``current``."""
        now: dict[str, Any] | None = fields
        for number in range(version, self.current):
            if now is None:
                return None
            now = self.steps[number](now)
        return now
