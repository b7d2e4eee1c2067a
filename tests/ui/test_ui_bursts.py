"""Keys faster than the focus moves: none answers what it was not meant for, and none is lost."""

from __future__ import annotations

from typing import Any

import pytest
from support.app_states import FakeEngine, app_with, settled, standing, store_with
from support.gates import AFTER, GateApp, at_gate, drawn, gate, press
from textual import events
from textual.app import App
from textual.widgets import Input

from duckflow_tui.state.gates import GateChoice
from duckflow_tui.ui.screens.edit_proposal import EditProposal

_NAMES = {" ": "space", ",": "comma", "\r": "enter", "\x7f": "backspace"}


def burst(app: App[Any], text: str) -> None:
    """Type it all at once, as a terminal sends what it has read in one piece."""
    for character in text:
        app.post_message(events.Key(_NAMES.get(character, character), character))


@pytest.mark.parametrize("text", ["nobody asked", "nyes please, smaller", "nn", "ny\x7fes"])
async def test_what_comes_right_behind_n_is_the_reason(text: str) -> None:
    """Covers S4-60. No letter of it approves, and none is lost."""
    app = GateApp(gate())
    async with app.run_test(size=(120, 40)) as pilot:
        await at_gate(pilot)
        burst(app, text)
        await drawn(pilot)
        assert app.answers == []
        reason = app.query_one("#gate-reason", Input)
        assert reason.value == text[1:].replace("y\x7f", "")
        assert app.focused is reason
        burst(app, " it\r")
        await drawn(pilot)
        answer = app.answers[0]
        assert answer.choice is GateChoice.REJECT
        assert answer.reason == f"{text[1:].replace(chr(0x79) + chr(0x7F), '')} it"


async def test_what_comes_right_behind_the_reason_reaches_the_composer() -> None:
    app = GateApp(gate())
    async with app.run_test(size=(120, 40)) as pilot:
        await at_gate(pilot)
        burst(app, "nno\ryes")
        await drawn(pilot)
        assert [(a.choice, a.reason) for a in app.answers] == [(GateChoice.REJECT, "no")]
        assert app.composer.value == "yes"


async def test_a_paste_right_behind_n_is_the_reason() -> None:
    app = GateApp(gate())
    async with app.run_test(size=(120, 40)) as pilot:
        await at_gate(pilot)
        burst(app, "n")
        app.post_message(events.Paste("y\nes"))
        await drawn(pilot)
        assert app.query_one("#gate-reason", Input).value == "y es"
        assert app.answers == []


@pytest.mark.parametrize("text", ["oh yes", "hello", "]y", "wy", "a1", "st"])
async def test_no_answer_comes_from_the_middle_of_a_burst(text: str) -> None:
    """Covers S4-60. A letter that came with others was not pressed for its own sake."""
    app = GateApp(gate(can_grant_session=False), proposed={"gate_00000001": AFTER})
    async with app.run_test(size=(120, 40)) as pilot:
        await at_gate(pilot)
        burst(app, text)
        await drawn(pilot)
        assert app.answers == []
        assert not isinstance(app.screen, EditProposal)
        await press(pilot, "y")
        assert [answer.choice for answer in app.answers] == [GateChoice.ONCE]


async def test_what_comes_right_behind_e_does_not_approve() -> None:
    app = GateApp(gate(), proposed={"gate_00000001": AFTER})
    async with app.run_test(size=(120, 40)) as pilot:
        await at_gate(pilot)
        burst(app, "ey")
        await drawn(pilot)
        assert app.answers == []
        assert isinstance(app.screen, EditProposal)


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
