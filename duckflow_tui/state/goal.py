"""The user's requests and how far they are met: objective › requirement › attempt (S1)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from duckflow_tui.state.base import Count, Event, Frozen, InConversation, StateError
from duckflow_tui.state.decision import Check
from duckflow_tui.state.memory import WorkingMemory
from duckflow_tui.state.pace import TaskProfile

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState

DONE_FROM: Final = 0.8  # overall score from which an objective is done (S1-28)
_STANDS: Final = 20  # ledgers that are kept for undo and redo
PARTLY_FROM: Final = 0.5  # score from which a requirement is partly met; P1 and P2 need it (C14)

ENDED_WELL: Final = ("done", "answered")  # outcomes of a turn that leave nothing open

#: How the last turn on a request ended that was not done.
Left = Literal["partial", "denied", "failed", "limit", "stopped"]


class RequirementState(StrEnum):
    """How far a requirement is met."""

    OPEN = "open"  # nothing was judged yet
    MET = "met"
    PARTLY = "partly"
    REFUTED = "refuted"  # a check or a judgement says it is not met
    WAIVED = "waived"  # the user does not want it any more

    @property
    def is_judged(self) -> bool:
        """Whether a review or a check has set it."""
        return self not in (RequirementState.OPEN, RequirementState.WAIVED)


EvidenceKind = Literal["command", "file", "diff", "reply", "user"]


class Evidence(Frozen):
    """A fact about whether a requirement is met: an excerpt, where and when it was seen."""

    kind: EvidenceKind
    text: str  # excerpt of an output, of a file or of the reply, lines of a diff, the user's words
    source: str = ""  # the command line, the path, or what it is
    supports: bool = True  # whether it speaks for the requirement
    exit_code: int | None = None  # of a command
    call_id: str = ""  # of the operation that showed it, where there is one
    at: float = 0.0  # seconds since the epoch
    fact: str = ""  # its id in the judge's question


class RequirementItem(Frozen):
    """A single thing that the user asked for (S1-15); priority 1 (high) to 3 (low)."""

    requirement_id: str
    requirement: str
    satisfaction_level: float = Field(default=0.0, ge=0.0, le=1.0)
    evidence: tuple[Evidence, ...] = ()  # of the newest review, oldest first
    priority: int = Field(default=1, ge=1, le=3)
    state: RequirementState = RequirementState.OPEN
    check: Check = Check()
    by_user: bool = False  # the user wrote or rewrote it
    waived_because: str = ""  # the user's reason
    provisional: bool = False  # met by a check that turned green at work, not judged yet

    @property
    def is_shown_by_files(self) -> bool:
        """Whether its evidence is in a file or the output of a command."""
        return any(fact.kind in ("diff", "file", "command") for fact in self.evidence)

    @property
    def is_shown_by_words(self) -> bool:
        """Whether its only evidence is in words: of a reply, or of the user."""
        return bool(self.evidence) and not self.is_shown_by_files

    def rests_on(self, paths: Collection[str]) -> bool:
        """Whether its evidence is in one of these files, or in the output of a command."""
        return any(
            fact.kind == "command"
            or (fact.kind in ("diff", "file") and fact.source.partition(":")[0] in paths)
            for fact in self.evidence
        )

    def with_level_of(self, then: RequirementItem | None) -> RequirementItem:
        """Return the requirement with the state and level of ``then``, an earlier version; open
        where that is None or asks for something else.
        """
        same = then is not None and (then.requirement, then.check) == (self.requirement, self.check)
        if then is None or not same or not self.is_counted or not then.is_counted:
            return self
        return self.with_verdict(then)

    def with_verdict(self, of: RequirementItem | None = None) -> RequirementItem:
        """Return the requirement with the state, level and evidence of ``of``; open, without
        evidence, for None.
        """
        found = of or RequirementItem(requirement_id="", requirement="")
        names = ("state", "satisfaction_level", "evidence", "provisional")
        return self.replace(**{name: getattr(found, name) for name in names})

    @property
    def is_counted(self) -> bool:
        """Whether it counts towards completion."""
        return self.state is not RequirementState.WAIVED

    @property
    def is_unproven(self) -> bool:
        """Whether it was judged as met without any fact."""
        shown = any(fact.supports for fact in self.evidence)
        return self.state is RequirementState.MET and not shown


def count_met(items: Iterable[RequirementItem]) -> tuple[int, int]:
    """Return the number of requirements met, and of those that count."""
    counted = [item for item in items if item.is_counted]
    return sum(item.state is RequirementState.MET for item in counted), len(counted)


class ExecutionPlan(Frozen):
    """Goals, constraints and things to avoid of one attempt (S1-22, S1-25)."""

    strategy: str = ""
    plan_id: str = ""
    steps: tuple[str, ...] = ()  # in words, in order
    constraints: tuple[str, ...] = ()
    avoid_strategies: tuple[str, ...] = ()


class ExecutionError(Frozen):
    """A failed operation."""

    operation: str
    message: str
    call_id: str = ""


class PartialResult(Frozen):
    """Something an attempt achieved without completing it."""

    description: str
    evidence: tuple[str, ...] = ()


class ExecutionResult(Frozen):
    """Results of the operations of one attempt."""

    succeeded: int = Field(default=0, ge=0)
    failed: int = Field(default=0, ge=0)
    results: tuple[str, ...] = ()
    errors: tuple[ExecutionError, ...] = ()


class FailureAnalysis(Frozen):
    """Why the work failed and what would fix it (S1-10)."""

    cause: str
    fix: str
    retryable: bool = False


class MissingItem(Frozen):
    """Something that is still missing; priority 1 (high) to 3 (low)."""

    what: str
    priority: int = Field(default=1, ge=1, le=3)


class MissingInfoAnalysis(Frozen):
    """Missing items by priority, and lessons of the attempt (S1-9)."""

    missing: tuple[MissingItem, ...] = ()
    constraints: tuple[str, ...] = ()
    suggested_improvements: tuple[str, ...] = ()
    alternative_strategies: tuple[str, ...] = ()


class SatisfactionEvaluation(Frozen):
    """How far the results meet the requirements (S1-16); scores 0.0 to 1.0 by requirement id."""

    overall_score: float = Field(ge=0.0, le=1.0)
    requirement_scores: dict[str, float] = Field(default_factory=dict)
    evidence: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    missing_aspects: tuple[str, ...] = ()
    grade: Literal["good", "normal", "needs_work"] | None = None
    quality_assessment: str = ""
    suggestions: tuple[str, ...] = ()
    verdict: Literal["approve", "fix", "reject"] | None = None
    completion_recommendation: bool | None = None
    steps: tuple[str, ...] = ()  # of the plan, to be done again, as the evaluator names them


class AttemptResult(Frozen):
    """The result and lessons of one attempt at the objective (S1-21)."""

    attempt_number: int = Field(ge=1)
    strategy: str = ""
    execution_plan: ExecutionPlan = ExecutionPlan()
    results: tuple[str, ...] = ()
    satisfaction_score: float = Field(default=0.0, ge=0.0, le=1.0)
    errors: tuple[ExecutionError, ...] = ()
    lessons_learned: tuple[str, ...] = ()


class ContinuationContext(Frozen):
    """The starting point of a further attempt (S1-17…20)."""

    previous_attempts: tuple[AttemptResult, ...] = ()
    execution_errors: tuple[ExecutionError, ...] = ()
    partial_successes: tuple[PartialResult, ...] = ()
    identified_problems: tuple[str, ...] = ()
    suggested_improvements: tuple[str, ...] = ()
    alternative_strategies: tuple[str, ...] = ()
    unavailable_resources: tuple[str, ...] = ()
    failed_approaches: tuple[str, ...] = ()
    learned_limitations: tuple[str, ...] = ()
    missing_info: MissingInfoAnalysis = MissingInfoAnalysis()


class TaskContext(Frozen):
    """Facts about the workspace and its tools for a planner (S1-22)."""

    workspace_info: str = ""
    available_tools: tuple[str, ...] = ()


class LedgerSnapshot(Frozen):
    """The requirements as they stood while exactly these calls were undone."""

    undone: tuple[str, ...]
    items: tuple[RequirementItem, ...]
    satisfaction: float
    reopened: bool


class TaskObjective(Frozen):
    """A request of the user with its requirements, over all attempts (S1-12…14)."""

    objective_id: str
    original_query: str
    created_at: float  # seconds since the epoch
    message_id: str = ""  # of the user's message with the request
    extracted_requirements: tuple[RequirementItem, ...] = ()
    profile: TaskProfile | None = None
    iteration_count: int = Field(default=0, ge=0)
    max_iterations: int = Field(default=3, ge=1)
    current_satisfaction: float = Field(default=0.0, ge=0.0, le=1.0)
    accumulated_results: tuple[str, ...] = ()
    learned_constraints: tuple[str, ...] = ()
    attempted_strategies: tuple[str, ...] = ()
    attempts: tuple[AttemptResult, ...] = ()  # reviewed ones, oldest first
    closed: bool = False  # the user takes it as it is, or gave it up: no more attempts
    left: Left | None = None  # another request took its place before it was done
    memory: WorkingMemory | None = None  # as it was for the request before, until that is left
    split: bool = False  # a model was asked for its requirements
    heard: Count = 0  # messages of the conversation whose wishes are on the ledger
    stands: tuple[LedgerSnapshot, ...] = ()  # since the newest review, by what was undone then
    reopened: bool = False  # what it was judged by is no longer so: it is to be judged anew

    def get_requirement(self, requirement_id: str) -> RequirementItem | None:
        """The requirement of exactly that id."""
        items = self.extracted_requirements
        return next((item for item in items if item.requirement_id == requirement_id), None)

    def with_requirement(self, item: RequirementItem) -> TaskObjective:
        """Return the objective with the requirement of the same id replaced."""
        items = tuple(
            item if old.requirement_id == item.requirement_id else old
            for old in self.extracted_requirements
        )
        return self.replace(extracted_requirements=items)

    def after_file_changes(
        self, paths: Collection[str] | None = None, *, own: bool = True
    ) -> TaskObjective:
        """Reopen the judged requirements that no longer hold by their evidence after ``paths``
        changed. None: any file may have changed. ``own``: the work on this request had changed
        them; then it is to be judged anew, and where no requirement has a file as its evidence,
        those that only words show are reopened too.
        """
        judged = [item for item in self.extracted_requirements if item.state.is_judged]
        keeps_words = not own or any(item.is_shown_by_files for item in judged)
        changed = self
        for item in judged:
            if paths is not None and (
                (keeps_words and item.is_shown_by_words)
                or (item.is_shown_by_files and not item.rests_on(paths))
            ):
                continue
            changed = changed.with_requirement(item.with_verdict())
        if not judged or (changed is self and not own):
            return self
        return changed.replace(current_satisfaction=0.0, reopened=True)

    def after_undo(
        self, before: tuple[str, ...], now: tuple[str, ...], paths: Collection[str], *, own: bool
    ) -> TaskObjective:
        """Return the objective after the set of undone calls changed from ``before`` to ``now``:
        each requirement as recorded for that set; where nothing is recorded, those that rest on
        ``paths`` are reopened. ``own``: the call that was undone or redone worked on this request.
        """
        stand = LedgerSnapshot(
            undone=before,
            items=self.extracted_requirements,
            satisfaction=self.current_satisfaction,
            reopened=self.reopened,
        )
        stands = (*(s for s in self.stands if set(s.undone) != set(before)), stand)
        kept = self.replace(stands=stands[-_STANDS:])
        for then in stands:
            if set(then.undone) == set(now):
                old = {item.requirement_id: item for item in then.items}
                items = tuple(
                    item.with_level_of(old.get(item.requirement_id))
                    for item in self.extracted_requirements
                )
                return kept.replace(
                    extracted_requirements=items,
                    current_satisfaction=then.satisfaction,
                    reopened=then.reopened,
                )
        return kept.after_file_changes(paths, own=own)

    @property
    def met_counts(self) -> tuple[int, int]:
        """The number of requirements met, and of those that count."""
        return count_met(self.extracted_requirements)


class Judgement(Frozen):
    """How far a request is met, by evaluator and facts. Tuples of text hold ids of requirements;
    ``unanswered`` holds ids of facts.
    """

    score: float = Field(ge=0.0, le=1.0)
    done: bool
    items: tuple[RequirementItem, ...] = ()  # as judged
    overruled: tuple[str, ...] = ()  # the user's own check decided against the evaluator
    wrong_checks: tuple[str, ...] = ()  # the evaluator holds the worker's check to be wrong
    unchecked: tuple[str, ...] = ()  # the user's own check could not be run
    unproven: tuple[str, ...] = ()  # met by the evaluator's word, and shown by no fact
    unanswered: tuple[str, ...] = ()  # failed runs of tests and checks that it did not explain
    #: Nothing of the work was carried out, and the evaluator named no fact for its good score.
    in_vain: bool = False


class Review(Judgement):
    """The judgement of one attempt."""

    review_id: str
    attempt: int = Field(ge=1)
    max_attempts: int = Field(ge=1)
    missing: tuple[MissingItem, ...] = ()
    evaluation: SatisfactionEvaluation | None = None  # None: the checks decided all of it
    plan_id: str = ""  # of the plan by which the work went; empty for none
    rests_on: Literal["tests", "runs", "nothing"] = "runs"  # what ran on the files as they are
    follows: bool = False  # a further attempt begins
    calls: tuple[str, ...] = ()  # ids of those whose changes of files it judged

    @property
    def met_counts(self) -> tuple[int, int]:
        """The number of requirements met, and of those that count."""
        return count_met(self.items)

    @property
    def is_proven(self) -> bool:
        """Whether the request is done and each met requirement has a fact."""
        return self.done and not self.unproven

    @property
    def remarks(self) -> tuple[str, ...]:
        """Shortcomings that the evaluator named although the request is done."""
        return self.evaluation.missing_aspects if self.done and self.evaluation else ()

    @property
    def verdict(self) -> Literal["done", "unchecked", "open", "partly", "failed"]:
        """The overall verdict; ``open`` means that a further attempt follows."""
        if self.done:
            return "done"
        if self.follows:
            return "open"
        if self.unchecked and self.score >= DONE_FROM:
            return "unchecked"
        return "partly" if self.met_counts[0] else "failed"


class SituationReport(Frozen):
    """The report to the user when no further attempt is made (S1-32)."""

    original_query: str
    attempts: int = Field(ge=0)
    max_attempts: int = Field(ge=1)
    score: float = Field(ge=0.0, le=1.0)
    missing: tuple[str, ...] = ()
    collected: tuple[tuple[str, str], ...] = ()  # what → its first 100 characters
    quality: str = ""  # the evaluator's words
    analysis: FailureAnalysis | None = None  # once the user asked for it

    @property
    def ended_by(self) -> Literal["attempts", "same_gap", "no_gap"]:
        """Why no further attempt follows: none is left, the last two missed the same, or nothing
        was named as missing.
        """
        if self.attempts >= self.max_attempts:
            return "attempts"
        return "same_gap" if self.missing else "no_gap"


class ReviewMessage(InConversation):
    """The review of an attempt, with the evidence (S1-27)."""

    kind: Literal["review"] = "review"
    review: Review
    for_model: str = ""


class AttemptMessage(InConversation):
    """The start of a further attempt: its goals, constraints and what to avoid (S1-25)."""

    kind: Literal["attempt"] = "attempt"
    attempt: int = Field(ge=1)
    max_attempts: int = Field(ge=1)
    plan: ExecutionPlan
    for_model: str = ""


@dataclass(eq=False)
class GoalState:
    """The current request, and earlier ones that were not finished."""

    objective: TaskObjective | None = None
    last_review: Review | None = None  # of the objective
    earlier: tuple[TaskObjective, ...] = ()  # requests left before they were done


def is_outdated(state: AgentState, review: Review) -> bool:
    """Whether files changed by undo, redo or rewind since this review, so that it no longer
    describes them.
    """
    objective, last = state.objective, state.last_review
    if objective is not None and last is not None and last.review_id == review.review_id:
        return objective.reopened
    return not set(review.calls).isdisjoint(state.undone_calls)


class ObjectiveChanged(Event, kind="objective"):
    """The objective was opened, continued, or closed (None). Requirements are never lost: only the
    user waives one, and an unfinished objective is kept as an earlier one until the user returns
    to it.
    """

    objective: TaskObjective | None

    def apply(self, state: AgentState) -> None:
        old, new = state.objective, self.objective
        if old is not None and new is not None and old.objective_id == new.objective_id:
            kept = {item.requirement_id for item in new.extracted_requirements}
            lost = [r for r in old.extracted_requirements if r.requirement_id not in kept]
            if lost:
                raise StateError(f"requirement {lost[0].requirement_id} would be dropped")
        else:
            state.last_review = None
            state.earlier = _list_earlier(state, old, new)
        state.objective = new


class RequirementsFound(Event, kind="requirements_found"):
    """The model split the request into requirements; they are added to the existing ones."""

    objective_id: str
    items: tuple[RequirementItem, ...] = Field(min_length=1)

    def apply(self, state: AgentState) -> None:
        objective = _get_objective(state)
        if objective.objective_id != self.objective_id:
            raise StateError(f"objective {self.objective_id} is not the one in hand")
        items = (*objective.extracted_requirements, *self.items)
        if len({item.requirement_id for item in items}) != len(items):
            raise StateError("two requirements have the same id")
        if any(item.state is not RequirementState.OPEN for item in self.items):
            raise StateError("a new requirement is open")
        state.objective = objective.replace(extracted_requirements=items)


class RequirementEdited(Event, kind="requirement_edited"):
    """The user added or rewrote a requirement; its earlier evidence no longer counts."""

    item: RequirementItem

    def apply(self, state: AgentState) -> None:
        objective = _get_objective(state)
        old = objective.get_requirement(self.item.requirement_id)
        same = old is not None and (old.requirement, old.check) == (
            self.item.requirement,
            self.item.check,
        )
        by_user = old.by_user if old is not None and same else True
        new = self.item.replace(by_user=by_user)
        if old is None:
            items = (*objective.extracted_requirements, new)
            state.objective = objective.replace(extracted_requirements=items)
            return
        if not same:
            new = new.replace(state=RequirementState.OPEN, satisfaction_level=0.0, evidence=())
        state.objective = objective.with_requirement(new)


class RequirementWaived(Event, kind="requirement_waived"):
    """The user waived a requirement, or took that back."""

    requirement_id: str
    because: str = ""
    waived: bool = True

    def apply(self, state: AgentState) -> None:
        objective = _get_objective(state)
        item = objective.get_requirement(self.requirement_id)
        if item is None:
            raise StateError(f"there is no requirement {self.requirement_id}")
        new = RequirementState.WAIVED if self.waived else RequirementState.OPEN
        state.objective = objective.with_requirement(
            item.replace(state=new, waived_because=self.because)
        )


class RequirementTicked(Event, kind="requirement_ticked"):
    """A check turned green or red by the work's own commands; provisional until the review."""

    requirement_id: str
    met: bool
    evidence: tuple[Evidence, ...] = ()

    def apply(self, state: AgentState) -> None:
        objective = _get_objective(state)
        item = objective.get_requirement(self.requirement_id)
        if item is None or not item.is_counted:
            raise StateError(f"requirement {self.requirement_id} does not count")
        new = RequirementState.MET if self.met else RequirementState.OPEN
        state.objective = objective.with_requirement(
            item.replace(
                state=new,
                satisfaction_level=1.0 if self.met else 0.0,
                evidence=self.evidence,
                provisional=self.met,
            )
        )


class ObjectiveReviewed(Event, kind="objective_reviewed"):
    """An attempt was judged. Only state, level and evidence of the requirements change."""

    message: ReviewMessage
    result: AttemptResult

    def apply(self, state: AgentState) -> None:
        objective = _get_objective(state)
        review = self.message.review
        for judged in review.items:
            item = objective.get_requirement(judged.requirement_id)
            if item is None or not item.is_counted:
                continue  # the user changed the ledger while it was judged
            if (item.requirement, item.check) != (judged.requirement, judged.check):
                continue
            verdict = item.with_verdict(judged).replace(provisional=False)
            objective = objective.with_requirement(verdict)
        learned = (*objective.learned_constraints, *self.result.lessons_learned)
        tried = (*objective.attempted_strategies, self.result.execution_plan.strategy)
        state.objective = objective.replace(
            iteration_count=objective.iteration_count + 1,
            current_satisfaction=review.score,
            reopened=False,
            stands=(),
            attempts=(*objective.attempts, self.result),
            accumulated_results=(*objective.accumulated_results, *self.result.results),
            learned_constraints=tuple(dict.fromkeys(learned)),
            attempted_strategies=tuple(dict.fromkeys(s for s in tried if s)),
        )
        state.last_review = review
        state.plans = tuple(
            plan.replace(review_failed=not review.done) if plan.plan_id == review.plan_id else plan
            for plan in state.plans
        )
        state.messages.append(self.message)


class AttemptStarted(Event, kind="attempt_started"):
    """A further attempt at the objective started within the turn."""

    message: AttemptMessage

    def apply(self, state: AgentState) -> None:
        if state.turn is None:
            raise StateError("no turn runs")
        state.turn = state.turn.replace(
            attempt=self.message.attempt, max_attempts=self.message.max_attempts, loop=0
        )
        state.messages.append(self.message)


def _list_earlier(
    state: AgentState, old: TaskObjective | None, new: TaskObjective | None
) -> tuple[TaskObjective, ...]:
    """Return the unfinished earlier requests after ``new`` replaced ``old``."""
    rest = tuple(o for o in state.earlier if new is None or o.objective_id != new.objective_id)
    if new is not None and len(rest) < len(state.earlier):  # again, in the place of one just opened
        words = {r.requirement for r in new.extracted_requirements}
        lost = [r for r in old.extracted_requirements if r.requirement not in words] if old else []
        if lost:
            raise StateError(f"requirement {lost[0].requirement_id} would be dropped")
        return rest
    last = state.last_turn
    if old is None or last is None or (last.outcome in ENDED_WELL and not old.reopened):
        return rest
    return (*rest, old.replace(left="partial" if last.outcome in ENDED_WELL else last.outcome))


def _get_objective(state: AgentState) -> TaskObjective:
    """Return the current objective. Raises StateError without one."""
    if state.objective is None:
        raise StateError("there is no objective")
    return state.objective
