"""The page of settings: each value, what it means, and where it is from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.app_states import FakeSessions, app_on, commanded, settled, standing
from support.lists import is_listing, list_text, open_list, settle_keys, take_action
from support.pinned import ManualClock
from textual.pilot import Pilot

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.llm.endpoints import LOOPBACK_PORTS
from duckflow_tui.places import Places
from duckflow_tui.sessions import Sessions
from duckflow_tui.settings import find_section, load_settings
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
    sessions = Sessions(
        choose_session(
            Flags(workspace=places.config, theme="duck-light"), places, language, environ
        )
    )
    options = AppOptions(
        language=language,
        theme="duck-light",
        settings=lambda: sessions.settings,
        settings_path=shows or str(places.settings_file),
        keep=sessions.save_setting,
    )
    return app_on(FakeSessions(None), options, ManualClock())


async def open_board(app: DuckflowApp, pilot: Pilot[int], wanted: str = "") -> None:
    bench = app.bench
    await settled(pilot, lambda: bench.focused is not None and bench.focused is bench.talk.welcome)
    bench.to_composer()
    await commanded(pilot, f"/settings {wanted}".strip())
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
        open_list(app).choose("roles.main")  # which /model chooses
        await pilot.press("enter")
        await settled(pilot, lambda: opened == [places.settings_file], "the editor")
        open_list(app).choose("execution.max_steps")
        await take_action(app, pilot, app.words("keys.settings_open"))
        await settled(pilot, lambda: opened == [places.settings_file] * 2, "the editor")


#: A part of the key, what is pressed, and the value that the next start has, or what is said.
CHANGES: list[tuple[str, str, str, object, str]] = [
    ("notif", "enter", "ui.notifications", False, "it applies now"),
    ("theme", "enter down enter", "ui.theme", "duck-contrast", "it applies now"),
    ("max_steps", "enter backspace backspace 9 enter", "execution.max_steps", 9, "it applies from"),
    ("max_cost", "enter backspace 5 enter", "limits.max_cost", 0.5, "it applies from"),
    ("phases", "enter t enter", "phases.table", "t", "it applies from"),
    ("max_steps", "enter 0 0 enter", "execution.max_steps", 60, "must be 1 to 100"),
    ("max_steps", "enter x enter", "execution.max_steps", 60, "must be a whole number"),
    ("max_steps", "enter 1 escape", "execution.max_steps", 60, ""),
    ("approval.mode", "enter s t r i c t enter", "approval.mode", "strict", "it applies from"),
    ("approval", "enter t r u s t enter", "approval.mode", "standard", "Enter saves it"),
    (
        "local.context",
        "enter end backspace 8 0 enter",
        "endpoints.local.context",
        80,
        "it applies from",
    ),
    ("local.max_out", "enter 9 enter", "endpoints.local.max_output", 9, "it applies from"),
    (
        "local.base",
        "enter home x enter",
        "endpoints.local.base_url",
        "http://localhost:11434/v1",
        "must begin with https",
    ),
    (
        "local.protocol",
        "enter j s o n enter",
        "endpoints.local.protocol",
        "json",
        "it applies from",
    ),
    (
        "ports",
        "enter home right 1 comma enter",
        "discovery.ports",
        LOOPBACK_PORTS,
        "= [1, 11434",
    ),
    ("ports", "enter home delete enter", "discovery.ports", LOOPBACK_PORTS, "must be a list"),
    ("sandbox.env", 'enter home right " X " enter', "sandbox.env", (), "Enter saves it"),
    ("deny", 'enter home right " " enter', "approval.deny", (), "must not be empty"),
]


@pytest.mark.parametrize(("wanted", "keys", "key", "value", "told"), CHANGES)
async def test_a_setting_is_changed_on_its_row(
    places: Places, wanted: str, keys: str, key: str, value: object, told: str
) -> None:
    """The file has it, and what else stands in the file stays."""
    app = app_of(places)
    async with standing(app, 120, 40) as pilot:
        await open_board(app, pilot, wanted)
        assert open_list(app).chosen_id == key
        await pilot.press(*keys.split())
        await settled(pilot, lambda: told in said(app), told)
        await pilot.pause()
        section, name = find_section(load_settings(places, {}).settings, key)
        assert getattr(section, name) == value
        assert set(FILE.splitlines()) <= set(places.settings_file.read_text("utf-8").splitlines())


async def test_what_widens_rights_takes_a_second_key_and_a_theme_is_seen_at_once(
    places: Places,
) -> None:
    app = app_of(places)
    async with standing(app, 120, 40) as pilot:
        await open_board(app, pilot, "approval")
        await pilot.press("enter", *"trust", "enter")
        await settled(pilot, lambda: "Enter saves it" in said(app), "the question")
        settle_keys(app)
        await pilot.press("enter")
        await settled(pilot, lambda: "it applies from the next" in said(app), "the answer")
        assert load_settings(places, {}).settings.approval.mode == "trusted"
        open_list(app).choose("ui.theme")
        settle_keys(app)
        await pilot.press("enter", "down", "enter")
        await settled(pilot, lambda: app.theme == "duck-contrast", "the theme")


@pytest.mark.parametrize(
    ("language", "size"), [("en", (120, 40)), ("ja", (80, 24)), ("en", (60, 20))]
)
def test_the_page(snap_compare: Any, places: Places, language: str, size: tuple[int, int]) -> None:
    app = app_of(places, language, shows="~/duckflow/settings.toml")

    async def press(pilot: Pilot[int]) -> None:
        """A number that is being written, and what was wrong with it."""
        await open_board(app, pilot, "max_steps")
        await pilot.press("enter", "0", "0", "enter")
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=press)
