"""The replies to the questions that are no decisions, each the form that its prompt file shows."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from duckflow_tui.state.base import JsonObject

#: A number, of a hundred or of another whole where it says so.
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(?:(%)|/\s*([1-9]\d*))?")


class Shape(BaseModel):
    """Base of a reply: missing fields are an error that the model may repair."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _names(cls, given: Any) -> Any:
        """``Overall_Score`` and ``overallScore`` are ``overall_score``; null is not there."""
        if not isinstance(given, dict):
            return given
        named: dict[str, Any] = {}
        for name, value in cast("dict[str, Any]", given).items():
            if value is not None:
                known = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(name).strip()).lower()
                named.setdefault(known, value)
        return cls._understood(named)

    @classmethod
    def _understood(cls, said: dict[str, Any]) -> dict[str, Any]:
        """The reply with its values in the form of the fields, where it wrote them otherwise."""
        return said


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
    """Purpose ``requirements``; ``dropped`` and ``again`` are ids, where there is a ledger:
    ``dropped`` with the user's words that drop it.
    """

    requirements: list[ProposedRequirement]
    dropped: dict[str, str] = Field(default_factory=dict[str, str])
    again: list[str] = Field(default_factory=list[str])

    @classmethod
    def _understood(cls, said: dict[str, Any]) -> dict[str, Any]:
        """An id without words stands in a list; it names none."""
        given = said.get("dropped")
        if isinstance(given, list):
            said["dropped"] = dict.fromkeys(map(str, cast("list[Any]", given)), "")
        return said


Score = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class SatisfactionReply(Shape):
    """Purpose ``satisfaction``; scores 0.0 to 1.0. A score that is not there, or is no score, is
    asked for; only what decides has to be readable.
    """

    overall_score: Score | None = None
    requirement_scores: dict[str, Score] = Field(default_factory=dict[str, float])
    evidence: dict[str, list[str] | str] = Field(default_factory=dict[str, list[str] | str])
    missing_aspects: list[str] | str = Field(default_factory=list[str])
    grade: Literal["good", "normal", "needs_work"] = "normal"
    quality_assessment: str = ""
    suggestions: list[str] | str = Field(default_factory=list[str])
    verdict: Literal["approve", "fix", "reject"] = "fix"
    completion_recommendation: bool | None = None

    @classmethod
    def _understood(cls, said: dict[str, Any]) -> dict[str, Any]:
        """Scores, words and ids as a judge writes them, where they can mean one thing only."""
        if "overall_score" in said:
            said["overall_score"] = _score(said["overall_score"])
        for name in ("requirement_scores", "evidence"):
            values = said.get(name)
            said[name] = found = dict[str, Any]()
            if isinstance(values, dict):
                for key, value in cast("dict[str, Any]", values).items():
                    value = value if name == "evidence" else _score(value)
                    if value is not None:
                        found[str(key).strip().lower()] = value
        for name in ("grade", "verdict"):
            word = str(said.get(name, "")).strip().casefold().replace(" ", "_")
            for known in get_args(cls.model_fields[name].annotation):
                if word.startswith(known):  # "Approved"
                    said[name] = known
        words = {"true": True, "yes": True, "false": False, "no": False}
        word = str(said.get("completion_recommendation", "")).strip().casefold()
        said["completion_recommendation"] = words.get(word)
        return said


def _score(given: object) -> float | None:
    """A score as a model writes it: 0.8, "0.8", 80, "80 %", "8/10". None for what is no score or
    may mean two things: 8 can be of ten or of a hundred.
    """
    found = None if isinstance(given, bool) else _NUMBER.fullmatch(str(given).strip())
    if found is None:
        return None
    value = float(found[1])
    if found[2] or found[3]:
        value /= float(found[3] or 100)
    elif value > 10:
        value /= 100
    return value if value <= 1 else None


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
