"""A session recorded live replays to the same screen, cell for cell, without a network."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.app_states import settled
from support.replays import live, no_network, panes, player_of, recorded, replaying, tape_of

from duckflow_tui.state.gates import CardKind

pytestmark = pytest.mark.long


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file with its time and its bytes."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize(
    ("size", "language"),
    [((120, 40), "en"), ((80, 24), "ja"), ((60, 20), "en")],
    ids=["120x40-en", "80x24-ja", "60x20-en"],
)
async def test_a_recorded_demo_session_replays_to_the_same_final_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], language: str
) -> None:
    """Played to its end, gone to at once, and come back to: always the same cells."""
    async with live(tmp_path, size=size, language=language) as (on, request):
        await on.say(request)
        await on.answer("y")
        await on.ended()
        as_it_was = panes(on.app)
    assert any("Transcript" in name for name in as_it_was)
    no_network(monkeypatch)
    before = tree(tmp_path)
    tape = tape_of(tmp_path)
    assert {"gate", "review"} <= {mark.kind for mark in tape.marks}
    async with replaying(tape, size=size, playing=True, speed=16, language=language) as played:
        app, pilot = played
        await settled(pilot, lambda: player_of(app).at_end, "the end")
        await settled(pilot, lambda: panes(app) == as_it_was, "the same screen, played")
    async with replaying(tape, size=size, language=language) as (app, pilot):
        await pilot.press("end")
        await settled(pilot, lambda: panes(app) == as_it_was, "the same screen, at once")
        await pilot.press("home", "n", "p", "n", "left", "left", "right")
        assert not player_of(app).at_end
        await pilot.press("end")
        await settled(pilot, lambda: panes(app) == as_it_was, "the same screen, come back to")
    assert tree(tmp_path) == before
    assert recorded(tmp_path).is_dir()


@pytest.mark.whole
async def test_a_session_with_a_plan_replays_to_the_same_final_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live(tmp_path) as (on, request):
        await on.say(request)
        await on.answer("n", "enter")
        await on.approve_all()
        await on.say(
            "Add a loyalty discount of 5 % for regular customers, with tests, a line on the "
            "receipt and a word in the README."
        )
        await on.approve_all()
        assert {card.kind for card in on.cards} >= {CardKind.PLAN}
        as_it_was = panes(on.app)
    no_network(monkeypatch)
    tape = tape_of(tmp_path)
    async with replaying(tape, playing=True, speed=16) as (app, pilot):
        await settled(pilot, lambda: player_of(app).at_end, "the end")
        await settled(pilot, lambda: panes(app) == as_it_was, "the same screen, played")
        await pilot.press("home")
        await pilot.press("end")
        await settled(pilot, lambda: panes(app) == as_it_was, "the same screen, at once")
