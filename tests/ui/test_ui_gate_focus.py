"""Two questions of one reply: the focus stays where it was, and nothing that is typed is lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from support.app_states import FakeEngine, app_with, settled, standing, store_with, turn_started
from support.conversations import START, assistant, operation
from support.gates import gate
from support.pinned import ManualClock
from support.typist import TRUE_DELAY
from textual import events
from textual.pilot import Pilot

from duckflow_tui.state.calls import OperationFinished, OperationRequested
from duckflow_tui.state.decision import Action, TurnDecision
from duckflow_tui.state.gates import GateChoice, GateOpened
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes import key_guard
from duckflow_tui.ui.panes.key_guard import SETTLE_S

EDIT = "file_ops.edit_file"
FIRST, SECOND = "call_00000001", "call_00000002"


@pytest.fixture(autouse=True)
def stay_as_for_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_guard, "STAY_S", 2.0)


@dataclass
class Play:
    """A reply with two edits, the first of which waits in a gate that has the focus."""

    app: DuckflowApp
    fake: FakeEngine
    pilot: Pilot[int]

    def settle(self, seconds: float = SETTLE_S) -> None:
        clock = self.fake.store.clock
        assert isinstance(clock, ManualClock)
        clock.advance(seconds)

    def request(self, call_id: str) -> None:
        self.fake.store.dispatch(
            OperationRequested(call_id=call_id, operation=EDIT, args={}, at=START)
        )

    def finish(self, call_id: str) -> None:
        message = operation(EDIT, {}).model_copy(update={"call_id": call_id})
        self.fake.store.dispatch(OperationFinished(message=message))

    def open_second(self) -> None:
        self.request(SECOND)
        second = gate(gate_id="gate_00000002", call_id=SECOND, intent="The second one")
        self.fake.store.dispatch(GateOpened(gate=second))

    async def shows_second(self) -> None:
        card = self.app.bench.question
        await settled(
            self.pilot, lambda: card.gate is not None and card.gate.call_id == SECOND, "the gate"
        )
        await self.pilot.pause()

    @property
    def at_gate(self) -> bool:
        return self.app.bench.focused is self.app.bench.question


@asynccontextmanager
async def first_gate(*calls: str, draft: str = "") -> AsyncGenerator[Play]:
    store = store_with(turn_started())
    actions = tuple(
        Action(call_id=call_id, operation=EDIT, args={}, reasoning="needed") for call_id in calls
    )
    decision = TurnDecision(decision_id="d", actions=actions)
    store.state.messages.append(
        assistant("Two edits.", 1).model_copy(update={"decision": decision})
    )
    fake = FakeEngine(store)
    app = app_with(fake)
    async with standing(app) as pilot:
        play = Play(app, fake, pilot)
        play.request(FIRST)
        store.dispatch(GateOpened(gate=gate()))
        await settled(pilot, lambda: bool(app.bench.question.gate))
        app.bench.composer.replace_text(draft)
        await pilot.press("f4")
        await settled(pilot, lambda: play.at_gate)
        # The diff is drawn a frame later than the gate; until then y asks about what was not seen.
        await settled(pilot, lambda: app.bench.question.count_unseen() == 0, "the end of the gate")
        play.settle()
        yield play


async def test_the_focus_stays_for_the_next_gate_of_the_same_reply() -> None:
    """Between the two the gate says that it was answered; then the time of a question begins that
    nobody turned to.
    """
    async with first_gate(FIRST, SECOND) as play:
        await play.pilot.press("y")
        await settled(play.pilot, lambda: not play.fake.store.state.gates)
        play.finish(FIRST)
        await play.pilot.pause()
        assert play.at_gate
        assert "answered" in str(play.app.bench.question.border_subtitle)
        play.open_second()
        await play.shows_second()
        assert play.at_gate
        await play.pilot.press("y")
        assert len(play.fake.answers) == 1
        play.settle(SETTLE_S)
        await play.pilot.press("y")
        await settled(play.pilot, lambda: len(play.fake.answers) == 2)
        assert play.fake.answers[1].call_id == SECOND
        play.finish(SECOND)
        await settled(play.pilot, lambda: play.app.bench.focused is play.app.bench.composer)


@pytest.mark.parametrize("keys", [("y",), ("y", "enter"), ("n",), ("1",)])
async def test_an_answer_before_the_next_gate_opens_is_no_text(
    keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fast second approval answers nothing, is not sent, and leaves the focus where it is."""
    monkeypatch.setattr(key_guard, "DELAY_S", TRUE_DELAY)  # the keys come within it
    async with first_gate(FIRST, SECOND) as play:
        composer, question = play.app.bench.composer, play.app.bench.question
        await play.pilot.press("y")
        await settled(play.pilot, lambda: not play.fake.store.state.gates)
        for key in keys:
            await play.pilot.press(key)
            await play.pilot.pause()
        await settled(play.pilot, lambda: not question.is_holding, "the pause")
        play.finish(FIRST)
        play.open_second()
        await play.shows_second()
        play.settle()
        await settled(play.pilot, lambda: question.count_unseen() == 0, "the end of the gate")
        assert (play.at_gate, composer.text, play.fake.sent) == (True, "", [])
        assert len(play.fake.answers) == 1
        await play.pilot.press("y")
        await settled(play.pilot, lambda: len(play.fake.answers) == 2, "the second answer")


async def test_what_is_typed_between_two_gates_reaches_the_composer() -> None:
    """Covers S4-60. The focus goes with it, and the second gate does not get it."""
    async with first_gate(FIRST, SECOND) as play:
        composer = play.app.bench.composer
        await play.pilot.press("y")
        for character in "yes 1":
            key = "space" if character == " " else character
            play.app.post_message(events.Key(key, character))
        play.finish(FIRST)
        play.open_second()
        await play.shows_second()
        await settled(play.pilot, lambda: composer.text == "yes 1", "what was typed")
        assert play.app.bench.focused is composer
        play.settle()
        await play.pilot.press("y")
        assert composer.text == "yes 1y"
        assert len(play.fake.answers) == 1


async def test_a_message_typed_at_an_answered_gate_is_sent_by_its_enter() -> None:
    """The letters, a correction and Enter go to the composer in one piece, and the app hears it."""
    async with first_gate(FIRST, SECOND) as play:
        await play.pilot.press("y")
        await settled(play.pilot, lambda: not play.fake.store.state.gates)
        for character in "where nox\x7fw\r":
            names = {" ": "space", "\x7f": "backspace", "\r": "enter"}
            key = names.get(character, character)
            play.app.post_message(events.Key(key, character))
        await settled(play.pilot, lambda: play.fake.sent == ["where now"], "the message")
        assert play.app.bench.composer.text == ""


async def test_a_paste_between_two_gates_reaches_the_composer() -> None:
    async with first_gate(FIRST, SECOND) as play:
        await play.pilot.press("y")
        await play.pilot.pause()
        play.app.post_message(events.Paste("y\nn"))
        await settled(play.pilot, lambda: play.app.bench.composer.text == "y\nn", "the paste")
        assert play.app.bench.focused is play.app.bench.composer


async def test_a_second_y_after_the_last_approval_of_a_reply_is_no_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was meant for the gate, which keeps the keys for a moment and then goes by itself."""
    monkeypatch.setattr(key_guard, "STAY_S", 0.5)
    async with first_gate(FIRST) as play:
        composer = play.app.bench.composer
        await play.pilot.press("y")
        await settled(play.pilot, lambda: bool(play.fake.answers))
        play.finish(FIRST)
        await play.pilot.press("y")
        await settled(play.pilot, lambda: play.app.bench.focused is composer)
        assert not play.app.bench.question.display
        assert (composer.text, len(play.fake.answers)) == ("", 1)


async def test_esc_right_after_an_answer_pauses_the_work() -> None:
    async with first_gate(FIRST) as play:
        await play.pilot.press("y")
        await settled(play.pilot, lambda: bool(play.fake.answers))
        play.finish(FIRST)
        await play.pilot.press("escape")
        await settled(play.pilot, lambda: "pause" in play.fake.asked, "the pause")
        assert play.app.bench.focused is play.app.bench.composer


async def test_a_rejection_gives_the_focus_back_at_once() -> None:
    async with first_gate(FIRST, SECOND) as play:
        await play.pilot.press("n", "enter")
        await settled(play.pilot, lambda: play.app.bench.focused is play.app.bench.composer)
        assert play.fake.answers[0].choice is GateChoice.REJECT


async def test_a_message_that_was_begun_gets_the_focus_back_at_once() -> None:
    async with first_gate(FIRST, SECOND, draft="and then") as play:
        await play.pilot.press("y")
        await settled(play.pilot, lambda: play.app.bench.focused is play.app.bench.composer)
        play.finish(FIRST)
        play.open_second()
        await play.shows_second()
        await play.pilot.press("y")
        assert play.app.bench.composer.text == "and theny"
        assert len(play.fake.answers) == 1


async def test_a_call_that_takes_long_does_not_keep_the_focus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_guard, "STAY_S", 0.05)
    async with first_gate(FIRST, SECOND) as play:
        await play.pilot.press("y")
        await settled(play.pilot, lambda: play.app.bench.focused is play.app.bench.composer)
        await settled(
            play.pilot, lambda: not play.app.bench.question.display, "the end of the gate"
        )
        play.finish(FIRST)
        play.open_second()
        await play.shows_second()
        assert play.app.bench.focused is play.app.bench.composer
