"""The questions about the work, each asked in the role that fits it (S1-4, S1-5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from duckflow_tui.prompting.questions import (
    Question,
    Reply,
    continuation_question,
    digest_question,
    failure_question,
    missing_question,
    plan_question,
    report_question,
    requirements_question,
    satisfaction_question,
)
from duckflow_tui.prompting.replies import (
    ContinuationReply,
    DigestReply,
    FailureReply,
    MissingReply,
    PlanReply,
    ReportReply,
    RequirementsReply,
    SatisfactionReply,
)
from duckflow_tui.state.base import one_line
from duckflow_tui.state.decision import Check, RequirementClaim
from duckflow_tui.state.goal import (
    ContinuationContext,
    ExecutionPlan,
    ExecutionResult,
    FailureAnalysis,
    MissingInfoAnalysis,
    MissingItem,
    RequirementItem,
    SatisfactionEvaluation,
    TaskContext,
)

if TYPE_CHECKING:
    from duckflow_tui.agent.parts import TurnParts
    from duckflow_tui.state.calls import OperationMessage
    from duckflow_tui.state.plan import Plan, Step

Read = TypeVar("Read")


_LINE = 500  # characters of a sentence that is kept


class LLMServices:
    """Holds nothing; every call is on the account of the turn.

    Each raises LlmError, or Unreadable when no usable reply came after the repairs.
    """

    def __init__(self, parts: TurnParts) -> None:
        self._parts = parts

    @property
    def context(self) -> TaskContext:
        """The place and its tools (S1-22)."""
        specs = self._parts.specs()
        return TaskContext(
            workspace_info=self._parts.store.state.session.workspace,
            available_tools=tuple(spec.name for spec in specs),
        )

    async def plan_initial_execution(self, request: str, read: Callable[[PlanReply], Read]) -> Read:
        """A plan for the request, by the creative role (S1-6). ``read`` makes of the reply what
        is wanted, and raises ValueError for one that cannot be.
        """
        question = plan_question(self._parts.store.state, request, self._parts.specs())
        return await self._ask(question, read)

    async def plan_continuation_execution(
        self, context: ContinuationContext, instructions: str = ""
    ) -> ExecutionPlan:
        """The plan of a further attempt, by the creative role (S1-7). What was learned becomes its
        constraints, what failed is to be avoided (S1-25).
        """

        def read(reply: ContinuationReply) -> ExecutionPlan:
            if not reply.strategy.strip():
                raise ValueError("strategy is empty; say in one sentence which way is taken now")
            tried = {_plain(way) for way in context.failed_approaches}
            if _plain(reply.strategy) in tried:
                raise ValueError("this strategy was tried and did not get there; take another")
            return ExecutionPlan(
                strategy=one_line(reply.strategy, _LINE),
                steps=tuple(one_line(f"{s.name}: {s.description}", _LINE) for s in reply.steps),
                constraints=context.learned_limitations,
                avoid_strategies=context.failed_approaches,
            )

        question = continuation_question(
            self._parts.store.state, context, self._parts.specs(), instructions
        )
        return await self._ask(question, read)

    async def evaluate_task_satisfaction(
        self,
        items: Sequence[RequirementItem],
        wanted: Sequence[str],
        findings: Mapping[str, str],
        log: Sequence[OperationMessage],
        reply: str,
    ) -> SatisfactionEvaluation:
        """How far the requirements are met, by the evaluator (S1-8, S1-16).

        ``findings`` are the results of the app's checks by requirement; ``wanted`` are those that
        no check decided. A reply that leaves one of these without a score is repaired.
        """
        known = [item.requirement_id for item in items]

        def read(reply: SatisfactionReply) -> SatisfactionEvaluation:
            lacking = [key for key in wanted if key not in reply.requirement_scores]
            if lacking:
                raise ValueError(f"requirement_scores lacks {', '.join(lacking)}")
            given = reply.requirement_scores
            scores = {key: given[key] for key in known if key in given}
            shown = {key: _lines(reply.evidence.get(key, ())) for key in known}
            return SatisfactionEvaluation(
                overall_score=reply.overall_score,
                requirement_scores=scores,
                evidence=shown,
                missing_aspects=_lines(reply.missing_aspects),
                grade=reply.grade,
                quality_assessment=one_line(reply.quality_assessment, _LINE),
                suggestions=_lines(reply.suggestions),
                verdict=reply.verdict,
                completion_recommendation=reply.completion_recommendation,
            )

        question = satisfaction_question(
            self._parts.store.state, items, wanted, findings, log, reply, self._parts.specs()
        )
        return await self._ask(question, read)

    async def extract_missing_information(
        self,
        items: Sequence[RequirementItem],
        evaluation: SatisfactionEvaluation | None,
        log: Sequence[OperationMessage],
        reply: str,
    ) -> MissingInfoAnalysis:
        """What is missing, the most important first, by the fast role (S1-9)."""

        def read(reply: MissingReply) -> MissingInfoAnalysis:
            found = [
                MissingItem(what=one_line(entry.what, _LINE), priority=entry.priority)
                for entry in reply.missing
                if entry.what.strip()
            ]
            if not found:
                raise ValueError("missing is empty, and the work was judged not to be done")
            return MissingInfoAnalysis(
                missing=tuple(sorted(found, key=lambda item: item.priority)),
                constraints=_lines(reply.constraints),
                suggested_improvements=_lines(reply.suggested_improvements),
                alternative_strategies=_lines(reply.alternative_strategies),
            )

        question = missing_question(
            self._parts.store.state, items, evaluation, log, reply, self._parts.specs()
        )
        return await self._ask(question, read)

    async def analyze_execution_failure(
        self, result: ExecutionResult, missing: Sequence[str] = ()
    ) -> FailureAnalysis:
        """Why the work does not get further and what would mend it, by the evaluator (S1-10)."""

        def read(reply: FailureReply) -> FailureAnalysis:
            return FailureAnalysis(
                cause=reply.cause.strip(), fix=reply.fix.strip(), retryable=reply.retryable
            )

        question = failure_question(self._parts.store.state, result, self.context, missing)
        return await self._ask(question, read)

    async def extract_task_requirements(self, request: str) -> tuple[RequirementClaim, ...]:
        """The request split into requirements, by the fast role (S1-11)."""

        def read(reply: RequirementsReply) -> tuple[RequirementClaim, ...]:
            found = tuple(
                RequirementClaim(
                    requirement=entry.requirement.strip(),
                    priority=entry.priority,
                    check=Check(kind=entry.check.kind, value=entry.check.value.strip()),
                )
                for entry in reply.requirements
                if entry.requirement.strip()
            )
            if not found:
                raise ValueError("requirements is empty; a request asks for one thing at least")
            return found

        return await self._ask(requirements_question(self._parts.store.state, request), read)

    async def report(
        self,
        plan: Plan,
        step: Step,
        log: Sequence[OperationMessage],
        counts: Mapping[str, int],
        *,
        cause: str = "",
    ) -> ReportReply:
        """The words of a step's report, by the fast role (S2-20)."""
        question = report_question(self._parts.store.state, plan, step, log, counts, cause)

        def read(reply: ReportReply) -> ReportReply:
            return reply

        return await self._ask(question, read, step_id=step.step_id)

    async def digest(self, text: str, wish: str = "") -> str:
        """A long text in a few lines, by the fast role; ``wish`` is what the user wants kept."""

        def read(reply: DigestReply) -> str:
            if not reply.digest.strip():
                raise ValueError("digest is empty")
            return reply.digest.strip()

        question = digest_question(self._parts.store.state, text, wish)
        return await self._ask(question, read)

    async def _ask(
        self, question: Question[Reply], read: Callable[[Reply], Read], step_id: str = ""
    ) -> Read:
        parts, kind = self._parts, question.kind
        return await parts.questioner.ask(
            kind.purpose,
            kind.role,
            lambda problems: parts.questions.messages(question, problems),
            kind.reply,
            read,
            step_id=step_id,
        )


def _lines(items: Sequence[str]) -> tuple[str, ...]:
    return tuple(one_line(item, _LINE) for item in items if item.strip())


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(" .。").casefold()
