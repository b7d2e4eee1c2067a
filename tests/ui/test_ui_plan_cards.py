"""Cards: who gets the focus, what their keys answer, and what is on screen before a yes."""

from __future__ import annotations

from typing import Any

import pytest
from support.app_states import (
    FakeEngine,
    app_with,
    asked,
    at_question,
    press_alone,
    settled,
    standing,
)
from support.conversations import START
from support.gates import gate
from support.open_apps import OpenApps
from support.pinned import KEY_DELAY, ManualClock
from support.plans import (
    FIX,
    PLAN,
    break_card,
    change_card,
    draft,
    drafted,
    failed_report,
    plan_card,
    report,
    report_card,
    working,
)
from support.screens import screen_text
from textual import events
from textual.pilot import Pilot

from duckflow_tui.state.gates import (
    Card,
    CardOpened,
    CardWithdrawn,
    GateChoice,
    GateOpened,
    Grant,
    GrantAdded,
    Remark,
)
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.plan import ReportMessage, Step, WorkStatus
from duckflow_tui.state.plan_events import ReportAdded
from duckflow_tui.state.session import ModeChanged
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.card_words import card_rows
from duckflow_tui.ui.panes.key_guard import ANEW_S
from duckflow_tui.ui.screens.manual import Manual
from duckflow_tui.words.catalogue import Catalogue

SAYS = Catalogue("en")("gate.says")  # before the words of a model
HOSTILE = "\x1b[2Jwipe \u202e[b]bold[/b]"


def wait(app: DuckflowApp, seconds: float = ANEW_S) -> None:
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(seconds)


async def answered(fake: FakeEngine, pilot: Pilot[int]) -> tuple[str, str]:
    await settled(pilot, lambda: bool(fake.card_answers), "the answer")
    return fake.card_answers[0].action, fake.card_answers[0].text


async def test_a_card_takes_no_focus_and_letters_stay_letters(open_apps: OpenApps) -> None:
    fake = FakeEngine(working())
    async with open_apps.standing(fake) as (app, pilot):
        await pilot.press("y")
        fake.store.dispatch(CardOpened(card=break_card()))
        await settled(pilot, lambda: app.bench.question.card is not None)
        await pilot.press("n", "1", "o")
        assert app.bench.composer.text == "yn1o"
        assert app.bench.focused is app.bench.composer
        assert fake.card_answers == []


@pytest.mark.parametrize("key", ["enter", "alt+3", "f4"])
async def test_ways_to_the_open_card_and_keys_that_come_too_soon(
    key: str, open_apps: OpenApps
) -> None:
    fake = FakeEngine(drafted())
    async with open_apps.standing(fake) as (app, pilot):
        await asked(pilot)
        await pilot.press(key)
        await settled(pilot, lambda: app.bench.focused is app.bench.question)
        await pilot.press("y", "n", "o")
        assert fake.card_answers == []
        assert app.bench.focused is app.bench.question
        wait(app)
        await pilot.press("y")
        assert await answered(fake, pilot) == ("run_all", "")
        assert fake.card_answers[0].subject == draft().fingerprint
        await settled(pilot, lambda: app.bench.focused is app.bench.composer)


@pytest.mark.parametrize(
    ("card", "keys", "action"),
    [
        (plan_card(draft()), "o", "run_steps"),
        (plan_card(draft()), ("n", "too wide"), "reject"),
        (plan_card(draft()), ("n", ""), "reject"),
        (change_card(), "y", "accept"),
        (report_card(report()), "y", "go_on"),
        (report_card(report()), "n", "stop"),
        (report_card(report()), "1", "suggested"),
        (report_card(failed_report()), "k", "skip"),
        (report_card(failed_report()), "d", "take_as_done"),
        (report_card(failed_report()), ("r", "set PYTHONPATH"), "retry"),
        (report_card(failed_report()), ("r", ""), "retry"),
        (report_card(failed_report()), ("m", "remove the test"), "tell"),
        (break_card(), "y", "go_on"),
        (break_card(), "n", "stop"),
    ],
)
async def test_each_option_has_its_letter_and_words_go_with_some(
    card: Card, keys: str | tuple[str, str], action: str, open_apps: OpenApps
) -> None:
    """Covers S2-22, S2-23. Letters that the card does not offer do nothing."""
    store = drafted() if card.subject == draft().fingerprint else working(cards=(card,))
    fake = FakeEngine(store)
    key, *texts = keys
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        for other in {*"rdkmo"} - {option.key for option in card.options}:
            await pilot.press(other)
            await settled(pilot, lambda: not app.bench.question.is_holding, "the pause")
        await pilot.press(key)
        if texts:
            await pilot.press(*texts[0])
            assert fake.card_answers == []
            await pilot.press("enter")
        assert await answered(fake, pilot) == (action, "".join(texts))


async def test_saying_what_to_do_instead_needs_words_and_escape_goes_back(
    open_apps: OpenApps,
) -> None:
    fake = FakeEngine(working(cards=(report_card(report()),)))
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await pilot.press("m", "enter")
        await settled(pilot, lambda: app.bench.focused is app.bench.question)
        wait(app)
        await pilot.press("m", "x", "escape")
        await settled(pilot, lambda: app.bench.focused is app.bench.question)
        wait(app)
        await pilot.press("escape")
        await settled(pilot, lambda: app.bench.focused is app.bench.composer)
        assert fake.card_answers == []
        assert app.bench.question.card is not None


async def test_e_on_a_plan_leads_into_the_plan_and_answers_nothing(open_apps: OpenApps) -> None:
    fake = FakeEngine(drafted())
    async with open_apps.standing(fake, 80, 24) as (app, pilot):
        await at_question(pilot)
        await pilot.press("e")
        await settled(pilot, lambda: app.bench.focused is app.bench.plan)
        await pilot.press("J")
        await settled(pilot, lambda: bool(fake.plan.edits))
        assert fake.card_answers == []


@pytest.mark.parametrize("key", ["y", "o"])
async def test_what_was_not_on_screen_is_asked_about_before_a_yes(
    key: str, open_apps: OpenApps
) -> None:
    """Once, naming how much; whatever scrolls counts, and shows the rest (R14)."""
    steps = tuple(Step(step_id=f"s{n}", name=f"Step number {n}") for n in range(1, 61))
    store = drafted()
    plan = draft(steps=steps)
    store.state.plans, store.state.cards = (plan,), (plan_card(plan),)
    fake = FakeEngine(store)
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        card = app.bench.question
        before = card.count_unseen()
        assert 20 < before < 60
        assert f" ↓  {before} more lines" in screen_text(app)
        await pilot.press(key)
        await settled(pilot, lambda: card.count_unseen() < before, "what was not on screen")

        def tells_rest() -> bool:
            asked = f"You have not seen {card.count_unseen()} lines of this."
            return asked in screen_text(app)

        await settled(pilot, tells_rest, "what is asked")
        await pilot.press(key)  # nobody has read that yet
        await pilot.pause(2 * KEY_DELAY)
        assert fake.card_answers == []
        if key == "o":
            for _ in range(12):
                await pilot.press("pagedown")
                await pilot.pause()
                assert "Step number" in screen_text(app)
            assert card.count_unseen() == 0
            assert "60 Step number 60" in screen_text(app)
        wait(app)
        await pilot.press(key)
        assert await answered(fake, pilot) == ("run_all" if key == "y" else "run_steps", "")


@pytest.mark.parametrize("card", [plan_card(draft()), change_card()], ids=["plan", "change"])
async def test_enter_at_a_plan_opens_no_field_and_names_the_keys(
    card: Card, open_apps: OpenApps
) -> None:
    """A card that has the focus already is answered by the key that follows."""
    store = drafted() if card.subject == draft().fingerprint else working(cards=(card,))
    fake = FakeEngine(store)
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await pilot.press("down", "enter")
        await settled(pilot, lambda: "“Enter” is not a choice here: y" in screen_text(app))
        assert app.bench.focused is app.bench.question
        await pilot.press("y")
        yes = {option.key: option.action for option in card.options}["y"]
        assert await answered(fake, pilot) == (yes, "")


async def test_remarks_on_steps_are_sent_with_a_no(open_apps: OpenApps) -> None:
    """Each with number and name of its step; a yes would lose them and says so."""
    fake = FakeEngine(drafted())
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await pilot.press("down", "down", "c", *"use the shop's names", "enter")
        await settled(pilot, lambda: "› use the shop's names" in screen_text(app))
        wait(app)
        await pilot.press("up", "c", *"first", "enter")
        await settled(pilot, lambda: "reject and send 2 remarks" in screen_text(app))
        wait(app)
        await pilot.press("escape")
        await settled(pilot, lambda: app.bench.focused is app.bench.composer)
        await at_question(pilot)
        await pilot.press("y")
        await settled(pilot, lambda: "2 remarks would be lost." in screen_text(app))
        wait(app)
        await pilot.press("n")
        assert await answered(fake, pilot) == ("reject", "")
        steps = draft().steps
        assert fake.card_answers[0].remarks == (
            Remark(number=1, line=steps[0].name, said="first"),
            Remark(number=2, line=steps[1].name, said="use the shop's names"),
        )


async def test_a_remark_on_a_changed_step_stays_when_the_card_is_shown_anew(
    open_apps: OpenApps,
) -> None:
    """Of a plan change as well; an empty text takes one away, Esc drops what is written."""
    fake = FakeEngine(working(cards=(change_card(),)))
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await pilot.press("c", *"why?", "enter")
        await settled(pilot, lambda: "› why?" in screen_text(app))
        other = change_card().model_copy(update={"card_id": "card_again"})
        fake.store.dispatch(CardOpened(card=other))
        fake.store.dispatch(CardWithdrawn(card_id=change_card().card_id, reason="renewed", at=0.0))
        await settled(
            pilot, lambda: (c := app.bench.question.card) is not None and c.card_id == "card_again"
        )
        wait(app, ANEW_S)
        assert "› why?" in screen_text(app)
        await pilot.press("c", *" x", "escape")
        wait(app)
        assert "› why?" in screen_text(app)
        await pilot.press("c", *["backspace"] * 4, "enter")
        await settled(pilot, lambda: "› why?" not in screen_text(app))
        wait(app)
        await pilot.press("n", "enter")
        assert await answered(fake, pilot) == ("reject", "")
        assert fake.card_answers[0].remarks == ()


async def test_a_plan_that_changed_meanwhile_is_not_approved(open_apps: OpenApps) -> None:
    store = drafted()
    fake = FakeEngine(store)
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        other = draft(goal="something else")
        app.bench.question.show(store.state.cards[0], plan=other)
        await pilot.press("y")
        await settled(pilot, lambda: "the plan changed" in screen_text(app))
        assert fake.card_answers == []


async def test_another_card_under_the_focus_is_not_answered_by_a_key_for_the_first(
    open_apps: OpenApps,
) -> None:
    fake = FakeEngine(drafted())
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        fake.store.dispatch(CardOpened(card=break_card()))
        fake.store.dispatch(CardWithdrawn(card_id="card_plan", reason="renewed", at=0.0))
        await settled(
            pilot, lambda: (c := app.bench.question.card) is not None and c.card_id != "card_plan"
        )
        await pilot.press("y")
        await pilot.pause()
        assert fake.card_answers == []
        assert app.bench.focused is app.bench.question


async def test_a_card_that_is_withdrawn_gives_the_focus_back(open_apps: OpenApps) -> None:
    fake = FakeEngine(drafted())
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        fake.store.dispatch(CardWithdrawn(card_id="card_plan", reason="stopped", at=0.0))
        await settled(pilot, lambda: app.bench.focused is app.bench.composer)
        assert app.bench.question.card is None
        await pilot.press("y")
        assert app.bench.composer.text == "y"


async def test_the_oldest_question_is_shown_and_the_focus_goes_on_to_the_next(
    open_apps: OpenApps,
) -> None:
    fake = FakeEngine(working())
    async with open_apps.standing(fake) as (app, pilot):
        fake.store.dispatch(GateOpened(gate=gate()))
        later = break_card().model_copy(update={"opened_at": gate().opened_at + 1})
        fake.store.dispatch(CardOpened(card=later))
        await settled(pilot, lambda: bool(app.bench.question.gate))
        assert app.bench.question.card is None
        await at_question(pilot)
        await pilot.press("y")
        await settled(pilot, lambda: app.bench.question.card is not None)
        assert app.bench.focused is app.bench.question
        assert [answer.choice for answer in fake.answers] == [GateChoice.ONCE]
        await pilot.press("y")  # too soon: it was meant for the gate
        assert fake.card_answers == []


async def test_typing_right_behind_an_answer_goes_to_the_composer(open_apps: OpenApps) -> None:
    fake = FakeEngine(working(cards=(break_card(),)))
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await pilot.press("y", "o", "k")
        await settled(pilot, lambda: app.bench.composer.text == "ok")
        assert [answer.action for answer in fake.card_answers] == ["go_on"]


async def test_a_difference_says_what_becomes_of_each_step(open_apps: OpenApps) -> None:
    async with open_apps.standing(
        FakeEngine(working(cards=(change_card(reason="the receipt is wrong too"),))), 160
    ) as (app, _):
        text = screen_text(app)
        assert "1 added, 1 changed" in text
        assert "+ 3 Check the receipt too · after 2" in text
        assert "~ 4 Test combinations of discounts · after 3" in text
        assert "was: 3 Test for stacked discounts · after 2" in text
        assert f"{SAYS} the receipt is wrong too" in text


async def test_a_report_tells_figures_of_the_app_from_words_of_the_model(
    open_apps: OpenApps,
) -> None:
    """Covers S2-20."""
    async with open_apps.standing(
        FakeEngine(working(cards=(report_card(failed_report()),))), 160
    ) as (
        app,
        _,
    ):
        text = screen_text(app)
        assert "result   4 operations, 1 failed, 1 skipped · 3 calls · 1:03" in text
        assert f"{SAYS} pytest could not import the package" in text
        assert f"{SAYS} 1 Set PYTHONPATH to src" in text


async def test_words_of_a_model_on_a_card_are_made_visible(open_apps: OpenApps) -> None:
    plan = draft(goal=HOSTILE, name=HOSTILE)
    store = drafted()
    store.state.plans, store.state.cards = (plan,), (plan_card(plan),)
    async with open_apps.standing(FakeEngine(store), 160) as (app, _):
        text = screen_text(app)
        assert "[b]bold[/b]" in text
        assert "\x1b" not in text
        assert "\u202e" not in text


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (40, 8), (79, 23)])
async def test_every_size_draws_a_card_and_takes_its_keys(size: tuple[int, int]) -> None:
    fake = FakeEngine(drafted())
    app = app_with(fake)
    async with standing(app, *size) as pilot:
        for width, height in ((1, 1), (20, 5), (120, 40), size):
            await pilot.resize_terminal(width, height)
        await at_question(pilot)
        await pilot.press("n", *"no", "enter")
        assert await answered(fake, pilot) == ("reject", "no")


# --- gates of a step ------------------------------------------------------------------------------


async def test_t_allows_until_the_step_ends(open_apps: OpenApps) -> None:
    fake = FakeEngine(working(at_gate=True))
    async with open_apps.standing(fake) as (app, pilot):
        assert "step 2" in str(app.bench.question.border_title)
        await at_question(pilot)
        await press_alone(pilot, "t")
        assert "until this step of the plan ends" in screen_text(app)
        wait(app, ANEW_S)
        await pilot.press("t")
        await settled(pilot, lambda: bool(fake.answers))
        assert fake.answers[0].choice is GateChoice.STEP


def command(**fields: Any) -> Any:
    facts = {"runs": "pytest -q\n&& ls", "cwd": ".", "sandbox": "none", "tool-made": "x"}
    return gate(
        [], operation="shell.run", args={"command": "pytest -q && ls"}, facts=facts, **fields
    )


async def test_a_gate_shows_the_figures_of_the_app(open_apps: OpenApps) -> None:
    store = working()
    store.state.gates = (command(),)
    async with open_apps.standing(FakeEngine(store)) as (app, _):
        text = screen_text(app)
        assert "runs       pytest -q" in text
        assert "&& ls" in text
        assert "NO SANDBOX: nothing limits this command" in text
        assert "tool-made" in text


@pytest.mark.parametrize(
    ("language", "key", "only", "held", "outside", "means"),
    [
        (
            "en",
            "s  this session: every command inside the folder, in the sandbox",
            "x  this session: only pytest …, in the sandbox",
            "auto-allowed: commands",
            "OUTSIDE the sandbox: nothing limits this command",
            "With s, commands run in the sandbox without asking",
        ),
        (
            "ja",
            "s  このセッション中: フォルダー内のすべてのコマンド（サンドボックス内）",
            "x  このセッション中: pytest … だけ（サンドボックス内）",
            "自動許可: コマンド",
            "サンドボックスの外: ",  # the rest stands on the next row
            "s を押すと、",
        ),
    ],
)
async def test_the_consent_for_the_sandbox_is_named_and_stays_in_sight(
    language: str, key: str, only: str, held: str, outside: str, means: str
) -> None:
    """In the key, in the status line while it counts, and not for what would run outside. Another
    key allows this command alone, and ``i`` says what the consent means.
    """
    store = working()
    store.state.session = store.state.session.replace(sandbox="full")
    narrow = {"grant_only": "shell.run *sandbox pytest …"}
    once = command(can_grant_session=True, grant_pattern="shell.run *sandbox", **narrow)
    store.state.gates = (once.replace(facts={**once.facts, "sandbox": "full"}),)
    fake = FakeEngine(store)
    app = app_with(fake, language=language)
    async with standing(app, 120, 50) as pilot:
        assert held not in screen_text(app)
        await at_question(pilot)
        await pilot.press("i")
        await settled(pilot, lambda: means in screen_text(app), "what it means")
        for said in (key, only):
            assert said in screen_text(app)
        choice = GateChoice.SESSION if language == "en" else GateChoice.ONLY
        await press_alone(pilot, "s" if language == "en" else "x")
        wait(app, ANEW_S)
        await pilot.press("s" if language == "en" else "x")
        await settled(pilot, lambda: bool(fake.answers))
        assert fake.answers[0].choice is choice
        grant = Grant(grant_id="g", operation="shell.run", path="*sandbox", gate_id=once.gate_id)
        store.dispatch(GrantAdded(grant=grant))
        await settled(pilot, lambda: held in screen_text(app))
        store.dispatch(ModeChanged(mode=ApprovalMode.STRICT, at=0.0))
        await settled(pilot, lambda: held not in screen_text(app))
        store.dispatch(ModeChanged(mode=ApprovalMode.TRUSTED, at=0.0))
        both = {"en": "auto-allowed: edits, commands", "ja": "自動許可: 編集、コマンド"}[language]
        await settled(pilot, lambda: both in screen_text(app))
    store = working()
    store.state.gates = (command().replace(facts={**once.facts, "sandbox": "outside"}),)
    app = app_with(FakeEngine(store), language=language)
    async with standing(app, 120, 50):
        assert outside in screen_text(app)


MARKDOWN = """
| a | b |
|---|---|

`calc.py` has **three** functions, *all* [short](x.md):

- `add(a, b)` returns `2 * a * b`
- __init__ stays
"""


@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_report_is_told_in_its_card_without_the_signs_of_its_source(language: str) -> None:
    """The first line of what was done, all of what is offered as the next thing."""
    told = report(summary=MARKDOWN, cause=MARKDOWN, next_action="1. Run `a_b` **now**\n2. __init__")
    rows = [str(row.text) for row in card_rows(report_card(told), None, Catalogue(language))]
    line = "calc.py has three functions, all short:…"
    assert rows.count(line) == 2
    assert "1 1. Run a_b now 2. __init__" in rows
    table = report_card(report(summary="| a |\n|---|"))  # nothing else: it is shown as it came
    assert "| a |␊|---|" in [str(row.text) for row in card_rows(table, None, Catalogue(language))]


# --- the chat -------------------------------------------------------------------------------------


async def test_the_chat_shows_cards_reports_and_whose_step_an_item_is(open_apps: OpenApps) -> None:
    async with open_apps.standing(FakeEngine(working()), 120, 50) as (app, pilot):
        chat = app.bench.talk.transcript
        assert chat is not None
        lines = [chat.render_line(y).text.rstrip() for y in range(chat.size.height)]
        text = "\n".join(lines)
        assert "▸ Plan  discounts  approved: run all" in text
        assert text.count("step 1 · Reproduce the wrong total") == 1
        assert text.count("step 2 · Fix the calculation") == 1
        assert "✓ Step 1 done  Reproduce the wrong total" in text
        reads = [line for line in lines if "38 lines" in line]
        assert all(line.startswith("▏") for line in reads)
        beside = next(line for line in lines if "what was it?" in line)
        assert "side question" in beside
        assert not beside.startswith("▏")
        chat.action_fold()
        await settled(
            pilot, lambda: "done when" in "\n".join(s.text for s in chat.render_lines(chat.region))
        )


async def test_what_a_card_says_of_a_report_the_chat_above_it_does_not_say_too(
    open_apps: OpenApps,
) -> None:
    about, store = failed_report(), working()
    store.dispatch(
        ReportAdded(message=ReportMessage(message_id="m9", report=about, step_id=FIX, at=START))
    )
    asks, lines = (
        report_card(about),
        ("pytest could not import", "4 operations, 1 failed", "✗ Step 2 failed"),
    )
    fake = FakeEngine(store)
    async with open_apps.standing(fake, 120, 50) as (app, pilot):
        await settled(pilot, lambda: [screen_text(app).count(s) for s in lines] == [1, 1, 1])
        store.dispatch(CardOpened(card=asks))
        await settled(pilot, lambda: app.bench.question.card is not None)
        await settled(pilot, lambda: [screen_text(app).count(s) for s in lines] == [1, 1, 1])
        store.dispatch(CardWithdrawn(card_id=asks.card_id, reason="stopped", at=0.0))
        await settled(pilot, lambda: app.bench.question.card is None)
        await settled(pilot, lambda: [screen_text(app).count(s) for s in lines] == [1, 1, 1])


async def test_a_step_that_begins_has_its_head_above_what_is_in_flight(open_apps: OpenApps) -> None:
    store = working()
    del store.state.messages[1:]
    async with open_apps.standing(FakeEngine(store)) as (app, _):
        chat = app.bench.talk.transcript
        assert chat is not None
        lines = [chat.render_line(y).text.strip() for y in range(10)]
        head = next(n for n, line in enumerate(lines) if "step 2 · Fix" in line)
        assert "edit" in lines[head + 1]


async def test_the_step_at_a_report_is_marked_in_the_plan(open_apps: OpenApps) -> None:
    store = working(cards=(report_card(failed_report()),))
    plan = store.state.plans[0]
    step = plan.steps[1].model_copy(update={"status": WorkStatus.FAILED, "started_at": None})
    store.state.plans = (plan.with_step(step),)
    async with open_apps.standing(FakeEngine(store)) as (app, pilot):
        await settled(pilot, lambda: "◆ 2 Fix the calculation" in screen_text(app))
        assert store.state.plans[0].plan_id == PLAN
        assert step.step_id == FIX


@pytest.mark.parametrize("key", ["m", "r", "n"])
async def test_what_comes_right_behind_an_option_is_its_text(key: str, open_apps: OpenApps) -> None:
    """No letter of it chooses another option, and none is lost."""
    store = drafted() if key == "n" else working(cards=(report_card(failed_report()),))
    fake = FakeEngine(store)
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        await press_alone(pilot, key)
        for character in "yes okn\rand on":
            app.post_message(events.Key({"\r": "enter"}.get(character, character), character))
        assert (await answered(fake, pilot))[1] == "yes okn"
        assert len(fake.card_answers) == 1
        await settled(pilot, lambda: app.bench.composer.text == "and on", "the rest")


@pytest.mark.parametrize("text", ["yes please", "ok then", "1,2", "yn", "kyoto", "oh yes", "x1"])
async def test_a_text_with_answers_in_it_chooses_nothing(text: str, open_apps: OpenApps) -> None:
    """All of it reaches the composer, and the focus with it."""
    cards = {"o": plan_card(draft()), "k": report_card(failed_report())}
    card = cards.get(text[0], report_card(report()))
    store = drafted() if card.subject == draft().fingerprint else working(cards=(card,))
    fake = FakeEngine(store)
    async with open_apps.standing(fake) as (app, pilot):
        await at_question(pilot)
        for character in text:
            app.post_message(events.Key("space" if character == " " else character, character))
        await settled(pilot, lambda: app.bench.composer.text == text, "what was typed")
        await pilot.pause(2 * KEY_DELAY)
        assert fake.card_answers == []
        assert app.bench.focused is app.bench.composer


async def test_letters_of_a_card_and_keys_of_the_footer_can_be_clicked(open_apps: OpenApps) -> None:
    fake = FakeEngine(drafted())

    async def click_on(pilot: Pilot[int], name: str) -> None:
        found = [(y, line.find(name)) for y, line in enumerate(screen_text(app).split("\n"))]
        y, x = next((y, x) for y, x in found if x >= 0)
        await pilot.click(offset=(x + 1, y))

    async with open_apps.standing(fake) as (app, pilot):
        await click_on(pilot, "F1 keys")
        await settled(pilot, lambda: isinstance(app.screen, Manual), "the keys")
        await pilot.press("escape")
        await settled(pilot, lambda: app.screen is app.bench)
        await at_question(pilot)
        await click_on(pilot, " o  step by step")
        assert await answered(fake, pilot) == ("run_steps", "")
