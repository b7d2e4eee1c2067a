"""The ledger of requirements: what each of its events refuses, and what it leaves as it was."""

from __future__ import annotations

import pytest

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event, StateError
from duckflow_tui.state.decision import Check
from duckflow_tui.state.goal import (
    AttemptMessage,
    AttemptResult,
    AttemptStarted,
    ExecutionPlan,
    ObjectiveChanged,
    ObjectiveReviewed,
    RequirementEdited,
    RequirementItem,
    RequirementsFound,
    RequirementState,
    RequirementWaived,
    Review,
    ReviewMessage,
    TaskObjective,
)
from duckflow_tui.state.pace import LimitExtended, VitalChange, VitalsChanged

MET = RequirementItem(
    requirement_id="r1",
    requirement="x is 2",
    state=RequirementState.MET,
    satisfaction_level=1.0,
)


def with_objective(*items: RequirementItem) -> AgentState:
    state = AgentState()
    state.objective = TaskObjective(
        objective_id="o1", original_query="set x", created_at=1.0, extracted_requirements=items
    )
    return state


def found(*items: RequirementItem, objective_id: str = "o1") -> RequirementsFound:
    return RequirementsFound(objective_id=objective_id, items=items)


def new(requirement_id: str, text: str = "y is 3") -> RequirementItem:
    return RequirementItem(requirement_id=requirement_id, requirement=text)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (found(new("r2"), objective_id="o2"), "not the one in hand"),
        (found(new("r1")), "the same id"),
        (found(new("r2"), new("r2", "z is 4")), "the same id"),
        (found(MET.model_copy(update={"requirement_id": "r2"})), "is open"),
        (RequirementWaived(requirement_id="r2"), "no requirement r2"),
        (
            AttemptStarted(
                message=AttemptMessage(
                    message_id="m", attempt=2, max_attempts=3, plan=ExecutionPlan(), at=1.0
                )
            ),
            "no turn runs",
        ),
    ],
)
def test_what_does_not_belong_is_refused_and_changes_nothing(event: Event, why: str) -> None:
    """S1-12…15: the ledger holds each requirement once, and only of the request in hand."""
    state = with_objective(MET)
    before = state.objective
    with pytest.raises(StateError, match=why):
        event.apply(state)
    assert (state.objective, state.messages) == (before, [])


def test_no_requirement_is_lost_with_a_change_of_the_request() -> None:
    """Nor with one that is taken up again, in the place of another."""
    state = with_objective(MET)
    assert state.objective is not None
    without = state.objective.model_copy(update={"extracted_requirements": ()})
    with pytest.raises(StateError, match="r1 would be dropped"):
        ObjectiveChanged(objective=without).apply(state)
    again = without.model_copy(update={"objective_id": "o2"})
    state.earlier = (again,)
    with pytest.raises(StateError, match="r1 would be dropped"):
        ObjectiveChanged(objective=again).apply(state)


def test_a_review_leaves_what_the_user_changed_meanwhile() -> None:
    """What is waived, gone or asked in other words was not what was judged."""
    state = with_objective(
        new("r1"), new("r2").model_copy(update={"state": RequirementState.WAIVED}), new("r3")
    )
    before = state.objective
    assert before is not None
    met = {"state": RequirementState.MET, "satisfaction_level": 1.0}
    judged = [new(key).model_copy(update=met) for key in ("r1", "r2", "r9")]
    judged.append(new("r3", "in other words").model_copy(update=met))
    review = Review(
        review_id="v", attempt=1, max_attempts=3, score=0.5, done=False, items=tuple(judged)
    )
    message = ReviewMessage(message_id="m", review=review, at=1.0)
    result = AttemptResult(
        attempt_number=1,
        strategy="look",
        execution_plan=ExecutionPlan(strategy="look"),
        lessons_learned=("read-only",),
        results=("x",),
    )
    ObjectiveReviewed(message=message, result=result).apply(state)
    now = state.objective
    assert now is not None
    assert now.extracted_requirements == (judged[0], *before.extracted_requirements[1:])
    assert (now.iteration_count, now.current_satisfaction) == (1, 0.5)
    assert (now.learned_constraints, now.attempted_strategies) == (("read-only",), ("look",))
    assert (now.accumulated_results, now.attempts) == (("x",), (result,))
    assert (state.last_review, state.messages) == (review, [message])


def test_a_limit_is_extended_and_a_vital_moved_only_where_they_are() -> None:
    with pytest.raises(StateError, match="no limit was set"):
        LimitExtended(by=5).apply(AgentState())
    moved = VitalChange(vital="mood", old=0.1, new=0.2, cause="decision", at=1.0)
    with pytest.raises(StateError, match=r"mood is not 0\.1"):
        VitalsChanged(change=moved).apply(AgentState())


def test_without_a_request_there_is_no_ledger() -> None:
    for event in (found(new("r1")), RequirementEdited(item=new("r1"))):
        with pytest.raises(StateError, match="no objective"):
            event.apply(AgentState())


def test_new_requirements_join_behind_those_that_are_there() -> None:
    state = with_objective(MET)
    found(new("r2"), new("r3", "z is 4")).apply(state)
    assert state.objective is not None
    assert [r.requirement_id for r in state.objective.extracted_requirements] == ["r1", "r2", "r3"]
    assert state.objective.get_requirement("r1") == MET


@pytest.mark.parametrize(
    "change", [{"requirement": "x is 5"}, {"check": Check(kind="command", value="pytest -q")}]
)
def test_another_wording_or_check_is_the_users_and_not_shown_yet(change: dict[str, object]) -> None:
    state = with_objective(MET)
    RequirementEdited(item=MET.model_copy(update=change)).apply(state)
    assert state.objective is not None
    item = state.objective.get_requirement("r1")
    assert item is not None
    assert (item.state, item.satisfaction_level) == (RequirementState.OPEN, 0.0)
    assert item.by_user


def test_another_priority_leaves_what_was_shown() -> None:
    state = with_objective(MET)
    RequirementEdited(item=MET.model_copy(update={"priority": 3})).apply(state)
    assert state.objective is not None
    item = state.objective.get_requirement("r1")
    assert item == MET.model_copy(update={"priority": 3})


def test_a_requirement_is_waived_with_the_users_reason_and_taken_back() -> None:
    state = with_objective(MET)
    RequirementWaived(requirement_id="r1", because="not now").apply(state)
    assert state.objective is not None
    item = state.objective.get_requirement("r1")
    assert item is not None
    assert (item.is_counted, item.waived_because) == (False, "not now")
    RequirementWaived(requirement_id="r1", waived=False).apply(state)
    item = state.objective.get_requirement("r1")
    assert item is not None
    assert item.is_counted
