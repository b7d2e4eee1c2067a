"""The form for an address and a key, on a screen that has no room for all of it."""

from __future__ import annotations

import pytest
from support.app_states import app_with, settled
from support.screens import screen_text
from textual.widgets import Input

from duckflow_tui.ui.screens.connect_form import ConnectForm


@pytest.mark.parametrize("size", [(20, 5), (40, 8)])
async def test_the_field_that_is_written_in_is_seen(size: tuple[int, int]) -> None:
    app = app_with(None)
    async with app.run_test(size=size) as pilot:
        await settled(pilot, lambda: app.bench.talk.welcome is not None)
        form = ConnectForm(app.words, "", "", "file", "/home/duck/keys.json")
        app.push_screen(form)
        await settled(pilot, lambda: app.screen is form and isinstance(form.focused, Input))

        def is_seen(name: str) -> bool:
            field = form.query_one(name)
            return form.focused is field and form.find_widget(field).visible_region.height == 1

        await settled(pilot, lambda: is_seen("#connect-address"), "the address")
        await pilot.press("tab")
        await settled(pilot, lambda: is_seen("#connect-key"), "the key")


async def test_what_the_keys_do_is_told_whole_where_the_line_is_short() -> None:
    app = app_with(None)
    async with app.run_test(size=(30, 24)) as pilot:
        await settled(pilot, lambda: app.bench.talk.welcome is not None)
        app.push_screen(ConnectForm(app.words, "", "", "file", "/home/duck/keys.json"))

        def told_whole() -> bool:
            said = " ".join(screen_text(app).replace("│", " ").split())
            return "Enter connect Tab next field Esc back" in said

        await settled(pilot, told_whole)
