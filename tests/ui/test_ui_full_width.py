"""Keys as an input method writes them: full width, one by one or a text at once."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from support.app_states import (
    FakeEngine,
    app_with,
    asked,
    at_question,
    settled,
    standing,
    store_with,
)
from support.conversations import user
from support.gates import at_gate, gate, press
from support.lists import open_list
from support.open_apps import OpenApps
from support.pinned import ManualClock
from support.plans import drafted, working
from textual import events
from textual.pilot import Pilot

from duckflow_tui.commands import COMMANDS, parse_command
from duckflow_tui.state.conversation import UserMessageAdded
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.store import Store
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.completion import Candidate
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.panes.transcript import Transcript
from duckflow_tui.ui.screens.confirm import Confirm
from duckflow_tui.ui.screens.pick_list import PickList

WIDE = (120, 40)


async def typed(pilot: Pilot[int], text: str) -> None:
    """As a terminal tells it: Pilot knows no names of full-width signs."""
    for character in text:
        name = character if character.isalnum() else unicodedata.name(character).lower()
        pilot.app.post_message(events.Key(name.replace(" ", "_").replace("-", "_"), character))
        await pilot.pause()


# --- a question ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "choice"),
    [("ｙ", GateChoice.ONCE), ("２", GateChoice.ALTERNATIVE)],
)
async def test_a_full_width_key_answers_a_gate_as_its_half_width_form(
    key: str, choice: GateChoice, open_apps: OpenApps
) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, key)
        assert [answer.choice for answer in app.answers] == [choice]


async def test_a_full_width_key_answers_nothing_in_the_first_300_ms(open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        app.card.focus()
        await pilot.pause()
        app.clock.advance(SETTLE_S - 0.001)
        await press(pilot, "ｙ", "ｓ", "２")
        assert app.answers == []
        assert "2 came too soon" in app.text()


@pytest.mark.parametrize("text", ["ｙｅｓ", "ｙおねがい", "ｓを見て"])
async def test_a_text_that_an_input_method_commits_at_once_answers_nothing(
    text: str, open_apps: OpenApps
) -> None:
    """It comes as one burst, goes to the composer whole, and keeps the width it was written in."""
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        for character in text:
            app.post_message(events.Key(character, character))
        await settled(pilot, lambda: app.composer.value == text)
        assert app.answers == []


@pytest.mark.parametrize("key", ["①", "②", "ⅱ", "ʸ", "や"])
async def test_what_only_looks_like_a_key_answers_nothing(key: str, open_apps: OpenApps) -> None:
    async with open_apps.asking(gate()) as (app, pilot):
        await at_gate(pilot)
        await press(pilot, key)
        app.clock.advance(SETTLE_S)
        assert app.answers == []


async def test_a_full_width_key_takes_the_option_of_a_card() -> None:
    fake = FakeEngine(drafted())
    app = app_with(fake)
    async with standing(app) as pilot:
        await at_question(pilot)
        await pilot.press("ｙ")
        await settled(pilot, lambda: bool(fake.card_answers))


# --- pages -----------------------------------------------------------------------------------


async def test_full_width_keys_work_on_pages_lists_and_where_y_is_asked_for() -> None:
    fake = FakeEngine(store_with())
    app = app_with(fake)
    async with standing(app) as pilot:
        app.action_mode("trusted")
        await settled(pilot, lambda: isinstance(app.screen, Confirm))
        assert isinstance(app.clock, ManualClock)
        app.clock.advance(SETTLE_S)
        await pilot.press("ｙ")
        await settled(pilot, lambda: fake.store.state.mode is ApprovalMode.TRUSTED)
        app.action_settings()
        await settled(pilot, lambda: app.screen is not app.bench)
        app.clock.advance(SETTLE_S)
        await typed(pilot, "／ｔｈｅｍｅ")
        await settled(
            pilot, lambda: list(open_list(app).list_items()) == ["ui.theme"], "the filter"
        )
        await pilot.press("escape", "escape")
        await settled(pilot, lambda: app.screen is app.bench)
        app.action_command_palette()
        await settled(pilot, lambda: isinstance(app.screen, PickList))
        await pilot.press(*"ｔｈｅｍｅ", "enter")
        await settled(pilot, lambda: app.screen is not app.bench)
        await pilot.press(*"ｌｉｇｈｔ", "enter")
        await settled(pilot, lambda: app.theme == "duck-light")


# --- the composer ----------------------------------------------------------------------------


async def test_a_command_typed_in_full_width_runs() -> None:
    fake = FakeEngine(store_with())
    app = app_with(fake)
    async with standing(app) as pilot:
        await typed(pilot, "／ｍｏｄｅ")
        assert app.bench.composer.text == "/mode"
        await settled(pilot, lambda: app.bench.completions.chosen_candidate is not None)
        await typed(pilot, "　ｐｌａｎ")
        await pilot.press("enter")
        await settled(pilot, lambda: fake.store.state.mode is ApprovalMode.PLAN)
        assert fake.sent == []


async def test_full_width_signs_begin_what_their_half_width_forms_begin() -> None:
    fake = FakeEngine(store_with(), ("src/shop/pricing.py",))
    app = app_with(fake)
    async with standing(app) as pilot:
        await typed(pilot, "＠ｐ")
        assert app.bench.composer.text == "@ｐ"
        await pilot.press("backspace", "p")
        chosen = Candidate("src/shop/pricing.py")
        await settled(pilot, lambda: app.bench.completions.chosen_candidate == chosen)
        app.bench.composer.replace_text("")
        await typed(pilot, "！！ｌs")
        assert app.bench.composer.text == "!!ｌs"
        assert app.bench.composer.own


@pytest.mark.parametrize("letter", ["\u200c", "\u200d"])
async def test_what_joins_or_parts_letters_is_written(letter: str) -> None:
    fake = FakeEngine(store_with())
    async with standing(app_with(fake)) as pilot:
        await typed(pilot, f"a{letter}b")
        await pilot.press("enter")
        await settled(pilot, lambda: fake.sent == [f"a{letter}b"])


async def test_full_width_letters_of_a_message_stay_as_they_are() -> None:
    fake = FakeEngine(store_with())
    app = app_with(fake)
    async with standing(app) as pilot:
        await typed(pilot, "Ａと　Ｂ！／＠１")
        await pilot.press("enter")
        await settled(pilot, lambda: fake.sent == ["Ａと　Ｂ！／＠１"])


# --- a letter that was meant for the question ------------------------------------------------


@pytest.mark.parametrize("letter", ["y", "n", "s", "2", "Y", "ｙ", "ｎ"])
async def test_a_letter_of_the_open_gate_is_not_sent_but_answered_with_a_hint(letter: str) -> None:
    fake = FakeEngine(working(at_gate=True))
    app = app_with(fake)
    async with standing(app) as pilot:
        await asked(pilot)
        await pilot.press(letter, "enter")
        await settled(pilot, lambda: "was not sent" in app.bench.status.notice_text)
        assert fake.sent == []
        assert fake.answers == []
        assert app.bench.composer.text == ""
        await pilot.press("enter")
        await settled(pilot, lambda: app.bench.focused is app.bench.question)
        assert isinstance(app.clock, ManualClock)
        app.clock.advance(SETTLE_S)
        await pilot.press("escape")
        await settled(pilot, lambda: app.bench.focused is app.bench.composer)
        await pilot.press("up")
        await settled(pilot, lambda: app.bench.composer.text == letter)


@pytest.mark.parametrize(
    ("store", "text"),
    [(lambda: working(at_gate=True), "yes"), (drafted, "7"), (store_with, "y")],
    ids=["a word", "no key of the card", "nothing is asked"],
)
async def test_any_other_message_is_sent(store: Callable[[], Store], text: str) -> None:
    fake = FakeEngine(store())
    app = app_with(fake)
    async with standing(app) as pilot:
        await pilot.press(*text, "enter")
        await settled(pilot, lambda: fake.sent == [text])


async def test_a_key_of_the_open_card_is_not_sent() -> None:
    fake = FakeEngine(drafted())
    app = app_with(fake)
    async with standing(app) as pilot:
        await asked(pilot)
        await pilot.press("y", "enter")
        await settled(pilot, lambda: "was not sent" in app.bench.status.notice_text)
        assert fake.sent == []


# --- names of other programs -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "name"),
    [("/clear", "new"), ("/help", "help"), ("/exit", "quit"), ("／ＨＥＬＰ", "help")],
)
def test_commands_have_the_names_they_have_elsewhere(typed: str, name: str) -> None:
    found = parse_command(typed)
    assert found is not None
    assert found.command is next(c for c in COMMANDS if c.name == name)


async def test_a_name_from_elsewhere_completes_and_runs() -> None:
    app = app_with(FakeEngine(store_with()))
    async with standing(app) as pilot:
        await pilot.press(*"/permi")
        words = app.words("commands.rules")
        await settled(
            pilot, lambda: app.bench.completions.candidates == (Candidate("/permissions", words),)
        )
        await pilot.press("enter")
        await settled(pilot, lambda: app.screen is not app.bench)


# --- the end of the chat ---------------------------------------------------------------------


async def _far_from_the_end(pilot: Pilot[int], app: DuckflowApp) -> Transcript:
    chat = app.bench.talk.transcript
    assert chat is not None
    await pilot.press("pageup", "pageup")
    await settled(pilot, lambda: not chat.following)
    return chat


def _long() -> Store:
    said = (UserMessageAdded(message=user(f"message {n}", n)) for n in range(60))
    return store_with(*said)


@pytest.mark.parametrize("text", ["hello", "!ls"])
async def test_what_is_sent_is_seen_wherever_the_user_had_scrolled_to(text: str) -> None:
    fake = FakeEngine(_long())
    app = app_with(fake)
    async with standing(app, 80, 24) as pilot:
        chat = await _far_from_the_end(pilot, app)
        await pilot.press(*text, "enter")
        await settled(pilot, lambda: chat.following)


async def test_end_in_the_empty_composer_goes_to_the_end_of_the_chat() -> None:
    app = app_with(FakeEngine(_long()))
    async with standing(app, 80, 24) as pilot:
        chat = await _far_from_the_end(pilot, app)
        await pilot.press("a", "b", "home", "end", "c")
        assert app.bench.composer.text == "abc"
        assert not chat.following
        await pilot.press("backspace", "backspace", "backspace", "end")
        await settled(pilot, lambda: chat.following)
        assert chat.scroll_offset.y == chat.max_scroll_y
