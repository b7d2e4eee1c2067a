"""A session as JSON, record by record, to be kept, passed on and played again; and its file."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from duckflow_tui.safety.disk import Disk
from duckflow_tui.session.faults import NewerSession, NotASession, opening
from duckflow_tui.session.header import JournalHeader, header_of
from duckflow_tui.session.migrations import SCHEMA, Migrations
from duckflow_tui.session.payload import Redact, Unreadable, as_bytes, without_secrets
from duckflow_tui.session.reader import Entry, SessionRead, Unread, read_session
from duckflow_tui.session.session_files import SessionFolder
from duckflow_tui.state.events import event_from_json

MARK: Final = "duckflow_session"  # the first key of such a file
VERSION: Final = 1
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
        value: object = json.loads(data)
        if not isinstance(value, dict):
            raise NotASession("foreign", path)
        fields = cast("dict[str, Any]", value)
        if MARK not in fields:
            raise NotASession("foreign", path)
        version, schema = int(fields[MARK]), int(fields["schema_version"])
        if version > VERSION or schema > SCHEMA:
            raise NewerSession(path, schema)
        return _read(fields, schema)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
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
    disk, draft = Disk(), f".{secrets.token_hex(8)}.draft"
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with open(disk.create(folder, draft, 0o600), "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            for line in lines:
                file.write(line.encode("utf-8", "backslashreplace") + b"\n")
            file.flush()
            disk.sync(file.fileno())
        move = disk.rename if replace else disk.rename_new
        move(folder, draft, folder, path.name)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.unlink(folder, draft)
        raise
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
        seq, at = int(record["seq"]), float(record["at"])
        read.last_seq = max(read.last_seq, seq)
        if seq <= done:
            continue
        try:
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


def read_bytes(path: Path) -> bytes:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(path, flags), "rb") as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
            return file.read(LARGEST)
    except OSError as error:
        raise opening(path, error) from error


def _text(value: object) -> str:
    return as_bytes(value).decode("ascii")


def _is_event(fields: Any) -> bool:
    try:
        event_from_json(fields)
    except ValidationError:
        return False
    return True
