"""The app that a widget is part of, by its own type: what its keys act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from textual.dom import DOMNode

    from duckflow_tui.ui.app import DuckflowApp


def host_of(node: DOMNode) -> DuckflowApp:
    """The app of this widget or screen."""
    return cast("DuckflowApp", node.app)  # pyright: ignore[reportUnknownMemberType]  # App[Unknown]
