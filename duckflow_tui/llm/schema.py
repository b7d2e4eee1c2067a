"""JSON schemas of what a model is asked for. Their property order is the order of writing:
rationale and reply come first, so that they can be read while the rest is still being written.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field

from duckflow_tui.llm.codec import DECIDE, wire_name
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.decision import MAX_ACTIONS, MAX_ALTERNATIVES, CheckKind, TaskProfile
from duckflow_tui.state.operations import OperationSpec

STEPS: Final = ("PLANNING", "EXECUTION", "REVIEW", "AWAITING_APPROVAL")

NEXT_STEPS: Final = ("continue", "done", "pending_user", "defer")

PATTERNS: Final = ("base_main", "base_main_specialized")


_TEXT: Final[JsonObject] = {"type": "string"}

_TEXTS: Final[JsonObject] = {"type": "array", "items": {"type": "string"}}

_CHECK: Final[JsonObject] = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "reason": _TEXT},
    "required": ["ok", "reason"],
}

_ALTERNATIVES: Final[JsonObject] = {
    "type": "array",
    "maxItems": MAX_ALTERNATIVES,
    "items": {"type": "object", "properties": {"label": _TEXT}, "required": ["label"]},
}

_AFTER_REPLY: Final[JsonObject] = {
    "goal_consistency": _CHECK,
    "constraint_check": _CHECK,
    "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    "task_profile": {"type": "string", "enum": [profile.value for profile in TaskProfile]},
    "requirements": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "requirement": _TEXT,
                "priority": {"type": "integer", "minimum": 1, "maximum": 3},
                "check": {
                    "type": "object",
                    "properties": {
                        "kind": {"type": "string", "enum": list(get_args(CheckKind))},
                        "value": _TEXT,
                    },
                    "required": ["kind"],
                },
            },
            "required": ["requirement"],
        },
    },
    "continues": {"type": "boolean"},
    "step": {"type": "string", "enum": list(STEPS)},
    "next_step": {"type": "string", "enum": list(NEXT_STEPS)},
    "prompt_pattern": {"type": "string", "enum": list(PATTERNS)},
    "state_delta": {
        "type": "object",
        "properties": {
            "goal": _TEXT,
            "why_now": _TEXT,
            "constraints": _TEXTS,
            "plan_brief": _TEXTS,
            "open_questions": _TEXTS,
            "context_refs": _TEXTS,
            "decision": _TEXT,
        },
    },
    "question": {
        "type": "object",
        "properties": {"text": _TEXT, "options": _TEXTS},
        "required": ["text"],
    },
}

JUDGEMENT: Final = (
    "rationale",
    "goal_consistency",
    "constraint_check",
    "step",
    "next_step",
    "prompt_pattern",
)


#: What a native call says about itself beside its arguments, and how it is called where an
#: operation has a parameter of that name.
EXTRAS: Final = ("reasoning", "intent", "alternatives")


def decision_schema(operations: tuple[OperationSpec, ...]) -> JsonObject:
    """The schema of a TurnDecision; the operations are named, their arguments are left open."""
    operation: JsonObject = dict(_TEXT)
    if operations:
        operation["enum"] = [spec.name for spec in operations]
    actions: JsonObject = {
        "type": "array",
        "maxItems": MAX_ACTIONS,
        "items": {
            "type": "object",
            "properties": {
                "operation": operation,
                "args": {"type": "object"},
                "reasoning": _TEXT,
                "intent": _TEXT,
                "alternatives": _ALTERNATIVES,
            },
            "required": ["operation", "args", "reasoning"],
        },
    }
    return {
        "type": "object",
        "properties": {"rationale": _TEXT, "reply": _TEXT, **_AFTER_REPLY, "actions": actions},
        "required": list(JUDGEMENT),
    }


def decide_function() -> JsonObject:
    """The function of the judgement, for native calls."""
    return {
        "type": "function",
        "function": {
            "name": DECIDE,
            "description": "Your judgement of this reply. Call it once, before all other calls.",
            "parameters": {
                "type": "object",
                "properties": {"rationale": _TEXT, **_AFTER_REPLY},
                "required": list(JUDGEMENT),
            },
        },
    }


def extra_name(spec: OperationSpec | None, extra: str) -> str:
    """How ``reasoning``, ``intent`` or ``alternatives`` is called on calls of this operation."""
    taken = _properties(spec.parameters) if spec is not None else {}
    name = extra
    while name in taken:
        name = f"call_{name}"
    return name


def operation_function(spec: OperationSpec) -> JsonObject:
    """An operation as a function, with ``reasoning``, ``intent`` and ``alternatives`` added."""
    reasoning, intent, alternatives = (extra_name(spec, extra) for extra in EXTRAS)
    own: JsonObject = {
        reasoning: {"type": "string", "description": "Why this call, in one sentence."},
        **_properties(spec.parameters),
        intent: {"type": "string", "description": "What it will have achieved."},
        alternatives: _ALTERNATIVES,
    }
    required = [reasoning, *cast("list[str]", spec.parameters.get("required") or [])]
    parameters = {**spec.parameters, "type": "object", "properties": own, "required": required}
    return {
        "type": "function",
        "function": {
            "name": wire_name(spec.name),
            "description": spec.summary,
            "parameters": parameters,
        },
    }


def _properties(schema: JsonObject) -> JsonObject:
    value: Any = schema.get("properties")
    return cast("JsonObject", value) if isinstance(value, dict) else {}


class Shape(BaseModel):
    """Base of a reply: missing fields are an error that the model may repair."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class PlanStep(Shape):
    """One step of a proposed plan."""

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
    """How a requirement can be checked."""

    kind: Literal["command", "file_exists", "file_contains", "judgement"]
    value: str


class ProposedRequirement(Shape):
    """One requirement split off a request."""

    requirement: str
    priority: Literal[1, 2, 3]
    check: RequirementCheck


class RequirementsReply(Shape):
    """Purpose ``requirements``."""

    requirements: list[ProposedRequirement]


Score = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class SatisfactionReply(Shape):
    """Purpose ``satisfaction``; scores 0.0 to 1.0."""

    overall_score: Score
    requirement_scores: dict[str, Score]
    evidence: dict[str, list[str]]
    missing_aspects: list[str]
    grade: Literal["good", "normal", "needs_work"]
    quality_assessment: str
    suggestions: list[str]
    verdict: Literal["approve", "fix", "reject"]
    completion_recommendation: bool


class MissingEntry(Shape):
    """Something that is missing."""

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
