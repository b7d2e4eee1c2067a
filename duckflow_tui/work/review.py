"""Reviews work that the model calls done, and decides how to go on (S1-1, S1-2, S1-23)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from duckflow_tui.llm.errors import LlmError, Unreadable, reason_params
from duckflow_tui.prompting.side_questions import missing_question, satisfaction_question
from duckflow_tui.prompting.side_replies import MissingReply, SatisfactionReply
from duckflow_tui.state.base import ToldError, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, NoticeMessage
from duckflow_tui.state.decision import TurnDecision
from duckflow_tui.state.goal import (
    Judgement,
    MissingInfoAnalysis,
    MissingItem,
    ObjectiveReviewed,
    RequirementItem,
    RequirementsFound,
    Review,
    ReviewMessage,
    SatisfactionEvaluation,
    SituationReport,
    TaskObjective,
)
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.state.phase import Phase, Status, Trigger
from duckflow_tui.state.turn import TurnOutcome
from duckflow_tui.state.usage import Role
from duckflow_tui.tools.operation import RUN
from duckflow_tui.tools.results import load_originals, net_change
from duckflow_tui.work.attempts import Attempts, ReviewEnd, current_work, read_first_plan
from duckflow_tui.work.checks import Finding, RequirementChecks
from duckflow_tui.work.judge_facts import Fact, collect_facts, find_followed_plan, format_facts
from duckflow_tui.work.judgement import (
    MAX_SENTENCE,
    clean_sentences,
    find_open_points,
    find_strongest_run,
    judge_requirements,
    list_missing,
    merge_evaluations,
    read_evaluation,
    withdraw_unshown,
)
from duckflow_tui.work.pace import PaceKeeper
from duckflow_tui.work.requirements import (
    list_requests,
    new_requirement,
    take_requirements,
    update_ledger,
)
from duckflow_tui.work.services import TurnParts

_MAX_REASON: Final = 200  # characters of the unchecked requirements in a notice
_MAX_REQUEST: Final = 500  # characters of a request used as its only requirement
_DID_NOT_RUN: Final = (Outcome.DENIED, Outcome.SKIPPED, Outcome.INVALID)

#: Outcome and status of a turn by the end of its review; any other end counts as done.
OUTCOMES: Final[dict[ReviewEnd, tuple[TurnOutcome, Status]]] = {
    "answered": ("answered", Status.SUCCESS),
    "unasked": ("partial", Status.SUCCESS),
    "cancelled": ("stopped", Status.SUCCESS),
    "refused": ("partial", Status.REQUIRES_USER_INPUT),
    "unchecked": ("partial", Status.REQUIRES_USER_INPUT),
    "failed": ("partial", Status.ERROR),
}

#: Ends after which work on the request stops without further questions, although it is not done.
ENDS_WORK: Final = frozenset(OUTCOMES) - {"failed", "answered"}


@dataclass(slots=True)
class _Case:
    """The material for judging one attempt."""

    asked: TaskObjective  # the request as it was when the judgement began
    log: Sequence[OperationMessage]  # the model's calls in this turn
    calls: Sequence[OperationMessage]  # all calls since the request was made, the user's too
    ran: bool  # whether an operation of the model ran
    reply: str  # all replies to the user on the request
    last: bool  # no further attempt may follow
    changes: str = ""  # net change of files since the request
    findings: dict[str, Finding] = field(default_factory=dict[str, Finding])  # by requirement
    facts: list[Fact] = field(default_factory=list[Fact])
    evaluation: SatisfactionEvaluation | None = None  # None: the checks decided everything


class Reviewer:
    """Judges work that the model calls done. One instance per turn."""

    def __init__(self, parts: TurnParts, keeper: PaceKeeper) -> None:
        self._parts = parts
        self._store = parts.store
        self._keeper = keeper
        self._attempts = Attempts(parts, keeper)
        self._checks = RequirementChecks(parts.store, parts.ids, parts.router, parts.notices.words)
        self._understood = False  # the requirements of the first decision were recorded
        self.newest: Review | None = None  # of this turn

    def resume_turn(self, decisions: Sequence[TurnDecision]) -> None:
        """Continue a turn whose first ``decisions`` were handled by an earlier process, so that the
        next one may not count as the first.
        """
        objective = self._store.state.objective
        known = objective is not None and bool(objective.extracted_requirements)
        self._understood = len(decisions) > 1 or bool(decisions and known)

    async def record_requirements(self, decision: TurnDecision) -> None:
        """Add the requirements of a decision to the ledger (S1-24)."""
        first, self._understood = not self._understood, True
        await take_requirements(self._parts, decision, first=first)
        if first:
            self._attempts.plan = read_first_plan(self._store.state)

    async def review_work(
        self, log: Sequence[OperationMessage], reply: str, *, last: bool
    ) -> ReviewEnd:
        """Judge work that the model calls done (S1-27…31). ``log``: the model's calls in this turn,
        without those of checks; ``reply``: its last reply to the user; ``last``: no further attempt
        may follow, because something was denied or the user stopped the plan.

        A request is judged if an operation ran for it or it has requirements. It may be done even
        in the last attempt; an unreadable answer of the judge never counts as done.
        """
        _, objective = current_work(self._store.state)
        calls, said = self._collect_since(objective)
        ran = [m for m in calls if not m.by_user and m.result.outcome not in _DID_NOT_RUN]
        if not (ran or objective.extracted_requirements):
            return "answered"
        await update_ledger(self._parts, "review")
        _, objective = current_work(self._store.state)
        items = objective.extracted_requirements
        if items and not any(item.is_counted for item in items):
            return "skipped"
        if self._store.state.phase is Phase.EXECUTION:
            self._parts.machine.move_to(Phase.REVIEW, Trigger.DONE)
        if not items:  # without requirements, the request itself is the only one
            texts = list_requests(self._store.state)
            items = (new_requirement(objective, one_line("; ".join(texts), _MAX_REQUEST)),)
            await self._store.commit(
                RequirementsFound(objective_id=objective.objective_id, items=items)
            )
            objective = objective.replace(extracted_requirements=items)
        self._propose_other_judge()
        case = _Case(objective, log, calls, bool(ran), said or reply, last)
        before = await load_originals(self._store.state, self._parts.router.blobs)
        case.changes = await net_change(before, self._parts.router.workspace)
        for item in items:
            finding = await self._checks.check_requirement(item) if item.is_counted else None
            if finding is not None:
                case.findings[item.requirement_id] = finding
        case.facts = collect_facts(
            self._store.state,
            objective,
            case.changes,
            case.reply,
            self._parts.router.registry.specs(),
            self._parts.notices.words,
            case.findings,
        )
        try:
            case.evaluation = await self._ask_evaluator(case)
        except LlmError as error:
            self._parts.notices.error("judging.not_judged", **reason_params(error))
            return "failed"
        except Unreadable:
            self._parts.notices.error("judging.unreadable")
            return "failed"
        return await self._judge_attempt(case)

    async def ask_again(self, review: Review, report: SituationReport) -> ReviewEnd:
        """Repeat the question that was open after ``review`` when an earlier process ended."""
        _, objective = current_work(self._store.state)
        self.newest = review
        log, _ = self._collect_since(objective)
        return await self._attempts.ask_again(review, report, log)

    async def _judge_attempt(self, case: _Case) -> ReviewEnd:
        """Judge an attempt, record the review, and go on from its result."""
        turn, before = current_work(self._store.state)
        items, findings, evaluation = _drop_outdated(case, before)
        carried_out = self._is_carried_out(case)
        found = judge_requirements(items, case.facts, evaluation, findings, carried_out=carried_out)
        no_stands = self._is_refused(case.log)
        denied = any(m.result.outcome is Outcome.DENIED for m in case.log)
        if denied or not found.done:
            refused = not carried_out or (not case.changes and (denied or no_stands))
            shown = withdraw_unshown(found, case.facts, refused=refused)
            found = found.replace(items=shown, done=found.done and shown == found.items)
        refused = not found.done and (case.last or found.in_vain or no_stands)
        missing = MissingInfoAnalysis()
        follows = False
        if not found.done:
            lacks = list_missing(
                found, case.facts, case.evaluation, findings, self._parts.notices.words
            )
            missing = MissingInfoAnalysis(missing=lacks)
            follows = not (refused or found.unchecked) and self._attempts.may_follow(
                before, found.items
            )
            if follows and not missing.missing:
                missing = await self._ask_missing(case, found) or missing
                follows = bool(missing.missing)
        plan = find_followed_plan(self._store.state)
        review = Review(
            **dict(found),
            review_id=self._parts.ids("review"),
            plan_id=plan.plan_id if plan is not None else "",
            attempt=turn.attempt,
            max_attempts=turn.max_attempts,
            missing=missing.missing,
            evaluation=case.evaluation,
            rests_on=find_strongest_run(case.facts),
            follows=follows,
            calls=tuple(
                m.call_id
                for m in case.calls
                if m.result.undoable_changes and m.call_id not in self._store.state.undone_calls
            ),
        )
        at = self._store.clock.now()
        message = ReviewMessage(message_id=self._parts.ids("msg"), review=review, at=at)
        result = self._attempts.make_result(before, found.score, missing)
        await self._store.commit(ObjectiveReviewed(message=message, result=result))
        self.newest = review
        self._keeper.take_review(review, before)
        if found.done:
            return "done"
        if refused:
            planning = self._store.state.mode is ApprovalMode.PLAN
            told = ("plan_mode" if planning else "halted") if case.last else "refused"
            told = "in_vain" if found.in_vain else told
            self._parts.notices.say(f"judging.{told}")
            return "refused"
        if found.unchecked:
            unseen = [r.requirement for r in items if r.requirement_id in review.unchecked]
            what = one_line(", ".join(unseen), _MAX_REASON)
            self._parts.notices.warn("judging.unproven", what=what)
            return "unchecked"
        return await self._attempts.go_on(review, missing, case.calls, case.changes)

    def _propose_other_judge(self) -> None:
        """Suggest once per session a configured model of another family as the judge, if the
        working model judges itself.
        """
        key, roles = "judging.other_judge", self._parts.models.service.roles
        main = roles.model_of("main")
        told = any(
            isinstance(m, NoticeMessage) and m.key == key for m in self._store.state.messages
        )
        if told or main is None or roles.model_of("evaluator") != main:
            return
        others: tuple[Role, ...] = ("strong", "creative", "fast")
        for role in others:
            other = roles.model_of(role)
            if other is not None and _model_family(other.model) != _model_family(main.model):
                self._parts.notices.say(key, model=other.model)
                return

    # --- questions to a model ----------------------------------------------------------------

    async def _ask_evaluator(self, case: _Case) -> SatisfactionEvaluation | None:
        """Ask the evaluator how far requirements are met (S1-8, S1-16), and once more about open
        points. None if no answer is needed: files were changed and the user's checks decide
        everything, or no attempt may follow and either nothing ran or a user's check failed.
        """
        items = [item for item in case.asked.extracted_requirements if item.is_counted]
        outcomes = {key: finding.outcome for key, finding in case.findings.items()}
        own = [outcomes.get(item.requirement_id) if item.by_user else None for item in items]
        if case.changes and all(outcome in ("met", "refuted") for outcome in own):
            return None
        if case.last and ("refuted" in own or not case.ran):
            return None
        first: SatisfactionEvaluation | None = None

        def read(reply: SatisfactionReply) -> SatisfactionEvaluation:
            """Convert the reply; the first time raises ToldError with the open points, so that the
            judge is asked again.
            """
            nonlocal first
            found = read_evaluation(reply, items)
            if first is not None:
                return merge_evaluations(first, found, items)
            first = found
            if points := find_open_points(items, case.facts, found, case.findings):
                raise ToldError("text", text=points)
            return found

        question = satisfaction_question(
            self._store.state,
            items,
            format_facts(case.facts),
            find_followed_plan(self._store.state),
        )
        try:
            return await self._parts.models.ask(question, read)
        except (LlmError, Unreadable) as error:
            if first is None:
                raise
            self._parts.notices.warn("judging.not_asked_again", **reason_params(error))
            return merge_evaluations(first, first, items)

    async def _ask_missing(self, case: _Case, found: Judgement) -> MissingInfoAnalysis | None:
        """Ask the fast role what is missing, for a judgement whose evaluator named nothing, and
        return it with the most important first (S1-9); None, after a notice, where it could not
        answer.
        """

        def read(reply: MissingReply) -> MissingInfoAnalysis:
            lacks = [
                MissingItem(what=one_line(entry.what, MAX_SENTENCE), priority=entry.priority)
                for entry in reply.missing
                if entry.what.strip()
            ]
            return MissingInfoAnalysis(
                missing=tuple(sorted(lacks, key=lambda item: item.priority)),
                constraints=clean_sentences(reply.constraints),
                suggested_improvements=clean_sentences(reply.suggested_improvements),
                alternative_strategies=clean_sentences(reply.alternative_strategies),
            )

        facts = format_facts(case.facts)
        question = missing_question(self._store.state, found.items, case.evaluation, facts)
        try:
            return await self._parts.models.ask(question, read)
        except (LlmError, Unreadable) as error:
            self._parts.notices.warn("judging.no_missing", **reason_params(error))
            return None

    # --- reading the state -------------------------------------------------------------------

    def _collect_since(self, objective: TaskObjective) -> tuple[list[OperationMessage], str]:
        """Return all calls since the request, including the user's and without those of checks, and
        all replies to the user, also from steps of a plan, because the answer may come before the
        last reply.
        """
        calls: list[OperationMessage] = []
        texts: dict[str, None] = {}
        for message in self._store.state.messages:
            if message.at < objective.created_at:
                continue
            if isinstance(message, OperationMessage) and not message.for_requirement:
                calls.append(message)
            elif isinstance(message, AssistantMessage) and not message.aside:
                texts.setdefault(message.text.strip())
        return calls, "\n\n".join(filter(None, texts))

    def _is_carried_out(self, case: _Case) -> bool:
        """Whether any change of the work is in place: a file differs, or another call with effects
        succeeded. True if no call with effects was tried.
        """
        tried = [m for m in case.calls if self._parts.router.registry.has_effects(m.operation)]
        stands = (m for m in tried if m.result.went_well and not m.result.changes)
        return bool(case.changes) or not tried or any(stands)

    def _is_refused(self, log: Sequence[OperationMessage]) -> bool:
        """Whether the user refused a call, and neither a later change of a file nor the same call
        went through, or rewrote the last change or left out a part; then no further attempt
        begins without asking.
        """
        no: OperationMessage | None = None
        changes: list[OperationMessage] = []
        for message in log:
            if message.result.changes:
                changes.append(message)
            if message.result.outcome.is_refused:
                no = message
            elif no is not None and message.result.went_well:
                same = message.call_text == no.call_text
                changed = message.result.changes and message.operation != RUN
                no = None if same or changed else no
        if no is not None or not changes:
            return no is not None
        gate, answer = changes[-1].gate, changes[-1].answer
        rewritten = gate is not None and gate.edited_by_user
        return rewritten or (answer is not None and bool(answer.left_out))


def _model_family(model: str) -> str:
    """Return the family in a model's name: ``qwen`` of ``Qwen/qwen3-coder:30b``."""
    name = model.rpartition("/")[2].casefold()
    return "".join(itertools.takewhile(str.isalpha, name))


def _drop_outdated(
    case: _Case, now: TaskObjective
) -> tuple[list[RequirementItem], dict[str, Finding], SatisfactionEvaluation | None]:
    """Return the current requirements that count, and findings and scores without requirements that
    the user added or edited during the judgement.
    """
    items, findings, evaluation = list[RequirementItem](), dict(case.findings), case.evaluation
    for item in now.extracted_requirements:
        old = case.asked.get_requirement(item.requirement_id)
        if item.is_counted:
            items.append(item)
        if old is None or (old.requirement, old.check) != (item.requirement, item.check):
            findings.pop(item.requirement_id, None)
            if evaluation is not None:
                scores = dict(evaluation.requirement_scores)
                scores.pop(item.requirement_id, None)
                evaluation = evaluation.replace(requirement_scores=scores)
    return items, findings, evaluation
