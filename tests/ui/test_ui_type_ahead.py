"""Keys right behind one that opens or closes a page: each reaches the place it was typed for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.app_states import FakeEngine, settled, store_with
from support.lists import is_listing
from support.model_servers import at_models
from support.open_apps import OpenApps
from support.screens import stands
from textual import events
from textual.app import App
from textual.widgets import Input

from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.screens.decisions import DecisionSource

_NAMES = {" ": "space", "/": "slash", "\r": "enter", "\x1b": "escape", "\x7f": "backspace"} | {
    "\x06": "ctrl+f",
    "\x07": "f1",
    "\x10": "ctrl+p",
    "\x12": "ctrl+r",
}
_CONTROL = 32  # characters below it are no text


def burst(app: App[Any], text: str) -> None:
    """Type it all at once, as a terminal sends what it has read in one piece."""
    for character in text:
        written = character if ord(character) >= _CONTROL and character != "\x7f" else None
        app.post_message(events.Key(_NAMES.get(character, character), written))


def field(app: DuckflowApp) -> str | None:
    """What stands in the field of the page on top."""
    if app.screen is app.bench or not stands(app.screen):
        return None
    found = app.screen.query(Input)
    return found.first(Input).value if found else None


@pytest.mark.parametrize(
    ("lead", "typed"),
    [
        ("\x06", "discount"),
        ("\x12", "small"),
        ("\x10", "mode"),
        ("\x07/", "diff"),
        ("/keys\r/", "scroll"),
        ("/theme\r", "light"),
        ("/rename\r", "shop"),
        ("/sessions\r/", "parser"),
        ("\x10rename\r", "shop"),
        ("hi \x06", "discount"),
        ("hi \x10", "mo\x7fde"),
    ],
)
async def test_what_is_typed_right_behind_the_key_of_a_page_is_in_its_field(
    lead: str, typed: str, open_apps: OpenApps
) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        composer = app.bench.composer
        composer.past.add("something small")
        burst(app, lead + typed)
        wanted = typed.replace("o\x7f", "")
        await settled(pilot, lambda: field(app) == wanted, f"{typed} in its field")
        assert composer.text == ("hi " if lead.startswith("hi") else "")


async def test_what_is_typed_right_behind_decisions_is_their_filter(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        burst(app, "/decisions\r/pricing")
        await settled(pilot, lambda: is_listing(app, DecisionSource), "the page")
        await settled(pilot, lambda: field(app) == "pricing", "the filter")
        assert app.bench.composer.text == ""


async def test_what_is_typed_right_behind_model_narrows_the_list(tmp_path: Path) -> None:
    async with at_models(tmp_path) as seat:
        burst(seat.app, "/model\rlarge")
        await settled(seat.pilot, lambda: field(seat.app) == "large", "the filter")
        assert seat.app.bench.composer.text == ""


@pytest.mark.parametrize(
    "lead", ["\x06disc", "\x10mo", "\x07", "/sessions\r", "/decisions\r/di\x1b"]
)
async def test_what_is_typed_right_behind_esc_on_a_page_is_in_the_composer(
    lead: str, open_apps: OpenApps
) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        burst(app, f"{lead}\x1bhello there")
        await settled(pilot, lambda: app.bench.composer.text == "hello there", "the text")
        assert app.screen is app.bench
