"""The demo's larger wish: a plan, its steps for real, and what is said while it runs."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.demo_play import CODE, Play, failing_tests, play
from support.prepared import UNTOUCHED

from duckflow_tui.compose import Flags, choose, open_session
from duckflow_tui.headless import HeadlessOptions, run
from duckflow_tui.places import Places
from duckflow_tui.scripted.story import plan_request, request_text, savings_request
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.gates import CardKind, GateChoice
from duckflow_tui.state.plan import (
    Plan,
    PlanEdit,
    PlanStatus,
    ReportMessage,
    WorkStatus,
    compare_plans,
)
from duckflow_tui.words.catalogue import Catalogue

RED = "test_two_discounts_apply_one_after_the_other"
HALF = "test_half_a_cent_of_theirs_rounds_up_too"
IN_CENTS = "return to_cents(total(price, [*discounts, LOYALTY]))"
LANGUAGES = pytest.mark.parametrize("language", ["en", "ja"])
PAIRS = pytest.mark.parametrize(("language", "protocol"), [("en", "tools"), ("ja", "json")])


def over(state: AgentState) -> bool:
    return state.turn is None


def plan_of(on: Play) -> Plan:
    plan = on.state.active_plan
    assert plan is not None
    return plan


def statuses(on: Play) -> list[WorkStatus]:
    return [step.status for step in plan_of(on).steps]


def reports(on: Play) -> list[str]:
    return [m.report.status for m in on.state.messages if isinstance(m, ReportMessage)]


def waived(on: Play) -> list[str]:
    """Ids of the requirements that the user dropped."""
    assert on.state.objective is not None
    return [r.requirement_id for r in on.state.objective.extracted_requirements if not r.is_counted]


async def wait_for_plan(on: Play, language: str = "en") -> None:
    await on.say(plan_request(language))
    await on.card(CardKind.PLAN)


async def begin(on: Play, language: str = "en", action: str = "run_all") -> None:
    await wait_for_plan(on, language)
    await on.answer_card(CardKind.PLAN, action)


async def running(on: Play, number: int) -> None:
    """Go on, approving, until the first gate of this step is open."""

    def in_step(state: AgentState) -> bool:
        wanted = plan_of(on).steps[number - 1].step_id
        return any(gate.step_id == wanted for gate in state.gates)

    await on.approving(in_step)


@PAIRS
async def test_the_plan_runs_and_its_red_test_is_mended(
    tmp_path: Path, protocol: str, language: str
) -> None:
    async with play(tmp_path, protocol=protocol, language=language) as on:
        await wait_for_plan(on, language)
        needs = {s.step_id: number for number, s in enumerate(plan_of(on).steps, start=1)}
        assert [[needs[n] for n in s.depends_on] for s in plan_of(on).steps] == [[], [1], [2], [2]]
        assert await failing_tests(on) == [RED]
        await on.answer_card(CardKind.PLAN, "run_all")
        await on.approving(over)
        end = await on.end()
        assert end.outcome == "done"
        assert plan_of(on).status is PlanStatus.COMPLETED
        assert reports(on) == ["completed"] * 4
        assert await failing_tests(on) == []
        assert IN_CENTS in on.text()
        assert "Loyalty discount" in on.text("src/shop/receipt.py")
        assert "`loyal_total`" in on.text("README.md")
        calculation = plan_of(on).steps[1].step_id
        runs = [o for o in on.operations() if o.operation == "shell.run"]
        of_step = [o.result.exit_code for o in runs if o.step_id == calculation]
        assert of_step == [1, 0]
        mended = next(r for r in on.replies() if "9.02" in r and "Decimal('9.03')" in r)
        assert f"FAIL: {HALF}" in mended
        last = runs[-1].result.text
        assert next(line for line in last.splitlines() if line.startswith("Ran 9 ")) in end.reply
        assert "{" not in end.reply


async def test_after_the_fix_only_the_rounding_is_mended(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        await on.say()
        await on.answer(GateChoice.ONCE)
        await on.end()
        await begin(on)
        await on.approving(over)
        assert (await on.end()).outcome == "done"
        assert await failing_tests(on) == []
        assert on.text().count("price *= 1 - rate") == 1
        assert not any("Two causes" in reply for reply in on.replies())


async def test_where_the_sum_was_capped_the_end_says_what_stays_red(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        await on.say("keep the sum and cap it")
        await on.answer(GateChoice.ONCE)
        await on.end()
        await begin(on)
        await on.approving(over)
        end = await on.end()
        assert await failing_tests(on) == [RED]
        assert "**not right**" in end.reply
        assert f"FAIL: {RED}" in end.reply
        assert "min(sum(discounts), Decimal(1))" in on.text()


@LANGUAGES
async def test_step_by_step_asks_after_each_with_what_came_of_it(
    tmp_path: Path, language: str
) -> None:
    async with play(tmp_path, language=language) as on:
        await begin(on, language, "run_steps")
        for number in (1, 2, 3):
            card = await on.card(CardKind.REPORT)
            assert card.report is not None
            assert (card.report.status, card.report.cause) == ("completed", "")
            assert plan_of(on).steps[number].name in card.report.next_action
            assert plan_of(on).steps[number - 1].mode == "tasklist"
            # What is suggested is the next step: to go on with it is offered once.
            assert "suggested" not in [option.action for option in card.options]
            await on.answer_card(CardKind.REPORT, "go_on")
        await on.approving(over)
        assert (await on.end()).outcome == "done"
        assert reports(on) == ["completed"] * 4
        assert await failing_tests(on) == []


async def test_stopping_between_steps_leaves_the_rest_undone_and_says_so(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        await begin(on, action="run_steps")
        await on.answer_card(CardKind.REPORT, "stop")
        await on.approving(over)
        end = await on.end()
        assert end.outcome == "partial"
        assert statuses(on) == [WorkStatus.COMPLETED, *[WorkStatus.PENDING] * 3]
        assert "1 of 4 steps are done" in end.reply


@LANGUAGES
async def test_a_rejected_plan_is_followed_by_a_smaller_one(tmp_path: Path, language: str) -> None:
    async with play(tmp_path, language=language) as on:
        await wait_for_plan(on, language)
        reason = "only the code, please\nno README"
        await on.answer_card(CardKind.PLAN, "reject", reason)
        await on.card(CardKind.PLAN)
        assert "> only the code, please" in on.replies()[-1]
        assert len(plan_of(on).steps) == 2
        await on.answer_card(CardKind.PLAN, "run_all")
        await on.approving(over)
        assert (await on.end()).outcome == "done"
        assert waived(on) == ["r2", "r3"]  # the receipt, the README: dropped by the user's words
        assert "loyal" not in on.text("README.md")
        assert await failing_tests(on) == []


async def test_a_second_no_leads_to_a_question_and_its_answer_to_that_plan(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        before = on.text()
        await wait_for_plan(on)
        await on.answer_card(CardKind.PLAN, "reject", "too much")
        await on.card(CardKind.PLAN)
        await on.answer_card(CardKind.PLAN, "reject", "still too much")
        question = await on.card(CardKind.QUESTION)
        assert on.text() == before
        await on.answer_card(CardKind.QUESTION, question.options[0].action)
        await on.card(CardKind.PLAN)
        assert len(plan_of(on).steps) == 2


async def test_a_step_that_the_script_does_not_know_is_not_claimed_as_done(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        await wait_for_plan(on)
        step = plan_of(on).steps[3]
        await on.engine.plan.edit(
            (PlanEdit(op="change", step_id=step.step_id, name="Paint the shop"),)
        )
        await on.answer_card(CardKind.PLAN, "run_all")
        await on.answer_card(CardKind.REPORT, "skip")
        await on.approving(over)
        assert statuses(on)[3] is WorkStatus.SKIPPED
        assert (await on.end()).outcome == "done"


# --- beside the work -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "protocol", "accepted"),
    [("en", "tools", True), ("ja", "json", True), ("en", "json", False)],
)
async def test_a_question_beside_the_work_is_answered_and_a_step_to_be_skipped_changes_the_plan(
    tmp_path: Path, language: str, protocol: str, accepted: bool
) -> None:
    """The answer says where the work stands."""
    question = {"en": "How far are you?", "ja": "どこまで進みましたか?"}[language]
    wish = {"en": "Skip the receipt, please", "ja": "レシートは飛ばしてください"}[language]
    async with play(tmp_path, language=language, protocol=protocol) as on:
        await begin(on, language)
        await running(on, 2)
        await on.ask_beside(question)
        await on.until(lambda _: bool(on.beside()))
        (said,) = on.beside()
        assert f"**{plan_of(on).steps[1].name}**" in said
        assert ("1 of 4" if language == "en" else "4 ステップ中 1 ステップが") in said
        assert ("key of yours" if language == "en" else "キー操作を待って") in said
        receipt = plan_of(on).steps[2]
        await on.ask_beside(wish)
        card = await on.card(CardKind.PLAN_CHANGE)
        assert card.change is not None
        lines = compare_plans(plan_of(on), card.change.result)
        assert [line.kind for line in lines] == ["same", "same", "drop", "same"]
        assert receipt.name in on.beside()[-1]
        assert len(on.beside()) == 2
        await on.answer_card(
            CardKind.PLAN_CHANGE, "accept" if accepted else "reject", "" if accepted else "keep it"
        )
        await on.approving(over)
        assert (await on.end()).outcome == "done"
        assert waived(on) == (["r2"] if accepted else [])  # with the step that the user took out
        assert (plan_of(on).get_step(receipt.step_id) is None) is accepted
        assert ("loyal" in on.text("src/shop/receipt.py")) is not accepted
        assert await failing_tests(on) == []


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        ("tools", ("How far is the discount?", "fix the total", "is this a real model?")),
        (
            "json",
            (
                "How far are you?",
                "Skip the discount line on the receipt, please",
                "How far are you?",
            ),
        ),
    ],
)
async def test_what_is_said_beside_the_plan_does_not_begin_a_story_anew(
    tmp_path: Path, protocol: str, said: tuple[str, ...]
) -> None:
    """After it the tests are run once, and the end tells of the plan."""
    async with play(tmp_path, protocol=protocol) as on:
        await begin(on)
        await running(on, 2)
        for number, text in enumerate(said, start=1):
            await on.ask_beside(text)
            await on.until(lambda _, number=number: len(on.beside()) == number)
        if "receipt" in "".join(said):
            await on.answer_card(CardKind.PLAN_CHANGE, "accept")
        await on.approving(over)
        end = await on.end()
        assert end.outcome == "done"
        assert f"Done: {len(statuses(on))} of {len(statuses(on))} steps" in end.reply
        calls = [o.operation for o in on.operations() if not o.step_id]
        of_turn = [name for name in calls if name != "plan_tool.revise"]
        reads = ["file_ops.read_file"] * 3
        assert of_turn == [*reads, "plan_tool.propose", "shell.run"]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("drop it", "done"),
        ("no discount line, leave it out of the receipt", "done"),
        ("yes, do it", "partial"),
    ],
)
async def test_what_a_skipped_step_leaves_open_is_asked_about_and_the_answer_is_taken(
    tmp_path: Path, answer: str, outcome: str
) -> None:
    """Neither begins another story."""
    async with play(tmp_path) as on:
        await begin(on)
        await running(on, 3)
        await on.answer(GateChoice.REJECT)
        await on.answer_card(CardKind.REPORT, "skip")
        await on.approving(over)
        end = await on.end()
        assert end.outcome == "partial"
        assert end.question is not None
        assert "The receipt shows their discount" in end.reply
        calls = len(on.operations())
        await on.say(answer)
        end = await on.end()
        assert (end.outcome, len(on.operations())) == (outcome, calls)
        assert waived(on) == (["r2"] if outcome == "done" else [])
        assert end.reply.startswith("Understood, that" if outcome == "done" else "I stop here")


@LANGUAGES
async def test_a_refused_edit_fails_its_step_a_retry_does_it_and_a_step_more_is_done_too(
    tmp_path: Path, language: str
) -> None:
    wish = {"en": "also add a changelog entry", "ja": "変更履歴にも書いてください"}[language]
    async with play(tmp_path, language=language) as on:
        await begin(on, language)
        await on.answer(GateChoice.REJECT, reason="not yet")
        card = await on.answer_card(CardKind.REPORT, "retry")
        assert card.report is not None
        assert card.report.status != "completed"
        assert {"en": "refused", "ja": "断られた"}[language] in card.report.cause
        await running(on, 1)
        await on.ask_beside(wish)
        card = await on.card(CardKind.PLAN_CHANGE)
        assert card.change is not None
        assert card.change.result.steps[4].depends_on == (plan_of(on).steps[1].step_id,)
        await on.answer_card(CardKind.PLAN_CHANGE, "accept")
        await on.approving(over)
        assert (await on.end()).outcome == "done"
        assert "loyal_total" in on.text("CHANGELOG.md")
        assert await failing_tests(on) == []


async def test_whatever_is_said_beside_the_work_the_work_goes_on(tmp_path: Path) -> None:
    """A step that has begun is not dropped any more."""
    async with play(tmp_path) as on:
        await begin(on)
        await running(on, 2)
        for said, answer in (
            ("also mention it in the README", "in the plan already: **A word in the README**"),
            ("write a poem about ducks", "I am a script"),
            ("is this a real model?", "I am a script"),
            ("please add a changelog entry and write a poem", "I propose to add"),
        ):
            before = len(on.beside())
            await on.ask_beside(said)
            await on.until(lambda _, before=before: len(on.beside()) > before)
            assert any(answer in text for text in on.beside()[before:]), said
        await on.answer_card(CardKind.PLAN_CHANGE, "reject", "no need")
        await running(on, 3)
        before = len(on.beside())
        await on.ask_beside("skip the receipt")
        await on.until(lambda _: len(on.beside()) > before)
        assert "Too late" in on.beside()[-1]
        assert not on.state.cards
        await on.approving(over)
        assert (await on.end()).outcome == "done"
        assert await failing_tests(on) == []


async def test_what_is_asked_before_the_next_decision_does_not_take_the_turn_over(
    tmp_path: Path,
) -> None:
    """Questions in the middle of a turn without a plan; its next decisions follow the request."""
    async with play(tmp_path) as on:
        await on.say()
        await on.gate()
        for said, answer in (
            ("How far are you?", "It waits for a key of yours"),
            ("skip the receipt", "No plan runs"),
        ):
            asked = len(on.beside())
            await on.ask_beside(said)
            await on.until(lambda _, asked=asked: len(on.beside()) > asked)
            assert answer in on.beside()[-1]
        await on.answer(GateChoice.ONCE)
        end = await on.end()
        assert end.files_changed == (CODE,)
        assert await failing_tests(on) == []


@LANGUAGES
async def test_asked_while_its_plan_waits_it_says_so_and_stop_leaves_what_was_done(
    tmp_path: Path, language: str
) -> None:
    how_far = {"en": "How far are you?", "ja": "どこまで進んだ?"}[language]
    answer = {"en": "waits for your yes", "ja": "承認を待っています"}[language]
    so_far = {"en": "Nothing of it is done yet", "ja": "まだどのステップも始めていません"}[language]
    async with play(tmp_path, language=language) as on:
        await wait_for_plan(on, language)
        await on.ask_beside(how_far)
        await on.until(lambda _: bool(on.beside()))
        assert answer in on.beside()[-1]
        assert so_far in on.beside()[-1]
        assert str(len(plan_of(on).steps)) in on.beside()[-1]
        await on.answer_card(CardKind.PLAN, "run_all")
        await running(on, 2)
        await on.ask_beside({"en": "stop", "ja": "止めて"}[language])
        await on.until(over)
        end = await on.end()
        assert end.outcome == "partial"
        assert statuses(on)[:2] == [WorkStatus.COMPLETED, WorkStatus.CANCELLED]
        assert ("Stopped." if language == "en" else "止めました。") in end.reply
        assert "loyal_total" not in on.text()


# --- without a screen ----------------------------------------------------------------------------


@pytest.mark.parametrize(("language", "mode"), [("en", "adaptive"), ("ja", "tasklist")])
async def test_without_a_screen_in_trusted_mode_the_plan_is_carried_out(
    tmp_path: Path, language: str, mode: str
) -> None:
    """What a step gives back, because it takes one action a decision, it asks for next."""
    status, records = await without_a_screen(tmp_path, plan_request(language), "trusted", mode)
    assert status == 0
    if mode == "adaptive":
        assert given_back(records) > 0
    end = records[-1]
    assert (end["kind"], end["outcome"]) == ("turn_finished", "done")
    assert set(end["files_changed"]) == {
        "tests/test_loyalty.py",
        CODE,
        "src/shop/receipt.py",
        "tests/test_receipt.py",
        "README.md",
    }
    assert "\nOK\n" in end["reply"]


@pytest.mark.parametrize(
    ("language", "wish"),
    [
        ("en", request_text),
        ("ja", savings_request),
    ],
)
async def test_with_one_action_a_decision_what_is_given_back_is_asked_for_next(
    tmp_path: Path, language: str, wish: Callable[[str], str]
) -> None:
    status, records = await without_a_screen(tmp_path, wish(language), "trusted", "adaptive")
    assert (status, records[-1]["outcome"]) == (0, "done")
    assert given_back(records) > 0


def given_back(records: list[dict[str, Any]]) -> int:
    """How many calls were given back; each was asked for next."""
    waiting: list[tuple[str, dict[str, Any]]] = []
    times = 0
    for record in records:
        message = record["message"] if record["kind"] == "operation_finished" else None
        if message is None or message["operation"] == "task_loop.run":
            continue
        call = message["operation"], message["args"]
        if message["result"]["outcome"] == "skipped":
            waiting.append(call)
            times += 1
        elif waiting:
            assert waiting.pop(0) == call
    assert waiting == []
    return times


@pytest.mark.parametrize("text", ["", plan_request("en")])
async def test_without_a_screen_in_plan_mode_nothing_is_changed(tmp_path: Path, text: str) -> None:
    status, records = await without_a_screen(tmp_path, text, "plan")
    assert status == 3
    assert records[-1]["files_changed"] == []
    assert "**nothing was changed**" in records[-1]["reply"]


async def without_a_screen(
    tmp_path: Path, text: str, mode: str, execution: str = "auto"
) -> tuple[int, list[dict[str, Any]]]:
    """The exit status and the records of ``--demo -p text --json``."""
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path)})
    flags = Flags(workspace=tmp_path, demo=True, mode=mode, headless=True)
    choice = choose(flags, places, "en", {**UNTOUCHED, "DUCKFLOW_EXECUTION__MODE": execution})
    out = io.StringIO()
    status = await run(
        lambda spawn: open_session(choice, spawn),
        HeadlessOptions(text=text, as_json=True),
        Catalogue("en"),
        out,
    )
    return status, [json.loads(line) for line in out.getvalue().splitlines()]


@LANGUAGES
async def test_a_wish_for_something_else_is_answered_honestly_and_the_plan_waits(
    tmp_path: Path, language: str
) -> None:
    async with play(tmp_path, language=language) as on:
        await begin(on, language, "run_steps")
        await on.answer_card(CardKind.REPORT, "tell", "write the README first")
        end = await on.end()
        assert end.outcome == "partial"
        assert "> write the README first" in end.reply
        assert "Enter" in end.reply
        assert statuses(on) == [WorkStatus.COMPLETED, *[WorkStatus.PENDING] * 3]
        said = {"en": "1 of 4 steps are done", "ja": "4 ステップ中 1 ステップ"}[language]
        assert said in end.reply


async def test_a_refused_edit_of_a_list_is_not_followed_by_the_same_red_tests(
    tmp_path: Path,
) -> None:
    async with play(tmp_path) as on:
        await begin(on, action="run_steps")
        await on.answer_card(CardKind.REPORT, "go_on")
        await on.answer(GateChoice.REJECT)
        await on.until(lambda s: any(card.kind is CardKind.REPORT for card in s.cards))
        calculation = plan_of(on).steps[1].step_id
        of_step = [o for o in on.operations() if o.step_id == calculation]
        assert [o.operation for o in of_step if o.operation == "shell.run"] == []
        assert reports(on) == ["completed", "failed"]
        await on.answer_card(CardKind.REPORT, "stop")
        await on.end()
