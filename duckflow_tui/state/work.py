"""The hierarchy of work: Plan › Step › Task (S2), Objective › Requirement › Attempt (S1)."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from duckflow_tui.state.base import Frozen, JsonObject
from duckflow_tui.state.decision import TaskProfile


class WorkStatus(StrEnum):
    """Status of a task or a step: the four of S2-12, S2-13 and three more (C36)."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class PlanStatus(StrEnum):
    """Status of a plan (S2-14)."""

    DRAFT = "draft"
    APPROVED = "approved"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class Task(Frozen):
    """One operation inside a step (S2-12)."""

    task_id: str
    operation: str
    args: JsonObject = Field(default_factory=dict)
    description: str = ""
    status: WorkStatus = WorkStatus.PENDING
    result: str | None = None


class Step(Frozen):
    """One step of a plan (S2-13); ``depends_on`` holds step ids."""

    step_id: str
    name: str
    description: str = ""
    status: WorkStatus = WorkStatus.PENDING
    depends_on: tuple[str, ...] = ()
    task_list: tuple[Task, ...] = ()


class Plan(Frozen):
    """A plan the user can see, change and approve (S2-14)."""

    plan_id: str
    name: str
    goal: str
    status: PlanStatus = PlanStatus.DRAFT
    steps: tuple[Step, ...] = ()
    risk: Literal["low", "medium", "high"] = "low"
    success_criteria: tuple[str, ...] = ()

    @property
    def progress(self) -> tuple[int, int]:
        """Steps completed, steps in all."""
        done = sum(step.status is WorkStatus.COMPLETED for step in self.steps)
        return done, len(self.steps)


class ExecutionPlan(Frozen):
    """What one attempt means to do, and what it must keep to and avoid (S1-22, S1-25)."""

    strategy: str = ""
    plan_id: str = ""
    constraints: tuple[str, ...] = ()
    avoid_strategies: tuple[str, ...] = ()


class ExecutionError(Frozen):
    """An operation that could not do its work."""

    operation: str
    message: str
    call_id: str = ""


class PartialResult(Frozen):
    """Something an attempt did reach, though not all of it."""

    description: str
    evidence: tuple[str, ...] = ()


class ExecutionResult(Frozen):
    """What one attempt's operations gave."""

    succeeded: int = Field(default=0, ge=0)
    failed: int = Field(default=0, ge=0)
    results: tuple[str, ...] = ()
    errors: tuple[ExecutionError, ...] = ()


class FailureAnalysis(Frozen):
    """Why an execution failed and what would mend it (S1-10)."""

    cause: str
    fix: str
    retryable: bool = False


class MissingItem(Frozen):
    """Something the answer still lacks; priority 1 high to 3 low."""

    what: str
    priority: int = Field(default=1, ge=1, le=3)


class MissingInfoAnalysis(Frozen):
    """What is missing, by priority, and what was learned on the way (S1-9)."""

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
    grade: Literal["good", "normal", "needs_work"] = "normal"
    quality_assessment: str = ""
    suggestions: tuple[str, ...] = ()
    verdict: Literal["approve", "fix", "reject"] = "fix"
    completion_recommendation: bool = False


class AttemptResult(Frozen):
    """One run at the objective and what it taught (S1-21)."""

    attempt_number: int = Field(ge=1)
    strategy: str = ""
    execution_plan: ExecutionPlan = ExecutionPlan()
    results: tuple[str, ...] = ()
    satisfaction_score: float = Field(default=0.0, ge=0.0, le=1.0)
    errors: tuple[ExecutionError, ...] = ()
    lessons_learned: tuple[str, ...] = ()


class ContinuationContext(Frozen):
    """What a further attempt starts from (S1-17…20)."""

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
    """What a planner may know about the place and its tools (S1-22)."""

    workspace_info: str = ""
    available_tools: tuple[str, ...] = ()


class RequirementItem(Frozen):
    """One thing the user asked for (S1-15); priority 1 high, 2 mid, 3 low."""

    requirement_id: str
    requirement: str
    satisfaction_level: float = Field(default=0.0, ge=0.0, le=1.0)
    evidence: tuple[str, ...] = ()
    priority: int = Field(default=1, ge=1, le=3)


class TaskObjective(Frozen):
    """What the user asked for, over all attempts (S1-12…14)."""

    objective_id: str
    original_query: str
    created_at: float  # seconds since the epoch
    extracted_requirements: tuple[RequirementItem, ...] = ()
    profile: TaskProfile | None = None
    iteration_count: int = Field(default=0, ge=0)
    max_iterations: int = Field(default=3, ge=1)
    current_satisfaction: float = Field(default=0.0, ge=0.0, le=1.0)
    accumulated_results: tuple[str, ...] = ()
    learned_constraints: tuple[str, ...] = ()
    attempted_strategies: tuple[str, ...] = ()


class UnderstandingResult(Frozen):
    """What the first node of an attempt leaves for the others (S1-22, S1-26)."""

    execution_plan: ExecutionPlan
    task_objective: TaskObjective
