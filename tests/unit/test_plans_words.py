"""What a plan is in words for the model, and whether the user keeps it from going on."""

from __future__ import annotations

import pytest
from support import plans
from support.model_words import WORDS

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.plan import Halt, Plan, PlanEdit, PlanStatus, Step, WorkStatus, apply_edits
from duckflow_tui.state.plan_events import PlanRevised
from duckflow_tui.ui.panes.plan_rows import one_line, status_words
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.work.propose import describe_plan, find_held_steps


def step(number: int, *needs: str, **fields: object) -> Step:
    return Step.model_validate(
        {"step_id": f"s{number}", "name": f"step {number}", "depends_on": needs, **fields}
    )


def plan(*steps: Step) -> Plan:
    return Plan(plan_id=plans.PLAN, name="p", goal="the\ngoal", steps=steps)


def test_a_plan_is_a_line_for_each_of_its_steps() -> None:
    made = plan(
        step(1, status=WorkStatus.COMPLETED, description="look\nfirst"),
        step(2, "s1", note="half\nway", description="mend"),
        step(3, "s2", "s1"),
    )
    assert describe_plan(made, WORDS).split("\n") == [
        f'Plan {plans.PLAN} "p", {PlanStatus.DRAFT.value}, 1 of 3 steps done.',
        "Goal: the goal",
        "1. s1 [completed] step 1: look first",
        "2. s2 [pending] step 2 (depends_on 1): mend — half way",
        "3. s3 [pending] step 3 (depends_on 2, 1): ",
    ]


@pytest.mark.parametrize(("steps", "more"), [(50, []), (51, ["… and 1 more steps"])])
def test_of_a_long_plan_the_first_fifty_steps_are_told(steps: int, more: list[str]) -> None:
    lines = describe_plan(plan(*(step(number) for number in range(steps))), WORDS).split("\n")
    assert len(lines) == 52 + len(more)
    assert lines[52:] == more


# --- what keeps it from going on -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("halted", "accepted", "left"),
    [("wish", True, ""), ("wish", False, "wish"), ("stopped", True, "stopped")],
)
def test_an_accepted_change_is_the_users_word_on_their_wish_and_on_no_stop(
    halted: Halt, accepted: bool, left: Halt
) -> None:
    state = AgentState()
    old = plans.running().replace(halted=halted)
    state.plans = (old,)
    new = apply_edits(old, [PlanEdit(op="add", step_id="s9", name="more")])
    PlanRevised(plan=new, by="model" if accepted else "user", accepted=accepted).apply(state)
    assert state.get_plan(old.plan_id).halted == left


def test_only_steps_that_an_open_change_of_this_plan_would_touch_are_held_back() -> None:
    state = AgentState()
    card = plans.change_card()
    assert card.change is not None
    edits = (
        PlanEdit(op="change", step_id="s1", name="x"),
        PlanEdit(op="drop", step_id="s2"),
        PlanEdit(op="add", step_id="s3", name="y"),
    )
    change = card.change.model_copy(update={"edits": edits})
    state.cards = (plans.break_card(), card.model_copy(update={"change": change}))
    assert find_held_steps(state, plans.PLAN) == {"s1", "s2"}
    assert find_held_steps(state, "another") == frozenset()


def test_a_plan_that_was_stopped_is_not_called_failed() -> None:
    first, last = step(1, status=WorkStatus.COMPLETED), step(3, "s2")
    stopped = plan(first, step(2, status=WorkStatus.CANCELLED), last)
    failed = plan(first, step(2, status=WorkStatus.FAILED), step(3, status=WorkStatus.CANCELLED))
    for language, says in (("en", ("stopped", "failed")), ("ja", ("停止", "失敗"))):
        words = Catalogue(language)
        for made, said, mark in zip((stopped, failed), says, ("■", "✗"), strict=True):
            ended = made.replace(status=PlanStatus.FAILED)
            assert status_words(ended, words) == said
            of = words("gate.waiting", number=1, total=3)
            assert one_line(ended, words) == f"{mark} {of} p · {said}"
        assert words("plan.status.cancelled") == says[0]
