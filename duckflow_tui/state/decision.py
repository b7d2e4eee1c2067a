"""TurnDecision, one reply of the main model (S4-57).

These models are the schema that is sent to the model, and what the rest of the program sees;
``llm/decision_reading.py`` builds them from a reply.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final, Literal, cast, get_args

from pydantic import ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from duckflow_tui.state.base import Frozen, JsonObject, canonical_json, hash_data
from duckflow_tui.state.lenient import field_name, read_priority
from duckflow_tui.state.pace import TaskProfile
from duckflow_tui.state.phase import Phase

MAX_ACTIONS = 20  # actions in one reply; safety.md, "same failing call again"
MAX_ALTERNATIVES = 9  # the gate gives each a digit key


class NextStep(StrEnum):
    """How a turn continues after a decision's actions (S4-57)."""

    CONTINUE = "continue"
    DONE = "done"
    PENDING_USER = "pending_user"
    DEFER = "defer"


class PromptPattern(StrEnum):
    """Which layers the next request is built from (S4-72…75)."""

    BASE_MAIN = "base_main"
    BASE_MAIN_SPECIALIZED = "base_main_specialized"


CheckKind = Literal["command", "file_exists", "file_contains", "judgement"]

#: What models also call a kind of check. A file with a text behind its path is looked into.
_CHECK_KINDS: Final[dict[str, CheckKind]] = {
    **{kind: kind for kind in get_args(CheckKind)},
    **dict.fromkeys(("shell", "run", "cmd", "exec", "test", "exit_code"), "command"),
    **dict.fromkeys(("file", "exists", "path", "file_exist", "exist"), "file_exists"),
    **dict.fromkeys(
        ("contains", "content", "contents", "text", "grep", "file_contain", "file_content"),
        "file_contains",
    ),
    **dict.fromkeys(("judgment", "judge", "evaluation", "review", "manual"), "judgement"),
}
#: Where a decision may lead; the app sets the other phases itself.
STEPS: Final = (Phase.PLANNING, Phase.EXECUTION, Phase.REVIEW, Phase.AWAITING_APPROVAL)

CHECKS: Final = ("goal_consistency", "constraint_check")
#: Fields that every decision should state.
NEEDED: Final = ("rationale", "step", "next_step")
_NEEDED_OF_ACTION: Final = ("operation", "args", "reasoning")
_STEP: Final = WithJsonSchema({"type": "string", "enum": [phase.value for phase in STEPS]})
_LABELS: Final = WithJsonSchema(
    {
        "type": "array",
        "maxItems": MAX_ALTERNATIVES,
        "items": {
            "type": "object",
            "properties": {"label": {"type": "string"}},
            "required": ["label"],
        },
    }
)


class SelfCheck(Frozen):
    """A check that the model made of its own decision; ``ok`` is None where it did not say."""

    model_config = ConfigDict(json_schema_extra={"required": ["ok", "reason"]})

    ok: bool | None = None
    reason: str = ""


class Action(Frozen):
    """A call that the model asks for (S2-11). The schema requires ``reasoning`` (S4-3); where it is
    missing, that of the decision is used, if any.
    """

    model_config = ConfigDict(json_schema_extra={"required": [*_NEEDED_OF_ACTION]})

    call_id: SkipJsonSchema[str]  # ours, unique in the session
    wire_id: SkipJsonSchema[str] = ""  # the provider's id of a native call, sent back as it came
    for_user: SkipJsonSchema[bool] = False  # its decision says that the user has to approve it
    from_text: SkipJsonSchema[bool] = False  # the model wrote it as text, where calls were wanted
    operation: str
    args: JsonObject = Field(default_factory=dict)
    reasoning: str = Field(default="", description="Why this call, in one sentence.")
    intent: str = Field(default="", description="What it will have achieved.")
    alternatives: Annotated[tuple[str, ...], _LABELS] = ()

    @property
    def args_hash(self) -> str:
        """The SHA-256 of operation and arguments, to which an approval is bound."""
        return hash_data(canonical_json([self.operation, self.args]))


class Check(Frozen):
    """How it is decided whether a requirement is met.

    ``value`` is the command line for ``command``, a path for ``file_exists``, ``path: text`` for
    ``file_contains``, and for ``judgement`` a hint for the judge or nothing.
    """

    model_config = ConfigDict(json_schema_extra={"required": ["kind"]})

    kind: CheckKind = "judgement"
    value: str = ""


class RequirementClaim(Frozen):
    """A requirement as the model split it from the request; priority 1 (high) to 3 (low)."""

    requirement: str
    priority: int = Field(default=1, ge=1, le=3)
    check: Check = Check()


#: Names that models give to the fields of a requirement and of its check.
_TEXT_NAMES: Final = ("requirement", "text", "description", "title", "name", "what", "req")
_TEXT_NAMES_JA: Final = ("要件", "要求", "内容")
_PRIORITY_NAMES: Final = ("priority", "prio", "importance", "優先度")
_CHECK_NAMES: Final = ("check", "verification", "verify", "how_to_check", "確認", "検証")
_KIND_NAMES: Final = ("kind", "type", "method")
_VALUE_NAMES: Final = ("value", "command", "cmd", "path", "file", "target", "what", "description")


def read_requirement(item: object) -> RequirementClaim | None:
    """Read a requirement from a model's reply, an object or plain text; None where it has no text.
    Other unreadable fields get their defaults.
    """
    fields = _name_fields(item) or {"requirement": item}
    text = _pick_field(fields, (*_TEXT_NAMES, *_TEXT_NAMES_JA))
    if not isinstance(text, str) or not text.strip():
        return None
    priority = read_priority(_pick_field(fields, _PRIORITY_NAMES)) or 1
    check = _read_check(_pick_field(fields, _CHECK_NAMES))
    return RequirementClaim(requirement=text.strip(), priority=priority, check=check)


def _name_fields(given: object) -> JsonObject:
    """An object with its keys in snake case; empty for anything else."""
    fields = cast("JsonObject", given) if isinstance(given, dict) else {}
    return {field_name(key): value for key, value in fields.items()}


def _pick_field(fields: JsonObject, names: Sequence[str]) -> object:
    """Return the value of the first of these names that is present."""
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _read_check(value: object) -> Check:
    """Read a check; one that cannot be read becomes ``judgement``."""
    if isinstance(value, list) and value:
        value = cast("list[object]", value)[0]
    if value is None:
        return Check()
    if isinstance(value, str):  # "kind: value", or only what to look at
        named, _, what = value.partition(":")
        is_kind = field_name(named) in _CHECK_KINDS
        value = {"kind": named if is_kind else "judgement", "value": what if is_kind else value}
    fields = _name_fields(cast("object", value))
    name = field_name(_pick_field(fields, _KIND_NAMES) or "")
    if not name and (one := fields.keys() & _CHECK_KINDS.keys()):  # {"command": "pytest"}
        name = min(one)
        fields["value"] = fields[name]
    what = _pick_field(fields, _VALUE_NAMES)
    if isinstance(what, list):
        what = shlex.join(map(str, cast("list[object]", what)))
    words = what.strip() if isinstance(what, str) else ""
    kind = _CHECK_KINDS.get(name)
    part = _pick_field(fields, ("text", "contains", "content"))
    if kind == "file_contains" and ": " not in words and isinstance(part, str):
        words = f"{words}: {part}"
    if kind == "file_exists" and name != kind and ": " in words:
        kind = "file_contains"
    if kind is None or (kind != "judgement" and not words):
        return Check(value=words)  # what it names is what to look at
    return Check(kind=kind, value=words)


class Question(Frozen):
    """One question to the user, with answers to choose from when there are any."""

    text: str
    options: tuple[str, ...] = ()


class StateDelta(Frozen):
    """Changes of the working memory by a decision; None leaves a field unchanged."""

    goal: str | None = None
    why_now: str | None = None
    constraints: tuple[str, ...] | None = None
    plan_brief: tuple[str, ...] | None = None
    open_questions: tuple[str, ...] | None = None
    context_refs: tuple[str, ...] | None = None
    decision: str | None = None


class TurnDecision(Frozen):
    """One decision of the model: self-checks, next step, reply, actions.

    Its fields are in writing order: rationale and reply come first, so that they can be shown while
    the rest still arrives.
    """

    model_config = ConfigDict(json_schema_extra={"required": [*NEEDED]})

    decision_id: SkipJsonSchema[str]
    rationale: str = Field(default="", description="One line: why this is the right next thing.")
    reply: str = Field(
        default="", description="What the user is told, in Markdown and in their language."
    )
    goal_consistency: SelfCheck = Field(
        default=SelfCheck(), description="Whether this decision serves the goal."
    )
    constraint_check: SelfCheck = Field(
        default=SelfCheck(), description="Whether this decision keeps the constraints."
    )
    confidence: float | None = Field(
        default=None, ge=0.0, le=1.0, description="How sure it is that this way gets there."
    )
    task_profile: TaskProfile | None = Field(
        default=None, description="The kind of the request; in its first decision."
    )
    requirements: tuple[RequirementClaim, ...] = Field(
        default=(), description="What the user asked for, split; in the first decision."
    )
    continues: bool | None = Field(
        default=None, description="Whether the message goes on with the request before it."
    )
    step: Annotated[Phase | None, _STEP] = Field(
        default=None, description="Where the work is with this decision."
    )
    next_step: NextStep = Field(
        default=NextStep.CONTINUE, description="What comes after the actions."
    )
    prompt_pattern: PromptPattern = Field(
        default=PromptPattern.BASE_MAIN, description="What the next decision needs to be told."
    )
    state_delta: StateDelta = Field(
        default=StateDelta(), description="Changes of the working memory; a list replaces."
    )
    question: Question | None = Field(
        default=None, description="One question to the user; only with pending_user."
    )
    actions: tuple[Action, ...] = Field(
        default=(),
        description="Calls of operations, run in this order.",
        json_schema_extra={"maxItems": MAX_ACTIONS},
    )

    @property
    def offers_keys(self) -> bool:
        """Whether the decision waits for the user's choice among offered answers."""
        waits = self.next_step is NextStep.PENDING_USER or not self.actions
        return waits and self.question is not None and bool(self.question.options)

    @property
    def judged(self) -> bool:
        """Whether the model stated both of its self-checks."""
        return self.goal_consistency.ok is not None and self.constraint_check.ok is not None

    @property
    def refused_by_itself(self) -> bool:
        """Whether a self-check failed, so that its actions must not run (S4-59)."""
        return self.goal_consistency.ok is False or self.constraint_check.ok is False
