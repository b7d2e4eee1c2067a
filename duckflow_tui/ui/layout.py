"""Which of the three layouts a terminal gets.

The first frame waits for this module: no Textual, and not even ``typing`` at run time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal

    Layout = Literal["wide", "tabbed", "single"]

WIDE: Final = 120  # columns from which all four panes stand side by side
TABBED: Final = 80  # columns from which a second pane fits beside the chat
TALL: Final = 24  # rows below which only one pane is shown at a time
ROOMY: Final = 14  # rows below which borders and gaps are left out
TALK: Final = 5  # rows of the chat beside an open question, once something was said since
TALK_AT_GATE: Final = 8  # the same beside a gate: the call that asks stands there too
SCANT: Final = 9  # rows below which an open question takes the chat's room too


def layout_for(width: int, height: int) -> Layout:
    """The layout for a terminal of this many columns and rows; any size is allowed."""
    if height < TALL or width < TABBED:
        return "single"
    return "wide" if width >= WIDE else "tabbed"


def first_frame_column(width: int, layout: Layout) -> int:
    """Columns of the side column in the first frame, its rule included; 0 where there is none. The
    same as ``#side`` has in the style sheet.
    """
    if layout == "single":
        return 0
    return max(38, width * 2 // 5)
