"""Mood, focus and stamina as functions of signals, and their recomputation by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.pace import Vital, VitalChange, VitalsChanged
from duckflow_tui.work import vitals


def mood(old: float, confidence: float | None, *outcomes: bool) -> float:
    return vitals.compute_vital("mood", vitals.mood_inputs(old, confidence, outcomes))


def stamina_inputs(loops: int, limit: int, failed: int, attempt: int) -> dict[str, float]:
    return {"loops": loops, "limit": limit, "failed": failed, "attempt": attempt}


def stamina(loops: int, limit: int, failed: int = 0, attempt: int = 1) -> float:
    return vitals.compute_vital("stamina", stamina_inputs(loops, limit, failed, attempt))


def test_the_mood_is_half_confidence_and_half_outcomes() -> None:
    """0.7 · (0.9 + 4/5) / 2 + 0.3 · 0.7."""
    assert mood(0.7, 0.9, True, True, False, True, True) == 0.805
    assert mood(0.7, 0.2, False, False, False) == 0.28


def test_only_the_last_five_outcomes_count() -> None:
    assert mood(0.7, 1.0, False, False, True, True, True, True, True) == 0.91


@pytest.mark.parametrize("outcomes", [(), (False,), (False, False)])
def test_under_three_outcomes_the_share_is_0_7(outcomes: tuple[bool, ...]) -> None:
    assert mood(0.7, 0.7, *outcomes) == 0.7
    inputs = vitals.mood_inputs(0.7, 0.7, outcomes)
    assert (inputs["share"], inputs["outcomes"]) == (0.7, len(outcomes))


def test_without_a_confidence_only_the_outcomes_count() -> None:
    assert mood(0.7, None) == 0.7
    assert mood(0.5, None, True, True, True) == 0.85
    assert "confidence" not in vitals.mood_inputs(0.5, None, ())


@pytest.mark.parametrize(
    ("old", "by", "new"),
    [(0.75, 0.1, 0.85), (0.95, 0.1, 1.0), (0.05, -0.1, 0.0), (0.75, -0.05, 0.7)],
)
def test_the_focus_moves_by_its_signal_and_stays_in_range(
    old: float, by: float, new: float
) -> None:
    assert vitals.compute_vital("focus", {"old": old, "by": by}) == new


def test_the_stamina_is_what_is_left() -> None:
    assert stamina(0, 10) == 1.0
    assert stamina(5, 10) == 0.7
    assert stamina(10, 10) == 0.4
    assert stamina(5, 10, failed=2) == 0.5
    assert stamina(5, 10, failed=2, attempt=3) == 0.3
    assert stamina(10, 10, failed=9, attempt=3) == 0.0
    assert vitals.compute_vital("stamina", {}) == 1.0  # of a new objective


values = st.floats(0, 1)
counts = st.integers(0, 30)


@given(
    old=values,
    confidence=st.none() | values,
    outcomes=st.lists(st.booleans(), max_size=9),
    by=st.sampled_from([0.1, -0.1, -0.05]),
    loops=counts,
    limit=st.integers(1, 30),
    failed=counts,
    attempt=st.integers(1, 5),
)
def test_every_change_can_be_computed_again_from_its_inputs_and_stays_in_range(
    old: float,
    confidence: float | None,
    outcomes: list[bool],
    by: float,
    loops: int,
    limit: int,
    failed: int,
    attempt: int,
) -> None:
    """Covers S0-12."""
    kinds: list[tuple[Vital, dict[str, float]]] = [
        ("mood", vitals.mood_inputs(old, confidence, outcomes)),
        ("focus", {"old": old, "by": by}),
        ("stamina", stamina_inputs(loops, limit, failed, attempt)),
        ("stamina", {}),
    ]
    for vital, inputs in kinds:
        assert 0.0 <= vitals.compute_vital(vital, inputs) <= 1.0


def test_of_each_vital_the_last_sixteen_changes_are_kept_in_the_order_of_their_time() -> None:
    state = AgentState()

    def move(vital: Vital, new: float, at: float) -> None:
        old = getattr(state.vitals, vital)
        change = VitalChange(vital=vital, old=old, new=new, cause="loop", at=at)
        VitalsChanged(change=change).apply(state)

    for at in range(40):
        move("focus", at / 100, at)
        if at < 3:
            move("mood", at / 100, at)
    kept = state.vitals.history
    assert [change.at for change in kept if change.vital == "focus"] == list(range(24, 40))
    assert [change.at for change in kept if change.vital == "mood"] == [0, 1, 2]
    assert [change.at for change in kept] == sorted(change.at for change in kept)
    assert (state.vitals.focus, state.vitals.mood) == (0.39, 0.02)
