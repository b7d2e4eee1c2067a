"""What a judged attempt does to the vitals and to the limit of the next one."""

from __future__ import annotations

from support.pinned import ManualClock

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.decision import TurnDecision
from duckflow_tui.state.goal import (
    ObjectiveChanged,
    RequirementItem,
    RequirementState,
    Review,
    TaskObjective,
)
from duckflow_tui.state.pace import VitalChange, VitalsChanged
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.work.loop_limits import Pacemaker, measure_session
from duckflow_tui.work.pace import PaceKeeper


def keeper_of(store: Store) -> PaceKeeper:
    keeper = PaceKeeper(store, Pacemaker(), lambda: ())
    keeper.begin_turn(fresh=True)
    return keeper


def store_with_requirement(item: RequirementItem) -> Store:
    store = Store(AgentState(), ManualClock(), MemoryRecorder())
    objective = TaskObjective(
        objective_id="obj", original_query="do it", created_at=0.0, extracted_requirements=(item,)
    )
    store.dispatch(ObjectiveChanged(objective=objective))
    return store


OPEN = RequirementItem(requirement_id="r1", requirement="it is done", satisfaction_level=0.0)


def review(level: float, state: RequirementState) -> Review:
    item = OPEN.replace(satisfaction_level=level, state=state)
    return Review(
        review_id="rev", attempt=1, max_attempts=3, score=level, done=False, items=(item,)
    )


def test_a_refuted_requirement_lowers_the_mood_however_little_of_it_was_seen() -> None:
    """Covers S0-3."""
    store = store_with_requirement(OPEN)
    keeper, focus = keeper_of(store), store.state.vitals.focus
    assert store.state.objective is not None
    for _ in range(3):
        keeper.take_review(review(0.2, RequirementState.REFUTED), store.state.objective)
    assert store.state.vitals.focus == focus, "no progress"
    mood = store.state.vitals.mood
    keeper.take_decision(TurnDecision(decision_id="d", rationale="on", confidence=0.7))
    assert store.state.vitals.mood < mood


def test_a_requirement_met_further_is_progress() -> None:
    store = store_with_requirement(OPEN)
    keeper, focus = keeper_of(store), store.state.vitals.focus
    assert store.state.objective is not None
    keeper.take_review(review(0.9, RequirementState.MET), store.state.objective)
    assert store.state.vitals.focus > focus


def test_an_attempt_after_a_failed_one_has_no_higher_limit() -> None:
    """However high the vitals stand by then. Covers S0-3."""
    store = store_with_requirement(OPEN)
    keeper = keeper_of(store)
    before = keeper.limit.max_loops
    for vital in ("mood", "focus"):
        old: float = getattr(store.state.vitals, vital)
        change = VitalChange(vital=vital, old=old, new=1.0, cause="progress", at=0.0)
        store.dispatch(VitalsChanged(change=change))
    unbound = Pacemaker().compute_limit(
        None, "model", store.state.vitals, measure_session(store.state)
    )
    assert unbound.max_loops > before
    keeper.begin_attempt()
    assert keeper.limit.max_loops == before
    assert any(reason.code == "clamped" for reason in keeper.limit.reasoning)
