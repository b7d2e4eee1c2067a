"""The replies to the questions that are no decisions, each the form that its prompt file shows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from duckflow_tui.state.base import JsonObject


class Shape(BaseModel):
    """Base of a reply: missing fields are an error that the model may repair."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class PlanStep(Shape):
    id: str
    name: str
    description: str
    depends_on: list[str] = Field(default_factory=list[str])


class PlanReply(Shape):
    """Purpose ``plan``."""

    name: str
    goal: str
    steps: list[PlanStep] = Field(min_length=1)
    risk: Literal["low", "medium", "high"]
    success_criteria: list[str]


class ContinuationReply(PlanReply):
    """Purpose ``continuation``: another plan, and how it differs."""

    strategy: str


class ProposedTask(Shape):
    """One operation of a task list; ``depends_on`` holds ids of tasks of the same list.

    A value of ``args`` may be ``{"from_task": id, "field": "a.b"}``: what that task gave (C2).
    """

    id: str = ""
    operation: str
    args: JsonObject
    description: str
    depends_on: list[str] = Field(default_factory=list[str])


class TasksReply(Shape):
    """Purpose ``tasks``."""

    tasks: list[ProposedTask]


class ReportReply(Shape):
    """Purpose ``report``."""

    status: Literal["completed", "partial", "failed"]
    summary: str
    cause: str
    next_action: str


class RequirementCheck(Shape):
    kind: Literal["command", "file_exists", "file_contains", "judgement"]
    value: str


class ProposedRequirement(Shape):
    requirement: str
    priority: Literal[1, 2, 3]
    check: RequirementCheck


class RequirementsReply(Shape):
    """Purpose ``requirements``; ``dropped`` and ``again`` are ids, where there is a ledger."""

    requirements: list[ProposedRequirement]
    dropped: list[str] = Field(default_factory=list[str])
    again: list[str] = Field(default_factory=list[str])


Score = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class SatisfactionReply(Shape):
    """Purpose ``satisfaction``; scores 0.0 to 1.0. A score that is not there is asked for."""

    overall_score: Score | None = None
    requirement_scores: dict[str, Score] = Field(default_factory=dict[str, float])
    evidence: dict[str, list[str] | str] = Field(default_factory=dict[str, list[str] | str])
    missing_aspects: list[str] | str = Field(default_factory=list[str])
    grade: Literal["good", "normal", "needs_work"] = "normal"
    quality_assessment: str = ""
    suggestions: list[str] | str = Field(default_factory=list[str])
    verdict: Literal["approve", "fix", "reject"] = "fix"
    completion_recommendation: bool | None = None


class MissingEntry(Shape):
    what: str
    priority: Literal[1, 2, 3]


class MissingReply(Shape):
    """Purpose ``missing``."""

    missing: list[MissingEntry]
    constraints: list[str]
    suggested_improvements: list[str]
    alternative_strategies: list[str]


class FailureReply(Shape):
    """Purpose ``failure``."""

    cause: str
    fix: str
    retryable: bool


class DigestReply(Shape):
    """Purpose ``digest``."""

    digest: str
