"""Several steps of a plan by one reply: each ends where the model says that it is completed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.plan_talk import PROPOSE, answer, begin_plan, plan_reply, report_reply, statuses
from support.session import Session, action, decision, done, script, session

from duckflow_tui.llm.endpoints import Protocol
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.decision import NextStep
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan import PlanEdit, ReportMessage, WorkStatus

DONE = WorkStatus.COMPLETED


def write(path: str) -> dict[str, Any]:
    return action("file_ops.write_file", path=path, content=f"{path}\n")


def ends(step: int, note: str = "", status: str = "completed") -> dict[str, Any]:
    return action("plan_tool.update_step", step_id=str(step), status=status, note=note)


def plan_of_three(*task: Reply, last: str = "continue") -> Script:
    propose = decision(
        "I plan first.",
        action("plan_tool.propose", goal="three notes"),
        step="PLANNING",
        next_step=last,
    )
    return script(
        propose if last != "continue" else PROPOSE,
        done("All three are there."),
        plan=plan_reply("first", "second", "third"),
        task=task,
        report=(report_reply(),) * 3,
    )


def reports(running: Session) -> list[tuple[str, str, tuple[str, ...]]]:
    messages = (m for m in running.state.messages if isinstance(m, ReportMessage))
    return [(m.report.step_name, m.report.summary, m.report.files_changed) for m in messages]


@pytest.mark.parametrize("status", ["completed", "done", "Complete"])
async def test_each_step_ends_with_its_own_calls_and_the_turn_with_the_last(
    tmp_path: Path, status: str
) -> None:
    """One request for three steps, and none behind them: the proposal was to end the turn."""
    first, second = ends(1, "a is there", status), ends(2, "", status)
    calls = (write("a"), first, write("b"), second, write("c"))
    replies = plan_of_three(decision("All of it.", *calls, next_step="done"), last="done")
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, asks="three notes please")
        end = await running.ended()
        assert statuses(running.state) == [DONE] * 3
        assert reports(running) == [
            ("first", "a is there", ("a",)),
            ("second", "", ("b",)),
            ("third", "All of it.", ("c",)),
        ]
        assert (len(running.server.of("task")), len(running.server.of("main"))) == (1, 1)
        assert end.outcome == "done"
        tasks = [
            [task.operation for task in step.task_list] for step in running.state.plans[0].steps
        ]
        assert tasks == [["file_ops.write_file"]] * 3


def proposal(*calls: dict[str, Any], ends_turn: bool = True) -> Reply:
    """The plan of three steps in the model's own words, with these calls behind it."""
    steps = [{"name": name} for name in ("first", "second", "third")]
    propose = action("plan_tool.propose", goal="three notes", steps=steps)
    last = "done" if ends_turn else "continue"
    return decision("Three notes in three steps.", propose, *calls, next_step=last)


def three_notes() -> tuple[dict[str, Any], ...]:
    return write("a"), ends(1, "a is there"), write("b"), ends(2), write("c")


@pytest.mark.parametrize(
    ("protocol", "headless"),
    [("tools", False), ("json", False), ("responses", False), ("json", True)],
)
async def test_calls_behind_the_proposal_run_with_the_users_yes_and_cost_no_call(
    protocol: Protocol, headless: bool, tmp_path: Path
) -> None:
    """Each belongs to its step; the turn ends with the last of them. Without a screen the mode says
    yes.
    """
    replies = script(proposal(*three_notes()), done("Not asked."))
    opened = session(tmp_path, replies, mode="trusted", protocol=protocol, headless=headless)
    async with opened as running:
        await running.engine.send("three notes please")
        if not headless:
            await running.until(lambda state: bool(state.cards))
            assert running.results() == []
            await answer(running, "run_all")
        assert (await running.ended()).outcome == "done"
        assert [(name, files) for name, _, files in reports(running)] == [
            ("first", ("a",)),
            ("second", ("b",)),
            ("third", ("c",)),
        ]
        assert (len(running.server.of("task")), len(running.server.of("main"))) == (0, 1)


async def test_the_steps_of_a_proposal_are_read_in_the_forms_of_any_plan(tmp_path: Path) -> None:
    """As those of the role that plans are; each is the model's own words."""
    steps = [
        "first",
        {"title": "second", "details": "do it"},
        {"step": "third", "needs": [2], "files": ["c"]},
    ]
    propose = action("plan_tool.propose", goal="three notes", steps=steps)
    replies = script(decision("A plan.", propose), done("I wait."))
    async with session(tmp_path, replies, mode="trusted") as running:
        await running.engine.send("three notes please")
        await running.until(lambda state: bool(state.cards))
        first, second, third = running.state.plans[0].steps
        assert [(s.name, s.description) for s in (first, second, third)] == [
            ("first", ""),
            ("second", "do it"),
            ("third", ""),
        ]
        assert third.depends_on == (second.step_id,)


async def test_calls_of_the_first_step_alone_leave_the_next_to_the_model(tmp_path: Path) -> None:
    second = decision("", write("b"), ends(2), write("c"), next_step="done")
    replies = script(proposal(write("a"), ends(1)), task=second)
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, asks="three notes please")
        assert (await running.ended()).outcome == "done"
        assert [files for _, _, files in reports(running)] == [("a",), ("b",), ("c",)]
        assert (len(running.server.of("task")), len(running.server.of("main"))) == (1, 1)


@pytest.mark.parametrize("way", ["with words", "changed", "step by step"])
async def test_calls_behind_the_proposal_do_not_run_unless_it_was_approved_as_it_was(
    way: str, tmp_path: Path
) -> None:
    """Nothing is written before the model has read what the user wants otherwise."""
    replies = script(proposal(*three_notes()), done("I wait."))
    async with session(tmp_path, replies, mode="trusted") as running:
        await running.engine.send("three notes please")
        await running.until(lambda state: bool(state.cards))
        if way == "changed":
            last = running.state.plans[0].steps[2].step_id
            dropped = (PlanEdit(op="drop", step_id=last),)
            assert await running.engine.plan.edit_steps(dropped) is None
        said = "not into c" if way == "with words" else ""
        await answer(running, "run_steps" if way == "step by step" else "run_all", text=said)
        await running.until(lambda _: len(running.results()) == 6)
        outcomes = [m.result.outcome for m in running.results() if m.operation.startswith("file")]
        assert outcomes == [Outcome.SKIPPED] * 3
        assert not any((running.workspace / name).exists() for name in "abc")


async def test_a_call_that_fails_keeps_its_step_open_and_the_next_from_beginning(
    tmp_path: Path,
) -> None:
    missing = action("file_ops.read_file", path="nowhere.txt")
    first = decision("", write("a"), missing, ends(1), write("b"), next_step="done")
    again = decision(
        "Now.", write("a2"), ends(1), write("b"), ends(2), write("c"), next_step="done"
    )
    async with session(tmp_path, plan_of_three(first, again), mode="trusted") as running:
        await begin_plan(running, asks="three notes please")
        await running.ended()
        skipped = [m for m in running.results() if m.result.outcome is Outcome.SKIPPED]
        assert [m.operation for m in skipped] == ["plan_tool.update_step", "file_ops.write_file"]
        assert statuses(running.state) == [DONE] * 3
        assert [files for _, _, files in reports(running)] == [("a", "a2"), ("b",), ("c",)]


async def test_a_refusal_in_the_first_step_runs_nothing_of_the_second(tmp_path: Path) -> None:
    first = decision("", write("a"), ends(1), write("b"), next_step="done")
    gives_up = decision(
        "It was refused.", next_step=NextStep.PENDING_USER, question={"text": "What instead?"}
    )
    async with session(tmp_path, plan_of_three(first, gives_up)) as running:
        await begin_plan(running, asks="three notes please")
        await running.answer(GateChoice.REJECT, reason="not this one")
        await answer(running, "stop")
        await running.ended()
        assert not (tmp_path / "b").exists()
        assert statuses(running.state)[0] is WorkStatus.FAILED
        outcomes = [
            m.result.outcome for m in running.results() if m.operation != "plan_tool.propose"
        ]
        assert outcomes == [Outcome.REJECTED, Outcome.SKIPPED, Outcome.SKIPPED]


@pytest.mark.parametrize("begins", ["with the plan", "by the model"])
async def test_a_step_whose_only_change_was_refused_is_not_done_by_words(
    begins: str, tmp_path: Path
) -> None:
    """However it begins: the calls behind its begin are the step's."""
    claims = done("The first note is there.")
    begin = action("plan_tool.update_step", step_id="1", status="in_progress")
    refused = decision("I write it.", write("a"))
    main, task = (PROPOSE, decision("I do it now.", begin, write("a"))), (claims,)
    if begins == "with the plan":
        main, task = (PROPOSE,), (refused, claims)
    replies = script(
        *main,
        done("It was refused."),
        plan=plan_reply("first", "second"),
        task=task,
        report=(report_reply(),) * 2,
    )
    async with session(tmp_path, replies) as running:
        await running.engine.send("two notes please")
        await answer(running, "run_all" if begins == "with the plan" else "run_steps")
        await running.answer(GateChoice.REJECT, reason="no")
        await answer(running, "stop")
        await running.ended()
        assert running.state.plans[0].steps[0].status is WorkStatus.FAILED


async def test_calls_for_a_step_that_the_user_took_out_meanwhile_do_not_run(tmp_path: Path) -> None:
    """They were meant for that step; the one that comes now is asked for anew."""
    first = decision("", write("a"), ends(1), write("b"), ends(2), write("c"), next_step="done")
    third = decision("Only the third.", write("c2"), next_step="done")
    replies = plan_of_three(first, third)
    replies.replies["plan"] = (plan_reply("first", "second", "third", chain=False),)
    async with session(tmp_path, replies) as running:
        await begin_plan(running, asks="three notes please")
        gate = await running.gate()
        second = running.state.plans[0].steps[1].step_id
        assert await running.engine.plan.edit_steps((PlanEdit(op="drop", step_id=second),)) is None
        await running.answer(GateChoice.ONCE)
        await running.until(lambda state: any(g != gate for g in state.gates))
        await running.answer(GateChoice.ONCE)
        await running.ended()
        assert [files for _, _, files in reports(running)] == [("a",), ("c2",)]
        assert statuses(running.state) == [DONE] * 2


async def test_a_plan_of_which_a_step_failed_is_told_to_the_model(tmp_path: Path) -> None:
    """Even where the proposal was to end the turn."""
    stuck = decision("I cannot.", next_step="pending_user", question={"text": "What now?"})
    replies = plan_of_three(stuck, last="done")
    replies.replies["main"] = (*replies.replies["main"][:1], done("The first step failed."))
    async with session(tmp_path, replies) as running:
        await begin_plan(running, asks="three notes please")
        await answer(running, "stop")
        await running.ended()
        assert len(running.server.of("main")) == 2


async def test_a_step_reads_what_the_turn_and_the_steps_before_it_changed(tmp_path: Path) -> None:
    """As the files are now, without reading them again. Covers S2-33."""
    before = action("file_ops.write_file", path="of_turn.txt", content="written by the turn\n")
    first = action("file_ops.write_file", path="of_step.txt", content="draft\n")
    mends = action(
        "file_ops.edit_file", path="of_step.txt", edits=[{"old": "draft", "new": "final words"}]
    )
    replies = script(
        decision("", before),
        proposal(first, ends(1)),
        task=(decision("", mends, ends(2)), decision("", write("c"), next_step="done")),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, asks="three notes please")
        assert (await running.ended()).outcome == "done"
        second, third = (request.text for request in running.server.of("task"))
        assert "written by the turn" in second
        assert "draft" in second
        assert "final words" in third
        assert "Files changed: of_step.txt" in third


@pytest.mark.parametrize("words", ["It went well.", '{"status": "excellent"}', ""])
async def test_a_step_that_is_done_does_not_fail_by_the_form_of_its_report(
    words: str, tmp_path: Path
) -> None:
    """The report falls back to what is known, and says so. Covers S2-34."""
    begin = action("task_loop.run", step_id="1")
    replies = script(
        proposal(ends_turn=False),
        decision("", begin, write("a"), ends(1, "a is there")),
        report=Reply(text=words, repeat=True),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="three notes please")
        await running.until(lambda state: any(card.report for card in state.cards))
        assert statuses(running.state)[0] is DONE
        assert reports(running) == [("first", "a is there", ("a",))]


async def test_calls_of_the_proposal_go_on_as_the_steps_after_a_restart(tmp_path: Path) -> None:
    """The app ends while the first of them waits for the user's key."""
    replies = script(proposal(*three_notes()))
    async with session(tmp_path, replies) as running:
        await begin_plan(running, asks="three notes please")
        await running.gate()
        running.cut()
    again = script(done("All three are there."))
    async with session(tmp_path, again, resume=running.session_id) as running:
        running.engine.resume()
        for _ in range(3):
            await running.answer(GateChoice.ONCE)
        await running.ended()
        assert [files for _, _, files in reports(running)] == [("a",), ("b",), ("c",)]
        assert running.server.of("task") == []
