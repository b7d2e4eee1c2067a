"""An answer counts only for exactly what its gate, or its card, shows."""

from __future__ import annotations

from typing import Any

import pytest
from support.model_words import WORDS
from support.pinned import ManualClock

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import StateError
from duckflow_tui.state.calls import OperationRequested
from duckflow_tui.state.gates import (
    ACCEPT,
    BUDGET_OPTIONS,
    CONSULTATION_OPTIONS,
    EDIT_PLAN,
    ESCALATION_OPTIONS,
    GO_ON,
    REJECT,
    RETRY,
    RUN_ALL,
    RUN_STEPS,
    SKIP,
    STOP,
    SUGGESTED,
    TAKE,
    TELL,
    TRUST,
    UNRECORDED,
    Card,
    CardAnswer,
    CardAnswered,
    CardKind,
    CardMessage,
    CardOpened,
    CardWithdrawn,
    DraftRemarks,
    FilePreview,
    Gate,
    GateAnswer,
    GateAnswered,
    GateChoice,
    GateOpened,
    GateWithdrawn,
    Grant,
    GrantAdded,
    GrantRevoked,
    Impact,
    Remark,
    make_question_options,
    parse_typed_number,
)
from duckflow_tui.state.operations import Effect
from duckflow_tui.state.pace import LoopLimit, Pace, Pattern, Reason, Situation
from duckflow_tui.state.plan import Plan
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.state.turn import Interrupted
from duckflow_tui.tools.calls import list_remarks

GATE = Gate(
    gate_id="gate_1",
    call_id="call_1",
    operation="file_ops.edit_file",
    args={"path": "a.py"},
    args_hash="h",
    effect=Effect.WRITE,
    intent="do",
    why="because",
    impact=Impact(files=1),
    alternatives=("other",),
    previews=(FilePreview(path="a.py", kind="modify", before_hash="b"),),
    opened_at=0.0,
)
ANSWER = GateAnswer(
    gate_id="gate_1",
    call_id="call_1",
    args_hash="h",
    before_hashes=("b",),
    choice=GateChoice.ONCE,
)


def opened() -> Store:
    store = Store(AgentState(), ManualClock(), MemoryRecorder())
    store.dispatch(GateOpened(gate=GATE))
    return store


def test_an_open_gate_is_pending_until_it_is_answered() -> None:
    """Covers S4-42."""
    store = opened()
    assert store.state.gates
    store.dispatch(GateAnswered(answer=ANSWER, at=0.0))
    assert not store.state.gates


@pytest.mark.parametrize(
    "other",
    [
        {"gate_id": "gate_2"},
        {"call_id": "call_2"},
        {"args_hash": "other"},
        {"before_hashes": ("changed",)},
        {"before_hashes": ()},
        {"choice": GateChoice.ALTERNATIVE, "alternative": 2},
        {"choice": GateChoice.SESSION},
    ],
)
def test_an_answer_to_something_else_is_refused(other: dict[str, Any]) -> None:
    """Promise 3: one approval is one call, its arguments and the file before."""
    store = opened()
    with pytest.raises(StateError):
        store.dispatch(GateAnswered(answer=ANSWER.model_copy(update=other), at=0.0))
    assert store.state.gates


def test_a_withdrawn_gate_takes_no_answer() -> None:
    store = opened()
    store.dispatch(GateWithdrawn(gate_id="gate_1", reason="stopped", at=0.0))
    with pytest.raises(StateError):
        store.dispatch(GateAnswered(answer=ANSWER, at=0.0))


def another(number: int, **fields: Any) -> Gate:
    values: dict[str, Any] = {"gate_id": f"gate_{number}", "call_id": f"call_{number}", **fields}
    return GATE.model_copy(update=values)


def answer_to(gate: Gate, **fields: Any) -> GateAnswer:
    same = {"gate_id": gate.gate_id, "call_id": gate.call_id}
    return ANSWER.model_copy(update={**same, **fields})


def test_a_gate_opens_once_and_closes_alone() -> None:
    store = opened()
    store.dispatch(GateOpened(gate=another(2)))
    store.dispatch(GateOpened(gate=another(3)))
    with pytest.raises(StateError):
        store.dispatch(GateOpened(gate=another(2)))
    store.dispatch(GateAnswered(answer=answer_to(another(2)), at=0.0))
    assert [g.gate_id for g in store.state.gates] == ["gate_1", "gate_3"]
    store.dispatch(GateWithdrawn(gate_id="gate_1", reason="renewed", at=0.0))
    assert [g.gate_id for g in store.state.gates] == ["gate_3"]
    with pytest.raises(StateError):
        store.dispatch(GateWithdrawn(gate_id="gate_1", reason="renewed", at=0.0))
    assert [g.gate_id for g in store.state.gates] == ["gate_3"]


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        ({}, {"choice": GateChoice.ALTERNATIVE, "alternative": 1}),
        ({"can_grant_session": True}, {"choice": GateChoice.SESSION}),
        ({"can_grant_step": True}, {"choice": GateChoice.STEP}),
    ],
)
def test_what_a_gate_offers_is_taken(shown: dict[str, Any], given: dict[str, Any]) -> None:
    store = Store(AgentState(), ManualClock(), MemoryRecorder())
    gate = another(1, **shown)
    call = OperationRequested(call_id="call_1", operation="file_ops.edit_file", args={}, at=1.0)
    store.dispatch(call)
    store.dispatch(GateOpened(gate=gate))
    answer = answer_to(gate, **given)
    store.dispatch(GateAnswered(answer=answer, at=0.0))
    (running,) = store.state.running
    assert (running.gate, running.answer) == (gate, answer)


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        ({}, {"choice": GateChoice.ALTERNATIVE}),
        ({"can_grant_session": True}, {"choice": GateChoice.STEP}),
        ({"can_grant_step": True}, {"choice": GateChoice.SESSION}),
        ({"can_grant_session": True}, {"choice": GateChoice.ONLY}),
        ({"can_grant_session": True}, {"choice": GateChoice.ROUTINE}),
    ],
)
def test_what_a_gate_does_not_offer_is_refused(
    shown: dict[str, Any], given: dict[str, Any]
) -> None:
    store = Store(AgentState(), ManualClock(), MemoryRecorder())
    gate = another(1, **shown)
    store.dispatch(GateOpened(gate=gate))
    with pytest.raises(StateError):
        store.dispatch(GateAnswered(answer=answer_to(gate, **given), at=0.0))
    assert store.state.gates == (gate,)


# --- cards -----------------------------------------------------------------------------------


def card(number: int, kind: CardKind = CardKind.REPORT, **fields: Any) -> Card:
    values: dict[str, Any] = {
        "card_id": f"card_{number}",
        "kind": kind,
        "subject": f"what {number} shows",
        "options": (GO_ON, TELL),
        "opened_at": 1.0,
    }
    return Card(**(values | fields))


def key(number: int, **fields: Any) -> CardAnswered:
    values: dict[str, Any] = {
        "card_id": f"card_{number}",
        "subject": f"what {number} shows",
        "action": "go_on",
    }
    return CardAnswered(answer=CardAnswer(**(values | fields)), message_id="msg_1", at=2.0)


def with_cards() -> AgentState:
    state = AgentState()
    for number in (1, 2, 3):
        CardOpened(card=card(number)).apply(state)
    return state


def test_a_card_opens_once_and_closes_alone() -> None:
    state = with_cards()
    with pytest.raises(StateError):
        CardOpened(card=card(2)).apply(state)
    CardWithdrawn(card_id="card_2", reason="renewed", at=0.0).apply(state)
    assert [c.card_id for c in state.cards] == ["card_1", "card_3"]
    with pytest.raises(StateError):
        CardWithdrawn(card_id="card_2", reason="renewed", at=0.0).apply(state)
    assert state.messages == []


def test_a_card_and_its_answer_enter_the_conversation() -> None:
    state = with_cards()
    plan = Plan(plan_id="plan_2", name="p", goal="g")
    state.plans = (Plan(plan_id="plan_1", name="o", goal="g"), plan)
    CardOpened(card=card(4, plan_id="plan_2")).apply(state)
    key(4).apply(state)
    assert [c.card_id for c in state.cards] == ["card_1", "card_2", "card_3"]
    (message,) = state.messages
    assert isinstance(message, CardMessage)
    assert (message.card.card_id, message.answer, message.plan) == ("card_4", key(4).answer, plan)
    assert (message.message_id, message.at) == ("msg_1", 2.0)


@pytest.mark.parametrize(
    "other", [{"card_id": "card_9"}, {"subject": "what 1 shows"}, {"action": "stop"}]
)
def test_a_key_that_a_card_does_not_offer_is_refused(other: dict[str, Any]) -> None:
    state = with_cards()
    with pytest.raises(StateError):
        key(2, **other).apply(state)
    assert (len(state.cards), state.messages) == (3, [])


def test_the_user_is_waited_for_as_long_as_a_question_about_the_work_is_open() -> None:
    """That about trust holds nothing up."""
    state = AgentState()
    CardOpened(card=card(1, CardKind.TRUST, options=(TRUST,))).apply(state)
    assert (state.is_work_waiting, state.waits_since) == (False, None)
    for opens, ends in (
        (GateOpened(gate=GATE), GateWithdrawn(gate_id="gate_1", reason="stopped", at=9.0)),
        (CardOpened(card=card(2)), CardWithdrawn(card_id="card_2", reason="stopped", at=9.0)),
        (CardOpened(card=card(2)), key(2)),
        (GateOpened(gate=another(2)), GateAnswered(answer=answer_to(another(2)), at=9.0)),
    ):
        opens.apply(state)
        since = 0.0 if isinstance(opens, GateOpened) else 1.0
        assert (state.is_work_waiting, state.waits_since) == (True, since)
        ends.apply(state)
        assert (state.is_work_waiting, state.waits_since) == (False, None)


def test_a_yes_to_work_without_a_record_is_kept_and_a_no_is_not() -> None:
    unrecorded = another(2, impact=Impact(files=1, reasons=(UNRECORDED,)))
    for gate, choice, agreed in (
        (GATE, GateChoice.ONCE, False),
        (unrecorded, GateChoice.REJECT, False),
        (unrecorded, GateChoice.ONCE, True),
    ):
        state = AgentState()
        GateOpened(gate=gate).apply(state)
        GateAnswered(answer=answer_to(gate, choice=choice), at=0.0).apply(state)
        assert state.unkept_agreed is agreed


def test_remarks_go_with_the_answer_to_what_they_stand_on() -> None:
    remark = Remark(path="a.py", number=2, line="x", said="why?")
    for about, left in (
        ("h", DraftRemarks()),
        ("else", DraftRemarks(about="else", remarks=(remark,))),
    ):
        state = AgentState()
        state.remarks = DraftRemarks(about=about, remarks=(remark,))
        GateOpened(gate=GATE).apply(state)
        GateAnswered(answer=ANSWER, at=0.0).apply(state)
        assert state.remarks == left
    for about, kept in (("what 1 shows", ()), ("what 2 shows", (remark,))):
        state = AgentState()
        state.remarks = DraftRemarks(about=about, remarks=(remark,))
        CardOpened(card=card(1)).apply(state)
        key(1).apply(state)
        assert state.remarks.remarks == kept


def test_remarks_are_told_the_model_by_their_places() -> None:
    remarks = (
        Remark(path="a.py", number=2, line="x = 1", said=" why? "),
        Remark(path="a.py", number=9, old=True, line="y", said="keep it"),
        Remark(number=3, line="Tests", said="before"),
    )
    assert "\n".join(map(WORDS, list_remarks(remarks))) == (
        '1. a.py, line 2 of the new version: "x = 1"\n'
        "   The user's remark: why?\n"
        '2. a.py, line 9 that would be removed: "y"\n'
        "   The user's remark: keep it\n"
        '3. step 3: "Tests"\n'
        "   The user's remark: before"
    )
    said = ANSWER.model_copy(update={"reason": " no ", "remarks": remarks})
    assert said.full_text == "no; a.py:2:  why? ; a.py:−9: keep it; 3 Tests: before"


def test_the_answers_of_a_question_are_on_its_digits() -> None:
    options = make_question_options((f"answer {number}" for number in range(1, 12)), approval=True)
    assert options[:2] == (ACCEPT, REJECT)
    assert options[-1] == TELL
    offered = [(option.key, option.action, option.label) for option in options[2:-1]]
    assert offered == [(f"{n}", f"offered_{n}", f"answer {n}") for n in range(1, 10)]
    assert make_question_options((), approval=False) == (TELL,)


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        *(("2", 2), (" 2. ", 2), ("(12)", 12), ("２", 2), ("3、", 3), ("999", 999)),
        *(("", 0), ("two", 0), ("1234", 0), ("2 or 3", 0), (" " * 19 + "2", 2)),
    ],
)
def test_a_number_that_was_typed(typed: str, number: int) -> None:
    assert parse_typed_number(typed) == number


def test_only_a_rule_that_holds_is_taken_back() -> None:
    """But one of the command line stands in no state."""
    state = AgentState()
    rule = Grant(grant_id="grant_1", operation="shell.run", path="make", gate_id="gate_1", at=1.0)
    GrantAdded(grant=rule).apply(state)
    other = rule.replace(grant_id="grant_2")
    with pytest.raises(StateError):
        GrantRevoked(grant=other, at=2.0).apply(state)
    named = other.replace(source="command_line")
    GrantRevoked(grant=named, at=3.0).apply(state)
    assert state.grants == (rule,)
    GrantRevoked(grant=rule, at=4.0).apply(state)
    assert state.grants == ()
    assert [(c.grant, c.at, c.revoked) for c in state.rule_log] == [
        (rule, 1.0, False),
        (named, 3.0, True),
        (rule, 4.0, True),
    ]


def test_a_consultation_counts_once_also_when_it_is_asked_again_after_a_restart() -> None:
    shown = Situation(pattern=Pattern.LIMIT, cause=Reason(code="limit"), loop=3, limit=3)
    asked = card(1, CardKind.CONSULTATION, situation=shown, step_id="step_1")
    elsewhere = card(2, CardKind.CONSULTATION, situation=shown, step_id="step_2")
    state = AgentState()
    state.pace = Pace(limit=LoopLimit(max_loops=3))
    CardOpened(card=card(3)).apply(state)
    CardOpened(card=asked).apply(state)
    assert state.pace is not None
    assert state.pace.consultations == (Pattern.LIMIT,)
    state.cards, state.interrupted = (), Interrupted(asked=(asked, card(3)))
    CardOpened(card=elsewhere).apply(state)
    assert state.pace.consultations == (Pattern.LIMIT, Pattern.LIMIT)
    assert state.interrupted is not None
    assert state.interrupted.asked == (asked, card(3))
    CardOpened(card=asked).apply(state)
    assert state.pace.consultations == (Pattern.LIMIT, Pattern.LIMIT)
    assert state.interrupted.asked == (card(3),)


def test_letters_mean_the_same_on_all_cards_and_digits_count() -> None:
    """Covers S0-39, S0-40, S0-41, S0-42, S1-34."""
    numbered = (*CONSULTATION_OPTIONS.values(), ESCALATION_OPTIONS, BUDGET_OPTIONS)
    for options in numbered:
        *digits, last = options
        assert [o.key for o in digits] == [str(n) for n in range(1, len(digits) + 1)]
        assert last == TELL
    with_text = {o.action for options in numbered for o in options if o.takes_text}
    assert with_text == {
        "detailed_requirements",
        "instructions",
        "more_info",
        "simplify",
        "tell",
        "top_requirement",
    }
    alone = (RUN_ALL, RUN_STEPS, EDIT_PLAN, REJECT, ACCEPT, GO_ON, RETRY, TAKE, SKIP, STOP, TELL)
    assert {o.action for o in alone if o.takes_text} == {"reject", "retry", "tell"}
    letters = {o.action: o.key for o in (RUN_ALL, RUN_STEPS, EDIT_PLAN, REJECT, ACCEPT, GO_ON)}
    letters |= {o.action: o.key for o in (RETRY, TAKE, SKIP, STOP, SUGGESTED, TELL)}
    assert letters == {
        "run_all": "y",
        "run_steps": "o",
        "edit": "e",
        "reject": "n",
        "accept": "y",
        "go_on": "y",
        "retry": "r",
        "take_as_done": "d",
        "skip": "k",
        "stop": "n",
        "suggested": "1",
        "tell": "m",
    }
    assert [o.takes_text for o in (REJECT, RETRY, TELL)] == [True] * 3
    others = (RUN_ALL, RUN_STEPS, EDIT_PLAN, ACCEPT, GO_ON, TAKE, SKIP, STOP, SUGGESTED)
    assert not any(o.takes_text for o in others)
