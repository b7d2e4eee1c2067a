"""A session cut in the middle of a plan, or of a change, goes on with the truth of both."""

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
from support.session import action, decision, done, script, session

from duckflow_tui.state.gates import CardKind, GateChoice, Remark
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.state.plan_events import ReportAdded, WorkProgressed
from duckflow_tui.tools.changes import PlannedChange

WRITE = action("file_ops.write_file", path="a.txt", content="a\n")
OTHER = action("file_ops.write_file", path="b.txt", content="b\n")


async def test_a_plan_that_waited_for_approval_waits_again_and_is_the_same(tmp_path: Path) -> None:
    replies = script(PROPOSE, plan=plan_reply("first note"))
    async with session(tmp_path, replies) as made:
        await made.engine.send("a note please")
        before = await card(made)
        made.cut()
    more = script(done("It stands."), done("Done."), task=decision("", WRITE, next_step="done"))
    async with session(tmp_path, more, resume=made.session_id) as made:
        shown = await card(made)
        assert (shown.kind, shown.subject) == (CardKind.PLAN, before.subject)
        assert shown.card_id != before.card_id
        assert len(made.state.plans) == 1
        assert made.server.requests == []
        await answer(made, "run_all")
        await made.answer(GateChoice.ONCE)
        assert (await made.ended()).outcome == "done"
        assert statuses(made.state) == [WorkStatus.COMPLETED]


async def test_a_changed_plan_that_waited_for_approval_waits_again_as_it_was_changed(
    tmp_path: Path,
) -> None:
    more = {"op": "add", "name": "second note"}
    replies = script(
        PROPOSE,
        decision("", action("plan_tool.revise", changes=[more])),
        plan=plan_reply("first note"),
    )
    async with session(tmp_path, replies) as made:
        await made.engine.send("a note please")
        first = await answer(made, "reject")
        await made.until(lambda s: bool(s.cards) and s.cards[0].card_id != first.card_id)
        before = made.state.cards[0]
        made.cut()
    async with session(tmp_path, script(done("As you like.")), resume=made.session_id) as made:
        shown = await answer(made, "reject", "not two")
        assert (shown.kind, shown.subject) == (CardKind.PLAN, before.subject)
        await made.ended()
        assert len(statuses(made.state)) == 2
        assert "not two" in made.results()[-1].result.text


async def test_remarks_on_an_open_gate_are_kept_for_exactly_that_call(tmp_path: Path) -> None:
    """Nothing is said to the program before its end; the answer takes them with it."""
    async with session(tmp_path, script(decision("", WRITE))) as made:
        await made.engine.send("a note please")
        before = await made.gate()
        said = (Remark(path="a.txt", number=1, line="a", said="longer"),)
        made.engine.keep_remarks(before.args_hash, said)
        made.cut()
    async with session(tmp_path, script(done()), resume=made.session_id) as made:
        again = await made.gate()
        assert again.gate_id != before.gate_id
        assert (made.state.remarks.about, made.state.remarks.remarks) == (again.args_hash, said)
        await made.answer(GateChoice.ONCE)
        await made.ended()
        assert made.state.remarks.remarks == ()


LOOK = action("file_ops.list_dir", path=".")


async def test_a_gate_in_a_step_opens_again_and_the_step_goes_on_behind_it(tmp_path: Path) -> None:
    """The step is not begun anew: what it had done stays done, its rest is carried out."""
    replies = script(
        PROPOSE,
        done("The plan stands."),
        plan=plan_reply("first note", "second note"),
        task=decision("Both.", WRITE, OTHER),
    )
    async with session(tmp_path, replies) as made:
        await begin_plan(made, asks="two notes")
        await made.answer(GateChoice.ONCE)
        await made.until(lambda s: bool(s.gates) and "b.txt" in str(s.gates[0].args))
        made.cut()
    assert (tmp_path / "work" / "a.txt").read_text() == "a\n"
    more = script(
        done("All done."), task=(done("First is done."), decision("Seen.", LOOK, next_step="done"))
    )
    async with session(tmp_path, more, resume=made.session_id) as made:
        gate = await made.gate()
        assert gate.args["path"] == "b.txt"
        assert statuses(made.state) == [WorkStatus.IN_PROGRESS, WorkStatus.PENDING]
        assert made.server.requests == []
        await made.answer(GateChoice.ONCE)
        end = await made.ended()
        assert statuses(made.state) == [WorkStatus.COMPLETED] * 2
        assert end.files_changed == ("a.txt", "b.txt")
        plan = made.active_plan
        assert [t.status for t in plan.steps[0].task_list] == [WorkStatus.COMPLETED] * 2
        assert "b.txt" in str(made.server.of("task")[0])
        first = plan.steps[0].step_id
        loops = [e.loop for e in made.events(WorkProgressed) if e.step_id == first]
        assert loops == [0, 2]  # it takes its second loop, not the first again
        report = made.events(ReportAdded)[0].message.report
        assert (report.succeeded, report.files_changed) == (2, ("a.txt", "b.txt"))


async def test_a_list_goes_on_at_the_task_whose_gate_was_open(tmp_path: Path) -> None:
    replies = script(
        PROPOSE,
        done("The plan stands."),
        plan=plan_reply("both notes"),
        tasks=tasks_reply(write("a.txt", "a\n"), write("b.txt", "b\n")),
    )
    async with session(tmp_path, replies) as made:
        await begin_plan(made, "run_steps", asks="two notes")
        await made.answer(GateChoice.ONCE)
        await made.until(lambda s: bool(s.gates) and "b.txt" in str(s.gates[0].args))
        made.cut()
    more = script(done("All done."), report=report_reply())
    async with session(tmp_path, more, resume=made.session_id) as made:
        assert (await made.gate()).args["path"] == "b.txt"
        await made.answer(GateChoice.ONCE)
        await made.ended()
        plan = made.active_plan
        assert [t.status for t in plan.steps[0].task_list] == [WorkStatus.COMPLETED] * 2
        assert made.server.of("tasks") == []


async def test_a_report_that_asked_asks_again(tmp_path: Path) -> None:
    replies = script(
        PROPOSE,
        done("The plan stands."),
        plan=plan_reply("first note", "second note"),
        tasks=tasks_reply(write("a.txt")),
        report=report_reply(),
    )
    async with session(tmp_path, replies, mode="trusted") as made:
        await begin_plan(made, "run_steps", asks="two notes")
        await card(made, CardKind.REPORT)
        before = made.state.cards[0]
        made.cut()
    more = script(done("Both."), tasks=tasks_reply(write("b.txt")), report=report_reply())
    async with session(tmp_path, more, resume=made.session_id, mode="trusted") as made:
        shown = await card(made)
        assert (shown.kind, shown.subject) == (CardKind.REPORT, before.subject)
        assert statuses(made.state) == [WorkStatus.COMPLETED, WorkStatus.PENDING]
        await answer(made, "go_on")
        await made.ended()
        assert statuses(made.state) == [WorkStatus.COMPLETED] * 2
        told = made.server.of("main")[-1].text
        assert told.count('second note": completed') == 1


async def test_a_step_cut_at_its_decision_waits_for_the_users_key(tmp_path: Path) -> None:
    reply = decision("I write the note now.", WRITE, next_step="done")
    held = reply.model_copy(update={"hold": "rest", "hold_after": 10})
    replies = script(PROPOSE, plan=plan_reply("first note"), task=held)
    async with session(tmp_path, replies, mode="trusted") as made:
        await begin_plan(made, asks="a note")
        await made.until(lambda s: any(live.step_id for live in s.live.values()))
        made.cut()
        made.server.release("rest")
    more = script(done("Done."), task=reply)
    async with session(tmp_path, more, resume=made.session_id, mode="trusted") as made:
        await made.until(lambda s: s.turn is not None and s.turn.pause == "paused")
        assert made.server.requests == []
        made.engine.resume()
        assert (await made.ended()).outcome == "done"
        assert statuses(made.state) == [WorkStatus.COMPLETED]


@pytest.mark.parametrize("made_it", [True, False])
async def test_a_change_that_was_cut_is_told_by_what_the_file_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_it: bool
) -> None:
    """The hashes decide; what was done can be undone."""
    make = PlannedChange.make_change

    async with session(tmp_path, script(decision("I write.", WRITE))) as made:

        async def cut(change: PlannedChange, workspace: object, keep: object) -> object:
            made.cut()
            if made_it:
                await make(change, workspace, keep)  # type: ignore[arg-type]  # what it was given
            raise OSError("the process ends here")

        monkeypatch.setattr(PlannedChange, "make_change", cut)
        (made.workspace / "a.txt").write_text("before\n")
        await made.engine.send("write")
        await made.answer(GateChoice.ONCE)
        await made.until(lambda s: not s.running and bool(made.results()))
    monkeypatch.undo()
    async with session(tmp_path, script(done("I see.")), resume=made.session_id) as made:
        [result] = made.results()
        assert result.result.outcome is Outcome.STOPPED
        assert bool(result.result.changes) is made_it
        wanted = "This was done" if made_it else "a.txt was not changed"
        assert wanted in result.result.text
        assert (made.workspace / "a.txt").read_text() == ("a\n" if made_it else "before\n")
        made.engine.resume()
        await made.ended()
        await made.engine.undo()
        assert (made.workspace / "a.txt").read_text() == "before\n"


async def test_where_the_folder_is_another_one_than_before_user_and_model_are_told(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, script(done("Hello."))) as s:
        await s.turn("Hello?")
    (tmp_path / "work").rename(tmp_path / "before")
    async with session(tmp_path, script(done("I look.")), resume=s.session_id) as s:
        assert "resume.another_folder" in s.notices()
        await s.turn("Go on.")
        sent = str(s.server.of("main")[-1].json["messages"])
        assert "The workspace is another folder than before: read files again." in sent


async def test_a_gate_in_a_step_that_a_reply_to_the_one_before_asked_for_opens_again(
    tmp_path: Path,
) -> None:
    """One reply ended the first step and went on with the second: that is not asked for anew."""
    ends = action("plan_tool.update_step", step_id="1", status="completed")
    replies = script(
        PROPOSE,
        plan=plan_reply("first note", "second note"),
        task=decision("Both.", WRITE, ends, OTHER, next_step="done"),
    )
    async with session(tmp_path, replies) as made:
        await begin_plan(made, asks="two notes")
        await made.answer(GateChoice.ONCE)
        await made.until(lambda s: bool(s.gates) and "b.txt" in str(s.gates[0].args))
        made.cut()
    more = script(done("All done."))
    async with session(tmp_path, more, resume=made.session_id) as made:
        gate = await made.gate()
        assert gate.args["path"] == "b.txt"
        assert statuses(made.state) == [WorkStatus.COMPLETED, WorkStatus.IN_PROGRESS]
        await made.answer(GateChoice.ONCE)
        await made.ended()
        assert statuses(made.state) == [WorkStatus.COMPLETED] * 2
        assert made.server.of("task") == []
