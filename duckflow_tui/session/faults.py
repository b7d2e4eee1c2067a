"""Faults of a session's files as exceptions with codes, the health of its journal, and the
program's log file.
"""

from __future__ import annotations

import errno
import logging
import logging.handlers
import os
from collections.abc import Iterable
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Final, Literal, cast, get_args

from duckflow_tui.places import APP, find_log_file
from duckflow_tui.safety.paths import FAILURES
from duckflow_tui.safety.secrets import RedactingFilter, Redactor
from duckflow_tui.state.base import LocalizedText, describe_error

FaultCode = Literal[
    "in_use", "newer", "missing", "empty", "foreign", "bad_id", "link",
    "no_space", "read_only", "no_permission", "io_error",
]  # fmt: skip

Mode = Literal["disk", "memory", "closed"]

_CODES: Final = {**FAILURES, errno.ENOENT: "missing", errno.ELOOP: "link"}


class SessionFault(Exception):
    """Raised where a session cannot be opened or changed; its files are unchanged.

    ``code``: a later version of this program wrote it (``newer``); there is none at the path
    (``missing``, ``empty``, ``foreign``, ``bad_id``, ``link``); else the system refused. The words
    for each code are in the catalogue.
    """

    def __init__(self, code: FaultCode, path: Path) -> None:
        super().__init__(f"{path}: {code}")
        self.code: FaultCode = code
        self.path = path


class SessionInUse(SessionFault):
    """Raised where another process writes the session; ``pid`` is 0 if unknown."""

    def __init__(self, path: Path, pid: int) -> None:
        super().__init__("in_use", path)
        self.pid = pid


def code_of(error: OSError) -> FaultCode:
    """Return the fault code for a system error; ``io_error`` for one without a code of its own."""
    code = _CODES.get(error.errno or errno.EIO)
    return cast("FaultCode", code) if code in get_args(FaultCode) else "io_error"


def describe_fault(error: OSError | SessionFault) -> str:
    """Return the system's message for a system error, or path and code of a session fault."""
    if isinstance(error, SessionFault):
        return str(error)
    return os.strerror(error.errno or errno.EIO)


def make_fault(path: Path, error: OSError) -> SessionFault:
    """Return the fault of a session for a system error."""
    return SessionFault(code_of(error), path)


@dataclass(frozen=True, slots=True)
class JournalHealth:
    """State of a journal: whether it is written to disk, or the session lives in this process only
    (mode ``memory``).

    ``reason`` and ``detail`` say why it is not on disk; ``written`` and ``durable`` are the last
    sequence numbers written, and safe against a power loss. ``gone_wrong`` counts segments
    abandoned after an error.
    """

    mode: Mode = "disk"
    reason: FaultCode | None = None
    detail: str = ""  # the system's words
    path: Path | None = None  # what could not be written
    written: int = 0
    durable: int = 0
    gone_wrong: int = 0


log = logging.getLogger("duckflow.faults")

NAME: Final = "duckflow.log"
MAX_BYTES: Final = 1_000_000  # of one file; one older file is kept


def log_fault(error: BaseException) -> LocalizedText:
    """Log an unexpected error with its traceback; return a message for the user that names the log
    file.
    """
    log.error("unexpected", exc_info=error)
    path = find_log_file()
    params = {"error": describe_error(error), "log": path}
    return LocalizedText(key="cli.fault" if path else "cli.fault_unlogged", params=params)


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """Rotating log file whose files all have mode 0600. A record that cannot be written is dropped
    without a message, which would disturb the screen.
    """

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore the error; the base class would print a traceback over the screen."""

    def _open(self) -> TextIOWrapper:
        """Open the log file for appending; a new one gets mode 0600."""
        return open(
            self.baseFilename,
            "a",
            encoding=self.encoding,
            errors=self.errors,
            opener=lambda path, flags: os.open(path, flags, 0o600),
        )


def open_log(folder: Path, secrets: Iterable[str], level: int = logging.INFO) -> Path | None:
    """Send the program's log records to a file in ``folder``, with secrets redacted; return its
    path, or None if it cannot be written.

    Replaces all handlers of the root logger. The file is 0600, a new folder 0700. Without a file
    nothing is logged, because standard error belongs to the screen.
    """
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / NAME
        handler = _PrivateFile(
            path, maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )
    except OSError:
        root.addHandler(logging.NullHandler())
        return None
    handler.name = APP
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    handler.addFilter(RedactingFilter(Redactor(secrets)))
    root.addHandler(handler)
    root.setLevel(level)
    for noisy in ("openai", "httpx2", "httpcore2", "asyncio", "watchfiles", "markdown_it"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    return path
