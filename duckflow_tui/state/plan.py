"""Plans as values, Plan › Step › Task (S2), and pure functions on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Final, Literal, NamedTuple

from pydantic import Field

from duckflow_tui.state.base import (
    Frozen,
    InConversation,
    JsonObject,
    LocalizedText,
    ToldError,
    canonical_json,
    hash_data,
)
from duckflow_tui.state.decision import RequirementClaim


class WorkStatus(StrEnum):
    """Status of a task or a step: the four of S2-12, S2-13 and three more (C36)."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        """Whether it is not finished."""
        return self in (WorkStatus.PENDING, WorkStatus.IN_PROGRESS, WorkStatus.BLOCKED)

    @property
    def lets_others_start(self) -> bool:
        """Whether dependent steps may start: it is completed, or the user waived it."""
        return self in (WorkStatus.COMPLETED, WorkStatus.SKIPPED)


class PlanStatus(StrEnum):
    """The five of S2-14; REJECTED (C35); CANCELLED, replaced by another plan; CLOSED by the user,
    which can be reopened (S2-26); DELETED, no longer listed.
    """

    DRAFT = "draft"
    APPROVED = "approved"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    CLOSED = "closed"
    DELETED = "deleted"

    @property
    def may_run(self) -> bool:
        """Whether the plan is approved and has work left."""
        return self in (PlanStatus.APPROVED, PlanStatus.IN_PROGRESS)


class RunMode(StrEnum):
    """How an approved plan runs: all steps, or with a question after each."""

    ALL = "all"
    STEP = "step"


ExecutionMode = Literal["adaptive", "tasklist"]

#: Why none of a plan's steps begins: the user stopped it in this turn; wants something else first;
#: or has said nothing of it in this turn, and is asked. Empty: its steps may begin.
Halt = Literal["", "stopped", "wish", "waits"]


class Task(Frozen):
    """One operation inside a step (S2-12)."""

    task_id: str
    operation: str
    args: JsonObject = Field(default_factory=dict)
    description: str = ""
    status: WorkStatus = WorkStatus.PENDING
    result: str | None = None  # one line; the whole is in the conversation under ``call_id``
    call_id: str = ""  # of the call that ran it, empty before
    started_at: float | None = None  # seconds since the epoch
    duration_s: float = 0.0
    waited_s: float = 0.0  # seconds of a run that goes on in which the user was waited for


class Step(Frozen):
    """One step of a plan (S2-13); ``depends_on`` holds step ids."""

    step_id: str
    name: str
    description: str = ""
    status: WorkStatus = WorkStatus.PENDING
    depends_on: tuple[str, ...] = ()
    task_list: tuple[Task, ...] = ()
    note: str = ""  # what the last change of its status said
    taken: bool = False  # completed by the user's word, which shows nothing else
    mode: ExecutionMode | None = None  # how it runs or ran
    break_before: bool = False  # the user wants to be asked before it begins
    started_at: float | None = None  # of the run that goes on now, seconds since the epoch
    elapsed_s: float = 0.0  # of the runs that ended
    waited_s: float = 0.0  # seconds of all runs in which the user was waited for
    runs: int = 0
    calls: int = 0  # calls to models
    cost: float | None = None  # US dollars; None without a price

    @property
    def status_text(self) -> str:
        """The status in words for a model."""
        return f"{self.status.value} by the user's word" if self.taken else self.status.value


class Plan(Frozen):
    """A plan the user can see, change and approve (S2-14)."""

    plan_id: str
    name: str
    goal: str
    status: PlanStatus = PlanStatus.DRAFT
    steps: tuple[Step, ...] = ()
    risk: Literal["", "low", "medium", "high"] = ""  # empty: the model stated none
    success_criteria: tuple[str, ...] = ()
    version: int = Field(default=1, ge=1)  # counts the changes of what there is to do
    run: RunMode | None = None  # how the user approved it
    approved: str = ""  # fingerprint of what the user approved, empty for nothing
    halted: Halt = ""
    rejection: str = ""  # the user's reason
    review_failed: bool = False  # the newest review of its work found the request not met
    created_at: float = 0.0  # seconds since the epoch

    @property
    def is_done_but_not_met(self) -> bool:
        """Whether all steps are completed or waived although the request was judged as not met."""
        return self.status is PlanStatus.COMPLETED and self.review_failed

    @property
    def status_text(self) -> str:
        """The status in words for a model."""
        return f"{self.status}, review failed" if self.is_done_but_not_met else self.status.value

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of everything that says what is to be done; an approval is bound to it."""
        steps = [[s.step_id, s.name, s.description, list(s.depends_on)] for s in self.steps]
        said = [self.plan_id, self.name, self.goal, self.risk, list(self.success_criteria), steps]
        return hash_data(canonical_json(said))

    @property
    def may_go_on(self) -> bool:
        """Whether it is approved as it is now and has steps that are neither completed nor
        waived.
        """
        ran = (PlanStatus.FAILED, PlanStatus.COMPLETED)
        open_ = self.status.may_run or self.status in ran
        left = not all(step.status.lets_others_start for step in self.steps)
        return open_ and left and self.approved == self.fingerprint

    def get_step(self, step_id: str) -> Step | None:
        """The step of exactly that id."""
        return next((step for step in self.steps if step.step_id == step_id), None)

    def with_step(self, changed: Step) -> Plan:
        """Return the plan with the step of the same id replaced; the version stays."""
        steps = tuple(changed if s.step_id == changed.step_id else s for s in self.steps)
        return self.replace(steps=steps)

    @property
    def progress(self) -> tuple[int, int]:
        """The number of completed steps, and of all steps."""
        done = sum(step.status is WorkStatus.COMPLETED for step in self.steps)
        return done, len(self.steps)


class PlanEdit(Frozen):
    """One change of a plan's steps, by the user's key or proposed by the model."""

    op: Literal["add", "change", "drop", "move"]
    step_id: str = ""  # of the step that is changed, dropped or moved; of a new one, if it has one
    after: str | None = None  # add, move: the step it follows; empty: first; None: last
    name: str | None = None  # None leaves it as it is
    description: str | None = None
    depends_on: tuple[str, ...] | None = None


class PlanChange(Frozen):
    """A change of an approved plan that waits for the user; ``base`` is the fingerprint of the plan
    it was made for.
    """

    change_id: str
    plan_id: str
    base: str
    edits: tuple[PlanEdit, ...]
    result: Plan  # the plan as it would be
    reason: str = ""  # the model's words
    requirements: tuple[RequirementClaim, ...] | None = None  # it adds; None: it does not say
    waives: dict[str, str] = Field(default_factory=dict)  # id of a requirement → its words


class StepReport(Frozen):
    """The report on a step: counts are computed, words are the model's (S2-20, S2-23)."""

    report_id: str
    plan_id: str
    step_id: str
    step_name: str
    status: Literal["completed", "partial", "failed", "stopped"]
    summary: str = ""
    cause: str = ""
    told: LocalizedText | None = None  # the cause in the app's own words, where no model worded it
    next_action: str = ""
    succeeded: int = Field(default=0, ge=0)  # operations
    failed: int = Field(default=0, ge=0)
    refused: int = Field(default=0, ge=0)  # by the user or the policy
    skipped: int = Field(default=0, ge=0)
    llm_calls: int = Field(default=0, ge=0)
    duration_s: float = 0.0  # of work
    waited_s: float = 0.0  # beside it, for the user
    files_changed: tuple[str, ...] = ()

    def is_repeated_in(self, text: str) -> bool:
        """Whether this text contains the summary."""
        said = " ".join(self.summary.split())
        return bool(said) and said in " ".join(text.split())


class WorkInfo(Frozen):
    """The running work on a plan, one step after the other."""

    work_id: str
    plan_id: str
    step_id: str = ""
    mode: ExecutionMode = "adaptive"
    loop: int = Field(default=0, ge=0)  # decisions of an adaptive step, tasks of a list
    limit: int = Field(default=10, ge=1)
    started_at: float
    waited_s: float = 0.0  # seconds in which the user was waited for


REVISE: Final = "plan_tool.revise"  # the operation that changes a plan
SOFT_STEPS: Final = 7  # more than this gets a word (C24)
MAX_STEPS: Final = 300  # steps of a plan; what the screen is measured for
_DIGITS: Final = 9  # of a number that may mean a step


class PlanProblem(ToldError, ValueError):
    """An invalid plan or change of one. ``told`` is the text for the model, ``for_user`` for the
    screen; both are named ``plan.problem.<code>``.
    """

    def __init__(self, code: str, /, **params: str) -> None:
        super().__init__(f"plan.problem.{code}", **params)
        self.for_user = LocalizedText(key=f"plan.problem.{code}", params=params)


def check_steps(steps: Sequence[Step]) -> None:
    """Check a plan's steps. Raises PlanProblem for an empty plan, a duplicate id, an unknown or
    circular dependency.
    """
    if not steps:
        raise PlanProblem("no_steps")
    if len(steps) > MAX_STEPS:
        raise PlanProblem("many_steps", count=str(len(steps)), most=str(MAX_STEPS))
    ids = [step.step_id for step in steps]
    known = set(ids)
    if len(known) < len(ids):
        raise PlanProblem("same_id")
    for step in steps:
        if not step.name.strip():
            raise PlanProblem("no_name")
        for need in step.depends_on:
            if need not in known:
                raise PlanProblem("no_such_need", step=step.name, need=need)
    if circle := _find_cycle(steps):
        names = {step.step_id: step.name for step in steps}
        raise PlanProblem("circle", steps=" → ".join(names[i] for i in circle))


def _find_cycle(steps: Sequence[Step]) -> list[str]:
    """Return the ids of a dependency cycle, the first repeated at the end; empty where there is
    none.
    """
    try:
        TopologicalSorter({step.step_id: step.depends_on for step in steps}).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]  # each is needed by the one behind it
        return found[::-1]
    return []


def list_blockers(plan: Plan, step: Step) -> tuple[Step, ...]:
    """Return the unfinished steps that this step depends on, in the plan's order."""
    needs = set(step.depends_on)
    return tuple(s for s in plan.steps if s.step_id in needs and not s.status.lets_others_start)


def list_ready_steps(plan: Plan) -> tuple[Step, ...]:
    """Return the steps that may start now, in the plan's order."""
    done = {s.step_id for s in plan.steps if s.status.lets_others_start}
    return tuple(
        s for s in plan.steps if s.status is WorkStatus.PENDING and done.issuperset(s.depends_on)
    )


def derive_end_status(plan: Plan) -> PlanStatus | None:
    """Return the final status of a plan in which no step can run; None while one can.

    COMPLETED where every step is completed or waived; FAILED where none runs, is stopped or can
    start.
    """
    if all(s.status.lets_others_start for s in plan.steps):
        return PlanStatus.COMPLETED
    goes_on = (WorkStatus.IN_PROGRESS, WorkStatus.CANCELLED)  # a stopped step may begin again
    if any(s.status in goes_on for s in plan.steps) or list_ready_steps(plan):
        return None
    return PlanStatus.FAILED


def find_step(plan: Plan, given: str) -> Step | None:
    """Find a step by its id, its number from 1, or its name; None where none fits."""
    wanted = given.strip()
    by_id = plan.get_step(wanted)
    if by_id is not None:
        return by_id
    number = wanted.lower().removeprefix("step").strip(" _#.")
    short = len(number) <= _DIGITS and number.isascii() and number.isdigit()
    if short and 1 <= int(number) <= len(plan.steps):
        return plan.steps[int(number) - 1]
    same = [s for s in plan.steps if s.name.casefold() == wanted.casefold()]
    return same[0] if len(same) == 1 else None


def apply_edits(plan: Plan, edits: Iterable[PlanEdit]) -> Plan:
    """Return the plan after the edits, with the next version. Raises PlanProblem where one is
    impossible.

    Each ``add`` must carry the new step's id. A step that has started can be moved, but neither
    dropped nor changed.
    """
    steps = list(plan.steps)
    for edit in edits:
        if edit.op == "add":
            added = Step(
                step_id=edit.step_id,
                name=edit.name or "",
                description=edit.description or "",
                depends_on=edit.depends_on or (),
            )
            steps.insert(_insertion_index(steps, edit.after), added)
            continue
        at = _index_of(steps, edit.step_id)
        old = steps[at]
        if edit.op == "move":
            del steps[at]
            steps.insert(_insertion_index(steps, edit.after), old)
            continue
        if old.status not in (WorkStatus.PENDING, WorkStatus.FAILED, WorkStatus.BLOCKED):
            raise PlanProblem("has_begun", step=old.name)
        if edit.op == "drop":
            users = [s.name for s in steps if old.step_id in s.depends_on]
            del steps[at]
            if users:
                raise PlanProblem("is_needed", step=old.name, by=", ".join(users))
        else:
            words = {"name", "description", "depends_on"}
            said = edit.model_dump(include=words, exclude_none=True)
            steps[at] = old.replace(**said)
    check_steps(steps)
    return plan.replace(steps=tuple(steps), version=plan.version + 1)


def _index_of(steps: Sequence[Step], step_id: str) -> int:
    """The index of a step. Raises PlanProblem ``no_step``."""
    for at, step in enumerate(steps):
        if step.step_id == step_id:
            return at
    raise PlanProblem("no_step", step=step_id)


def _insertion_index(steps: Sequence[Step], after: str | None) -> int:
    """Return the index behind the step ``after``; the end for None, 0 for an empty id. Raises
    PlanProblem ``no_step``.
    """
    if after is None:
        return len(steps)
    return _index_of(steps, after) + 1 if after else 0


class StepDifference(NamedTuple):
    """One line of the difference of two plans."""

    kind: str  # same, add, drop, change, move
    step: Step  # as it will be; as it was, for a drop
    number: int  # its place, counted from 1, in the plan that has it
    before: Step | None = None  # as it was, for a change


def compare_plans(old: Plan, new: Plan) -> tuple[StepDifference, ...]:
    """The effect of a change on each step, in the new order, dropped steps in their old places."""
    was = {step.step_id: step for step in old.steps}
    stays = [s.step_id for s in old.steps if new.get_step(s.step_id) is not None]
    now = [s.step_id for s in new.steps if s.step_id in was]
    moved = _find_moved_steps(stays, now)
    lines: list[StepDifference] = []
    for number, step in enumerate(new.steps, start=1):
        before = was.get(step.step_id)
        if before is None:
            lines.append(StepDifference("add", step, number))
        elif _get_content(before) != _get_content(step):
            lines.append(StepDifference("change", step, number, before))
        else:
            kind = "move" if step.step_id in moved else "same"
            lines.append(StepDifference(kind, step, number))
    for number, step in enumerate(old.steps, start=1):
        if new.get_step(step.step_id) is None:
            place = next(
                (
                    at + 1
                    for at in range(len(lines) - 1, -1, -1)
                    if lines[at].step.step_id in {s.step_id for s in old.steps[: number - 1]}
                ),
                0,
            )
            lines.insert(place, StepDifference("drop", step, number))
    return tuple(lines)


def _get_content(step: Step) -> tuple[str, str, tuple[str, ...]]:
    """Return what a step says is to be done, to compare steps by."""
    return step.name, step.description, step.depends_on


def _find_moved_steps(old: Sequence[str], new: Sequence[str]) -> set[str]:
    """Return the smallest set of steps whose move turns one order into the other."""
    place = {step_id: at for at, step_id in enumerate(old)}
    best: list[list[str]] = []  # longest ascending run that ends at each place
    for at, step_id in enumerate(new):
        longest: list[str] = []
        for run in best[:at]:
            if place[run[-1]] < place[step_id] and len(run) > len(longest):
                longest = run
        best.append([*longest, step_id])
    return set(new) - set(max(best, key=len)) if best else set()


class ReportMessage(InConversation):
    """How a step ended (S2-23)."""

    kind: Literal["report"] = "report"
    report: StepReport
    for_model: str = ""  # what the model is told, empty where a call's result says it
