"""The palette of the theme that a widget is drawn in."""

from __future__ import annotations

from textual.widget import Widget

from duckflow_tui.ui.palette import Palette, palette_named


def palette_of(widget: Widget) -> Palette:
    """The colours of the app's theme now."""
    theme: str = widget.app.theme  # pyright: ignore[reportUnknownMemberType]  # App[Unknown]
    return palette_named(theme)
