"""The ledger of requirements: what each of its events refuses, and what it leaves as it was."""

from __future__ import annotations

import pytest

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event, StateError
from duckflow_tui.state.decision import Check
from duckflow_tui.state.goal import (
    AttemptMessage,
    AttemptStarted,
    ExecutionPlan,
    RequirementEdited,
    RequirementItem,
    RequirementsFound,
    RequirementState,
    RequirementWaived,
    TaskObjective,
)

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


def test_without_a_request_there_is_no_ledger() -> None:
    for event in (found(new("r1")), RequirementEdited(item=new("r1"))):
        with pytest.raises(StateError, match="no objective"):
            event.apply(AgentState())


def test_new_requirements_join_behind_those_that_are_there() -> None:
    state = with_objective(MET)
    found(new("r2"), new("r3", "z is 4")).apply(state)
    assert state.objective is not None
    assert [r.requirement_id for r in state.objective.extracted_requirements] == ["r1", "r2", "r3"]
    assert state.objective.requirement("r1") == MET


@pytest.mark.parametrize(
    "change", [{"requirement": "x is 5"}, {"check": Check(kind="command", value="pytest -q")}]
)
def test_another_wording_or_check_is_the_users_and_not_shown_yet(change: dict[str, object]) -> None:
    state = with_objective(MET)
    RequirementEdited(item=MET.model_copy(update=change)).apply(state)
    assert state.objective is not None
    item = state.objective.requirement("r1")
    assert item is not None
    assert (item.state, item.satisfaction_level) == (RequirementState.OPEN, 0.0)
    assert item.by_user


def test_another_priority_leaves_what_was_shown() -> None:
    state = with_objective(MET)
    RequirementEdited(item=MET.model_copy(update={"priority": 3})).apply(state)
    assert state.objective is not None
    item = state.objective.requirement("r1")
    assert item == MET.model_copy(update={"priority": 3})


def test_a_requirement_is_waived_with_the_users_reason_and_taken_back() -> None:
    state = with_objective(MET)
    RequirementWaived(requirement_id="r1", because="not now").apply(state)
    assert state.objective is not None
    item = state.objective.requirement("r1")
    assert item is not None
    assert (item.counts, item.waived_because) == (False, "not now")
    RequirementWaived(requirement_id="r1", waived=False).apply(state)
    item = state.objective.requirement("r1")
    assert item is not None
    assert item.counts
