"""Going back in the conversation at the three sizes and in both languages."""

from __future__ import annotations

from typing import Any

from support.app_states import app_with, commanded, settled
from support.pictures import each_state
from support.pinned import ManualClock
from support.rewind_states import asked
from textual.pilot import Pilot

from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.pick_list import PickList

CHOICE = ("down", "enter")
BACK = ("enter",)


@each_state("keys", {"list": CHOICE, "back": BACK})
def test_rewind(
    snap_compare: Any, keys: tuple[str, ...], size: tuple[int, int], language: str
) -> None:
    theme = "duck-light" if language == "ja" else "duck-dark"
    app = app_with(asked(language), language=language, theme=theme)

    async def press(pilot: Pilot[int]) -> None:
        assert isinstance(pilot.app, DuckflowApp)
        await settled(pilot, lambda: not app.session.opening)
        await pilot.pause()
        await commanded(pilot, "/rewind")
        await settled(pilot, lambda: app.screen is not app.bench)
        await pilot.pause()
        assert isinstance(app.clock, ManualClock)
        app.clock.advance(SETTLE_S)
        await pilot.press(*keys)
        if keys == BACK:
            await settled(pilot, lambda: app.screen is app.bench)
        else:
            await settled(pilot, lambda: isinstance(app.screen, PickList))
        await pilot.pause(0.1)
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=press)
