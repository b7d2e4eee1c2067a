"""Plans through the engine: proposed, approved, run step by step or by list, reported."""

from __future__ import annotations

import asyncio
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

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
from support.session import DEADLINE, action, before_note, decision, done, script, session
from support.shell import sleepers

from duckflow_tui.scripted.replies import Fault, Reply, When
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import NoticeMessage, UserMessage
from duckflow_tui.state.gates import CardAnswer, CardKind, CardOpened, GateChoice, Remark
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.plan import SOFT_STEPS, PlanEdit, PlanStatus, RunMode, WorkStatus
from duckflow_tui.state.plan_events import (
    PlanAnswered,
    PlanProposed,
    ReportAdded,
    StepChanged,
    WorkFinished,
    WorkProgressed,
)
from duckflow_tui.state.turn import TurnFinished

LOOK = action("file_ops.list_dir", path=".")


@pytest.mark.parametrize("brings", [True, False])
@pytest.mark.parametrize("how", ["run_all", "run_steps"])
async def test_a_step_that_brings_words_alone_is_judged_by_its_words(
    tmp_path: Path, how: str, brings: bool
) -> None:
    """Adaptive and by list, in which no task is listed then. Covers S2-28, S2-32."""
    verdict = report_reply() if brings else report_reply("failed", cause="a claim")
    replies = script(
        PROPOSE,
        *((done("Run it."),) if how == "run_steps" else ()),
        done("So."),
        plan=plan_reply("say why"),
        tasks=tasks_reply(),
        task=done("Because of the rounding."),
        report=verdict,
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, how, asks="why is it?")
        if not brings:
            await answer(running, "skip", kind=CardKind.REPORT)
        await running.ended()
        assert "<said>\nBecause of the rounding.\n</said>" in running.server.of("report")[0].text
        (report,) = [e.message.report for e in running.events(ReportAdded)]
        assert (report.status, report.succeeded) == ("completed" if brings else "failed", 0)
        wanted = WorkStatus.COMPLETED if brings else WorkStatus.SKIPPED
        assert statuses(running.state) == [wanted]


async def test_a_step_that_brings_nothing_and_says_nothing_is_not_done(tmp_path: Path) -> None:
    """No model is asked whether it is. Covers S2-28."""
    replies = script(PROPOSE, done("So."), plan=plan_reply("first note"), task=done(""))
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await card(running, CardKind.REPORT)
        assert statuses(running.state) == [WorkStatus.FAILED]
        assert running.server.of("report") == []
        await answer(running, "skip")
        await running.ended()


async def test_step_by_step_a_step_is_done_when_its_log_shows_it(tmp_path: Path) -> None:
    """It looked at a folder and wrote nothing. Covers S2-28."""
    replies = script(
        PROPOSE,
        done("Run it."),
        done("It is not there."),
        plan=plan_reply("first note"),
        tasks=tasks_reply({**LOOK, "description": "look"}),
        report=report_reply("failed", summary="", cause="nothing was written"),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps")
        await card(running, CardKind.REPORT)
        (report,) = [e.message.report for e in running.events(ReportAdded)]
        assert (report.status, report.cause) == ("failed", "nothing was written")
        asked = running.server.of("report")[0].text
        assert asked.startswith("You are the judge")
        await answer(running, "skip")
        await running.ended()


@pytest.mark.parametrize("sees", [True, False])
async def test_a_step_whose_last_calls_go_well_ends_without_another_word_of_the_model(
    tmp_path: Path, sees: bool
) -> None:
    """No call is spent on a report of it; where one of them failed, it is asked on."""
    check = action("file_ops.read_file", path="first.txt" if sees else "gone.txt")
    writes = action("file_ops.write_file", path="first.txt", content="text\n")
    replies = script(
        PROPOSE,
        done("There."),
        plan=plan_reply("first note"),
        task=(
            decision("I write it and look.", writes, check, next_step="done"),
            done("I have looked: it is there."),
        ),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await running.ended()
        (report,) = [e.message.report for e in running.events(ReportAdded)]
        assert (report.status, report.failed) == ("completed", 0 if sees else 1)
        assert len(running.server.of("task")) == (1 if sees else 2)
        wanted = "I write it and look." if sees else "I have looked: it is there."
        assert report.summary == wanted
        assert running.server.of("report") == []


async def test_the_whole_flow_of_a_plan_step_by_step(tmp_path: Path) -> None:
    """Request, proposal, approval, list, run, report, next step, answer.

    Covers S2-3, S2-5, S2-8, S2-9, S2-10, S2-20, S2-21, S2-23.
    """
    replies = script(
        PROPOSE,
        decision("I list the first step.", action("task_tool.generate_list", step_id="1")),
        decision("I run it.", action("task_loop.run", step_id="1")),
        done("Both notes are written."),
        plan=plan_reply("first note", "second note"),
        tasks=(tasks_reply(write("a.txt")), tasks_reply(write("b.txt", "b\n"))),
        report=report_reply(summary="a.txt is written"),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        await answer(running, "go_on")
        end = await running.ended()
        state = running.state
        assert end.outcome == "done"
        assert end.reply == "Both notes are written."
        assert end.files_changed == ("a.txt", "b.txt")
        assert (running.workspace / "b.txt").read_text() == "b\n"
        assert state.active_plan is not None
        assert state.active_plan.status is PlanStatus.COMPLETED
        order = [
            type(event).__name__
            for event in (record.event for record in running.records)
            if isinstance(event, PlanProposed | PlanAnswered | ReportAdded | TurnFinished)
        ]
        assert order == [
            "PlanProposed", "PlanAnswered", "ReportAdded", "ReportAdded", "TurnFinished"
        ]  # fmt: skip
        reports = [e.message.report for e in running.events(ReportAdded)]
        assert [(r.step_name, r.status, r.succeeded) for r in reports] == [
            ("first note", "completed", 1),
            ("second note", "completed", 1),
        ]
        assert reports[0].summary == "a.txt is written"
        assert state.work is None
        assert state.live == {}
        listed = next(
            m
            for m in state.messages
            if isinstance(m, OperationMessage) and m.operation == "task_tool.generate_list"
        )
        assert '1. [pending] file_ops.write_file(path: "a.txt"' in listed.result.text


async def test_nobody_to_approve_means_denied(tmp_path: Path) -> None:
    """Headless in standard mode a plan is not approved, and nothing of it runs (R19)."""
    replies = script(PROPOSE, done("I may not carry the plan out."), plan=plan_reply("first note"))
    async with session(tmp_path, replies, mode="standard", headless=True) as running:
        end = await running.turn("two notes please")
        assert end.outcome == "denied"
        assert statuses(running.state) == [WorkStatus.PENDING]


async def test_the_user_approves_as_shown_and_the_rest_runs_by_itself(tmp_path: Path) -> None:
    """Approved for all steps: they run, adaptive, although the model asks for nothing more.

    Covers S2-22, S3-8.
    """
    replies = script(
        PROPOSE,
        done("All is done."),
        plan=plan_reply("first note", "second note"),
        task=(
            decision("", action("file_ops.write_file", path="a.txt", content="a\n")),
            done("First note done."),
            decision(
                "Second.",
                action("file_ops.write_file", path="b.txt", content="b\n"),
                next_step="done",
            ),
        ),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await running.engine.send("two notes please")
        shown = await card(running)
        assert shown.kind is CardKind.PLAN
        assert running.state.live == {}  # no call is on its way while the plan waits
        assert running.active_plan.status is PlanStatus.DRAFT
        await answer(running, "run_all")
        end = await running.ended()
        assert end.outcome == "done"
        assert end.reply == "All is done."
        assert "approved the plan and wants all steps run" in running.results()[0].result.text
        assert statuses(running.state) == [WorkStatus.COMPLETED] * 2
        tasks = (
            [s.task_list[0] for s in running.active_plan.steps]
            if (running.state.active_plan)
            else []
        )
        assert [task.status for task in tasks] == [WorkStatus.COMPLETED] * 2
        assert all(task.duration_s > 0 for task in tasks)
        calls = running.active_plan.steps[0].calls if running.state.active_plan else 0
        assert calls == 2


async def test_a_rejected_plan_does_not_run_and_the_reason_reaches_the_model(
    tmp_path: Path,
) -> None:
    """Covers C35. With what the user wrote on its steps, and who makes the next plan reads it."""
    replies = script(
        PROPOSE,
        decision("", action("task_loop.run")),
        PROPOSE,
        done("Then I will not."),
        plan=(plan_reply("first note", "second note"), plan_reply("one note")),
    )
    remarks = (
        Remark(number=1, line="first note", said="name it a.md"),
        Remark(number=2, line="second note", said="not needed"),
    )
    async with session(tmp_path, replies) as running:
        await running.engine.send("two notes please")
        await answer(running, "reject", "too many files", remarks=remarks)
        await running.until(lambda _: len(running.server.of("plan")) == 2)
        assert "2 second note: not needed" in str(running.server.of("plan")[1].text)
        await answer(running, "reject", remarks=remarks[:1])
        end = await running.ended()
        tried = running.results()[1].result
        assert tried.outcome is Outcome.INVALID
        assert "is rejected; it runs only as the user approved it" in tried.text
        assert running.active_plan.status is PlanStatus.REJECTED
        assert running.results()[0].result.text.split("\n") == [
            "The user rejected the plan: too many files",
            "Remarks on steps of the plan:",
            '1. step 1: "first note"',
            "   The user's remark: name it a.md",
            '2. step 2: "second note"',
            "   The user's remark: not needed",
            "Do not carry it out. Take all that they said into account and propose another, or ask "
            "what they want instead.",
        ]
        assert "too many files" in str(running.server.requests[-1].text)
        assert 'step 1: "first note"' in running.results()[2].result.text
        assert end.outcome == "done"
        assert statuses(running.state) == [WorkStatus.PENDING]


async def test_what_does_not_fit_the_plan_is_refused_with_the_reason(tmp_path: Path) -> None:
    """S2-16: a step begins in its turn, ends once, and is named as the plan names it."""
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "only what runs can end": (
            "plan_tool.update_step",
            {"step_id": "1", "status": "completed"},
        ),
        "cannot begin: it is pending": ("task_loop.run", {"step_id": "2"}),
        "'second note' cannot begin": (
            "plan_tool.update_step",
            {"step_id": "2", "status": "in_progress"},
        ),
        "The plan has no step '9'": ("task_tool.generate_list", {"step_id": "9"}),
        "There is no plan p9.": ("plan_tool.get", {"plan_id": "p9"}),
        '"notes", approved, 0 of 2 steps done.': ("plan_tool.get", {}),
        "No work is going on.": ("task_loop.stop", {}),
    }
    actions = [action(name, **args) for name, args in calls.values()]
    replies = script(PROPOSE, decision("", *actions), plan=plan_reply("first note", "second note"))
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        await running.until(lambda _: len(running.results()) > len(calls))
        for words, told in zip(calls, running.results()[1:], strict=True):
            assert words in told.result.text


async def test_step_by_step_asks_between_steps(tmp_path: Path) -> None:
    """Step by step lists the tasks beforehand, reports, and waits for the user (S2-23)."""
    replies = script(
        PROPOSE,
        done("The plan stands."),
        done("Stopped after one."),
        plan=plan_reply("first note", "second note"),
        tasks=tasks_reply(write("a.txt")),
        report=report_reply(next_action="write the second"),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        await card(running, CardKind.REPORT)
        assert "approved the plan and wants it step by step." in running.results()[0].result.text
        shown = running.state.cards[0]
        assert shown.report is not None
        assert shown.report.summary == "the note is there"
        assert "write the second" in [option.label for option in shown.options]
        assert statuses(running.state) == [WorkStatus.COMPLETED, WorkStatus.PENDING]
        await answer(running, "stop")
        end = await running.ended()
        assert end.outcome == "partial"
        assert [e.outcome for e in running.events(WorkFinished)] == ["waiting"]
        assert statuses(running.state) == [WorkStatus.COMPLETED, WorkStatus.PENDING]


async def test_a_failing_task_replans_the_rest_and_is_never_done(tmp_path: Path) -> None:
    """The model mends what the list could not. Covers C9."""
    read = {"operation": "file_ops.read_file", "args": {"path": "gone.txt"}, "description": "read"}
    replies = script(
        PROPOSE,
        done("Done after all."),
        plan=plan_reply("first note"),
        tasks=tasks_reply(read, write("never.txt")),
        task=decision(
            "Another way.",
            action("file_ops.write_file", path="a.txt", content="a"),
            next_step="done",
        ),
    )
    async with session(
        tmp_path, replies, mode="trusted", environ={"DUCKFLOW_EXECUTION__MODE": "tasklist"}
    ) as running:
        await begin_plan(running, asks="two notes please")
        end = await running.ended()
        plan = running.active_plan
        assert [task.status for task in plan.steps[0].task_list] == [
            WorkStatus.FAILED,
            WorkStatus.CANCELLED,
            WorkStatus.COMPLETED,
        ]
        progress = [(e.loop, e.limit) for e in running.events(WorkProgressed)]
        assert progress[:2] == [(0, 60), (1, 2)]
        assert not (running.workspace / "never.txt").exists()
        (asked,) = running.server.of("task")
        assert "gone.txt" in asked.text
        assert '[pending] file_ops.write_file(path: "never.txt"' in asked.text
        assert end.outcome == "done"


async def test_what_cannot_be_mended_is_reported_with_its_cause(tmp_path: Path) -> None:
    """A list fails, and the model knows no other way: the report says why, the turn is not done.

    Covers S2-20.
    """
    read = {"operation": "file_ops.read_file", "args": {"path": "gone.txt"}, "description": "read"}
    replies = script(
        PROPOSE,
        done("It did not work."),
        plan=plan_reply("first note", "second note"),
        tasks=tasks_reply(read),
        task=(decision("Which file?", next_step="pending_user"),) * 2,
        report=report_reply("completed", cause="the file is missing"),
    )
    async with session(
        tmp_path,
        replies,
        mode="trusted",
        headless=True,
        environ={"DUCKFLOW_EXECUTION__MODE": "tasklist"},
    ) as running:
        end = await running.turn("two notes please")
        assert len(running.server.of("tasks")) == 1
        report = running.events(ReportAdded)[0].message.report
        assert report.status == "failed"  # computed, whatever the model says
        assert report.cause == "the file is missing"
        assert (report.succeeded, report.failed) == (0, 1)
        assert statuses(running.state) == [WorkStatus.FAILED, WorkStatus.PENDING]
        assert running.active_plan.status is PlanStatus.FAILED
        assert end.outcome == "partial"
        rest = running.active_plan.steps[1]
        kept = PlanEdit(op="change", step_id=rest.step_id, name="the second note")
        assert await running.engine.plan.edit_steps((kept,)) is None
        assert running.active_plan.status is PlanStatus.FAILED  # one step failed, still


async def test_a_decision_error_is_an_error_never_a_completion(tmp_path: Path) -> None:
    """Covers S3-13, S3-26."""
    broken = Reply(text="{I cannot write JSON today.")
    replies = script(
        PROPOSE,
        done("It broke."),
        plan=plan_reply("first note"),
        task=(broken,) * 4,
        report=report_reply("failed", cause="unreadable"),
    )
    async with session(tmp_path, replies, mode="trusted", headless=True) as running:
        end = await running.turn("two notes please")
        assert statuses(running.state) == [WorkStatus.FAILED]
        assert end.outcome == "partial"


async def test_a_step_that_neither_acts_nor_ends_does_not_come_to_its_limit(
    tmp_path: Path,
) -> None:
    """Covers S3-21. Nobody is there to be asked; the turn ends with what was amiss."""
    replies = script(
        PROPOSE,
        done("It did not move."),
        plan=plan_reply("first note"),
        task=tuple(decision("thinking") for _ in range(9)),
        report=report_reply("failed"),
    )
    environ = {"DUCKFLOW_EXECUTION__MAX_STEPS": "4"}
    async with session(
        tmp_path, replies, mode="trusted", headless=True, environ=environ
    ) as running:
        end = await running.turn("two notes please")
        assert sum(r.purpose == "task" for r in running.server.requests) == 2
        assert statuses(running.state) == [WorkStatus.FAILED]
        assert end.outcome == "partial"
        assert end.reason is not None
        assert end.reason.code == "no_action"


async def test_a_circle_is_sent_back_with_the_reason(tmp_path: Path) -> None:
    """The first plan has a circle; the model is told and makes another, whose steps name each
    other by number. Covers S2-16.
    """

    def plan(*needs: str) -> Reply:
        steps = [
            {"id": name, "name": name, "description": "", "depends_on": [need] if need else []}
            for name, need in zip(("a", "b"), needs, strict=True)
        ]
        return plan_reply("a", "b", steps=steps)

    replies = script(PROPOSE, done("Rejected."), plan=(plan("b", "a"), plan("", " 1")))
    async with session(tmp_path, replies) as running:
        await running.engine.send("two notes please")
        await answer(running, "reject")
        await running.ended()
        asked = [r for r in running.server.requests if r.purpose == "plan"]
        assert len(asked) == 2
        assert "circle" in str(asked[1].text)
        a, b = running.state.plans[0].steps
        assert (a.depends_on, b.depends_on) == ((), (a.step_id,))


async def test_an_edit_by_the_user_is_shown_again_before_it_is_approved(tmp_path: Path) -> None:
    """Approval is bound to the plan as shown. Covers C35."""
    replies = script(
        PROPOSE,
        done("Fine."),
        done("Done."),
        plan=plan_reply("first note", "second note"),
        task=decision(
            "Written.",
            action("file_ops.write_file", path="a.txt", content="a\n"),
            next_step="done",
        ),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await running.engine.send("two notes please")
        first = await card(running)
        plan = running.active_plan
        problem = await running.engine.plan.edit_steps(
            (PlanEdit(op="drop", step_id=plan.steps[1].step_id),)
        )
        assert problem is None
        await running.until(lambda s: bool(s.cards) and s.cards[0].card_id != first.card_id)
        second = running.state.cards[0]
        assert second.before is not None
        assert len(second.before.steps) == 2
        stale = CardAnswer(card_id=second.card_id, subject=first.subject, action="run_all")
        try:
            await running.engine.answer_card(stale)
        except ValueError:
            pass
        else:
            raise AssertionError("an answer to what was shown before was taken")
        await answer(running, "run_all")
        end = await running.ended()
        assert end.outcome == "done"
        assert statuses(running.state) == [WorkStatus.COMPLETED]


async def test_a_question_beside_the_work_is_answered_while_it_goes_on(tmp_path: Path) -> None:
    """The step waits at a gate; a question is answered at once, the gate stays open.

    Covers S4-31.
    """
    replies = script(
        PROPOSE,
        done("We are at the first note."),
        done("All done."),
        plan=plan_reply("first note"),
        task=decision(
            "Written.",
            action("file_ops.write_file", path="a.txt", content="a\n"),
            next_step="done",
        ),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running, asks="two notes please")
        await running.gate()
        assert running.state.phase is Phase.EXECUTION  # although the last decision said REVIEW
        await running.engine.send("how far are you?", when="now")
        await running.until(
            lambda s: any(
                m.kind == "assistant" and m.aside and "first note" in m.text for m in s.messages
            )
        )
        assert running.state.gates
        assert running.state.work is not None
        asked = [m for m in running.state.messages if isinstance(m, UserMessage) and m.aside]
        assert [m.text for m in asked] == ["how far are you?"]
        await running.answer(GateChoice.ONCE)
        end = await running.ended()
        assert end.outcome == "done"
        assert end.reply == "All done."


async def test_beside_the_work_nothing_is_changed(tmp_path: Path) -> None:
    """A write asked for beside the work is skipped with the reason."""
    replies = script(
        PROPOSE,
        decision("I do it.", action("file_ops.write_file", path="x.txt", content="x")),
        done("It has to wait."),
        done("All done."),
        plan=plan_reply("first note"),
        task=decision(
            "Written.",
            action("file_ops.write_file", path="a.txt", content="a\n"),
            next_step="done",
        ),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running, asks="two notes please")
        await running.gate()
        await running.engine.send("write x too", when="now")
        await running.until(
            lambda s: any(m.kind == "assistant" and "has to wait" in m.text for m in s.messages)
        )
        skipped = [m for m in running.results() if m.args.get("path") == "x.txt"]
        assert [m.result.outcome for m in skipped] == [Outcome.SKIPPED]
        assert not (running.workspace / "x.txt").exists()
        await running.answer(GateChoice.ONCE)
        await running.ended()


async def test_a_wish_changes_the_plan_once_the_user_accepts(tmp_path: Path) -> None:
    """While step 1 waits at a gate a wish becomes a plan change, a card, and then a third step."""
    wish = decision(
        "I would add a third note.",
        action(
            "plan_tool.revise",
            changes=[{"op": "add", "step_id": "n", "name": "third note", "depends_on": ["1"]}],
        ),
        next_step="done",
    )
    replies = script(
        PROPOSE,
        wish,
        done("All done."),
        plan=plan_reply("first note"),
        task=tuple(
            decision(
                f"Wrote {name}.",
                action("file_ops.write_file", path=name, content="a\n"),
                next_step="done",
            )
            for name in ("a.txt", "c.txt")
        ),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.gate()
        await running.engine.send("a third one too", when="now")
        await card(running, CardKind.PLAN_CHANGE)
        assert len(statuses(running.state)) == 1
        await answer(running, "accept")
        await running.until(lambda s: len(statuses(s)) == 2)
        plan = running.active_plan
        assert plan.approved == plan.fingerprint
        assert running.state.status is Status.REQUIRES_USER_INPUT  # the gate is still open
        await running.answer(GateChoice.ONCE)
        await running.answer(GateChoice.ONCE)
        end = await running.ended()
        assert end.outcome == "done"
        assert end.files_changed == ("a.txt", "c.txt")


async def test_stop_ends_the_step_and_the_plan_can_go_on(tmp_path: Path) -> None:
    """A stop leaves the step cancelled, nothing open; going on begins it again."""
    writes = decision(
        "Written.",
        action("file_ops.write_file", path="a.txt", content="a\n"),
        next_step="done",
    )
    replies = script(
        PROPOSE, done("All done."), plan=plan_reply("first note"), task=(writes, writes)
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.gate()
        running.engine.stop()
        end = await running.ended()
        assert end.outcome == "stopped"
        state = running.state
        assert statuses(state) == [WorkStatus.CANCELLED]
        assert (state.gates, state.cards, state.work) == ((), (), None)
        running.engine.resume()
        await running.answer(GateChoice.ONCE)
        assert (await running.ended(2)).outcome == "done"
        assert statuses(running.state) == [WorkStatus.COMPLETED]


async def test_a_breakpoint_asks_before_its_step(tmp_path: Path) -> None:
    replies = script(
        PROPOSE,
        done("All done."),
        plan=plan_reply("first note"),
        task=decision("", LOOK, next_step="done"),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await running.engine.send("notes please")
        await card(running)
        plan = running.active_plan
        assert running.engine.plan.set_break(plan.steps[0].step_id, True) is None
        await answer(running, "run_all")
        await card(running, CardKind.BREAKPOINT)
        assert statuses(running.state) == [WorkStatus.PENDING]
        await answer(running, "go_on")
        assert (await running.ended()).outcome == "done"
        plan = running.active_plan
        assert not plan.steps[0].break_before  # passed once, it is off


async def test_a_no_at_a_breakpoint_ends_the_work_and_leaves_it_set(tmp_path: Path) -> None:
    replies = script(PROPOSE, done("As you like."), plan=plan_reply("first note"))
    async with session(tmp_path, replies, mode="trusted") as running:
        await running.engine.send("notes please")
        await card(running)
        plan = running.active_plan
        assert running.engine.plan.set_break(plan.steps[0].step_id, True) is None
        await answer(running, "run_all")
        await answer(running, "stop", kind=CardKind.BREAKPOINT)
        await running.ended()
        assert (running.state.cards, running.state.work) == ((), None)
        assert len(running.events(CardOpened)) == 2
        assert [e.outcome for e in running.events(WorkFinished)] == ["waiting"]
        assert statuses(running.state) == [WorkStatus.PENDING]
        assert running.active_plan.steps[0].break_before


@pytest.mark.parametrize(("way", "outcome"), [("stop", "failed"), ("tell", "waiting")])
async def test_work_that_failed_waits_only_where_the_user_wants_something_else(
    tmp_path: Path, way: str, outcome: str
) -> None:
    replies = script(
        PROPOSE,
        done("As you like."),
        plan=plan_reply("first note", "second note"),
        task=decision("Which folder is it?", next_step="pending_user"),
        report=report_reply("failed"),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await answer(
            running, way, "write a letter instead" if way == "tell" else "", kind=CardKind.REPORT
        )
        await running.ended()
        assert [e.outcome for e in running.events(WorkFinished)] == [outcome]


async def test_a_key_that_does_not_fit_the_plan_says_why(tmp_path: Path) -> None:
    def key(told: LocalizedText | None) -> str:
        return told.key.removeprefix("plan.problem.") if told else ""

    replies = script(PROPOSE, done("No."), plan=plan_reply("first note", "second note"))
    async with session(tmp_path, replies) as running:
        keys = running.engine.plan
        assert key(keys.set_break("x", True)) == "no_plan"
        assert key(keys.run_plan()) == "no_plan"
        assert key(keys.retry_step("x")) == "not_over"
        assert key(keys.skip_step("x")) == "not_open"
        assert key(await keys.edit_steps(())) == "no_plan"
        await running.engine.send("notes please")
        await card(running)
        plan = running.active_plan
        first, second = (step.step_id for step in plan.steps)
        assert key(keys.run_plan()) == "not_approved"
        assert key(keys.set_break("nowhere", True)) == "not_now"
        assert key(keys.retry_step(first)) == "not_over"
        assert key(await keys.edit_steps((PlanEdit(op="drop", step_id=first),))) == "is_needed"
        for step_id in (first, second):
            assert key(keys.skip_step(step_id)) == ""
        assert statuses(running.state) == [WorkStatus.SKIPPED] * 2
        assert key(keys.set_break(first, True)) == "begun"
        await answer(running, "reject")
        await running.ended()


async def test_a_failed_step_is_retried_or_skipped_by_the_user(tmp_path: Path) -> None:
    """The report's card: retry runs it again; what failed is not gone past by itself."""
    asks = decision("Which folder is it?", next_step="pending_user")
    replies = script(
        PROPOSE,
        done("All done."),
        plan=plan_reply("first note", "second note"),
        task=(asks, asks, decision("", LOOK, next_step="done")),
        report=(report_reply("failed"), report_reply("failed")),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await answer(running, "retry", "look at the folder first", kind=CardKind.REPORT)
        await running.until(
            lambda s: (
                any(c.kind is CardKind.REPORT for c in s.cards)
                and s.active_plan is not None
                and s.active_plan.steps[0].runs == 2
            )
        )
        assert "look at the folder first" in str(
            [r.text for r in running.server.requests if r.purpose == "task"][1]
        )
        await answer(running, "skip")
        end = await running.ended()
        assert statuses(running.state) == [WorkStatus.SKIPPED, WorkStatus.COMPLETED]
        assert end.outcome == "done"


async def test_the_list_that_was_shown_is_the_list_that_runs(tmp_path: Path) -> None:
    """Covers S2-31."""
    tasks = tasks_reply(write("a.txt"), write("b.txt"))
    replies = script(
        PROPOSE,
        decision("I list it.", action("task_tool.generate_list", step_id="1")),
        done("I run it."),
        done("All done."),
        plan=plan_reply("first note"),
        tasks=tasks,
        report=report_reply(),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        assert (await running.ended()).outcome == "done"
        (begun,) = [e for e in running.events(StepChanged) if e.status is WorkStatus.IN_PROGRESS]
        assert begun.mode == "tasklist"
        listed = running.results()[1].result
        assert listed.text.startswith(f"2 tasks for step {begun.step_id} 'first note'")
        assert listed.summary == "2"
        progress = [(e.mode, e.loop, e.limit) for e in running.events(WorkProgressed)]
        assert progress[0] == (begun.mode, 0, 60)
        assert progress[1:] == [("tasklist", 1, 2), ("tasklist", 2, 2)]
        assert (running.workspace / "b.txt").exists()


@pytest.mark.parametrize("count", [SOFT_STEPS, SOFT_STEPS + 1, 300])
async def test_a_plan_of_many_steps_gets_a_word(tmp_path: Path, count: int) -> None:
    """Covers C24."""
    replies = script(PROPOSE, done("No."), plan=plan_reply(*(f"step {n}" for n in range(count))))
    async with session(tmp_path, replies) as running:
        await running.engine.send("a big one")
        await answer(running, "reject")
        await running.ended()
        assert ("plan.many_steps" in running.notices()) is (count > SOFT_STEPS)
        assert len(statuses(running.state)) == count


async def test_a_turn_without_a_word_is_asked_for_its_answer(tmp_path: Path) -> None:
    """Covers S3-23."""
    replies = script(
        decision("", action("file_ops.list_dir")), done(""), done("The folder is empty.")
    )
    async with session(tmp_path, replies, headless=True) as running:
        end = await running.turn("what is here?")
        assert end.reply == "The folder is empty."


async def test_a_step_is_a_part_of_the_conversation(
    tmp_path: Path,
) -> None:
    """What was read before is known in the step, what it did behind it, and each request begins
    as the one before did.
    """
    replies = script(
        PROPOSE,
        done("All done."),
        plan=plan_reply("first note"),
        task=(
            decision("looking around first", action("file_ops.list_dir")),
            done("The first note is as wanted."),
        ),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await running.ended()
        last = str([r.text for r in running.server.requests if r.purpose == "main"][-1])
        assert "The first note is as wanted." in last
        assert "looking around first" in last
        assert 'first note": completed' in running.server.of("main")[-1].text
        sent = [
            before_note(r)[1:] for r in running.server.requests if r.purpose in ("main", "task")
        ]
        assert all(after[: len(before)] == before for before, after in pairwise(sent[:4]))
        step_body = str([r.text for r in running.server.requests if r.purpose == "task"][-1])
        assert "looking around first" in step_body
        assert not [
            m
            for m in running.state.messages
            if isinstance(m, NoticeMessage) and (m.level == "error")
        ]


async def test_every_event_of_a_plan_is_in_the_record(tmp_path: Path) -> None:
    """Cards, steps and reports are records like all others."""
    replies = script(
        PROPOSE,
        done("All done."),
        plan=plan_reply("first note"),
        task=decision("", LOOK, next_step="done"),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running)
        await running.ended()
        assert running.events(CardOpened)
        assert [e.status for e in running.events(StepChanged)] == [
            WorkStatus.IN_PROGRESS,
            WorkStatus.COMPLETED,
        ]
        assert running.events(PlanAnswered)[0].run is RunMode.ALL


async def test_a_repair_beside_the_work_stays_out_of_the_conversation(tmp_path: Path) -> None:
    """The one who answers beside the work is told; the turn's own history is not touched."""
    replies = script(
        decision("", action("file_ops.write_file", path="a.txt", content="a")),
        Reply(text="{broken", when=When(pattern="how far")),
        done("Half way.", step="EXECUTION"),
        done("Written."),
    )
    async with session(tmp_path, replies) as running:
        await running.engine.send("write it")
        await running.gate()
        await running.engine.send("how far are you?", when="now")
        await running.until(
            lambda s: any(m.kind == "assistant" and m.text == "Half way." for m in s.messages)
        )
        await running.answer(GateChoice.ONCE)
        await running.ended()
        requests = [r for r in running.server.requests if r.purpose == "main"]
        assert "could not be used" in requests[2].text
        assert "could not be used" not in requests[-1].text


async def test_decisions_are_asked_for_at_a_low_temperature(tmp_path: Path) -> None:
    """Covers S3-11."""
    replies = script(
        PROPOSE,
        done("All done."),
        plan=plan_reply("first note"),
        task=decision("", LOOK, next_step="done"),
    )
    async with session(tmp_path, replies, mode="trusted", headless=True) as running:
        await running.turn("notes please")
        temperatures = {r.purpose: r.json.get("temperature") for r in running.server.requests}
        judges = {"satisfaction": None}
        assert temperatures == {"main": 0.1, "plan": None, "task": 0.1, **judges}


async def test_what_the_user_says_to_paused_work_reaches_the_step(tmp_path: Path) -> None:
    """Paused at a safe point, redirected: the step's next decision has the words, and acts."""
    replies = script(
        PROPOSE,
        done("All done."),
        plan=plan_reply("first note"),
        task=(
            decision("", action("file_ops.write_file", path="a.txt", content="a")),
            done("Called it b, as you said."),
        ),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.gate()
        running.engine.pause()
        await running.answer(GateChoice.ONCE)
        await running.until(lambda s: s.turn is not None and s.turn.pause == "paused")
        await running.engine.send("call it b", when="now")
        await running.ended()
        asked = [r for r in running.server.requests if r.purpose == "task"]
        assert "call it b" in asked[1].new_text
        assert statuses(running.state) == [WorkStatus.COMPLETED]


async def test_what_the_user_says_to_a_paused_list_leaves_the_rest_to_the_model(
    tmp_path: Path,
) -> None:
    """Nothing else of the list runs before the model has read it."""
    replies = script(
        PROPOSE,
        done("All done."),
        plan=plan_reply("first note"),
        tasks=tasks_reply(write("a.txt"), write("never.txt")),
        task=decision("b it is.", action("file_ops.list_dir"), next_step="done"),
    )
    environ = {"DUCKFLOW_EXECUTION__MODE": "tasklist"}
    async with session(tmp_path, replies, environ=environ) as running:
        await begin_plan(running)
        await running.gate()
        running.engine.pause()
        await running.answer(GateChoice.ONCE)
        await running.until(lambda s: s.turn is not None and s.turn.pause == "paused")
        await running.engine.send("call it b", when="now")
        await running.ended()
        (asked,) = running.server.of("task")
        assert "call it b" in asked.new_text
        assert "never.txt" in asked.text
        assert not (running.workspace / "never.txt").exists()
        assert statuses(running.state) == [WorkStatus.COMPLETED]


async def test_while_a_step_runs_long_a_question_is_answered_and_a_stop_ends_its_children(
    tmp_path: Path,
) -> None:
    """A step of a minute: the answer comes beside it, the step goes on, a stop leaves no child
    behind, not even one that has left its process group. Covers S4-31.
    """
    own = f"{os.getpid()}"  # several runs on one machine look at the same processes
    group, gone = f"61.{own}", f"62.{own}"  # seconds, longer than any wait of this test
    command = f"setsid sleep {gone} & sleep {group} & echo begun; wait"
    replies = script(
        PROPOSE,
        done("Still at the first note."),
        plan=plan_reply("first note"),
        task=decision("", action("shell.run", command=command)),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running)
        await running.answer(GateChoice.ONCE)
        await running.until(lambda s: any("begun" in o.text for o in s.outputs.values()))
        await running.engine.send("how far are you?", when="now")
        await running.until(
            lambda s: any(m.kind == "assistant" and "Still at" in m.text for m in s.messages)
        )
        assert running.state.work is not None
        assert running.state.running
        begun: list[str] = []
        async with asyncio.timeout(DEADLINE):
            while begun != [group, gone]:  # the shell may not have become them yet
                begun = sleepers(own)
                await asyncio.sleep(0)
        running.engine.stop()
        end = await running.ended()
        assert end.outcome == "stopped"
        assert sleepers(own) == []
        assert statuses(running.state) == [WorkStatus.CANCELLED]


async def test_a_plan_is_asked_of_the_creative_role_with_the_request_and_the_tools(
    tmp_path: Path,
) -> None:
    """Covers S1-6, S1-5."""
    replies = script(PROPOSE, plan=plan_reply("first note", "second note"))
    async with session(tmp_path, replies, roles={"creative": "cli/planner"}) as running:
        await running.engine.send("two notes please")
        await card(running)
        (asked,) = running.server.of("plan")
        assert asked.json["model"] == "planner"
        assert "two notes" in asked.text
        assert "file_ops.write_file" in asked.text
        plan = running.active_plan
        assert [step.name for step in plan.steps] == ["first note", "second note"]
        running.engine.stop()
        await running.ended()


@pytest.mark.parametrize(
    ("name", "goal", "shown"),
    [
        ("notes", "both in one folder", ("notes", "both in one folder")),
        (" ", "", ("two notes", "two notes")),
    ],
)
async def test_a_plan_is_named_as_its_maker_says_or_after_what_was_asked_for(
    tmp_path: Path, name: str, goal: str, shown: tuple[str, str]
) -> None:
    reply = plan_reply("first note", name=name, goal=goal)
    replies = script(PROPOSE, done("No."), plan=reply)
    async with session(tmp_path, replies) as running:
        await running.engine.send("two notes please")
        await answer(running, "reject")
        await running.ended()
        (plan,) = running.state.plans
        assert (plan.name, plan.goal) == shown


async def test_why_no_plan_could_be_had_is_said_to_the_user_and_the_model(tmp_path: Path) -> None:
    replies = script(PROPOSE, done("Then without."), plan=Reply(fault=Fault(status=401)))
    async with session(tmp_path, replies, mode="trusted") as running:
        await running.turn("two notes please")
        (result,) = running.results()
        assert result.result.text.startswith("The plan could not be made: ")
        code = result.result.text.removeprefix("The plan could not be made: ").rstrip(".")
        assert f"llm.error.{code}" in running.notices()
