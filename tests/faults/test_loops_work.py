"""Plans and their work against a model that lies and a user whose keys come at odd moments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.pace_talk import LONG, files, reads
from support.plan_talk import PROPOSE, answer, begin_plan, card, plan_reply, report_reply, statuses
from support.session import REPORTED, action, decision, done, script, session

from duckflow_tui.scripted.replies import Fault, Reply, Script, When
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.gates import CardKind, GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.phase import Status
from duckflow_tui.state.plan import PlanEdit, PlanStatus, WorkStatus
from duckflow_tui.state.plan_events import ReportAdded, WorkFinished

CANNOT = decision("I cannot do this.", next_step="pending_user")
FAILED = report_reply("failed", summary="", cause="it cannot be done")
TALK = tuple(done("So it stands.") for _ in range(5))
THOUSANDS = "9" * 5_000  # digits, more than Python makes a number of


def planned(*names: str, chain: bool = False) -> Reply:
    return plan_reply(*names, chain=chain)


def worked(reply: str) -> Reply:
    """A step looks around and says that it is done: a word without an operation is not enough."""
    return decision(reply, action("file_ops.list_dir"), next_step="done")


def held(reply: Reply) -> Reply:
    return reply.model_copy(update={"hold": "until asked"})


def write(path: str) -> dict[str, Any]:
    return action("file_ops.write_file", path=path, content="text\n")


def listed(*tasks: tuple[str, dict[str, Any]]) -> Reply:
    return Reply(
        data={"tasks": [{"operation": o, "args": args, "description": o} for o, args in tasks]}
    )


def at_a_decision(state: AgentState) -> bool:
    """A step runs and its model is being asked."""
    return state.work is not None and state.work.loop > 0 and bool(state.live)


# --- a plan that the user changes while it is worked on ------------------------------------------


async def test_a_step_skipped_during_a_pause_does_not_break_the_work(tmp_path: Path) -> None:
    """Paused between two steps, the next one is skipped; the rest runs."""
    replies = script(
        PROPOSE,
        *TALK,
        plan=planned("first", "second", "third", chain=True),
        task=(decision("First.", write("a.txt"), next_step="done"), worked("Third.")),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.gate()
        running.engine.pause()
        await running.answer(GateChoice.ONCE)
        await running.until(lambda s: s.turn is not None and s.turn.pause == "paused")
        assert running.engine.plan.skip_step(running.active_plan.steps[1].step_id) is None
        running.engine.resume()
        assert (await running.ended()).outcome == "done"
        assert statuses(running.state) == [
            WorkStatus.COMPLETED,
            WorkStatus.SKIPPED,
            WorkStatus.COMPLETED,
        ]


@pytest.mark.parametrize("choice", ["retry", "skip"])
async def test_the_card_of_a_dropped_step_is_answered(tmp_path: Path, choice: str) -> None:
    """The failed step is dropped while its card is open: the answer has nothing left to move."""
    replies = script(
        PROPOSE,
        *TALK,
        plan=planned("first", "second"),
        task=(CANNOT, worked("Second.")),
        report=FAILED,
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await card(running, CardKind.REPORT)
        dropped = PlanEdit(op="drop", step_id=running.active_plan.steps[0].step_id)
        assert await running.engine.plan.edit_steps((dropped,)) is None
        await answer(running, choice, kind=CardKind.REPORT)
        assert (await running.ended()).outcome == "done"
        assert statuses(running.state) == [WorkStatus.COMPLETED]


async def test_a_step_dropped_at_its_breakpoint_is_gone_past(tmp_path: Path) -> None:
    replies = script(PROPOSE, *TALK, plan=planned("first", "second"), task=worked("Second."))
    async with session(tmp_path, replies, mode="trusted") as running:
        await running.engine.send("notes please")
        await card(running, CardKind.PLAN)
        first = running.active_plan.steps[0].step_id
        assert running.engine.plan.set_break(first, True) is None
        await answer(running, "run_all", kind=CardKind.PLAN)
        await card(running, CardKind.BREAKPOINT)
        assert await running.engine.plan.edit_steps((PlanEdit(op="drop", step_id=first),)) is None
        await answer(running, "go_on", kind=CardKind.BREAKPOINT)
        assert (await running.ended()).outcome == "done"


async def test_a_plan_changed_right_behind_the_yes_is_shown_again(tmp_path: Path) -> None:
    """The yes was for two steps; what is left of them was never shown. Covers C35."""
    replies = script(PROPOSE, *TALK, plan=planned("first", "second"))
    async with session(tmp_path, replies, mode="trusted", no_session=True) as running:
        await begin_plan(running)
        dropped = PlanEdit(op="drop", step_id=running.active_plan.steps[0].step_id)
        assert await running.engine.plan.edit_steps((dropped,)) is None
        shown = await card(running, CardKind.PLAN)
        assert shown.before is not None
        assert len(shown.before.steps) == 2
        assert running.active_plan.status is PlanStatus.DRAFT
        await answer(running, "reject", kind=CardKind.PLAN)
        assert (await running.ended()).outcome == "done"


async def test_a_step_dropped_while_its_tasks_are_listed_is_told_to_the_model(
    tmp_path: Path,
) -> None:
    listing = decision("", action("task_tool.generate_list", step_id="1"))
    replies = script(
        PROPOSE,
        listing,
        *TALK,
        plan=planned("first", "second"),
        tasks=(held(listed(("file_ops.list_dir", {}))), listed(("file_ops.list_dir", {}))),
    )
    async with session(tmp_path, replies, mode="trusted", no_session=True) as running:
        await begin_plan(running, "run_steps")
        await running.until(
            lambda s: any(r.operation == "task_tool.generate_list" and r.started for r in s.running)
        )
        dropped = PlanEdit(op="drop", step_id=running.active_plan.steps[0].step_id)
        assert await running.engine.plan.edit_steps((dropped,)) is None
        running.server.release("until asked")
        assert (await running.ended()).outcome == "done"
        told = next(r for r in running.results() if r.operation == "task_tool.generate_list")
        assert told.result.outcome is Outcome.ERROR
        assert "the plan is another one by now" in told.result.text


# --- stopping ------------------------------------------------------------------------------------


async def test_a_list_that_was_stopped_is_not_gone_on_with_behind_the_stopped_task(
    tmp_path: Path,
) -> None:
    """The second of three tasks is stopped. Going on asks for a new list: the third alone would
    make a step look done whose second task never was.
    """
    first = listed(
        ("file_ops.write_file", {"path": "1.txt", "content": "1"}),
        ("shell.run", {"command": "sleep 60"}),
        ("file_ops.write_file", {"path": "3.txt", "content": "3"}),
    )
    again = listed(("file_ops.write_file", {"path": "2.txt", "content": "2"}))
    replies = script(PROPOSE, *TALK, plan=planned("first"), tasks=(first, again))
    environ = {"DUCKFLOW_EXECUTION__MODE": "tasklist"}
    async with session(tmp_path, replies, mode="trusted", environ=environ) as running:
        await begin_plan(running)
        await running.gate()
        running.engine.stop()
        assert (await running.ended()).outcome == "stopped"
        assert [task.status for task in running.active_plan.steps[0].task_list] == [
            WorkStatus.COMPLETED,
            WorkStatus.CANCELLED,
            WorkStatus.CANCELLED,
        ]
        assert running.engine.plan.run_plan() is None
        assert (await running.ended(2)).outcome == "done"
        assert (running.workspace / "2.txt").exists()
        assert not (running.workspace / "3.txt").exists()


async def test_a_question_after_a_stop_does_not_set_the_plan_going_again(tmp_path: Path) -> None:
    replies = script(
        PROPOSE,
        *TALK,
        plan=planned("first", "second"),
        task=(held(worked("First.")), decision("", write("b.txt"), next_step="done")),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await running.until(at_a_decision)
        running.engine.stop()
        assert (await running.ended()).outcome == "stopped"
        running.server.release("until asked")
        await running.turn("why did you do that?")
        assert statuses(running.state) == [WorkStatus.CANCELLED, WorkStatus.PENDING]
        assert not (running.workspace / "b.txt").exists()


async def test_nor_does_one_after_the_report_said_stop(tmp_path: Path) -> None:
    """The user's key lets it go on."""
    replies = script(
        PROPOSE,
        *TALK,
        plan=planned("first", "second"),
        task=(CANNOT, worked("Second.")),
        report=FAILED,
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await answer(running, "stop", kind=CardKind.REPORT)
        await running.ended()
        await running.turn("what time is it?")
        assert statuses(running.state) == [WorkStatus.FAILED, WorkStatus.PENDING]
        assert running.engine.plan.run_plan() is None
        await running.ended(3)
        assert statuses(running.state) == [WorkStatus.FAILED, WorkStatus.COMPLETED]


async def test_a_stop_behind_the_last_skipped_step_leaves_the_plan_completed(
    tmp_path: Path,
) -> None:
    """Paused, the last step is waived, then all is stopped: nothing of the plan is left."""
    replies = script(PROPOSE, *TALK, plan=planned("first"), task=CANNOT, report=FAILED)
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await card(running, CardKind.REPORT)
        running.engine.pause()
        await answer(running, "skip", kind=CardKind.REPORT)
        await running.until(lambda s: s.turn is not None and s.turn.pause == "paused")
        running.engine.stop()
        assert (await running.ended()).outcome == "stopped"
        assert statuses(running.state) == [WorkStatus.SKIPPED]
        assert running.active_plan.status is PlanStatus.COMPLETED


async def test_nobody_could_let_paused_work_go_on_without_a_screen(tmp_path: Path) -> None:
    """Headless, a model that halts the work is refused, or the run would never end."""
    replies = script(decision("", action("task_loop.pause")), *TALK)
    async with session(tmp_path, replies, headless=True) as running:
        assert (await running.turn("hello")).outcome == "done"
        assert running.results()[0].result.outcome is Outcome.ERROR


# --- what a plan says of itself ------------------------------------------------------------------


async def test_the_model_takes_nothing_back_of_what_is_done_or_waived(tmp_path: Path) -> None:
    """A plan that is completed stays so, a step that the user skipped stays skipped."""
    back = [
        action("plan_tool.update_step", step_id=step, status=status)
        for step in ("1", "2")
        for status in ("pending", "in_progress")
    ]
    back += [action("task_tool.generate_list", step_id="1"), action("task_tool.generate_list")]
    replies = script(
        PROPOSE,
        TALK[0],
        decision("", *back),
        *TALK,
        plan=planned("first", "second"),
        task=worked("First."),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await running.engine.send("notes please")
        await card(running, CardKind.PLAN)
        assert running.engine.plan.skip_step(running.active_plan.steps[1].step_id) is None
        await answer(running, "run_all", kind=CardKind.PLAN)
        assert (await running.ended()).outcome == "done"
        await running.turn("and now?")
        refused = running.results()[-6:]
        assert [r.result.outcome for r in refused] == [Outcome.ERROR] * 6
        assert "nothing to list" in refused[-2].result.text
        assert "No step can begin now" in refused[-1].result.text
        assert statuses(running.state) == [WorkStatus.COMPLETED, WorkStatus.SKIPPED]
        assert running.active_plan.status is PlanStatus.COMPLETED


async def test_nothing_of_a_draft_is_begun_or_ended_by_the_model(tmp_path: Path) -> None:
    block = decision("", action("plan_tool.update_step", step_id="1", status="blocked"))
    replies = script(PROPOSE, block, *TALK, plan=planned("first"))
    async with session(tmp_path, replies) as running:
        await running.engine.send("notes please")
        await answer(running, "reject", kind=CardKind.PLAN)
        await running.turn("and now?")
        assert statuses(running.state) == [WorkStatus.PENDING]


async def test_who_names_no_step_is_told_the_first_twenty(tmp_path: Path) -> None:
    unknown = decision("", action("plan_tool.update_step", step_id="none", status="blocked"))
    names = [f"note {n}" for n in range(1, 24)]
    replies = script(PROPOSE, unknown, *TALK, plan=planned(*names))
    async with session(tmp_path, replies) as running:
        await running.engine.send("notes please")
        await answer(running, "reject", kind=CardKind.PLAN)
        await running.ended()
        told = running.results()[1].result.text
        assert "'note 20'" in told
        assert "'note 21'" not in told


async def test_a_draft_whose_steps_are_all_skipped_still_waits_for_its_answer(
    tmp_path: Path,
) -> None:
    replies = script(PROPOSE, *TALK, plan=planned("first"))
    async with session(tmp_path, replies) as running:
        await running.engine.send("notes please")
        await card(running, CardKind.PLAN)
        assert running.engine.plan.skip_step(running.active_plan.steps[0].step_id) is None
        assert running.active_plan.status is PlanStatus.DRAFT
        await answer(running, "reject", kind=CardKind.PLAN)
        await running.ended()
        assert running.active_plan.status is PlanStatus.REJECTED


async def test_a_plan_whose_last_failed_step_is_skipped_is_completed(tmp_path: Path) -> None:
    """And not before. Going on with it then says that nothing is left, instead of having it run
    for ever.
    """
    replies = script(
        PROPOSE, *TALK, plan=planned("first", "second", chain=True), task=CANNOT, report=FAILED
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await answer(running, "stop", kind=CardKind.REPORT)
        await running.ended()
        first, second = running.active_plan.steps
        assert running.active_plan.status is PlanStatus.FAILED
        assert running.engine.plan.skip_step(second.step_id) is None
        assert running.active_plan.status is PlanStatus.FAILED
        assert running.engine.plan.skip_step(first.step_id) is None
        assert running.active_plan.status is PlanStatus.COMPLETED
        assert running.engine.plan.run_plan() == LocalizedText(key="plan.problem.none_ready")
        assert running.active_plan.status is PlanStatus.COMPLETED
        assert running.state.turn is None


@pytest.mark.parametrize("by", ["user", "model"])
async def test_a_plan_whose_failed_step_is_dropped_is_completed(tmp_path: Path, by: str) -> None:
    """It was all that kept the plan from being done, whoever drops it."""
    drop = decision("", action("plan_tool.revise", changes=[{"op": "drop", "step_id": "2"}]))
    replies = script(
        PROPOSE,
        TALK[0],
        drop,
        *TALK,
        plan=planned("first", "second"),
        task=(worked("First."), CANNOT),
        report=(REPORTED.model_copy(update={"repeat": False}), FAILED),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await answer(running, "stop", kind=CardKind.REPORT)
        assert (await running.ended()).outcome == "partial"
        assert running.active_plan.status is PlanStatus.FAILED
        if by == "user":
            dropped = PlanEdit(op="drop", step_id=running.active_plan.steps[1].step_id)
            assert await running.engine.plan.edit_steps((dropped,)) is None
        else:
            await running.engine.send("leave the second out")
            await answer(running, "accept", kind=CardKind.PLAN_CHANGE)
            await running.ended(2)
        assert statuses(running.state) == [WorkStatus.COMPLETED]
        assert running.active_plan.status is PlanStatus.COMPLETED


async def test_a_card_answered_after_its_turn_does_not_make_the_session_busy(
    tmp_path: Path,
) -> None:
    """A change proposed beside the work outlives it; the answer leaves the status alone."""
    change = action("plan_tool.revise", changes=[{"op": "add", "name": "third"}])
    replies = script(
        PROPOSE,
        decision("", change, next_step="done"),
        *TALK,
        plan=planned("first"),
        task=decision("", write("a.txt"), next_step="done"),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.gate()
        await running.engine.send("a third one please", when="now")
        await card(running, CardKind.PLAN_CHANGE)
        await running.answer(GateChoice.ONCE)
        await running.ended()
        before = running.state.status
        await answer(running, "reject", kind=CardKind.PLAN_CHANGE)
        await running.until(lambda s: not s.running)
        assert before is Status.SUCCESS
        assert running.state.status is Status.SUCCESS
        assert statuses(running.state) == [WorkStatus.COMPLETED]


async def test_a_change_accepted_after_the_user_ended_the_turn_begins_nothing(
    tmp_path: Path,
) -> None:
    """The user ended it where it was stuck: the plan waits for their word."""
    files(tmp_path / "work", 1)
    looks = [reads("f00.py") for _ in range(4)]
    change = decision("", action("plan_tool.revise", changes=[{"op": "add", "name": "third"}]))
    beside = change.model_copy(update={"when": When(anywhere="a third one")})
    replies = script(
        beside, PROPOSE, *TALK, plan=planned("first", "second"), task=(held(looks[0]), *looks[1:])
    )
    async with session(tmp_path, replies, environ=LONG) as running:
        await begin_plan(running)
        await running.until(at_a_decision)
        await running.engine.send("a third one please", when="now")
        await card(running, CardKind.PLAN_CHANGE)
        running.server.release("until asked")
        await answer(running, "stop_work", kind=CardKind.CONSULTATION)
        assert (await running.ended()).outcome == "partial"
        await answer(running, "accept", kind=CardKind.PLAN_CHANGE)
        await running.until(lambda s: not s.running)
        assert running.state.turn is None
        assert statuses(running.state)[1:] == [WorkStatus.PENDING] * 2


async def test_a_plan_that_the_user_stops_after_taking_it_up_is_not_begun_again(
    tmp_path: Path,
) -> None:
    """Their key had it go on; their answer to a report ends that, whatever is left to do."""
    replies = script(
        PROPOSE,
        *TALK,
        plan=planned("first", "second", "third"),
        task=(CANNOT, CANNOT, worked("Third.")),
        report=FAILED,
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await answer(running, "stop", kind=CardKind.REPORT)
        await running.ended()
        assert running.engine.plan.run_plan() is None
        await answer(running, "stop", kind=CardKind.REPORT)
        await running.ended(2)
        assert statuses(running.state) == [WorkStatus.FAILED, WorkStatus.FAILED, WorkStatus.PENDING]


# --- numbers that are none -----------------------------------------------------------------------


async def test_a_number_of_thousands_of_digits_means_no_step(tmp_path: Path) -> None:
    replies = script(
        PROPOSE,
        decision("", action("plan_tool.update_step", step_id=THOUSANDS, status="failed")),
        *TALK,
        plan=planned("first"),
        tasks=listed(("file_ops.list_dir", {})),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps")
        assert (await running.ended()).outcome == "done"
        assert "has no step" in running.results()[1].result.text


async def test_a_failed_step_that_the_user_takes_up_again_is_done_and_the_plan_with_it(
    tmp_path: Path,
) -> None:
    replies = script(
        PROPOSE, *TALK, plan=planned("first"), task=(CANNOT, worked("First.")), report=FAILED
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await answer(running, "stop", kind=CardKind.REPORT)
        await running.ended()
        assert running.active_plan.status is PlanStatus.FAILED
        assert running.engine.plan.retry_step(running.active_plan.steps[0].step_id) is None
        assert running.active_plan.status is PlanStatus.IN_PROGRESS
        assert (await running.ended(2)).outcome == "done"
        assert statuses(running.state) == [WorkStatus.COMPLETED]
        assert running.active_plan.status is PlanStatus.COMPLETED


# --- a model of which nothing usable comes -------------------------------------------------------

GENERATE = decision("", action("task_tool.generate_list"))
BAD = (Reply(text="I cannot write JSON today."),) * 3
LISTS = {"DUCKFLOW_EXECUTION__MODE": "tasklist"}
READ = ("file_ops.read_file", {"path": "gone.txt"})


@pytest.mark.parametrize(
    ("calls", "replies", "words", "notices"),
    [
        ((PROPOSE,), {"plan": BAD}, "No usable plan came", []),
        ((PROPOSE,), {}, "could not be made: bad_request", ["llm.error.bad_request"]),
        (
            (PROPOSE, GENERATE),
            {"plan": (planned("first"),), "tasks": BAD},
            "No usable list of tasks",
            [],
        ),
    ],
)
async def test_what_could_not_be_made_is_said_with_the_reason(
    tmp_path: Path,
    calls: tuple[Reply, ...],
    replies: dict[str, tuple[Reply, ...]],
    words: str,
    notices: list[str],
) -> None:
    """C8."""
    said = script(*calls, *TALK, **replies)
    async with session(tmp_path, said, mode="trusted") as running:
        await running.engine.send("notes please")
        if len(calls) > 1:
            await answer(running, "run_steps", kind=CardKind.PLAN)
        await running.until(lambda _: len(running.results()) >= len(calls))
        told = running.results()[len(calls) - 1].result
        assert told.outcome is Outcome.ERROR
        assert words in told.text
        assert [key for key in running.notices() if key.startswith("llm.error")] == notices


LISTS_FOUR = decision("", *[action("task_tool.generate_list")] * 4)


@pytest.mark.parametrize(
    ("calls", "limit", "asked", "sent"),
    [((PROPOSE,), 1, "plan", 0), ((PROPOSE, LISTS_FOUR), 3, "tasks", 3)],
)
async def test_beyond_the_limit_of_calls_nothing_is_made(
    tmp_path: Path, calls: tuple[Reply, ...], limit: int, asked: str, sent: int
) -> None:
    """Covers S1-43. The user does not raise it, for the turn or for its step."""
    found = listed(("file_ops.find_files", {"glob": "*"})).model_copy(update={"repeat": True})
    replies = {"main": (*calls, *TALK), "plan": (planned("first"),), "tasks": (found,)}
    environ = {"DUCKFLOW_EXECUTION__MAX_MODEL_CALLS": str(limit)}
    async with session(tmp_path, Script(replies=replies), environ=environ) as running:
        await running.engine.send("notes please")
        if len(calls) > 1:
            await answer(running, "run_steps", kind=CardKind.PLAN)
        await answer(running, "accept_result", kind=CardKind.BUDGET)
        await running.ended()
        assert len(running.server.of(asked)) == sent
        told = running.results()[-1].result
        assert told.outcome is Outcome.STOPPED
        assert "limit of calls to models was reached" in told.text


@pytest.mark.parametrize(
    ("ids", "needs", "words"),
    [
        (("s1", "s1"), "", "Two steps have the same id"),
        (("s1", "s2"), "s9", "depends_on names 's9', which is no step's number or name"),
    ],
)
async def test_a_plan_that_cannot_be_is_sent_back_with_the_reason(
    tmp_path: Path, ids: tuple[str, ...], needs: str, words: str
) -> None:
    """Covers S2-16."""
    wrong = [
        {"id": i, "name": "note", "description": "", "depends_on": [needs] if needs else []}
        for i in ids
    ]
    first = Reply(data={**(planned("first").data or {}), "steps": wrong})
    replies = script(PROPOSE, *TALK, plan=(first, planned("first")))
    async with session(tmp_path, replies) as running:
        await running.engine.send("notes please")
        await answer(running, "reject", kind=CardKind.PLAN)
        await running.ended()
        assert words in running.server.of("plan")[1].text


async def test_a_step_whose_tasks_cannot_be_had_failed_for_that(tmp_path: Path) -> None:
    """C8, C9."""
    replies = {"main": (PROPOSE, *TALK), "plan": (planned("first"),), "tasks": BAD, "report": ()}
    async with session(
        tmp_path, Script(replies=replies), mode="trusted", headless=True, environ=LISTS
    ) as running:
        await running.turn("notes please")
        (report,) = [e.message.report for e in running.events(ReportAdded)]
        assert report.status == "failed"
        assert "No usable list of tasks" in report.cause
        assert "work.no_report" in running.notices()  # nor were there words for it


@pytest.mark.parametrize(
    ("task", "key"),
    [
        ((), "llm.error.bad_request"),
        ((decision("", next_step="pending_user"),) * 2, "work.cause.not_said"),
    ],
)
async def test_why_a_step_could_not_be_done_is_told_in_the_users_words(
    tmp_path: Path, task: tuple[Reply, ...], key: str
) -> None:
    replies = {"main": (PROPOSE, *TALK), "plan": (planned("first"),), "task": task}
    async with session(tmp_path, Script(replies=replies), mode="trusted", headless=True) as running:
        await running.turn("notes please")
        (report,) = [e.message.report for e in running.events(ReportAdded)]
        assert report.told is not None
        assert report.told.key == key
        assert (key in running.notices()) is key.startswith("llm.error")


async def test_behind_a_no_the_other_calls_of_a_step_are_skipped(tmp_path: Path) -> None:
    """And stand in its list as tasks that were skipped."""
    replies = script(
        PROPOSE,
        *TALK,
        plan=planned("first"),
        task=(decision("", write("a.txt"), write("b.txt")), done("As you like.")),
        report=FAILED,
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.answer(GateChoice.REJECT)
        await answer(running, "stop", kind=CardKind.REPORT)  # nothing of it was done
        await running.ended()
        tasks = running.active_plan.steps[0].task_list
        assert [task.status for task in tasks] == [WorkStatus.SKIPPED] * 2
        (report,) = [e.message.report for e in running.events(ReportAdded)]
        assert (report.refused, report.skipped) == (1, 1)


async def test_a_step_that_breaks_has_failed_and_its_turn_with_it(tmp_path: Path) -> None:
    """A fault of the app leaves no step that looks as if it still ran."""
    replies = script(
        PROPOSE, *TALK, plan=planned("first"), task=(decision("", write("a.txt")), worked("First."))
    )
    async with session(tmp_path, replies) as running:
        running.breaks = True
        await begin_plan(running)
        await running.gate()
        assert running.state.work is not None
        running.store.dispatch(WorkFinished(work_id=running.state.work.work_id, outcome="failed"))
        await running.answer(GateChoice.ONCE)
        assert (await running.ended()).outcome == "failed"
        (step,) = running.active_plan.steps
        assert step.status is WorkStatus.FAILED
        assert "StateError" in step.note
        assert any(key.startswith("engine.fault") for key in running.notices())
        assert running.state.work is None


async def test_what_a_report_suggests_can_be_taken_before_the_next_step(tmp_path: Path) -> None:
    words = {"status": "completed", "summary": "x", "cause": "", "next_action": "Run the tests."}
    tasks = listed(("file_ops.find_files", {"glob": "*"}))
    replies = script(
        PROPOSE,
        *TALK,
        plan=planned("first", "second"),
        tasks=(tasks, tasks),
        report=Reply(data=words, repeat=True),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps")
        await answer(running, "suggested", kind=CardKind.REPORT)
        assert (await running.ended()).outcome == "done"
        wish = "The user wants instead: Run the tests."
        assert [wish in r.text for r in running.server.of("main")] == [False, False, True, True]
        assert statuses(running.state) == [WorkStatus.COMPLETED] * 2


async def test_a_step_whose_model_cannot_be_asked_is_reported_without_a_further_call(
    tmp_path: Path,
) -> None:
    """Another call would wait as long again for the same silence."""
    gone = Reply(fault=Fault(status=401), repeat=True)
    replies = script(PROPOSE, done("It failed."), plan=planned("first note"), task=gone)
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        shown = await card(running, CardKind.REPORT)
        assert shown.report is not None
        assert shown.report.status == "failed"
        assert running.server.of("report") == []
