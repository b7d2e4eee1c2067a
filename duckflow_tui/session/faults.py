"""Faults of a session's files, as types and codes that the screen has words for."""

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
    """A session that cannot be opened; its files are as they were. The catalogue has the words."""

    def __init__(self, code: FaultCode, path: Path) -> None:
        super().__init__(f"{path}: {code}")
        self.code: FaultCode = code
        self.path = path


class SessionInUse(SessionFault):
    """Another process writes this session; ``pid`` is 0 where it is not known."""

    def __init__(self, path: Path, pid: int) -> None:
        super().__init__("in_use", path)
        self.pid = pid


class NewerSession(SessionFault):
    """A later version of this program wrote the session."""

    def __init__(self, path: Path) -> None:
        super().__init__("newer", path)


class NotASession(SessionFault):
    """A folder or file holds no session: it is not there, empty, or something else."""


class SessionUnreadable(SessionFault):
    """The operating system refused to open or change a session."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(code_of(error), path)


def code_of(error: OSError) -> FaultCode:
    """The code of a system error."""
    code = _CODES.get(error.errno or errno.EIO)
    return cast("FaultCode", code) if code in get_args(FaultCode) else "io_error"


def describe_fault(error: OSError | SessionFault) -> str:
    """The system's own words for its error; path and code of a fault."""
    if isinstance(error, SessionFault):
        return str(error)
    return os.strerror(error.errno or errno.EIO)


def make_open_fault(path: Path, error: OSError) -> SessionFault:
    """Make a fault from a system error that occurred while a session was opened."""
    code = code_of(error)
    if code in ("missing", "link"):
        return NotASession(code, path)
    return SessionUnreadable(path, error)


@dataclass(frozen=True, slots=True)
class JournalHealth:
    """How safe the session is. In mode ``memory`` it lives in this process only.

    ``reason`` and ``detail`` say why; ``durable`` is the last sequence number that survives a
    power loss. ``gone_wrong`` counts segments that had to be left.
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
    """Log an error that nothing else handles; returns it in words, with the file that has it."""
    log.error("unexpected", exc_info=error)
    path = find_log_file()
    params = {"error": describe_error(error), "log": path}
    return LocalizedText(key="cli.fault" if path else "cli.fault_unlogged", params=params)


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """Makes each of its files for its owner alone, also when it begins another. A record that the
    disk does not take is lost: there is nobody to tell whom it would not disturb.
    """

    def handleError(self, record: logging.LogRecord) -> None:
        """Say nothing; logging would print a traceback over the screen."""

    def _open(self) -> TextIOWrapper:
        return open(
            self.baseFilename,
            "a",
            encoding=self.encoding,
            errors=self.errors,
            opener=lambda path, flags: os.open(path, flags, 0o600),
        )


def open_log(folder: Path, secrets: Iterable[str], level: int = logging.INFO) -> Path | None:
    """Send the program's log records to ``folder``; None when it cannot be written.

    Files are 0600, the folder 0700. Without a file, nothing is logged: standard error is the
    screen's.
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
