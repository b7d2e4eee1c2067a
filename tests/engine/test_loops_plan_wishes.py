"""What the user wants instead of a plan's next step: the model hears it, and the plan waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
from support.session import DEADLINE, action, decision, done, session

from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.gates import CardKind, GateChoice
from duckflow_tui.state.plan import Plan, WorkStatus

WISH = "write the README first"
RUN = decision("I run it.", action("task_loop.run"))


def script(*main: Reply) -> Script:
    """A plan of two notes, gone through step by step, and what the model says besides."""
    return Script(
        replies={
            "main": (PROPOSE, *main),
            "plan": (plan_reply("first note", "second note"),),
            "tasks": (tasks_reply(write("a.txt")), tasks_reply(write("b.txt"))),
            "task": (done("Done."), done("Done.")),
        }
    )


async def test_a_wish_on_a_report_reaches_the_model_and_holds_the_plan(tmp_path: Path) -> None:
    """Covers S2-23: a model that ends without going on does not begin the next step."""
    replies = script(RUN, done("You want the README first; shall I plan it?"))
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        assert (await card(running)).kind is CardKind.REPORT
        await answer(running, "tell", WISH)
        end = await running.ended()
        assert end.reply == "You want the README first; shall I plan it?"
        assert statuses(running.state) == [WorkStatus.COMPLETED, WorkStatus.PENDING]
        assert WISH in running.server.of("main")[-1].text
        assert end.outcome == "partial"


async def test_the_model_goes_on_with_the_plan_after_a_wish_where_the_user_agrees(
    tmp_path: Path,
) -> None:
    replies = script(RUN, RUN, done("Both notes are written."))
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        await card(running)
        await answer(running, "tell", "quickly, please")
        await answer(running, "go_on", kind=CardKind.BREAKPOINT)
        end = await running.ended()
        assert statuses(running.state) == [WorkStatus.COMPLETED] * 2
        assert end.reply == "Both notes are written."


async def test_a_plan_held_by_a_wish_goes_on_by_the_users_key(tmp_path: Path) -> None:
    replies = script(RUN, done("As you like."), done("Both notes are written."))
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        await card(running)
        await answer(running, "tell", WISH)
        await running.ended()
        async with asyncio.timeout(DEADLINE):
            while running.state.turn is None:  # the turn before is being put away
                running.engine.resume()
                await asyncio.sleep(0)
        await running.until(lambda s: statuses(s) == [WorkStatus.COMPLETED] * 2)


async def test_what_the_user_refused_is_counted_as_refused_and_to_read_is_no_part(
    tmp_path: Path,
) -> None:
    """Covers S2-20: the cause is the model's question and nothing of the app's."""
    look = action("file_ops.read_file", path="src/a.py")
    edit = action("file_ops.write_file", path="a.txt", content="a\n")
    replies = Script(
        replies={
            "main": (PROPOSE, RUN, done("As you like.")),
            "plan": (plan_reply("first note", "second note"),),
            "task": (
                decision("I look first.", look),
                decision("I write it.", edit),
                decision(
                    "", next_step="pending_user", question={"text": "What instead?", "options": []}
                ),
            ),
            "report": (report_reply("partial", summary="nothing is written"),),
        }
    )
    async with session(tmp_path, replies) as running:
        (running.workspace / "src").mkdir(exist_ok=True)
        (running.workspace / "src/a.py").write_text("pass\n")
        await begin_plan(running, asks="two notes please")
        await running.answer(GateChoice.REJECT, reason="not here")
        shown = await card(running)
        report = shown.report
        assert report is not None
        assert (report.succeeded, report.refused, report.skipped) == (1, 1, 0)
        assert report.status == "failed"
        assert report.cause == "What instead?"
        await answer(running, "stop")
        await running.ended()


@pytest.mark.parametrize("own", [False, True], ids=["one model", "a role of its own"])
async def test_the_models_own_steps_are_the_plan_but_for_a_role_that_makes_them(
    own: bool, tmp_path: Path
) -> None:
    """A circle among them is refused with the reason, and no other model is asked."""
    steps = [{"name": "write"}, {"name": "check", "depends_on": [1]}]
    circle = [{"name": "a", "depends_on": [2]}, {"name": "b", "depends_on": [1]}]
    calls = (circle, steps) if not own else (steps,)
    proposals = (
        decision("I plan.", action("plan_tool.propose", goal="two notes", steps=given))
        for given in calls
    )
    replies = Script(
        replies={"main": (*proposals, done("No.")), "plan": (plan_reply("first", "second"),)}
    )
    roles = {"creative": "cli/other"} if own else None
    async with session(tmp_path, replies, roles=roles) as running:
        await running.engine.send("two notes please")
        await answer(running, "reject")
        await running.ended()
        (plan,) = running.state.plans
        assert [step.name for step in plan.steps] == (
            ["first", "second"] if own else ["write", "check"]
        )
        assert plan.steps[1].depends_on == (plan.steps[0].step_id,)
        assert len(running.server.of("plan")) == own
        assert own or "circle" in running.results()[0].result.text


async def propose_steps(tmp_path: Path, steps: Sequence[object]) -> Plan:
    """The plan that these steps of the model become, once it was shown."""
    proposal = decision("I plan.", action("plan_tool.propose", goal="two notes", steps=steps))
    replies = Script(replies={"main": (proposal, done("No."))})
    async with session(tmp_path, replies) as running:
        await running.engine.send("two notes please")
        await answer(running, "reject")
        await running.ended()
        (plan,) = running.state.plans
        return plan


@pytest.mark.parametrize("reference", [1, "1", "write"])
async def test_a_step_that_is_needed_is_named_by_its_number_or_its_name(
    reference: int | str, tmp_path: Path
) -> None:
    steps = [{"name": "write"}, {"name": "check", "depends_on": [reference]}]
    plan = await propose_steps(tmp_path, steps)
    assert plan.steps[1].depends_on == (plan.steps[0].step_id,)


@pytest.mark.parametrize(
    "steps", [["write", "check"], [{"title": "write"}, {"title": "check"}]], ids=["texts", "titles"]
)
async def test_steps_that_are_texts_or_have_titles_are_read_at_once(
    steps: Sequence[object], tmp_path: Path
) -> None:
    plan = await propose_steps(tmp_path, steps)
    assert [step.name for step in plan.steps] == ["write", "check"]
