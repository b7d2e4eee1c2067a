"""Further attempts at a request that a review found unmet: begin the next one, or ask the user
(S1-17…22, S1-25…39).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

from duckflow_tui.llm.errors import LlmError, Unreadable, reason_params
from duckflow_tui.prompting.lines import frame_text
from duckflow_tui.prompting.side_questions import (
    continuation_question,
    digest_question,
    failure_question,
)
from duckflow_tui.prompting.side_replies import ContinuationReply, DigestReply
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ToldError, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.consequences import find_consequence
from duckflow_tui.state.gates import ESCALATION_OPTIONS, CardKind
from duckflow_tui.state.goal import (
    DONE_FROM,
    AttemptMessage,
    AttemptResult,
    AttemptStarted,
    ContinuationContext,
    ExecutionError,
    ExecutionPlan,
    ExecutionResult,
    FailureAnalysis,
    MissingInfoAnalysis,
    PartialResult,
    RequirementItem,
    RequirementState,
    Review,
    ReviewMessage,
    SituationReport,
    TaskContext,
    TaskObjective,
)
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan import PlanStatus, WorkStatus, find_step
from duckflow_tui.state.plan_events import PlanStatusChanged
from duckflow_tui.state.turn import TurnInfo
from duckflow_tui.work.judge_facts import find_followed_plan
from duckflow_tui.work.pace import PaceKeeper
from duckflow_tui.work.propose import set_step
from duckflow_tui.work.requirements import change_objective, normalize_text
from duckflow_tui.work.services import TurnParts

_LINE: Final = 200  # characters of a result, of an error
_SENTENCE: Final = 500  # characters of a sentence of a plan
COLLECTED: Final = 100  # characters of something collected, as the report shows it (S1-32)
_CHANGES: Final = 12_000  # characters of the difference of the files
_KEPT: Final = 12  # newest results and errors of an attempt


#: The end of a review, after the user's answer or the start of a further attempt.
ReviewEnd = Literal[
    "skipped",  # the user dropped every requirement
    "answered",  # nothing ran and nothing was required: there is nothing to judge
    "done",
    "continue",  # another attempt has begun
    "accepted",  # the user accepts the result as it is
    "cancelled",  # the user ends the work
    "unasked",  # no attempt is left, and there was nobody to ask
    "refused",  # not done, and the user refused the last change, or no change was carried out
    "unchecked",  # it seems done, but the user's own check could not be run
    "failed",  # it could not be judged; a notice said so
]


class Attempts:
    """Begins further attempts within one turn, and asks the user when none is left."""

    def __init__(self, parts: TurnParts, keeper: PaceKeeper) -> None:
        self._parts = parts
        self._store = parts.store
        self._keeper = keeper
        self.plan = ExecutionPlan()  # of the running attempt

    def make_result(
        self, objective: TaskObjective, score: float, missing: MissingInfoAnalysis
    ) -> AttemptResult:
        """Return the record of the attempt that ends: the model's calls since the last review,
        their errors, and the constraints newly learned.
        """
        log: list[OperationMessage] = []
        for message in reversed(self._store.state.messages):
            if isinstance(message, ReviewMessage) or message.at < objective.created_at:
                break
            if isinstance(message, OperationMessage):
                if message.by_user or message.for_requirement:
                    continue
                log.append(message)
        log.reverse()
        done = summarize_calls(log)
        known = {normalize_text(words) for words in objective.learned_constraints}
        learned = {normalize_text(words): words for words in missing.constraints}
        return AttemptResult(
            attempt_number=objective.iteration_count + 1,
            strategy=self.plan.strategy or describe_changes(log, self._parts.notices.words),
            execution_plan=self.plan,
            results=done.results,
            satisfaction_score=score,
            errors=done.errors,
            lessons_learned=tuple(learned[key] for key in learned if key not in known),
        )

    def may_follow(self, before: TaskObjective, items: Sequence[RequirementItem]) -> bool:
        """Whether an attempt is left and this one made progress: it misses other requirements than
        the attempt before, or raised the level of one of them. The first attempt of a turn
        counts as progress.

        ``before`` is the request before this review, ``items`` are its requirements as now judged.
        """
        turn, _ = current_work(self._store.state)
        if before.iteration_count + 1 >= before.max_iterations:
            return False
        levels = {item.requirement_id: item.satisfaction_level for item in items}
        missed = {i.requirement_id for i in items if i.state is not RequirementState.MET}
        earlier = {
            old.requirement_id: old.satisfaction_level
            for old in before.extracted_requirements
            if old.is_counted and old.state in (RequirementState.REFUTED, RequirementState.PARTLY)
        }
        same = turn.attempt > 1 and missed == earlier.keys()
        return not same or any(levels[key] > level for key, level in earlier.items())

    async def go_on(
        self,
        review: Review,
        missing: MissingInfoAnalysis,
        log: Sequence[OperationMessage],
        changes: str = "",
    ) -> ReviewEnd:
        """Handle a request that is not met: begin another attempt if ``review.follows``, else ask
        the user. ``changes`` is the current diff of the changed files.
        """
        _, objective = current_work(self._store.state)
        context = make_continuation_context(objective, review, missing, log)
        if review.follows:
            return await self._begin_attempt(review, context, changes)
        return await self._ask_user(
            review, context, log, make_situation_report(objective, review, log)
        )

    async def ask_again(
        self, review: Review, report: SituationReport, log: Sequence[OperationMessage]
    ) -> ReviewEnd:
        """Repeat the question that was open after ``review`` when an earlier process ended."""
        _, objective = current_work(self._store.state)
        learned = objective.attempts[-1].lessons_learned if objective.attempts else ()
        missing = MissingInfoAnalysis(missing=review.missing, constraints=learned)
        context = make_continuation_context(objective, review, missing, log)
        return await self._ask_user(review, context, log, report)

    async def _begin_attempt(
        self,
        review: Review,
        context: ContinuationContext,
        changes: str = "",
        *,
        replan: bool = False,
        instructions: str = "",
        rounds: int = 0,
    ) -> ReviewEnd:
        """Begin the next attempt in the same conversation (S1-25, S1-30) and return ``continue``.

        Steps that the review names run again. If it names none and a plan was followed, or with
        ``replan``, a model is asked for a new plan. ``rounds``: allow this many more attempts from
        here; 0 keeps the limit.
        """
        plan = ExecutionPlan() if replan else self._reopen_steps(review)
        if replan or (self._followed_a_plan() and not plan.steps):
            try:
                plan = await self._next_plan(context, instructions)
            except (LlmError, Unreadable) as error:
                self._parts.notices.warn("judging.no_plan", **reason_params(error))
        turn, objective = current_work(self._store.state)
        if rounds:
            change_objective(self._store, max_iterations=objective.iteration_count + rounds)
        attempt = turn.attempt + 1
        most = turn.attempt + rounds if rounds else turn.max_attempts
        lessons = objective.attempts[-1].lessons_learned if objective.attempts else ()
        await self._store.commit(
            AttemptStarted(
                message=AttemptMessage(
                    message_id=self._parts.ids("msg"),
                    attempt=attempt,
                    max_attempts=most,
                    plan=plan,
                    for_model=self._parts.notices.words(
                        "judging.attempt",
                        attempt=str(attempt),
                        most=str(most),
                        **format_attempt(review, plan, lessons, changes),
                    ),
                    at=self._store.clock.now(),
                )
            )
        )
        self.plan = plan
        self._keeper.begin_attempt()
        return "continue"

    def _reopen_steps(self, review: Review) -> ExecutionPlan:
        """Make the steps that the review names pending again, except those that the user waived or
        accepted. Return them as the plan of the next attempt; an empty plan if there are none.
        """
        plan, evaluation = find_followed_plan(self._store.state), review.evaluation
        if plan is None or evaluation is None or plan.halted:
            return ExecutionPlan()
        named = [find_step(plan, name) for name in evaluation.steps]
        ended = (WorkStatus.COMPLETED, WorkStatus.FAILED)
        again = [s for s in plan.steps if s in named and s.status in ended and not s.taken]
        if not again:
            return ExecutionPlan()
        for step in again:
            set_step(self._store, plan.plan_id, step.step_id, WorkStatus.PENDING)
        if not plan.status.may_run:
            status = PlanStatusChanged(plan_id=plan.plan_id, status=PlanStatus.IN_PROGRESS)
            self._store.dispatch(status)
        names = tuple(step.name for step in again)
        self._parts.notices.say("judging.reopened", steps=", ".join(names))
        return ExecutionPlan(plan_id=plan.plan_id, steps=names)

    def _followed_a_plan(self) -> bool:
        """Whether this attempt has a plan, or a plan was made since the request."""
        _, objective = current_work(self._store.state)
        plan = self._store.state.active_plan
        made = plan is not None and plan.created_at >= objective.created_at
        return bool(self.plan.plan_id) or made

    async def _next_plan(self, context: ContinuationContext, instructions: str) -> ExecutionPlan:
        """Ask the creative role for the plan of a further attempt (S1-7). Learned constraints apply
        to it; strategies that failed are excluded (S1-25). ``instructions`` are the user's
        words. Raises LlmError and Unreadable.
        """

        def read(reply: ContinuationReply) -> ExecutionPlan:
            """Convert the reply to a plan; raises ToldError without a strategy, or for one that was
            tried.
            """
            if not reply.strategy.strip():
                raise ToldError("judging.no_strategy")
            if normalize_text(reply.strategy) in map(normalize_text, context.failed_approaches):
                raise ToldError("judging.tried_strategy")
            steps = [
                one_line(f"{step.name}: {step.description}", _SENTENCE) for step in reply.steps
            ]
            return ExecutionPlan(
                strategy=one_line(reply.strategy, _SENTENCE),
                steps=tuple(steps),
                constraints=context.learned_limitations,
                avoid_strategies=context.failed_approaches,
            )

        state, specs = self._store.state, self._parts.router.registry.specs()
        question = continuation_question(state, context, specs, instructions)
        return await self._parts.models.ask(question, read)

    async def _ask_user(
        self,
        review: Review,
        context: ContinuationContext,
        log: Sequence[OperationMessage],
        report: SituationReport,
    ) -> ReviewEnd:
        """Ask the user how to go on until an answer decides it (S1-29, S1-32…39). An instruction
        without text repeats the question (S1-34); so does a request for help, after the analysis
        was made.
        """
        rounds = self._parts.settings.max_attempts
        while True:
            options = tuple(
                option
                for option in ESCALATION_OPTIONS
                if report.analysis is None or option.action != "assistance"
            )
            card = self._parts.desk.make_card(CardKind.ESCALATION, options, escalation=report)
            answer = await self._parts.desk.ask(card)
            text, found = answer.text.strip(), find_consequence(card, answer.action)
            match found.next:
                case "new_round" if text or not found.ledger:
                    if text:
                        await self._parts.add_user_words(text)
                    return await self._begin_attempt(
                        review, context, replan=True, instructions=text, rounds=rounds
                    )
                case "accepted" | "cancelled":
                    change_objective(self._store, closed=True)  # the next message opens another
                    if not self._store.state.session.headless:
                        return found.next
                    self._parts.notices.warn(
                        "judging.unasked",
                        attempts=str(report.attempts),
                        score=f"{report.score:.2f}",
                        missing=one_line("; ".join(report.missing), 400) or "–",
                    )
                    return "unasked"
                case "asks_again":
                    analysis = await ask_failure_analysis(
                        self._parts, log, report.missing, "judging.no_analysis"
                    )
                    report = report.model_copy(update={"analysis": analysis or report.analysis})
                case _:
                    pass


def current_work(state: AgentState) -> tuple[TurnInfo, TaskObjective]:
    """Return the running turn and its request. Fails an assertion if one is missing."""
    assert state.turn is not None
    assert state.objective is not None
    return state.turn, state.objective


# --- questions to a model ------------------------------------------------------------------------


async def ask_failure_analysis(
    parts: TurnParts,
    log: Sequence[OperationMessage],
    missing: Sequence[str],
    unsaid: str,
    step_id: str = "",
) -> FailureAnalysis | None:
    """Ask the evaluator why the work does not progress and what would fix it (S1-10, S1-38). If no
    model answers, show the notice ``unsaid`` and return None.
    """
    context = TaskContext(
        workspace_info=parts.store.state.session.workspace,
        available_tools=tuple(spec.name for spec in parts.router.registry.specs()),
    )
    question = failure_question(parts.store.state, summarize_calls(log), context, missing)
    try:
        return await parts.models.ask(
            question,
            lambda reply: FailureAnalysis(
                cause=reply.cause, fix=reply.fix, retryable=reply.retryable
            ),
        )
    except (LlmError, Unreadable) as error:
        parts.notices.warn(unsaid, step_id=step_id, **reason_params(error))
        return None


async def ask_digest(parts: TurnParts, text: str, wish: str = "") -> str:
    """Ask the fast role to summarize a long text in a few lines; ``wish`` says what the user wants
    kept. Raises LlmError and Unreadable.
    """

    def read(reply: DigestReply) -> str:
        """Return the digest; raises ToldError for an empty one."""
        if not reply.digest.strip():
            raise ToldError("judging.no_digest")
        return reply.digest.strip()

    return await parts.models.ask(digest_question(parts.store.state, text, wish), read)


# --- what an attempt was -------------------------------------------------------------------------


def read_first_plan(state: AgentState) -> ExecutionPlan:
    """Return the plan of the first attempt: the steps of the active plan if it may run, else the
    next steps in the working memory. Its strategy is still empty.
    """
    plan, memory = state.active_plan, state.memory
    if plan is not None and plan.status.may_run:
        steps = tuple(step.name for step in plan.steps)
        return ExecutionPlan(plan_id=plan.plan_id, steps=steps, constraints=memory.constraints)
    return ExecutionPlan(steps=memory.plan_brief, constraints=memory.constraints)


def describe_changes(log: Sequence[OperationMessage], words: Callable[..., str]) -> str:
    """Describe the file changes of these calls on one line, as the strategy of an attempt. Without
    changes, return a phrase from ``words`` instead.
    """
    made = dict[str, None]()
    for message in log:
        for change in message.result.changes:
            lines = f"+{change.added} −{change.removed}"
            made[f"{change.kind} {change.target or change.path} {lines}"] = None
    if made:
        return one_line("; ".join(made), _LINE)
    return words("judging.only_looked" if log else "judging.only_answered")


def summarize_calls(log: Sequence[OperationMessage]) -> ExecutionResult:
    """Summarize calls: texts of those that succeeded, errors of those that failed. Calls that the
    user refused count as neither (R20).
    """
    results: list[str] = []
    errors: list[ExecutionError] = []
    for message in log:
        call, result = message.call_text, message.result
        if result.went_well:
            results.append(one_line(f"{call}: {result.text}", _LINE))
        elif result.outcome in (Outcome.OK, Outcome.ERROR, Outcome.INVALID):
            said = one_line(result.text, _LINE)
            errors.append(ExecutionError(operation=call, message=said, call_id=message.call_id))
    return ExecutionResult(
        succeeded=len(results),
        failed=len(errors),
        results=tuple(results[-_KEPT:]),
        errors=tuple(errors[-_KEPT:]),
    )


def make_continuation_context(
    objective: TaskObjective,
    review: Review,
    missing: MissingInfoAnalysis,
    log: Sequence[OperationMessage],
) -> ContinuationContext:
    """Collect everything that the planner of a further attempt may use (S1-17…20)."""
    evaluation = review.evaluation
    problems: list[str] = []
    for item in review.items:
        if item.state is RequirementState.REFUTED:
            said = (f"{item.requirement_id}: {item.requirement}", _describe_evidence(item))
            problems.append(one_line(" — ".join(filter(None, said)), 2 * _LINE))
    suggested = list(missing.suggested_improvements)
    if evaluation is not None:
        problems.extend(evaluation.missing_aspects)
        suggested.extend(evaluation.suggestions)
    refused = [
        one_line(f"{m.call_text}: {m.result.text}", _LINE)
        for m in log
        if m.result.outcome in (Outcome.DENIED, Outcome.REJECTED)
    ]
    return ContinuationContext(
        previous_attempts=objective.attempts,
        execution_errors=tuple(error for a in objective.attempts for error in a.errors)[-_KEPT:],
        partial_successes=tuple(
            PartialResult(
                description=item.requirement, evidence=tuple(fact.text for fact in item.evidence)
            )
            for item in review.items
            if item.state in (RequirementState.MET, RequirementState.PARTLY)
        ),
        identified_problems=tuple(dict.fromkeys(problems)),
        suggested_improvements=tuple(dict.fromkeys(suggested)),
        alternative_strategies=missing.alternative_strategies,
        unavailable_resources=tuple(dict.fromkeys(refused)),
        failed_approaches=objective.attempted_strategies,
        learned_limitations=objective.learned_constraints,
        missing_info=missing,
    )


def format_attempt(
    review: Review, plan: ExecutionPlan, lessons: Sequence[str] = (), changes: str = ""
) -> dict[str, str]:
    """Return the values for the message that announces a further attempt to the model: scores, and
    as framed texts the missing requirements, the diff and the plan. ``lessons`` are those of the
    previous attempt only.
    """

    def frame_lines(name: str, lines: Iterable[str]) -> str:
        """Format lines as a framed list; empty without lines."""
        text = "\n".join(f"- {line}" for line in lines if line)
        return frame_text(name, text) if text else ""

    missing = (f"P{item.priority} {item.what}" for item in review.missing)
    return {
        "score": f"{review.score:.2f}",
        "needed": f"{DONE_FROM:.2f}",
        "missing": frame_lines("missing", missing),
        "changes": frame_text("changes", changes[:_CHANGES]) if changes else "",
        "way": frame_lines("plan", (plan.strategy,)),
        "steps": frame_lines("plan", plan.steps),
        "lessons": frame_lines("plan", lessons),
    }


def make_situation_report(
    objective: TaskObjective, review: Review, log: Sequence[OperationMessage]
) -> SituationReport:
    """Make the report for the user once no attempt is left (S1-32)."""
    found: dict[str, str] = {}
    for message in log:
        if message.result.went_well and message.result.text.strip():
            found[message.call_text] = one_line(message.result.text, COLLECTED)
    return SituationReport(
        original_query=objective.original_query,
        attempts=objective.iteration_count,
        max_attempts=max(objective.max_iterations, objective.iteration_count),
        score=review.score,
        missing=tuple(item.what for item in review.missing),
        collected=tuple(found.items())[-_KEPT:],
        quality=review.evaluation.quality_assessment if review.evaluation else "",
    )


def _describe_evidence(item: RequirementItem) -> str:
    """Describe the evidence of a requirement on one line, without diffs; empty if there is none."""
    told: list[str] = []
    for fact in item.evidence:
        if fact.kind == "diff":
            continue
        code = "" if fact.exit_code is None else f" exit {fact.exit_code}"
        told.append(one_line(f"{fact.source}{code}: {fact.text}", 2 * _LINE).rstrip(": "))
    return "; ".join(told)
