"""The last filter before the terminal (R13): control characters that got this far are made
visible.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from duckflow_tui.safety.safe_text import is_safe, visible_line


class SafeLineFilter(LineFilter):
    """Replaces control, bidi and invisible characters in every line of every widget by visible
    signs.

    A line keeps its width: the surplus is cut at its end. Hyperlinks are removed, because terminals
    act on them and their targets come from outside.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(_is_harmless(segment) for segment in segments):  # R13c
            return segments
        width = sum(cell_len(segment.text) for segment in segments)
        return Segment.adjust_line_length(
            [_shown(segment) for segment in segments], width, pad=False
        )


def _is_harmless(segment: Segment) -> bool:
    """Whether a segment needs no replacement."""
    text, style, control = segment
    if style is not None and style.link:
        return False
    return control is None and "\n" not in text and is_safe(text)


def _shown(segment: Segment) -> Segment:
    """Return the segment with its characters made visible and without a hyperlink."""
    style = segment.style
    if style is not None and style.link:
        style = style.update_link(None)
    return Segment(visible_line(segment.text), style)
