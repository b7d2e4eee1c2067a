"""Where a conversation can go back to, and how things stood there."""

from __future__ import annotations

from support.conversations import assistant, user
from support.decision_states import ended_call
from support.plans import FIX, running

from duckflow_tui.session.rewind import (
    file_names,
    list_points,
    point_at,
    restore_snapshot,
    settle_running,
)
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import RunningOperation
from duckflow_tui.state.operations import FileChange, Outcome
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.state.turn import TurnInfo

ONE = FileChange(path="a.py", kind="modify", added=2, removed=1, before="1", after="2")
TWO = FileChange(path="b.py", kind="modify", added=1, removed=0, before="3", after="4")
MOVED = FileChange(path="b.py", target="c.py", kind="move", before="4", after="4")


def talk() -> AgentState:
    """Three messages; the call behind the second was undone, and a step of a plan heard a word."""
    state = AgentState()
    state.messages = [
        user("first", 1),
        ended_call(1, "file_ops.edit_file", {"path": "a.py"}, None, changes=(ONE,)),
        ended_call(2, "file_ops.read_file", {"path": "a.py"}, None),
        user("second", 2).replace(aside=True),
        ended_call(3, "file_ops.edit_file", {"path": "a.py"}, None, changes=(ONE, TWO)),
        user("to the step", 3).replace(step_id=FIX),
        assistant("Done."),
        user("third", 4),
        ended_call(4, "file_ops.edit_file", {"path": "a.py"}, None, changes=(ONE,)),
        ended_call(5, "file_ops.move_file", {"source": "b.py"}, None, changes=(MOVED, TWO)),
    ]
    state.undone_calls = ("call_00000003",)
    return state


def test_each_message_of_the_user_is_a_point_with_what_changed_since() -> None:
    found = list_points(talk())
    assert [(p.message_id, p.text, p.aside, p.messages, p.files) for p in found] == [
        ("u4", "third", False, 1, 2),
        ("u2", "second", True, 2, 2),
        ("u1", "first", False, 3, 2),
    ]
    assert [[call.call_id[-1] for call in point.calls] for point in found] == [
        ["5", "4"],
        ["5", "4"],
        ["5", "4", "1"],
    ]
    assert found[0].changes == (ONE, MOVED, TWO)
    second = point_at(talk(), "u2")
    assert second is not None
    assert second.text == "second"
    assert point_at(talk(), "u3") is None  # it belongs to the step
    assert file_names(found[0].changes) == "a.py, c.py, b.py"


def test_a_step_that_was_at_work_there_is_stopped_and_the_others_stay() -> None:
    past = AgentState()
    past.plans = (running(),)
    at_rest = restore_snapshot(past, past).plans
    assert at_rest == past.plans
    past.turn = TurnInfo(turn_id="t", message_id="u1", started_at=1.0)
    (plan,) = restore_snapshot(past, past).plans
    first, second, third = plan.steps
    assert (first, third) == (past.plans[0].steps[0], past.plans[0].steps[2])
    assert (second.status, second.started_at) == (WorkStatus.CANCELLED, None)
    assert "went back to before it was done" in second.note
    assert [task.status for task in second.task_list] == [
        WorkStatus.COMPLETED,
        WorkStatus.CANCELLED,
        WorkStatus.PENDING,
    ]


def test_of_a_call_that_still_runs_nothing_is_known() -> None:
    past = AgentState()
    past.running = tuple(
        RunningOperation(call_id=f"call_0000000{n}", operation="shell.run", args={}, at=2.0)
        for n in (1, 2)
    )
    ended = ended_call(1, "shell.run", {}, None)
    whole, cut = settle_running(past, [user("x"), ended])
    assert whole == ended
    assert (cut.call_id, cut.result.outcome, cut.at) == ("call_00000002", Outcome.STOPPED, 2.0)
    assert "look before you rely on it" in cut.result.text
