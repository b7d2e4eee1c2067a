"""Consent is a key event in a gate, and nothing else."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import Any

import pytest
from support import consults, plans
from support.bench import Bench, done
from support.model_words import WORDS
from support.pinned import CountingIds, ManualClock

from duckflow_tui.safety.pending_questions import Desk, Unanswered, UnattendedDesk
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import StateError
from duckflow_tui.state.gates import (
    EDIT_PLAN,
    Card,
    CardAnswer,
    CardKind,
    CardOpened,
    DiffLine,
    FilePreview,
    Gate,
    GateAnswer,
    GateAnswered,
    GateChoice,
    GateOpened,
    Hunk,
    Impact,
)
from duckflow_tui.state.operations import ApprovalMode, Effect
from duckflow_tui.state.pace import Pattern
from duckflow_tui.state.session import ModeChanged
from duckflow_tui.state.store import MemoryRecorder, Record, Store


def make_gate(gate_id: str = "gate_1", **more: object) -> Gate:
    hunk = Hunk(
        old_start=1,
        old_count=0,
        new_start=1,
        new_count=1,
        lines=(DiffLine(mark="+", old=None, new=1, text="x"),),
    )
    fields: dict[str, object] = {
        "gate_id": gate_id,
        "call_id": f"call_{gate_id}",
        "operation": "file_ops.edit_file",
        "args": {"path": "a.py"},
        "args_hash": "h1",
        "effect": Effect.WRITE,
        "intent": "change it",
        "why": "because",
        "impact": Impact(),
        "alternatives": ("leave it",),
        "previews": (FilePreview(path="a.py", kind="modify", before_hash="b1", hunks=(hunk,)),),
        "can_grant_session": True,
        "grant_pattern": "file_ops.edit_file a.py",
        "opened_at": 0.0,
    }
    return Gate.model_validate({**fields, **more})


def answer_to(gate: Gate, choice: GateChoice = GateChoice.ONCE, **more: object) -> GateAnswer:
    fields: dict[str, object] = {
        "gate_id": gate.gate_id,
        "call_id": gate.call_id,
        "args_hash": gate.args_hash,
        "before_hashes": tuple(p.before_hash for p in gate.previews),
        "choice": choice,
    }
    return GateAnswer.model_validate({**fields, **more})


@pytest.fixture
def recorder() -> MemoryRecorder:
    return MemoryRecorder()


@pytest.fixture
def store(recorder: MemoryRecorder) -> Store:
    return Store(AgentState(), ManualClock(), recorder)


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store, CountingIds(), WORDS)


async def opened(store: Store, *gate_ids: str) -> None:
    """Wait until exactly these gates are open."""
    there = asyncio.Event()

    def check(state: AgentState, _record: Record | None = None) -> None:
        if [g.gate_id for g in state.gates] == list(gate_ids):
            there.set()

    forget = store.subscribe(check)
    check(store.state)
    await asyncio.wait_for(there.wait(), 30)
    forget()


def kinds(recorder: MemoryRecorder) -> list[str]:
    return [record.event.kind for record in recorder.records]


async def test_asking_waits_for_the_key(store: Store, desk: Desk, recorder: MemoryRecorder) -> None:
    """The gate is in the state, work waits for the answer, the answer closes it."""
    gate = make_gate()
    asking = asyncio.create_task(desk.ask(gate))
    await opened(store, "gate_1")
    assert not asking.done()
    given = answer_to(gate)
    await desk.record_answer(given)
    assert await asking == given
    assert store.state.gates == ()
    assert kinds(recorder) == ["gate_opened", "gate_answered"]


async def test_several_gates_at_once(store: Store, desk: Desk) -> None:
    first, second = make_gate("gate_1"), make_gate("gate_2")
    one, two = asyncio.create_task(desk.ask(first)), asyncio.create_task(desk.ask(second))
    await opened(store, "gate_1", "gate_2")
    await desk.record_answer(answer_to(second, GateChoice.REJECT, reason="no"))
    assert (await two).reason == "no"
    assert not one.done()
    await desk.record_answer(answer_to(first))
    assert (await one).is_approval


async def test_a_refusal_is_an_answer_not_an_error(store: Store, desk: Desk) -> None:
    """R20: nothing is raised, no status, vital or count moves."""
    gate = make_gate()
    vitals, status = store.state.vitals, store.state.status
    asking = asyncio.create_task(desk.ask(gate))
    await opened(store, "gate_1")
    await desk.record_answer(answer_to(gate, GateChoice.REJECT))
    assert not (await asking).is_approval
    assert (store.state.vitals, store.state.status) == (vitals, status)
    assert store.state.recoveries == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"args_hash": "h2"},
        {"before_hashes": ("b2",)},
        {"before_hashes": ()},
        {"call_id": "call_other"},
        {"gate_id": "gate_other"},
        {"choice": GateChoice.ALTERNATIVE, "alternative": 2},
        {"choice": GateChoice.EDIT, "edited": "x"},
        {"left_out": ((0, 1),)},
        {"left_out": ((1, 0),)},
        {"left_out": ((-1, 0),)},
    ],
)
async def test_an_answer_for_something_else_is_none(
    store: Store, desk: Desk, wrong: dict[str, object]
) -> None:
    """Promise 3: one approval, one call with its arguments and the file as shown."""
    gate = make_gate()
    asking = asyncio.create_task(desk.ask(gate))
    await opened(store, "gate_1")
    with pytest.raises(StateError):
        await desk.record_answer(answer_to(gate).model_copy(update=wrong))
    assert not asking.done()
    assert store.state.gates == (gate,)
    asking.cancel()


async def test_editing_needs_an_editable_gate(store: Store, desk: Desk) -> None:
    gate = make_gate(can_edit=True)
    asking = asyncio.create_task(desk.ask(gate))
    await opened(store, "gate_1")
    with pytest.raises(StateError):
        await desk.record_answer(answer_to(gate, GateChoice.EDIT))
    await desk.record_answer(answer_to(gate, GateChoice.EDIT, edited="y = 1"))
    assert (await asking).edited == "y = 1"


async def test_a_session_answer_gives_a_grant(store: Store, desk: Desk) -> None:
    """One key, one grant: this operation on this path."""
    gate = make_gate()
    asking = asyncio.create_task(desk.ask(gate))
    await opened(store, "gate_1")
    await desk.record_answer(answer_to(gate, GateChoice.SESSION))
    await asking
    assert [(g.operation, g.path, g.gate_id) for g in store.state.grants] == [
        ("file_ops.edit_file", "a.py", "gate_1")
    ]


async def test_no_grant_where_none_was_offered(store: Store, desk: Desk) -> None:
    gate = make_gate(can_grant_session=False)
    asking = asyncio.create_task(desk.ask(gate))
    await opened(store, "gate_1")
    with pytest.raises(StateError):
        await desk.record_answer(answer_to(gate, GateChoice.SESSION))
    assert store.state.grants == ()
    asking.cancel()


async def test_no_grant_for_a_pattern_that_is_not_this_operation(store: Store, desk: Desk) -> None:
    gate = make_gate(grant_pattern="file_ops.delete_file a.py")
    asking = asyncio.create_task(desk.ask(gate))
    await opened(store, "gate_1")
    with pytest.raises(StateError):
        await desk.record_answer(answer_to(gate, GateChoice.SESSION))
    assert store.state.gates == (gate,)
    asking.cancel()


async def test_stopping_withdraws_the_gate(
    store: Store, desk: Desk, recorder: MemoryRecorder
) -> None:
    asking = asyncio.create_task(desk.ask(make_gate()))
    await opened(store, "gate_1")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert store.state.gates == ()
    assert kinds(recorder) == ["gate_opened", "gate_withdrawn"]
    with pytest.raises(StateError):
        await desk.record_answer(answer_to(make_gate()))


async def test_stopped_while_the_gate_is_being_recorded(store: Store) -> None:
    """A gate that nobody waits for does not stay on the screen."""

    class SlowRecorder(MemoryRecorder):
        async def wait_until_flushed(self, seq: int) -> None:
            await asyncio.Event().wait()

    store = Store(AgentState(), ManualClock(), SlowRecorder())
    desk = Desk(store, CountingIds(), WORDS)
    asking = asyncio.create_task(desk.ask(make_gate()))
    await opened(store, "gate_1")
    unheard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: unheard.append(str(told)))
    asking.cancel()
    await asyncio.wait([asking], timeout=5)  # its error would hold on to what is looked for here
    assert asking.cancelled()
    assert store.state.gates == ()
    del asking
    gc.collect()
    assert unheard == []


async def test_what_was_stopped_hears_nothing_more(store: Store, desk: Desk) -> None:
    unheard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: unheard.append(str(told)))
    asking = asyncio.create_task(desk.ask(make_gate()))
    await opened(store, "gate_1")
    asking.cancel()
    await asyncio.wait([asking], timeout=5)
    del asking
    gc.collect()
    assert unheard == []


def test_a_card_is_bound_to_what_it_is_about_or_else_to_itself(desk: Desk) -> None:
    card = desk.make_card(CardKind.QUESTION, ())
    assert card.subject == card.card_id != ""
    assert desk.make_card(CardKind.PLAN, (), "fingerprint").subject == "fingerprint"


async def test_a_question_is_asked_once_at_a_time(store: Store, desk: Desk) -> None:
    gate = make_gate()
    for _ in range(2):
        asking = asyncio.create_task(desk.ask(gate))
        await opened(store, "gate_1")
        with pytest.raises(StateError):
            await desk.ask(gate)
        await desk.record_answer(answer_to(gate))
        assert (await asking).is_approval


async def test_a_plan_that_is_edited_is_not_answered_by_it(
    store: Store, desk: Desk, recorder: MemoryRecorder
) -> None:
    card = Card(
        card_id="card_1", kind=CardKind.PLAN, subject="s", options=(EDIT_PLAN,), opened_at=0.0
    )
    store.dispatch(CardOpened(card=card))
    with pytest.raises(StateError, match="edited in its pane"):
        await desk.record_answer(CardAnswer(card_id="card_1", subject="s", action=EDIT_PLAN.action))
    assert store.state.cards == (card,)
    assert kinds(recorder) == ["card_opened"]


async def test_a_withdrawn_gate_tells_who_asked(store: Store, desk: Desk) -> None:
    """R15: the file changed while the gate was open; the answer to the old one is void."""
    gate = make_gate()
    asking = asyncio.create_task(desk.ask(gate))
    await opened(store, "gate_1")
    desk.withdraw_question("gate_1", "renewed")
    with pytest.raises(Unanswered) as closed:
        await asking
    assert closed.value.reason == "renewed"
    assert WORDS(closed.value.told) == "The question was withdrawn; nothing ran."
    with pytest.raises(StateError):
        await desk.record_answer(answer_to(gate))
    desk.withdraw_question("gate_1", "renewed")


async def test_changing_the_mode_answers_nothing(store: Store, desk: Desk) -> None:
    """ui.md, keys: Shift+Tab never resolves an open gate."""
    asking = asyncio.create_task(desk.ask(make_gate()))
    await opened(store, "gate_1")
    await store.commit(ModeChanged(mode=ApprovalMode.TRUSTED, at=0.0))
    await asyncio.sleep(0)
    assert not asking.done()
    asking.cancel()


async def test_a_gate_of_an_earlier_run_is_pending_and_grants(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """safety.md, faults: after kill -9 a gate comes back pending, and its answer counts."""
    gate = make_gate()
    store.dispatch(GateOpened(gate=gate))
    desk = Desk(store, CountingIds(), WORDS)
    assert store.state.gates == (gate,)
    await desk.record_answer(answer_to(gate, GateChoice.SESSION))
    assert [g.path for g in store.state.grants] == ["a.py"]
    store.dispatch(GateOpened(gate=make_gate("gate_2")))
    desk.withdraw_question("gate_2", "stopped")
    assert store.state.gates == ()
    assert caplog.records == []


@pytest.mark.parametrize("by", ["answer", "withdrawal"])
async def test_what_comes_as_the_asker_is_stopped_is_heard_by_nobody(
    store: Store, desk: Desk, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    asking = asyncio.create_task(desk.ask(make_gate()))
    await opened(store, "gate_1")
    await asyncio.sleep(0)
    asking.cancel()
    if by == "answer":
        store.dispatch(GateAnswered(answer=answer_to(make_gate()), at=0.0))
    else:
        desk.withdraw_question("gate_1", "renewed")
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert caplog.records == []


async def test_the_event_is_the_answer_wherever_it_comes_from(store: Store, desk: Desk) -> None:
    gate = make_gate()
    asking = asyncio.create_task(desk.ask(gate))
    await opened(store, "gate_1")
    store.dispatch(GateAnswered(answer=answer_to(gate), at=0.0))
    assert (await asking).is_approval


async def test_the_grant_is_recorded_before_the_asker_goes_on(store: Store, desk: Desk) -> None:
    seen: list[str] = []

    def watch(_state: AgentState, record: Record) -> None:
        seen.append(record.event.kind)

    store.subscribe(watch)
    gate = make_gate()

    async def work() -> None:
        await desk.ask(gate)
        seen.append("effect")

    task = asyncio.create_task(work())
    await opened(store, "gate_1")
    await desk.record_answer(answer_to(gate, GateChoice.SESSION))
    await task
    assert seen == ["gate_opened", "gate_answered", "grant_added", "effect"]


@pytest.mark.parametrize("mode", [ApprovalMode.STANDARD, ApprovalMode.TRUSTED])
async def test_what_is_answered_where_nobody_is(store: Store, mode: ApprovalMode) -> None:
    """R19: ``--mode trusted`` alone approves a plan; what only a user can say nothing says."""
    desk = UnattendedDesk(store, CountingIds(), WORDS, mode)

    async def action(card: Card) -> str:
        try:
            return (await desk.ask(card)).action
        except Unanswered as refused:
            return f"{refused.reason}: {WORDS(refused.told).split(',')[0]}"

    trusted = mode is ApprovalMode.TRUSTED
    unapproved = "nobody: A plan needs the user's approval"
    assert await action(plans.plan_card(plans.draft())) == ("run_all" if trusted else unapproved)
    assert await action(plans.change_card()) == ("accept" if trusted else unapproved)
    assert await action(plans.end_card("close")) == "nobody: Only the user ends a plan"
    assert await action(plans.break_card()) == "go_on"
    assert await action(plans.report_card(plans.report())) == "go_on"
    assert await action(plans.report_card(plans.failed_report())) == "stop"
    work = "nobody: Nobody is there to say how the work should go on."
    assert await action(consults.consultation(Pattern.LIMIT)) == work
    assert await action(consults.question()) == "nobody: Nobody is there to answer."
    assert await action(consults.budget()) == "nobody: Nobody is there to raise the limit."
    assert await action(consults.escalation()) == "accept_partial"


async def test_nobody_to_ask(store: Store, recorder: MemoryRecorder) -> None:
    """R19: headless, a gate is denied at once and said; none is left open."""
    desk = UnattendedDesk(store, CountingIds(), WORDS, ApprovalMode.TRUSTED)
    with pytest.raises(Unanswered, match="edit_file") as denied:
        await asyncio.wait_for(desk.ask(make_gate()), 1)
    assert denied.value.reason == "nobody"
    assert store.state.gates == ()
    assert recorder.records == []


@pytest.mark.parametrize("operation", ["file_ops.edit_file", "file_ops.write_file"])
async def test_a_change_that_parts_two_names_of_a_file_says_so(
    tmp_path: Path, operation: str
) -> None:
    """In every mode: the user is asked, and the model told; the other name keeps its content."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("a = 1\n")
    os.link(tmp_path / "work" / "a.py", tmp_path / "b.py")
    bench = Bench(tmp_path / "work", mode=ApprovalMode.TRUSTED)
    args: dict[str, Any] = {"path": "a.py", "content": "a = 2\n"}
    if operation == "file_ops.edit_file":
        args = {"path": "a.py", "edits": [{"old": "1", "new": "2"}]}
    task = bench.begin(operation, **args)
    gate = await bench.gate()
    assert "hard_link" in gate.impact.reasons
    await bench.answer(gate, GateChoice.ONCE)
    message = await done(task)
    assert "had another name too (a hard link)" in message.result.text
    assert (tmp_path / "b.py").read_text() == "a = 1\n"
    again = await bench.call("file_ops.edit_file", path="a.py", edits=[{"old": "2", "new": "3"}])
    assert "hard link" not in again.result.text
