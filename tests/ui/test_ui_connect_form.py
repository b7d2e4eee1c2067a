"""The form for an address and a key, on a screen that has no room for all of it."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from support.app_states import app_with, settled
from support.screens import screen_text
from textual.widgets import Input

from duckflow_tui.ui.screens.connect_form import ConnectForm
from duckflow_tui.words.catalogue import Catalogue


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


@pytest.mark.parametrize("size", [(80, 24), (46, 20)])
async def test_a_sentence_in_japanese_fills_its_rows(size: tuple[int, int]) -> None:
    words = Catalogue("ja")
    app = app_with(None)
    async with app.run_test(size=size) as pilot:
        await settled(pilot, lambda: app.bench.talk.welcome is not None)
        problem = words("connect.fault.refused_key.written", host="api.openai.com", detail="401")
        form = ConnectForm(words, "", problem, "file", "/home/duck/keys.json")
        app.push_screen(form)
        await settled(pilot, lambda: app.screen is form and isinstance(form.focused, Input))
        said = form.query_one("#connect-said")
        await settled(pilot, lambda: said.size.height > 0)
        rows = [said.render_line(y).text.rstrip() for y in range(said.size.height)]
        full = said.size.width - 4
    assert "".join(rows).replace(" ", "") == problem.replace(" ", "")
    assert [row for row in rows[:-1] if cell_len(row) < full] == []
