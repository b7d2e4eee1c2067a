"""How work is carried out: light and heavy, adaptive and by list, and what each costs."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from support.plan_talk import begin_plan
from support.session import action, decision, done, judged_good, note_of, script, session

from duckflow_tui.places import Places
from duckflow_tui.scripted.replies import Reply, Script, When
from duckflow_tui.settings import load_settings
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationFinished, OperationRequested
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan import PlanStatus, WorkStatus
from duckflow_tui.state.plan_events import WorkFinished
from duckflow_tui.state.store import Record

PROPOSE = decision("Planning.", action("plan_tool.propose", goal="notes"), step="PLANNING")
PLAN = Reply(
    data={
        "name": "notes",
        "goal": "two notes",
        "steps": [{"id": "s1", "name": "notes", "description": "write", "depends_on": []}],
        "risk": "low",
        "success_criteria": [],
    }
)
REPORT = Reply(data={"status": "completed", "summary": "written", "cause": "", "next_action": ""})


def write(path: str) -> dict[str, Any]:
    return action("file_ops.write_file", path=path, content=f"{path}\n")


def listed(path: str) -> dict[str, Any]:
    made = write(path)
    return {"operation": made["operation"], "args": made["args"], "description": path}


ADAPTIVE = (decision("", write("a.txt")), decision("Both.", write("b.txt"), next_step="done"))
TASKS = (Reply(data={"tasks": [listed("a.txt"), listed("b.txt")]}),)


def replies() -> Script:
    return script(
        PROPOSE,
        done("Run it."),
        done("Both notes are there."),
        plan=PLAN,
        task=ADAPTIVE,
        tasks=TASKS,
        report=REPORT,
    )


async def purposes(tmp_path: Path, environ: dict[str, str]) -> list[str]:
    async with session(
        tmp_path, replies(), mode="trusted", headless=True, environ=environ
    ) as running:
        end = await running.turn("two notes")
        assert end.outcome == "done"
        assert end.files_changed == ("a.txt", "b.txt")
        assert end.llm_calls == len(running.server.requests)
        return [request.purpose for request in running.server.requests]


async def test_the_setting_switches_between_adaptive_and_task_list(tmp_path: Path) -> None:
    """The same plan, the same files; adaptive costs a call for each action where a list costs one
    for all. Covers S3-5, S3-7.
    """
    for name in "ab":
        (tmp_path / name).mkdir()
    adaptive = await purposes(tmp_path / "a", {"DUCKFLOW_EXECUTION__ADAPTIVE_MODE": "true"})
    by_list = await purposes(tmp_path / "b", {"DUCKFLOW_EXECUTION__ADAPTIVE_MODE": "false"})
    assert adaptive.count("task") == 2
    assert "tasks" not in adaptive
    assert by_list.count("tasks") == 1
    assert "task" not in by_list
    assert "report" not in (*adaptive, *by_list)
    assert len(adaptive) == len(by_list) + 1


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ('mode = "tasklist"', "tasklist"),
        ("adaptive_mode = true", "adaptive"),
        ("adaptive_mode = false", "tasklist"),
        ("", "auto"),
        ('adaptive_mode = true\nmode = "tasklist"', "tasklist"),
    ],
)
def test_the_mode_has_two_spellings(tmp_path: Path, line: str, mode: str) -> None:
    """Covers S3-5."""
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path)})
    places.settings_file.parent.mkdir(parents=True, exist_ok=True)
    places.settings_file.write_text(f"[execution]\n{line}\n")
    loaded = load_settings(places, {})
    assert loaded.problems == []
    assert loaded.settings.execution.mode == mode


@pytest.mark.parametrize("protocol", ["json", "tools"])
async def test_two_operations_take_at_most_four_calls(
    tmp_path: Path, protocol: Literal["json", "tools"]
) -> None:
    """One look, then the next, the answer and its judgement: four; a chat answer is one.

    Covers S3-3, S3-4.
    """
    main = (
        decision("", action("file_ops.list_dir")),
        decision("", write("a.txt")),
        done("Done."),
        done("A plain answer."),
    )
    async with session(
        tmp_path, script(*main), protocol=protocol, mode="trusted", headless=True
    ) as running:
        assert (await running.turn("look, then write")).llm_calls == 4
        assert (await running.turn("what is a duck?")).llm_calls == 1


async def test_each_result_is_seen_before_the_next_call_is_chosen(tmp_path: Path) -> None:
    """Covers S3-2: nothing is planned ahead and filled in afterwards."""
    look = decision("", action("file_ops.read_file", path="a.txt"))
    chosen = decision("b.txt it is.", action("file_ops.read_file", path="b.txt"))
    missed = Reply(decision=chosen.decision, when=When(pattern="the next is b.txt"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("the next is b.txt\n")
    (tmp_path / "work" / "b.txt").write_text("a zebra\n")
    replies = script(look, missed, done("The end."))
    async with session(tmp_path, replies) as running:
        assert (await running.turn("follow the trail")).reply == "The end."
        told = [request.new_text for request in running.server.of("main")]
        assert ["the next is b.txt" in text for text in told] == [False, True, False]
        assert ["a zebra" in text for text in told] == [False, False, True]


async def test_light_actions_run_in_order_and_heavy_ones_in_a_worker_of_their_own(
    tmp_path: Path,
) -> None:
    """Covers S2-7, S2-4."""
    propose = action("plan_tool.propose", goal="notes")
    replies = {
        "main": (decision("", action("file_ops.list_dir"), propose), done("Done.")),
        "plan": (PLAN,),
        "task": (decision("Written.", write("b.txt"), next_step="done"),),
    }
    async with session(tmp_path, Script(replies=replies)) as running:
        await begin_plan(running, asks="go")
        await running.gate()
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert names.count("task") == 1
        assert "turn" in names
        await running.answer(GateChoice.ONCE)
        await running.ended()
        assert "task" not in [task.get_name() for task in asyncio.all_tasks()]
        assert [m.operation for m in running.results()] == [
            "file_ops.list_dir",
            "plan_tool.propose",
            "file_ops.write_file",
        ]
        assert [event.outcome for event in running.events(WorkFinished)] == ["completed"]


async def test_work_on_a_plan_is_offered_once_there_is_one(tmp_path: Path) -> None:
    """Covers S2-4."""
    async with session(tmp_path, replies(), mode="trusted", headless=True) as running:
        await running.turn("two notes")
        first, second = (request.text for request in running.server.of("main"))
        for name in ("file_ops.write_file", "plan_tool.propose"):
            assert f"- {name}(" in first
        for name in ("task_tool.generate_list", "task_loop.run"):
            assert f"- {name}(" not in first
            assert f"- {name}(" in second


async def test_plans_steps_and_tasks_have_their_shape(tmp_path: Path) -> None:
    """Ids, status and results as the state holds them after a run.

    Covers S2-12, S2-13, S2-14, S2-15, S3-10.
    """
    async with session(tmp_path, replies(), mode="trusted", headless=True) as running:
        await running.turn("two notes")
        plan = running.active_plan
        assert running.state.plans == (plan,)
        assert running.state.active_plan_id == plan.plan_id
        assert re.fullmatch(r"plan_[0-9a-f]{8}", plan.plan_id)
        assert plan.status is PlanStatus.COMPLETED
        step = plan.steps[0]
        assert re.fullmatch(r"step_[0-9a-f]{8}", step.step_id)
        assert step.status is WorkStatus.COMPLETED
        assert step.elapsed_s > 0
        report = next(m.report for m in running.state.messages if m.kind == "report")
        assert abs(step.elapsed_s - report.duration_s) < 1
        for task in step.task_list:
            assert re.fullmatch(r"task_[0-9a-f]{8}", task.task_id)
            assert task.status is WorkStatus.COMPLETED
            assert task.result
            assert task.duration_s > 0


async def test_a_failed_call_is_told_and_recorded_as_failed_with_its_reasoning(
    tmp_path: Path,
) -> None:
    """Covers S3-9, S3-12, S3-32."""
    main = (decision("", action("file_ops.read_file", path="gone.txt")), done("It is not there."))
    async with session(tmp_path, script(*main), headless=True) as running:
        await running.turn("read it")
        message = running.results()[0]
        assert message.result.outcome is Outcome.ERROR
        assert message.args == {"path": "gone.txt"}
        assert "[error]" in running.server.requests[1].new_text
        asked = running.events(OperationRequested)
        assert [event.reasoning for event in asked] == ["the request needs it"]


async def test_a_steps_last_word_is_its_report(tmp_path: Path) -> None:
    """``done`` with a reply ends the step with that reply, without another call. Covers S3-20."""
    environ = {"DUCKFLOW_EXECUTION__MODE": "adaptive"}
    wrote = (decision("", write("a.txt")), decision("Soon.", write("b.txt")), done("Both."))
    scripted = replies()
    scripted = scripted.model_copy(update={"replies": {**scripted.replies, "task": wrote}})
    async with session(
        tmp_path, scripted, mode="trusted", headless=True, environ=environ
    ) as running:
        await running.turn("two notes")
        reports = [m.report for m in running.state.messages if m.kind == "report"]
        assert [(r.status, r.summary) for r in reports] == [("completed", "Both.")]
        assert running.server.of("report") == []


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_adaptive_takes_one_action_a_decision_and_gives_the_rest_back(
    tmp_path: Path, protocol: Literal["tools", "json"]
) -> None:
    """In the turn itself: a model that asks for three at once makes the others again after it has
    seen the first. Covers S3-2, S3-7.
    """
    main = (
        decision("All at once.", write("a.txt"), write("b.txt"), write("c.txt")),
        decision("The second.", write("b.txt"), write("c.txt"), next_step="done"),
        decision("The last.", write("c.txt")),
        done("All three are there."),
    )
    environ = {"DUCKFLOW_EXECUTION__MODE": "adaptive"}
    scripted = judged_good(script(*main))
    async with session(tmp_path, scripted, mode="trusted", environ=environ, protocol=protocol) as s:
        assert (await s.turn("three notes")).outcome == "done"
        outcomes = [(m.args["path"], m.result.outcome) for m in s.results()]
        assert outcomes == [
            ("a.txt", Outcome.OK),
            ("b.txt", Outcome.SKIPPED),
            ("c.txt", Outcome.SKIPPED),
            ("b.txt", Outcome.OK),
            ("c.txt", Outcome.SKIPPED),
            ("c.txt", Outcome.OK),
        ]
        assert "one action a decision" in s.server.of("main")[1].new_text


@pytest.mark.parametrize("mode", ["auto", "tasklist"])
async def test_the_other_modes_take_all_actions_of_a_decision(tmp_path: Path, mode: str) -> None:
    main = (decision("Both.", write("a.txt"), write("b.txt")), done("There."))
    environ = {"DUCKFLOW_EXECUTION__MODE": mode}
    scripted = judged_good(script(*main))
    async with session(tmp_path, scripted, mode="trusted", environ=environ) as s:
        await s.turn("two notes")
        assert [m.result.outcome for m in s.results()] == [Outcome.OK, Outcome.OK]


async def test_an_adaptive_step_takes_one_action_and_is_not_done_by_what_did_not_run(
    tmp_path: Path,
) -> None:
    """Covers S3-2, S3-8."""
    scripted = replies()
    both = decision("Both.", write("a.txt"), write("b.txt"), next_step="done")
    scripted = scripted.model_copy(
        update={
            "replies": {
                **scripted.replies,
                "task": (both, decision("", write("b.txt"), next_step="done")),
            }
        }
    )
    environ = {"DUCKFLOW_EXECUTION__MODE": "adaptive"}
    async with session(tmp_path, scripted, mode="trusted", headless=True, environ=environ) as s:
        assert (await s.turn("two notes")).files_changed == ("a.txt", "b.txt")
        written = [m.result.outcome for m in s.results() if m.step_id]
        assert written == [Outcome.OK, Outcome.SKIPPED, Outcome.OK]
        assert "one action a decision" in s.server.of("task")[1].new_text


async def test_adaptive_runs_no_second_action_after_the_app_was_started_again(
    tmp_path: Path,
) -> None:
    main = (decision("Both.", write("a.txt"), action("shell.run", command="pytest -q")),)
    environ = {"DUCKFLOW_EXECUTION__MODE": "adaptive"}
    async with session(tmp_path, script(*main), mode="trusted", environ=environ) as s:

        def cut(state: AgentState, record: Record) -> None:
            if isinstance(record.event, OperationFinished):
                s.cut()

        s.store.subscribe(cut)
        await s.engine.send("two things")
        await s.until(lambda _: bool(s.results()))
    again = judged_good(script(done("The first is there.")))
    async with session(tmp_path, again, mode="trusted", environ=environ, resume=s.session_id) as s:
        s.engine.resume()
        await s.ended()
        assert [m.result.outcome for m in s.results()] == [Outcome.OK, Outcome.SKIPPED]


async def test_each_mode_is_told_to_the_model(tmp_path: Path) -> None:
    """Covers S3-7."""
    for mode in ("adaptive", "tasklist"):
        environ = {"DUCKFLOW_EXECUTION__MODE": mode}
        one = script(done("Hello.", step="PLANNING"))
        (tmp_path / mode).mkdir()
        async with session(tmp_path / mode, one, environ=environ) as s:
            await s.turn("hello")
            tail = note_of(s.server.of("main")[0])
            assert mode in tail
