"""Reads the decision in a model's reply. A value in another form than the schema's is accepted if
it has only one meaning: a check as "yes: …", one item for a list, "365" for a number.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple, cast

from pydantic import ValidationError

from duckflow_tui.llm.foreign_calls import (
    NEAREST,
    bare_name,
    name_fields,
    read_arguments,
    read_editor,
    read_statement,
)
from duckflow_tui.llm.patches import read_patch_call
from duckflow_tui.llm.reply_json import NotStrict, parse_object
from duckflow_tui.state.base import Frozen, IdSource, JsonObject, ModelText
from duckflow_tui.state.decision import (
    CHECKS,
    MAX_ACTIONS,
    MAX_ALTERNATIVES,
    NEEDED,
    STEPS,
    Action,
    NextStep,
    PromptPattern,
    Question,
    RequirementClaim,
    SelfCheck,
    StateDelta,
    TurnDecision,
    read_requirement,
)
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.pace import TaskProfile
from duckflow_tui.state.phase import Phase

_VERDICTS: Final = (
    (True, re.compile(r"\s*(?:yes|true|ok|はい|可|適合)(?![a-z])[\s:：、。,.\-–—]*", re.I)),
    (False, re.compile(r"\s*(?:no|false|いいえ|不可|不適合)(?![a-z])[\s:：、。,.\-–—]*", re.I)),
)
_CONFIDENCE_WORDS: Final = {"high": 0.9, "medium": 0.6, "low": 0.3}
_OURS: Final = frozenset(
    {"decision_id", "call_id", "wire_id", "for_user", "from_text"}
)  # fields that models do not write


DECIDE: Final = "decide"  # the function that carries the judgement
OTHER: Final = "operation"  # calls an operation without its own function
#: What a reply says about each of its calls beside the arguments.
EXTRAS: Final = ("reasoning", "intent", "alternatives")


class WrittenCall(NamedTuple):
    """A call as a model wrote it: ``fields`` hold its name and arguments in any form. ``where``
    names it in messages to the model; ``wire_id`` is the provider's id.
    """

    where: str
    fields: object
    wire_id: str = ""


@dataclass(slots=True)
class Reading:
    """Reads one reply and collects what is wrong with it.

    A *problem* is sent to the model and prevents calls with side effects; a *warning* is only
    logged. ``operations`` maps every accepted name to an operation of the request.
    """

    operations: Mapping[str, OperationSpec]
    ids: IdSource
    offered: Sequence[str] = ()  # names that a hint may give
    judged_before: tuple[SelfCheck, SelfCheck] | None = None  # by a reply that only judged
    why: str = field(default="", init=False)  # the reply's reason, for calls without their own
    problems: list[ModelText] = field(default_factory=list[ModelText])
    warnings: list[str] = field(default_factory=list[str])

    def decision(
        self,
        decision_id: str,
        written: JsonObject,
        calls: Sequence[WrittenCall] = (),
        *,
        stated: bool = True,
    ) -> TurnDecision:
        """Build the decision from the fields of a reply and its calls. ``stated`` is False if
        ``written`` is not a judgement; one of the calls may then contain it. Missing or
        unreadable ``step``, ``prompt_pattern`` and ``next_step`` are derived from the rest of
        the reply.
        """
        written = {**written}
        calls = [*self._list_actions(written.pop("actions", None)), *calls]
        calls, judgement = self._take_statements(calls, written)
        stated = stated or judgement
        fields = self._known(written, TurnDecision)
        self.why = str(fields.get("rationale") or self.why or fields.get("reply") or "")
        if stated:
            self.warnings += [f"{name} is missing" for name in NEEDED if name not in fields]
        elif self.judged_before is not None:
            fields |= dict(zip(CHECKS, self.judged_before, strict=True))
        read = self._read_fields(fields, _DECISION)
        if "reply" in fields.keys() - read.keys():
            self._add_problem("no_text", field="reply")
        if self.count_allowed(len(calls)):
            found = [self.action(*call) for call in calls]
            read["actions"] = tuple(action for action in found if action is not None)
        made = TurnDecision.model_validate({**read, "decision_id": decision_id})
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

    def _list_actions(self, actions: object) -> list[WrittenCall]:
        """Return the calls in the field ``actions``; a single object counts as a list of one."""
        if isinstance(actions, dict):
            actions = [cast("JsonObject", actions)]
        if actions and not isinstance(actions, list):
            self._add_problem("no_list", field="actions")
        items = cast("list[object]", actions) if isinstance(actions, list) else []
        return [WrittenCall(f"action {at}", item) for at, item in enumerate(items, start=1)]

    def _take_statements(
        self, calls: Sequence[WrittenCall], written: JsonObject
    ) -> tuple[list[WrittenCall], bool]:
        """Separate statements from calls: return the calls of operations, with a patch split by
        file, and whether a judgement was among them. Judgement and statements are merged into
        ``written``.
        """
        kept: list[WrittenCall] = []
        judgement: JsonObject | None = None
        for call in calls:
            fields = self._unfold(call.where, call.fields)
            if fields is None:
                continue
            name, args = str(fields.get("operation", "")), fields.get("args")
            given = cast("JsonObject", args) if isinstance(args, dict) else {}
            if bare_name(name) == DECIDE:
                if judgement is not None:
                    self._add_problem("judged_twice", function=DECIDE)
                judgement = judgement or given
            elif name not in self.operations and (said := read_statement(name, given)):
                written.setdefault("next_step", NextStep.CONTINUE.value)
                _merge_statement(written, said)
            elif changes := read_patch_call(name, given):
                for at, change in enumerate(changes):
                    one = {**fields, "operation": change.name, "args": change.arguments}
                    kept.append(WrittenCall(call.where, one, "" if at else call.wire_id))
            else:
                kept.append(call._replace(fields=fields))
        if judgement is None:
            return kept, False
        about, actions = judgement.pop("calls", None), judgement.pop("actions", None)
        if not kept:  # they may stand inside
            inside = [*self._list_actions(about), *self._list_actions(actions)]
            unfolded = [(call, self._unfold(call.where, call.fields)) for call in inside]
            kept = [call._replace(fields=f) for call, f in unfolded if f and "operation" in f]
        else:
            _describe_calls(kept, about)
        _merge_statement(written, judgement)
        return kept, True

    def _unfold(self, where: str, written: object) -> JsonObject | None:
        """Return the fields of a call, with its name as ``operation`` and its arguments as
        ``args``, parsed if they are JSON text. None, with a problem, if it is not a call.
        """
        if not isinstance(written, dict):
            return self._add_problem("action_no_object", where=where)
        fields = name_fields(cast("JsonObject", written))
        if fields.get("operation") == OTHER and isinstance(
            inner := self._parse(where, fields), dict
        ):
            fields = {**fields, **name_fields(cast("JsonObject", inner))}
        if fields.get("args") is None:
            return fields
        args = self._parse(where, fields)
        return None if args is None else {**fields, "args": args}

    def _parse(self, where: str, fields: JsonObject) -> object:
        """Return the arguments of a call, parsed if they are JSON text, even if encoded twice.
        None, with a problem, if the text cannot be parsed.
        """
        args: object = fields.get("args")
        if not isinstance(args, str):
            return args
        try:
            text = args.strip() or "{}"
            return parse_object(str(json.loads(text)) if text.startswith('"') else text)
        except ValueError as error:
            told = error.told if isinstance(error, NotStrict) else str(error)
            name = str(fields.get("operation", ""))
            return self._add_problem("args_no_json", where=f"{where} ({name})", problem=told)

    def action(self, where: str, written: object, wire_id: str = "") -> Action | None:
        """Read one action; None, with a problem, if it is unusable (S4-3, R16)."""
        given = self._unfold(where, written)
        if given is None:
            return None
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
                given = {**cast("JsonObject", args)}
                for extra in EXTRAS:  # some models write them beside the arguments
                    if extra not in own and (said := given.pop(extra, None)):
                        fields.setdefault(extra, said)
                fields["args"] = read_arguments(spec, called, given)
            if "args" in fields:
                fields["args"] = coerce_value(fields["args"], spec.parameters)
        if "reasoning" not in fields and (why := fields.get("intent") or self.why):
            fields["reasoning"] = why
        for name in ("operation", "args"):
            if name not in fields:
                return self._add_problem("field_missing", where=where, field=name)
        read = self._read_fields(fields, _ACTION)
        if "args" not in read:
            return self._add_problem("args_no_object", where=where)
        ours = {"call_id": self.ids("call"), "wire_id": wire_id}
        try:
            return Action.model_validate({**read, **ours})
        except ValidationError as error:
            wrong = "; ".join(f"{entry['loc'][0]} {entry['msg']}" for entry in error.errors())
            return self._add_problem("field_wrong", where=where, problem=wrong)

    def operation(self, where: str, name: str) -> OperationSpec | None:
        """Find the operation by a name in any accepted form; None, with a problem that suggests
        similar names, if unknown.
        """
        tool = bare_name(name)
        if spec := self.operations.get(name) or self.operations.get(tool):
            return spec
        names = list(dict.fromkeys(spec.name for spec in self.operations.values()))
        same = [known for known in names if bare_name(known.rpartition(".")[2]) == tool]
        if len(same) == 1:
            return self.operations[same[0]]
        values = {"where": where, "operation": _quote(name)}
        meant = NEAREST.get(tool, "")
        near = find_nearest_names(name, self.offered or names)
        if meant in (self.offered or names):
            near = (meant,)
        if not names:
            return self._add_problem("no_operations", **values)
        if not near and not self.offered:
            return self._add_problem("no_operation", **values)
        kind = "no_operation_but_near" if near else "no_operation_but_these"
        return self._add_problem(kind, **values, names=", ".join(near or self.offered))

    def count_allowed(self, count: int) -> bool:
        """Whether a reply may have that many actions; adds a problem if not."""
        if count <= MAX_ACTIONS:
            return True
        self._add_problem("too_many_actions", count=str(count), limit=str(MAX_ACTIONS))
        return False

    def _add_problem(self, name: str, **values: str | ModelText) -> None:
        """Add a problem with the text ``reply.NAME`` for the model."""
        self.problems.append(ModelText(f"reply.{name}", values))

    def _read_fields(self, fields: JsonObject, readers: _Readers) -> JsonObject:
        """Return what the readers make of these fields. A field that cannot be read is logged and
        left out.
        """
        read = {name: reader(fields[name]) for name, reader in readers.items() if name in fields}
        for name in [name for name, value in read.items() if value is None]:
            self.warnings.append(f"{name} {_quote(fields[name])} cannot be read, left out")
            del read[name]
        return read

    def _known(self, written: JsonObject, model: type[Frozen], where: str = "") -> JsonObject:
        """Return the non-empty fields that a model may write; unknown ones are logged."""
        names = model.model_fields.keys() - _OURS
        unknown = sorted(written.keys() - names)
        self.warnings.extend(f"{where}unknown field {_quote(name)}" for name in unknown)
        return {
            name: value
            for name, value in written.items()
            if name in names and value is not None and str(value).strip()
        }


def _quote(value: object) -> str:
    """Quote a value, cut to 60 characters."""
    text = str(value)
    return f"“{text[:60]}…”" if len(text) > 60 else f"“{text}”"


# --- the fields of a decision: each reader returns None for a value that it cannot read -----------


def _read_texts(value: object) -> tuple[str, ...] | None:
    """Read a list of texts; a single text counts as a list of one, and other items are left out.
    None for anything else.
    """
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    texts = tuple(item.strip() for item in items if isinstance(item, str) and item.strip())
    return texts if texts or isinstance(value, list) else None


def _read_text(value: object) -> str | None:
    """Return a text without surrounding spaces; None for anything else."""
    return value.strip() if isinstance(value, str) else None


def _read_flag(value: object) -> bool | None:
    """Read true or false in any spelling; None for anything else."""
    return next((said for said, pattern in _VERDICTS if pattern.fullmatch(str(value))), None)


def _read_choice(kind: Iterable[StrEnum], value: object) -> StrEnum | None:
    """Find the member of an enumeration, ignoring case; None if there is none."""
    wanted = str(value).strip().lower()
    return next((member for member in kind if member.value.lower() == wanted), None)


def _read_check(value: object) -> SelfCheck:
    """Read a self-check: an object with ``ok`` and ``reason``, or text that begins with yes or no.
    Its ``ok`` is None where the value says neither.
    """
    if isinstance(value, SelfCheck):
        return value
    ok, reason = value, ""
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        ok, reason = fields.get("ok"), _read_text(fields.get("reason")) or ""
    if isinstance(ok, str):
        for verdict, pattern in _VERDICTS:
            if match := pattern.match(ok):
                return SelfCheck(ok=verdict, reason=reason or ok[match.end() :].strip())
        reason = reason or ok.strip()
    return SelfCheck(ok=ok if isinstance(ok, bool) else None, reason=reason)


def _read_confidence(value: object) -> float | None:
    """Read a confidence, clamped to 0.0 to 1.0: a number, a percentage, or one of three words.
    None for anything else.
    """
    if isinstance(value, str):
        said = value.strip().lower()
        try:
            value = float(said.removesuffix("%")) / (100 if said.endswith("%") else 1)
        except ValueError:
            value = _CONFIDENCE_WORDS.get(said)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return min(max(float(value), 0.0), 1.0)


def _read_requirements(value: object) -> list[RequirementClaim]:
    """Read a list of requirements, or a single one as text; those without a text are left out."""
    entries = cast("list[object]", value) if isinstance(value, list) else [value]
    return [claim for claim in map(read_requirement, entries) if claim is not None]


def _read_question(value: object) -> Question | None:
    """Read a question: its text, or an object with text and options. None without a text."""
    fields = cast("JsonObject", value) if isinstance(value, dict) else {"text": value}
    text = _read_text(fields.get("text"))
    return Question(text=text, options=_read_texts(fields.get("options")) or ()) if text else None


def _read_object(value: object) -> JsonObject | None:
    """Return a JSON object unchanged; None for anything else."""
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _read_labels(value: object) -> tuple[str, ...]:
    """Read the labels of alternatives, at most as many as an approval question shows; those without
    a text are left out.
    """
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    labels = [cast("JsonObject", i).get("label") if isinstance(i, dict) else i for i in items]
    return (_read_texts(labels) or ())[:MAX_ALTERNATIVES]


def _read_delta(value: object) -> StateDelta | None:
    """Read the changes of the working memory, without fields that cannot be read; None unless they
    are an object.
    """
    fields = _read_object(value)
    if fields is None:
        return None
    return StateDelta(
        **{name: read(fields[name]) for name, read in _DELTA.items() if name in fields}
    )


def _merge_statement(written: JsonObject, statement: JsonObject) -> None:
    """Merge the fields that a call states into ``written``; texts are appended to those already
    there.
    """
    for name, value in statement.items():
        before = written.get(name)
        if name == "reply" and before and value:
            if str(value).strip() not in str(before):
                written[name] = f"{before}\n\n{value}"
        elif value and not (name == "rationale" and before):
            written[name] = value


def _describe_calls(calls: list[WrittenCall], about: object) -> None:
    """Add reasoning, intent and alternatives, listed in the order of the calls, to calls without
    their own.
    """
    said = cast("list[object]", about) if isinstance(about, list) else []
    for at, (call, entry) in enumerate(zip(calls, said, strict=False)):
        if isinstance(entry, dict):
            given, fields = cast("JsonObject", entry), cast("JsonObject", call.fields)
            extras = {name: given[name] for name in EXTRAS if given.get(name)}
            calls[at] = call._replace(fields={**fields, **extras})


def find_nearest_names(name: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return at most three known operations that ``name`` may have meant."""
    tail = name.rpartition(".")[2]
    same = [one for one in known if one.rpartition(".")[2] == tail]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    within = [one for one in known if tail in one]
    return tuple(dict.fromkeys([*same, *close] or within))[:3] if tail else ()


#: Python types of the JSON types that models also write as text.
_WRITTEN: Final = {
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def coerce_value(value: object, schema: JsonObject) -> object:
    """Convert a value to the type in the schema if it has only one meaning: "365" for a number, one
    item for a list, a list of one for a text; nulls for optional arguments are dropped. Other
    values are returned unchanged, for the operation to reject. Lists and objects are changed in
    place.
    """
    kind = schema.get("type")
    items: JsonObject = schema.get("items") or {}
    if kind in _WRITTEN and isinstance(value, str):
        try:
            read = parse_object(f'{{"value": {value}}}')
        except ValueError:
            read = {}
        if len(read) == 1 and type(read.get("value")) in _WRITTEN[kind]:
            value = read["value"]
    if kind == "string" and isinstance(value, list):
        entries = cast("list[object]", value)
        value = entries[0] if len(entries) == 1 else entries
    if kind == "string" and type(value) in (int, float):
        return str(value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "array" and isinstance(value, list | dict | str | int):
        many = cast("list[object]", value) if isinstance(value, list) else [cast("object", value)]
        for at, item in enumerate(many):
            many[at] = coerce_value(item, items)
        return many
    if kind == "object" and isinstance(value, dict):
        needed: list[str] = schema.get("required") or []
        own: JsonObject = schema.get("properties") or {}
        fields = cast("JsonObject", value)
        for name in fields.keys() & own.keys():
            if fields[name] is None and name not in needed:
                del fields[name]
            else:
                fields[name] = coerce_value(fields[name], own[name])
    return cast("object", value)


_Readers = Mapping[str, Callable[[Any], Any]]
#: The fields of a decision, in the order in which they are read.
_DECISION: Final[_Readers] = {
    "rationale": _read_text,
    "reply": lambda value: value if isinstance(value, str) else None,
    "goal_consistency": _read_check,
    "constraint_check": _read_check,
    "confidence": _read_confidence,
    "task_profile": partial(_read_choice, TaskProfile),
    "requirements": _read_requirements,
    "continues": _read_flag,
    "step": partial(_read_choice, STEPS),
    "next_step": partial(_read_choice, NextStep),
    "prompt_pattern": partial(_read_choice, PromptPattern),
    "state_delta": _read_delta,
    "question": _read_question,
}
_ACTION: Final[_Readers] = {
    "operation": lambda value: value,
    "args": _read_object,
    "reasoning": _read_text,
    "intent": _read_text,
    "alternatives": _read_labels,
}
_DELTA: Final[_Readers] = {
    **dict.fromkeys(("goal", "why_now", "decision"), _read_text),
    **dict.fromkeys(("constraints", "plan_brief", "open_questions", "context_refs"), _read_texts),
}
