"""The records of a journal: the line that frames each one, and the JSON in it.

A line is ``D1 <length> <crc32> <seq> <json>`` and a newline. ``length`` is the number of bytes of
the JSON, ``crc32`` the checksum of ``<seq> <json>`` in eight hex digits, and the JSON is ASCII
without spaces between its parts, so that it contains no newline. A flipped bit in any field is
therefore noticed, and a newline always ends a record.

The JSON is ``{"at": …, "event": {"kind": …, …}}`` with secrets redacted; over 64 KB it is stored as
a blob and the record is ``{"at": …, "kind": …, "blob": sha, "size": …}``; for an event that cannot
be written as JSON it is ``{"at": …, "kind": …, "unwritable": …}``.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, Literal, NamedTuple, cast

from pydantic import ValidationError
from pydantic_core import from_json, to_jsonable_python

from duckflow_tui import __version__
from duckflow_tui.session.blobs import DamagedBlob, FileBlobs
from duckflow_tui.state.base import Frozen, event_from_json
from duckflow_tui.state.store import Record

INLINE: Final = 64 * 1024  # bytes of JSON in a record; more goes to a blob first (safety.md)

Redact = Callable[[str], str]

_FILL: Final = "•"
_HOLDS_TEXT: Final = (str, dict, list, tuple)
_SEPARATOR: Final = "\x1f"  # no part of a word, of a key or of a number


class UnreadableRecord(ValueError):
    """Raised for a record with a valid checksum from which no event can be read; ``str()`` is the
    code of the reason.
    """


def as_bytes(value: object) -> bytes:
    """Encode a value as JSON in ASCII, on one line. Raises TypeError, ValueError or
    RecursionError.
    """
    return json.dumps(
        value, ensure_ascii=True, separators=(",", ":"), default=to_jsonable_python
    ).encode("ascii")


def make_stand_in(record: Record, error: Exception) -> bytes:
    """Return the body of a record for an event that cannot be written as JSON."""
    return as_bytes(
        {"at": record.at, "kind": record.event.kind, "unwritable": type(error).__name__}
    )


def body_of(record: Record, redact: Redact | None) -> bytes:
    """Encode a record as JSON, with secrets redacted where ``redact`` is given. Raises TypeError,
    ValueError or RecursionError.
    """
    event = record.event.model_dump()
    if redact is not None:
        event = redact_value(event, redact, is_event)
    return as_bytes({"at": record.at, "event": event})


def shelve_body(body: bytes, kind: str, at: float, blobs: FileBlobs) -> bytes:
    """Return the body of a record; one over 64 KB is stored as a blob and a reference to it
    returned. Raises OSError.
    """
    if len(body) <= INLINE:
        return body
    return as_bytes({"at": at, "kind": kind, "blob": blobs.put_blocking(body), "size": len(body)})


def parse_body(body: bytes) -> dict[str, Any]:
    """Parse the JSON object of a record. Raises UnreadableRecord."""
    try:
        try:
            value: object = from_json(body)
        except ValueError:  # it knows no halves of surrogate pairs; a file's name may hold one
            value = json.loads(body.decode("ascii"))
    except (ValueError, RecursionError):  # not ASCII, no JSON, too deep, too long a number
        raise UnreadableRecord("not_json") from None
    if not isinstance(value, dict):
        raise UnreadableRecord("not_json")
    return cast("dict[str, Any]", value)


def load_fields(body: bytes, blobs: FileBlobs) -> dict[str, Any]:
    """Parse the fields of a record, read from a blob where the record refers to one. Raises
    UnreadableRecord.
    """
    fields = parse_body(body)
    if "blob" in fields:
        try:
            fields = parse_body(blobs.get_blocking(str(fields["blob"])))
        except DamagedBlob:
            raise UnreadableRecord("blob_damaged") from None
        except KeyError:
            raise UnreadableRecord("blob_missing") from None
        except OSError:
            raise UnreadableRecord("blob_unreadable") from None
    if "unwritable" in fields:
        raise UnreadableRecord("unwritable")
    return fields


def redact_value(value: Any, redact: Redact, valid: Callable[[Any], bool] | None = None) -> Any:
    """Return the JSON value with every text in it redacted, keys included.

    ``valid`` says whether a value has a valid form. Where a redacted text would make the value
    invalid, a replacement of the same length or less is tried; if no replacement is valid, the text
    stays, because it then belongs to a fixed set such as outcomes and is no secret.
    """
    texts: list[tuple[str, str]] = []
    _collect_texts(value, "", texts)
    joined = _SEPARATOR.join(text for _, text in texts)
    if redact(joined) == joined:
        return value
    changed = {
        text: new for name, text in set(texts) if (new := _redact_field(name, text, redact)) != text
    }
    redacted = _replace_texts(value, changed)
    if valid is None or valid(redacted) or not valid(value):
        return redacted
    fitting = {
        text: next(
            (t for t in _iter_replacements(text, new) if valid(_replace_texts(value, {text: t}))),
            text,
        )
        for text, new in changed.items()
    }
    return _replace_texts(value, fitting)


def _iter_replacements(text: str, redacted: str) -> Iterator[str]:
    """Yield replacements of a text in the order to try: redacted, redacted and cut to its length,
    filled with dots.
    """
    yield redacted
    yield redacted[: len(text)]
    yield _FILL * len(text)


def is_event(fields: Any) -> bool:
    """Whether the fields are a valid event of this version of the program."""
    try:
        event_from_json(fields)
    except ValidationError:
        return False
    return True


def _redact_field(name: str, text: str, redact: Redact) -> str:
    """Return the text redacted; also where only the field's name in front of it shows that it is a
    secret.
    """
    redacted, head = redact(text), f"{name}="
    whole = redact(head + text) if name and redacted == text else ""
    return whole.removeprefix(head) if whole.startswith(head) else redacted


def _collect_texts(value: Any, name: str, texts: list[tuple[str, str]]) -> None:
    """Append all texts in a JSON value to ``texts``, each with the key of its object, or ``name``
    at the top.
    """
    if isinstance(value, str):
        texts.append((name, value))
    elif isinstance(value, dict):
        for key, inner in cast("dict[Any, Any]", value).items():
            if isinstance(key, str):
                texts.append(("", key))
            if isinstance(inner, _HOLDS_TEXT):
                _collect_texts(inner, str(key), texts)
    elif isinstance(value, (list, tuple)):
        for inner in cast("list[Any]", value):
            _collect_texts(inner, name, texts)


def _replace_texts(value: Any, changed: dict[str, str]) -> Any:
    """Return a copy of a JSON value with texts replaced by ``changed``, keys included."""
    if isinstance(value, str):
        return changed.get(value, value)
    if isinstance(value, dict):
        return {
            changed.get(key, key): _replace_texts(inner, changed)
            for key, inner in cast("dict[Any, Any]", value).items()
        }
    if isinstance(value, (list, tuple)):
        return [_replace_texts(inner, changed) for inner in cast("list[Any]", value)]
    return value


SCHEMA: Final = 1
MAX_LINE: Final = 1_000_000  # bytes; what is longer is no record of a journal
_HEAD: Final = re.compile(rb"D1 ([0-9]{1,9}) ([0-9a-f]{8}) ([0-9]{1,15}) ")
_OTHER: Final = re.compile(rb"D([2-9]|[1-9][0-9]{1,3}) [0-9]+ ")  # a frame of a later program

DamageReason = Literal["torn", "frame", "checksum", "too_long", "no_newline"]


class JournalLine(NamedTuple):
    """A record with a valid checksum, at the bytes ``start`` to ``end`` of the file, newline
    included.
    """

    seq: int
    body: bytes
    start: int
    end: int


class Damage(NamedTuple):
    """A line that is no record. ``torn``: the last line, which was never finished."""

    start: int
    reason: DamageReason


def encode(seq: int, body: bytes) -> bytes:
    """Return the line of a record; ``body`` is JSON in ASCII without a newline, ``seq`` ≥ 0."""
    return b"D1 %d %08x %d %b\n" % (len(body), checksum(seq, body), seq, body)


def checksum(seq: int, body: bytes) -> int:
    """Return the CRC-32 of sequence number and JSON as they are in the line."""
    return zlib.crc32(body, zlib.crc32(b"%d " % seq))


def of_later_program(line: bytes) -> bool:
    """Whether a line looks like a record in a format of a later program."""
    return _OTHER.match(line) is not None


def scan(file: BinaryIO, max_line: int = MAX_LINE) -> Iterator[JournalLine | Damage]:
    """Yield the records from the file's position on, and a ``Damage`` for each line, or rest of
    one, that is not a record. A record whose newline is damaged counts and is followed by a
    ``Damage`` for the newline. At most ``max_line`` bytes are in memory at once.
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
        yield from _split_line(line, start)
        start += len(line)


def _split_line(line: bytes, start: int) -> Iterator[JournalLine | Damage]:
    """Yield the records between two newlines: one, or several where a newline between them is
    damaged.
    """
    at = 0
    while at < len(line):
        head = _HEAD.match(line, at)
        if head is None:
            yield Damage(start + at, _find_damage_reason(line, "frame"))
            return
        end = head.end() + int(head[1])
        body = line[head.end() : end]
        if checksum(int(head[3]), body) != int(head[2], 16):
            yield Damage(start + at, _find_damage_reason(line, "checksum"))
            return
        closed = end < len(line)
        yield JournalLine(int(head[3]), body, start + at, start + end + closed)
        if closed and line[end] != 0x0A:
            yield Damage(start + end, "no_newline")
        at = end + 1


def _find_damage_reason(line: bytes, whole: DamageReason) -> DamageReason:
    """Return ``whole`` for a complete line, ``torn`` for one without a newline."""
    return whole if line.endswith(b"\n") else "torn"


HEADER_SEQ: Final = 0  # a header is no event


class JournalHeader(Frozen):
    """The header before the records of a process: the format's version, and the session it belongs
    to. ``device`` and ``inode`` distinguish the workspace from another one at the same path; 0:
    unknown.
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
        """Return the JSON of the header's record, its path redacted where ``redact`` is given."""
        fields = self.model_dump()
        if redact is not None:
            fields["workspace"] = redact(self.workspace)
        return as_bytes({"journal": fields})


def header_of(fields: dict[str, Any]) -> JournalHeader | int:
    """Return the header in a record's fields, or only its version where a later program wrote it.
    Raises UnreadableRecord.
    """
    inner: Any = fields.get("journal")
    if not isinstance(inner, dict):
        raise UnreadableRecord("no_header")
    version: Any = inner.get("schema_version")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # JSON
    if isinstance(version, int) and version > SCHEMA:
        return version
    try:
        return JournalHeader.model_validate(inner)
    except ValidationError:
        raise UnreadableRecord("no_header") from None
