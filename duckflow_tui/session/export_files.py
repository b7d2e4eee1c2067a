"""A session as JSON, record by record, to be kept, passed on and played again; and its file."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from duckflow_tui.safety.disk import Disk
from duckflow_tui.session.drafts import draft_in
from duckflow_tui.session.faults import NewerSession, NotASession, opening
from duckflow_tui.session.header import JournalHeader, header_of
from duckflow_tui.session.migrations import SCHEMA, Migrations
from duckflow_tui.session.payload import Redact, Unreadable, as_bytes, without_secrets
from duckflow_tui.session.reader import MAX_SEQ, Entry, SessionRead, Unread, read_session
from duckflow_tui.session.session_files import SessionFolder
from duckflow_tui.state.clock import moment
from duckflow_tui.state.events import event_from_json

MARK: Final = "duckflow_session"  # the first key of such a file
VERSION: Final = 1
_LONG_NUMBER: Final = 20  # digits
LARGEST: Final = 1_000_000_000  # bytes of a file that is read


def json_lines(path: Path, redact: Redact) -> Iterator[str]:
    """The session in this folder as one JSON object, a record a line, without secrets.

    ASCII only. Raises what ``read_session`` raises.
    """
    folder = SessionFolder.open(path)
    try:
        read = read_session(folder)
    finally:
        folder.close()
    head = {
        MARK: VERSION,
        "schema_version": SCHEMA,
        "header": without_secrets(read.header.model_dump(), redact) if read.header else None,
        "lost": read.lost(),
    }
    yield _text(head)[:-1] + ',"records":['
    last = len(read.entries) - 1
    for number, entry in enumerate(read.entries):
        event = without_secrets(entry.fields, redact, _is_event)
        record = {"seq": entry.seq, "at": entry.at, "event": event}
        yield _text(record) + ("," if number < last else "")
    yield "]}"


def read_export(path: Path) -> SessionRead:
    """The records of such a file, brought up to today's version.

    Raises NotASession for any other file, NewerSession, and SessionUnreadable.
    """
    data = read_bytes(path)
    try:
        value = json_of(data)
        if not isinstance(value, dict):
            raise NotASession("foreign", path)
        fields = cast("dict[str, Any]", value)
        if MARK not in fields:
            raise NotASession("foreign", path)
        version, schema = int(fields[MARK]), int(fields["schema_version"])
        if version > VERSION or schema > SCHEMA:
            raise NewerSession(path, schema)
        return _read(fields, schema)
    except (
        *(ValueError, TypeError, KeyError, AttributeError),
        *(OverflowError, RecursionError),
    ):
        raise NotASession("foreign", path) from None


def write_file(path: Path, lines: Iterable[str], *, replace: bool = False) -> None:
    """Write these lines to a file that only its owner reads.

    Raises FileExistsError when there is one and it is not to be replaced, and OSError; then
    nothing is left behind and what was there is as it was.
    """
    if not replace and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():  # a device or a pipe, which are no place of ours
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), str(path))
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with draft_in(Disk(), folder) as draft:
            for line in lines:
                draft.write(line.encode("utf-8", "backslashreplace") + b"\n")
            draft.become(folder, path.name, new=not replace)
    finally:
        os.close(folder)


def _read(fields: dict[str, Any], schema: int) -> SessionRead:
    read = SessionRead()
    if fields.get("header") is not None:
        found = header_of({"journal": fields["header"]})
        read.header = found if isinstance(found, JournalHeader) else None
    migrations = Migrations()
    done = 0
    for number, record in enumerate(fields["records"]):
        seq = int(record["seq"])
        if seq > MAX_SEQ:
            read.unread.append(Unread(0, number, "no_event"))
            continue
        read.last_seq = max(read.last_seq, seq)
        if seq <= done:
            continue
        try:
            at = moment(record["at"])
            event = migrations.bring_up(record["event"], schema)
        except (Unreadable, TypeError, ValueError, KeyError):
            read.unread.append(Unread(0, number, "no_event", seq))
            continue
        done = seq
        if event is None:
            read.retired += 1
        else:
            read.entries.append(Entry(seq, at, event))
    return read


def json_of(data: bytes) -> object:
    """The JSON; a whole number of 20 digits or more, which is no count of anything, becomes a
    float, so that no event takes it for one. Raises ValueError and RecursionError.
    """
    return json.loads(data, parse_int=_whole)


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) < _LONG_NUMBER else float(digits)


def read_bytes(path: Path) -> bytes:
    """The whole file, at most ``LARGEST`` bytes; raises NotASession or SessionUnreadable."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):  # a pipe tells its beginning only once
                raise NotASession("foreign", path)
            if status.st_size > LARGEST:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
            found = cast("bytes | None", file.read(LARGEST))
    except OSError as error:
        raise opening(path, error) from error
    if found is None:  # of a file of the system's own, which has nothing to say now
        raise NotASession("foreign", path)
    return found


def _text(value: object) -> str:
    return as_bytes(value).decode("ascii")


def _is_event(fields: Any) -> bool:
    try:
        event_from_json(fields)
    except ValidationError:
        return False
    return True
