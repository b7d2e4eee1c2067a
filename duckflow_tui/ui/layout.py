"""Chooses between the two layouts, and the widths of chat and side column.

Imported before the first frame: no Textual, and not even ``typing`` at run time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal

    Layout = Literal["wide", "single"]

NARROW: Final = 30  # columns of the panes beside the chat at least
BROAD: Final = 44  # and at most, until the user gives them more
CHAT: Final = 90  # columns of the chat beside them at least: 80 of code or output, and their frame
WIDE: Final = CHAT + NARROW  # columns from which both fit beside each other
TEXT: Final = 100  # columns of text at most: a longer line is hard to read
MAIN: Final = TEXT + 4  # columns of the composer at most, as the style sheet has it
TALL: Final = 24  # rows below which only one pane is shown at a time
ROOMY: Final = 14  # rows below which borders and gaps are left out
TALK: Final = 5  # rows of the chat beside an open question, once something was said since
TALK_AT_GATE: Final = 8  # the same beside a gate: the call that asks stands there too
SCANT: Final = 9  # rows below which an open question takes the chat's room too


def layout_for(width: int, height: int) -> Layout:
    """Return the layout for a terminal of this many columns and rows; any size is allowed."""
    return "wide" if height >= TALL and width >= WIDE else "single"


def column_width(width: int) -> int:
    """Return the width of the side column on a screen of this width, unless the user moved its
    border.
    """
    return min(max(width - CHAT, NARROW), BROAD)


def chat_width(width: int, height: int) -> int:
    """Return the columns of the chat at launch."""
    return width - column_width(width) if layout_for(width, height) == "wide" else width
