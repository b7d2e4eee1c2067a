"""TurnDecision: one reply of the main model (S4-57). The models here are the schema that a model is
sent, the reader of what it wrote, and what the rest of the program sees.

Read from a journal or built by our own code, a value must be exact. While a reply is read, a
``Reading`` is the context of the validation, and the validators take what models write differently
where it can mean one thing only: a check as "yes: …", one item for a list, "365" for a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final, Literal, cast, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError, PydanticUseDefault

from duckflow_tui.state.base import Frozen, IdSource, JsonObject, canonical_json, hash_data
from duckflow_tui.state.foreign_calls import read_arguments, read_editor
from duckflow_tui.state.operations import OperationSpec, coerce_value, find_nearest_names
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

#: Where a decision may lead; the app sets the other phases itself.
STEPS: Final = (Phase.PLANNING, Phase.EXECUTION, Phase.REVIEW, Phase.AWAITING_APPROVAL)

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
_VERDICTS: Final = (
    (True, re.compile(r"\s*(?:yes|true|ok|はい|可|適合)(?![a-z])[\s:：、。,.\-–—]*", re.I)),
    (False, re.compile(r"\s*(?:no|false|いいえ|不可|不適合)(?![a-z])[\s:：、。,.\-–—]*", re.I)),
)
_CONFIDENCE_WORDS: Final = {"high": 0.9, "medium": 0.6, "low": 0.3}
_OURS: Final = frozenset(
    {"decision_id", "call_id", "wire_id", "for_user", "from_text"}
)  # what no model writes
CHECKS: Final = ("goal_consistency", "constraint_check")
#: Fields that every decision should state.
NEEDED: Final = ("rationale", "step", "next_step")
_NEEDED_OF_ACTION: Final = ("operation", "args", "reasoning")
#: How models also call what an action says.
_ALSO: Final = {"name": "operation", "tool": "operation", "arguments": "args"}


@dataclass(slots=True)
class Reading:
    """One reply on its way to a decision, and what reading it met.

    A *problem* is told to the model and keeps everything with side effects from running; a
    *warning* is only logged. ``operations`` are those of the request, by every name that a model
    may give them. ``parse`` reads the text of one JSON object, or raises ValueError with words
    for the model.
    """

    operations: Mapping[str, OperationSpec]
    ids: IdSource
    parse: Callable[[str], JsonObject]
    offered: Sequence[str] = ()  # names that a hint may give
    judged_before: tuple[SelfCheck, SelfCheck] | None = None  # by a reply that only judged
    why: str = field(default="", init=False)  # of the reply: the reason of a call that gives none
    problems: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])

    def decision(
        self, decision_id: str, written: JsonObject, *, stated: bool = True
    ) -> TurnDecision:
        """The decision of these fields; ``stated`` is false for a reply without a judgement. The
        rest of the reply tells ``step``, ``prompt_pattern`` and ``next_step`` where they cannot be
        read.
        """
        fields = self._known(written, TurnDecision)
        self.why = str(fields.get("rationale") or fields.get("reply") or self.why)
        if stated:
            self.warnings += [f"{name} is missing" for name in NEEDED if name not in fields]
        elif self.judged_before is not None:
            fields |= dict(zip(CHECKS, self.judged_before, strict=True))
        made = TurnDecision.model_validate({**fields, "decision_id": decision_id}, context=self)
        first = ""  # operation with an effect outside
        for action in reversed(made.actions):
            if self.operations[action.operation].has_side_effects:
                first = action.operation
        update: dict[str, object] = {}
        if made.step is Phase.AWAITING_APPROVAL:
            update["actions"] = tuple(action.replace(for_user=True) for action in made.actions)
        if made.step is None and first:
            update["step"] = Phase.EXECUTION
        at_work = update.get("step", made.step) in (Phase.EXECUTION, Phase.REVIEW)
        if str(fields.get("prompt_pattern")).strip().lower() != made.prompt_pattern and at_work:
            update["prompt_pattern"] = PromptPattern.BASE_MAIN_SPECIALIZED
        if str(fields.get("next_step")).strip().lower() != made.next_step:
            follows = NextStep.PENDING_USER if made.question else NextStep.DONE
            update["next_step"] = NextStep.CONTINUE if made.actions or self.problems else follows
        return made.replace(**update) if update else made

    def action(self, where: str, written: object, wire_id: str = "") -> Action | None:
        """One action; what makes it useless is a problem, and it is left out (S4-3, R16)."""
        if not isinstance(written, dict):
            self.problems.append(f"{where} must be an object")
            return None
        given = cast("JsonObject", written)
        for other, name in _ALSO.items():
            if given.get(name) is None and given.get(other) is not None:
                given = {**given, name: given[other]}
        fields = self._known(given, Action, f"{where}: ")
        name = fields.get("operation")
        if isinstance(name, str):
            called = name.strip()
            args: object = fields.get("args")
            if isinstance(args, dict):
                called = read_editor(called, cast("JsonObject", args))
            spec = self.operation(where, called)
            if spec is None:
                return None
            where = f"{where} ({spec.name})"
            fields["operation"] = spec.name
            own: JsonObject = spec.parameters.get("properties") or {}
            if "args" not in fields:  # they may stand beside it
                beside = {key: value for key, value in given.items() if key in own}
                if beside or not spec.parameters.get("required"):
                    fields["args"] = beside
            if isinstance(args := fields.get("args"), dict):
                given = cast("JsonObject", args)
                if called.lower() in spec.foreign.names:
                    given = spec.foreign.given | given
                fields["args"] = read_arguments(spec, given)
            if "args" in fields:
                fields["args"] = coerce_value(fields["args"], spec.parameters, self.parse)
        if "reasoning" not in fields and (why := fields.get("intent") or self.why):
            fields["reasoning"] = why
        wrong = [f"{name} is missing" for name in ("operation", "args") if name not in fields]
        if not wrong:
            ours = {"call_id": self.ids("call"), "wire_id": wire_id}
            try:
                return Action.model_validate({**fields, **ours}, context=self)
            except ValidationError as error:
                wrong = [f"{entry['loc'][0]} {entry['msg']}" for entry in error.errors()]
        self.problems.append(f"{where}: {'; '.join(wrong)}")
        return None

    def operation(self, where: str, name: str) -> OperationSpec | None:
        """The operation of that name; unknown is a problem, told with the closest names."""
        bare = name.replace("__", ".").removeprefix("functions.")
        for form in (name, name.lower(), bare.lower()):
            if spec := self.operations.get(form):
                return spec
        names = list(dict.fromkeys(spec.name for spec in self.operations.values()))
        same = [known for known in names if bare in (known, known.rpartition(".")[2])]
        if len(same) == 1:
            return self.operations[same[0]]
        near = find_nearest_names(name, self.offered or names)
        hint = f"; the closest are {', '.join(near)}" if near else ""
        if not near and self.offered:
            hint = f"; there are {', '.join(self.offered)}"
        if not names:
            hint = "; no operations are available in this request"
        self.problems.append(f"{where}: there is no operation {_quoted(name)}{hint}")
        return None

    def count_allowed(self, count: int) -> bool:
        """Whether a reply may have that many actions; more is a problem and none is read."""
        if count <= MAX_ACTIONS:
            return True
        self.problems.append(
            f"{count} actions in one reply, at most {MAX_ACTIONS} are allowed; send the first ones"
        )
        return False

    def left_out(self, words: str) -> PydanticUseDefault:
        """To be raised: a value that cannot be read is logged, and its field keeps the default."""
        self.warnings.append(words)
        return PydanticUseDefault()

    def _known(self, written: JsonObject, model: type[Frozen], where: str = "") -> JsonObject:
        """The fields that a model may write and that say something; the unknown are logged."""
        names = model.model_fields.keys() - _OURS
        unknown = sorted(written.keys() - names)
        self.warnings.extend(f"{where}unknown field {_quoted(name)}" for name in unknown)
        return {
            name: value
            for name, value in written.items()
            if name in names and value is not None and str(value).strip()
        }


def _reads(read: Callable[[object, str, Reading], object]) -> BeforeValidator:
    """A validator that makes of a written value what its field takes, while a reply is read."""

    def validate(value: object, info: ValidationInfo) -> object:
        reading: object = info.context
        if not isinstance(reading, Reading):
            return value
        return read(value, info.field_name or "", reading)

    return BeforeValidator(validate)


def _quoted(value: object) -> str:
    text = str(value)
    return f"“{text[:60]}…”" if len(text) > 60 else f"“{text}”"


def _text(value: object, name: str, reading: Reading) -> str:
    if isinstance(value, str):
        return value.strip()
    reading.warnings.append(f"{name} is not text, left out")
    return ""


def _items(value: object, name: str, reading: Reading) -> list[object]:
    """A list; one text stands for a list of one."""
    if isinstance(value, list):
        return cast("list[object]", value)
    if isinstance(value, str):
        return [value] if value.strip() else []
    if value is not None:
        reading.warnings.append(f"{name} is not a list, left out")
    return []


def _texts(value: object, name: str, reading: Reading) -> tuple[str, ...]:
    items = _items(value, name, reading)
    return tuple(item.strip() for item in items if isinstance(item, str) and item.strip())


def _flag(value: object, name: str, reading: Reading) -> bool:
    for said, pattern in _VERDICTS:
        if pattern.fullmatch(str(value)):
            return said
    raise reading.left_out(f"{name} {_quoted(value)} is neither true nor false")


def _choice(kind: type[StrEnum]) -> BeforeValidator:
    """A validator of a member of the enumeration, in any case."""

    def read(value: object, name: str, reading: Reading) -> StrEnum:
        wanted = str(value).strip().lower()
        for member in kind:
            if member.value.lower() == wanted:
                return member
        raise reading.left_out(f"{name} {_quoted(value)} is unknown, left as not stated")

    return _reads(read)


def _own_step(phase: Phase | None, info: ValidationInfo) -> Phase | None:
    if phase in (None, *STEPS) or not isinstance(reading := info.context, Reading):
        return phase
    reading.warnings.append(f"step {phase} is not for the model to set, left as it is")
    return None


def _judgement(value: object, name: str, reading: Reading) -> SelfCheck:
    """``{"ok", "reason"}``, or a yes or no as text with the reason behind it."""
    if isinstance(value, SelfCheck):
        return value
    ok, reason = value, None
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        ok, reason = fields.get("ok"), fields.get("reason")
    words = reason.strip() if isinstance(reason, str) else ""
    if isinstance(ok, str):
        for verdict, pattern in _VERDICTS:
            if match := pattern.match(ok):
                return SelfCheck(ok=verdict, reason=words or ok[match.end() :].strip())
        words = words or ok.strip()
    if ok is not None and not isinstance(ok, bool):
        reading.warnings.append(f"{name} is neither yes nor no")
        ok = None
    return SelfCheck(ok=ok, reason=words)


def _confidence(value: object, name: str, reading: Reading) -> float:
    """0 to 1; a text of a number, a percentage and three words are understood."""
    if isinstance(value, str):
        said = value.strip().lower()
        try:
            value = float(said.removesuffix("%")) / (100 if said.endswith("%") else 1)
        except ValueError:
            value = _CONFIDENCE_WORDS.get(said)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise reading.left_out(f"{name} is not a number")
    clamped = min(max(float(value), 0.0), 1.0)
    if clamped != value:
        reading.warnings.append(f"{name} {value:g} is outside 0 to 1, taken as {clamped:g}")
    return clamped


def _requirements(value: object, name: str, reading: Reading) -> list[RequirementClaim]:
    claims = (read_requirement(item, reading.warnings) for item in _items(value, name, reading))
    return [claim for claim in claims if claim is not None]


def read_requirement(item: object, warnings: list[str]) -> RequirementClaim | None:
    """Read one requirement of a model's reply: an object, or its text alone. None without a text;
    whatever else cannot be read gets its default and a sentence in ``warnings``.
    """
    fields = cast("JsonObject", item) if isinstance(item, dict) else {"requirement": item}
    text = fields.get("requirement")
    if not isinstance(text, str) or not text.strip():
        warnings.append("a requirement without text is left out")
        return None
    priority = fields.get("priority", 1)
    if isinstance(priority, str) and priority.strip().lstrip("Pp").isdecimal():
        priority = int(priority.strip().lstrip("Pp"))
    if isinstance(priority, bool) or not isinstance(priority, int):
        warnings.append("a priority is not 1, 2 or 3, taken as 1")
        priority = 1
    return RequirementClaim(
        requirement=text.strip(),
        priority=min(max(priority, 1), 3),
        check=_check(fields.get("check"), warnings),
    )


def _check(value: object, warnings: list[str]) -> Check:
    """How a requirement is decided; a check that cannot be read is left to judgement."""
    if value is None:
        return Check()
    if isinstance(value, str):  # "kind: value"
        named, _, what = value.partition(":")
        value = {"kind": named, "value": what} if what.strip() else {"kind": value}
    fields = cast("JsonObject", value) if isinstance(value, dict) else {}
    what = fields.get("value")
    words = what.strip() if isinstance(what, str) else ""
    name = str(fields.get("kind")).strip().lower().replace("-", "_").replace(" ", "_")
    kind = _CHECK_KINDS.get(name)
    if kind == "file_exists" and name != kind and ": " in words:
        kind = "file_contains"
    if kind is None or (kind != "judgement" and not words):
        warnings.append("a requirement's check cannot be read, left to judgement")
        return Check(value=words)  # what it names is what to look at
    return Check(kind=kind, value=words)


def _question(value: object, name: str, reading: Reading) -> Question:
    fields = cast("JsonObject", value) if isinstance(value, dict) else {"text": value}
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip():
        raise reading.left_out(f"{name} has no text, left out")
    options = _texts(fields.get("options"), f"{name}.options", reading)
    return Question(text=text.strip(), options=options)


def _reply(value: object, name: str, reading: Reading) -> str:
    if isinstance(value, str):
        return value
    reading.problems.append(f"{name} must be text")
    return ""


def _arguments(value: object, _name: str, reading: Reading) -> JsonObject:
    if isinstance(value, str):
        try:
            return reading.parse(value)
        except ValueError as error:
            words = f"must be an object; its text is {error}"
            raise PydanticCustomError("arguments", "{words}", {"words": words}) from error
    if isinstance(value, dict):
        return cast("JsonObject", value)
    raise PydanticCustomError("arguments", "must be an object")


def _labels(value: object, _name: str, reading: Reading) -> tuple[str, ...]:
    """The labels of alternatives, as many as the gate can show."""
    labels: list[str] = []
    for item in cast("list[object]", value) if isinstance(value, list) else [value]:
        label = cast("JsonObject", item).get("label") if isinstance(item, dict) else item
        if isinstance(label, str) and label.strip():
            labels.append(label.strip())
        else:
            reading.warnings.append("an alternative without a label is left out")
    if len(labels) > MAX_ALTERNATIVES:
        reading.warnings.append(f"{len(labels)} alternatives, {MAX_ALTERNATIVES} kept")
    return tuple(labels[:MAX_ALTERNATIVES])


def _delta(value: object, name: str, reading: Reading) -> JsonObject:
    if not isinstance(value, dict):
        raise reading.left_out(f"{name} is not an object, left out")
    fields = cast("JsonObject", value)
    known = StateDelta.model_fields.keys()
    unknown = sorted(fields.keys() - known)
    reading.warnings.extend(f"unknown field {_quoted(f'{name}.{field}')}" for field in unknown)
    return {key: fields[key] for key in known if fields.get(key) is not None}


def _actions(value: object, name: str, reading: Reading) -> tuple[Action, ...]:
    """The actions of a JSON reply; those of native calls come read."""
    if isinstance(value, tuple):
        return cast("tuple[Action, ...]", value)
    if isinstance(value, dict):
        value = [cast("JsonObject", value)]
    if not isinstance(value, list):
        reading.problems.append(f"{name} must be a list")
        return ()
    items = cast("list[object]", value)
    if not reading.count_allowed(len(items)):
        return ()
    read = [reading.action(f"action {at}", item) for at, item in enumerate(items, start=1)]
    return tuple(action for action in read if action is not None)


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

Text = Annotated[str, _reads(_text)]
Texts = Annotated[tuple[str, ...], _reads(_texts)]


class SelfCheck(Frozen):
    """The model's own check of itself; ``ok`` is None when it did not say."""

    model_config = ConfigDict(json_schema_extra={"required": ["ok", "reason"]})

    ok: bool | None = None
    reason: str = ""


class Action(Frozen):
    """A call the model asks for (S2-11). Its schema demands ``reasoning`` (S4-3); where a model
    gives none, that of the decision stands for it, or nothing.
    """

    model_config = ConfigDict(json_schema_extra={"required": [*_NEEDED_OF_ACTION]})

    call_id: SkipJsonSchema[str]  # ours, unique in the session
    wire_id: SkipJsonSchema[str] = ""  # the provider's id of a native call, sent back as it came
    for_user: SkipJsonSchema[bool] = False  # its decision says that the user has to approve it
    from_text: SkipJsonSchema[bool] = False  # the model wrote it as text, where calls were wanted
    operation: str
    args: Annotated[JsonObject, _reads(_arguments)] = Field(default_factory=dict)
    reasoning: Text = Field(default="", description="Why this call, in one sentence.")
    intent: Text = Field(default="", description="What it will have achieved.")
    alternatives: Annotated[tuple[str, ...], _reads(_labels), _LABELS] = ()

    @property
    def args_hash(self) -> str:
        """SHA-256 over operation and arguments: what an approval is bound to."""
        return hash_data(canonical_json([self.operation, self.args]))


class Check(Frozen):
    """How a requirement is decided.

    ``value``: of ``command`` the command line, of ``file_exists`` a path, of ``file_contains``
    ``path: text``, of ``judgement`` what to look at, or nothing.
    """

    model_config = ConfigDict(json_schema_extra={"required": ["kind"]})

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
    """Changes of the working memory by a decision; None leaves a field as it is."""

    goal: Text | None = None
    why_now: Text | None = None
    constraints: Texts | None = None
    plan_brief: Texts | None = None
    open_questions: Texts | None = None
    context_refs: Texts | None = None
    decision: Text | None = None


class TurnDecision(Frozen):
    """One decision: the judgement, where to go, what to say, what to do. In the order of writing:
    rationale and reply come first, so that they can be read while the rest is still being written.
    """

    model_config = ConfigDict(json_schema_extra={"required": [*NEEDED]})

    decision_id: SkipJsonSchema[str]
    rationale: Text = Field(default="", description="One line: why this is the right next thing.")
    reply: Annotated[str, _reads(_reply)] = Field(
        default="", description="What the user is told, in Markdown and in their language."
    )
    goal_consistency: Annotated[SelfCheck, _reads(_judgement)] = Field(
        default=SelfCheck(), description="Whether this decision serves the goal."
    )
    constraint_check: Annotated[SelfCheck, _reads(_judgement)] = Field(
        default=SelfCheck(), description="Whether this decision keeps the constraints."
    )
    confidence: Annotated[float | None, _reads(_confidence)] = Field(
        default=None, ge=0.0, le=1.0, description="How sure it is that this way gets there."
    )
    task_profile: Annotated[TaskProfile | None, _choice(TaskProfile)] = Field(
        default=None, description="The kind of the request; in its first decision."
    )
    requirements: Annotated[tuple[RequirementClaim, ...], _reads(_requirements)] = Field(
        default=(), description="What the user asked for, split; in the first decision."
    )
    continues: Annotated[bool | None, _reads(_flag)] = Field(
        default=None, description="Whether the message goes on with the request before it."
    )
    step: Annotated[Phase | None, AfterValidator(_own_step), _choice(Phase), _STEP] = Field(
        default=None, description="Where the work is with this decision."
    )
    next_step: Annotated[NextStep, _choice(NextStep)] = Field(
        default=NextStep.CONTINUE, description="What comes after the actions."
    )
    prompt_pattern: Annotated[PromptPattern, _choice(PromptPattern)] = Field(
        default=PromptPattern.BASE_MAIN, description="What the next decision needs to be told."
    )
    state_delta: Annotated[StateDelta, _reads(_delta)] = Field(
        default=StateDelta(), description="Changes of the working memory; a list replaces."
    )
    question: Annotated[Question | None, _reads(_question)] = Field(
        default=None, description="One question to the user; only with pending_user."
    )
    actions: Annotated[tuple[Action, ...], _reads(_actions)] = Field(
        default=(),
        description="Calls of operations, run in this order.",
        json_schema_extra={"maxItems": MAX_ACTIONS},
    )

    @property
    def offers_keys(self) -> bool:
        """Whether it asks the user with answers to choose from, and waits for one."""
        waits = self.next_step is NextStep.PENDING_USER or not self.actions
        return waits and self.question is not None and bool(self.question.options)

    @property
    def judged(self) -> bool:
        """Whether the model stated both of its checks."""
        return self.goal_consistency.ok is not None and self.constraint_check.ok is not None

    @property
    def refused_by_itself(self) -> bool:
        """Whether the model's own check said no: its actions must not run (S4-59)."""
        return self.goal_consistency.ok is False or self.constraint_check.ok is False
