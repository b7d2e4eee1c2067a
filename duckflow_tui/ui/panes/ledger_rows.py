"""How a requirement looks: a mark, its priority, its words; and the evidence behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.goal import RequirementItem, RequirementState, TaskObjective
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import Row, ink

MARKS: Final[dict[RequirementState, str]] = {
    RequirementState.OPEN: "○",
    RequirementState.MET: "✓",
    RequirementState.PARTLY: "◐",
    RequirementState.REFUTED: "✗",
    RequirementState.WAIVED: "–",
}
#: What is settled comes last where not all have room.
_SETTLED: Final = {RequirementState.MET: 1, RequirementState.WAIVED: 2}


def mark_colour(state: RequirementState, palette: Palette) -> str:
    """The colour of a mark; the mark itself says the same."""
    return {
        RequirementState.MET: palette.good,
        RequirementState.PARTLY: palette.accent,
        RequirementState.REFUTED: palette.bad,
    }.get(state, palette.faint)


def priority_label(priority: int) -> str:
    """``P1``, in every language."""
    return f"P{priority}"


def requirement_row(item: RequirementItem, palette: Palette, width: int, said: str = "") -> Row:
    """``✓ P1 Two discounts of 10 % make 19 %``; ``said`` stands at the right edge."""
    waived = not item.counts
    over = ink(palette.quiet if waived else palette.text, strike=waived)
    left = [
        Segment(f"{MARKS[item.state]} ", ink(mark_colour(item.state, palette))),
        Segment(
            f"{priority_label(item.priority)} ",
            ink(palette.quiet if item.priority == 1 and not waived else palette.faint),
        ),
        Segment(visible_line(item.requirement), over),
    ]
    right = [Segment(f"  {said}", ink(palette.faint))] if said else []
    if cell_len(said) * 3 > width:
        right = []
    return two_sided(left, right, width)


def request_row(request: TaskObjective, palette: Palette, width: int, said: str) -> Row:
    """``· Write the notes    earlier · stopped · 1/3 met``: left before it was done."""
    left = [Segment(f"· {visible_line(request.original_query)}", ink(palette.quiet))]
    return two_sided(left, [Segment(f"  {said}", ink(palette.faint))], width)


def foremost(items: Sequence[RequirementItem], count: int) -> list[RequirementItem]:
    """The ``count`` that matter most, in the order in which all of them stand."""
    if len(items) <= count:
        return list(items)
    ranked = sorted(items, key=lambda item: (_SETTLED.get(item.state, 0), item.priority))
    chosen = {item.requirement_id for item in ranked[:count]}
    return [item for item in items if item.requirement_id in chosen]
