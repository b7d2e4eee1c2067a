"""What a question, the plan and the work say of themselves while the user turns to them."""

from __future__ import annotations

import pytest
from support.app_states import (
    FakeEngine,
    app_with,
    at_question,
    settled,
    standing,
    store_with,
    turn_started,
)
from support.conversations import START, assistant, user
from support.lists import take_action
from support.pinned import ManualClock
from support.plans import (
    FIND,
    FIX,
    TEST,
    draft,
    drafted,
    failed_report,
    plan_card,
    report_card,
    working,
)
from support.screens import screen_text
from textual.pilot import Pilot

from duckflow_tui.state.calls import OperationRequested, RunningOperation
from duckflow_tui.state.conversation import AssistantMessage, AssistantReplied, UserMessageAdded
from duckflow_tui.state.gates import Card
from duckflow_tui.state.plan import PlanEdit, WorkStatus, apply_edits
from duckflow_tui.state.plan_events import PlanRevised
from duckflow_tui.state.turn import TurnPaused
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.key_row import KeyRow
from duckflow_tui.ui.panes.live_blocks import SPINNER, STILL
from duckflow_tui.ui.panes.plan_rows import one_line
from duckflow_tui.ui.screens.list_page import ListPage
from duckflow_tui.words.catalogue import Catalogue

SIZES = pytest.mark.parametrize("size", [(80, 24), (60, 20)], ids=["M", "S"])
LANGUAGES = pytest.mark.parametrize("language", ["en", "ja"])


def chat(app: DuckflowApp) -> list[str]:
    transcript = app.bench.talk.transcript
    assert transcript is not None
    return [transcript.render_line(y).text.rstrip() for y in range(transcript.size.height)]


def says(app: DuckflowApp, text: str) -> bool:
    return any(text in line for line in chat(app))


async def in_plan(pilot: Pilot[int], app: DuckflowApp) -> None:
    await pilot.press("f3")
    await settled(pilot, lambda: app.bench.focused is app.bench.plan, "the plan")


# --- the chat beside an open question ------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("asks", ["a gate", "a card"])
async def test_what_is_said_while_a_question_is_open_is_seen(
    size: tuple[int, int], asks: str
) -> None:
    """Covers S4-60: a side question is not hidden behind what waits."""
    store = working(at_gate=True) if asks == "a gate" else drafted()
    app = app_with(FakeEngine(store))
    async with standing(app, *size) as pilot:
        await settled(pilot, lambda: app.bench.talk.open_question is not None, "the question")
        asked = user("how far is it?").model_copy(update={"aside": True, "message_id": "a1"})
        store.dispatch(UserMessageAdded(message=asked))
        answer = assistant("Step 2 of 3; waits for your key.", 2)
        answer = answer.model_copy(update={"aside": True, "answers": "a1", "message_id": "a2"})
        store.dispatch(AssistantReplied(message=answer))
        await settled(pilot, lambda: says(app, "Step 2 of 3; waits"), "the answer")
        assert len(chat(app)) >= 4
        await at_question(pilot)
        await settled(pilot, lambda: len(chat(app)) < 5 or size[1] > 20, "the room given back")


# --- the card ------------------------------------------------------------------------------------


async def test_where_room_is_short_a_card_has_all_of_the_width() -> None:
    app = app_with(FakeEngine(drafted()))
    async with standing(app, 80, 24) as pilot:
        await settled(pilot, lambda: app.bench.question.card is not None)
        assert app.bench.question.size.width >= 74
        await at_question(pilot)
        assert "…+" not in screen_text(app)


async def test_a_card_scrolls_as_one_text() -> None:
    """Every description is whole, and each page goes on where the last ended (R14)."""
    long = " ".join(f"word{n}" for n in range(60))
    plan = draft()
    steps = tuple(s.model_copy(update={"description": f"{s.name}: {long}"}) for s in plan.steps)
    plan = plan.model_copy(update={"steps": steps})
    store = drafted()
    store.state.plans, store.state.cards = (plan,), (plan_card(plan),)
    fake = FakeEngine(store)
    app = app_with(fake)
    async with standing(app, 80, 24) as pilot:
        await at_question(pilot)
        seen: list[str] = []
        for _ in range(12):
            await pilot.pause()
            rows = app.bench.question.query_one("#question-rows")
            seen += [rows.render_line(y).text for y in range(rows.size.height)]
            if not app.bench.question.count_unseen():
                break
            assert fake.card_answers == []
            await pilot.press("pagedown")
            await pilot.pause()
        assert not app.bench.question.count_unseen()
        assert all(f"word{n}" in " ".join(seen) for n in range(60))
        assert not any("…+" in line for line in seen)


@LANGUAGES
async def test_what_is_left_of_a_card_is_counted_among_its_keys(language: str) -> None:
    """And every key says what it does all the while."""
    app = app_with(FakeEngine(drafted(language)), language=language)
    async with standing(app, 60, 20) as pilot:
        await at_question(pilot)
        unseen = app.bench.question.count_unseen()
        assert unseen
        hints = app.bench.question.query_one(KeyRow).hints
        shows = app.words("gate.key.next", count=unseen)
        assert (hints[-1].letter, hints[-1].text) == ("↓", shows)
        assert app.words("card.plan.run_steps") in [hint.text for hint in hints]
        assert f" ↓  {shows}" in screen_text(app)


async def test_to_skip_says_which_steps_need_the_step() -> None:
    store = working(cards=(report_card(failed_report()),))
    app = app_with(FakeEngine(store))
    async with standing(app, 120, 40) as pilot:
        await settled(pilot, lambda: app.bench.question.card is not None)
        assert "skip it (needed by 3)" in screen_text(app)


# --- the plan ------------------------------------------------------------------------------------


async def test_s_in_the_plan_warns_of_steps_that_need_it_and_a_second_s_skips() -> None:
    store = drafted()
    fake = FakeEngine(store)
    app = app_with(fake)
    async with standing(app, 120, 40) as pilot:
        await in_plan(pilot, app)
        await pilot.press("s")
        await settled(pilot, lambda: "Needed by 2" in screen_text(app), "the warning")
        assert fake.plan.asked == []
        await pilot.press("down", "up", "s")
        assert fake.plan.asked == []
        await pilot.press("s")
        assert fake.plan.asked == [("skip", FIND)]
        await pilot.press("end", "s")
        assert fake.plan.asked[-1] == ("skip", TEST)


async def test_after_a_step_is_dropped_the_cursor_is_at_what_took_its_place() -> None:
    store = drafted()
    app = app_with(FakeEngine(store))
    async with standing(app, 120, 40) as pilot:
        await in_plan(pilot, app)
        await pilot.press("down")
        plan = store.state.active_plan
        assert plan is not None
        assert app.bench.plan.cursor_step is plan.steps[1]
        free = PlanEdit(op="change", step_id=TEST, depends_on=())
        less = apply_edits(plan, (free, PlanEdit(op="drop", step_id=FIX)))
        store.dispatch(PlanRevised(plan=less, by="user"))
        await settled(pilot, lambda: app.bench.plan.cursor_step is not plan.steps[1])
        assert app.bench.plan.cursor_step is not None
        assert app.bench.plan.cursor_step.step_id == TEST


@LANGUAGES
async def test_beside_a_gate_the_plan_stays_and_names_its_keys_with_the_focus(
    language: str,
) -> None:
    app = app_with(FakeEngine(working(language, at_gate=True)), language=language)
    async with standing(app, 120, 40) as pilot:
        assert app.bench.plan.size.height > 4
        await in_plan(pilot, app)
        await pilot.pause()
        assert app.bench.question.diff.view.size.height >= 4
        shown = "".join(screen_text(app).split())
        for part in app.words("plan.keys").split(" · "):
            assert "".join(part.split()) in shown
        app.bench.plan.problem = " ".join(["a long reason why it cannot be"] * 5)
        await pilot.pause()
        assert screen_text(app).count("a long reason") >= 3


def test_a_stopped_plan_is_at_the_step_that_was_stopped() -> None:
    plan = working().state.active_plan
    assert plan is not None
    halted = plan.with_step(
        plan.steps[1].model_copy(update={"status": WorkStatus.CANCELLED, "task_list": ()})
    )
    assert " 2 of 3 " in one_line(halted, Catalogue("en"))


# --- what runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "cards"),
    [
        ("plan_tool.propose", (plan_card(draft()),)),
        ("task_loop.run", (report_card(failed_report()),)),
    ],
)
async def test_a_call_that_waits_for_the_user_does_not_spin(
    operation: str, cards: tuple[Card, ...]
) -> None:
    store = store_with(turn_started())
    store.state.messages.append(user("do it"))
    app = app_with(FakeEngine(store))
    async with standing(app, 120, 40) as pilot:
        clock = store.clock
        assert isinstance(clock, ManualClock)
        store.state.running = (
            RunningOperation(
                call_id="c", operation=operation, args={}, started=True, at=clock.now() - 210
            ),
        )
        store.state.cards = cards
        store.dispatch(TurnPaused(at=store.clock.now()))
        await settled(pilot, lambda: says(app, app.words("transcript.needs_you")), "the mark")
        assert not any(sign in line for line in chat(app) for sign in (*SPINNER, STILL))
        assert "no output" not in screen_text(app)


@LANGUAGES
async def test_what_enter_does_is_said_once_while_paused_before_a_question(language: str) -> None:
    store = working(language, at_gate=True)
    app = app_with(FakeEngine(store), language=language)
    async with standing(app, 120, 40) as pilot:
        store.dispatch(TurnPaused(at=store.clock.now()))
        leads = {"en": "Enter opens", "ja": "Enter で質問へ"}[language]
        await settled(pilot, lambda: says(app, leads), "the words")
        assert not says(app, "Enter goes on")


async def test_a_pause_does_not_call_halted_what_runs_to_its_end() -> None:
    store = working()
    app = app_with(FakeEngine(store))
    async with standing(app, 120, 40) as pilot:
        store.dispatch(TurnPaused(at=store.clock.now()))
        await settled(pilot, lambda: says(app, "what is running finishes"), "the words")
        assert not says(app, "is on hold")


async def test_an_own_command_is_listed_and_can_be_ended_alone() -> None:
    store = store_with()
    fake = FakeEngine(store)
    app = app_with(fake)
    async with standing(app, 120, 40) as pilot:
        store.dispatch(
            OperationRequested(
                call_id="call_9",
                operation="shell.run",
                args={"command": "sleep 60"},
                by_user=True,
                at=START,
            )
        )
        app.bench.composer.replace_text("/ps")
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(app.screen, ListPage), "the board")
        assert "sleep 60" in screen_text(app)
        await take_action(app, pilot, "end it and all it started")
        await settled(pilot, lambda: fake.asked[-1:] == ["end call_9"], "the end of it")


async def test_an_answer_that_stands_apart_from_its_question_names_it() -> None:
    store = store_with(turn_started())
    app = app_with(FakeEngine(store))
    async with standing(app, 120, 40) as pilot:
        for name, text in (("q1", "how far is it?"), ("q2", "which file is next?")):
            said = user(text).model_copy(update={"aside": True, "message_id": name})
            store.dispatch(UserMessageAdded(message=said))
        for name, text in (("q1", "Half of it."), ("q2", "pricing.py")):
            store.dispatch(AssistantReplied(message=answering(name, text)))
        await settled(pilot, lambda: says(app, "pricing.py"), "the answers")
        lines = [line.strip() for line in chat(app)]
        assert sum("how far is it?" in line for line in lines) == 2
        assert any(line.startswith("↳") and "which file is next?" in line for line in lines)


async def test_an_answer_right_below_its_question_does_not_name_it() -> None:
    store = store_with(turn_started())
    app = app_with(FakeEngine(store))
    async with standing(app, 120, 40) as pilot:
        said = user("how far is it?").model_copy(update={"aside": True, "message_id": "q1"})
        store.dispatch(UserMessageAdded(message=said))
        store.dispatch(AssistantReplied(message=answering("q1", "I look.")))
        store.dispatch(AssistantReplied(message=answering("q1", "Half of it.")))
        await settled(pilot, lambda: says(app, "Half of it."), "the answer")
        assert sum("how far is it?" in line for line in chat(app)) == 1


def answering(name: str, text: str) -> AssistantMessage:
    made = assistant(text, 3)
    update = {"aside": True, "answers": name, "message_id": f"to-{name}-{len(text)}"}
    return made.model_copy(update=update)


@SIZES
async def test_the_header_speaks_the_language(size: tuple[int, int]) -> None:
    app = app_with(FakeEngine(working("ja")), language="ja")
    async with standing(app, *size):
        assert "SANDBOX" not in screen_text(app)
        assert "サンドボックスなし" in screen_text(app)
