"""The app's log: a small file in the state folder that never holds a secret (promise 7)."""

from __future__ import annotations

import logging
import logging.handlers
import os
from collections.abc import Iterable
from io import TextIOWrapper
from pathlib import Path
from typing import Final

from duckflow_tui.safety.secrets import RedactingFilter, Redactor

NAME: Final = "duckflow.log"
MAX_BYTES: Final = 1_000_000  # of one file; one older file is kept


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """Makes each of its files for its owner alone, also when it begins another."""

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
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    handler.addFilter(RedactingFilter(Redactor(secrets)))
    root.addHandler(handler)
    root.setLevel(level)
    for noisy in ("openai", "httpx2", "httpcore2", "asyncio", "watchfiles", "markdown_it"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    return path
