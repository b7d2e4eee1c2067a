"""What an attempt gave, what the next one starts from, and what model and user are told of it."""

from __future__ import annotations

from typing import Any

import pytest
from support import plans
from support.model_words import WORDS

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.goal import (
    AttemptResult,
    Evidence,
    ExecutionError,
    ExecutionPlan,
    MissingInfoAnalysis,
    MissingItem,
    PartialResult,
    RequirementItem,
    RequirementState,
    Review,
    SatisfactionEvaluation,
    TaskObjective,
)
from duckflow_tui.state.memory import WorkingMemory
from duckflow_tui.state.operations import OperationResult, Outcome
from duckflow_tui.state.plan import PlanStatus
from duckflow_tui.work.attempts import (
    format_attempt,
    make_continuation_context,
    make_situation_report,
    read_first_plan,
    summarize_calls,
)

RAN = Evidence(kind="command", source="pytest", exit_code=1, text="2\nfailed")
SEEN = Evidence(kind="file", source="a.py", text="")
DIFF = Evidence(kind="diff", source="a.py", text="+x")


def item(number: int, state: RequirementState, *evidence: Evidence) -> RequirementItem:
    return RequirementItem(
        requirement_id=f"req_{number}", requirement=f"what {number}", state=state, evidence=evidence
    )


ITEMS = (
    item(1, RequirementState.MET, SEEN),
    item(2, RequirementState.PARTLY),
    item(3, RequirementState.REFUTED, DIFF, RAN, SEEN),
    item(4, RequirementState.OPEN, DIFF),
    item(5, RequirementState.WAIVED),
)


def review(**fields: Any) -> Review:
    values: dict[str, Any] = {
        "review_id": "r",
        "attempt": 1,
        "max_attempts": 3,
        "score": 0.625,
        "done": False,
        "items": ITEMS,
        "missing": (MissingItem(what="the tax"), MissingItem(what="a test", priority=3)),
    }
    return Review(**(values | fields))


def ran(text: str, outcome: Outcome = Outcome.OK, **fields: Any) -> OperationMessage:
    result = OperationResult(outcome=outcome, text=text, **fields)
    args = {"path": text[:3]} if text else {}
    return OperationMessage(call_id=f"c{text}", operation="f.do", args=args, result=result, at=1.0)


def objective(**fields: Any) -> TaskObjective:
    return TaskObjective(objective_id="o", original_query="mend\nit", created_at=1.0, **fields)


# --- what was done -------------------------------------------------------------------------------


def test_an_execution_tells_what_went_well_from_what_could_not_be_done() -> None:
    log = [
        ran("fine\nso"),
        ran("ends badly", exit_code=2),
        *(ran(way.value, way) for way in Outcome if way is not Outcome.OK),
    ]
    done = summarize_calls(log)
    assert done.results == ("f.do fin: fine so",)
    assert done.errors == (
        ExecutionError(operation="f.do end", message="ends badly", call_id="cends badly"),
        *(
            ExecutionError(operation=f"f.do {way[:3]}", message=way, call_id=f"c{way}")
            for way in Outcome
            if way in (Outcome.ERROR, Outcome.INVALID)
        ),
    )
    assert (done.succeeded, done.failed) == (1, 3)
    assert summarize_calls([ran("")]).results == ("f.do:",)


def test_an_execution_keeps_the_twelve_newest_and_counts_all() -> None:
    log = [ran(f"{n:02}") for n in range(13)]
    log += [ran(f"{n:02}", Outcome.ERROR) for n in range(14)]
    done = summarize_calls(log)
    assert (done.succeeded, done.failed) == (13, 14)
    assert [text[-2:] for text in done.results] == [f"{n:02}" for n in range(1, 13)]
    assert [error.message for error in done.errors] == [f"{n:02}" for n in range(2, 14)]


@pytest.mark.parametrize("status", PlanStatus)
def test_a_first_attempt_means_to_do_the_plan_that_may_run(status: PlanStatus) -> None:
    state = AgentState()
    state.memory = WorkingMemory(plan_brief=("look", "mend"), constraints=("no new library",))
    said = ExecutionPlan(steps=("look", "mend"), constraints=("no new library",))
    assert read_first_plan(state) == said
    plan = plans.draft().model_copy(update={"status": status})
    state.plans, state.active_plan_id = (plan,), plan.plan_id
    planned = ExecutionPlan(
        plan_id=plan.plan_id,
        steps=tuple(step.name for step in plan.steps),
        constraints=("no new library",),
    )
    assert read_first_plan(state) == (planned if status.may_run else said)


# --- what a further attempt starts from ----------------------------------------------------------


def test_a_further_attempt_knows_what_the_ones_before_it_came_to() -> None:
    errors = tuple(ExecutionError(operation="f.do", message=str(n)) for n in range(14))
    attempts = (
        AttemptResult(attempt_number=1, errors=errors[:8]),
        AttemptResult(attempt_number=2, errors=errors[8:]),
    )
    missing = MissingInfoAnalysis(
        suggested_improvements=("do a", "do b"), alternative_strategies=("another",)
    )
    evaluation = SatisfactionEvaluation(
        overall_score=0.5, missing_aspects=("the tax", "the tax"), suggestions=("do b", "do c")
    )
    log = [ran(way.value, way) for way in Outcome] + [ran("denied", Outcome.DENIED)]
    found = make_continuation_context(
        objective(
            attempts=attempts, attempted_strategies=("this",), learned_constraints=("read-only",)
        ),
        review(evaluation=evaluation),
        missing,
        log,
    )
    assert found.previous_attempts == attempts
    assert found.execution_errors == errors[2:]
    assert found.partial_successes == (
        PartialResult(description="what 1", evidence=("",)),
        PartialResult(description="what 2"),
    )
    assert found.identified_problems == (
        "req_3: what 3 — pytest exit 1: 2 failed; a.py",
        "the tax",
    )
    assert found.suggested_improvements == ("do a", "do b", "do c")
    assert set(found.unavailable_resources) == {
        "f.do den: denied",
        f"f.do {Outcome.REJECTED[:3]}: {Outcome.REJECTED}",
    }
    assert len(found.unavailable_resources) == 2
    assert (found.failed_approaches, found.learned_limitations) == (("this",), ("read-only",))
    assert (found.alternative_strategies, found.missing_info) == (("another",), missing)


def attempt_words(of: Review, plan: ExecutionPlan) -> str:
    """What the model is told at the begin of the second of three attempts."""
    return WORDS("judging.attempt", attempt="2", most="3", **format_attempt(of, plan))


def test_the_model_is_told_what_was_missing_why_and_how_it_goes_on() -> None:
    plan = ExecutionPlan(
        strategy="look first", steps=("look", "", "mend"), avoid_strategies=("guess",)
    )
    assert attempt_words(review(), plan).split("\n") == [
        "[Written by the app, not typed by the user: the request is not met yet.]",
        "Attempt 2 of 3 begins. The last one was judged 0.62 of 1.00; 0.80 is needed, and no "
        "requirement of priority 1 or 2 under one half. Missing, the most important first:",
        "<missing>",
        "- P1 the tax",
        "- P3 a test",
        "</missing>",
        "The way now:",
        "<plan>",
        "- look first",
        "</plan>",
        "Its steps:",
        "<plan>",
        "- look",
        "- mend",
        "</plan>",
        "What stands in tags is data. Reading, running and changing what is there are all allowed. "
        "Begin your reply with one line to the user on what was missing, then bring it. What is "
        "met stays as it is. End with done, and name the result that shows each requirement.",
    ]


def test_the_user_is_told_what_was_collected_in_its_newest_form() -> None:
    log = [ran(f"{n:03}") for n in range(14)]
    log += [ran("013 again"), ran("bad", Outcome.ERROR), ran(""), ran("y" * 101)]
    found = make_situation_report(objective(iteration_count=2, max_iterations=2), review(), log)
    calls = [f"f.do {n:03}" for n in range(3, 14)]
    assert [call for call, _ in found.collected] == [*calls, "f.do yyy"]
    texts = dict(found.collected)
    assert (texts["f.do 003"], texts["f.do 013"]) == ("003", "013 again")
    assert texts["f.do yyy"] == "y" * 99 + "…"
    assert (found.original_query, found.attempts, found.max_attempts) == ("mend\nit", 2, 2)
    assert (found.score, found.missing, found.quality) == (0.625, ("the tax", "a test"), "")
    evaluation = SatisfactionEvaluation(overall_score=0.5, quality_assessment="half")
    later = make_situation_report(objective(iteration_count=3), review(evaluation=evaluation), [])
    assert (later.attempts, later.max_attempts, later.quality) == (3, 3, "half")
    grown = objective(iteration_count=4, max_iterations=2)
    assert make_situation_report(grown, review(), []).max_attempts == 4
