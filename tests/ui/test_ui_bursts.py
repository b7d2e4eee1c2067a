"""Keys faster than the focus moves: none answers what it was not meant for, and none is lost."""

from __future__ import annotations

from typing import Any

import pytest
from support.app_states import FakeEngine, app_with, at_question, settled, standing, store_with
from support.gates import AFTER, at_gate, drawn, gate, press
from support.open_apps import OpenApps
from support.pinned import ManualClock
from support.plans import change_card, working
from textual import events
from textual.app import App
from textual.widgets import Input

from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.ui.panes.key_guard import HOLD, SETTLE, SETTLE_UNASKED, SILENCE
from duckflow_tui.ui.panes.question import KeyRow
from duckflow_tui.ui.screens.confirm import Confirm
from duckflow_tui.ui.screens.edit_proposal import EditProposal
from duckflow_tui.ui.screens.form import LineForm
from duckflow_tui.ui.screens.keys_help import KeysHelp
from duckflow_tui.ui.screens.whole_diff import WholeDiff

_NAMES = {" ": "space", ",": "comma", "\r": "enter", "\x7f": "backspace"}


def burst(app: App[Any], text: str) -> None:
    """Type it all at once, as a terminal sends what it has read in one piece."""
    for character in text:
        app.post_message(events.Key(_NAMES.get(character, character), character))


@pytest.mark.parametrize("text", ["nobody asked", "nyes please, smaller", "nn", "ny\x7fes"])
async def test_what_comes_right_behind_n_is_the_reason(text: str, open_apps: OpenApps) -> None:
    """Covers S4-60. No letter of it approves, and none is lost."""
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        burst(app, text)
        await drawn(pilot)
        assert app.answers == []
        reason = app.query_one("#gate-reason", Input)
        assert reason.value == text[1:].replace("y\x7f", "")
        assert app.focused is reason
        assert not reason.cursor_blink  # who thinks about a reason is shown nothing anew
        burst(app, " it\r")
        await drawn(pilot)
        answer = app.answers[0]
        assert answer.choice is GateChoice.REJECT
        assert answer.reason == f"{text[1:].replace(chr(0x79) + chr(0x7F), '')} it"


async def test_what_comes_right_behind_the_reason_reaches_the_composer(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        burst(app, "nno\ryes")
        await drawn(pilot)
        assert [(a.choice, a.reason) for a in app.answers] == [(GateChoice.REJECT, "no")]
        assert app.composer.value == "yes"


async def test_a_paste_right_behind_n_is_the_reason(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        burst(app, "n")
        app.post_message(events.Paste("y\nes"))
        await drawn(pilot)
        assert app.query_one("#gate-reason", Input).value == "y es"
        assert app.answers == []


@pytest.mark.parametrize("text", ["oh yes", "hello", "]y", "wy", "a1", "st"])
async def test_no_answer_comes_from_the_middle_of_a_burst(text: str, open_apps: OpenApps) -> None:
    """Covers S4-60. A letter that came with others was not pressed for its own sake."""
    async with open_apps.asking(
        gate(can_grant_session=False), proposed={"gate_00000001": AFTER}
    ) as (
        app,
        pilot,
    ):
        await at_gate(pilot)
        burst(app, text)
        await drawn(pilot)
        assert app.answers == []
        assert not isinstance(app.screen, EditProposal)
        app.clock.advance(SILENCE)
        await press(pilot, "y")
        assert app.answers == []  # it asks first, as a letter of that may have been meant
        app.clock.advance(SETTLE)
        await press(pilot, "y")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]


@pytest.mark.parametrize("text", ["yes please", "ynes1", "so it is", "the end", "1,2", "yy", "y]"])
async def test_a_text_that_begins_with_an_answer_is_a_text(text: str, open_apps: OpenApps) -> None:
    """Covers S4-60. It approves nothing, and all of it reaches the composer, the focus with it."""
    async with open_apps.asking(gate(step_id="step_1", can_grant_step=True)) as (app, pilot):
        await at_gate(pilot)
        burst(app, text)
        await drawn(pilot)
        assert app.answers == []
        assert app.composer.value == text
        assert app.focused is app.composer
        await pilot.pause(2 * HOLD)
        assert app.answers == []


async def test_keys_that_come_as_fast_as_fingers_hardly_move_are_a_text(
    open_apps: OpenApps,
) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        keys = [events.Key(character, character) for character in "yes"]
        for number, key in enumerate(keys):
            key.time = keys[0].time + number * 0.9 * HOLD  # as a terminal delivers them
            app.post_message(key)
        await drawn(pilot)
        assert (app.answers, app.composer.value) == ([], "yes")


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
        ("s", GateChoice.SESSION),
        ("t", GateChoice.STEP),
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
        await settled(pilot, lambda: app.card.holding, "the key")
        app.card.gates = (gate(gate_id="gate_00000002", call_id="call_00000002"),)
        await drawn(pilot)
        app.clock.advance(SETTLE)
        await pilot.pause(2 * HOLD)
        assert app.answers == []


async def test_what_comes_right_behind_e_does_not_approve(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate(), proposed={"gate_00000001": AFTER}) as (app, pilot):
        await at_gate(pilot)
        burst(app, "ey")
        await drawn(pilot)
        assert app.answers == []
        assert isinstance(app.screen, EditProposal)


@pytest.mark.parametrize("text", ["zy", "zys", "zn", "ze", "z1"])
async def test_what_comes_right_behind_z_decides_nothing(text: str, open_apps: OpenApps) -> None:
    async with open_apps.asking(gate(), proposed={"gate_00000001": AFTER}) as (app, pilot):
        await at_gate(pilot)
        late = events.Key("y", "y")
        burst(app, text)
        await drawn(pilot)
        app.clock.advance(SETTLE)
        app.post_message(late)  # as a key that was on its way for long
        await drawn(pilot)
        await pilot.pause(2 * HOLD)
        assert app.answers == []
        assert isinstance(app.screen, WholeDiff)


@pytest.mark.parametrize("text", ["yes please", "ny", "]y", "yy", "oh yes", "ey"])
async def test_no_key_of_a_text_decides_on_the_whole_screen(text: str, open_apps: OpenApps) -> None:
    """Covers S4-60. A key alone does."""
    async with open_apps.asking(gate(), proposed={"gate_00000001": AFTER}) as (app, pilot):

        def pasted() -> None:
            burst(app, "y")
            app.post_message(events.Paste(text))

        await at_gate(pilot)
        await press(pilot, "z")
        app.clock.advance(SETTLE)
        for typed in (lambda: burst(app, text), pasted):
            typed()
            await drawn(pilot)
            await pilot.pause(2 * HOLD)
            assert app.answers == []
            assert isinstance(app.screen, WholeDiff)
            app.clock.advance(SILENCE)
        await press(pilot, "y")
        await settled(pilot, lambda: bool(app.answers), "the answer")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]


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


@pytest.mark.parametrize("text", ["too many steps", "ynot now", "hm, sure"])
async def test_the_rest_of_a_text_that_began_too_soon_goes_nowhere(
    text: str, open_apps: OpenApps
) -> None:
    """Covers S4-60. A text typed at the speed of fingers: after a key that did nothing no letter
    of it answers, until nothing was typed for a while.
    """
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        app.card.blur()
        app.card.focus()
        await drawn(pilot)
        said = False  # a key that decides nothing acts all the same, and may say something else
        for character in text:
            await press(pilot, _NAMES.get(character, character))
            said |= "nothing was answered" in app.text()
            app.clock.advance(0.9 * SILENCE)
        assert app.answers == []
        assert not app.query_one("#gate-reason", Input).display
        assert said
        app.clock.advance(SILENCE)
        await press(pilot, "y")
        assert app.answers == []  # it asks first, as a letter of that may have been meant
        app.clock.advance(SETTLE)
        await press(pilot, "y")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_a_key_that_decides_and_comes_too_soon_says_so(
    language: str, open_apps: OpenApps
) -> None:
    """Also while what should be the reason follows: nobody reads a line so soon."""
    async with open_apps.asking(gate(), language=language) as (app, pilot):
        said = {"en": "n came too soon", "ja": "n は早すぎたため"}[language]
        await drawn(pilot)
        app.card.focus()
        await drawn(pilot)
        app.clock.advance(0.9 * SETTLE)
        for letter in "nuh":
            await press(pilot, letter)
            assert said in app.text()
            app.clock.advance(0.9 * SILENCE)
        assert app.answers == []
        app.clock.advance(SILENCE)
        await press(pilot, "n")
        assert app.query_one("#gate-reason", Input).display
        assert said not in app.text()


async def test_what_was_typed_behind_the_enter_that_leads_to_the_gate_is_asked_about() -> None:
    """Covers S4-60. It went to the composer, and who meant the gate may believe that it acted."""
    fake = FakeEngine(working(at_gate=True))
    app = app_with(fake)
    async with standing(app) as pilot:
        gate_, composer = app.bench.gate, app.bench.composer
        await settled(pilot, lambda: bool(gate_.gates), "the gate")
        burst(app, "\r]]")
        await settled(pilot, lambda: app.bench.focused is gate_ and composer.text == "]]")
        await pilot.pause()
        assert isinstance(app.clock, ManualClock)
        app.clock.advance(SETTLE)
        for _ in range(2):
            assert fake.answers == []
            await pilot.press("y")
            await pilot.pause(2 * HOLD)
            asked = "2 keys were not taken: ] ]." in "".join(
                h.text for h in gate_.query_one(KeyRow).hints
            )
            assert asked or fake.answers
            app.clock.advance(SETTLE)
        await settled(pilot, lambda: bool(fake.answers), "the answer")


async def test_a_change_that_takes_an_answered_gates_place_is_not_accepted_by_the_next_y() -> None:
    """Covers S4-60. The card came by itself: nobody can have read it so soon, and it says so."""
    later = change_card().model_copy(update={"opened_at": gate().opened_at + 1})
    store = working(at_gate=True, cards=(later,))
    fake = FakeEngine(store)
    app = app_with(fake)
    async with standing(app) as pilot:
        await at_question(pilot)
        await pilot.press("y")
        await settled(pilot, lambda: app.bench.focused is app.bench.card, "the card")
        assert isinstance(app.clock, ManualClock)
        app.clock.advance(1.5 * SETTLE)
        await pilot.press("y")
        await pilot.pause(2 * HOLD)
        assert fake.card_answers == []
        assert "another question opened" in str(app.bench.card.border_subtitle)
        app.clock.advance(SETTLE_UNASKED)
        for _ in range(app.bench.card.unseen() + 1):
            await pilot.press("y")
            await pilot.pause(2 * HOLD)
        await settled(pilot, lambda: bool(fake.card_answers), "the answer")
        assert fake.card_answers[0].action == "accept"


async def test_a_text_typed_at_the_question_of_trusted_mode_is_whole_in_the_composer() -> None:
    """Covers S4-60. Its letters do not answer, a y among them neither, and it is sent whole."""
    fake = FakeEngine(store_with())
    app = app_with(fake)
    async with standing(app) as pilot:
        assert isinstance(app.clock, ManualClock)
        for text in ("ab", "yy", "yes, go on", "long words\x7f\r"):
            app.action_mode("trusted")
            await settled(pilot, lambda: isinstance(app.screen, Confirm), "the question")
            app.clock.advance(SETTLE)
            burst(app, text)
            await settled(pilot, lambda: app.screen is app.bench, "the question to close")
            if not text.endswith("\r"):
                await settled(pilot, lambda: bool(app.bench.composer.text), "the text")
                assert app.bench.composer.text == text
                app.bench.composer.clear()
        await settled(pilot, lambda: bool(fake.sent), "the message")
        assert fake.sent == ["long word"]
        assert app.bench.composer.text == ""
        assert fake.store.state.mode is ApprovalMode.STANDARD
        for end, text in (("escape", ""), ("a", "ya")):
            app.action_mode("trusted")
            await settled(pilot, lambda: isinstance(app.screen, Confirm), "the question")
            app.clock.advance(SETTLE)
            burst(app, "y")
            app.post_message(events.Key(end, end if len(end) == 1 else None))
            await settled(pilot, lambda: app.screen is app.bench, "the question to close")
            await pilot.pause(2 * HOLD)
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
        await app.push_screen(below := KeysHelp(app.words))
        await app.push_screen(left := LineForm(app.words, "sessions.rename"))
        for _ in range(2):
            left.post_message(events.Key("escape", None))
        await settled(pilot, lambda: not left.is_attached, "the page to close")
        assert app.screen is below
