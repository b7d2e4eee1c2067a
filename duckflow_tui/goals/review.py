"""Done means met: the requirements, their review, and the next attempt (S1-1, S1-2, S1-23)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from duckflow_tui.goals.attempts import (
    Escalation,
    attempt_result,
    attempt_words,
    bare_plan,
    continuation_context,
    situation,
)
from duckflow_tui.goals.judging import judged, lacking, verdict
from duckflow_tui.goals.questions import LLMServices
from duckflow_tui.goals.requirements import TALK, Understanding, next_id, only_talk
from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.state.base import one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, UserMessage, UserMessageAdded
from duckflow_tui.state.goal import (
    AttemptMessage,
    AttemptStarted,
    ContinuationContext,
    ExecutionPlan,
    MissingInfoAnalysis,
    ObjectiveChanged,
    ObjectiveReviewed,
    RequirementItem,
    RequirementsFound,
    Review,
    ReviewMessage,
    SatisfactionEvaluation,
    SituationReport,
    TaskObjective,
    UnderstandingResult,
)
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.phase import Phase, Status, Trigger

if TYPE_CHECKING:
    from duckflow_tui.agent.parts import TurnParts
    from duckflow_tui.goals.checks import Finding
    from duckflow_tui.state.decision import TurnDecision
    from duckflow_tui.state.turn import TurnInfo, TurnOutcome

_UNCHECKED: Final = 200  # characters of the requirements that nobody saw met

_REQUEST: Final = 500  # characters of a request that is its own requirement


EndKind = Literal[
    "skipped",  # nothing was to be judged
    "done",
    "continue",  # another attempt has begun
    "accepted",  # the user takes what there is
    "cancelled",  # the user wants no more of it
    "refused",  # not done, and the user refused the last change: theirs is the next word
    "pending",  # not done, and the user did not say how to go on
    "unproven",  # it seems done, but what would show it could not be run
    "failed",  # it could not be judged, which was shown
]


@dataclass(frozen=True, slots=True)
class ReviewEnd:
    """What came of a review; ``satisfaction`` is None where nothing was judged."""

    kind: EndKind
    satisfaction: float | None = None

    @property
    def outcome(self) -> tuple[TurnOutcome, Status]:
        """How a turn ends that does not go on."""
        match self.kind:
            case "accepted":
                return "partial", Status.SUCCESS
            case "cancelled":
                return "stopped", Status.SUCCESS
            case "refused" | "pending" | "unproven":
                return "partial", Status.REQUIRES_USER_INPUT
            case "failed":
                return "partial", Status.ERROR
            case _:
                return "done", Status.SUCCESS

    @property
    def laid_down(self) -> bool:
        """Whether nothing of it is under way or asked any more, though it is not done."""
        return self.kind in ("accepted", "cancelled", "refused", "pending", "unproven")


class Paced(Protocol):
    """Who keeps the pace, as the reviewer needs it."""

    def attempt(self) -> None:
        """A further attempt begins."""
        ...

    def reviewed(self, review: Review, before: TaskObjective) -> None:
        """An attempt at the objective, as it was before, was judged."""
        ...


class Reviewer:
    """One for a turn."""

    def __init__(self, parts: TurnParts, pace: Paced | None = None) -> None:
        self._parts = parts
        self._store = parts.store
        self._pace = pace
        self._services = LLMServices(parts)
        self._escalation = Escalation(parts, self._services)
        self._understanding = Understanding(parts, self._services)
        self._plan = ExecutionPlan()
        self._only_talk = True  # so far
        self.satisfaction: float | None = None  # of the newest review of this turn

    def take_up(self, decisions: Sequence[TurnDecision]) -> None:
        """The turn goes on behind these decisions, which an earlier process took in."""
        self._only_talk = all(only_talk(decision) for decision in decisions)
        objective = self._store.state.objective
        known = objective is not None and bool(objective.extracted_requirements)
        if len(decisions) > 1 or (decisions and known):
            self._understanding.is_done()

    async def understand(self, decision: TurnDecision) -> UnderstandingResult | None:
        """Take what the turn's first decision says of the request; see ``Understanding``."""
        self._only_talk = self._only_talk and only_talk(decision)
        understood = await self._understanding.take(decision)
        if understood is not None:
            self._plan = understood.execution_plan
        return understood

    async def review(self, log: Sequence[OperationMessage], reply: str) -> ReviewEnd:
        """Judge what the model calls done (S1-27…31). ``log``: its calls in this turn; ``reply``:
        its last word to the user.

        First the checks, then the evaluator for what they leave open. Completion goes before the
        limit of attempts; a reply that cannot be read is never taken for a yes.
        """
        log = [message for message in log if not message.for_requirement]
        objective = self._store.state.objective
        if objective is None or not self._is_judged(objective, log):
            return ReviewEnd("skipped")
        if self._store.state.phase is Phase.EXECUTION:
            self._parts.machine.move(Phase.REVIEW, Trigger.DONE)
        objective = await self._as_said(objective)
        evidence = self._since(objective)
        reply = self._said(objective) or reply
        findings = await self._findings(objective)
        try:
            evaluation = await self._evaluated(objective, findings, evidence, reply)
        except (LlmError, Unreadable) as error:
            if isinstance(error, LlmError):
                self._parts.notices.error(f"llm.error.{error.code}", **error.params)
                self._parts.notices.error("judging.not_judged", reason=_reason(error))
            else:
                self._parts.notices.error("judging.unreadable")
            return ReviewEnd("failed", self.satisfaction)
        return await self._judge(objective, log, evidence, findings, evaluation, reply)

    def _is_judged(self, objective: TaskObjective, log: Sequence[OperationMessage]) -> bool:
        """Whether this answer is reviewed at all."""
        if any(message.result.outcome is Outcome.DENIED for message in log):
            return False
        counted = [item for item in objective.extracted_requirements if item.counts]
        if any(item.by_user for item in counted):
            return True
        choice = self._store.state.profile_choice
        if choice in TALK:
            return False
        # A model that calls it a question and changes files anyway has done work.
        if not any(message.result.changes for message in log):
            profile = choice or objective.profile
            if profile in TALK or (self._only_talk and not log):
                return False
        if objective.extracted_requirements:
            return bool(counted)
        stated = (choice or objective.profile) is not None
        return stated or self._parts.checks.changed_something(log)

    async def _as_said(self, objective: TaskObjective) -> TaskObjective:
        """The objective with something to be judged: where nobody split the request, the request
        itself is its requirement.
        """
        if objective.extracted_requirements:
            return objective
        words = one_line(objective.original_query, _REQUEST)
        item = RequirementItem(requirement_id=next_id(set()), requirement=words)
        await self._store.commit(
            RequirementsFound(objective_id=objective.objective_id, items=(item,))
        )
        return objective.model_copy(update={"extracted_requirements": (item,)})

    async def _findings(self, objective: TaskObjective) -> dict[str, Finding]:
        found: dict[str, Finding] = {}
        for item in objective.extracted_requirements:
            if not item.counts:
                continue
            finding = await self._parts.checks.look(item)
            if finding is not None:
                found[item.requirement_id] = finding
        return found

    async def _evaluated(
        self,
        objective: TaskObjective,
        findings: dict[str, Finding],
        evidence: Sequence[OperationMessage],
        reply: str,
    ) -> SatisfactionEvaluation | None:
        """The evaluator's judgement; None where the checks decided everything."""
        items = [item for item in objective.extracted_requirements if item.counts]
        left = [
            item.requirement_id
            for item in items
            if (found := findings.get(item.requirement_id)) is None or found.verdict == "unchecked"
        ]
        if items and not left:
            return None
        words = {key: f"{found.verdict}: {found.words}" for key, found in findings.items()}
        return await self._services.evaluate_task_satisfaction(items, left, words, evidence, reply)

    async def _judge(
        self,
        asked: TaskObjective,
        log: Sequence[OperationMessage],
        evidence: Sequence[OperationMessage],
        findings: dict[str, Finding],
        evaluation: SatisfactionEvaluation | None,
        reply: str,
    ) -> ReviewEnd:
        turn, before = self._in_hand()
        at = self._store.clock.now()
        counted = [item for item in before.extracted_requirements if item.counts]
        # What the user added or rewrote meanwhile was not judged: it is open, and so not met.
        fresh = [item for item in counted if not _same(item, asked)]
        findings = {k: f for k, f in findings.items() if k not in {r.requirement_id for r in fresh}}
        items = tuple(
            item
            if item in fresh
            else judged(item, findings.get(item.requirement_id), evaluation, evidence, at)
            for item in counted
        )
        found = verdict(items, findings, evaluation)
        refused = not found.done and self._refused(log)
        missing = MissingInfoAnalysis()
        if not found.done:
            missing = lacking(items, findings, evaluation)
            if not (refused or found.unproven):
                missing = await self._missing(items, evaluation, evidence, reply) or missing
        review = Review(
            review_id=self._parts.ids("review"),
            attempt=turn.attempt,
            max_attempts=turn.max_attempts,
            score=found.score,
            done=found.done,
            items=items,
            missing=missing.missing,
            evaluation=evaluation,
            vetoes=found.vetoes,
            unchecked=tuple(key for key, f in findings.items() if f.verdict == "unchecked"),
            mismatch=found.mismatch,
            unproven=found.unproven,
        )
        number = before.iteration_count + 1
        message = ReviewMessage(message_id=self._parts.ids("msg"), review=review, at=at)
        result = attempt_result(number, self._plan, found.score, log, missing)
        await self._store.commit(ObjectiveReviewed(message=message, result=result))
        self.satisfaction = found.score
        if self._pace is not None:
            self._pace.reviewed(review, before)
        if found.done:
            return ReviewEnd("done", found.score)
        if refused:
            self._parts.notices.say("judging.refused")
            return ReviewEnd("refused", found.score)
        if found.unproven:
            self._parts.notices.warn("judging.unproven", what=_unchecked_words(review))
            return ReviewEnd("unproven", found.score)
        _, after = self._in_hand()
        context = continuation_context(after, review, missing, evidence)
        if after.iteration_count >= after.max_iterations:
            return await self._escalate(review, context, evidence)
        return await self._go_on(review, context)

    async def _missing(
        self,
        items: Sequence[RequirementItem],
        evaluation: SatisfactionEvaluation | None,
        evidence: Sequence[OperationMessage],
        reply: str,
    ) -> MissingInfoAnalysis | None:
        """What is missing, in a model's words; None when it could not say, which is shown."""
        try:
            return await self._services.extract_missing_information(
                items, evaluation, evidence, reply
            )
        except (LlmError, Unreadable) as error:
            self._parts.notices.warn("judging.no_missing", reason=_reason(error))
            return None

    # --- further attempts --------------------------------------------------------------------

    async def _go_on(
        self, review: Review, context: ContinuationContext, instructions: str = "", rounds: int = 0
    ) -> ReviewEnd:
        """Begin the next attempt (S1-25, S1-30); ``rounds`` more attempts are allowed from here."""
        try:
            plan = await self._services.plan_continuation_execution(context, instructions)
        except (LlmError, Unreadable) as error:
            self._parts.notices.warn("judging.no_plan", reason=_reason(error))
            plan = bare_plan(context)
        turn, objective = self._in_hand()
        if rounds:
            self._change(objective, max_iterations=objective.iteration_count + rounds)
        attempt, most = turn.attempt + 1, turn.max_attempts + rounds
        await self._store.commit(
            AttemptStarted(
                message=AttemptMessage(
                    message_id=self._parts.ids("msg"),
                    attempt=attempt,
                    max_attempts=most,
                    plan=plan,
                    for_model=attempt_words(review, plan, attempt, most),
                    at=self._store.clock.now(),
                )
            )
        )
        self._plan = plan
        if self._pace is not None:
            self._pace.attempt()
        return ReviewEnd("continue", review.score)

    async def ask_again(self, review: Review, report: SituationReport) -> ReviewEnd:
        """The user was being asked this after that review when an earlier process ended."""
        _, objective = self._in_hand()
        evidence = self._since(objective)
        self.satisfaction = review.score
        learned = objective.attempts[-1].lessons_learned if objective.attempts else ()
        missing = MissingInfoAnalysis(missing=review.missing, constraints=learned)
        context = continuation_context(objective, review, missing, evidence)
        return await self._escalate(review, context, evidence, report)

    async def _escalate(
        self,
        review: Review,
        context: ContinuationContext,
        evidence: Sequence[OperationMessage],
        report: SituationReport | None = None,
    ) -> ReviewEnd:
        """Put the situation before the user, and do what they say (S1-29, S1-32…39)."""
        _, objective = self._in_hand()
        report = report or situation(objective, review, evidence)
        answer = await self._escalation.ask(report, tuple(evidence))
        rounds = self._parts.limits.max_attempts
        match answer.way:
            case "instructions":
                await self._say(answer.text)
                return await self._go_on(review, context, answer.text, rounds)
            case "alternative":
                return await self._go_on(review, context, rounds=rounds)
            case "pending":
                return ReviewEnd("pending", review.score)
            case "accept_partial":
                self._close()
                return ReviewEnd("accepted", review.score)
            case "cancel":
                self._close()
                self._parts.machine.reset(Trigger.STOP)
                return ReviewEnd("cancelled", review.score)

    async def _say(self, text: str) -> None:
        """The user's instructions become their words in the conversation."""
        message = UserMessage(
            message_id=self._parts.ids("msg"), text=text, at=self._store.clock.now()
        )
        await self._store.commit(UserMessageAdded(message=message))

    def _close(self) -> None:
        """The user wants no more attempts at it: the next message is another request."""
        _, objective = self._in_hand()
        self._change(objective, closed=True)

    # --- reading the state -------------------------------------------------------------------

    def _in_hand(self) -> tuple[TurnInfo, TaskObjective]:
        """The turn and its objective, which are there while it runs."""
        state = self._store.state
        assert state.turn is not None
        assert state.objective is not None
        return state.turn, state.objective

    def _since(self, objective: TaskObjective) -> list[OperationMessage]:
        """All calls since the request was made, the user's own included, the checks left out."""
        return [
            m
            for m in self._store.state.messages
            if isinstance(m, OperationMessage)
            and m.at >= objective.created_at
            and not m.for_requirement
        ]

    def _said(self, objective: TaskObjective) -> str:
        """What the user was told on the request, the last word at the end: an answer may have
        been given before the last one.
        """
        texts = [
            m.text.strip()
            for m in self._store.state.messages
            if isinstance(m, AssistantMessage)
            and m.at >= objective.created_at
            and not (m.aside or m.step_id)
        ]
        return "\n\n".join(dict.fromkeys(text for text in texts if text))

    def _refused(self, log: Sequence[OperationMessage]) -> bool:
        """Whether the user's answer to the last effect was no, to all of it or to a part, or their
        own version: then nothing is tried unasked.
        """
        acting = {spec.name for spec in self._parts.specs() if spec.has_side_effects}
        effects = [message for message in log if message.operation in acting]
        if not effects:
            return False
        last = effects[-1]
        if last.result.outcome in (Outcome.REJECTED, Outcome.DECLINED):
            return True
        changes = [message for message in effects if message.result.changes]
        if not changes:
            return False
        gate, answer = changes[-1].gate, changes[-1].answer
        rewritten = gate is not None and gate.edited_by_user
        return rewritten or (answer is not None and bool(answer.left_out))

    def _change(self, objective: TaskObjective, **update: object) -> None:
        self._store.dispatch(ObjectiveChanged(objective=objective.model_copy(update=update)))


def _same(item: RequirementItem, asked: TaskObjective) -> bool:
    """Whether it is what was asked for when the judgement began."""
    old = asked.requirement(item.requirement_id)
    return old is not None and (old.requirement, old.check) == (item.requirement, item.check)


def _unchecked_words(review: Review) -> str:
    """The requirements whose check could not be run, in a few words."""
    asked = [item.requirement for item in review.items if item.requirement_id in review.unchecked]
    return one_line(", ".join(asked), _UNCHECKED)


def _reason(error: LlmError | Unreadable) -> str:
    return one_line(str(error), 200)
