"""Streams of events as a session makes them, for tests of what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator

from duckflow_tui.state.base import Event
from duckflow_tui.state.calls import (
    OperationFinished,
    OperationMessage,
    OperationRequested,
    OperationStarted,
)
from duckflow_tui.state.conversation import (
    AssistantMessage,
    AssistantReplied,
    UserMessage,
    UserMessageAdded,
)
from duckflow_tui.state.decision import Action, SelfCheck, TurnDecision
from duckflow_tui.state.gates import Gate, GateAnswer, GateAnswered, GateChoice, GateOpened, Impact
from duckflow_tui.state.operations import ApprovalMode, Effect, OperationResult, Outcome
from duckflow_tui.state.session import SessionInfo, SessionStarted
from duckflow_tui.state.turn import LoopStarted, TurnFinished, TurnInfo, TurnStarted
from duckflow_tui.state.usage import LlmCall, LlmCallFinished

PROSE = "The parser keeps a stack of open blocks; 閉じる前に確認します。 See `core/parse.py`.\n"


def started(session_id: str = "session_00000001", workspace: str = "/w") -> SessionStarted:
    """The first event."""
    info = SessionInfo(session_id=session_id, workspace=workspace, title="w", started_at=1.0)
    return SessionStarted(session=info, mode=ApprovalMode.STANDARD)


def said(number: int, text: str = "please go on") -> UserMessageAdded:
    """A message of the user."""
    message = UserMessage(message_id=f"msg_{number:08x}", text=f"{number}: {text}", at=number)
    return UserMessageAdded(message=message)


def requested(call_id: str) -> OperationRequested:
    """A call that needs consent."""
    return OperationRequested(
        call_id=call_id,
        operation="file_ops.delete_file",
        args={"path": f"{call_id}.txt"},
        reasoning="asked for",
        at=1.0,
    )


def opened(call_id: str) -> GateOpened:
    """Its gate."""
    return GateOpened(
        gate=Gate(
            gate_id=f"gate_{call_id}",
            call_id=call_id,
            operation="file_ops.delete_file",
            args={"path": f"{call_id}.txt"},
            args_hash="0" * 64,
            effect=Effect.DELETE,
            intent="Tidy up",
            why="asked for",
            impact=Impact(),
            opened_at=1.0,
        )
    )


def answered(call_id: str, choice: GateChoice = GateChoice.ONCE) -> GateAnswered:
    """The user's key on it."""
    answer = GateAnswer(
        gate_id=f"gate_{call_id}", call_id=call_id, args_hash="0" * 64, choice=choice
    )
    return GateAnswered(answer=answer, at=0.0)


def begun(call_id: str) -> OperationStarted:
    """It runs."""
    return OperationStarted(call_id=call_id, at=2.0)


def finished(call_id: str, output: str = "", operation: str = "x") -> OperationFinished:
    """It ended."""
    result = OperationResult(outcome=Outcome.OK, text=output, summary="done")
    return OperationFinished(
        message=OperationMessage(
            call_id=call_id, operation=operation, args={}, result=result, at=3.0
        )
    )


def turn(number: int) -> Iterator[Event]:
    """A whole turn: a message, three calls with their results, four replies: eight messages."""
    at = 1000.0 + number
    yield said(number)
    yield TurnStarted(
        turn=TurnInfo(turn_id=f"turn_{number}", message_id=f"msg_{number:08x}", started_at=at)
    )
    for loop in range(1, 5):
        call_id = f"call_{number}_{loop}"
        yield LoopStarted(loop=loop, limit=10)
        yield LlmCallFinished(
            call=LlmCall(
                llm_id=f"llm_{number}_{loop}",
                role="main",
                purpose="main",
                endpoint="local",
                model="m",
                tokens_in=9000,
                tokens_out=300,
            )
        )
        yield _reply(number, loop, call_id)
        if loop == 4:
            break
        yield OperationRequested(
            call_id=call_id, operation="file_ops.read_file", args={"path": "core/parse.py"}, at=at
        )
        yield begun(call_id)
        yield finished(call_id, PROSE * 12, "file_ops.read_file")
    yield TurnFinished(turn_id=f"turn_{number}", outcome="done", reply=PROSE, llm_calls=4)


def _reply(number: int, loop: int, call_id: str) -> AssistantReplied:
    action = Action(
        call_id=call_id,
        operation="file_ops.read_file",
        args={"path": "core/parse.py"},
        reasoning="to see it",
    )
    decision = TurnDecision(
        decision_id=f"decision_{number}_{loop}",
        rationale="reads first",
        reply=PROSE * 3,
        goal_consistency=SelfCheck(ok=True, reason="serves it"),
        constraint_check=SelfCheck(ok=True, reason="none broken"),
        actions=() if loop == 4 else (action,),
    )
    return AssistantReplied(
        message=AssistantMessage(
            message_id=f"reply_{number}_{loop}",
            llm_id=f"llm_{number}_{loop}",
            text=PROSE * 3,
            decision=decision,
            at=1000.0 + number,
        )
    )
