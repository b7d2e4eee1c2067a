"""A replay on the screen: its keys, its bar, the way back, and that nothing can be done in it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.app_states import settled
from support.journal_events import started, turn
from support.lists import list_text, open_list
from support.replays import bar_of, player_of, replaying, story, tape_with
from support.screens import shown
from textual import events as keys
from textual.pilot import Pilot

from duckflow_tui.commands import COMMANDS
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.screens.list_page import ListPage

READ_ONLY = "This is a replay"


def place(app: DuckflowApp) -> int:
    """The position that the bar shows."""
    assert f" {player_of(app).position}/" in str(bar_of(app).border_title)
    return player_of(app).position


def chat_of(app: DuckflowApp) -> str:
    """What the chat shows."""
    assert app.bench.talk.transcript is not None
    return shown(app.bench.talk.transcript)


async def press(pilot: Pilot[int], *names: str) -> None:
    await pilot.press(*names)
    await pilot.pause()


async def test_keys_play_step_jump_and_go_to_the_edges() -> None:
    async with replaying(story()) as (app, pilot):
        assert (place(app), player_of(app).playing) == (0, False)
        await press(pilot, "n")
        assert place(app) == 7
        assert app.bench.question.gate is not None
        assert "approval" in str(bar_of(app).border_title)
        await press(pilot, "n")
        assert place(app) == 11
        assert app.bench.question.gate is None
        await press(pilot, "n")
        assert place(app) == 11
        assert "no approval" in app.bench.status.notice_text
        await press(pilot, "p")
        assert place(app) == 7
        await press(pilot, "right")
        assert place(app) == 8
        await press(pilot, "left", "left")
        assert place(app) == 6
        assert app.bench.question.gate is None
        await press(pilot, "end")
        assert place(app) == 14
        await settled(pilot, lambda: "The end." in chat_of(app), "the last reply")
        await press(pilot, "home")
        assert place(app) == 0
        assert "The end." not in chat_of(app)


async def test_going_back_every_pane_shows_what_was_then() -> None:
    async with replaying(story()) as (app, pilot):
        await press(pilot, "end")
        await settled(pilot, lambda: "The end." in chat_of(app), "the end")
        plan = shown(app.bench.plan)
        assert plan.strip()
        await press(pilot, "home", "n")
        await settled(pilot, lambda: "call_1.txt" in chat_of(app), "the gate")
        assert "The end." not in chat_of(app)
        assert shown(app.bench.plan) != plan
        await press(pilot, "end")
        await settled(pilot, lambda: shown(app.bench.plan) == plan, "the plan again")


async def test_a_session_of_hours_plays_in_seconds_and_stops_at_its_end() -> None:
    began = time.monotonic()
    async with replaying(story(), playing=True, speed=16) as (app, pilot):
        await settled(pilot, lambda: player_of(app).at_end, "the end")
        assert time.monotonic() - began < 15.0
        await settled(pilot, lambda: "‖" in str(bar_of(app).border_title), "the stop")
        assert "2:00:00 / 2:00:00" in str(bar_of(app).border_title)
        await press(pilot, *["minus"] * 6, "space")
        assert player_of(app).playing
        assert player_of(app).position < 14


async def test_space_pauses_and_speed_has_its_ends() -> None:
    async with replaying(story()) as (app, pilot):
        await press(pilot, "space")
        assert player_of(app).playing
        await press(pilot, "space")
        assert not player_of(app).playing
        for _ in range(9):
            await press(pilot, "plus")
        assert player_of(app).speed == 16
        assert "16×" in str(bar_of(app).border_title)
        for _ in range(9):
            await press(pilot, "minus")
        assert player_of(app).speed == 0.25


@pytest.mark.parametrize("where", ["bar", "gate"])
async def test_no_key_does_anything_to_the_session(where: str) -> None:
    keys = ("y", "s", "t", "e", "1", "a", "x", "Z", "enter", "shift+tab", "ctrl+g", "ctrl+r")
    async with replaying(story()) as (app, pilot):
        await press(pilot, "n")
        store, before = player_of(app).store, player_of(app).store.state.gates
        for key in keys:
            if where == "gate":
                await press(pilot, "alt+3")
                await settled(pilot, lambda: app.bench.question.has_focus, "the focus")
            app.bench.status.clear_message()
            assert READ_ONLY not in app.bench.status.notice_text, key
            await press(pilot, key)
            assert READ_ONLY in app.bench.status.notice_text, key
            assert player_of(app).store is store, key
            assert store.state.gates is before, key
            assert place(app) == 7, key
            assert app.bench.composer.text == "", key


async def test_a_paste_and_what_is_typed_on_the_plan_change_nothing() -> None:
    async with replaying(story()) as (app, pilot):
        await press(pilot, "end")
        app.post_message(keys.Paste("rm -rf /"))
        await settled(pilot, lambda: READ_ONLY in app.bench.status.notice_text, "the word")
        await press(pilot, "alt+2")
        await settled(pilot, lambda: app.bench.plan.has_focus, "the plan")
        plans = player_of(app).store.state.plans
        for key in ("e", "a", "d", "J", "K", "r", "s"):
            app.bench.status.clear_message()
            await press(pilot, key)
            assert READ_ONLY in app.bench.status.notice_text, key
        assert player_of(app).store.state.plans is plans
        assert app.screen is app.bench
        assert app.bench.composer.text == ""


LOOKS = {"keys", "help", "chat", "plan", "diff", "vitals", "requirements", "queue", "ps", "mcp"} | {
    "working",
    "plans",
    "context",
    "rules",
    "decisions",
    "network",
    "settings",
    "copy",
    "lang",
    "theme",
    "quit",
}


async def test_every_command_that_acts_says_that_this_is_a_replay() -> None:
    async with replaying(story()) as (app, pilot):
        await press(pilot, "n")
        store = player_of(app).store
        for command in COMMANDS:
            if command.name in LOOKS:
                continue
            app.bench.status.clear_message()
            app.run_command(command, "trusted" if command.takes else "")
            await pilot.pause()
            assert READ_ONLY in app.bench.status.notice_text, command.name
            assert app.screen is app.bench, command.name
        assert player_of(app).store is store


async def test_pages_of_the_recorded_session_are_read_and_their_actions_are_refused() -> None:
    async with replaying(story()) as (app, pilot):
        await press(pilot, "end", "alt+5")
        await settled(pilot, lambda: "Context" in list_text(app), "the requests")
        await press(pilot, "escape")
        app.run_command(next(command for command in COMMANDS if command.name == "plans"))
        await settled(pilot, lambda: isinstance(app.screen, ListPage), "the plans")
        open_list(app).action_run_main()
        await settled(pilot, lambda: READ_ONLY in list_text(app), "the refusal")


async def test_the_panes_are_reached_and_lead_on_as_ever() -> None:
    async with replaying(story()) as (app, pilot):
        await press(pilot, "end")
        assert app.bench.focused is bar_of(app)
        await press(pilot, "alt+1")
        await settled(pilot, lambda: app.bench.focused is app.bench.talk.transcript, "the chat")
        await press(pilot, "alt+2")
        await settled(pilot, lambda: app.bench.plan.has_focus, "the plan")
        await press(pilot, "enter")
        assert app.bench.plan.problem
        await press(pilot, "n")
        assert place(app) == 14
        await press(pilot, "p")
        assert place(app) == 11
        await press(pilot, "escape")
        assert app.bench.focused is bar_of(app)
        assert app.is_running


async def test_a_click_on_the_track_goes_there() -> None:
    async with replaying(story()) as (app, pilot):
        bar = bar_of(app)
        width = bar.content_size.width
        await pilot.click(bar, offset=(2 + width - 1, 1))
        assert place(app) == 14
        await pilot.click(bar, offset=(2, 1))
        assert place(app) == 0
        await pilot.click(bar, offset=(2 + width // 2, 1))
        assert 6 <= place(app) <= 8


@pytest.mark.parametrize("ends", [("q",), ("escape", "escape"), ("ctrl+c", "ctrl+c")])
async def test_it_ends_with_its_keys(ends: tuple[str, ...]) -> None:
    async with replaying(story()) as (app, pilot):
        for key in ends[:-1]:
            await press(pilot, key)
            assert app.return_value is None
        await press(pilot, ends[-1])
        assert app.return_value == 0


async def test_the_end_of_a_long_session_does_not_pass_through_every_event() -> None:
    events: list[Any] = [(0.0, started()), *((1.0, e) for n in range(20) for e in turn(n))]
    async with replaying(tape_with(*events)) as (app, pilot):
        await press(pilot, "end")
        assert place(app) == len(events)
        await press(pilot, "left", "left")
        assert place(app) < len(events)
        assert len(player_of(app).store.state.messages) < 20 * 8
