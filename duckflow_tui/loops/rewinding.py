"""Where a conversation can go back to, how things stood there, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from duckflow_tui.state.agent import AgentState, TurnSummary
from duckflow_tui.state.base import ELLIPSIS, one_line
from duckflow_tui.state.messages import (
    AssistantMessage,
    Message,
    OperationMessage,
    RunningOperation,
    UserMessage,
)
from duckflow_tui.state.operations import FileChange, OperationResult, Outcome
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.rewinding import Standing
from duckflow_tui.state.work import Plan, Step, Task, WorkStatus

NAMED: Final = 6  # files that are told by name
_NOT_DONE: Final = "the conversation went back to before it was done"
_STILL_RAN: Final = (
    "It still ran where this session was forked. What it did is not known here: look before you "
    "rely on it."
)


@dataclass(frozen=True, slots=True)
class Point:
    """A message of the user that the conversation can go back to before."""

    message_id: str
    text: str
    at: float  # seconds since the epoch
    aside: bool
    messages: int  # that are behind it, of the user and of the model
    _log: list[FileChange] = field(default_factory=list[FileChange], repr=False)  # newest first
    _count: int = 0  # of them that are behind it

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """What was done to files since and was not undone, oldest first."""
        return tuple(reversed(self._log[: self._count]))

    @property
    def files(self) -> int:
        """How many files that are."""
        return len({change.path for change in self._log[: self._count]})


def points(state: AgentState) -> list[Point]:
    """The user's messages, the newest first."""
    found: list[Point] = []
    log: list[FileChange] = []
    said = 0
    for message in reversed(state.messages):
        if isinstance(message, OperationMessage):
            if message.call_id not in state.undone_calls:
                log += reversed(message.result.changes)
            continue
        said += isinstance(message, (UserMessage, AssistantMessage))
        if isinstance(message, UserMessage) and not message.step_id:
            point = Point(
                message.message_id, message.text, message.at, message.aside, said, log, len(log)
            )
            found.append(point)
    return found


def point_at(state: AgentState, message_id: str) -> Point | None:
    """The message of that id; None when the conversation has none such."""
    return next((p for p in points(state) if p.message_id == message_id), None)


def standing_at(past: AgentState, now: AgentState, plans: Sequence[Plan]) -> Standing:
    """How things stood then, with ``plans`` as they are laid down. Of files that changed since,
    nothing that was read holds any more.
    """
    standing = Standing.of(past)
    same = {p: sha for p, sha in past.files_read.items() if now.files_read.get(p) == sha}
    update: dict[str, object] = {"files_read": same, "plans": tuple(plans)}
    if past.turn is not None:
        update |= {"phase": Phase.IDLE, "status": Status.SUCCESS, "status_detail": ""}
    return standing.model_copy(update=update)


def laid_plans(past: AgentState) -> tuple[Plan, ...]:
    """The plans of then; what was in the middle of its work is not any more."""
    if past.turn is None:
        return past.plans
    return tuple(
        plan.model_copy(update={"steps": tuple(_laid(step) for step in plan.steps)})
        for plan in past.plans
    )


def _laid(step: Step) -> Step:
    if step.status is not WorkStatus.IN_PROGRESS:
        return step

    def task(old: Task) -> Task:
        if old.status is not WorkStatus.IN_PROGRESS:
            return old
        return old.model_copy(update={"status": WorkStatus.CANCELLED, "result": _NOT_DONE})

    update = {
        "status": WorkStatus.CANCELLED,
        "note": _NOT_DONE,
        "started_at": None,
        "task_list": tuple(task(t) for t in step.task_list),
    }
    return step.model_copy(update=update)


def stopped_turn(past: AgentState, at: float) -> TurnSummary | None:
    """The turn that ran then, as if it had been stopped there."""
    turn, usage = past.turn, past.usage
    if turn is None:
        return None
    return TurnSummary(
        turn_id=turn.turn_id,
        outcome="stopped",
        llm_calls=usage.calls - turn.calls_before,
        tokens=usage.tokens_in + usage.tokens_out - turn.tokens_before,
        duration_s=max(at - turn.started_at - turn.away_s, 0.0),
    )


def carried(past: AgentState, now: Sequence[Message]) -> tuple[OperationMessage, ...]:
    """What came of the calls that ran then; of those that still run, that nothing is known."""
    ended = {m.call_id: m for m in now if isinstance(m, OperationMessage)}
    return tuple(ended.get(call.call_id) or _unknown(call) for call in past.running)


def _unknown(call: RunningOperation) -> OperationMessage:
    return OperationMessage(
        call_id=call.call_id,
        operation=call.operation,
        args=call.args,
        reasoning=call.reasoning,
        intent=call.intent,
        result=OperationResult(outcome=Outcome.STOPPED, text=_STILL_RAN),
        step_id=call.step_id,
        by_user=call.by_user,
        at=call.at,
    )


def file_names(changes: Iterable[FileChange]) -> str:
    """The files of these changes, the first by name."""
    paths = list(dict.fromkeys(change.target or change.path for change in changes))
    named = ", ".join(one_line(path, 200) for path in paths[:NAMED])
    return named if len(paths) <= NAMED else f"{named}, {ELLIPSIS} (+{len(paths) - NAMED})"


def new_plans(past: AgentState, now: AgentState) -> tuple[str, ...]:
    """The names of plans that there were not yet."""
    known = {plan.plan_id for plan in past.plans}
    return tuple(plan.name for plan in now.plans if plan.plan_id not in known)


def new_requirements(past: AgentState, now: AgentState) -> int:
    """How many requirements that count there were not yet."""
    known = _requirements(past)
    return len([key for key in _requirements(now) if key not in known])


def _requirements(state: AgentState) -> set[tuple[str, str]]:
    objectives = [*state.earlier, *([state.objective] if state.objective else [])]
    return {
        (objective.objective_id, item.requirement_id)
        for objective in objectives
        for item in objective.extracted_requirements
        if item.counts
    }
