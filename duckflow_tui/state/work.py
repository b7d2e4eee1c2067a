"""The hierarchy of work: Plan › Step › Task (S2)."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from duckflow_tui.state.base import Frozen, JsonObject, Told, canonical_json, digest


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
        """Whether something is still to be done."""
        return self in (WorkStatus.PENDING, WorkStatus.IN_PROGRESS, WorkStatus.BLOCKED)

    @property
    def lets_others_start(self) -> bool:
        """Whether what depends on it may begin: it is done, or the user waived it."""
        return self in (WorkStatus.COMPLETED, WorkStatus.SKIPPED)


class PlanStatus(StrEnum):
    """Status of a plan: the five of S2-14, what the user's no makes of it (C35), and what their
    yes to another plan does.
    """

    DRAFT = "draft"
    APPROVED = "approved"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"

    @property
    def may_run(self) -> bool:
        """Whether the user's approval stands and work is left to do."""
        return self in (PlanStatus.APPROVED, PlanStatus.IN_PROGRESS)


class RunMode(StrEnum):
    """How an approved plan runs: to its end, or asking before each further step."""

    ALL = "all"
    STEP = "step"


ExecutionMode = Literal["adaptive", "tasklist"]


class Task(Frozen):
    """One operation inside a step (S2-12); ``depends_on`` holds task ids."""

    task_id: str
    operation: str
    args: JsonObject = Field(default_factory=dict)
    description: str = ""
    status: WorkStatus = WorkStatus.PENDING
    result: str | None = None  # one line; the whole is in the conversation under ``call_id``
    depends_on: tuple[str, ...] = ()
    call_id: str = ""  # of the call that ran it, empty before
    started_at: float | None = None  # seconds since the epoch
    duration_s: float = 0.0


class Step(Frozen):
    """One step of a plan (S2-13); ``depends_on`` holds step ids."""

    step_id: str
    name: str
    description: str = ""
    status: WorkStatus = WorkStatus.PENDING
    depends_on: tuple[str, ...] = ()
    task_list: tuple[Task, ...] = ()
    note: str = ""  # what the last change of its status said
    mode: ExecutionMode | None = None  # how it runs or ran
    break_before: bool = False  # the user wants to be asked before it begins
    started_at: float | None = None  # of the run that goes on now, seconds since the epoch
    elapsed_s: float = 0.0  # of the runs that ended
    runs: int = 0
    calls: int = 0  # calls to models
    cost: float | None = None  # US dollars; None without a price


class Plan(Frozen):
    """A plan the user can see, change and approve (S2-14)."""

    plan_id: str
    name: str
    goal: str
    status: PlanStatus = PlanStatus.DRAFT
    steps: tuple[Step, ...] = ()
    risk: Literal["low", "medium", "high"] = "low"
    success_criteria: tuple[str, ...] = ()
    version: int = Field(default=1, ge=1)  # counts the changes of what there is to do
    run: RunMode | None = None  # how the user approved it
    approved: str = ""  # fingerprint of what the user approved, empty for nothing
    rejection: str = ""  # the user's reason
    created_at: float = 0.0  # seconds since the epoch

    @property
    def fingerprint(self) -> str:
        """SHA-256 over what an approval is bound to: all that says what is to be done."""
        steps = [[s.step_id, s.name, s.description, list(s.depends_on)] for s in self.steps]
        said = [self.plan_id, self.name, self.goal, self.risk, list(self.success_criteria), steps]
        return digest(canonical_json(said))

    def step(self, step_id: str) -> Step | None:
        """The step of exactly that id."""
        return next((step for step in self.steps if step.step_id == step_id), None)

    def with_step(self, changed: Step) -> Plan:
        """The plan with one step replaced by id; the version stays."""
        steps = tuple(changed if s.step_id == changed.step_id else s for s in self.steps)
        return self.model_copy(update={"steps": steps})

    @property
    def progress(self) -> tuple[int, int]:
        """Steps completed, steps in all."""
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
    """A change of a plan that waits for the user's yes; ``base`` is the plan's fingerprint."""

    change_id: str
    plan_id: str
    base: str
    edits: tuple[PlanEdit, ...]
    result: Plan  # the plan as it would be
    reason: str = ""  # the model's words


class StepReport(Frozen):
    """What came of a step: counts are computed, words are the model's (S2-20, S2-23)."""

    report_id: str
    plan_id: str
    step_id: str
    step_name: str
    status: Literal["completed", "partial", "failed", "stopped"]
    summary: str = ""
    cause: str = ""
    told: Told | None = None  # the cause in the app's own words, where no model worded it
    next_action: str = ""
    succeeded: int = Field(default=0, ge=0)  # operations
    failed: int = Field(default=0, ge=0)
    refused: int = Field(default=0, ge=0)  # by the user or the policy
    skipped: int = Field(default=0, ge=0)
    llm_calls: int = Field(default=0, ge=0)
    duration_s: float = 0.0
    files_changed: tuple[str, ...] = ()


class WorkInfo(Frozen):
    """The work TaskLoop does now: one step of a plan, or a task list of a turn without a plan."""

    work_id: str
    plan_id: str = ""
    step_id: str = ""
    mode: ExecutionMode = "adaptive"
    loop: int = Field(default=0, ge=0)  # decisions of an adaptive step, tasks of a list
    limit: int = Field(default=10, ge=1)
    started_at: float
