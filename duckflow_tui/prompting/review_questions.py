"""The questions about the objective: its requirements, how far they are met, what is missing, why
it failed, how to go on (S1-7…11), and digests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from duckflow_tui.prompting import lines
from duckflow_tui.prompting.diff_lines import changed_lines
from duckflow_tui.prompting.digests import recent_exchanges
from duckflow_tui.prompting.frames import framed, inside
from duckflow_tui.prompting.lines import LINE, bullets, numbered, short
from duckflow_tui.prompting.operations import operation_lines
from duckflow_tui.prompting.templates import Template
from duckflow_tui.prompting.texts import PromptTexts
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ELLIPSIS
from duckflow_tui.state.messages import OperationMessage, UserMessage
from duckflow_tui.state.objective import (
    AttemptResult,
    ContinuationContext,
    ExecutionError,
    ExecutionResult,
    RequirementItem,
    SatisfactionEvaluation,
    TaskContext,
)
from duckflow_tui.state.operations import Effect, OperationSpec
from duckflow_tui.state.plans import SOFT_STEPS
from duckflow_tui.state.prompt import ChatMessage

_REQUEST: Final = 4_000  # characters of what the user asked for
_REPLY: Final = 6_000
_EXCHANGES: Final = 5
_LOG: Final = 40  # newest entries
_RESULT: Final = 600  # characters of each result
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
        first = max(0, len(entries) - _LOG)
        shown = [
            _entry(message, _NEWEST_RESULT if len(entries) - at <= _NEWEST else _RESULT)
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


def _list(items: Sequence[str]) -> str:
    return "\n".join(bullets(items))


def _cut(text: str, limit: int) -> str:
    kept = text[: limit + 1].strip()
    return kept if len(kept) <= limit else kept[: limit - 1].rstrip() + ELLIPSIS


def _ends(text: str, limit: int) -> str:
    """Both ends of a long text: a command says at its end what came of it."""
    kept = text.strip()
    if len(kept) <= limit:
        return kept
    head = limit // 3
    return f"{kept[:head].rstrip()}\n{ELLIPSIS}\n{kept[-(limit - head) :].lstrip()}"
