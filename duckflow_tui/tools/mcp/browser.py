"""Opens a page in the browser of this machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from duckflow_tui.safety.paths import lies_inside


async def open_page(url: str, environ: Mapping[str, str], workspace: Path) -> bool:
    """Open an http or https address in the browser; False where it is neither, where no browser
    can have a window, and where the program that opens it lies in the workspace.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        return False
    if sys.platform != "darwin" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return False
    name = "open" if sys.platform == "darwin" else "xdg-open"
    found = shutil.which(name, path=environ.get("PATH"))
    program = os.path.abspath(found) if found else None  # noqa: ASYNC240  # asks no disk
    if program is None or lies_inside(program, workspace):
        return False
    nowhere = asyncio.subprocess.DEVNULL  # what it prints would stand on the screen
    try:
        await asyncio.create_subprocess_exec(
            program, url, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
    except OSError:
        return False
    return True
