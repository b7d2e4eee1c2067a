"""A step that is done and not believed: the user takes it as done, and the plan goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.plan_talk import (
    PROPOSE,
    answer,
    begin_plan,
    card,
    plan_reply,
    report_reply,
    statuses,
    tasks_reply,
    write,
)
from support.session import action, decision, done, session

from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.gates import CardKind
from duckflow_tui.state.pace import VitalsChanged
from duckflow_tui.state.plan import PlanStatus, WorkStatus
from duckflow_tui.state.plan_events import StepChanged

RUN = decision("I run it.", action("task_loop.run"))
WORD = "[completed by the user's word]"


def script(*main: Reply, first: tuple[Reply, ...]) -> Script:
    """A plan of two notes of which the second needs the first, whose report is ``first``."""
    return Script(
        replies={
            "main": (PROPOSE, *main),
            "plan": (plan_reply("first note", "second note"),),
            "tasks": (tasks_reply(write("a.txt")), tasks_reply(write("b.txt"))),
            "task": (done("Done."), done("Done.")),
            "report": (*first, report_reply()),
        }
    )


PARTIAL = (report_reply("partial"),)


async def test_a_step_is_taken_as_done_and_what_needs_it_begins(tmp_path: Path) -> None:
    replies = script(RUN, done("Both notes are written."), first=PARTIAL)
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        shown = await card(running)
        assert [(o.key, o.action) for o in shown.options][:3] == [
            ("r", "retry"),
            ("d", "take_as_done"),
            ("k", "skip"),
        ]
        await answer(running, "take_as_done")
        await running.ended()
        assert statuses(running.state) == [WorkStatus.COMPLETED] * 2
        plan = running.active_plan
        assert plan.status is PlanStatus.COMPLETED
        assert [step.taken for step in plan.steps] == [True, False]
        assert [e.step_id for e in running.events(StepChanged) if e.taken] == [
            plan.steps[0].step_id
        ]
        assert f"1. {WORD} first note" in running.server.of("tasks")[-1].text
        told = running.server.of("main")[-1].text
        assert "- first note: partial; the user took it as done" in told
        judged = running.server.of("satisfaction")[-1].text
        assert "a.txt" in judged  # by what ran, and not by the user's word
        assert "took it as done" not in judged
        assert "user's word" not in judged


async def test_a_step_may_be_taken_as_done_whatever_it_brought(tmp_path: Path) -> None:
    """Also where no operation of the step went well: it may be done by other hands."""
    edit = action("file_ops.edit_file", path="none.txt", old="a", new="b")
    replies = script(done("As you like."), first=(report_reply("failed"),))
    replies.replies["tasks"] = (tasks_reply(), tasks_reply())
    replies.replies["task"] = (decision("I change it.", edit), done("It cannot be done."))
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, asks="two notes please")
        shown = await card(running)
        assert shown.kind is CardKind.REPORT
        await answer(running, "take_as_done")
        await running.until(lambda s: len(s.plans[0].steps) == 2 and s.plans[0].steps[0].taken)
        running.engine.stop()
        await running.ended()


async def test_what_was_taken_as_done_stands_after_the_end_of_the_process(tmp_path: Path) -> None:
    replies = script(RUN, first=(report_reply("partial"),))
    async with session(tmp_path, replies, mode="trusted") as made:
        await begin_plan(made, "run_steps", asks="two notes please")
        await card(made)
        made.cut()
    more = script(first=())
    more.replies["main"] = (done("Both."),)
    more.replies["tasks"] = (tasks_reply(write("b.txt")),)
    async with session(tmp_path, more, resume=made.session_id, mode="trusted") as made:
        assert "take_as_done" in [o.action for o in (await card(made)).options]
        await answer(made, "take_as_done")
        await made.ended()
    async with session(tmp_path, more, resume=made.session_id, mode="trusted") as made:
        plan = made.active_plan
        assert [(s.status, s.taken) for s in plan.steps] == [
            (WorkStatus.COMPLETED, True),
            (WorkStatus.COMPLETED, False),
        ]


TAKE = decision(
    "You say that it is done.",
    action("plan_tool.update_step", step_id="1", status="completed", note="the user says so"),
)


@pytest.mark.parametrize("asked", [True, False], ids=["the model runs it", "the model ends"])
async def test_words_that_say_so_let_the_rest_of_the_plan_go_on(
    asked: bool, tmp_path: Path
) -> None:
    on = (RUN,) if asked else (done("I go on."),)
    replies = script(RUN, TAKE, *on, done("Both notes are written."), first=PARTIAL)
    replies.replies["task"] = (
        decision("I write it.", action("file_ops.write_file", path="a.txt", content="a\n")),
        done("a.txt is written."),
        decision("I write it.", action("file_ops.write_file", path="b.txt", content="b\n")),
        done("b.txt is written."),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        assert (await card(running)).kind is CardKind.REPORT
        await answer(running, "tell", "It is done. Go on with step 2.")
        end = await running.ended()
        assert end.reply.endswith("Both notes are written.")
        assert statuses(running.state) == [WorkStatus.COMPLETED] * 2
        plan = running.active_plan
        assert (plan.status, plan.steps[0].taken) == (PlanStatus.COMPLETED, True)
        given = [event.change.params for event in running.events(VitalsChanged)]
        # Only what runs is progress of the work, and no word of the user.
        assert {told["what"] for told in given if told.get("kind") == "step"} <= {"1"}, given
        told = running.server.of("main")[2].text
        assert "The user wants instead: It is done. Go on with step 2." in told
        assert "the plan is in_progress" in told


async def test_no_other_answer_lets_the_model_say_that_a_failed_step_is_done(
    tmp_path: Path,
) -> None:
    replies = script(RUN, TAKE, done("As you like."), first=(report_reply("partial"),))
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        await card(running)
        await answer(running, "stop")
        await running.ended()
        assert statuses(running.state) == [WorkStatus.FAILED, WorkStatus.PENDING]
        assert "only what runs can end" in running.server.of("main")[-1].text


async def test_other_words_leave_the_step_undone_and_a_run_asks_what_becomes_of_it(
    tmp_path: Path,
) -> None:
    replies = script(RUN, RUN, done("As you like."), first=(report_reply("partial"),))
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        await card(running)
        first = await answer(running, "tell", "write the README first")
        await answer(running, "go_on", kind=CardKind.BREAKPOINT)
        await card(running, CardKind.REPORT)
        again = await answer(running, "stop")
        assert again.report == first.report
        end = await running.ended()
        assert end.outcome == "partial"
        assert statuses(running.state) == [WorkStatus.FAILED, WorkStatus.PENDING]
        plan = running.active_plan
        assert plan.status is PlanStatus.FAILED
