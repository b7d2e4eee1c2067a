"""Step by step binds whatever runs the steps, and a plan that was stopped marks no later turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.plan_talk import (
    PROPOSE,
    answer,
    begin_plan,
    plan_reply,
    report_reply,
    statuses,
    tasks_reply,
    write,
)
from support.session import Session, action, decision, done, judged_good, session

from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.gates import Card, CardKind
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan import PlanStatus, WorkStatus

DONE, OPEN = WorkStatus.COMPLETED, WorkStatus.PENDING

WRITE = action("file_ops.write_file", path="a.txt", content="a\n")


def run_step(number: str) -> Reply:
    return decision(f"I run {number}.", action("task_loop.run", step_id=number))


def update(number: str, status: str) -> dict[str, Any]:
    return action("plan_tool.update_step", step_id=number, status=status, note="it is there")


def story(*main: Reply) -> Script:
    """A plan of three notes, each step a list of one task."""
    lists = tuple(tasks_reply(write(f"{name}.txt")) for name in "abc")
    reports = tuple(report_reply() for _ in "abc")
    plan = plan_reply("first note", "second note", "third note")
    return judged_good(
        Script(replies={"main": main, "plan": (plan,), "tasks": lists, "report": reports})
    )


async def report(s: Session, after: str = "") -> Card:
    """The open card on a step that ended, once there is another than ``after``."""
    await s.until(
        lambda state: any(c.kind is CardKind.REPORT and c.card_id != after for c in state.cards)
    )
    return s.state.cards[0]


async def begun(s: Session) -> None:
    await begin_plan(s, "run_steps", asks="three notes please")


async def test_a_step_that_the_model_runs_by_its_id_asks_before_the_next(tmp_path: Path) -> None:
    """Covers S2-27."""
    script = story(PROPOSE, run_step("1"), done("All three."))
    async with session(tmp_path, script, mode="trusted") as s:
        await begun(s)
        first = await report(s)
        assert statuses(s.state) == [DONE, OPEN, OPEN]
        await answer(s, "go_on")
        await report(s, first.card_id)
        assert statuses(s.state) == [DONE, DONE, OPEN]
        await answer(s, "go_on")
        assert (await s.ended()).outcome == "done"
        assert statuses(s.state) == [DONE, DONE, DONE]


async def test_after_the_users_stop_the_model_begins_no_step_by_any_call(tmp_path: Path) -> None:
    """A stubborn model tries each way; none leads on in this turn. Covers S2-27."""
    script = story(
        PROPOSE,
        run_step("1"),
        run_step("2"),
        decision("", action("task_loop.run")),
        decision("", update("2", "in_progress")),
        done("Stopped after one."),
    )
    async with session(tmp_path, script, mode="trusted") as s:
        await begun(s)
        await report(s)
        await answer(s, "stop")
        assert (await s.ended()).outcome == "partial"
        assert statuses(s.state) == [DONE, OPEN, OPEN]
        tried = [m.result for m in s.results()[-3:]]
        assert [result.outcome for result in tried] == [Outcome.REJECTED] * 3
        assert all("wait for their word" in result.text for result in tried)


async def test_a_plan_that_was_stopped_marks_no_later_turn(tmp_path: Path) -> None:
    """It stays, and can go on by the user's key. Covers S2-26."""
    script = story(PROPOSE, run_step("1"), done("Stopped."), done("Hello!"), done("A joke."))
    async with session(tmp_path, script, mode="trusted") as s:
        await begun(s)
        await report(s)
        await answer(s, "stop")
        assert (await s.ended()).outcome == "partial"
        for words in ("hello", "tell me a joke"):
            assert (await s.turn(words)).outcome == "answered"
        assert s.active_plan.status is PlanStatus.IN_PROGRESS
        assert s.engine.plan.run_plan() is None
        await report(s)
        assert statuses(s.state) == [DONE, DONE, OPEN]
        await answer(s, "stop")
