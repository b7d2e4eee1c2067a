"""Keys anywhere: who gets them, what Esc, Ctrl+C and Shift+Tab do; no stray key approves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest
from support.app_states import (
    FakeEngine,
    FakeSessions,
    app_with,
    asked,
    at_question,
    commanded,
    settled,
    standing,
    store_with,
    turn_started,
)
from support.gates import gate
from support.lists import is_listing
from support.open_apps import OpenApps
from support.pinned import ManualClock
from support.screens import screen_text
from support.whole import some_of
from textual import events
from textual.actions import parse

from duckflow_tui.commands import COMMANDS
from duckflow_tui.state.conversation import MessageQueued, QueuedMessage, UserMessage
from duckflow_tui.state.gates import GateChoice, GateOpened
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.turn import TurnPaused
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.bindings import KEYS
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.context import ContextSource
from duckflow_tui.ui.screens.pick_list import PickList
from duckflow_tui.ui.screens.rewind import MessageSource

if TYPE_CHECKING:
    from duckflow_tui.sessions import Sessions


def clock_of(fake: FakeEngine) -> ManualClock:
    clock = fake.store.clock
    assert isinstance(clock, ManualClock)
    return clock


def working(*, gates: bool = False) -> FakeEngine:
    store = store_with(turn_started())
    if gates:
        store.dispatch(GateOpened(gate=gate()))
    return FakeEngine(store)


async def test_typing_goes_on_while_a_gate_opens(open_apps: OpenApps) -> None:
    """The gate takes no focus; letters with a meaning in it stay letters."""
    fake = working()
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("y", "e")
        fake.store.dispatch(GateOpened(gate=gate()))
        await settled(pilot, lambda: bool(app.bench.question.gate))
        await pilot.press("s", "n", "y", "1")
        assert app.bench.composer.text == "yesny1"
        assert fake.answers == []
        assert app.bench.focused is app.bench.composer


@pytest.mark.parametrize("key", ["enter", "alt+3", "f4"])
async def test_ways_to_the_open_gate(open_apps: OpenApps, key: str) -> None:
    fake = working(gates=True)
    async with open_apps.standing(fake) as (app, pilot):
        await asked(pilot)
        await pilot.press(key)
        await settled(pilot, lambda: app.bench.focused is app.bench.question)
        await pilot.press("y")
        assert fake.answers == []  # too soon: it was meant for another place
        await settled(pilot, lambda: not app.bench.question.count_unseen(), "all of it")
        clock_of(fake).advance(SETTLE_S)
        await settled(pilot, lambda: not app.bench.question.is_holding)
        await pilot.press("y")
        await settled(pilot, lambda: bool(fake.answers))
        assert fake.answers[0].choice is GateChoice.ONCE
        await settled(pilot, lambda: app.bench.focused is app.bench.composer)


async def test_enter_with_a_draft_does_not_go_to_the_gate(open_apps: OpenApps) -> None:
    fake = working(gates=True)
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("h", "i", "enter")
        await settled(pilot, lambda: fake.sent == ["hi"])
        assert app.bench.focused is app.bench.composer


async def test_escape_at_the_gate_leaves_it_pending(open_apps: OpenApps) -> None:
    fake = working(gates=True)
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await pilot.press("escape")
        await settled(pilot, lambda: app.bench.focused is app.bench.composer)
        assert fake.store.state.gates
        assert "pause" not in fake.asked


async def test_escape_pauses_then_stops_and_enter_goes_on(open_apps: OpenApps) -> None:
    fake = working()
    async with open_apps.standing(fake) as (_, pilot):
        await pilot.press("escape")
        assert fake.asked[-1] == "pause"
        fake.store.dispatch(TurnPaused(at=fake.store.clock.now()))
        await pilot.press("enter")
        await settled(pilot, lambda: fake.asked[-1] == "resume")
        await pilot.press("escape", "escape")
        assert fake.asked[-2:] == ["pause", "stop"]


async def test_escape_in_a_pane_only_comes_back(open_apps: OpenApps) -> None:
    fake = working()
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("f5")
        await settled(pilot, lambda: app.bench.focused is app.bench.vitals)
        await pilot.press("escape")
        assert app.bench.focused is app.bench.composer
        assert "pause" not in fake.asked


async def test_ctrl_c_copies_then_puts_away_then_stops(open_apps: OpenApps) -> None:
    """One effect a press, in this order."""
    fake = working()
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("a", "b", "shift+left", "ctrl+c")
        assert app.clipboard == "b"
        assert app.bench.composer.text == "ab"
        await pilot.press("right", "ctrl+c")
        assert app.bench.composer.text == ""
        assert app.bench.status.notice_text == app.words("shell.draft_kept")
        assert "stop" not in fake.asked
        await pilot.press("up")
        assert app.bench.composer.text == "ab"
        await pilot.press("ctrl+c", "ctrl+c")
        assert fake.asked[-1] == "stop"
        assert app.is_running


async def test_ctrl_c_quits_twice_within_two_seconds_after_saying_what_waits(
    open_apps: OpenApps,
) -> None:
    message = QueuedMessage(message_id="msg_1", text="later", at=0.0)
    fake = FakeEngine(store_with(MessageQueued(message=message)))
    app = app_with(fake)
    async with standing(app) as pilot:
        await pilot.press("ctrl+c")
        assert "1 queued message" in app.bench.status.notice_text
        clock_of(fake).advance(2.1)
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert app.return_value is None
        await pilot.press("ctrl+c")
        await settled(pilot, lambda: app.return_value == 0)


async def test_esc_twice_leads_to_the_turns_that_can_be_taken_back_and_alt_5_to_what_was_sent(
    open_apps: OpenApps,
) -> None:
    fake = FakeEngine(store_with())
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("escape", "escape")
        assert app.screen is app.bench  # nothing was said yet
        fake.store.state.messages.append(UserMessage(message_id="m1", text="make it so", at=0.0))
        await pilot.press("a", "escape", "escape")
        assert app.screen is app.bench  # a draft stays
        await pilot.press("backspace", "escape")
        assert app.bench.status.notice_text == app.words("shell.rewind_again")
        clock_of(fake).advance(2.1)
        await pilot.press("escape")
        assert app.screen is app.bench
        await pilot.press("escape")
        await settled(pilot, lambda: is_listing(app, MessageSource))
        await pilot.press("escape")
        await settled(pilot, lambda: app.screen is app.bench)
        await pilot.press("alt+5")
        await settled(pilot, lambda: is_listing(app, ContextSource))


async def test_shift_tab_cycles_and_trusted_asks(open_apps: OpenApps) -> None:
    fake = FakeEngine(store_with())
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("shift+tab")
        assert fake.store.state.mode is ApprovalMode.STANDARD
        await pilot.press("y")  # too soon
        await settled(pilot, lambda: "y came too soon" in screen_text(app), "the word")
        assert fake.store.state.mode is ApprovalMode.STANDARD
        await pilot.press("escape", "shift+tab")
        await settled(pilot, lambda: app.screen is not app.bench, "the question")
        assert "executable" in screen_text(app)  # what still asks
        clock_of(fake).advance(1)
        await pilot.press("y")
        await settled(pilot, lambda: fake.store.state.mode is ApprovalMode.TRUSTED)
        for mode in (ApprovalMode.PLAN, ApprovalMode.STRICT, ApprovalMode.STANDARD):
            await pilot.press("shift+tab")
            assert fake.store.state.mode is mode
        await pilot.press("shift+tab", "shift+tab")
        await settled(pilot, lambda: fake.store.state.mode is ApprovalMode.PLAN)


async def test_a_mode_change_resolves_no_gate(open_apps: OpenApps) -> None:
    fake = working(gates=True)
    async with open_apps.standing(fake) as (_, pilot):
        await pilot.press("shift+tab")
        clock_of(fake).advance(1)
        await pilot.press("y")
        await settled(pilot, lambda: fake.store.state.mode is ApprovalMode.TRUSTED)
        assert fake.store.state.gates
        assert fake.answers == []


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20)])
async def test_each_pane_has_its_keys(open_apps: OpenApps, size: tuple[int, int]) -> None:
    async with open_apps.standing(FakeEngine(store_with()), *size) as (app, pilot):
        bench = app.bench
        panes = {"plan": bench.plan, "diff": bench.diff.view, "vitals": bench.vitals}
        panes_and_chat = {**panes, "chat": bench.talk.chat}
        for number, name in enumerate(("chat", "plan", "diff", "vitals"), 1):
            for key in (f"alt+{number}", f"f{number + 1}"):
                await pilot.press("escape", key)
                await settled(pilot, lambda name=name: bench.focused is panes_and_chat[name])
                assert panes_and_chat[name] is not None
                assert bench.focused.is_on_screen if bench.focused else False


async def test_a_letter_typed_in_a_pane_goes_to_the_composer(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        await pilot.press("f3")
        await settled(pilot, lambda: app.bench.focused is app.bench.plan)
        await pilot.press("h", "i")
        assert app.bench.composer.text == "hi"
        assert app.bench.focused is app.bench.composer


async def test_the_focus_comes_back_with_the_terminal(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        app.post_message(events.AppBlur())
        await pilot.pause()
        app.post_message(events.AppFocus())
        await pilot.press("x")
        assert app.bench.composer.text == "x"


async def test_palette_runs_what_is_chosen(open_apps: OpenApps) -> None:
    fake = working()
    async with open_apps.standing(fake) as (_, pilot):
        await pilot.press("ctrl+p", "s", "t", "o", "p", "enter")
        await settled(pilot, lambda: fake.asked[-1] == "stop")


async def test_the_language_switches_live_and_the_draft_stays(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        app.run_command(next(c for c in COMMANDS if c.name == "lang"), "ja")
        await pilot.press("x")
        await pilot.pause()
        assert (
            str(app.bench.composer.placeholder) == "メッセージ   @ ファイル  / コマンド  ! シェル"
        )
        assert app.bench.composer.text == "x"
        picture = app.export_screenshot()
        assert "サンドボックスなし" in picture
        assert "SANDBOX" not in picture


async def test_every_size_draws_after_every_other_and_takes_keys() -> None:
    app = app_with(working(gates=True))
    language = next(c for c in COMMANDS if c.name == "lang")
    async with standing(app, 24, 12) as pilot:
        for width in some_of(range(1, 10), 3):
            app.run_command(language, "ja" if width % 3 == 1 else "en")
            await pilot.resize_terminal(width, (100, 1, 12, 3)[width % 4])
            await pilot.resize_terminal(24, 12)
        sizes = ((3, 100), (1, 1), (120, 40), (6, 40), (20, 5), (300, 100), (79, 23))
        for size in some_of(sizes, 4):
            await pilot.resize_terminal(*size)
        await pilot.press("o", "k")
        for size in ((1, 100), (120, 24), (5, 2), (40, 3)):
            await pilot.resize_terminal(*size)
        await pilot.press("!")
        assert app.bench.composer.text == "ok!"


async def test_a_command_is_known_in_capitals_too(open_apps: OpenApps) -> None:
    fake = FakeEngine(store_with())
    async with open_apps.standing(fake) as (app, pilot):
        app.bench.composer.replace_text("/MODE Plan")
        await pilot.press("enter")
        await settled(pilot, lambda: fake.store.state.mode is ApprovalMode.PLAN)
        assert fake.sent == []


def test_every_key_and_command_has_an_action_and_words() -> None:
    words = app_with(None).words
    app = app_with(None)

    def can(action: str) -> bool:
        place, name, _ = parse(action)
        return hasattr(app.bench if place == "screen" else app, f"action_{name}")

    for key in KEYS:
        assert words.has(key.text), key
        assert words.has(f"keys.surface.{key.surface}"), key
        if key.surface == "anywhere":
            assert all(can(action) for _, action in key.list_actions()), key
    for command in COMMANDS:
        assert words.has(command.text), command
        assert command.act or command.action, command
        for action in filter(None, (command.action, command.with_choice)):
            assert can(action), command


async def test_the_theme_switches_and_a_page_that_has_nothing_says_so(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(store_with())) as (app, pilot):
        await commanded(pilot, "/theme duck-light")
        await settled(pilot, lambda: app.theme == "duck-light")
        await commanded(pilot, "/theme")
        await settled(pilot, lambda: isinstance(app.screen, PickList), "the list")
        text = screen_text(app)
        assert "✓ duck-light" in text
        assert text.count("✓ duck") == 1
        await pilot.press("up")
        await settled(pilot, lambda: app.theme == "duck-dark", "the look of it")
        await pilot.press("escape")
        await settled(pilot, lambda: app.theme == "duck-light", "what was before")
        await commanded(pilot, "/theme")
        await settled(pilot, lambda: isinstance(app.screen, PickList), "the list")
        await pilot.press(*"dark", "enter")
        await settled(pilot, lambda: app.theme == "duck-dark")
        await commanded(pilot, "/mode")
        await settled(pilot, lambda: "✓ standard" in screen_text(app), "the mode in force")
        await pilot.press("escape")
        await settled(pilot, lambda: app.screen is app.bench, "the list to close")
        await commanded(pilot, "/queue")
        await settled(pilot, lambda: app.bench.status.notice_text == app.words("shell.queue_empty"))
        assert app.screen is app.bench


async def test_before_the_session_is_open_a_command_that_needs_it_does_nothing() -> None:
    """The line for the notes waits where it was typed."""
    app = app_with(FakeEngine(store_with()), held=asyncio.Event())
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot, lambda: app.focused is app.bench.composer)
        app.action_page("processes")
        app.action_memory()
        app.action_rename()
        app.action_mode("plan")
        for text in ("/nothing", "words"):  # neither is a command
            app.run_typed(text)
        await pilot.pause()
        assert app.screen is app.bench
        app.action_page("queue")
        assert app.bench.status.notice_text == app.words("shell.queue_empty")
        app.action_remember("short answers")
        assert app.bench.composer.draft_text == "/remember short answers"


async def test_doctor_lists_the_checks_in_the_language_of_the_screen() -> None:
    app = app_with(FakeEngine(store_with()), language="ja")

    def checks(language: str) -> Iterator[tuple[str, str, str, str]]:
        yield "git", "ok", f"git 2.43 {language}", ""

    app.options = replace(app.options, health=checks)
    async with standing(app, 120, 40) as pilot:
        await commanded(pilot, "/doctor")
        await settled(pilot, lambda: "git 2.43 ja" in screen_text(app), "the checks")


async def test_quit_ends_with_status_zero() -> None:
    app = app_with(FakeEngine(store_with()))
    async with standing(app) as pilot:
        await commanded(pilot, "/quit")
        await pilot.pause()
    assert (app.return_value, app.return_code) == (0, 0)


@pytest.mark.parametrize(
    ("came", "ended", "status"), [(None, None, 0), (None, 4, 4), (143, 0, 143)]
)
def test_the_exit_status_is_that_of_a_signal_where_one_came(
    came: int | None, ended: int | None, status: int
) -> None:
    class Brief(DuckflowApp):
        @property
        def return_code(self) -> int | None:
            return ended

        def run(self, *args: object, **kwargs: object) -> None:
            self.guard.exit_status = came

    app = Brief(cast("Sessions", FakeSessions(None)), None)
    assert app.run_to_end() == status
