"""The questions that are no decisions: a plan, a list of tasks, a report (S2-18…20)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from duckflow_tui.prompting import lines
from duckflow_tui.prompting.layers import request, step_results
from duckflow_tui.prompting.lines import (
    LINE,
    bullets,
    changed_lines,
    framed,
    inside,
    numbered,
    recent_exchanges,
    short,
)
from duckflow_tui.prompting.operations import argument_lines, operation_lines
from duckflow_tui.prompting.templates import PromptTexts, Template
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ELLIPSIS
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.goal import (
    AttemptResult,
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

_EXCHANGES: Final = 5  # of the conversation, in a line each

_RESULTS: Final = 8  # newest of a step and of those it depends on

_RESULT: Final = 1_500  # characters of each; a list of tasks needs the values themselves

_LOG: Final = 60  # newest entries of a step's log

_NEXT: Final = 3  # steps that come after the one reported on

_GOAL: Final = 2_000  # characters

_FAILURE: Final = 1_000

_ENDED: Final = (PlanStatus.COMPLETED, PlanStatus.FAILED)


class QuestionPrompts:
    """Writes them in one language; the shapes of the replies are in ``llm.purposes``.

    Each is a system message, the same for all, and one of the user with the question.
    ``problems`` say why the last reply was refused; with ``previous``, that reply, they are
    said in a conversation of their own, so that the model sees what it wrote.
    """

    def __init__(self, folder: Path, language: str) -> None:
        """Read the files of ``folder/<language>``; raises TemplateError when one is unusable."""
        self._texts = PromptTexts.load(folder, language)
        self._base = ChatMessage("system", self._texts.base.render())
        self._nothing = self._texts.nothing.render()
        self.review = ReviewPrompts(self._texts)

    def plan(
        self,
        state: AgentState,
        goal: str,
        operations: Sequence[OperationSpec],
        *,
        problems: Sequence[str] = (),
        previous: str = "",
    ) -> tuple[ChatMessage, ...]:
        """A plan for ``goal``: steps with name, description and what they depend on (S2-18)."""
        there = state.active_plan
        if there is not None and there.status in _ENDED:
            there = None
        tried = state.objective.attempted_strategies if state.objective else ()
        values = {
            "operations": operation_lines(operations),
            "goal": framed("goal", _cut(goal, _GOAL)),
            "request": request(state),
            "constraints": _list(state.memory.constraints),
            "requirements": lines.requirements(state),
            "workspace": short(state.session.workspace),
            "conversation": _conversation(state),
            "plan": lines.plan(there),
            "rejection": short(there.rejection, 2 * LINE) if there else "",
            "avoid": _list([short(way) for way in tried]),
            "soft_steps": str(SOFT_STEPS),
        }
        return self._messages(self._texts.ask_plan, values, problems, previous)

    def tasks(
        self,
        state: AgentState,
        plan: Plan,
        step: Step,
        operations: Sequence[OperationSpec],
        *,
        problems: Sequence[str] = (),
        failure: str = "",
    ) -> tuple[ChatMessage, ...]:
        """The operations of a step, in order (S2-19); after a ``failure`` only the rest."""
        seen = [
            m for s in plan.steps if s.step_id in step.depends_on for m in step_results(state, s)
        ]
        seen += step_results(state, step)
        values = {
            "operations": operation_lines(operations),
            "arguments": argument_lines(operations),
            "request": request(state),
            "constraints": _list(state.memory.constraints),
            "plan_goal": short(plan.goal, 2 * LINE),
            "plan": lines.plan(plan),
            "step_number": str(lines.step_number(plan, step)),
            "step": lines.step(step),
            "needs": "\n".join(lines.needs(state, plan, step)),
            "conversation": _conversation(state),
            "tasks": "\n".join(numbered([lines.task(t) for t in step.task_list])),
            "results": framed("results", "\n".join(numbered(list(map(_whole, seen[-_RESULTS:]))))),
            "failure": framed("failure", _cut(failure, _FAILURE)),
        }
        return self._messages(self._texts.ask_tasks, values, problems)

    def report(
        self,
        state: AgentState,
        plan: Plan,
        step: Step,
        log: Sequence[OperationMessage],
        counts: Mapping[str, int],
        *,
        cause: str = "",
        problems: Sequence[str] = (),
    ) -> tuple[ChatMessage, ...]:
        """What came of a step, from its log; the counts are given, never asked for (S2-20).

        ``cause`` is what the app knows about why it was not done.
        """
        first = max(0, len(log) - _LOG)
        entries = numbered([lines.result(message) for message in log[first:]], first + 1)
        later = plan.steps[lines.step_number(plan, step) :]
        following = [lines.step(s) for s in later if s.status is WorkStatus.PENDING]
        values = {
            "request": request(state),
            "plan_name": short(plan.name),
            "plan_goal": short(plan.goal, 2 * LINE),
            "criteria": _list([short(criterion) for criterion in plan.success_criteria]),
            "step_number": str(lines.step_number(plan, step)),
            "step": lines.step(step),
            "status": step.status.value,
            "note": short(cause or step.note, 2 * LINE),
            "counts": ", ".join(f"{name} {count}" for name, count in counts.items()),
            "log": framed("log", "\n".join(entries) or self._nothing),
            "next_steps": _list(following[:_NEXT]),
        }
        asked = (self._base, ChatMessage("user", self._texts.ask_report.render(values)))
        if not problems:
            return asked
        said = _list([short(problem, 2 * LINE) for problem in problems])
        return (*asked, ChatMessage("user", self._texts.ask_again.render({"problems": said})))

    def _messages(
        self,
        template: Template,
        values: dict[str, str],
        problems: Sequence[str],
        previous: str = "",
    ) -> tuple[ChatMessage, ...]:
        said = _list([short(problem, 2 * LINE) for problem in problems])
        if not (said and previous):
            return (self._base, ChatMessage("user", template.render({**values, "problems": said})))
        return (
            self._base,
            ChatMessage("user", template.render({**values, "problems": ""})),
            ChatMessage("assistant", previous),
            ChatMessage("user", self._texts.ask_again.render({"problems": said})),
        )


def _cut(text: str, limit: int) -> str:
    kept = text[: limit + 1].strip()
    return kept if len(kept) <= limit else kept[: limit - 1].rstrip() + ELLIPSIS


def _whole(message: OperationMessage) -> str:
    """A call and its result with the lines as they are."""
    head = f"{lines.call(message.operation, message.args)} -> [{message.result.outcome.value}]"
    return f"{head}\n{_cut(message.result.text, _RESULT)}"


def _list(items: Sequence[str]) -> str:
    return "\n".join(bullets(items))


def _conversation(state: AgentState) -> str:
    return "\n".join(bullets(recent_exchanges(state.messages, _EXCHANGES)))


_REQUEST: Final = 4_000  # characters of what the user asked for

_REPLY: Final = 6_000

_REVIEW_LOG: Final = 40  # newest entries

_REVIEW_RESULT: Final = 600  # characters of each result

_NEWEST: Final = 6  # entries of which more is shown

_NEWEST_RESULT: Final = 2_000

_DIFF: Final = 60  # lines of all diffs together

_LIST: Final = 20  # entries of any other list

_FRAMES: Final = (
    *("request", "requirements", "changes", "log", "reply", "judgement", "missing", "errors"),
    *("results", "problems", "partial", "suggestions", "alternatives", "attempts", "avoid"),
    *("limitations", "unavailable", "user", "text"),
)

_TEXT: Final = 24_000  # characters that one digest is made of

_DIGEST: Final = 1_500  # characters of a digest


class ReviewPrompts:
    """Writes them in one language. ``problems`` say why the last reply was refused.

    What the user, the worker, files and programs said stands in frames that it cannot leave.
    """

    def __init__(self, texts: PromptTexts) -> None:
        self._texts = texts
        self._base = ChatMessage("system", texts.base.render())
        self._nothing = texts.nothing.render()

    def requirements(
        self, state: AgentState, request: str, *, problems: Sequence[str] = ()
    ) -> tuple[ChatMessage, ...]:
        """The request split into requirements with priority and check (S1-11)."""
        values = {
            "workspace": short(state.session.workspace),
            "constraints": _list(state.memory.constraints),
            "conversation": _list(recent_exchanges(state.messages, _EXCHANGES)),
            "requirements": lines.requirements(state),
            "request": _data("request", _cut(request, _REQUEST)),
        }
        return self._messages(self._texts.ask_requirements, values, problems)

    def satisfaction(
        self,
        state: AgentState,
        items: Sequence[RequirementItem],
        wanted: Sequence[str],
        findings: Mapping[str, str],
        log: Sequence[OperationMessage],
        reply: str,
        operations: Sequence[OperationSpec],
        *,
        problems: Sequence[str] = (),
    ) -> tuple[ChatMessage, ...]:
        """The judgement of ``items``, of which those ``wanted`` are to be scored (S1-8).

        ``findings``: what the app's check of a requirement showed, by id. Calls that change only
        the plan or the memory are left out of the log: a step marked as completed shows nothing.
        """
        values = {
            "wanted": ", ".join(wanted) or "–",
            "request": _request(state),
            "said": _list(_said_since(state)),
            "constraints": _list(state.memory.constraints),
            "requirements": _data(
                "requirements",
                _list([_with_finding(item, findings) for item in items]) or self._nothing,
            ),
            "changes": _data("changes", _changes(log)),
            "log": _data("log", self._log(log, operations)),
            "reply": _data("reply", _ends(reply, _REPLY) or self._nothing),
        }
        return self._messages(self._texts.ask_satisfaction, values, problems)

    def missing(
        self,
        state: AgentState,
        items: Sequence[RequirementItem],
        evaluation: SatisfactionEvaluation | None,
        log: Sequence[OperationMessage],
        reply: str,
        operations: Sequence[OperationSpec],
        *,
        problems: Sequence[str] = (),
    ) -> tuple[ChatMessage, ...]:
        """What an answer that is not enough still lacks, by priority (S1-9)."""
        said = [] if evaluation is None else list(evaluation.missing_aspects)
        if evaluation is not None and evaluation.quality_assessment:
            said.insert(0, evaluation.quality_assessment)
        values = {
            "request": _request(state),
            "requirements": _data("requirements", _list([_judged(item) for item in items])),
            "judgement": _data("judgement", _list([short(s, 2 * LINE) for s in said[:_LIST]])),
            "log": _data("log", self._log(log, operations)),
            "reply": _data("reply", _ends(reply, _REPLY) or self._nothing),
        }
        return self._messages(self._texts.ask_missing, values, problems)

    def failure(
        self,
        state: AgentState,
        result: ExecutionResult,
        context: TaskContext,
        missing: Sequence[str],
        *,
        problems: Sequence[str] = (),
    ) -> tuple[ChatMessage, ...]:
        """Why the work failed, and what would mend it (S1-10)."""
        results = [short(text, 2 * LINE) for text in result.results[-_LIST:]]
        values = {
            "request": _request(state),
            "workspace": short(context.workspace_info),
            "operations": ", ".join(context.available_tools),
            "succeeded": str(result.succeeded),
            "failed": str(result.failed),
            "missing": _data("missing", _list([short(m, 2 * LINE) for m in missing[:_LIST]])),
            "errors": _data("errors", _list(_errors(result.errors)) or self._nothing),
            "results": _data("results", _list(results)),
        }
        return self._messages(self._texts.ask_failure, values, problems)

    def continuation(
        self,
        state: AgentState,
        context: ContinuationContext,
        operations: Sequence[OperationSpec],
        *,
        instructions: str = "",
        problems: Sequence[str] = (),
    ) -> tuple[ChatMessage, ...]:
        """The plan of a further attempt (S1-7, S1-25). ``instructions`` are the user's words."""
        missing = [f"P{m.priority} {short(m.what, 2 * LINE)}" for m in context.missing_info.missing]
        partial = [
            f"{short(p.description)}: {short('; '.join(p.evidence))}".rstrip(": ")
            for p in context.partial_successes
        ]
        values = {
            "soft_steps": str(SOFT_STEPS),
            "operations": operation_lines(operations),
            "request": _request(state),
            "constraints": _list(state.memory.constraints),
            "requirements": _data("requirements", lines.requirements(state)),
            "missing": _data("missing", _list(missing[:_LIST])),
            "problems": _data("problems", _texts(context.identified_problems)),
            "partial": _data("partial", _list(partial[:_LIST])),
            "suggestions": _data("suggestions", _texts(context.suggested_improvements)),
            "alternatives": _data("alternatives", _texts(context.alternative_strategies)),
            "attempts": _data("attempts", _list([_attempt(a) for a in context.previous_attempts])),
            "errors": _data("errors", _list(_errors(context.execution_errors))),
            "avoid": _data("avoid", _texts(context.failed_approaches)),
            "limitations": _data("limitations", _texts(context.learned_limitations)),
            "unavailable": _data("unavailable", _texts(context.unavailable_resources)),
            "instructions": _data("user", _cut(instructions, _REQUEST)),
        }
        return self._messages(self._texts.ask_continuation, values, problems)

    def digest(
        self, state: AgentState, text: str, *, wish: str = "", problems: Sequence[str] = ()
    ) -> tuple[ChatMessage, ...]:
        """A long text in a few lines; ``wish`` is what the user wants kept above all."""
        values = {
            "limit": str(_DIGEST),
            "request": _request(state),
            "wish": _data("user", short(wish, 2 * LINE)),
            "text": _data("text", _cut(text, _TEXT)),
        }
        return self._messages(self._texts.ask_digest, values, problems)

    def _messages(
        self, template: Template, values: dict[str, str], problems: Sequence[str]
    ) -> tuple[ChatMessage, ...]:
        asked = (self._base, ChatMessage("user", template.render(values)))
        if not problems:
            return asked
        said = _list([short(problem, 2 * LINE) for problem in problems])
        return (*asked, ChatMessage("user", self._texts.ask_again.render({"problems": said})))

    def _log(self, log: Sequence[OperationMessage], operations: Sequence[OperationSpec]) -> str:
        """The calls that can show something, oldest first, the newest with more of their text."""
        own = {spec.name for spec in operations if spec.effect is Effect.STATE}
        entries = [message for message in log if message.operation not in own]
        first = max(0, len(entries) - _REVIEW_LOG)
        shown = [
            _entry(message, _NEWEST_RESULT if len(entries) - at <= _NEWEST else _REVIEW_RESULT)
            for at, message in enumerate(entries[first:], start=first)
        ]
        return "\n".join(numbered(shown, first + 1)) or self._nothing


def _data(tag: str, text: str) -> str:
    """The text in its frame; it can end neither this frame nor one of the others."""
    return framed(tag, _contained(text))


def _contained(text: str) -> str:
    for tag in _FRAMES:
        text = inside(text, tag)
    return text


def _request(state: AgentState) -> str:
    """What the user asked for, as they wrote it."""
    asked = state.objective.original_query if state.objective else ""
    return _data("request", _cut(asked, _REQUEST))


def _said_since(state: AgentState) -> list[str]:
    """The user's later messages on the same request."""
    begun = state.objective.created_at if state.objective else 0.0
    found = [
        m for m in state.messages if isinstance(m, UserMessage) and not m.aside and m.at > begun
    ]
    return [_contained(short(m.text, 4 * LINE)) for m in found[-_LIST:]]


def _with_finding(item: RequirementItem, findings: Mapping[str, str]) -> str:
    words = " ".join(item.requirement.split())
    found = findings.get(item.requirement_id, "")
    check = f" — {short(found, 4 * LINE)}" if found else ""
    return f"{item.requirement_id} P{item.priority} {words}{check}"


def _judged(item: RequirementItem) -> str:
    shown = "; ".join(short(fact.text) for fact in item.evidence[:3])
    return lines.requirement(item) + (f" — {shown}" if shown else "")


def _changes(log: Sequence[OperationMessage]) -> str:
    """Each change of a file with its line counts, and lines of the diffs as far as they go."""
    heads: list[str] = []
    diff: list[str] = []
    for message in log:
        heads.extend(
            f"- {change.kind} {short(change.target or change.path)} "
            f"+{change.added} −{change.removed}"
            for change in message.result.changes
        )
        for path, marked in changed_lines(message):
            diff.extend([f"{short(path)}:", *map(short, marked)])
    if len(diff) > _DIFF:
        diff = [*diff[:_DIFF], ELLIPSIS]
    return "\n".join([*heads[-_LIST:], *diff])


def _entry(message: OperationMessage, limit: int) -> str:
    by = "the user ran " if message.by_user else ""
    why = f" ({short(message.reasoning)})" if message.reasoning.strip() else ""
    head = f"{by}{lines.call(message.operation, message.args)}"
    return f"{head} -> [{message.result.outcome.value}] {_ends(message.result.text, limit)}{why}"


def _errors(errors: Sequence[ExecutionError]) -> list[str]:
    return [f"{short(e.operation)}: {short(e.message, 2 * LINE)}" for e in errors[-_LIST:]]


def _attempt(result: AttemptResult) -> str:
    return f"{result.attempt_number}. [{result.satisfaction_score:.2f}] {short(result.strategy)}"


def _texts(items: Sequence[str]) -> str:
    return _list([short(item, 2 * LINE) for item in items[-_LIST:]])


def _ends(text: str, limit: int) -> str:
    """Both ends of a long text: a command says at its end what came of it."""
    kept = text.strip()
    if len(kept) <= limit:
        return kept
    head = limit // 3
    return f"{kept[:head].rstrip()}\n{ELLIPSIS}\n{kept[-(limit - head) :].lstrip()}"
