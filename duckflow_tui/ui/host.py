"""Typed access from a widget to its app, key bindings, and clickable key names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType

from duckflow_tui.ui.bindings import Surface, keys_of

if TYPE_CHECKING:
    from textual.dom import DOMNode

    from duckflow_tui.ui.app import DuckflowApp


def host_of(node: DOMNode) -> DuckflowApp:
    """Return the app of this widget or screen, as its own type."""
    return cast("DuckflowApp", node.app)  # pyright: ignore[reportUnknownMemberType]  # App[Unknown]


def bind_keys(*surfaces: Surface) -> list[BindingType]:
    """Return bindings for all keys of these places, each to its action."""
    keys = [pair for key in keys_of(*surfaces) for pair in key.list_actions()]
    return [Binding(name, action, show=False) for name, action in keys]


def names_key(style: Style, key: str) -> Style:
    """Return the style for a printed key name that can be clicked."""
    return style + Style(meta={"key": key})


def press(node: DOMNode, key: str) -> None:
    """Simulate a key press: it goes to the focused widget, with the same guards as a real one."""
    host_of(node).post_message(events.Key(key, key if len(key) == 1 else None))


def press_clicked(node: DOMNode, event: events.Click) -> None:
    """Press the key whose name was clicked, if any."""
    meta: dict[str, Any] = event.style.meta
    key = meta.get("key")
    if isinstance(key, str):
        event.stop()
        press(node, key)
