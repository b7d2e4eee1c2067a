"""Questions to models that are not decisions: a table of kinds, and the values of their templates.

Text from users, models, files and programs stands in frames that it cannot close.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from duckflow_tui.prompting import lines
from duckflow_tui.prompting.background import (
    READ_FILE,
    Background,
    frame_data,
    list_files_read,
    make_background,
)
from duckflow_tui.prompting.budget import ASSUMED_CONTEXT, ScriptCounter
from duckflow_tui.prompting.layers import needed_results
from duckflow_tui.prompting.lines import (
    LINE,
    cut_text,
    format_bullets,
    format_numbered,
    frame_text,
    operation_lines,
    recent_exchanges,
    short_line,
)
from duckflow_tui.prompting.side_replies import (
    ContinuationReply,
    DigestReply,
    FailureReply,
    JsonReply,
    MissingReply,
    PlanReply,
    ReportReply,
    RequirementsReply,
    SatisfactionReply,
    TasksReply,
)
from duckflow_tui.prompting.templates import load_texts, notice_words
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ELLIPSIS
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.goal import (
    ContinuationContext,
    ExecutionError,
    ExecutionResult,
    RequirementItem,
    SatisfactionEvaluation,
    TaskContext,
)
from duckflow_tui.state.operations import Effect, OperationSpec
from duckflow_tui.state.plan import SOFT_STEPS, Plan, PlanStatus, Step, WorkStatus
from duckflow_tui.state.prompt import ChatMessage
from duckflow_tui.state.usage import Purpose, Role

ReplyT = TypeVar("ReplyT", bound=JsonReply)


@dataclass(frozen=True, slots=True)
class QuestionKind(Generic[ReplyT]):
    """A kind of question: purpose, role of the model, and type of the reply.

    Its text is the prompt file ``ask_<purpose>.md``. ``frames`` are fields shown with the word
    "nothing" where they are empty.
    """

    purpose: Purpose
    role: Role
    reply: type[ReplyT]
    frames: tuple[str, ...] = ()
    judges: bool = False


PLAN: Final = QuestionKind("plan", "creative", PlanReply)
CONTINUATION: Final = QuestionKind("continuation", "creative", ContinuationReply)
TASKS: Final = QuestionKind("tasks", "creative", TasksReply)
REPORT: Final = QuestionKind("report", "fast", ReportReply, ("log",), judges=True)
REQUIREMENTS: Final = QuestionKind("requirements", "fast", RequirementsReply)
SATISFACTION: Final = QuestionKind(
    *("satisfaction", "evaluator", SatisfactionReply, ("requirements", "facts")),
    judges=True,
)
MISSING: Final = QuestionKind("missing", "fast", MissingReply, ("facts",))
FAILURE: Final = QuestionKind("failure", "evaluator", FailureReply, ("errors",))
DIGEST: Final = QuestionKind("digest", "fast", DigestReply)

KINDS: Final[tuple[QuestionKind[Any], ...]] = (
    *(PLAN, CONTINUATION, TASKS, REPORT, REQUIREMENTS),
    *(SATISFACTION, MISSING, FAILURE, DIGEST),
)


@dataclass(frozen=True, slots=True)
class ModelQuestion(Generic[ReplyT]):
    """A question of one kind with the values of its template's fields."""

    kind: QuestionKind[ReplyT]
    background: Background
    values: Mapping[str, str]


class QuestionPrompts:
    """Renders questions from the prompt files of one language."""

    def __init__(self, folder: Path, language: str) -> None:
        """Read the files of ``folder/<language>``; raises TemplateError when one is unusable."""
        self._texts = load_texts(folder, language)
        self._base = ChatMessage("system", self._texts["base"].render())
        self._judge = ChatMessage("system", self._texts["judge"].render())
        self._nothing = self._texts["nothing"].render()
        self._counter = ScriptCounter()
        self.words = notice_words(folder, language)

    def make_messages(
        self,
        question: ModelQuestion[Any],
        problems: Sequence[str] = (),
        window: int = 0,
        refused: str = "",
        rules: str = "",
    ) -> tuple[ChatMessage, ...]:
        """Return the system message for the kind of question, and the user message with the
        question.

        ``window`` is the context of the model in tokens; 0: an assumed one. ``problems`` say what
        was wrong with the last reply, ``refused``; both are repeated after the question. ``rules``
        are the project's instructions, left out for questions that split a request or summarize a
        text.
        """
        kind = question.kind
        template = self._texts[f"ask_{kind.purpose}"]
        told = question.background.make_fields(
            self._texts, window or ASSUMED_CONTEXT, self._counter.count
        )
        values = {**told, **question.values}
        for name in kind.frames:
            values[name] = values[name] or frame_text(name, self._nothing)
        system = self._judge if kind.judges else self._base
        if rules and kind.purpose not in _WITHOUT_RULES:
            system = ChatMessage("system", f"{system.content}\n\n{rules}")
        asked = (system, ChatMessage("user", template.render(values)))
        if not problems:
            return asked
        said = _format_list([short_line(problem, 2 * LINE) for problem in problems])
        again = ChatMessage("user", self._texts["ask_again"].render({"problems": said}))
        before = _cut_middle(refused, _REFUSED) or ELLIPSIS
        return (*asked, ChatMessage("assistant", before), again)


_WITHOUT_RULES: Final = ("requirements", "digest")
_EXCHANGES: Final = 5  # of the conversation, in a line each
_PLANS: Final = 5  # newest
_NEXT: Final = 3  # steps that come after the one reported on
_GOAL: Final = 2_000  # characters
_INSTRUCTIONS: Final = 4_000
_REPLY: Final = 6_000
_REFUSED: Final = 6_000  # of an answer that is sent back
_ENTRIES: Final = 200  # newest ones of a log
_LOG: Final = 40  # newest entries of a log of which more than a line is shown
_LOG_RESULT: Final = 600  # characters of each result
_NEWEST: Final = 6  # entries of which more is shown
_NEWEST_RESULT: Final = 2_000
_LIST: Final = 20  # entries of any other list
_TEXT: Final = 24_000  # characters that one digest is made of
_DIGEST: Final = 1_500  # characters of a digest

_ENDED: Final = (PlanStatus.COMPLETED, PlanStatus.FAILED)


def plan_question(
    state: AgentState, goal: str, operations: Sequence[OperationSpec]
) -> ModelQuestion[PlanReply]:
    """Return the question for a plan for ``goal``: steps with name, description and dependencies
    (S2-18).
    """
    there = state.active_plan
    if there is not None and there.status in _ENDED:
        there = None
    objective = state.objective
    values = {
        "operations": operation_lines(operations, arguments=False),
        "goal": frame_data("goal", cut_text(goal, _GOAL)),
        "workspace": short_line(state.session.workspace),
        "conversation": _format_conversation(state),
        "plans": _format_plans(state),
        "rejection": short_line(there.rejection, 10 * LINE) if there else "",
        "avoid": frame_data(
            "avoid", _format_newest(objective.attempted_strategies if objective else ())
        ),
        "learned": frame_data(
            "learned", _format_newest(objective.learned_constraints if objective else ())
        ),
        "soft_steps": str(SOFT_STEPS),
    }
    told = make_background(
        state, files=list_files_read(state, f"{goal} {' '.join(state.memory.context_refs)}")
    )
    return ModelQuestion(PLAN, told, values)


def continuation_question(
    state: AgentState,
    context: ContinuationContext,
    operations: Sequence[OperationSpec],
    instructions: str = "",
) -> ModelQuestion[ContinuationReply]:
    """Return the question for the plan of a further attempt (S1-7, S1-25). ``instructions`` are the
    user's words.
    """
    missing = [
        f"P{m.priority} {short_line(m.what, 2 * LINE)}" for m in context.missing_info.missing
    ]
    partial = [
        f"{short_line(p.description)}: {short_line('; '.join(p.evidence))}".rstrip(": ")
        for p in context.partial_successes
    ]
    attempts = [
        f"{a.attempt_number}. [{a.satisfaction_score:.2f}] {short_line(a.strategy)}"
        for a in context.previous_attempts
    ]
    values = {
        "soft_steps": str(SOFT_STEPS),
        "operations": operation_lines(operations, arguments=False),
        "plans": _format_plans(state),
        "missing": frame_data("missing", _format_list(missing[:_LIST])),
        "found": frame_data("problems", _format_newest(context.identified_problems)),
        "partial": frame_data("partial", _format_list(partial[:_LIST])),
        "suggestions": frame_data("suggestions", _format_newest(context.suggested_improvements)),
        "alternatives": frame_data("alternatives", _format_newest(context.alternative_strategies)),
        "attempts": frame_data("attempts", _format_list(attempts)),
        "errors": _format_errors(context.execution_errors),
        "avoid": frame_data("avoid", _format_newest(context.failed_approaches)),
        "limitations": frame_data("limitations", _format_newest(context.learned_limitations)),
        "unavailable": frame_data("unavailable", _format_newest(context.unavailable_resources)),
        "instructions": frame_data("user", cut_text(instructions, _INSTRUCTIONS)),
    }
    about = " ".join(m.what for m in context.missing_info.missing)
    return ModelQuestion(
        CONTINUATION, make_background(state, files=list_files_read(state, about)), values
    )


def tasks_question(
    state: AgentState,
    plan: Plan,
    step: Step,
    operations: Sequence[OperationSpec],
) -> ModelQuestion[TasksReply]:
    """Return the question for the operations of a step, in order (S2-19)."""
    values = {
        "operations": operation_lines(operations),
        "plan_goal": short_line(plan.goal, 2 * LINE),
        "plan": lines.format_plan(plan),
        "step_number": str(lines.step_number(plan, step)),
        "step": lines.format_step(step),
        "needs": "\n".join(lines.list_dependencies(state, plan, step)),
        "conversation": _format_conversation(state),
        "tasks": "\n".join(format_numbered([lines.format_task(task) for task in step.task_list])),
        "results": frame_data("results", needed_results(state, plan, step)),
    }
    told = make_background(
        state, files=list_files_read(state, lines.format_step(step), but_of=step.step_id)
    )
    return ModelQuestion(TASKS, told, values)


def report_question(
    state: AgentState,
    plan: Plan,
    step: Step,
    log: Sequence[OperationMessage],
    counts: Mapping[str, int],
    cause: str = "",
    said: str = "",
) -> ModelQuestion[ReportReply]:
    """Return the question for the report on a step, with the log of its calls and the counts
    (S2-20).

    ``cause``: why the step was not done, as far as the app knows; ``said``: the worker's last
    reply.
    """
    later = plan.steps[lines.step_number(plan, step) :]
    following = [lines.format_step(s) for s in later if s.status is WorkStatus.PENDING]
    values = {
        "plan_name": short_line(plan.name),
        "plan_goal": short_line(plan.goal, 2 * LINE),
        "criteria": _format_list([short_line(criterion) for criterion in plan.success_criteria]),
        "step_number": str(lines.step_number(plan, step)),
        "step": lines.format_step(step),
        "status": step.status.value,
        "note": short_line(cause or step.note, 2 * LINE),
        "counts": ", ".join(f"{name} {count}" for name, count in counts.items()),
        "log": _format_log(log),
        "said": frame_data("said", _cut_middle(said, _REPLY)),
        "next_steps": _format_list(following[:_NEXT]),
    }
    return ModelQuestion(REPORT, make_background(state), values)


def requirements_question(
    state: AgentState, text: str, since: Sequence[str] = ()
) -> ModelQuestion[RequirementsReply]:
    """Return the question that splits the request into requirements with priority and check
    (S1-11); with ``since``, the one how later words and actions of the user change the existing
    ones.
    """
    items = state.objective.extracted_requirements if state.objective and since else ()
    values = {
        "workspace": short_line(state.session.workspace),
        "conversation": _format_conversation(state),
        "ids": ", ".join(r.requirement_id for r in items if r.is_counted) or ("–" if items else ""),
        "waived": ", ".join(r.requirement_id for r in items if not r.is_counted),
        "since": frame_data("changes", "\n".join(format_bullets(since))),
    }
    return ModelQuestion(REQUIREMENTS, make_background(state, text), values)


def satisfaction_question(
    state: AgentState, items: Sequence[RequirementItem], facts: str, plan: Plan | None = None
) -> ModelQuestion[SatisfactionReply]:
    """Return the judge's question for the scores of requirements by ``facts``, each of which begins
    with its id (S1-8). ``plan``: the plan that was followed; the judge may name steps to be done
    again.
    """
    required = [
        f"{item.requirement_id} P{item.priority} {' '.join(item.requirement.split())}"
        for item in items
    ]
    steps = [short_line(step.name) for step in plan.steps] if plan is not None else []
    values = {
        "wanted": ", ".join(item.requirement_id for item in items),
        "conversation": _before_the_request(state),
        "requirements": frame_data("requirements", _format_list(required)),
        "plan": frame_data("plan", "\n".join(format_numbered(steps))),
        "facts": frame_data("facts", facts),
    }
    return ModelQuestion(SATISFACTION, make_background(state, ledger=False), values)


def missing_question(
    state: AgentState,
    items: Sequence[RequirementItem],
    evaluation: SatisfactionEvaluation | None,
    facts: str,
) -> ModelQuestion[MissingReply]:
    """Return the question for what an attempt left undone, by priority (S1-9)."""
    said = [] if evaluation is None else list(evaluation.missing_aspects)
    if evaluation is not None and evaluation.quality_assessment:
        said.insert(0, evaluation.quality_assessment)
    values = {
        "requirements": frame_data(
            "requirements", _format_list([lines.format_requirement(item) for item in items])
        ),
        "judgement": frame_data(
            "judgement", _format_list([short_line(s, 2 * LINE) for s in said[:_LIST]])
        ),
        "conversation": _before_the_request(state),
        "facts": frame_data("facts", facts),
    }
    return ModelQuestion(MISSING, make_background(state, ledger=False), values)


def failure_question(
    state: AgentState, result: ExecutionResult, context: TaskContext, missing: Sequence[str]
) -> ModelQuestion[FailureReply]:
    """Return the question why the work failed and what would fix it (S1-10)."""
    values = {
        "workspace": short_line(context.workspace_info),
        "operations": ", ".join(context.available_tools),
        "succeeded": str(result.succeeded),
        "failed": str(result.failed),
        "missing": frame_data(
            "missing", _format_list([short_line(m, 2 * LINE) for m in missing[:_LIST]])
        ),
        "errors": _format_errors(result.errors),
        "results": frame_data("results", _format_newest(result.results)),
    }
    return ModelQuestion(FAILURE, make_background(state), values)


def digest_question(state: AgentState, text: str, wish: str = "") -> ModelQuestion[DigestReply]:
    """Return the question for a summary of a long text; ``wish`` is what the user wants kept above
    all.
    """
    values = {
        "limit": str(_DIGEST),
        "wish": frame_data("user", short_line(wish, 2 * LINE)),
        "text": frame_data("text", cut_text(text, _TEXT)),
    }
    return ModelQuestion(DIGEST, make_background(state), values)


def _format_conversation(state: AgentState) -> str:
    """List the newest exchanges of the conversation, one line each."""
    return _format_list(recent_exchanges(state.messages, _EXCHANGES))


def _before_the_request(state: AgentState) -> str:
    """Format the last exchanges before the current request, to which it may refer."""
    since = state.objective.created_at if state.objective else 0.0
    earlier = [message for message in state.messages if message.at < since]
    return frame_data("earlier", _format_list(recent_exchanges(earlier, _EXCHANGES)))


def _format_plans(state: AgentState) -> str:
    """Format the newest plans made for the current request, with the result of each step."""
    since = state.objective.created_at if state.objective else 0.0
    plans = [p for p in state.listed_plans if p.created_at >= since or p.status not in _ENDED]
    return frame_data("plans", "\n\n".join(lines.plan_results(state, p) for p in plans[-_PLANS:]))


def list_evidence_calls(
    log: Sequence[OperationMessage], operations: Sequence[OperationSpec]
) -> list[OperationMessage]:
    """Return the calls that can be evidence: all but those that only change the plan or
    the memory.
    """
    effects = {spec.name: spec.effect for spec in operations}
    return [m for m in log if effects.get(m.operation) is not Effect.STATE]


def _format_log(
    entries: Sequence[OperationMessage], *, contents: bool = True, newest: int = _NEWEST_RESULT
) -> str:
    """Format calls, oldest first: old ones on a line, newer ones with both ends of their results,
    the newest result with ``newest`` characters. ``contents``: include what file reads returned.
    """
    shown: list[str] = []
    first = max(0, len(entries) - _ENTRIES)
    for left, message in zip(range(len(entries) - first, 0, -1), entries[first:], strict=True):
        if left > _LOG and (contents or message.operation != READ_FILE):
            shown.append(lines.format_result(message))
            continue
        limit = newest if left <= _NEWEST else min(newest, _LOG_RESULT)
        by = "the user ran " if message.by_user else ""
        why = f" ({short_line(message.reasoning)})" if message.reasoning.strip() else ""
        head = f"{by}{lines.format_call(message.operation, message.args)}"
        text = message.result.text
        if not contents and message.operation == READ_FILE and message.result.went_well:
            text = text.partition("\n")[0]  # which lines of the file
        came = f"{message.result.label} {_cut_middle(text, limit)}"
        shown.append(f"{head} -> {came}{why}")
    return frame_data("log", "\n".join(format_numbered(shown, first + 1)))


def _format_errors(errors: Sequence[ExecutionError]) -> str:
    """Format the newest errors as a framed list."""
    told = [
        f"{short_line(e.operation)}: {short_line(e.message, 2 * LINE)}" for e in errors[-_LIST:]
    ]
    return frame_data("errors", _format_list(told))


def _format_newest(items: Sequence[str]) -> str:
    """Return the newest items as a list, each cut to two lines' length."""
    return _format_list([short_line(item, 2 * LINE) for item in items[-_LIST:]])


def _format_list(items: Sequence[str]) -> str:
    """Return the items as a list, one a line."""
    return "\n".join(format_bullets(items))


def _cut_middle(text: str, limit: int) -> str:
    """Cut a long text in the middle: a command prints its result at the end."""
    kept = text.strip()
    if len(kept) <= limit:
        return kept
    head = limit // 3
    return f"{kept[:head].rstrip()}\n{ELLIPSIS}\n{kept[-(limit - head) :].lstrip()}"
