"""What a server writes to its standard error: a small file, never the screen."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 512 * 1024  # of one file; one older file is kept
SHOWN: Final = 32 * 1024  # bytes of the end that is shown
_LINE: Final = 8 * 1024  # characters of a line that is kept whole before it is written
_TAIL: Final = 2_000  # characters kept at hand, for what is said of a server that ended


class ServerLog:
    """Takes pieces of bytes, writes whole lines without secrets, and starts anew when it is full.

    What cannot be written is dropped: a full disk must not keep a server from working.
    """

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        self.path = path
        self._redact = redact
        self._rest = ""
        self._tail = ""

    @property
    def last_line(self) -> str:
        """The newest line that is not empty."""
        lines = f"{self._tail}{self._rest}".strip().splitlines()
        return self._redact(lines[-1].strip()) if lines else ""

    def begin(self, title: str) -> None:
        """Note that the server starts."""
        self._rest = self._tail = ""
        self._write(f"--- {title}\n")

    def add(self, piece: bytes) -> None:
        """Take a piece in."""
        text = self._rest + piece.decode("utf-8", "replace")
        head, newline, self._rest = text.rpartition("\n")
        if len(self._rest) > _LINE:
            head, newline, self._rest = text, "\n", ""
        if not newline:
            return
        self._tail = f"{self._tail}{head}\n"[-_TAIL:]
        self._write(self._redact(f"{head}\n"))

    def note(self, text: str) -> None:
        """A line of the app's own."""
        self._write(f"{self._redact(text)}\n")

    def _write(self, text: str) -> None:
        raw = text.encode("utf-8", "replace")
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._fits(raw):
                os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))
                self._fits(raw[-MAX_BYTES:])

    def _fits(self, raw: bytes) -> bool:
        """Append it where there is room; whether there was."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        try:
            room = os.fstat(descriptor).st_size + len(raw) <= MAX_BYTES
            if room:
                os.write(descriptor, raw)
            return room
        finally:
            os.close(descriptor)


def log_end(path: Path) -> str:
    """The newest lines of a log, at most ``SHOWN`` bytes; empty where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - SHOWN, 0))
            raw = file.read(SHOWN)
    except OSError:
        return ""
    text = raw.decode("utf-8", "replace")
    return text.partition("\n")[2] if size > SHOWN else text
