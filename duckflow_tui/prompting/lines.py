"""How things of the state read on one line of a prompt, and on lists of such lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any, Final

from duckflow_tui.prompting.digests import target
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ELLIPSIS, JsonObject, canonical_json, one_line
from duckflow_tui.state.clock import calendar
from duckflow_tui.state.messages import OperationMessage, ReportMessage
from duckflow_tui.state.objective import RequirementItem
from duckflow_tui.state.work import Plan, Step, StepReport, Task, WorkStatus

LINE: Final = 200  # characters of a value on one line
RESULT: Final = 200  # characters of a result in a list of results (S3-15)
_ARGUMENT: Final = 100  # characters of one argument
_ARGUMENTS: Final = 200  # of all arguments of a call
_NAME: Final = 100
_STEPS: Final = 12  # of a plan, around the first one that is not done
_FILES: Final = 10  # that a report names
_READ: Final = 4  # times as much of a long text is looked at as of it is shown


def short(text: str, limit: int = LINE) -> str:
    """``one_line`` for texts of any length, at the cost of a short one."""
    if len(text) <= _READ * limit:
        return one_line(text, limit)
    flat = one_line(text[: _READ * limit], limit)
    return flat if flat.endswith(ELLIPSIS) else one_line(flat, limit - 1) + ELLIPSIS


def bullets(items: Sequence[str]) -> tuple[str, ...]:
    """Each item as an entry of a list."""
    return tuple(f"- {item}" for item in items)


def numbered(items: Sequence[str], first: int = 1) -> tuple[str, ...]:
    """Each item with its number."""
    return tuple(f"{number}. {item}" for number, item in enumerate(items, start=first))


def minute(at: float) -> str:
    """A time, seconds since the epoch, to the minute."""
    then = calendar(at, UTC)
    return then.strftime("%Y-%m-%d %H:%M UTC") if then else "?"


def elapsed(seconds: float) -> str:
    """A duration as ``m:ss`` or ``h:mm:ss``; below 0 counts as 0."""
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute_of = divmod(minutes, 60)
    return f"{hours}:{minute_of:02d}:{second:02d}" if hours else f"{minute_of}:{second:02d}"


def call(operation: str, args: JsonObject) -> str:
    """``operation(args)`` with long arguments cut."""
    fields = ", ".join(f"{short(name, 40)}: {_value(value)}" for name, value in args.items())
    return f"{short(operation, _NAME)}({short(fields, _ARGUMENTS)})"


def result(message: OperationMessage) -> str:
    """``operation(args) -> [outcome] result``, the result cut, and the reason of the call."""
    why = f" ({short(message.reasoning)})" if message.reasoning.strip() else ""
    said = short(message.result.text, RESULT)
    line = f"{call(message.operation, message.args)} -> [{message.result.outcome.value}] {said}"
    return line.rstrip() + why


def task(item: Task) -> str:
    """A task of a list: its status, its call, what it is for, what came of it."""
    about = f" {short(item.description)}" if item.description else ""
    came = f" -> {short(item.result, RESULT)}" if item.result else ""
    return f"[{item.status.value}] {call(item.operation, item.args)}{about}{came}"


def step(item: Step) -> str:
    """Name and description of a step."""
    name = one_line(item.name, _NAME)
    return f"{name}: {short(item.description, 2 * LINE)}" if item.description else name


def step_number(plan: Plan, item: Step) -> int:
    """The place of a step in its plan, counted from 1; 0 when it is not in it."""
    return next((n for n, s in enumerate(plan.steps, start=1) if s.step_id == item.step_id), 0)


def plan(of: Plan | None) -> str:
    """A plan with its steps and their status, at most twelve around the one that is next."""
    if of is None:
        return ""
    open_at = next((i for i, s in enumerate(of.steps) if s.status is not WorkStatus.COMPLETED), 0)
    begin = max(0, min(open_at - 2, len(of.steps) - _STEPS))
    lines = [f"{one_line(of.name, _NAME)} [{of.status.value}]"]
    for number, item in enumerate(of.steps[begin : begin + _STEPS], start=begin + 1):
        lines.append(f"{number}. [{item.status.value}] {one_line(item.name, _NAME)}")
    if len(of.steps) > _STEPS:
        lines.append(f"({begin + 1}–{begin + _STEPS} / {len(of.steps)})")
    return "\n".join(lines)


def needs(state: AgentState, of: Plan, item: Step) -> tuple[str, ...]:
    """What a step depends on, and what those steps reported (S2-19, S3-30)."""
    wanted = set(item.depends_on)
    reports = _reports(state, wanted)
    lines: list[str] = []
    for number, other in enumerate(of.steps, start=1):
        if other.step_id in wanted:
            said = _reported(reports.get(other.step_id), other)
            head = f"{number}. [{other.status.value}] {one_line(other.name, _NAME)}"
            lines.append(f"{head}: {said}" if said else head)
    return tuple(lines)


def requirements(state: AgentState) -> str:
    """What the user asked for: id, priority, state, how far met, words, check; never cut."""
    if state.objective is None:
        return ""
    return "\n".join(f"- {requirement(r)}" for r in state.objective.extracted_requirements)


def requirement(item: RequirementItem) -> str:
    """A requirement on a line, whole."""
    words = " ".join(item.requirement.split())
    check = " ".join(f"{item.check.kind}: {item.check.value}".split())
    decided_by = f" ({check})" if item.check.kind != "judgement" else ""
    return (
        f"{item.requirement_id} P{item.priority} {item.state.value} {item.satisfaction_level:.0%}"
        f" {words}{decided_by}"
    )


def gates(state: AgentState) -> str:
    """The approvals that are open."""
    return "\n".join(
        f"- {g.operation} {target(g.args)} ({g.impact.risk.value}): {one_line(g.intent, LINE)}"
        for g in state.gates
    )


def running(state: AgentState) -> str:
    """The calls that run."""
    return "\n".join(
        f"- {r.operation} {target(r.args)}".rstrip() for r in state.running if r.started
    )


def changed_outside(state: AgentState) -> str:
    """Files that someone else changed since the model read them."""
    return "\n".join(bullets([one_line(path, LINE) for path in state.changed_outside]))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return canonical_json(short(value, _ARGUMENT))
    return short(canonical_json(value), _ARGUMENT)


def _reports(state: AgentState, steps: set[str]) -> dict[str, StepReport]:
    """The newest report on each of the steps."""
    found: dict[str, StepReport] = {}
    for message in reversed(state.messages):
        if len(found) == len(steps):
            break
        if isinstance(message, ReportMessage) and message.report.step_id in steps:
            found.setdefault(message.report.step_id, message.report)
    return found


def _reported(report: StepReport | None, item: Step) -> str:
    if report is None:
        return short(item.note)
    files = ", ".join(short(path, _NAME) for path in report.files_changed[:_FILES])
    return f"{short(report.summary, 2 * LINE)} {f'({files})' if files else ''}".strip()
