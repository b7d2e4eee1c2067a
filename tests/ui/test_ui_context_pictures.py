"""The window of the model at the three sizes and in both languages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support import context_states as states
from support.app_states import FakeEngine, app_with, commanded, settled
from support.pictures import by_name, each_state
from support.pinned import ManualClock
from textual.pilot import Pilot

from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S

Build = Callable[[str], tuple[FakeEngine, tuple[str, ...]]]


def estimated(language: str) -> tuple[FakeEngine, tuple[str, ...]]:
    return states.engine(states.asked(language, waits=True), language), ()


def page(language: str) -> tuple[FakeEngine, tuple[str, ...]]:
    return states.engine(states.asked(language), language), ("/context",)


def parts(language: str) -> tuple[FakeEngine, tuple[str, ...]]:
    keys = ("/context", "settle", "enter", "settle", *["down"] * 6)
    return states.engine(states.asked(language), language), keys


def card(language: str) -> tuple[FakeEngine, tuple[str, ...]]:
    return states.engine(states.compacted(language), language), ()


def card_opened(language: str) -> tuple[FakeEngine, tuple[str, ...]]:
    return states.engine(states.compacted(language), language), ("ctrl+o",)


STATES: list[Build] = [estimated, page, parts, card, card_opened]


@each_state("build", by_name(STATES))
def test_the_window(snap_compare: Any, build: Build, size: tuple[int, int], language: str) -> None:
    fake, keys = build(language)
    app = app_with(fake, language=language, theme="duck-light" if language == "ja" else "duck-dark")

    async def press(pilot: Pilot[int]) -> None:
        assert isinstance(pilot.app, DuckflowApp)
        await settled(pilot, lambda: not app.session.opening)
        await pilot.pause()
        for key in keys:
            if key == "settle":
                await pilot.pause()
                assert isinstance(app.clock, ManualClock)
                app.clock.advance(SETTLE_S)
            elif key.startswith("/"):
                await commanded(pilot, key)
            else:
                await pilot.press(key)
        if "/context" in keys:
            await settled(pilot, lambda: app.screen is not app.bench)
        await pilot.pause(0.1)
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=press)
