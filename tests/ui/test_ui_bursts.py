"""Keys faster than the focus moves: none answers what it was not meant for, and none is lost."""

from __future__ import annotations

from typing import Any

import pytest
from support.app_states import FakeEngine, app_with, at_question, settled, standing, store_with
from support.gates import at_gate, drawn, gate, press
from support.open_apps import OpenApps
from support.pinned import KEY_DELAY, ManualClock
from support.plans import change_card, working
from textual import events
from textual.app import App
from textual.widgets import Input

from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.screens.confirm import Confirm
from duckflow_tui.ui.screens.form import LineForm
from duckflow_tui.ui.screens.manual import Manual
from duckflow_tui.ui.screens.whole_diff import WholeDiff

_NAMES = {" ": "space", ",": "comma", "\r": "enter", "\x7f": "backspace"}


def burst(app: App[Any], text: str) -> None:
    """Type it all at once, as a terminal sends what it has read in one piece."""
    for character in text:
        app.post_message(events.Key(_NAMES.get(character, character), character))


async def test_what_comes_right_behind_the_reason_reaches_the_composer(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, "n")
        burst(app, "no\ryes")
        await drawn(pilot)
        assert [(a.choice, a.reason) for a in app.answers] == [(GateChoice.REJECT, "no")]
        assert app.composer.value == "yes"


@pytest.mark.parametrize(
    "text",
    [
        "yes please",
        "ynes1",
        "so it is",
        "the end",
        "1,2",
        "y]",
        "oh yes",
        "]y",
        "wy",
        "ey",
        "nn, o",
    ],
)
async def test_a_text_that_begins_with_an_answer_is_a_text(text: str, open_apps: OpenApps) -> None:
    """Covers S4-60. It approves nothing, and all of it reaches the composer, the focus with it."""
    async with open_apps.asking(gate(step_id="step_1", can_grant_step=True)) as (app, pilot):
        await at_gate(pilot)
        burst(app, text)
        await drawn(pilot)
        assert app.answers == []
        assert app.composer.value == text
        assert app.focused is app.composer
        await pilot.pause(2 * KEY_DELAY)
        assert app.answers == []


async def test_a_paste_right_behind_y_is_a_text_too(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        burst(app, "y")
        app.post_message(events.Paste("es"))
        await drawn(pilot)
        assert (app.answers, app.composer.value) == ([], "yes")


async def test_escape_right_behind_y_takes_it_back(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        burst(app, "y")
        app.post_message(events.Key("escape", None))
        await drawn(pilot)
        assert (app.answers, app.composer.value) == ([], "")
        assert app.focused is app.composer


@pytest.mark.parametrize(
    ("key", "choice"),
    [
        ("y", GateChoice.ONCE),
        ("1", GateChoice.ALTERNATIVE),
    ],
)
async def test_an_answer_alone_needs_no_other_key(
    key: str, choice: GateChoice, open_apps: OpenApps
) -> None:
    async with open_apps.asking(gate(step_id="step_1", can_grant_step=True)) as (app, pilot):
        await at_gate(pilot)
        burst(app, key)
        await settled(pilot, lambda: bool(app.answers), "the answer")
        assert app.answers[0].choice is choice


async def test_a_gate_that_changes_while_a_key_is_held_is_not_answered_by_it(
    open_apps: OpenApps,
) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        burst(app, "y")
        await settled(pilot, lambda: app.card.is_holding, "the key")
        app.gates = (gate(gate_id="gate_00000002", call_id="call_00000002"),)
        await drawn(pilot)
        app.clock.advance(SETTLE_S)
        await pilot.pause(2 * KEY_DELAY)
        assert app.answers == []


@pytest.mark.parametrize("text", ["yes please", "ny", "]y", "oh yes", "ey"])
async def test_no_key_of_a_text_decides_on_the_whole_screen(text: str, open_apps: OpenApps) -> None:
    """Covers S4-60. It is whole in the composer; a key alone decides."""
    fake = FakeEngine(working(at_gate=True))
    app = app_with(fake)
    async with standing(app) as pilot:
        for typed in (text, "y"):
            await at_question(pilot)
            await pilot.press("z")
            await settled(pilot, lambda: isinstance(app.screen, WholeDiff), "the diff")
            assert isinstance(app.clock, ManualClock)
            app.clock.advance(SETTLE_S)
            burst(app, typed)
            await settled(pilot, lambda: app.screen is app.bench, "the page to close")
            if typed == text:
                await settled(pilot, lambda: app.bench.composer.text == text, "the text")
                assert app.bench.focused is app.bench.composer
                assert fake.answers == []
                app.bench.composer.replace_text("")
        await settled(pilot, lambda: bool(fake.answers), "the answer")
        assert [answer.choice for answer in fake.answers] == [GateChoice.ONCE]


@pytest.mark.parametrize("pane", ["f2", "f3", "f4", "f5"])
async def test_a_burst_typed_at_a_pane_is_whole_in_the_composer(pane: str) -> None:
    app = app_with(FakeEngine(store_with()))
    async with standing(app) as pilot:
        composer = app.bench.composer
        await pilot.press(pane)
        await settled(pilot, lambda: app.bench.focused is not composer)
        burst(app, "hello world, how are you")
        await settled(pilot, lambda: composer.text.endswith("you"), "what was typed")
        assert composer.text == "hello world, how are you"
        assert app.bench.focused is composer


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_a_key_that_decides_and_comes_too_soon_says_so(
    language: str, open_apps: OpenApps
) -> None:
    async with open_apps.asking(gate(), language=language) as (app, pilot):
        said = {"en": "n came too soon", "ja": "n は早すぎたため"}[language]
        await drawn(pilot)
        app.card.focus()
        await drawn(pilot)
        app.clock.advance(0.9 * SETTLE_S)
        await press(pilot, "n")
        assert said in app.text()
        assert app.answers == []
        app.clock.advance(SETTLE_S)
        await press(pilot, "n")
        assert app.query_one("#question-text", Input).display
        assert said not in app.text()


async def test_what_is_typed_behind_the_enter_that_leads_to_the_gate_is_a_text() -> None:
    """Covers S4-60. It goes to the composer, and the focus comes back to it."""
    fake = FakeEngine(working(at_gate=True))
    app = app_with(fake)
    async with standing(app) as pilot:
        composer = app.bench.composer
        await settled(pilot, lambda: bool(app.bench.question.gate), "the gate")
        burst(app, "\ry")
        await settled(pilot, lambda: composer.text == "y" and app.bench.focused is composer)
        burst(app, "es")
        await settled(pilot, lambda: composer.text == "yes", "the text")
        assert fake.answers == []


async def test_a_change_that_takes_an_answered_gates_place_is_not_accepted_by_the_next_y() -> None:
    """Covers S4-60. The card came by itself: nobody can have read it so soon, and it says so."""
    later = change_card().model_copy(update={"opened_at": gate().opened_at + 1})
    store = working(at_gate=True, cards=(later,))
    fake = FakeEngine(store)
    app = app_with(fake)
    async with standing(app) as pilot:
        await at_question(pilot)
        await pilot.press("y")
        await settled(pilot, lambda: app.bench.question.card is not None, "the card")
        assert app.bench.focused is app.bench.question
        assert isinstance(app.clock, ManualClock)
        app.clock.advance(0.9 * SETTLE_S)
        await pilot.press("y")
        await pilot.pause(2 * KEY_DELAY)
        assert fake.card_answers == []
        assert "y came too soon" in str(app.bench.question.border_subtitle)
        for _ in range(app.bench.question.count_unseen() + 1):
            app.clock.advance(SETTLE_S)
            await pilot.press("y")
            await settled(pilot, lambda: not app.bench.question.is_holding, "the key to act")
        await settled(pilot, lambda: bool(fake.card_answers), "the answer")
        assert fake.card_answers[0].action == "accept"


async def test_a_text_typed_at_the_question_of_trusted_mode_is_whole_in_the_composer() -> None:
    """Covers S4-60. Its letters do not answer, a y among them neither, and it is sent whole."""
    fake = FakeEngine(store_with())
    app = app_with(fake)
    async with standing(app) as pilot:
        assert isinstance(app.clock, ManualClock)
        for text in ("ab", "yes, go ahead", "long words\x7f\r"):
            app.action_mode("trusted")
            await settled(pilot, lambda: isinstance(app.screen, Confirm), "the question")
            app.clock.advance(SETTLE_S)
            burst(app, text)
            await settled(pilot, lambda: app.screen is app.bench, "the question to close")
            if not text.endswith("\r"):
                written = text
                await settled(pilot, lambda: app.bench.composer.text == written, "the text")  # noqa: B023
                app.bench.composer.clear()
        await settled(pilot, lambda: bool(fake.sent), "the message")
        assert fake.sent == ["long word"]
        assert app.bench.composer.text == ""
        assert fake.store.state.mode is ApprovalMode.STANDARD
        for end, text in (("escape", ""), ("a", "ya"), ("enter", "")):
            app.action_mode("trusted")
            await settled(pilot, lambda: isinstance(app.screen, Confirm), "the question")
            app.clock.advance(SETTLE_S)
            burst(app, "y")
            app.post_message(events.Key(end, end if len(end) == 1 else None))
            await settled(pilot, lambda: app.screen is app.bench, "the question to close")
            await pilot.pause(2 * KEY_DELAY)
            assert app.bench.composer.text == text
            assert fake.store.state.mode is ApprovalMode.STANDARD


async def test_a_page_that_is_left_twice_in_one_burst_leaves_the_workbench() -> None:
    app = app_with(FakeEngine(store_with()))
    async with standing(app) as pilot:
        await app.push_screen(LineForm(app.words, "sessions.rename"))
        for _ in range(3):
            app.post_message(events.Key("escape", None))
        await settled(pilot, lambda: app.screen is app.bench, "the page to close")
        await pilot.pause()
        assert app.screen is app.bench


async def test_a_page_that_is_left_twice_takes_no_other_page_with_it() -> None:
    app = app_with(FakeEngine(store_with()))
    async with standing(app) as pilot:
        await app.push_screen(below := Manual(app.words))
        await app.push_screen(left := LineForm(app.words, "sessions.rename"))
        for _ in range(2):
            left.post_message(events.Key("escape", None))
        await settled(pilot, lambda: not left.is_attached, "the page to close")
        assert app.screen is below
