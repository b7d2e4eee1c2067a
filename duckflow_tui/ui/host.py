"""The app that a widget is part of, by its own type: what its keys act on."""

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
    """The app of this widget or screen."""
    return cast("DuckflowApp", node.app)  # pyright: ignore[reportUnknownMemberType]  # App[Unknown]


def bind_keys(*surfaces: Surface) -> list[BindingType]:
    """The bindings of all keys of these surfaces, each to its action."""
    keys = [pair for key in keys_of(*surfaces) for pair in key.list_actions()]
    return [Binding(name, action, show=False) for name, action in keys]


def names_key(style: Style, key: str) -> Style:
    """The style of the printed name of a key, which can be clicked."""
    return style + Style(meta={"key": key})


def press(node: DOMNode, key: str) -> None:
    """The key comes as if it was pressed: to who has the focus, with all that holds for keys."""
    host_of(node).post_message(events.Key(key, key if len(key) == 1 else None))


def press_clicked(node: DOMNode, event: events.Click) -> None:
    """Where the name of a key was clicked, press it."""
    meta: dict[str, Any] = event.style.meta
    key = meta.get("key")
    if isinstance(key, str):
        event.stop()
        press(node, key)
