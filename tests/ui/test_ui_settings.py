"""The page of settings: each value, what it means, and where it is from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.app_states import FakeSessions, app_on, settled, standing
from support.lists import is_listing, list_text, open_list
from support.pinned import ManualClock
from textual.pilot import Pilot

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.places import Places
from duckflow_tui.settings import Loaded
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.settings import SettingSource
from duckflow_tui.ui.session_host import AppOptions

FILE = """\
[endpoints.local]
base_url = "http://localhost:11434/v1"
headers = { x-team = "very-secret-value" }

[roles]
main = "local/qwen3-coder"
"""


def app_of(places: Places, language: str = "en", shows: str = "", **environ: str) -> DuckflowApp:
    """The app without a session, with the settings that these sources come to. ``shows`` is what
    the screen says for the path of the file.
    """
    places.config.mkdir(parents=True, exist_ok=True)
    places.settings_file.write_text(FILE, encoding="utf-8")
    found = choose_session(
        Flags(workspace=places.config, theme="duck-light"), places, language, environ
    )
    options = AppOptions(
        language=language,
        settings=lambda: Loaded(found.settings, origins=found.origins),
        settings_path=shows or str(places.settings_file),
    )
    return app_on(FakeSessions(None), options, ManualClock())


async def open_board(app: DuckflowApp, pilot: Pilot[int]) -> None:
    await settled(pilot, lambda: not app.session.opening)
    await pilot.press(*"/settings", "enter")
    await settled(pilot, lambda: is_listing(app, SettingSource), "the page")
    await pilot.pause()
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(SETTLE_S)


def said(app: DuckflowApp) -> str:
    return " ".join(list_text(app).split())


async def at(app: DuckflowApp, pilot: Pilot[int], key: str) -> str:
    """The page with the cursor on that setting."""
    open_list(app).choose(key)
    await pilot.pause()
    return said(app)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})


async def test_a_value_says_where_it_is_from(places: Places) -> None:
    app = app_of(places, DUCKFLOW_EXECUTION__MAX_STEPS="9")
    async with standing(app, 120, 40) as pilot:
        await open_board(app, pilot)
        text = await at(app, pilot, "endpoints.local.base_url")
        # A long path is wrapped.
        assert f"from{places.settings_file},line2" in text.replace(" ", "")
        text = await at(app, pilot, "execution.max_steps")
        assert "= 9 from the variable DUCKFLOW_EXECUTION__MAX_STEPS default: 60" in text
        assert "1 to 100" in text
        text = await at(app, pilot, "ui.theme")
        assert '= "duck-light" from the command line' in text
        assert "one of duck-dark, duck-light, duck-contrast" in text
        text = await at(app, pilot, "limits.max_cost")
        assert "= 0.0 by default" in text


async def test_what_may_be_a_secret_is_named_and_not_shown(places: Places) -> None:
    app = app_of(places)
    async with standing(app, 120, 40) as pilot:
        await open_board(app, pilot)
        text = await at(app, pilot, "endpoints.local.headers")
        assert "x-team (values hidden)" in text
        assert "very-secret" not in text


async def test_the_editor_opens_the_file_that_need_not_exist(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_of(places)
    places.settings_file.unlink()
    opened: list[Path] = []

    def found() -> list[Path]:
        return list(places.config.iterdir())

    async def edit_file(path: Path) -> None:
        opened.append(path)
        assert path in found()

    async with standing(app, 100, 30) as pilot:
        monkeypatch.setattr(app.editor, "edit_file", edit_file)
        await open_board(app, pilot)
        await pilot.press("enter")
        await settled(pilot, lambda: opened == [places.settings_file], "the editor")


@pytest.mark.parametrize(
    ("language", "size"), [("en", (120, 40)), ("ja", (80, 24)), ("en", (60, 20))]
)
def test_the_page(snap_compare: Any, places: Places, language: str, size: tuple[int, int]) -> None:
    app = app_of(places, language, shows="~/duckflow/settings.toml")

    async def press(pilot: Pilot[int]) -> None:
        await open_board(app, pilot)
        await pilot.press("down", "down", "down")
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=press)
