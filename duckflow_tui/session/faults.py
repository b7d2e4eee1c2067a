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
from duckflow_tui.state.base import LocalizedText, clip_value, describe_error

FaultCode = Literal[
    "in_use", "newer", "missing", "empty", "foreign", "bad_id", "link",
    "no_space", "read_only", "no_permission", "io_error",
]  # fmt: skip

Mode = Literal["disk", "memory", "closed"]

_CODES: Final = {**FAILURES, errno.ENOENT: "missing", errno.ELOOP: "link"}


class SessionFault(Exception):
    """A session that cannot be opened; its files are as they were. ``str()`` is a sentence."""

    def __init__(self, code: FaultCode, path: Path, sentence: str) -> None:
        super().__init__(sentence)
        self.code: FaultCode = code
        self.path = path


class SessionInUse(SessionFault):
    """Another process writes this session; ``pid`` is 0 where it is not known."""

    def __init__(self, path: Path, pid: int) -> None:
        by = f" by process {pid}" if pid else ""
        super().__init__(
            "in_use", path, f"The session {clip_value(path.name)} is open already{by}."
        )
        self.pid = pid


class NewerSession(SessionFault):
    """A later program wrote it; ``version`` is that of its records, 0 where it is not known."""

    def __init__(self, path: Path, version: int) -> None:
        super().__init__(
            "newer",
            path,
            f"The session {clip_value(path.name)} was written by a later version of this program. "
            "Nothing in it was changed; that version opens it.",
        )
        self.version = version


class NotASession(SessionFault):
    """A folder or file holds no session: it is not there, empty, or something else."""

    _SAID: Final[dict[FaultCode, str]] = {
        "missing": "There is no session {name}.",
        "empty": "The session {name} is empty: it ended before anything was written.",
        "foreign": "{name} is no session of this program. It was left as it is.",
        "bad_id": "{name} is no name of a session.",
        "link": "{name} is a link, where the program has a folder or file of its own.",
    }

    def __init__(self, code: FaultCode, path: Path) -> None:
        super().__init__(code, path, self._SAID[code].format(name=clip_value(path.name)))


class SessionUnreadable(SessionFault):
    """The operating system refused to open or change a session."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            code_of(error),
            path,
            f"Cannot open the session {clip_value(path.name)}: {describe_fault(error)}.",
        )


def code_of(error: OSError) -> FaultCode:
    """The code of a system error."""
    code = _CODES.get(error.errno or errno.EIO)
    return cast("FaultCode", code) if code in get_args(FaultCode) else "io_error"


def describe_fault(error: OSError | SessionFault) -> str:
    """The system's own words, or the sentence of a fault."""
    if isinstance(error, SessionFault):
        return str(error)
    return os.strerror(error.errno or errno.EIO)


def make_open_fault(path: Path, error: OSError) -> SessionFault:
    """Make a fault from a system error that occurred while a session was opened."""
    match code_of(error):
        case "missing" | "link" as code:
            return NotASession(code, path)
        case _:
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
