"""A replay at four sizes and in both languages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.app_states import settled
from support.pictures import IDS, SIZES
from support.replays import player_of, replay_app, story
from textual.pilot import Pilot


@pytest.mark.parametrize("where", ["gate", "end"])
@pytest.mark.parametrize(
    ("language", "size"),
    [*(("en", size) for size in (*SIZES, (40, 12))), ("ja", (80, 24))],
    ids=[*(f"en-{name}" for name in (*IDS, "40x12")), "ja-80x24"],
)
def test_a_replay(
    snap_compare: Callable[..., bool], where: str, size: tuple[int, int], language: str
) -> None:
    app = replay_app(story(language))
    app.action_language(language)

    async def go(pilot: Pilot[Any]) -> None:
        await settled(pilot, lambda: not app.session.opening, "the session")
        await pilot.press(*(["n"] if where == "gate" else ["end", "minus"]))
        if where == "end":
            await settled(pilot, lambda: player_of(app).at_end, "the end")
        await pilot.pause()
        await pilot.pause()

    assert snap_compare(app, run_before=go, terminal_size=size)


@pytest.mark.parametrize("theme", ["duck-light", "duck-contrast"])
def test_a_replay_in_the_other_themes(snap_compare: Callable[..., bool], theme: str) -> None:
    app = replay_app(story())
    app.theme = theme

    async def go(pilot: Pilot[Any]) -> None:
        await settled(pilot, lambda: not app.session.opening, "the session")
        await pilot.press("n")
        await pilot.pause()
        await pilot.pause()

    assert snap_compare(app, run_before=go, terminal_size=(120, 40))
