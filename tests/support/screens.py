"""What a widget or the whole screen shows, as text."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.widget import Widget

from duckflow_tui.ui.panes.key_guard import KeyGuard


def key_waits(app: App[Any]) -> bool:
    """Whether a key waits for the next one, at a question or on a page."""
    guards = (vars(node).get("_guard") for node in (app.screen, *app.screen.walk_children()))
    return any(isinstance(guard, KeyGuard) and guard.is_waiting for guard in guards)


def shown(widget: Widget) -> str:
    """The rows of the widget that are in sight, without the spaces at their ends."""
    lines = widget.render_lines(widget.outer_size.region)
    return "\n".join(strip.text.rstrip() for strip in lines)


def screen_text(app: App[Any]) -> str:
    """The lines of the screen on top, as a terminal gets them."""
    strips = app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]  # what a terminal gets
    return "\n".join(strip.text for strip in strips)


def stands(screen: Any) -> bool:
    """Whether nothing is on its way to a widget or to the screen."""
    if screen._callbacks or screen._layout_required or screen._dirty_widgets:
        return False
    widgets: list[Any] = [screen.app, *screen.walk_children(with_self=True)]
    return all(
        widget._message_queue.empty() and not getattr(widget, "changing", False)
        for widget in widgets
    )
