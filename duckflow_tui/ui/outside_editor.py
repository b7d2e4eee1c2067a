"""The user's own editor for a text: it has the terminal, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from pathlib import Path


async def edit(command: str, text: str) -> str | None:
    """The text as it was left; None when the editor says that it failed.

    ``command`` is the user's own choice of a program, with arguments; it is run without a shell.
    Raises OSError when it cannot be started or what it left cannot be read, and ValueError when
    the command is not one.
    """
    with tempfile.TemporaryDirectory(prefix="duckflow-") as folder:  # mode 0700
        path = Path(folder) / "message.md"
        path.write_text(text, encoding="utf-8")
        if not await edit_file(command, path):
            return None
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")


async def edit_file(command: str, path: Path) -> bool:
    """Open a file where it lies; False when the editor says that it failed. Raises as ``edit``."""
    argv = shlex.split(command)
    if not argv:
        raise ValueError("no program is named")
    editor = await asyncio.create_subprocess_exec(*argv, str(path))
    return await editor.wait() == 0
