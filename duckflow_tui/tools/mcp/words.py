"""Words of servers made harmless: visible, on one line where they stand in a sentence, and cut."""

from __future__ import annotations

from typing import Final

from duckflow_tui.safety.safe_text import visible, visible_line
from duckflow_tui.state.base import one_line

MAX_SAID: Final = 300  # characters of an error that is repeated
MAX_DESCRIPTION: Final = 1_000  # characters of a tool's description


def said(text: str, limit: int = MAX_SAID) -> str:
    """What a server or the system said, on one line."""
    return one_line(visible_line(text[: limit * 2].replace("\n", " ")), limit)


def harmless(text: str) -> str:
    """A text of any length with what could act or hide shown as signs; tabs stay."""
    return "\t".join(visible(part) for part in text.split("\t"))
