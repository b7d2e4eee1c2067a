"""What each layer is told of the state: the fields it needs and no others (S4-25)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from duckflow_tui.prompting.budget import Cuttable, Trim
from duckflow_tui.prompting.digests import target
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Frozen, one_line
from duckflow_tui.state.messages import OperationMessage, UserMessage
from duckflow_tui.state.work import Plan, WorkStatus

BASE_DIGESTS: Final = 5  # S4-11
MAIN_DIGESTS: Final = 3  # S4-16
UNSET: Final = "–"
_LINE: Final = 200  # characters of a value on one line
_DECISIONS: Final = 5  # newest entries of the decision log; the rest is in the session file
_LEARNED: Final = 5
_RESULTS: Final = 10
_STEPS: Final = 12  # of a plan, around the one being worked on

Values = dict[str, str]
Lists = dict[str, Cuttable]


class LongMemory(Frozen):
    """What outlives a session (S4-9). A count of None is taken from this session."""

    total_files: int | None = None
    successful_operations: int | None = None
    total_conversations: int | None = None
    learned_patterns: tuple[str, ...] = ()
    user_settings: tuple[str, ...] = ()


def session_values(
    state: AgentState, memory: LongMemory, digests: Sequence[str], asked: int, succeeded: int
) -> tuple[Values, Lists]:
    """The changing fields of the base layer (S4-9…11).

    Of the ``digests`` it takes those before the main layer's; ``asked`` and ``succeeded`` count
    this session's requests and the operations that went well.
    """
    files, done = memory.total_files, memory.successful_operations
    total = memory.total_conversations
    values = {
        "session_id": state.session.session_id,
        "workspace": one_line(state.session.workspace, _LINE),
        "total_conversations": str(asked if total is None else total),
        "last_updated": _minute(state.messages[-1].at) if state.messages else "",
        "total_files": str(len(state.files_read) if files is None else files),
        "successful_operations": str(succeeded if done is None else done),
        "user_settings": "; ".join(one_line(s, _LINE) for s in memory.user_settings),
    }
    learned = tuple(f"- {one_line(p, _LINE)}" for p in memory.learned_patterns[:_LEARNED])
    return values, {
        "learned_patterns": Cuttable(Trim.EVIDENCE, learned),
        "earlier": Cuttable(
            Trim.CONVERSATION_SUMMARY,
            _bullets(digests[:-MAIN_DIGESTS][-BASE_DIGESTS:]),
            drop="first",
        ),
    }


def main_values(state: AgentState, digests: Sequence[str]) -> tuple[Values, Lists]:
    """Where the work stands: phase, counters, the five fixed items and their companions."""
    memory, turn, plan = state.memory, state.turn, state.active_plan
    done, total = plan.progress if plan else (0, 0)
    values = {
        "phase": state.phase.value,
        "status": state.status.value,
        "status_detail": one_line(state.status_detail, _LINE),
        "attempt": str(turn.attempt) if turn else "",
        "max_attempts": str(turn.max_attempts) if turn else "",
        "loop": str(turn.loop) if turn else "",
        "limit": str(turn.limit) if turn else "",
        "mode": state.mode.value,
        "request": _request(state),
        "plan_done": str(done) if plan else "",
        "plan_total": str(total) if plan else "",
        "running": "\n".join(
            f"- {r.operation} {target(r.args)}".rstrip() for r in state.running if r.started
        ),
        "goal": memory.goal or UNSET,
        "why_now": memory.why_now,
        "constraints": "\n".join(_bullets(memory.constraints)),
        "last_delta": memory.last_delta,
        "requirements": _requirements(state),
        "gates": "\n".join(
            f"- {g.operation} {target(g.args)} ({g.impact.risk.value}): {one_line(g.intent, _LINE)}"
            for g in state.gates
        ),
        "changed_outside": "\n".join(f"- {one_line(p, _LINE)}" for p in state.changed_outside),
    }
    return values, {
        "context_refs": Cuttable(Trim.EVIDENCE, _bullets(memory.context_refs)),
        "decision_log": Cuttable(
            Trim.EVIDENCE, _bullets(memory.decision_log[-_DECISIONS:]), drop="first"
        ),
        "digests": Cuttable(
            Trim.CONVERSATION_SUMMARY, _bullets(digests[-MAIN_DIGESTS:]), drop="first"
        ),
        "open_questions": Cuttable(Trim.OPEN_QUESTIONS, _bullets(memory.open_questions)),
        "plan_brief": Cuttable(Trim.PLAN_BRIEF, _numbered(memory.plan_brief)),
    }


def planning_values(state: AgentState) -> tuple[Values, Lists]:
    """For PLANNING: the plan there is, what was learned, what was tried."""
    objective = state.objective
    return {"plan": _plan(state.active_plan)}, {
        "learned": Cuttable(
            Trim.EVIDENCE, _newest(objective.learned_constraints if objective else ())
        ),
        "avoid": Cuttable(
            Trim.EVIDENCE, _newest(objective.attempted_strategies if objective else ())
        ),
    }


def execution_values(state: AgentState) -> tuple[Values, Lists]:
    """For EXECUTION: the plan, the step in hand, what was learned."""
    plan, objective = state.active_plan, state.objective
    step = (
        next((s for s in plan.steps if s.status is WorkStatus.IN_PROGRESS), None) if plan else None
    )
    words = one_line(f"{step.name}: {step.description}", 2 * _LINE) if step else ""
    return {"plan": _plan(plan), "step": words}, {
        "learned": Cuttable(
            Trim.EVIDENCE, _newest(objective.learned_constraints if objective else ())
        ),
    }


def review_values(state: AgentState) -> tuple[Values, Lists]:
    """For REVIEW: the criteria, what was changed, what was reached, and what shows it."""
    plan, objective = state.active_plan, state.objective
    shown = [
        f"{item.requirement_id}: {one_line(fact, _LINE)}"
        for item in (objective.extracted_requirements if objective else ())
        for fact in item.evidence
    ]
    results = [one_line(r, _LINE) for r in (objective.accumulated_results if objective else ())]
    criteria = "\n".join(_bullets(plan.success_criteria)) if plan else ""
    return {"criteria": criteria}, {
        "evidence": Cuttable(Trim.EVIDENCE, _bullets(shown)),
        "results": Cuttable(Trim.EVIDENCE, _bullets(results[-_RESULTS:]), drop="first"),
        "changes": Cuttable(Trim.EVIDENCE, _bullets(_changes(state)), drop="first"),
    }


def _request(state: AgentState) -> str:
    if state.objective is not None:
        return one_line(state.objective.original_query, _LINE)
    last = next((m for m in reversed(state.messages) if isinstance(m, UserMessage)), None)
    return one_line(last.text, _LINE) if last else ""


def _requirements(state: AgentState) -> str:
    if state.objective is None:
        return ""
    return "\n".join(
        f"- {item.requirement_id} P{item.priority} {item.satisfaction_level:.0%}"
        f" {' '.join(item.requirement.split())}"
        for item in state.objective.extracted_requirements
    )


def _plan(plan: Plan | None) -> str:
    if plan is None:
        return ""
    open_at = next((i for i, s in enumerate(plan.steps) if s.status is not WorkStatus.COMPLETED), 0)
    begin = max(0, min(open_at - 2, len(plan.steps) - _STEPS))
    lines = [f"{one_line(plan.name, 100)} [{plan.status.value}]"]
    for number, step in enumerate(plan.steps[begin : begin + _STEPS], start=begin + 1):
        lines.append(f"{number}. [{step.status.value}] {one_line(step.name, 100)}")
    if len(plan.steps) > _STEPS:
        lines.append(f"({begin + 1}–{begin + _STEPS} / {len(plan.steps)})")
    return "\n".join(lines)


def _changes(state: AgentState) -> list[str]:
    """Files changed since the turn's message, newest last, each call with its line counts."""
    lines: list[str] = []
    start = state.turn.message_id if state.turn else ""
    for message in reversed(state.messages):
        if isinstance(message, UserMessage) and start in (message.message_id, ""):
            break
        if isinstance(message, OperationMessage):
            lines.extend(
                f"{change.kind} {one_line(change.path, _LINE)} +{change.added} −{change.removed}"
                for change in reversed(message.result.changes)
            )
    return lines[:_RESULTS][::-1]


def _newest(items: Sequence[str]) -> tuple[str, ...]:
    return _bullets([one_line(item, _LINE) for item in items[-_LEARNED:]])


def _bullets(items: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"- {item}" for item in items)


def _numbered(items: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{number}. {item}" for number, item in enumerate(items, start=1))


def _minute(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
