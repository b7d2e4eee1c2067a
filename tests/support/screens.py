"""What a widget shows, as text."""

from __future__ import annotations

from textual.widget import Widget


def shown(widget: Widget) -> str:
    """The rows of the widget that are in sight, without the spaces at their ends."""
    lines = widget.render_lines(widget.outer_size.region)
    return "\n".join(strip.text.rstrip() for strip in lines)
