"""The questions that are no decisions: one row for each in a table, and what fills its words.

What the user, the worker, files and programs said stands in frames that it cannot leave.
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
    background,
    data,
    files_read,
)
from duckflow_tui.prompting.budget import ASSUMED_CONTEXT, ScriptCounter
from duckflow_tui.prompting.layers import needed_results
from duckflow_tui.prompting.lines import (
    LINE,
    bullets,
    cut,
    framed,
    numbered,
    operation_lines,
    recent_exchanges,
    short,
)
from duckflow_tui.prompting.replies import (
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
from duckflow_tui.prompting.templates import PromptTexts, Template
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
    """A row of the table: who is asked, and the form of the answer.

    The words are in ``ask_<purpose>.md``. ``frames`` are fields that are shown with "nothing"
    inside where there is nothing.
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
    """What is asked: a row of the table, and the values of the fields of its words."""

    kind: QuestionKind[ReplyT]
    background: Background
    values: Mapping[str, str]


class QuestionPrompts:
    def __init__(self, folder: Path, language: str) -> None:
        """Read the files of ``folder/<language>``; raises TemplateError when one is unusable."""
        self._texts = PromptTexts.load(folder, language)
        self._base = ChatMessage("system", self._texts.base.render())
        self._judge = ChatMessage("system", self._texts.judge.render())
        self._nothing = self._texts.nothing.render()
        self._counter = ScriptCounter()

    def messages(
        self,
        question: ModelQuestion[Any],
        problems: Sequence[str] = (),
        window: int = 0,
        refused: str = "",
        rules: str = "",
    ) -> tuple[ChatMessage, ...]:
        """A system message, the judges' or that of all others, and the user's with the question.

        ``window`` is what the model that is asked can hold, in tokens; 0: as much as is assumed.

        ``problems`` say why the last reply, ``refused``, was sent back: inside the question where
        its words have a place for them, else in a message behind that reply.

        ``rules`` are the project's own instructions; who splits a request or sums up a text does
        neither by them.
        """
        kind = question.kind
        template: Template = getattr(self._texts, f"ask_{kind.purpose}")
        said = _list([short(problem, 2 * LINE) for problem in problems])
        told = question.background.fields(
            self._texts, window or ASSUMED_CONTEXT, self._counter.count
        )
        values = {**told, **question.values, "problems": said}
        for name in kind.frames:
            values[name] = values[name] or framed(name, self._nothing)
        system = self._judge if kind.judges else self._base
        if rules and kind.purpose not in _WITHOUT_RULES:
            system = ChatMessage("system", f"{system.content}\n\n{rules}")
        asked = (system, ChatMessage("user", template.render(values)))
        if not said or "problems" in template.fields:
            return asked
        again = ChatMessage("user", self._texts.ask_again.render({"problems": said}))
        if not refused.strip():
            return (*asked, again)
        return (*asked, ChatMessage("assistant", _ends(refused, _REFUSED)), again)


_WITHOUT_RULES: Final = ("requirements", "digest")
_EXCHANGES: Final = 5  # of the conversation, in a line each
_PLANS: Final = 5  # newest
_NEXT: Final = 3  # steps that come after the one reported on
_GOAL: Final = 2_000  # characters
_FAILURE: Final = 1_000
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
    """A plan for ``goal``: steps with name, description and what they depend on (S2-18)."""
    there = state.active_plan
    if there is not None and there.status in _ENDED:
        there = None
    objective = state.objective
    values = {
        "operations": operation_lines(operations, arguments=False),
        "goal": data("goal", cut(goal, _GOAL)),
        "workspace": short(state.session.workspace),
        "conversation": _conversation(state),
        "plans": _plans(state),
        "rejection": short(there.rejection, 10 * LINE) if there else "",
        "avoid": data("avoid", _newest(objective.attempted_strategies if objective else ())),
        "learned": data("learned", _newest(objective.learned_constraints if objective else ())),
        "soft_steps": str(SOFT_STEPS),
    }
    told = background(
        state, files=files_read(state, f"{goal} {' '.join(state.memory.context_refs)}")
    )
    return ModelQuestion(PLAN, told, values)


def continuation_question(
    state: AgentState,
    context: ContinuationContext,
    operations: Sequence[OperationSpec],
    instructions: str = "",
) -> ModelQuestion[ContinuationReply]:
    """The plan of a further attempt (S1-7, S1-25). ``instructions`` are the user's words."""
    missing = [f"P{m.priority} {short(m.what, 2 * LINE)}" for m in context.missing_info.missing]
    partial = [
        f"{short(p.description)}: {short('; '.join(p.evidence))}".rstrip(": ")
        for p in context.partial_successes
    ]
    attempts = [
        f"{a.attempt_number}. [{a.satisfaction_score:.2f}] {short(a.strategy)}"
        for a in context.previous_attempts
    ]
    values = {
        "soft_steps": str(SOFT_STEPS),
        "operations": operation_lines(operations, arguments=False),
        "plans": _plans(state),
        "missing": data("missing", _list(missing[:_LIST])),
        "found": data("problems", _newest(context.identified_problems)),
        "partial": data("partial", _list(partial[:_LIST])),
        "suggestions": data("suggestions", _newest(context.suggested_improvements)),
        "alternatives": data("alternatives", _newest(context.alternative_strategies)),
        "attempts": data("attempts", _list(attempts)),
        "errors": _errors(context.execution_errors),
        "avoid": data("avoid", _newest(context.failed_approaches)),
        "limitations": data("limitations", _newest(context.learned_limitations)),
        "unavailable": data("unavailable", _newest(context.unavailable_resources)),
        "instructions": data("user", cut(instructions, _INSTRUCTIONS)),
    }
    about = " ".join(m.what for m in context.missing_info.missing)
    return ModelQuestion(CONTINUATION, background(state, files=files_read(state, about)), values)


def tasks_question(
    state: AgentState,
    plan: Plan,
    step: Step,
    operations: Sequence[OperationSpec],
    failure: str = "",
) -> ModelQuestion[TasksReply]:
    """The operations of a step, in order (S2-19); after a ``failure`` only the rest."""
    values = {
        "operations": operation_lines(operations),
        "plan_goal": short(plan.goal, 2 * LINE),
        "plan": lines.plan(plan),
        "step_number": str(lines.step_number(plan, step)),
        "step": lines.step(step),
        "needs": "\n".join(lines.needs(state, plan, step)),
        "conversation": _conversation(state),
        "tasks": "\n".join(numbered([lines.task(task) for task in step.task_list])),
        "results": data("results", needed_results(state, plan, step)),
        "failure": data("failure", cut(failure, _FAILURE)),
    }
    told = background(state, files=files_read(state, lines.step(step), but_of=step.step_id))
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
    """What came of a step, from its log; the counts are given, never asked for (S2-20).

    ``cause`` is what the app knows about why it was not done, ``said`` the worker's last words.
    """
    later = plan.steps[lines.step_number(plan, step) :]
    following = [lines.step(s) for s in later if s.status is WorkStatus.PENDING]
    values = {
        "plan_name": short(plan.name),
        "plan_goal": short(plan.goal, 2 * LINE),
        "criteria": _list([short(criterion) for criterion in plan.success_criteria]),
        "step_number": str(lines.step_number(plan, step)),
        "step": lines.step(step),
        "status": step.status.value,
        "note": short(cause or step.note, 2 * LINE),
        "counts": ", ".join(f"{name} {count}" for name, count in counts.items()),
        "log": _log(log),
        "said": data("said", _ends(said, _REPLY)),
        "next_steps": _list(following[:_NEXT]),
    }
    return ModelQuestion(REPORT, background(state), values)


def requirements_question(
    state: AgentState, text: str, since: Sequence[str] = ()
) -> ModelQuestion[RequirementsReply]:
    """The request split into requirements with priority and check (S1-11); where that was done,
    how what the user said and did ``since`` changes them.
    """
    items = state.objective.extracted_requirements if state.objective and since else ()
    values = {
        "workspace": short(state.session.workspace),
        "conversation": _conversation(state),
        "ids": ", ".join(r.requirement_id for r in items if r.is_counted) or ("–" if items else ""),
        "waived": ", ".join(r.requirement_id for r in items if not r.is_counted),
        "since": data("changes", "\n".join(bullets(since))),
    }
    return ModelQuestion(REQUIREMENTS, background(state, text), values)


def satisfaction_question(
    state: AgentState, items: Sequence[RequirementItem], facts: str
) -> ModelQuestion[SatisfactionReply]:
    """The judgement of ``items`` by the ``facts``, each of which begins with its id (S1-8)."""
    required = [
        f"{item.requirement_id} P{item.priority} {' '.join(item.requirement.split())}"
        for item in items
    ]
    values = {
        "wanted": ", ".join(item.requirement_id for item in items),
        "conversation": _before_the_request(state),
        "requirements": data("requirements", _list(required)),
        "facts": data("facts", facts),
    }
    return ModelQuestion(SATISFACTION, background(state, ledger=False), values)


def missing_question(
    state: AgentState,
    items: Sequence[RequirementItem],
    evaluation: SatisfactionEvaluation | None,
    facts: str,
) -> ModelQuestion[MissingReply]:
    """What an answer that is not enough still lacks, by priority (S1-9)."""
    said = [] if evaluation is None else list(evaluation.missing_aspects)
    if evaluation is not None and evaluation.quality_assessment:
        said.insert(0, evaluation.quality_assessment)
    values = {
        "requirements": data("requirements", _list([lines.requirement(item) for item in items])),
        "judgement": data("judgement", _list([short(s, 2 * LINE) for s in said[:_LIST]])),
        "conversation": _before_the_request(state),
        "facts": data("facts", facts),
    }
    return ModelQuestion(MISSING, background(state, ledger=False), values)


def failure_question(
    state: AgentState, result: ExecutionResult, context: TaskContext, missing: Sequence[str]
) -> ModelQuestion[FailureReply]:
    """Why the work failed, and what would mend it (S1-10)."""
    values = {
        "workspace": short(context.workspace_info),
        "operations": ", ".join(context.available_tools),
        "succeeded": str(result.succeeded),
        "failed": str(result.failed),
        "missing": data("missing", _list([short(m, 2 * LINE) for m in missing[:_LIST]])),
        "errors": _errors(result.errors),
        "results": data("results", _newest(result.results)),
    }
    return ModelQuestion(FAILURE, background(state), values)


def digest_question(state: AgentState, text: str, wish: str = "") -> ModelQuestion[DigestReply]:
    """A long text in a few lines; ``wish`` is what the user wants kept above all."""
    values = {
        "limit": str(_DIGEST),
        "wish": data("user", short(wish, 2 * LINE)),
        "text": data("text", cut(text, _TEXT)),
    }
    return ModelQuestion(DIGEST, background(state), values)


def _conversation(state: AgentState) -> str:
    return _list(recent_exchanges(state.messages, _EXCHANGES))


def _before_the_request(state: AgentState) -> str:
    """The last exchanges before the request in hand, which it may refer to."""
    since = state.objective.created_at if state.objective else 0.0
    earlier = [message for message in state.messages if message.at < since]
    return data("earlier", _list(recent_exchanges(earlier, _EXCHANGES)))


def _plans(state: AgentState) -> str:
    """The newest plans for the request in hand, with what came of each step."""
    since = state.objective.created_at if state.objective else 0.0
    plans = [p for p in state.listed_plans if p.created_at >= since or p.status not in _ENDED]
    return data("plans", "\n\n".join(lines.plan_results(state, p) for p in plans[-_PLANS:]))


def shown_by(
    log: Sequence[OperationMessage], operations: Sequence[OperationSpec]
) -> list[OperationMessage]:
    """The calls that can show something: not those that change only the plan or the memory."""
    effects = {spec.name: spec.effect for spec in operations}
    return [m for m in log if effects.get(m.operation) is not Effect.STATE]


def _log(
    entries: Sequence[OperationMessage], *, contents: bool = True, newest: int = _NEWEST_RESULT
) -> str:
    """Every call, oldest first: the old ones on a line, the newer ones with both ends of their
    results, the newest with ``newest`` characters of them. ``contents``: those of files that were
    read too.
    """
    shown: list[str] = []
    first = max(0, len(entries) - _ENTRIES)
    for left, message in zip(range(len(entries) - first, 0, -1), entries[first:], strict=True):
        if left > _LOG and (contents or message.operation != READ_FILE):
            shown.append(lines.result(message))
            continue
        limit = newest if left <= _NEWEST else min(newest, _LOG_RESULT)
        by = "the user ran " if message.by_user else ""
        why = f" ({short(message.reasoning)})" if message.reasoning.strip() else ""
        head = f"{by}{lines.call(message.operation, message.args)}"
        text = message.result.text
        if not contents and message.operation == READ_FILE and message.result.went_well:
            text = text.partition("\n")[0]  # which lines of the file
        came = f"{message.result.label} {_ends(text, limit)}"
        shown.append(f"{head} -> {came}{why}")
    return data("log", "\n".join(numbered(shown, first + 1)))


def _errors(errors: Sequence[ExecutionError]) -> str:
    told = [f"{short(e.operation)}: {short(e.message, 2 * LINE)}" for e in errors[-_LIST:]]
    return data("errors", _list(told))


def _newest(items: Sequence[str]) -> str:
    return _list([short(item, 2 * LINE) for item in items[-_LIST:]])


def _list(items: Sequence[str]) -> str:
    return "\n".join(bullets(items))


def _ends(text: str, limit: int) -> str:
    """Both ends of a long text: a command says at its end what came of it."""
    kept = text.strip()
    if len(kept) <= limit:
        return kept
    head = limit // 3
    return f"{kept[:head].rstrip()}\n{ELLIPSIS}\n{kept[-(limit - head) :].lstrip()}"
