"""The pacemaker inside a step of a plan, and in a further attempt: each has its own limit."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pace_talk import (
    ANALYSIS,
    LONG,
    consulted,
    files,
    next_request,
    reads,
)
from support.plan_talk import PROPOSE, answer, begin_plan, plan_reply, statuses
from support.reviews import WORDS, judged, works
from support.session import Session, action, decision, done, script, session

from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.gates import CardKind, CardOpened
from duckflow_tui.state.pace import (
    LimitExtended,
    LimitSet,
    Pattern,
    Situation,
    TaskProfile,
    VitalsChanged,
    running_pace,
)
from duckflow_tui.state.plan import PlanStatus, WorkStatus
from duckflow_tui.state.plan_events import ReportAdded, WorkProgressed
from duckflow_tui.state.turn import LoopStarted
from duckflow_tui.work.vitals import compute_vital


def planned(
    *task: Reply, main: tuple[Reply, ...] = (), steps: tuple[str, ...] = ("look around",)
) -> Script:
    """A plan, of one step as a rule, which the user approves, and the decisions inside it."""
    return script(PROPOSE, *main, plan=plan_reply(*steps, chain=False), task=task, failure=ANALYSIS)


PLAN_ENDS = (done("The plan stands."), done("All done."))
TWO = {**LONG, "DUCKFLOW_EXECUTION__MAX_STEPS": "2"}


async def step_at_limit(s: Session) -> Situation:
    """The consultation about the limit of the step."""
    await begin_plan(s, asks="two notes please")
    await s.until(lambda state: any(c.situation is not None for c in state.cards))
    shown, situation = await consulted(s)
    assert shown.step_id
    assert situation.pattern is Pattern.LIMIT
    return situation


async def test_a_step_that_reads_to_good_purpose_is_not_stopped(tmp_path: Path) -> None:
    """Covers S0-58. Nothing says its kind: eight loops at first."""
    names = files(tmp_path / "work", 12)
    scripted = planned(*(reads(name) for name in names), done("Looked."), main=PLAN_ENDS)
    async with session(tmp_path, scripted) as s:
        await begin_plan(s, asks="two notes please")
        assert (await s.ended()).outcome == "done"
        assert statuses(s.state) == [WorkStatus.COMPLETED]
        assert len(s.results()) == 13  # the plan's own call with them
        assert [c for e in s.events(CardOpened) if (c := e.card).situation] == []
        assert s.notices().count("pace.grown") == 1
        assert s.events(LimitExtended) == []  # the turn's limit has nothing to do with it
        assert {e.limit for e in s.events(WorkProgressed) if e.loop} == {8, 13}


@pytest.mark.parametrize(
    ("said", "chosen", "limit"),
    [(None, None, 8), ("RESEARCH", None, 16), ("RESEARCH", TaskProfile.SIMPLE_QUESTION, 5)],
)
async def test_the_limit_of_a_step_comes_from_its_kind_as_a_turns_does(
    tmp_path: Path, said: str | None, chosen: TaskProfile | None, limit: int
) -> None:
    """Covers S0-58."""
    names = files(tmp_path / "work", 2)
    fields = {"task_profile": said} if said else {}
    tasks = (reads(names[0], **fields), reads(names[1]), done("Looked."))
    scripted = planned(*tasks, main=PLAN_ENDS)
    plan = {"plan": (plan_reply("note"),)}
    scripted = scripted.model_copy(update={"replies": {**scripted.replies, **plan}})
    async with session(tmp_path, scripted) as s:
        s.engine.pace.choose_profile(chosen)
        await begin_plan(s, asks="two notes please")
        await s.ended()
        limits = [e.limit for e in s.events(WorkProgressed) if e.loop]
        assert limits[1] == limit
        assert s.objective.profile is None  # what a step is says nothing of the request


async def test_the_context_and_the_vitals_make_the_limit_of_a_step(tmp_path: Path) -> None:
    """Covers S0-58. Work that goes well (× 1.2), and many files read (× 1.13)."""
    names = files(tmp_path / "work", 20)
    scripted = planned(reads(names[0]), done("Looked."), main=(reads(*names), *PLAN_ENDS))
    first = (reads(*names), PROPOSE, *PLAN_ENDS)
    scripted = scripted.model_copy(update={"replies": {**scripted.replies, "main": first}})
    async with session(tmp_path, scripted) as s:
        await begin_plan(s, asks="two notes please")
        await s.ended()
        assert {e.limit for e in s.events(WorkProgressed) if e.loop} == {10}


async def test_a_step_that_brings_nothing_asks_before_its_limit_grows(tmp_path: Path) -> None:
    files(tmp_path / "work", 1)
    misses = [
        decision("I look.", action("file_ops.search_text", pattern=f"word{n}")) for n in range(9)
    ]
    async with session(tmp_path, planned(*misses, main=PLAN_ENDS)) as s:
        situation = await step_at_limit(s)
        assert (situation.loop, situation.limit) == (8, 8)
        s.engine.stop()
        await s.ended()


async def test_the_setting_caps_what_the_limit_of_a_step_grows_to(tmp_path: Path) -> None:
    """Covers S3-6."""
    names = files(tmp_path / "work", 12)
    scripted = planned(*(reads(name) for name in names), done("Looked."), main=PLAN_ENDS)
    environ = {"DUCKFLOW_EXECUTION__MAX_STEPS": "10"}
    async with session(tmp_path, scripted, environ=environ) as s:
        situation = await step_at_limit(s)
        assert (situation.loop, situation.limit) == (10, 10)
        await answer(s, "more_loops")  # the user's own word goes beyond it
        assert (await s.ended()).outcome == "done"


async def test_a_step_has_its_own_limit_and_goes_on_by_one_key(tmp_path: Path) -> None:
    """Covers S3-6."""
    names = files(tmp_path / "work", 3)
    tasks = [reads(name) for name in names]
    scripted = planned(*tasks, done("Looked."), main=PLAN_ENDS)
    async with session(tmp_path, scripted, environ=TWO) as s:
        situation = await step_at_limit(s)
        assert (situation.loop, situation.limit) == (2, 2)
        assert len(situation.tried) == 2
        assert s.state.pace is not None
        assert s.state.pace.limit.max_loops == 20
        await answer(s, "more_loops")
        assert (await s.ended()).outcome == "done"
        assert statuses(s.state) == [WorkStatus.COMPLETED]
        assert s.state.pace.limit.max_loops == 20  # of the turn, which was not at its limit
        assert len([r for r in s.server.requests if r.purpose == "task"]) == 4


@pytest.mark.parametrize(("way", "expected"), [("stop_work", "partial"), ("analyse", "partial")])
async def test_ending_a_step_ends_the_turn_without_another_question(
    tmp_path: Path, way: str, expected: str
) -> None:
    """Nor does a step begin that needs nothing of it."""
    names = files(tmp_path / "work", 3)
    looks = [reads(name) for name in names]
    steps = ("look around", "look elsewhere")
    scripted = planned(*looks, main=(done("All done."),), steps=steps)
    async with session(tmp_path, scripted, environ=TWO) as s:
        await step_at_limit(s)
        await answer(s, way)
        assert (await s.ended()).outcome == expected
        assert statuses(s.state) == [WorkStatus.FAILED, WorkStatus.PENDING]
        (report,) = (e.message.report for e in s.events(ReportAdded))
        said = "waits" if way == "analyse" else "stopped"
        assert report.told == LocalizedText(
            key=f"work.cause.{said}"
        )  # nobody else had a word for it
        kinds = [e.card.kind for e in s.events(CardOpened)]
        assert kinds == [CardKind.PLAN, CardKind.CONSULTATION]


async def test_the_limit_that_stops_a_step_is_the_one_that_is_explained(tmp_path: Path) -> None:
    """Also once it was raised; the turn's own one is explained again when the step has ended."""
    names = files(tmp_path / "work", 3)
    looks = (*(reads(name) for name in names), Reply(decision=done("Looked.").decision, hold="a"))
    scripted = planned(*looks, main=PLAN_ENDS)
    async with session(tmp_path, scripted, environ=TWO) as s:
        situation = await step_at_limit(s)
        told = running_pace(s.state)
        assert told is not None
        assert (told.limit.max_loops, told.used, situation.limit) == (2, 2, 2)
        assert "clamped" in [reason.code for reason in told.limit.reasoning]
        await answer(s, "more_loops")
        await s.server.reached("a")
        told = running_pace(s.state)
        assert told is not None
        assert (told.limit.max_loops, told.limit.extended, told.used) == (7, 5, 4)
        assert told.consultations == (Pattern.LIMIT,)
        s.server.release("a")
        await s.ended()
        assert running_pace(s.state) == s.state.pace


async def test_an_accepted_step_is_over_and_the_turn_goes_on(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 3)
    scripted = planned(*(reads(name) for name in names), main=PLAN_ENDS)
    async with session(tmp_path, scripted, environ=TWO) as s:
        await step_at_limit(s)
        await answer(s, "accept_result")
        await s.ended()
        assert statuses(s.state)[:1] == [WorkStatus.COMPLETED]
        assert s.state.plans[0].steps[0].taken
        assert not s.objective.closed


async def test_a_step_that_stands_still_asks_in_its_own_thread(tmp_path: Path) -> None:
    files(tmp_path / "work", 1)
    repeated = [reads("f00.py") for _ in range(4)]
    scripted = planned(*repeated, done("Looked."), main=(done("All done."),))
    async with session(tmp_path, scripted, environ=LONG) as s:
        await begin_plan(s, asks="two notes please")
        await s.until(lambda state: any(c.situation is not None for c in state.cards))
        _, situation = await consulted(s)
        assert (situation.pattern, situation.loop) == (Pattern.STAGNATION, 4)
        await answer(s, "more_info", "it is in f00.py, line 1")
        await s.ended()
        asked = [r for r in s.server.requests if r.purpose == "task"]
        assert "it is in f00.py, line 1" in asked[-1].new_text


async def test_a_step_that_is_to_be_split_goes_back_to_the_conversation(tmp_path: Path) -> None:
    files(tmp_path / "work", 3)
    unsure = [reads(f"f0{n}.py", confidence=0.0) for n in range(2)]
    scripted = planned(*unsure, main=(done("I change the plan."),))
    async with session(tmp_path, scripted, environ=LONG) as s:
        await begin_plan(s, asks="two notes please")
        await s.until(lambda state: any(c.situation is not None for c in state.cards))
        await answer(s, "split")
        await s.ended()
        assert "split into smaller ones" in next_request(s)


async def test_nobody_to_ask_at_the_limit_of_a_step_ends_the_turn(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 3)
    scripted = planned(*(reads(name) for name in names), main=(done("All done."),))
    async with session(tmp_path, scripted, environ=TWO, mode="trusted", headless=True) as s:
        assert (await s.turn("two notes please")).outcome == "limit"
        assert statuses(s.state) == [WorkStatus.FAILED]


async def test_a_further_attempt_has_its_own_limit_and_a_met_requirement_is_progress(
    tmp_path: Path,
) -> None:
    """Covers S0-31."""
    scripted = script(
        works(WORDS), done("One."), done("Two."), satisfaction=(judged(0.4), judged(0.9))
    )
    async with session(tmp_path, scripted, mode="trusted") as s:
        assert (await s.turn("write the notes")).outcome == "done"
        assert [e.fresh for e in s.events(LimitSet)] == [True, False, False]
        assert [e.loop for e in s.events(LoopStarted)] == [1, 2, 1]
        tired = [e.change for e in s.events(VitalsChanged) if e.change.vital == "stamina"]
        attempts = [(c.inputs["attempt"], c.inputs["loops"]) for c in tired]
        assert (2.0, 0.0) in attempts
        changes = [e.change for e in s.events(VitalsChanged)]
        kinds = [change.params.get("kind") for change in changes]
        assert kinds.count("requirement") == 1  # to 0.9; one at 0.4 is refuted
        assert all(compute_vital(c.vital, c.inputs) == c.new for c in changes)


async def test_more_loops_are_the_steps_while_it_runs(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 3)
    held = reads(names[0]).model_copy(update={"hold": "rest"})
    looks = (held, *(reads(name) for name in names[1:]), done("Looked."))
    async with session(tmp_path, planned(*looks, main=PLAN_ENDS), environ=TWO) as s:
        await begin_plan(s)
        await s.server.reached("rest")
        assert s.active_plan.status is PlanStatus.IN_PROGRESS
        s.engine.pace.extend_limit()
        s.server.release("rest")
        assert (await s.ended()).outcome == "done"
        assert statuses(s.state) == [WorkStatus.COMPLETED]
        kinds = [e.card.kind for e in s.events(CardOpened)]
        assert kinds == [CardKind.PLAN]  # its limit of two was not in the way
        assert s.state.pace is not None
        assert s.state.pace.limit.max_loops == 20  # the turn's is as it was


async def test_a_step_that_was_helped_may_think_again(tmp_path: Path) -> None:
    """A decision without a call counts anew behind the user's answer."""
    files(tmp_path / "work", 1)
    unsure = (reads("f00.py", confidence=0.0), decision("Hm.", confidence=0.0))
    tasks = (*unsure, decision("Let me think."), done("Looked."))
    async with session(tmp_path, planned(*tasks, main=PLAN_ENDS), environ=LONG) as s:
        await begin_plan(s)
        await answer(s, "detailed_requirements", "only what f00.py says")
        assert (await s.ended()).outcome == "done"
        assert statuses(s.state) == [WorkStatus.COMPLETED]


async def test_more_loops_are_the_turns_once_the_step_has_ended(tmp_path: Path) -> None:
    held = done("All done.").model_copy(update={"hold": "rest"})
    replies = script(
        PROPOSE,
        held,
        plan=plan_reply("first note"),
        task=decision("First.", action("file_ops.list_dir", path="."), next_step="done"),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await begin_plan(s)
        await s.server.reached("rest")
        s.engine.pace.extend_limit()
        assert [e.by for e in s.events(LimitExtended)] == [5]
        s.server.release("rest")
        await s.ended()
