"""The demo's stories over real HTTP, with the real loops, gates and files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.demo_play import CODE, DEADLINE_S, Play, failing_tests, play
from support.prepared import UNTOUCHED

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.headless import TaskSpawn
from duckflow_tui.places import Places
from duckflow_tui.prompting.side_questions import CONTINUATION
from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.player import StoryPlayer
from duckflow_tui.scripted.stories import LANGUAGES, Language, list_requests, load_lines, load_story
from duckflow_tui.sessions import open_session
from duckflow_tui.state.gates import CardKind, GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.turn import TurnSummary

RED = "test_two_discounts_apply_one_after_the_other"
PAIRS = pytest.mark.parametrize(("language", "protocol"), [("en", "tools"), ("ja", "json")])


async def approve_all(on: Play) -> TurnSummary:
    """Approve gates until the turn has ended."""
    await on.approving(lambda state: state.turn is None)
    return await on.end()


async def run_plan(on: Play, request: str) -> TurnSummary:
    """Ask for the plan and approve all of it."""
    await on.say(request)
    await on.answer_card(CardKind.PLAN, "run_all")
    return await approve_all(on)


@PAIRS
async def test_the_bug_is_found_mended_and_proved_by_the_tests(
    tmp_path: Path, language: str, protocol: str
) -> None:
    """Covers S4-90, S4-92, S4-94."""
    async with play(tmp_path, language=language, protocol=protocol) as on:
        before = on.text()
        await on.say()
        gate = await on.gate()
        assert on.text() == before
        assert await failing_tests(on) == [RED]
        assert (gate.impact.added, gate.impact.removed, len(gate.alternatives)) == (3, 2, 1)
        end = await approve_all(on)
        assert (end.outcome, end.files_changed) == ("done", (CODE,))
        assert await failing_tests(on) == []
        assert "Ran 6 tests" in end.reply
        assert {m.protocol for m in on.state.messages if m.kind == "assistant"} == {protocol}


async def test_a_rejected_edit_is_followed_by_a_smaller_one(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        await on.say()
        first = await on.answer(GateChoice.REJECT, reason="keep it to one line")
        second = await on.gate()
        assert second.gate_id != first.gate_id
        end = await approve_all(on)
        assert end.outcome == "done"
        assert "prod(1 - share for share in discounts)" in on.text()
        assert await failing_tests(on) == []


async def test_behind_a_second_no_it_says_that_nothing_else_was_recorded(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        before = on.text()
        await on.say()
        await on.answer(GateChoice.REJECT)
        await on.answer(GateChoice.REJECT)
        end = await on.end()
        assert load_lines("en").rejected.says.strip() in end.reply
        assert (end.outcome, on.text()) != ("done", before + " ")
        assert on.text() == before


async def test_the_alternative_is_carried_out_and_not_called_done(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        await on.say()
        await on.answer(GateChoice.ALTERNATIVE, alternative=1)
        end = await approve_all(on)
        assert "min(sum(discounts), Decimal(1))" in on.text()
        assert end.outcome != "done"
        assert "still open" in end.reply


@PAIRS
async def test_the_plan_runs_to_its_end_and_mends_its_red_test(
    tmp_path: Path, language: str, protocol: str
) -> None:
    async with play(tmp_path, language=language, protocol=protocol) as on:
        end = await run_plan(on, on.stage.stories["plan"])
        assert end.outcome == "done"
        assert await failing_tests(on) == [RED]  # which is the other story's
        assert "Loyalty discount" in on.text("src/shop/receipt.py")
        assert "loyal_total" in on.text("README.md")
        codes = [o.result.exit_code for o in on.operations() if o.operation == "shell.run"]
        assert codes == [1, 0, 0, 0]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_while_the_plan_runs_a_question_is_answered_and_a_wish_changes_it(
    tmp_path: Path, language: Language
) -> None:
    story = load_story("plan", language)
    question, wish = story.asides
    async with play(tmp_path, language=language) as on:
        await on.say(story.request)
        await on.answer_card(CardKind.PLAN, "run_all")
        await on.gate()
        await on.ask_beside(question.said)
        await on.until(lambda _: question.answer.says in on.beside())
        await on.ask_beside("What is the weather?")
        await on.until(lambda _: load_lines(language).beside.says.strip() in on.beside())
        await on.ask_beside(wish.said)
        await on.answer_card(CardKind.PLAN_CHANGE, "accept")
        end = await approve_all(on)
        assert end.outcome == "done"
        assert "Loyalty discount" not in on.text("src/shop/receipt.py")
        assert "loyal_total" in on.text("README.md")


@PAIRS
async def test_what_was_forgotten_is_found_missing_and_brought(
    tmp_path: Path, language: str, protocol: str
) -> None:
    """Covers S1-1, S1-2."""
    async with play(tmp_path, language=language, protocol=protocol) as on:
        await on.say(on.stage.stories["savings"])
        end = await approve_all(on)
        assert end.outcome == "done"
        assert "`savings`" in on.text("README.md")
        objective = on.state.objective
        assert objective is not None
        assert len(objective.attempts) == 2


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_step_skipped_before_the_plan_is_approved_takes_its_requirement_along(
    tmp_path: Path, language: Language
) -> None:
    async with play(tmp_path, language=language) as on:
        await on.say(load_story("plan", language).request)
        await on.until(lambda state: bool(state.cards))
        receipt = on.state.plans[0].steps[2]
        assert on.engine.plan.skip_step(receipt.step_id) is None
        await on.answer_card(CardKind.PLAN, "run_all")
        end = await approve_all(on)
        assert end.outcome == "done"
        assert "Loyalty discount" not in on.text("src/shop/receipt.py")
        objective = on.state.objective
        assert objective is not None
        counted = [item.is_counted for item in objective.extracted_requirements]
        assert counted == [True, False, True]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_next_attempt_is_planned_by_an_honest_sentence(
    tmp_path: Path, language: Language
) -> None:
    headers = {"x-duckflow-purpose": CONTINUATION.purpose}
    asked = Request("POST", "/v1/chat/completions", headers, b"", {"messages": []})
    reply = StoryPlayer(tmp_path, "", language, fast=True).reply(asked)
    assert reply is not None
    plan = CONTINUATION.reply.model_validate(reply.data)
    assert plan.strategy == load_lines(language).failure


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_wish_said_while_the_draft_is_shown_takes_the_requirement_along(
    tmp_path: Path, language: Language
) -> None:
    """The draft is changed without a question of its own, so the words are still to be heard."""
    story = load_story("plan", language)
    async with play(tmp_path, language=language) as on:
        await on.say(story.request)
        shown = await on.card(CardKind.PLAN)
        await on.ask_beside(story.asides[1].said)
        await on.until(lambda state: bool(state.cards) and state.cards[0].subject != shown.subject)
        await on.answer_card(CardKind.PLAN, "run_all")
        end = await approve_all(on)
        assert end.outcome == "done", end.reply
        assert "Loyalty discount" not in on.text("src/shop/receipt.py")
        objective = on.state.objective
        assert objective is not None
        counted = [item.is_counted for item in objective.extracted_requirements]
        assert counted == [True, False, True]


@pytest.mark.parametrize(
    ("answer", "words", "rate"),
    [
        ("other_approach", "", "0.08"),
        ("keep_going", "", "0.08"),
        ("more_info", "our rate is 10 %", "0.1"),
        ("tell", "It is 7.5％.", "0.075"),
        ("tell", "0.19", "0.19"),
        ("tell", "look in 3 other files", "0.08"),
    ],
)
async def test_the_stuck_search_asks_the_user_and_another_way_leads_on(
    tmp_path: Path, answer: str, words: str, rate: str
) -> None:
    """A rate that the user names is the one that is put in. Covers S0-38, S0-39."""
    async with play(tmp_path) as on:
        await on.say(on.stage.stories["tax"])
        await on.answer_card(CardKind.CONSULTATION, answer, words)
        end = await approve_all(on)
        assert end.outcome == "done"
        assert f'TAX_RATE = Decimal("{rate}")' in on.text()
        assert f'`TAX_RATE = Decimal("{rate}")`' in end.reply


@pytest.mark.parametrize("names", [("bug", "plan", "savings", "tax"), ("tax", "savings", "bug")])
async def test_one_story_after_the_other_ends_well_in_any_order(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    async with play(tmp_path) as on:
        for name in names:
            await on.say(on.stage.stories[name])
            if name == "plan":
                await on.answer_card(CardKind.PLAN, "run_all")
            if name == "tax":
                await on.answer_card(CardKind.CONSULTATION, "other_approach")
            assert (await approve_all(on)).outcome == "done", name
        assert await failing_tests(on) == []


@pytest.mark.parametrize("language", LANGUAGES)
async def test_free_talk_gets_the_one_honest_sentence_and_changes_nothing(
    tmp_path: Path, language: Language
) -> None:
    async with play(tmp_path, language=language) as on:
        before = on.text()
        for said in ("Hello!", "write me a poem"):
            await on.say(said)
            assert (await on.end()).reply == load_lines(language).free.says.strip()
        assert on.text() == before
        assert on.operations() == []
        await on.say()  # and a story begins behind it
        await on.gate()


@pytest.mark.parametrize("name", list(list_requests("en")))
async def test_in_plan_mode_nothing_is_changed_and_it_says_so(tmp_path: Path, name: str) -> None:
    async with play(tmp_path, mode="plan") as on:
        before = on.text()
        await on.say(on.stage.stories[name])
        await on.until(lambda state: state.turn is None or bool(state.cards))
        assert on.text() == before
        assert not (on.stage.workspace / "tests/test_savings.py").exists()
        if not on.state.cards:
            assert (await on.end()).outcome != "done"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("name", "answer"),
    [("sum", "300"), ("time", "UTC"), ("weather", "Duckhaven"), ("products", "Rubber duck")],
)
async def test_a_question_is_answered_by_a_small_server_of_tools(
    tmp_path: Path, language: Language, name: str, answer: str
) -> None:
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    flags = Flags(workspace=tmp_path, demo=True, headless=True)
    spawn = TaskSpawn()
    async with open_session(choose_session(flags, places, language, UNTOUCHED), spawn) as engine:
        spawn(engine.chat_loop(), "chat")
        ended = asyncio.Event()
        engine.store.subscribe(
            lambda state, _: ended.set() if state.last_turn is not None else None
        )
        try:
            await engine.send(load_story(name, language).request)
            async with asyncio.timeout(DEADLINE_S):
                await ended.wait()
        finally:
            await spawn.end_tasks()
        end = engine.store.state.last_turn
        assert end is not None
        assert (end.outcome, answer in end.reply) == ("done", True), end.reply


async def test_a_step_that_was_refused_can_be_done_again(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        await on.say(on.stage.stories["plan"])
        await on.answer_card(CardKind.PLAN, "run_all")
        await on.answer(GateChoice.REJECT)
        await on.until(lambda state: bool(state.cards))
        assert on.state.cards[0].kind is CardKind.REPORT
        await on.answer_card(CardKind.REPORT, "retry")
        await on.gate()
        assert (await approve_all(on)).outcome == "done"


async def test_step_by_step_it_asks_behind_each_step_and_quotes_its_own_results(
    tmp_path: Path,
) -> None:
    async with play(tmp_path) as on:
        await on.say(on.stage.stories["plan"])
        await on.answer_card(CardKind.PLAN, "run_steps")
        for _ in range(3):
            await on.answer_card(CardKind.REPORT, "go_on")
        end = await approve_all(on)
        assert end.outcome == "done"
        assert "Ran 4 tests" in end.reply
        assert all(o.result.outcome is Outcome.OK for o in on.operations())


async def test_with_one_call_a_decision_each_story_ends_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(UNTOUCHED, "DUCKFLOW_EXECUTION__MODE", "adaptive")
    async with play(tmp_path) as on:
        await on.say()
        assert (await approve_all(on)).outcome == "done"
        end = await run_plan(on, on.stage.stories["plan"])
        assert end.outcome == "done"


async def test_as_lists_the_plan_is_carried_out_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(UNTOUCHED, "DUCKFLOW_EXECUTION__MODE", "tasklist")
    async with play(tmp_path) as on:
        end = await run_plan(on, on.stage.stories["plan"])
        assert end.outcome == "done"
