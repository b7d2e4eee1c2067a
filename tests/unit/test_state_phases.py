"""The phase machine against its table."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from support.pinned import ManualClock

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.phase import Phase, PhaseChanged, Status, Trigger
from duckflow_tui.state.phase_machine import (
    DEFAULT_TABLE,
    RECOVERED,
    PhaseMachine,
    PhaseTable,
)
from duckflow_tui.state.store import MemoryRecorder, Record, Store

P = Phase


class Made(PhaseMachine):
    """A machine that shows the state it moves."""

    def __init__(self, phase: Phase, status: Status) -> None:
        state = AgentState()
        state.phase, state.status = phase, status
        self.clock = ManualClock()
        self.store = Store(state, self.clock, MemoryRecorder())
        super().__init__(self.store)


def machine(phase: Phase = P.IDLE, status: Status = Status.IN_PROGRESS) -> Made:
    return Made(phase, status)


#: What a model's decision may do: the table of the requirements, written out.
BY_DECISION = {
    (P.PLANNING, P.EXECUTION),
    (P.PLANNING, P.REVIEW),
    (P.EXECUTION, P.REVIEW),
    (P.REVIEW, P.EXECUTION),
}


@pytest.mark.parametrize(("old", "new"), list(product(Phase, Phase)))
def test_a_decision_moves_along_the_table_and_nowhere_else(old: Phase, new: Phase) -> None:
    """Covers S4-26, S4-28, S4-46, S4-47, S4-48, S4-51."""
    made = machine(old)
    moved = made.move_to(new, Trigger.DECISION, decision_id="d1")
    allowed = old is new or (old, new) in BY_DECISION
    assert moved is allowed
    assert made.store.state.phase is (new if allowed else old)
    refusals = made.store.state.refusals
    assert len(refusals) == (0 if allowed else 1)
    if refusals:
        assert old in refusals[0].reason
        assert new in refusals[0].reason


@pytest.mark.parametrize("old", [P.EXECUTION, P.REVIEW])
def test_a_decision_may_go_back_to_planning_only_after_an_error(old: Phase) -> None:
    """Covers S4-50."""
    fine = machine(old)
    assert not fine.move_to(P.PLANNING, Trigger.DECISION, decision_id="d1")
    failed = machine(old, Status.ERROR)
    assert failed.move_to(P.PLANNING, Trigger.DECISION, decision_id="d1")


def test_a_gate_leads_into_and_out_of_awaiting_approval() -> None:
    """Covers S4-49."""
    approved = machine(P.EXECUTION)
    assert approved.move_to(P.AWAITING_APPROVAL, Trigger.GATE_OPENED)
    assert approved.store.state.status is Status.REQUIRES_USER_INPUT
    assert not approved.move_to(P.EXECUTION, Trigger.DECISION, decision_id="d1")
    assert approved.move_to(P.EXECUTION, Trigger.GATE_APPROVED)
    refused = machine(P.AWAITING_APPROVAL)
    assert not refused.move_to(P.PLANNING, Trigger.GATE_APPROVED)
    assert refused.move_to(P.PLANNING, Trigger.GATE_REFUSED)


def test_a_decision_moves_once_and_the_limit_is_forgotten_after_a_minute() -> None:
    """Covers S4-52."""
    made = machine(P.PLANNING)
    assert made.move_to(P.EXECUTION, Trigger.DECISION, decision_id="d1")
    assert not made.move_to(P.REVIEW, Trigger.DECISION, decision_id="d1")
    assert made.move_to(P.REVIEW, Trigger.DECISION, decision_id="d2")
    assert not made.move_to(P.EXECUTION, Trigger.DECISION, decision_id="d2")
    made.clock.advance(24 * 3600 + 59.0)  # over a day: an interval, not a clock's seconds
    assert made.move_to(P.EXECUTION, Trigger.DECISION, decision_id="d2")


def test_moves_of_the_app_do_not_count_against_a_decision() -> None:
    """Covers S4-52."""
    made = machine(P.PLANNING)
    assert made.move_to(P.EXECUTION, Trigger.DECISION, decision_id="d1")
    assert made.move_to(P.REVIEW, Trigger.DONE)
    assert made.move_to(P.DONE, Trigger.DONE)


def test_planning_execution_review_done_passes() -> None:
    """Covers S4-90."""
    made = machine()
    assert made.move_to(P.PLANNING, Trigger.USER_MESSAGE)
    assert made.move_to(P.EXECUTION, Trigger.DECISION, decision_id="d1")
    assert made.move_to(P.REVIEW, Trigger.DECISION, decision_id="d2")
    assert made.move_to(P.DONE, Trigger.DONE)
    assert [t.new for t in made.store.state.transitions] == [
        P.PLANNING,
        P.EXECUTION,
        P.REVIEW,
        P.DONE,
    ]


def test_an_error_leads_back_to_planning_a_limited_number_of_times() -> None:
    """Covers S4-50, S4-53, S4-91."""
    made = machine(P.EXECUTION)
    state = made.store.state
    limit = made.table.limits.recoveries
    for number in range(limit + 1):
        made.set_status(Status.ERROR, "the tool broke")
        assert made.move_to(P.PLANNING, Trigger.DECISION, decision_id=f"b{number}") is (
            number < limit
        )
        made.move_to(P.EXECUTION, Trigger.DECISION, decision_id=f"d{number}")
    assert state.recoveries == limit
    assert state.refusals[-1].reason.startswith(RECOVERED)
    assert (state.status, state.status_detail) == (Status.ERROR, "the tool broke")


def test_only_the_way_that_an_error_opens_is_limited() -> None:
    """Covers S4-53."""
    made = machine(P.REVIEW)
    for number in range(5):
        made.set_status(Status.ERROR, "the tool broke")
        assert made.move_to(P.EXECUTION, Trigger.DECISION, decision_id=f"d{number}")
        made.set_status(Status.ERROR, "the tool broke")
        assert made.move_to(P.REVIEW, Trigger.DECISION, decision_id=f"r{number}")
    assert made.store.state.recoveries == 0


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_has_a_way_out(phase: Phase) -> None:
    """Covers S4-56."""
    made = machine(phase, Status.ERROR)
    made.reset()
    assert made.store.state.phase is P.IDLE


def test_the_history_of_moves_is_bounded() -> None:
    """Covers S4-55."""
    made = machine()
    for number in range(40):
        made.move_to(P.PLANNING, Trigger.USER_MESSAGE)
        made.move_to(P.EXECUTION, Trigger.DECISION, decision_id=f"d{number}")
        made.reset()
    assert len(made.store.state.transitions) == 50
    assert made.store.state.transitions[-1].trigger is Trigger.RESET


def test_watchers_hear_phase_status_and_trigger_with_the_state_already_changed() -> None:
    """Covers S4-33."""
    made = machine()
    heard: list[tuple[Phase, Status, Trigger, Phase]] = []

    def hear(state: AgentState, record: Record) -> None:
        if isinstance(event := record.event, PhaseChanged):
            move = event.transition
            heard.append((move.new, event.status, move.trigger, state.phase))

    made.store.subscribe(hear)
    made.move_to(P.PLANNING, Trigger.USER_MESSAGE)
    assert heard == [(P.PLANNING, Status.IN_PROGRESS, Trigger.USER_MESSAGE, P.PLANNING)]


def test_the_status_changes_within_a_phase() -> None:
    """Covers S4-27, S4-28."""
    made = machine(P.EXECUTION)
    for status in Status:
        made.set_status(status, "why")
        assert made.store.state.status is status
        assert made.store.state.phase is P.EXECUTION


def test_another_table_makes_another_machine(tmp_path: Path) -> None:
    """Covers S4-54."""
    path = tmp_path / "phases.toml"
    path.write_text(
        '[limits]\ndecision_moves = 2\n[[edge]]\nfrom = "IDLE"\nto = ["DONE"]\nby = ["decision"]\n'
    )
    table = PhaseTable.load(path)
    assert table.is_allowed(P.IDLE, P.DONE, Trigger.DECISION, Status.IN_PROGRESS)
    assert not table.is_allowed(P.PLANNING, P.EXECUTION, Trigger.DECISION, Status.IN_PROGRESS)
    assert DEFAULT_TABLE.is_file()


def test_a_talk_ends_from_planning_without_a_review() -> None:
    """A turn that only talked: decision C6."""
    made = machine(P.PLANNING)
    assert made.move_to(P.DONE, Trigger.CHAT_ONLY)
    assert not machine(P.EXECUTION).move_to(P.DONE, Trigger.CHAT_ONLY)
