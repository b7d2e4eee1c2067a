"""Pictures of the list of sessions."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.app_states import FakeEngine, app_with, settled, store_with
from support.lists import is_listing, open_list, take_action
from support.pictures import ONE_STATE
from support.pinned import ManualClock
from support.screens import screen_text
from support.session_shelf import NOW, shelf, sized
from textual.pilot import Pilot

from duckflow_tui.session.catalog import Catalog
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.sessions import SessionSource


@pytest.fixture(autouse=True)
def in_one_place_on_earth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def app_of(state_dir: Path, language: str, *, choose: bool = False) -> DuckflowApp:
    shelf(state_dir, language)
    theme = "duck-light" if language == "ja" else "duck-dark"
    engine = FakeEngine(store_with())
    catalog = Catalog(state_dir, clock=ManualClock(NOW), measure=sized)
    catalog.refresh()  # all of them: the list behind the page is what a fifth of a second reads
    return app_with(engine, language=language, theme=theme, catalog=catalog, choose=choose)


def opened(*keys: str, typed: str = "") -> Callable[[Pilot[int]], Any]:
    """The page, all of it read, and then these keys."""

    async def press(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, DuckflowApp)
        if not app.options.choose:
            await settled(pilot, lambda: "1  " in screen_text(app), "the sessions behind the page")
            app.action_sessions()
        await settled(pilot, lambda: is_listing(app, SessionSource), "the page")
        page = open_list(app).source
        assert isinstance(page, SessionSource)
        await settled(pilot, lambda: not page.is_reading, "the list")
        assert isinstance(app.clock, ManualClock)
        app.clock.advance(SETTLE_S)
        if typed:
            await pilot.press("slash")
            for letter in typed:
                await pilot.press(letter)
            await settled(pilot, lambda: page.searched == typed, "what was found")
        for key in keys:
            if key.startswith("keys."):
                await take_action(app, pilot, app.words(key))
            else:
                await pilot.press(key)
            for _ in range(3):
                await pilot.pause()
            app.clock.advance(2 * SETTLE_S)
        for _ in range(3):
            await pilot.pause()
        await settled(pilot, lambda: page.is_previewed, "the preview")
        await pilot.pause()

    return press


@ONE_STATE
def test_list(snap_compare: Any, tmp_path: Path, size: tuple[int, int], language: str) -> None:
    app = app_of(tmp_path, language)
    assert snap_compare(app, terminal_size=size, run_before=opened("down"))


@ONE_STATE
def test_search(snap_compare: Any, tmp_path: Path, size: tuple[int, int], language: str) -> None:
    """What is found is marked where it stands: in titles and in the conversation."""
    app = app_of(tmp_path, language)
    typed = "discounts" if language == "en" else "割引"
    assert snap_compare(app, terminal_size=size, run_before=opened(typed=typed))


@ONE_STATE
def test_unreadable(
    snap_compare: Any, tmp_path: Path, size: tuple[int, int], language: str
) -> None:
    app = app_of(tmp_path, language)
    keys = ["down"] * 6
    assert snap_compare(app, terminal_size=size, run_before=opened("keys.sessions_all", *keys))


@pytest.mark.parametrize("language", ["en", "ja"])
def test_trash(snap_compare: Any, tmp_path: Path, language: str) -> None:
    app = app_of(tmp_path, language)
    assert snap_compare(
        app,
        terminal_size=(80, 24),
        run_before=opened("down", "keys.sessions_delete", "enter", "keys.sessions_trash"),
    )


@pytest.mark.parametrize("language", ["en", "ja"])
def test_choosing_before_any_is_open(snap_compare: Any, tmp_path: Path, language: str) -> None:
    app = app_of(tmp_path, language, choose=True)
    assert snap_compare(app, terminal_size=(80, 24), run_before=opened())
