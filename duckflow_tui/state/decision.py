"""TurnDecision: one reply of the main model, as the rest of the program sees it (S4-57)."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from duckflow_tui.state.base import Frozen, JsonObject, canonical_json, digest
from duckflow_tui.state.phase import Phase

MAX_ACTIONS = 20  # actions in one reply; safety.md, "same failing call again"
MAX_ALTERNATIVES = 9  # the gate gives each a digit key


class NextStep(StrEnum):
    """What the model wants after its actions (S4-57)."""

    CONTINUE = "continue"
    DONE = "done"
    PENDING_USER = "pending_user"
    DEFER = "defer"


class PromptPattern(StrEnum):
    """Which layers the next request is built from (S4-72…75)."""

    BASE_MAIN = "base_main"
    BASE_MAIN_SPECIALIZED = "base_main_specialized"


class TaskProfile(StrEnum):
    """The nine kinds of request (S0-13…21)."""

    SIMPLE_QUESTION = "SIMPLE_QUESTION"
    CODE_ANALYSIS = "CODE_ANALYSIS"
    FILE_OPERATION = "FILE_OPERATION"
    COMPLEX_REASONING = "COMPLEX_REASONING"
    MULTI_STEP_TASK = "MULTI_STEP_TASK"
    GENERAL_CHAT = "GENERAL_CHAT"
    CREATIVE_WRITING = "CREATIVE_WRITING"
    DEBUGGING = "DEBUGGING"
    RESEARCH = "RESEARCH"


class Judgement(Frozen):
    """The model's own check of itself; ``ok`` is None when it did not say."""

    ok: bool | None = None
    reason: str = ""


class Action(Frozen):
    """A call the model asks for (S2-11). ``reasoning`` is mandatory (S4-3)."""

    call_id: str  # ours, unique in the session
    wire_id: str = ""  # the provider's id of a native call, sent back as it came
    operation: str
    args: JsonObject = Field(default_factory=dict)
    reasoning: str
    intent: str = ""
    alternatives: tuple[str, ...] = ()  # labels, at most MAX_ALTERNATIVES

    @property
    def args_hash(self) -> str:
        """SHA-256 over operation and arguments: what an approval is bound to."""
        return digest(canonical_json([self.operation, self.args]))


CheckKind = Literal["command", "file_exists", "file_contains", "judgement"]


class Check(Frozen):
    """How a requirement is decided.

    ``value``: of ``command`` the command line, of ``file_exists`` a path, of ``file_contains``
    ``path: text``, of ``judgement`` what to look at, or nothing.
    """

    kind: CheckKind = "judgement"
    value: str = ""


class RequirementClaim(Frozen):
    """A requirement as the model split it off the request; priority 1 high, 2 mid, 3 low."""

    requirement: str
    priority: int = Field(default=1, ge=1, le=3)
    check: Check = Check()


class Question(Frozen):
    """One question to the user, with answers to choose from when there are any."""

    text: str
    options: tuple[str, ...] = ()


class StateDelta(Frozen):
    """What the decision changes in the working memory; None leaves a field as it is."""

    goal: str | None = None
    why_now: str | None = None
    constraints: tuple[str, ...] | None = None
    plan_brief: tuple[str, ...] | None = None
    open_questions: tuple[str, ...] | None = None
    context_refs: tuple[str, ...] | None = None
    decision: str | None = None


class TurnDecision(Frozen):
    """One decision: the judgement, where to go, what to say, what to do."""

    decision_id: str
    rationale: str = ""
    reply: str = ""
    goal_consistency: Judgement = Judgement()
    constraint_check: Judgement = Judgement()
    confidence: float | None = Field(default=None, ge=0.0, le=1.0)
    task_profile: TaskProfile | None = None
    requirements: tuple[RequirementClaim, ...] = ()
    continues: bool | None = None  # whether the message goes on with the request before it
    step: Phase | None = None  # None: not stated, stay
    next_step: NextStep = NextStep.CONTINUE
    prompt_pattern: PromptPattern = PromptPattern.BASE_MAIN
    state_delta: StateDelta = StateDelta()
    question: Question | None = None
    actions: tuple[Action, ...] = ()

    @property
    def refused_by_itself(self) -> bool:
        """Whether the model's own check said no: its actions must not run (S4-59)."""
        return self.goal_consistency.ok is False or self.constraint_check.ok is False
