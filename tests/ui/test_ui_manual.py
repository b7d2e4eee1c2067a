"""``/help``, and F1 beside it: the manual inside the program."""

from __future__ import annotations

from typing import Any

import pytest
from support.app_states import FakeEngine, app_with, commanded, settled, store_with
from support.open_apps import OpenApps
from support.screens import screen_text
from textual.pilot import Pilot

from duckflow_tui.manual import TOPICS
from duckflow_tui.startup_facts import LANGUAGES
from duckflow_tui.ui.screens.manual import PAGES, Manual, ManualPage


@pytest.mark.parametrize("language", LANGUAGES)
async def test_help_opens_a_page_and_turns_to_the_others(
    open_apps: OpenApps, language: str
) -> None:
    async with open_apps.standing(FakeEngine(store_with()), language=language) as (app, pilot):
        await commanded(pilot, "/help glossary")
        await settled(pilot, lambda: isinstance(app.screen, Manual), "the manual")
        manual = app.screen
        assert isinstance(manual, Manual)
        title = app.words("choice.topic.glossary")
        await settled(pilot, lambda: screen_text(app).count(title) >= 2, "its name and its heading")
        for _ in TOPICS:  # round, and behind the last page the first
            await pilot.press("right")
            await pilot.pause()
            assert app.words(f"choice.topic.{manual.topic}") in screen_text(app)
            assert "](" not in manual.query_one(ManualPage).text
        await pilot.press("left", "escape")
        await settled(pilot, lambda: app.screen is app.bench)


async def test_a_click_opens_a_page_and_letters_do_nothing(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        await commanded(pilot, "/help")
        await settled(pilot, lambda: isinstance(app.screen, Manual), "the manual")
        manual = app.screen
        assert isinstance(manual, Manual)
        await pilot.click(".manual-topics", offset=(2, PAGES.index("models")))
        await settled(pilot, lambda: manual.topic == "models", "the page")
        await pilot.press(*"quit")
        await pilot.pause()
        assert app.screen is manual
        assert manual.topic == "models"
        await pilot.press("escape")
        await settled(pilot, lambda: app.screen is app.bench)


async def test_f1_opens_the_page_of_keys_from_any_page_and_slash_filters_it(
    open_apps: OpenApps,
) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        for open_it in ("f1", "/help"):
            if open_it == "f1":
                await pilot.press("f1")
            else:
                await commanded(pilot, open_it)
            await settled(pilot, lambda: isinstance(app.screen, Manual), "the manual")
            await pilot.press("f1")
            await settled(pilot, lambda: "Ctrl+R" in screen_text(app), "the keys")
            await pilot.press("slash", *"anywhere", "space", *"narrower")
            await settled(pilot, lambda: "Ctrl+R" not in screen_text(app), "fewer")
            assert "Alt+← →" in screen_text(app)
            await pilot.press(*"x")
            await settled(pilot, lambda: "Alt+← →" not in screen_text(app), "none")
            assert "No matches." in screen_text(app)
            await pilot.press("escape")
            await settled(pilot, lambda: "Ctrl+R" in screen_text(app), "all of them")
            await pilot.press("escape")
            await settled(pilot, lambda: app.screen is app.bench)


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (20, 5)])
async def test_a_page_is_read_to_its_end_at_every_size(
    open_apps: OpenApps, size: tuple[int, int]
) -> None:
    async with open_apps.standing(FakeEngine(store_with()), *size) as (app, pilot):
        await commanded(pilot, "/help start")
        await settled(pilot, lambda: isinstance(app.screen, Manual), "the manual")
        await pilot.press("end")
        await settled(pilot, lambda: "session." in screen_text(app), "the end")


@pytest.mark.parametrize(
    ("language", "topic", "size"),
    [("en", "mcp", (120, 40)), ("ja", "vitals", (80, 24)), ("ja", "mcp", (60, 20))],
)
def test_how_it_looks(snap_compare: Any, language: str, topic: str, size: tuple[int, int]) -> None:
    app = app_with(FakeEngine(store_with()), language=language)

    async def open_it(pilot: Pilot[int]) -> None:
        await settled(pilot, lambda: not app.session.opening, "the session")
        await commanded(pilot, f"/help {topic}")
        await settled(pilot, lambda: isinstance(app.screen, Manual), "the manual")
        await pilot.pause(0.1)

    assert snap_compare(app, terminal_size=size, run_before=open_it)
