"""Origins that the user confirmed once: plain http to a private address (R11)."""

from __future__ import annotations

import os
from pathlib import Path

MAX_LINES = 1000


class ConfirmedOrigins:
    """A text file in the app's data folder, one origin a line; the user may edit it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "confirmed_origins.txt"

    def has(self, origin: str) -> bool:
        """Whether the user confirmed exactly this origin; False when the file cannot be read."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()[:MAX_LINES]
        except (OSError, UnicodeDecodeError):
            return False
        return origin in lines

    def add(self, origin: str) -> None:
        """Remember it; raises OSError when the file cannot be written."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(f"{origin}\n")
