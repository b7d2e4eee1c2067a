"""Pictures of the gauges, of what Enter shows, of the requirements, and without gauges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import goals
from support.app_states import FakeEngine, app_with, commanded, settled, store_with
from support.pictures import each_state
from support.pinned import ManualClock
from textual.pilot import Pilot

from duckflow_tui.state.pace import Pace
from duckflow_tui.state.store import Store
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.panes.status import VitalsPlace
from duckflow_tui.ui.panes.transcript import Transcript

LANGUAGES = ["en", "ja"]
Keys = tuple[str, ...]


def neutral(language: str) -> Store:
    return store_with()


def after_work(language: str) -> Store:
    return goals.at_work(language, objective=True)


def falling_focus(language: str) -> Store:
    return goals.falling(language)


def fallback_limit(language: str) -> Store:
    store = goals.at_work(language)
    store.state.pace = Pace(limit=goals.fallback(), used=4)
    return store


def pressing(keys: Keys) -> Callable[[Pilot[int]], Any]:
    async def press(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, DuckflowApp)
        await settled(pilot, lambda: not app.session.opening)
        for key in keys:
            if key.startswith("/"):
                await commanded(pilot, key)
            else:
                await pilot.press(key)
            await pilot.pause()
            assert isinstance(app.clock, ManualClock)
            app.clock.advance(SETTLE_S)
        assert app.state is not None
        app.bench.query_one(Transcript).show_state(app.state)  # with the time that it is now
        for _ in range(3):
            await pilot.pause()

    return press


CASES: dict[str, tuple[Callable[[str], Store], Keys, VitalsPlace]] = {
    "launch": (neutral, (), "auto"),
    "running": (after_work, (), "auto"),
    "falling": (falling_focus, (), "auto"),
    "neutral": (neutral, ("f5", "enter"), "auto"),
    "after_work": (after_work, ("f5",), "auto"),
    "explained": (after_work, ("f5", "enter"), "auto"),
    "falling_focus": (falling_focus, ("f5", "enter", *("down",) * 5), "auto"),
    "limit": (falling_focus, ("f5", "enter", *("pagedown",) * 12), "auto"),
    "fallback_limit": (fallback_limit, ("f5", "enter", *("pagedown",) * 12), "auto"),
    "ledger_screen": (after_work, ("/requirements",), "auto"),
    "switched_off": (after_work, ("f5",), "off"),
}


@each_state("case", {case: case for case in CASES})
def test_vitals_and_ledger(
    snap_compare: Any, case: str, size: tuple[int, int], language: str
) -> None:
    build, keys, vitals = CASES[case]
    theme = "duck-dark" if language == "en" else "duck-light"
    app = app_with(FakeEngine(build(language)), language=language, theme=theme, vitals=vitals)
    assert snap_compare(app, terminal_size=size, run_before=pressing(keys))


@pytest.mark.parametrize(
    ("keys", "size"),
    [
        (("/requirements", "down", "down", "enter"), (80, 24)),
        (("/requirements", "full_stop", "w", "enter"), (60, 20)),
        (("/profile",), (80, 24)),
        (("f5", "enter"), (20, 5)),
    ],
    ids=["form", "waive", "profile", "tiny"],
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_what_keys_open(
    snap_compare: Any, keys: Keys, size: tuple[int, int], language: str
) -> None:
    app = app_with(FakeEngine(after_work(language)), language=language)
    assert snap_compare(app, terminal_size=size, run_before=pressing(keys))
