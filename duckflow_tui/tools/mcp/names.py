"""Names of servers' tools as operations, the same for the same tools every time."""

from __future__ import annotations

import re
from typing import Final

from duckflow_tui.state.base import digest

LONGEST: Final = 48  # characters of a tool's part, so that the whole fits a line of the prompt
_KEPT: Final = 39  # of a longer one, then "_" and 8 hex digits of its SHA-256
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")


def operation_name(server: str, tool: str) -> str:
    """``mcp.<server>.<tool>``; what is no letter, digit, ``_`` or ``-`` becomes ``_``."""
    part = _OTHER.sub("_", tool)
    if len(part) > LONGEST:
        part = f"{part[:_KEPT]}_{digest(tool)[:8]}"
    return f"mcp.{server}.{part}"
