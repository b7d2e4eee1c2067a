"""Reads from the state the values of each layer's template, and no others (S4-25)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from duckflow_tui.prompting import lines
from duckflow_tui.prompting.budget import Cuttable, Trim
from duckflow_tui.prompting.lines import (
    LINE,
    format_bullets,
    format_minute,
    format_numbered,
    frame_text,
    operation_names,
    short_line,
)
from duckflow_tui.prompting.threads import step_of
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Frozen, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, UserMessage
from duckflow_tui.state.gates import Card, CardKind
from duckflow_tui.state.goal import AttemptMessage
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.phase import Trigger
from duckflow_tui.state.plan import ExecutionMode, Plan, Step, WorkStatus

BASE_DIGESTS: Final = 5  # S4-11

MAIN_DIGESTS: Final = 3  # S4-16

UNSET: Final = "–"

_TOLD_DECISIONS: Final = 5  # newest entries of the decision log; the rest is in the session file

_LEARNED: Final = 5

_RESULTS: Final = 10

_KNOWN: Final = 60  # characters of a requirement whose words travel with the conversation


#: How plans are carried out, as the settings say it.
ModeChoice = Literal["auto"] | ExecutionMode


Values = dict[str, str]

Lists = dict[str, Cuttable]


class LongMemory(Frozen):
    """The memory of earlier sessions (S4-9): counts without the present session, lines newest
    first.
    """

    total_files: int = 0
    successful_operations: int = 0
    total_conversations: int = 0
    learned_patterns: tuple[str, ...] = ()
    user_settings: tuple[str, ...] = ()
    noted: bool = False  # whether there is a line at all, under a heading of ours or the user's own


def session_values(
    state: AgentState, memory: LongMemory, digests: Sequence[str]
) -> tuple[Values, Lists]:
    """Return the base layer's changing fields (S4-9…11). Of ``digests`` it shows those older than
    the main layer's.
    """
    asked = succeeded = 0  # requests of this session, and its operations that went well
    for message in state.messages:
        if isinstance(message, UserMessage):
            asked += not message.aside
        elif isinstance(message, OperationMessage):
            succeeded += message.result.went_well
    values = {
        "session_id": state.session.session_id,
        "total_conversations": str(memory.total_conversations + asked),
        "last_updated": format_minute(state.messages[-1].at) if state.messages else "",
        "total_files": str(memory.total_files + len(state.files_read)),
        "successful_operations": str(memory.successful_operations + succeeded),
    }
    return values, {
        "user_settings": _cut_lessons(memory.user_settings[:_LEARNED]),
        "learned_patterns": _cut_lessons(memory.learned_patterns[:_LEARNED]),
        "earlier": Cuttable(
            Trim.CONVERSATION_SUMMARY,
            format_bullets(digests[:-MAIN_DIGESTS][-BASE_DIGESTS:]),
            drop="first",
        ),
    }


def main_values(
    state: AgentState,
    digests: Sequence[str],
    execution_mode: ModeChoice = "auto",
    *,
    whole: bool = False,
) -> tuple[Values, Lists]:
    """Return the main layer's fields: phase, counters, the five fixed items, requirements,
    approvals.

    ``whole``: parts of the conversation since the request are not sent in full, so the request and
    the requirements are repeated in full.
    """
    memory, turn, plan = state.memory, state.turn, state.active_plan
    done, total = plan.progress if plan else (0, 0)
    first = turn is not None and turn.attempt == 1 and turn.loop <= 1
    guess = turn.request if turn is not None and first else ""
    before = state.earlier[-1] if guess == "guessed_new" and state.earlier else None
    values = {
        "phase": state.phase.value,
        "attempt": str(turn.attempt) if turn else "",
        "max_attempts": str(turn.max_attempts) if turn else "",
        "loop": str(turn.loop) if turn else "",
        "limit": str(turn.limit) if turn else "",
        "last_one": str(turn.limit) if turn and turn.loop >= turn.limit else "",
        "refused_move": _refused_move(state),
        "request": request_line(state) if whole or not _is_asked_last(state) else "",
        "unfinished": one_line(before.original_query, LINE) if before else "",
        "maybe_other": "1" if guess == "guessed_same" else "",
        "plan_done": str(done) if plan else "",
        "plan_total": str(total) if plan else "",
        "execution_mode": "" if execution_mode == "auto" else execution_mode,
        "running": lines.format_running(state),
        **_goal_values(state),
        "why_now": memory.why_now,
        "constraints": "\n".join(format_bullets(memory.constraints)),
        "last_delta": memory.last_delta,
        "by_user": ", ".join(
            name if getattr(memory, name) else f"{name} ({UNSET})" for name in memory.by_user
        )
        if memory.by_user
        else "",
        "requirements": lines.format_requirements(state, None if whole else _KNOWN),
        "gates": lines.format_gates(state),
        "changed_outside": lines.list_changed_outside(state),
    }
    return values, {
        "context_refs": Cuttable(Trim.EVIDENCE, format_bullets(memory.context_refs)),
        "decision_log": _list_decisions(state),
        "digests": _list_digests(digests),
        "plan_step": Cuttable(Trim.PLAN_BRIEF, lines.step_in_hand(plan) if plan else ()),
        "plan_brought": Cuttable(
            Trim.EVIDENCE, lines.list_step_reports(state, plan) if plan else (), drop="first"
        ),
        "open_questions": Cuttable(Trim.OPEN_QUESTIONS, format_bullets(memory.open_questions)),
        "plan_brief": Cuttable(Trim.PLAN_BRIEF, format_numbered(memory.plan_brief)),
    }


def planning_values(state: AgentState, op_propose: str = "") -> tuple[Values, Lists]:
    """Return the fields for PLANNING: the present plan, lessons learned, strategies tried."""
    objective = state.objective
    values = {
        "plan": lines.format_plan(state.active_plan),
        "op_propose": op_propose,
    }
    return values, {
        "learned": _cut_lessons(
            _list_new_lessons(state, objective.learned_constraints if objective else ())
        ),
        "avoid": _cut_lessons(
            _list_new_lessons(state, objective.attempted_strategies if objective else ())
        ),
    }


def execution_values(state: AgentState) -> tuple[Values, Lists]:
    """Return the fields for EXECUTION: the plan, the running step, lessons learned."""
    plan, objective = state.active_plan, state.objective
    step = (
        next((s for s in plan.steps if s.status is WorkStatus.IN_PROGRESS), None) if plan else None
    )
    words = one_line(f"{step.name}: {step.description}", 2 * LINE) if step else ""
    return {"plan": lines.format_plan(plan), "step": words}, {
        "learned": _cut_lessons(
            _list_new_lessons(state, objective.learned_constraints if objective else ())
        ),
    }


def review_values(state: AgentState) -> tuple[Values, Lists]:
    """Return the fields for REVIEW: success criteria, evidence, results, changed files."""
    plan, objective = state.active_plan, state.objective
    shown = [
        f"{item.requirement_id}: {one_line(fact.text, LINE)}"
        for item in (objective.extracted_requirements if objective else ())
        for fact in item.evidence
    ]
    results = [one_line(r, LINE) for r in (objective.accumulated_results if objective else ())]
    criteria = "\n".join(format_bullets(plan.success_criteria)) if plan else ""
    return {"criteria": criteria}, {
        "evidence": Cuttable(Trim.EVIDENCE, format_bullets(shown)),
        "results": Cuttable(Trim.EVIDENCE, format_bullets(results[-_RESULTS:]), drop="first"),
        "changes": Cuttable(Trim.EVIDENCE, format_bullets(_list_changes(state)), drop="first"),
    }


def _refused_move(state: AgentState) -> str:
    """Return ``OLD → WANTED`` where the last decision asked for a change of phase that the phase
    table forbids; else empty.
    """
    last = next((m for m in reversed(state.messages) if isinstance(m, AssistantMessage)), None)
    refusal = state.refusals[-1] if state.refusals else None
    if last is None or refusal is None or refusal.at < last.at:
        return ""
    return f"{refusal.old} → {refusal.wanted}" if refusal.trigger is Trigger.DECISION else ""


def _is_asked_last(state: AgentState) -> bool:
    """Whether the user's newest message in the conversation is the current request itself."""
    said = (m for m in reversed(state.messages) if isinstance(m, UserMessage) and not m.aside)
    last = next(said, None)
    return state.objective is None or (
        last is not None and last.message_id == state.objective.message_id
    )


def request_line(state: AgentState) -> str:
    """Return the first line of the current request, cut to 200 characters."""
    if state.objective is not None:
        return one_line(state.objective.original_query, LINE)
    last = next(
        (m for m in reversed(state.messages) if isinstance(m, UserMessage) and not m.aside), None
    )
    return one_line(last.text, LINE) if last else ""


def _list_changes(state: AgentState) -> list[str]:
    """List the newest changes of files in this turn as ``modify PATH +3 −1``, oldest first, at most
    ten.
    """
    found: list[str] = []
    start = state.turn.message_id if state.turn else ""
    for message in reversed(state.messages):
        if isinstance(message, UserMessage) and start in (message.message_id, ""):
            break
        if isinstance(message, OperationMessage):
            found.extend(
                f"{change.kind} {one_line(change.path, LINE)} +{change.added} −{change.removed}"
                for change in reversed(message.result.changes)
            )
    return found[:_RESULTS][::-1]


def _cut_lessons(items: Sequence[str]) -> Cuttable:
    """Return the items as bullets, each cut to one line, that may be dropped as evidence."""
    return Cuttable(Trim.EVIDENCE, format_bullets([one_line(item, LINE) for item in items]))


def _list_new_lessons(state: AgentState, items: Sequence[str]) -> Sequence[str]:
    """Return the newest lessons that no message at the begin of an attempt has already told the
    model.
    """
    told = [m.for_model for m in state.messages if isinstance(m, AttemptMessage)]
    if state.compaction is not None:
        told = []
    return [item for item in items if not any(item in words for words in told)][-_LEARNED:]


def _list_decisions(state: AgentState) -> Cuttable:
    """Return the newest entries of the decision log as bullets."""
    newest = state.memory.decision_log[-_TOLD_DECISIONS:]
    return Cuttable(Trim.EVIDENCE, format_bullets(newest), drop="first")


def _list_digests(digests: Sequence[str]) -> Cuttable:
    """Return one line for each of the newest exchanges that are no longer sent in full."""
    return Cuttable(
        Trim.CONVERSATION_SUMMARY, format_bullets(digests[-MAIN_DIGESTS:]), drop="first"
    )


_TASKS: Final = 12  # next ones of a list

_LAST_RESULTS: Final = 3  # of the running step, for an answer beside it


def step_values(
    state: AgentState,
    plan: Plan,
    step: Step,
    operations: Sequence[OperationSpec],
    digests: Sequence[str],
    *,
    whole: bool = False,
) -> tuple[Values, Lists]:
    """Return the fields of a request for the next action of a plan's step (S3-14…18, S3-30, S3-36).

    ``digests`` stand for parts of the conversation that are not sent; ``whole``: the requirements
    are repeated in full because messages since the request are among them.
    """
    work = state.work if state.work and state.work.step_id == step.step_id else None
    names = operation_names(operations)
    done, total = plan.progress
    is_other_goal = plan.goal not in (state.memory.goal, plan.name)
    tasks = [t for t in step.task_list if t.status.is_open][:_TASKS]
    values = {
        **_wish_values(state),
        "requirements": lines.format_requirements(state, None if whole else _KNOWN),
        "plan_name": short_line(plan.name, LINE),
        "plan_goal": short_line(plan.goal, 2 * LINE) if is_other_goal else "",
        "plan_done": str(done),
        "plan_total": str(total),
        "step_number": str(lines.step_number(plan, step)),
        "step": lines.format_step(step),
        "loop": str(work.loop) if work else "",
        "limit": str(work.limit) if work else "",
        "mode": state.mode.value,
        "changed_outside": lines.list_changed_outside(state),
        **{name: names[name] for name in ("op_revise", "op_update")},
    }
    return values, {
        "decision_log": _list_decisions(state),
        "digests": _list_digests(digests),
        "tasks": Cuttable(Trim.PLAN_BRIEF, format_numbered([lines.format_task(t) for t in tasks])),
    }


def aside_values(
    state: AgentState,
    operations: Sequence[OperationSpec],
    digests: Sequence[str],
    answers: str = "",
) -> tuple[Values, Lists]:
    """Return the fields of a request for an answer beside running work: the running step, its
    progress, open questions.

    ``answers`` is the id of the message to answer; empty: the newest.
    """
    work, (plan, step) = state.work, _find_running_step(state)
    done, total = plan.progress if plan else (0, 0)
    tasks = step.task_list if step else ()
    # Nothing in a state says what time it is; its newest message comes nearest.
    now = state.messages[-1].at if state.messages else 0.0
    begun = (step.started_at if step else None) or (work.started_at if work else now)
    recent = step_results(state, step)[-_LAST_RESULTS:] if step else []
    cards = [_describe_card(state, c) for c in state.cards if c.kind is not CardKind.TRUST]
    names = operation_names(operations)
    values = {
        **_wish_values(state),
        "phase": state.phase.value,
        "status": state.status.value,
        "mode": state.mode.value,
        "plan": lines.format_plan(plan),
        "plan_done": str(done) if plan else "",
        "plan_total": str(total) if plan else "",
        "step_number": str(lines.step_number(plan, step)) if plan and step else "",
        "step": lines.format_step(step) if step else "",
        "tasks_done": str(sum(t.status is WorkStatus.COMPLETED for t in tasks)) if tasks else "",
        "tasks_total": str(len(tasks)) if tasks else "",
        "loop": str(work.loop) if work else "",
        "limit": str(work.limit) if work else "",
        "elapsed": lines.format_elapsed(now - begun) if work else "",
        "running": lines.format_running(state),
        "asked": short_line(_get_aside_request(state, answers), 2 * LINE),
        "cards": "\n".join(format_bullets(cards)),
        "results": frame_text(
            "results", "\n".join(format_bullets([lines.format_result(m) for m in recent]))
        ),
        **{name: names[name] for name in ("op_get", "op_revise", "op_pause", "op_stop")},
    }
    return values, {
        "digests": _list_digests(digests),
    }


def _get_aside_request(state: AgentState, message_id: str) -> str:
    """Return the text of the user's message that is answered beside the work."""
    said = (m for m in reversed(state.messages) if isinstance(m, UserMessage) and m.aside)
    return next((m.text for m in said if message_id in (m.message_id, "")), "")


def step_results(state: AgentState, step: Step) -> list[OperationMessage]:
    """Return the finished calls of a step, oldest first."""
    return [
        message
        for message in state.messages
        if isinstance(message, OperationMessage) and message.step_id == step.step_id
    ]


_NEEDED: Final = 8  # newest results of a step and of those it depends on

_NEEDED_RESULT: Final = 1_500  # characters of each; a list of tasks needs the values themselves


def needed_results(state: AgentState, plan: Plan, step: Step) -> str:
    """Format the results of a step's calls after those of the steps that it depends on."""
    seen = [m for s in plan.steps if s.step_id in step.depends_on for m in step_results(state, s)]
    seen += step_results(state, step)
    return "\n".join(
        format_numbered(
            f"{lines.format_call(m.operation, m.args)} -> {m.result.label}\n"
            f"{lines.cut_text(m.result.text, _NEEDED_RESULT)}"
            for m in seen[-_NEEDED:]
        )
    )


def _goal_values(state: AgentState) -> Values:
    """Return the goal that the model stated; without one, the request's first line as a guess."""
    goal = state.memory.goal
    return {"goal": goal, "goal_guess": "" if goal else request_line(state)}


def _wish_values(state: AgentState) -> Values:
    """Return the fields that are never cut: request, goal, constraints, requirements and
    approvals.
    """
    memory = state.memory
    return {
        "request": request_line(state),
        **_goal_values(state),
        "constraints": "\n".join(format_bullets(memory.constraints)),
        "requirements": lines.format_requirements(state),
        "gates": lines.format_gates(state),
    }


def _find_running_step(state: AgentState) -> tuple[Plan | None, Step | None]:
    """Return the plan and the step that work runs on; without work, the active plan and None."""
    found = step_of(state, state.work.step_id) if state.work else None
    return found or (state.active_plan, None)


def _describe_card(state: AgentState, card: Card) -> str:
    """Describe a waiting question by its kind and its plan or step."""
    plan = next((p for p in state.plans if p.plan_id == card.plan_id), None)
    step = plan.get_step(card.step_id) if plan else None
    name = step.name if step else plan.name if plan else ""
    said = card.report.summary if card.report else card.change.reason if card.change else ""
    return ": ".join(short_line(part) for part in (card.kind.value, name, said) if part)
