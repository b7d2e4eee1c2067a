"""A replay over a running app: a program of its own has the terminal, and the session goes on."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckflow_tui.ui.session_host import SessionHost


async def watch_again(app: SessionHost, session: Path) -> int:
    """Show the session in this folder, or in this file, until the user ends the replay; its exit
    status, 2 where there was nothing to show.

    Raises OSError when it cannot be started.
    """
    flags = ["--lang", app.words.language, "--theme", str(app.theme)]
    command = [sys.executable, "-m", "duckflow_tui", "replay", *flags, str(session)]
    status, failed = 0, None
    with app.suspend(), app.guard.lent():
        # Caught in here: an error that leaves ``suspend`` keeps the terminal given away.
        try:
            shown = await asyncio.create_subprocess_exec(*command)
            status = await shown.wait()
        except OSError as error:
            failed = error
    if failed is not None:
        raise failed
    return status
