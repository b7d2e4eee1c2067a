"""Consultations, the report after the last attempt, budgets: keys, words, and the chat."""

from __future__ import annotations

from typing import Any

import pytest
from support.app_states import FakeEngine, at_question, settled
from support.consults import (
    RUN,
    at_work,
    attempt,
    budget,
    consultation,
    done,
    escalation,
    overruled,
    question,
    review,
    reviewed,
    situation,
)
from support.conversations import assistant
from support.goals import set_objective
from support.open_apps import OpenApps
from support.pinned import ManualClock
from support.plans import drafted, working
from support.screens import screen_text
from textual import events
from textual.pilot import Pilot

from duckflow_tui.state.conversation import QueuedMessage
from duckflow_tui.state.decision import Question, TurnDecision
from duckflow_tui.state.gates import Card, CardOpened, CardWithdrawn, make_question_options
from duckflow_tui.state.goal import ObjectiveChanged, RequirementItem
from duckflow_tui.state.pace import Pattern, Reason, Tried
from duckflow_tui.state.store import Store
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.card_words import option_effects
from duckflow_tui.ui.panes.key_guard import SETTLE_S
from duckflow_tui.ui.panes.request import RequestView
from duckflow_tui.ui.panes.transcript import Transcript
from duckflow_tui.words.catalogue import Catalogue, load_entries

HOSTILE = "\x1b[2Jwipe [/] [bold]loud[/bold] \u202etxt"
SAYS = Catalogue("en")("gate.says")  # before the words of a model
CARDS = [*(consultation(pattern) for pattern in Pattern), escalation(), budget()]
CHOICES = [(card, option) for card in CARDS for option in card.options]


def named(card: Card) -> str:
    """A card by what it asks."""
    return card.situation.pattern if card.situation is not None else card.kind


def wait(app: DuckflowApp) -> None:
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(SETTLE_S)


async def answered(fake: FakeEngine, pilot: Pilot[int]) -> tuple[str, str]:
    await settled(pilot, lambda: bool(fake.card_answers), "the answer")
    return fake.card_answers[0].action, fake.card_answers[0].text


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("pane", ["alt+2", "alt+4"])
async def test_on_a_small_screen_a_pane_beside_an_open_card_has_room(
    language: str, pane: str, open_apps: OpenApps
) -> None:
    """The gauges can be read while the card that they explain waits; nothing leaves the screen."""
    async with open_apps.standing(
        FakeEngine(at_work(language, consultation(Pattern.STAGNATION, language))), 60, 20
    ) as (app, pilot):
        await pilot.press(pane)
        bench = app.bench
        side = bench.query_one("#side")
        await settled(pilot, lambda: side.region.height >= 5, "the pane")
        assert bench.question.region.height >= 4
        assert bench.composer.region.bottom == bench.status.region.y
        assert bench.composer.region.height == 3
        if pane == "alt+4":
            assert bench.vitals.region.height >= 5
            assert side.region.contains_region(bench.vitals.region)


@pytest.mark.parametrize("card", CARDS, ids=named)
async def test_each_option_has_its_key(card: Card, open_apps: OpenApps) -> None:
    """Covers S0-39, S0-40, S0-41, S0-42, S1-34, C33."""
    fake = FakeEngine(at_work("en"))
    async with open_apps.standing(fake) as (_, pilot):
        for option in card.options:
            again = card.model_copy(update={"card_id": f"card_{option.action}"})
            fake.store.dispatch(CardOpened(card=again))
            await at_question(pilot)
            words = "net" if option.takes_text else ""
            await pilot.press(option.key, *words)
            if words:
                assert fake.card_answers == [], option.action
                await pilot.press("enter")
            assert await answered(fake, pilot) == (option.action, words)
            assert fake.card_answers[0].card_id == again.card_id
            assert fake.card_answers[0].subject == card.subject, option.action
            fake.card_answers.clear()


@pytest.mark.parametrize("language", ["en", "ja"])
def test_each_option_says_what_it_is_and_what_it_does(language: str) -> None:
    known = load_entries(language)
    for card, option in CHOICES:
        assert known[f"card.{card.kind}.{option.action}"]
        assert known[f"card.answered.{option.action}"]
        if option.takes_text:
            assert known[f"card.ask_text.{option.action}"]
            assert "{text}" in known[f"card.answered.{option.action}_because"]


def test_in_a_step_taking_the_result_ends_the_step_and_says_so() -> None:
    """Covers S0-42."""
    words = Catalogue("en")
    of_turn = consultation(Pattern.LIMIT)
    of_step = of_turn.model_copy(update={"step_id": "step_1"})
    key = next(o.key for o in of_turn.options if o.action == "accept_result")
    assert option_effects(of_turn, words)[key] == "closes the request"
    assert option_effects(of_step, words)[key] == "step done, plan on hold"


@pytest.mark.parametrize("columns", [160, 100, 76])
@pytest.mark.parametrize("language", ["en", "ja"])
async def test_the_effect_of_each_option_stands_beside_or_below_it(
    columns: int, language: str, open_apps: OpenApps
) -> None:
    """Covers S0-56."""
    effects = option_effects(escalation(), Catalogue(language))
    fake = FakeEngine(at_work(language, escalation()))
    async with open_apps.standing(fake, columns, 40, language=language) as (app, _):
        text = screen_text(app)
        assert [words for words in effects.values() if words not in text] == []


@pytest.mark.parametrize("card", CARDS, ids=named)
async def test_a_card_asks_and_offers_numbers(card: Card, open_apps: OpenApps) -> None:
    """Covers S0-38."""
    async with open_apps.standing(FakeEngine(at_work("en", card)), 120, 50) as (app, _):
        text = screen_text(app)
        words = Catalogue("en")
        about = card.situation.pattern if card.situation is not None else card.kind
        assert words(f"consult.question.{about}") in text
        for option in card.options:
            assert f" {option.key}  {words(f'card.{card.kind}.{option.action}')}" in text
        if card.situation is not None:
            assert sum(option.key.isdecimal() for option in card.options) == 4
            assert f"{words(f'consult.heading.{about}')}  loop {card.situation.loop}" in text


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({}, "No attempts left"),
        ({"attempts": 2}, "The same things are still missing"),
        ({"attempts": 1, "missing": ()}, "Not met, but nothing was named as missing"),
    ],
    ids=["no attempt is left", "twice the same", "nothing is named"],
)
async def test_the_report_to_the_user_is_headed_by_why_it_comes(
    report: dict[str, Any], said: str, open_apps: OpenApps
) -> None:
    fake = FakeEngine(at_work("en", escalation(**report)))
    async with open_apps.standing(fake, 120, 50) as (app, _):
        assert said in screen_text(app)


@pytest.mark.parametrize("approval", [False, True])
async def test_the_answers_that_a_model_offers_are_keys(
    approval: bool, open_apps: OpenApps
) -> None:
    """Its own words stand beside them. Covers S4-67, S4-107."""
    fake = FakeEngine(at_work("en"))
    async with open_apps.standing(fake) as (app, pilot):
        card = question(approval=approval)
        keys = ["y", "n", "1", "2", "m"] if approval else ["1", "2", "m"]
        assert [option.key for option in card.options] == keys
        for option in card.options:
            again = card.model_copy(update={"card_id": f"card_{option.action}"})
            fake.store.dispatch(CardOpened(card=again))
            await at_question(pilot)
            assert f" 2  {card.options[-2].label}" in screen_text(app)
            await pilot.press(option.key, *(("a", "enter") if option.takes_text else ()))
            text = "a" if option.takes_text else ""
            assert await answered(fake, pilot) == (option.action, text)
            fake.card_answers.clear()


async def test_nine_answers_of_a_model_have_nine_keys(open_apps: OpenApps) -> None:
    fake = FakeEngine(at_work("en"))
    async with open_apps.standing(fake) as (_, pilot):
        many = make_question_options([f"way {n}" for n in range(12)], approval=False)
        assert [option.key for option in many] == [*"123456789", "m"]
        fake.store.dispatch(CardOpened(card=question().model_copy(update={"options": many})))
        await at_question(pilot)
        await pilot.press("9")
        assert await answered(fake, pilot) == ("offered_9", "")


async def test_a_question_stands_once_in_its_card_and_then_in_the_chat(
    open_apps: OpenApps,
) -> None:
    card = question()
    asked = Question(text=card.question, options=tuple(o.label for o in card.options if o.label))
    store = at_work("en")
    decided = TurnDecision(decision_id="d", question=asked)
    store.state.messages.append(assistant("", 1, decision=decided))
    fake = FakeEngine(store)
    async with open_apps.standing(fake) as (app, pilot):
        await settled(pilot, lambda: card.question in screen_text(app), "the question")
        fake.store.dispatch(CardOpened(card=card))
        await at_question(pilot)
        await settled(pilot, lambda: screen_text(app).count(card.question) == 1, "only the card")
        assert asked.options[0] in screen_text(app)
        fake.store.dispatch(CardWithdrawn(card_id=card.card_id, reason="stopped", at=0.0))
        await settled(pilot, lambda: app.bench.question.card is None, "the card is gone")
        await settled(pilot, lambda: screen_text(app).count(card.question) == 1, "in the chat")


async def test_answers_without_a_question_stay_while_another_card_is_open(
    open_apps: OpenApps,
) -> None:
    store = at_work("en")
    decided = TurnDecision(decision_id="d", question=Question(text="", options=("this", "that")))
    store.state.messages.append(assistant("", 1, decision=decided))
    fake = FakeEngine(store)
    async with open_apps.standing(fake) as (app, pilot):
        await settled(pilot, lambda: "1 this" in screen_text(app), "the answers")
        fake.store.dispatch(CardOpened(card=consultation(Pattern.STAGNATION)))
        await at_question(pilot)
        chat = app.bench.talk.transcript
        assert chat is not None
        assert "1 this" in "\n".join(s.text for s in chat.render_lines(chat.size.region))


async def test_a_hostile_question_is_shown_as_text(open_apps: OpenApps) -> None:
    """R13."""
    card = question().model_copy(update={"question": HOSTILE})
    async with open_apps.standing(FakeEngine(at_work("en", card))) as (app, _):
        assert "␛[2Jwipe [/] [bold]loud[/bold] ⟨U+202E⟩txt" in screen_text(app)


async def test_plus_grants_more_loops_at_the_limit_and_nowhere_else(open_apps: OpenApps) -> None:
    fake = FakeEngine(at_work("en", consultation(Pattern.STAGNATION)))
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await pilot.press("+")
        await settled(pilot, lambda: "“+” is not a choice here: 1 2 3 4 m" in screen_text(app))
        assert fake.card_answers == []
    fake = FakeEngine(at_work("en", consultation(Pattern.LIMIT)))
    async with open_apps.standing(fake) as (_, pilot):
        await at_question(pilot)
        await pilot.press("+")
        assert await answered(fake, pilot) == ("more_loops", "")


async def test_the_limit_says_what_was_reached(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(at_work("en", consultation(Pattern.LIMIT)))) as (
        app,
        _,
    ):
        text = screen_text(app)
        assert "so far        the failing test is found" in text
        assert "Two discounts are applied one after the other" in text


@pytest.mark.parametrize("size", [(120, 40), (60, 20)], ids=["wide", "single"])
async def test_any_other_key_is_refused_with_a_hint(
    size: tuple[int, int], open_apps: OpenApps
) -> None:
    """Covers S0-43."""
    card = consultation(Pattern.CONFUSION, tried=(), hypothesis=None, hypothesis_said="")
    fake = FakeEngine(at_work("en", card))
    async with open_apps.standing(fake, *size) as (app, pilot):
        await at_question(pilot)
        for key in ("x", "5", "9", "0", "y", "n", "o", "space", "?"):
            shown = " " if key == "space" else key
            hint = f"“{shown}” is not a choice here: 1 2 3 4 m"
            await pilot.press(key)
            await settled(pilot, lambda hint=hint: hint in screen_text(app), hint)
            assert fake.card_answers == [], key
            assert app.bench.focused is app.bench.question, key
            await settled(pilot, lambda: not app.bench.question.is_holding)
        await pilot.press("2")
        assert await answered(fake, pilot) == ("start_over", "")


@pytest.mark.parametrize("key", ["2", "m"])
async def test_an_answer_in_words_needs_some(key: str, open_apps: OpenApps) -> None:
    fake = FakeEngine(at_work("en", consultation(Pattern.STAGNATION)))
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await pilot.press(key, " ", "enter")
        await settled(pilot, lambda: app.bench.focused is app.bench.question)
        assert fake.card_answers == []


async def test_escape_leaves_it_open_and_says_how_to_come_back(open_apps: OpenApps) -> None:
    """Covers C33."""
    fake = FakeEngine(at_work("en", consultation(Pattern.STAGNATION)))
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await pilot.press("escape")
        await settled(pilot, lambda: app.bench.focused is app.bench.composer)
        await settled(pilot, lambda: "Left open" in screen_text(app), "the word")
        assert fake.card_answers == []
        assert fake.store.state.cards != ()
        await at_question(pilot)
        await pilot.press("3")
        assert await answered(fake, pilot) == ("keep_going", "")
        assert "Left open" not in screen_text(app)


async def test_a_card_takes_no_focus_and_digits_stay_digits(open_apps: OpenApps) -> None:
    fake = FakeEngine(at_work())
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("1")
        fake.store.dispatch(CardOpened(card=consultation(Pattern.LIMIT)))
        await settled(pilot, lambda: app.bench.question.card is not None)
        await pilot.press("+", "1")
        assert app.bench.composer.text == "1+1"
        assert fake.card_answers == []


@pytest.mark.parametrize("text", ["1 more try", "x1", "+5", "4."])
async def test_no_option_is_chosen_by_a_burst(text: str, open_apps: OpenApps) -> None:
    fake = FakeEngine(at_work("en", consultation(Pattern.LIMIT)))
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        for character in text:
            app.post_message(events.Key({"+": "plus"}.get(character, character), character))
        await settled(pilot, lambda: not app.bench.question.is_holding)
        for _ in range(3):
            await pilot.pause()
        assert fake.card_answers == []


# --- the way into the chat ------------------------------------------------------------------------


def at_cursor(chat: Transcript) -> str:
    """The block that keys of the chat are about, by its call."""
    return getattr(getattr(chat._cursor, "message", None), "call_id", "")  # pyright: ignore[reportPrivateUsage]  # what is lit up


async def test_enter_on_what_was_tried_shows_its_place(open_apps: OpenApps) -> None:
    store = at_work("en", consultation(Pattern.STAGNATION))
    store.state.messages += list(at_work().state.messages) * 12
    fake = FakeEngine(store)
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await pilot.press("enter")  # nothing is chosen yet
        assert app.bench.focused is app.bench.question
        await pilot.press("down", "down", "up", "enter")
        chat = app.bench.talk.transcript
        assert chat is not None
        await settled(pilot, lambda: app.bench.focused is chat, "the chat")
        assert at_cursor(chat) == RUN
        assert fake.card_answers == []
        assert app.bench.question.card is not None


async def test_a_message_is_a_place_too(open_apps: OpenApps) -> None:
    tried = (Tried(text="said that it is done", ref="a1"),)
    async with open_apps.standing(
        FakeEngine(at_work("en", consultation(Pattern.STAGNATION, tried=tried)))
    ) as (app, pilot):
        await at_question(pilot)
        await pilot.press("up", "enter")
        await settled(pilot, lambda: app.bench.focused is app.bench.talk.transcript)


async def test_a_place_that_is_gone_is_said_to_be(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(at_work("en", consultation(Pattern.STAGNATION)))) as (
        app,
        pilot,
    ):
        await at_question(pilot)
        await pilot.press("up", "enter")  # the last one
        gone = Catalogue("en")("plan.not_in_chat")
        await settled(pilot, lambda: gone in str(app.bench.question.border_subtitle))
        assert app.bench.focused is app.bench.question


async def test_arrows_scroll_a_card_that_leads_nowhere(open_apps: OpenApps) -> None:
    collected = tuple((f"file{n}.py", "what it says") for n in range(40))
    async with open_apps.standing(FakeEngine(at_work("en", escalation(collected=collected)))) as (
        app,
        pilot,
    ):
        await at_question(pilot)
        assert "file0.py" in screen_text(app)
        await pilot.press(*["down"] * 12)
        await settled(pilot, lambda: "file0.py" not in screen_text(app))
        await pilot.press(*["up"] * 12)
        await settled(pilot, lambda: "file0.py" in screen_text(app))


# --- what it says ---------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", list(Pattern))
def test_causes_and_guesses_have_words(pattern: Pattern) -> None:
    about = situation(pattern)
    assert about.hypothesis is not None
    for language in ("en", "ja"):
        known = load_entries(language)
        assert known[f"consult.cause.{about.cause.code}"]
        assert known[f"consult.hypothesis.{about.hypothesis.code}"]


async def test_the_model_is_told_apart_from_the_app(open_apps: OpenApps) -> None:
    async with open_apps.standing(
        FakeEngine(at_work("en", consultation(Pattern.STAGNATION))), 160
    ) as (
        app,
        _,
    ):
        text = screen_text(app)
        assert f"AI's view     {SAYS} A fixture sets the price" in text
        assert "likely cause  It is waiting for a different result" in text


async def test_what_was_tried_says_how_it_went_and_how_often(open_apps: OpenApps) -> None:
    async with open_apps.standing(
        FakeEngine(at_work("en", consultation(Pattern.STAGNATION))), 160
    ) as (
        app,
        _,
    ):
        text = screen_text(app)
        assert "✗ 4× shell pytest -q tests/test_pricing.py: 1 failed" in text
        assert "✓ 2× read src/shop/pricing.py" in text


@pytest.mark.parametrize("size", [(160, 50), (80, 24), (60, 20), (20, 5), (1, 1)])
async def test_foreign_text_is_text(size: tuple[int, int], open_apps: OpenApps) -> None:
    """Covers S1-40."""
    stuck = consultation(
        Pattern.STAGNATION,
        cause=Reason(code="same_action", params={"operation": HOSTILE, "what": "a\nb"}),
        tried=(Tried(text=HOSTILE),),
        achieved=(HOSTILE,),
        hypothesis=Reason(code=HOSTILE),
        hypothesis_said=HOSTILE,
    )
    over = escalation(
        original_query=f"{HOSTILE}\nsecond line",
        missing=(HOSTILE,),
        collected=((HOSTILE, HOSTILE),),
        quality=HOSTILE,
    )
    for card in (stuck, over):
        async with open_apps.standing(FakeEngine(at_work("en", card)), *size) as (app, _):
            text = screen_text(app)
            assert "\x1b" not in text
            assert "\u202e" not in text
            if size[0] == 160:
                assert "␛[2Jwipe [/] [bold]loud[/bold] ⟨U+202E⟩txt" in text


async def test_the_report_says_what_was_collected_in_100_characters(open_apps: OpenApps) -> None:
    """Covers S1-32."""
    card = escalation(collected=(("log", "x" * 300),))

    def said() -> str:
        """Without spaces: a long word is broken anywhere."""
        return "".join(screen_text(app).replace("│", " ").split())

    async with open_apps.standing(FakeEngine(at_work("en", card)), 300, 60) as (app, pilot):
        await settled(pilot, lambda: f"log:{'x' * 100}…" in said(), "what was collected")
        text = said()
        assert "x" * 101 not in text
        assert "3of3attemptsused·score0.62" in text


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_an_answered_card_stays_in_the_chat(language: str, open_apps: OpenApps) -> None:
    fake = FakeEngine(at_work(language, consultation(Pattern.CONFUSION, language)))
    async with open_apps.standing(fake, 120, 60, language=language) as (app, pilot):
        await at_question(pilot)
        await pilot.press("1", *"tests", "enter")
        await settled(pilot, lambda: app.bench.question.card is None)
        words = Catalogue(language)
        heading = words("consult.heading.confusion")
        answer = words("card.answered.top_requirement_because", text="tests")
        await settled(
            pilot, lambda: f"{heading}  " in screen_text(app) and answer in screen_text(app)
        )
        await pilot.press("ctrl+o")
        guess = words("consult.label.likely")
        await settled(pilot, lambda: guess in screen_text(app), "what it said")


# --- reviews --------------------------------------------------------------------------------------


def chat_of(app: DuckflowApp) -> str:
    """The lines of the chat."""
    chat = app.bench.talk.transcript
    assert chat is not None
    return "\n".join(chat.render_line(y).text.rstrip() for y in range(chat.size.height))


def judged(*messages: object) -> Store:
    return at_work("en", more=messages)  # pyright: ignore[reportArgumentType]  # messages of the chat


async def test_a_review_is_one_line_that_names_what_is_missing(open_apps: OpenApps) -> None:
    """Covers S1-25, S1-27."""
    async with open_apps.standing(FakeEngine(judged(reviewed(review()), attempt())), 120, 50) as (
        app,
        _,
    ):
        text = chat_of(app)
        assert "▸ Not done yet, attempt 1 of 3: no test with two discounts" in text
        assert "Attempt 2 of 3" in text
        assert f"{SAYS} Write the test for two discounts first" in text
        assert "exit 4" not in text


async def test_a_review_shows_the_evidence_behind_it(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(judged(reviewed(done()))), 120, 50) as (app, pilot):
        assert "▸ Done: 3 of 3 · tests pass" in chat_of(app)
        assert "0.93" not in chat_of(app)
        await pilot.press("ctrl+o")
        await settled(pilot, lambda: "$ pytest -q · exit 0" in chat_of(app))
        assert "score 0.93 ·" in chat_of(app)
        assert "12 passed in 0.31s" in chat_of(app)


async def test_a_verdict_whose_files_changed_says_so_until_they_are_back(
    open_apps: OpenApps,
) -> None:
    store = judged(reviewed(done()))
    set_objective(store, items=done().items)
    store.state.last_review = done()
    async with open_apps.standing(FakeEngine(store), 120, 50) as (app, pilot):
        asked = store.state.objective
        assert asked is not None
        assert "files changed since" not in chat_of(app)
        store.dispatch(ObjectiveChanged(objective=asked.replace(reopened=True)))
        await settled(pilot, lambda: "▸ Done: 3 of 3 · tests pass · files changed" in chat_of(app))
        store.dispatch(ObjectiveChanged(objective=asked))
        await settled(pilot, lambda: "files changed since" not in chat_of(app))


async def test_a_check_that_overrules_the_evaluator_decides_the_verdict(
    open_apps: OpenApps,
) -> None:
    async with open_apps.standing(FakeEngine(judged(reviewed(overruled()))), 160, 60) as (
        app,
        pilot,
    ):
        assert "▸ Not done yet, attempt 1 of 3: no test with two discounts" in chat_of(app)
        await pilot.press("ctrl+o")
        await settled(pilot, lambda: "exit 4" in chat_of(app))
        text = chat_of(app)
        assert "the check overruled the judge: A test covers two discounts" in text
        assert "your check could not be run: The README says how" in text


async def test_the_last_attempt_does_not_say_that_it_goes_on(open_apps: OpenApps) -> None:
    async with open_apps.standing(
        FakeEngine(judged(reviewed(review(attempt=3, follows=False)))), 120, 50
    ) as (
        app,
        _,
    ):
        assert "▸ Partly met: 1 of 3 · no test with two discounts" in chat_of(app)
        assert "attempt" not in chat_of(app)


async def test_what_seems_done_and_could_not_be_checked_is_not_said_to_go_on(
    open_apps: OpenApps,
) -> None:
    unproven = review(score=0.9, follows=False, unchecked=("req_2",))
    async with open_apps.standing(FakeEngine(judged(reviewed(unproven))), 120, 50) as (app, _):
        lines = [line.strip() for line in chat_of(app).splitlines()]
        assert any(line.startswith("▸ Not proven: 1 of 3 · ") for line in lines)


@pytest.mark.parametrize("width", [120, 60, 20, 3])
async def test_foreign_text_of_a_review_is_text(width: int, open_apps: OpenApps) -> None:
    about = review(items=(review().items[0].model_copy(update={"requirement": HOSTILE}),))
    async with open_apps.standing(FakeEngine(judged(reviewed(about))), width, 40) as (app, pilot):
        await pilot.press("ctrl+o")
        await pilot.pause()
        assert "\x1b" not in screen_text(app)
        assert "\u202e" not in screen_text(app)


def waiting(number: int, *cards: Card) -> Store:
    """These cards wait, else a gate, beside so many requirements and three messages."""
    store = at_work("en", *cards) if cards else working(at_gate=True)
    items = tuple(
        RequirementItem(requirement_id=f"r{n}", requirement=f"what is wanted, part {n}", priority=1)
        for n in range(number)
    )
    set_objective(store, items=items)
    store.state.queue = tuple(
        QueuedMessage(message_id=f"q{n}", text=f"later {n}", at=0.0) for n in range(3)
    )
    return store


@pytest.mark.parametrize("size", [(80, 24), (60, 20)], ids=["80", "60"])
async def test_of_what_is_asked_about_some_is_in_sight_beside_all_else(
    size: tuple[int, int], open_apps: OpenApps
) -> None:
    """However long the draft is and whatever waits, and with a pane over the chat too."""
    plan = drafted()
    plan.state.queue = waiting(8).state.queue
    stores = [
        waiting(0, consultation(Pattern.LIMIT)),
        waiting(8, consultation(Pattern.LIMIT)),
        waiting(8, question()),
        waiting(0),
        waiting(8),
        plan,
    ]
    for store in stores:
        async with open_apps.standing(FakeEngine(store), *size) as (app, pilot):
            bench = app.bench
            bench.composer.replace_text("a line\n" * 9)
            await settled(pilot, lambda bench=bench: bench.talk.open_question is not None)
            for pane in ("f2", "f3"):
                await pilot.press(pane)
                await pilot.pause()
                asked = bench.talk.open_question
                about = asked.query(RequestView).first(RequestView) if asked else None
                assert asked is not None
                assert about is not None
                assert asked.region.contains_region(about.region), (pane, store.state.cards)
                assert about.region.height >= 1, (pane, store.state.cards)
