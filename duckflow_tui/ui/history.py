"""Messages that the user sent in this workspace, for ↑ and Ctrl+R."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from duckflow_tui.state.base import hash_data
from duckflow_tui.state.lines import split_lines

LIMIT: Final = 1000  # messages kept
MAX_BYTES: Final = 4_000_000  # of the file that is read; older text is left alone

log = logging.getLogger("duckflow.history")


class MessageHistory:
    """The history of one workspace: a file of JSON lines, mode 0600; several processes may append.

    A history that cannot be read counts as empty, one that cannot be written stays in memory: it
    never keeps a message from being sent. ``redact`` removes keys and passwords before they are
    stored.
    """

    def __init__(
        self, data_dir: Path | None, workspace: str, redact: Callable[[str], str] = str
    ) -> None:
        self._redact = redact
        self._path: Path | None = None
        if data_dir is not None:
            self._path = data_dir / "history" / f"{hash_data(workspace)[:16]}.jsonl"
        self._messages: list[str] | None = None

    @property
    def messages(self) -> list[str]:
        """Return all messages, oldest first; read from disk at first use."""
        if self._messages is None:
            self._messages = self._read()
        return self._messages

    def add(self, text: str) -> None:
        """Append a message, unless it equals the last one."""
        text = self._redact(text)
        if not text.strip() or (self.messages and self.messages[-1] == text):
            return
        self.messages.append(text)
        del self.messages[:-LIMIT]
        if self._path is None:
            return
        # The newline comes first: it seals a line that a crash cut off.
        line = "\n" + json.dumps(text)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(fd, "ab") as file:
                file.write(line.encode("ascii"))
        except OSError as error:
            log.warning("the message history %s cannot be written: %s", self._path, error)

    def _read(self) -> list[str]:
        """Return the newest stored messages, oldest first; empty where they cannot be read."""
        if self._path is None:
            return []
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - MAX_BYTES))
                lines = split_lines(file.read().decode("utf-8", "replace"))
        except FileNotFoundError:
            return []
        except OSError as error:
            log.warning("the message history %s cannot be read: %s", self._path, error)
            return []
        return [text for line in lines[-LIMIT:] if (text := _entry(line))]


def _entry(line: str) -> str:
    """Return the message on a line of the file; empty for a damaged line."""
    try:
        value: object = json.loads(line)
    except ValueError:  # a line that was cut off by a crash
        return ""
    return value if isinstance(value, str) else ""
