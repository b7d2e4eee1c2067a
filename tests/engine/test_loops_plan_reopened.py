"""A review that fails names the steps of the plan that have to be done again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.plan_talk import (
    PROPOSE,
    answer,
    begin_plan,
    plan_reply,
    report_reply,
    statuses,
    tasks_reply,
)
from support.plan_talk import write as task
from support.reviews import judged, next_plan
from support.session import Session, action, decision, done, script, session

from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.goal import AttemptMessage, ReviewMessage
from duckflow_tui.state.plan import PlanStatus, ReportMessage, WorkStatus
from duckflow_tui.ui.panes.plan_rows import one_line, status_words
from duckflow_tui.words.catalogue import Catalogue

COMPLETED = WorkStatus.COMPLETED


def write(path: str, content: str) -> Reply:
    made = action("file_ops.write_file", path=path, content=content)
    return decision("I write it.", made, next_step="done", step="EXECUTION")


def judged_twice(*task: Reply, **named: Any) -> Script:
    """A plan of two notes, whose result is judged as half of it at first."""
    return script(
        PROPOSE,
        done("Both notes are there."),
        done("Now both are right."),
        plan=plan_reply("first note", "second note"),
        task=task,
        report=(report_reply(),) * 3,
        satisfaction=(judged(0.4, **named), judged(0.95)),
        continuation=next_plan(),
    )


def reported(running: Session) -> list[str]:
    messages = (m for m in running.state.messages if isinstance(m, ReportMessage))
    return [m.report.step_name for m in messages]


WRITES = (write("a.txt", "a\n"), write("b.txt", "wrong\n"))


@pytest.mark.parametrize("steps", [["2"], 2, "Step 2", [{"step": 2, "why": "b.txt is wrong"}]])
async def test_the_steps_that_a_failed_review_names_are_run_again(
    steps: object, tmp_path: Path
) -> None:
    """No other plan is asked for: these steps are what the next attempt does. Covers S1-56."""
    replies = judged_twice(*WRITES, write("b.txt", "right\n"), steps=steps)
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, asks="two notes please")
        end = await running.ended()
        assert end.outcome == "done"
        assert (running.workspace / "b.txt").read_text() == "right\n"
        assert reported(running) == ["first note", "second note", "second note"]
        assert running.state.plans[0].status is PlanStatus.COMPLETED
        assert statuses(running.state) == [COMPLETED] * 2
        [attempt] = (m for m in running.state.messages if isinstance(m, AttemptMessage))
        assert attempt.plan.steps == ("second note",)
        assert "judging.reopened" in running.notices()
        assert not running.server.of("continuation")
        assert running.server.of("satisfaction")[0].text.count("2. second note") == 1
        again = running.server.of("task")[2].text
        assert "the reason" in again  # what the judge holds to be missing


async def test_steps_run_one_by_one_begin_again_with_the_models_call(tmp_path: Path) -> None:
    """The user goes step by step, so nothing begins that the model does not ask for."""
    again = decision("Again.", action("task_loop.run"))
    replies = judged_twice(*WRITES, write("b.txt", "right\n"), steps=["2"])
    notes = (("a.txt", "a\n"), ("b.txt", "wrong\n"), ("b.txt", "right\n"))
    replies.replies["tasks"] = tuple(tasks_reply(task(*note)) for note in notes)
    main = replies.replies["main"]
    replies.replies["main"] = (main[0], again, main[1], again, main[2])
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        await answer(running, "go_on")
        end = await running.ended()
        assert end.outcome == "done"
        assert (running.workspace / "b.txt").read_text() == "right\n"
        assert reported(running) == ["first note", "second note", "second note"]


@pytest.mark.parametrize("steps", [[], ["seven"], None])
async def test_a_failed_review_that_names_no_step_reopens_none(
    steps: list[str] | None, tmp_path: Path
) -> None:
    replies = judged_twice(*WRITES, steps=steps)
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, asks="two notes please")
        assert (await running.ended()).outcome == "done"
        assert reported(running) == ["first note", "second note"]
        assert len(running.server.of("continuation")) == 1


@pytest.mark.parametrize("score", [0.4, 0.95])
async def test_a_plan_whose_steps_are_done_says_that_its_review_failed(
    score: float, tmp_path: Path
) -> None:
    """Until a review finds the request met, nobody who reads of the plan is told that it is done:
    neither on the screen, nor in the records, nor the model. Covers S1-56.
    """
    replies = judged_twice(*WRITES)
    replies.replies["satisfaction"] = (judged(0.4), judged(score))
    looks = decision("I look.", action("plan_tool.get"))
    replies.replies["main"] += (looks, done("They are as they were."))
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, asks="two notes please")
        if score < 0.8:
            await answer(running, "cancel")
        await running.ended()
        plan, words = running.state.plans[0], Catalogue("en")
        assert (plan.status, plan.progress) == (PlanStatus.COMPLETED, (2, 2))
        failed = "review failed"
        assert (status_words(plan, words) == failed) is (score < 0.8)
        assert one_line(plan, words).startswith("✗" if score < 0.8 else "✓")
        reviews = (m.review for m in running.state.messages if isinstance(m, ReviewMessage))
        assert {review.plan_id for review in reviews} == {plan.plan_id}
        await running.turn("how does it stand?")
        told = running.results()[-1].result.text
        assert ("completed, review failed" in told) is (score < 0.8)
