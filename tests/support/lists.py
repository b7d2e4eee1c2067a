"""What tests do on list pages: see which list is open, take an action, answer its question."""

from __future__ import annotations

from typing import Any, cast

from support.app_states import settled
from support.pinned import ManualClock
from support.screens import shown
from textual.pilot import Pilot
from textual.widgets import Input, Static

from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.list_page import ListPage, Page
from duckflow_tui.ui.screens.list_source import ListSource
from duckflow_tui.ui.screens.pick_list import PickList


def is_listing(app: DuckflowApp, *kinds: type[ListSource[Any]]) -> bool:
    """Whether a list of one of these kinds is on the screen."""
    return isinstance(app.screen, ListPage) and isinstance(open_list(app).source, kinds)


def open_list(app: DuckflowApp) -> ListPage[Any]:
    """The list page on the screen."""
    assert isinstance(app.screen, ListPage)
    return cast("ListPage[Any]", app.screen)


def settle_keys(app: DuckflowApp) -> None:
    """Let the time pass after which keys count on a page."""
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(2 * SETTLE_S)


async def take_action(app: DuckflowApp, pilot: Pilot[int], label: str) -> None:
    """Choose an action of the row at the cursor in the menu, by its whole label."""
    settle_keys(app)
    await pilot.press("full_stop")
    await settled(pilot, lambda: isinstance(app.screen, PickList), "the menu")
    menu = app.screen
    menu.query_one(Input).value = label
    await pilot.pause()
    await pilot.press("enter")
    await settled(pilot, lambda: app.screen is not menu, label)


async def take_twice(app: DuckflowApp, pilot: Pilot[int], label: str, asks: str) -> None:
    """Choose an action that asks with these words, and answer with Enter."""
    await take_action(app, pilot, label)
    await settled(pilot, lambda: asks in " ".join(list_text(app).split()), asks)
    settle_keys(app)
    await pilot.press("enter")


def list_text(app: DuckflowApp) -> str:
    """The open list page: its title, if it has room for one, and its rows."""
    page = open_list(app)
    title = page.query_one(".list-title", Static)
    rows = shown(page.query_one(Page))
    return f"{title.render()}\n{rows}" if title.display else rows
