"""Changes of a plan that runs, another plan in its place, and who is said to have stopped it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.plan_talk import PROPOSE, answer, begin_plan, card, plan_reply, report_reply, statuses
from support.session import Session, action, decision, done, script, session

from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.replies import Reply, When
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.gates import CardKind, GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan import PlanEdit, PlanStatus, WorkStatus
from duckflow_tui.state.turn import TurnFinished

PENDING, DONE = WorkStatus.PENDING, WorkStatus.COMPLETED


def writes(name: str, **fields: Any) -> Reply:
    """A step's one decision: write a file and be done."""
    write = action("file_ops.write_file", path=name, content="text\n")
    return Reply(decision=decision(f"Wrote {name}.", write, next_step="done").decision, **fields)


def wish(*changes: dict[str, Any]) -> Reply:
    """What a wish beside the work becomes."""
    return decision(
        "I would change the plan.",
        action("plan_tool.revise", changes=list(changes)),
        next_step="done",
    )


ADD = {"op": "add", "step_id": "n", "name": "third note", "depends_on": ["1"]}


async def asked_beside(running: Session, reply: str) -> None:
    """A question to the waiting work, and its answer."""
    await running.engine.send("how far are you?", when="now")
    await running.until(
        lambda s: any(m.kind == "assistant" and m.aside and m.text == reply for m in s.messages)
    )


async def test_a_change_accepted_after_the_turn_is_carried_out_unasked(tmp_path: Path) -> None:
    """The user wanted all of it run: the yes to the change is enough."""
    replies = script(
        PROPOSE,
        wish(ADD),
        done("All done."),
        done("That too."),
        plan=plan_reply("first note"),
        task=(writes("a.txt"), writes("c.txt")),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.gate()
        await running.engine.send("a third one too", when="now")
        await card(running, CardKind.PLAN_CHANGE)
        await running.answer(GateChoice.ONCE)
        assert (await running.ended()).outcome == "done"
        assert running.state.turn is None
        await answer(running, "accept")
        await running.answer(GateChoice.ONCE)
        assert (await running.ended(2)).reply == "That too."
        assert statuses(running.state) == [DONE, DONE]


@pytest.mark.parametrize("how", ["refused", "step by step", "stopped"])
async def test_what_the_user_did_not_order_does_not_begin(tmp_path: Path, how: str) -> None:
    run = (done("Run it."),) if how == "step by step" else ()
    replies = script(
        PROPOSE,
        *run,
        wish(ADD),
        done("All done."),
        plan=plan_reply("first note"),
        tasks=(Reply(data={"tasks": []}),) * 3,
        task=writes("a.txt"),
        report=report_reply("failed" if how == "stopped" else "completed"),
    )
    async with session(
        tmp_path, replies, environ={"DUCKFLOW_EXECUTION__MODE": "adaptive"}
    ) as running:
        await running.engine.send("notes please")
        await answer(running, "run_steps" if how == "step by step" else "run_all")
        await running.gate()
        await running.engine.send("a third one too", when="now")
        await card(running, CardKind.PLAN_CHANGE)
        if how == "stopped":
            running.engine.stop()
            assert (await running.ended()).outcome == "stopped"
            assert running.state.cards == ()
        else:
            await running.answer(GateChoice.ONCE)
            await running.ended()
            await answer(running, "reject" if how == "refused" else "accept")
            await running.until(lambda s: not s.cards and not s.running)
        before = len(running.server.requests)
        await running.engine.run_command("true")  # something else that takes a while
        await running.until(lambda s: any(m.kind == "operation" and m.by_user for m in s.messages))
        assert len(running.server.requests) == before
        assert len(running.events(TurnFinished)) == 1


@pytest.mark.parametrize("yes", [True, False])
async def test_an_open_change_holds_back_only_the_step_it_changes(
    tmp_path: Path, yes: bool
) -> None:
    """The step before and the step behind it go on; it begins with the answer, and as that says."""
    change = {"op": "change", "step_id": "2", "name": "the long second note"}
    replies = script(
        PROPOSE,
        wish(change),
        done("It waits."),
        done("All done."),
        plan=plan_reply("first note", "second note", "last note", chain=False),
        task=(
            writes("a.txt", when=When(pattern="first note")),
            writes("c.txt", when=When(pattern="do last note")),
            writes("b.txt"),
        ),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.gate()
        await running.engine.send("a longer second one", when="now")
        await card(running, CardKind.PLAN_CHANGE)
        for _ in ("a.txt", "c.txt"):
            await running.answer(GateChoice.ONCE)
        await running.until(lambda s: statuses(s) == [DONE, PENDING, DONE])
        await asked_beside(running, "It waits.")
        assert running.state.work is not None  # for the answer
        assert not (running.workspace / "b.txt").exists()
        assert (running.workspace / "c.txt").exists()
        await answer(running, "accept" if yes else "reject")
        await running.answer(GateChoice.ONCE)
        assert (await running.ended()).outcome == "done"
        plan = running.active_plan
        assert plan.steps[1].name == ("the long second note" if yes else "second note")
        begun = running.server.of("task")[-1]
        assert ("Step 2: the long second note" in begun.text) is yes
        assert statuses(running.state) == [DONE, DONE, DONE]


LONGER = action(
    "plan_tool.revise", changes=[{"op": "change", "step_id": "1", "name": "the long first note"}]
)


async def test_a_change_is_accepted_only_for_the_plan_that_it_was_shown_with(
    tmp_path: Path,
) -> None:
    """The user changed the plan while the card was open: a yes to it shows the change anew."""
    replies = script(
        PROPOSE,
        decision("I change it.", LONGER),
        done("All done."),
        plan=plan_reply("first note", "second note"),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps")
        await card(running, CardKind.PLAN_CHANGE)
        plan = running.active_plan
        mine = PlanEdit(op="change", step_id=plan.steps[1].step_id, name="my second note")
        assert await running.engine.plan.edit_steps((mine,)) is None
        first = await answer(running, "accept")
        await running.until(lambda s: any(c.card_id != first.card_id for c in s.cards))
        now = running.active_plan
        assert [step.name for step in now.steps] == ["first note", "my second note"]
        (again,) = running.state.cards
        assert again.change is not None
        assert [s.name for s in again.change.result.steps] == [
            "the long first note",
            "my second note",
        ]
        await answer(running, "accept")
        running.engine.stop()
        await running.ended()
        assert running.active_plan.steps[0].name == "the long first note"


async def test_a_step_whose_change_waits_for_the_user_is_not_begun_by_the_model(
    tmp_path: Path,
) -> None:
    """The turn in which the change was asked for has ended; its question is still open."""
    begin = action("plan_tool.update_step", step_id="2", status="in_progress")
    change = {"op": "change", "step_id": "2", "name": "the long second note"}
    replies = script(
        PROPOSE,
        done("Run it."),
        wish(change),
        done("One is done."),
        decision("I begin it.", begin),
        done("As you like."),
        plan=plan_reply("first note", "second note", chain=False),
        task=writes("a.txt"),
        report=report_reply(),
    )
    environ = {"DUCKFLOW_EXECUTION__MODE": "adaptive"}
    async with session(tmp_path, replies, environ=environ) as running:
        await begin_plan(running, "run_steps")
        await running.gate()
        await running.engine.send("a longer second one", when="now")
        await card(running, CardKind.PLAN_CHANGE)
        await running.answer(GateChoice.ONCE)
        await answer(running, "stop", kind=CardKind.REPORT)
        await running.ended()
        assert [c.kind for c in running.state.cards] == [CardKind.PLAN_CHANGE]
        await running.turn("begin the second one")
        (tried,) = [m for m in running.results() if m.operation == "plan_tool.update_step"]
        assert tried.result.outcome is Outcome.ERROR
        assert "waits for the user's answer" in tried.result.text
        assert statuses(running.state) == [DONE, PENDING]


async def test_a_step_that_is_dropped_while_it_is_held_back_never_begins(tmp_path: Path) -> None:
    replies = script(
        PROPOSE,
        wish({"op": "drop", "step_id": "2"}),
        done("All done."),
        plan=plan_reply("first note", "second note", chain=False),
        task=writes("a.txt"),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.gate()
        await running.engine.send("no second one", when="now")
        await card(running, CardKind.PLAN_CHANGE)
        await running.answer(GateChoice.ONCE)
        await running.until(lambda s: statuses(s) == [DONE, PENDING])
        await answer(running, "accept")
        assert (await running.ended()).outcome == "done"
        assert statuses(running.state) == [DONE]


async def test_a_stop_ends_work_that_waits_for_the_answer_to_a_change(tmp_path: Path) -> None:
    replies = script(
        PROPOSE,
        wish({"op": "drop", "step_id": "2"}),
        done("It waits."),
        plan=plan_reply("first note", "second note", chain=False),
        task=writes("a.txt"),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.gate()
        await running.engine.send("no second one", when="now")
        await card(running, CardKind.PLAN_CHANGE)
        await running.answer(GateChoice.ONCE)
        await running.until(lambda s: statuses(s) == [DONE, PENDING])
        await asked_beside(running, "It waits.")
        running.engine.stop()
        assert (await running.ended()).outcome == "stopped"
        assert (running.state.work, running.state.cards) == (None, ())
        said = [m.key for m in running.state.messages if isinstance(m, NoticeMessage)]
        assert "plan.change_dropped" in said


async def test_a_stop_by_the_model_is_not_said_to_be_the_users(tmp_path: Path) -> None:
    """Neither the call that it ended nor the work names the user as who stopped it."""
    stop = decision("I end it.", action("task_loop.stop"), next_step="done")
    replies = script(
        PROPOSE, stop, done("It was ended."), plan=plan_reply("first note"), task=writes("a.txt")
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.gate()
        await running.engine.send("stop it please", when="now")
        await running.ended()
        by_name = {m.operation: m.result for m in running.results()}
        halted = by_name["file_ops.write_file"]
        assert halted.outcome is Outcome.STOPPED
        told = running.server.of("main")[-1].text
        assert "user stopped" not in told.lower()
        assert "The work was stopped" in told
        assert "by the user" not in halted.text
        assert statuses(running.state) == [WorkStatus.CANCELLED]


async def test_a_stop_by_the_user_is_said_to_be_theirs(tmp_path: Path) -> None:
    replies = script(PROPOSE, done("I see."), plan=plan_reply("first note"), task=writes("a.txt"))
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.gate()
        running.engine.stop()
        await running.ended()
        await running.engine.send("what happened?")
        await running.ended(2)
        assert "The user stopped the work" in running.server.of("main")[-1].text


async def test_another_plan_that_is_approved_ends_the_older_one(tmp_path: Path) -> None:
    """The older one is put aside for all to see, and a step of it no longer runs. Covers C35."""
    again = decision("Another way.", action("plan_tool.propose", goal="one note"), step="PLANNING")
    replies = script(
        PROPOSE,
        again,
        done("All done."),
        plan=(plan_reply("first note", "second note"), plan_reply("the only note")),
        task=writes("a.txt"),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await running.engine.send("notes please")
        first = await answer(running, "run_steps")
        await running.until(lambda s: bool(s.cards) and s.cards[0].card_id != first.card_id)
        older = running.state.plans[0]
        assert older.status.may_run  # until the user has said yes to the other
        await answer(running, "run_all")
        assert (await running.ended()).outcome == "done"
        older, newer = running.state.plans
        assert (older.status, newer.status) == (PlanStatus.CANCELLED, PlanStatus.COMPLETED)
        assert [step.status for step in older.steps] == [PENDING, PENDING]
        (said,) = [
            m
            for m in running.state.messages
            if isinstance(m, NoticeMessage) and m.key == "plan.put_aside"
        ]
        assert said.params["plan"] == older.name
        assert "put aside" in running.server.of("main")[-1].text


async def test_another_plan_that_is_rejected_leaves_the_older_one(tmp_path: Path) -> None:
    again = decision("Another way.", action("plan_tool.propose", goal="one note"), step="PLANNING")
    replies = script(
        PROPOSE,
        again,
        done("As you like."),
        plan=(plan_reply("first note"), plan_reply("the only note")),
        task=writes("a.txt"),
    )
    environ = {"DUCKFLOW_EXECUTION__MODE": "adaptive"}
    async with session(tmp_path, replies, environ=environ) as running:
        await running.engine.send("notes please")
        first = await answer(running, "run_steps")
        await running.until(lambda s: bool(s.cards) and s.cards[0].card_id != first.card_id)
        assert (await card(running)).kind is CardKind.PLAN
        await answer(running, "reject")
        await running.gate()  # the older one is in hand again, and the user let it run
        older, newer = running.state.plans
        assert (older.status, newer.status) == (PlanStatus.IN_PROGRESS, PlanStatus.REJECTED)
        assert running.state.active_plan is older


async def test_another_plan_that_is_approved_takes_back_what_the_older_one_asks(
    tmp_path: Path,
) -> None:
    """A change of the older plan waits for its answer when the newer one is approved."""
    again = decision("Another way.", action("plan_tool.propose", goal="one note"), step="PLANNING")
    replies = script(
        PROPOSE,
        done("Run it."),
        wish(ADD),
        done("One is done."),
        again,
        done("So."),
        plan=(plan_reply("first note", "second note"), plan_reply("the only note")),
        task=(writes("a.txt"), writes("b.txt")),
        report=report_reply(),
    )
    environ = {"DUCKFLOW_EXECUTION__MODE": "adaptive"}
    async with session(tmp_path, replies, environ=environ) as running:
        await begin_plan(running, "run_steps")
        await running.gate()
        await running.engine.send("a third one too", when="now")
        await card(running, CardKind.PLAN_CHANGE)
        await running.answer(GateChoice.ONCE)
        await answer(running, "stop", kind=CardKind.REPORT)
        await running.ended()
        await running.engine.send("another way")
        await answer(running, "run_all", "go ahead", kind=CardKind.PLAN)
        await running.answer(GateChoice.ONCE)
        await running.ended(2)
        assert running.state.cards == ()
        by_name = {m.operation: m.result for m in running.results()}
        assert by_name["plan_tool.revise"].outcome is Outcome.STOPPED
        assert "They said: go ahead" in by_name["plan_tool.propose"].text


async def test_another_plan_that_is_approved_ends_the_work_on_the_older_one(
    tmp_path: Path,
) -> None:
    """A plan that was rejected is wanted after all, while a report on the other one asks."""
    replies = script(
        PROPOSE,
        PROPOSE,
        decision("I do it.", action("task_loop.run")),
        plan=(plan_reply("the only note"), plan_reply("first note", "second note")),
        task=(writes("a.txt"), writes("b.txt")),
    )

    def author(request: Request) -> Reply | None:
        if request.purpose != "main":
            return None
        if running.state.active_plan is not running.state.plans[1]:
            return done("So be it.")
        change = {"op": "change", "step_id": "1", "name": "the one note"}
        plan_id = running.state.plans[0].plan_id
        revise = action("plan_tool.revise", plan_id=plan_id, changes=[change])
        return decision("I show it again.", revise, next_step="done")

    environ = {"DUCKFLOW_EXECUTION__MODE": "adaptive"}
    async with session(
        tmp_path, replies, mode="trusted", author=author, environ=environ
    ) as running:
        await running.engine.send("notes please")
        await answer(running, "reject")
        await running.until(lambda s: len(s.plans) == 2)
        await answer(running, "run_steps")
        await card(running, CardKind.REPORT)
        await running.engine.send("the only note instead", when="now")
        await answer(running, "run_all", kind=CardKind.PLAN)
        await running.ended()
        wanted, other = running.state.plans
        assert (wanted.status, other.status) == (PlanStatus.COMPLETED, PlanStatus.CANCELLED)
        assert [step.status for step in other.steps] == [DONE, PENDING]
        assert "The work was stopped" in running.server.of("main")[-1].text


async def test_a_draft_is_changed_as_it_is_shown_and_shown_again(tmp_path: Path) -> None:
    """A step may need one that comes with it; what cannot be is refused."""
    more = {"op": "add", "step_id": "m", "name": "fourth note", "depends_on": ["n"]}
    circle = action("plan_tool.revise", changes=[{"op": "drop", "step_id": "1"}])
    revise = action("plan_tool.revise", changes=[ADD, more])
    replies = script(
        PROPOSE,
        decision("", circle, revise),
        wish(ADD),
        done("As you like."),
        plan=plan_reply("first note", "second note"),
    )
    async with session(tmp_path, replies) as running:
        await running.engine.send("notes please")
        first = await answer(running, "reject")
        await running.until(lambda s: bool(s.cards) and s.cards[0].card_id != first.card_id)
        assert running.results()[1].result.outcome is Outcome.INVALID
        (second,) = running.state.cards
        assert second.before is not None
        assert len(second.before.steps) == 2
        plan = running.active_plan
        assert plan.steps[3].depends_on == (plan.steps[2].step_id,)
        await running.engine.send("a third one too", when="now")
        await running.until(lambda s: bool(s.cards) and s.cards[0].card_id != second.card_id)
        assert len(plan.steps) + 1 == len(running.state.plans[0].steps)
        await answer(running, "reject")
        await running.ended()
        told = [m.result.text for m in running.results() if m.operation == "plan_tool.revise"]
        assert "The draft was changed; the user sees it and has to approve it." in told


async def test_a_change_of_a_step_that_is_gone_is_not_made(tmp_path: Path) -> None:
    """The user dropped the step while the card was open, and said yes all the same."""
    change = action("plan_tool.revise", changes=[{"op": "change", "step_id": "2", "name": "x"}])
    replies = script(
        PROPOSE,
        decision("I change it.", change),
        done("Run it."),
        done("All."),
        plan=plan_reply("first note", "second note"),
        task=writes("a.txt"),
    )
    environ = {"DUCKFLOW_EXECUTION__MODE": "adaptive"}
    async with session(tmp_path, replies, mode="trusted", environ=environ) as running:
        await begin_plan(running, "run_steps")
        await card(running, CardKind.PLAN_CHANGE)
        plan = running.active_plan
        dropped = PlanEdit(op="drop", step_id=plan.steps[1].step_id)
        assert await running.engine.plan.edit_steps((dropped,)) is None
        await answer(running, "accept")
        assert (await running.ended()).outcome == "done"
        assert "no longer fits" in running.results()[1].result.text
        assert statuses(running.state) == [DONE]


async def test_a_step_neither_plans_nor_begins_other_work(tmp_path: Path) -> None:
    """One piece of work goes on at a time, and it keeps its plan."""
    calls = {
        "A plan is being worked on": action("plan_tool.propose", goal="more"),
        "Work on the plan is going on": action(
            "plan_tool.update_step", step_id="1", status="failed"
        ),
        "Work is going on": action("task_loop.run"),
    }
    replies = script(
        PROPOSE,
        done("All done."),
        plan=plan_reply("first note"),
        task=(decision("", *calls.values()), done("First.")),
    )
    async with session(tmp_path, replies, mode="trusted", headless=True) as running:
        await running.turn("notes please")
        for words, told in zip(calls, running.results()[1:], strict=True):
            assert words in told.result.text


async def test_the_model_halts_work_that_the_user_lets_go_on(tmp_path: Path) -> None:
    halt = decision("I halt it.", action("task_loop.pause"), next_step="done")
    replies = script(
        PROPOSE,
        halt,
        done("All done."),
        plan=plan_reply("first note", "second note"),
        task=(writes("a.txt"), writes("b.txt")),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.gate()
        await running.engine.send("wait a moment", when="now")
        await running.until(
            lambda s: any(m.operation == "task_loop.pause" for m in running.results())
        )
        await running.answer(GateChoice.ONCE)
        await running.until(lambda s: s.turn is not None and s.turn.pause == "paused")
        assert statuses(running.state) == [DONE, PENDING]
        running.engine.resume()
        await running.answer(GateChoice.ONCE)
        assert (await running.ended()).outcome == "done"
