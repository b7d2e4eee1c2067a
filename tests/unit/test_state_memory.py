"""The working memory keeps its limits, whatever a model sends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import event_from_json
from duckflow_tui.state.decision import StateDelta
from duckflow_tui.state.memory import ChangeNoted, WorkingMemory, apply_delta

texts = st.text(max_size=400)
lists = st.none() | st.lists(texts, max_size=8).map(tuple)
deltas = st.builds(
    StateDelta,
    goal=st.none() | texts,
    why_now=st.none() | texts,
    constraints=lists,
    plan_brief=lists,
    open_questions=lists,
    context_refs=lists,
    decision=st.none() | texts,
)


@given(st.lists(deltas, max_size=6), st.lists(texts, max_size=3))
def test_no_delta_and_no_note_breaks_a_limit(many: list[StateDelta], notes: list[str]) -> None:
    """Covers S4-35, S4-36, S4-37, S4-38, S4-39, S4-40, S4-41, S4-43, S4-44."""
    memory = WorkingMemory()
    for delta in many:
        memory = apply_delta(memory, delta).memory
        assert WorkingMemory.model_validate(memory.model_dump()) == memory
        assert len(memory.goal) <= 200
        assert "\n" not in memory.goal
        assert len(memory.constraints) <= 2
        assert len(memory.plan_brief) <= 3
        assert len(memory.open_questions) <= 2
        entries = (*memory.constraints, *memory.plan_brief, *memory.open_questions)
        assert all(len(entry) <= 100 for entry in (*entries, *memory.decision_log))
    state = AgentState()
    state.memory = memory
    for change in notes:
        ChangeNoted(change=change, decided=True).apply(state)
        noted = state.memory
        assert WorkingMemory.model_validate(noted.model_dump()) == noted


def test_absent_leaves_a_list_replaces_and_a_decision_appends() -> None:
    """Covers S4-38, S4-41."""
    memory = apply_delta(
        WorkingMemory(goal="g", constraints=("a", "b"), decision_log=("first",)),
        StateDelta(constraints=("c",), decision="second"),
    ).memory
    assert memory.goal == "g"
    assert memory.constraints == ("c",)
    assert memory.decision_log == ("first", "second")


def test_what_is_cut_is_named() -> None:
    """Covers S4-44."""
    update = apply_delta(
        WorkingMemory(),
        StateDelta(goal="x" * 250, constraints=("a", "b", "c"), context_refs=("http://x",)),
    )
    assert update.cuts == (
        "context_refs: 1 of unknown form",
        "goal: 250 → 200 characters",
        "constraints: 3 → 2 items",
    )


@pytest.mark.parametrize(
    ("ref", "kept"),
    [
        ("file:src/a.py", True),
        ("conversation:msg_1", True),
        ("plan:step_1", True),
        ("src/a.py", False),
        ("file:", False),
    ],
)
def test_references_have_one_of_three_forms(ref: str, kept: bool) -> None:
    """Covers S4-40."""
    memory = apply_delta(WorkingMemory(), StateDelta(context_refs=(ref,))).memory
    assert memory.context_refs == ((ref,) if kept else ())


def test_a_memory_that_breaks_a_limit_is_none() -> None:
    """Covers S4-44: not of our own making, and not out of a journal."""
    for name, value in {
        "goal": "x" * 201,
        "why_now": "two\nlines",
        "constraints": ("a", "b", "c"),
        "plan_brief": ("x" * 101,),
        "context_refs": ("http://x",),
        "decision_log": ("x",) * 51,
    }.items():
        with pytest.raises(ValidationError, match=name):
            WorkingMemory.model_validate({name: value})
        with pytest.raises(ValidationError, match=name):
            event_from_json({"kind": "working_memory", "memory": {name: value}})
