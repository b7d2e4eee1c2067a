"""An answer counts only for exactly what its gate shows."""

from __future__ import annotations

from typing import Any

import pytest
from support.pinned import ManualClock

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import StateError
from duckflow_tui.state.gates import (
    FilePreview,
    Gate,
    GateAnswer,
    GateAnswered,
    GateChoice,
    GateOpened,
    GateWithdrawn,
    Impact,
)
from duckflow_tui.state.operations import Effect
from duckflow_tui.state.store import MemoryRecorder, Store

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
    assert store.state.pending_gate
    store.dispatch(GateAnswered(answer=ANSWER))
    assert not store.state.pending_gate


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
        store.dispatch(GateAnswered(answer=ANSWER.model_copy(update=other)))
    assert store.state.pending_gate


def test_a_withdrawn_gate_takes_no_answer() -> None:
    store = opened()
    store.dispatch(GateWithdrawn(gate_id="gate_1", reason="stopped"))
    with pytest.raises(StateError):
        store.dispatch(GateAnswered(answer=ANSWER))
