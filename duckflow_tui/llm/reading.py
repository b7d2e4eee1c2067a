"""From JSON values to a TurnDecision: what is wrong becomes words for the model.

A *problem* keeps everything with side effects from running; a *warning* is only logged.
"""

from __future__ import annotations

import difflib
import re
from enum import StrEnum
from typing import Any, Final, TypeVar, cast, get_args

from duckflow_tui.llm.codec import wire_name
from duckflow_tui.llm.schema import STEPS
from duckflow_tui.state.base import IdSource, JsonObject
from duckflow_tui.state.decision import (
    MAX_ACTIONS,
    MAX_ALTERNATIVES,
    Action,
    Check,
    CheckKind,
    Judgement,
    NextStep,
    PromptPattern,
    Question,
    RequirementClaim,
    StateDelta,
    TaskProfile,
    TurnDecision,
)
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.phase import Phase

_E = TypeVar("_E", bound=StrEnum)

_YES: Final = re.compile(r"\s*(?:yes|true|ok|はい|可|適合)(?![a-z])[\s:：、。,.\-–—]*", re.I)
_NO: Final = re.compile(r"\s*(?:no|false|いいえ|不可|不適合)(?![a-z])[\s:：、。,.\-–—]*", re.I)

_FIELDS: Final = frozenset(
    {
        "rationale",
        "reply",
        "goal_consistency",
        "constraint_check",
        "confidence",
        "task_profile",
        "requirements",
        "continues",
        "step",
        "next_step",
        "prompt_pattern",
        "state_delta",
        "question",
        "actions",
    }
)
_ACTION_FIELDS: Final = frozenset({"operation", "args", "reasoning", "intent", "alternatives"})
_CHECK_KINDS: Final[tuple[CheckKind, ...]] = get_args(CheckKind)
#: What models also call a kind of check. A file with a text behind its path is looked into.
_ALSO_CALLED: Final[dict[str, CheckKind]] = {
    **dict.fromkeys(("shell", "run", "cmd", "exec", "test", "exit_code"), "command"),
    **dict.fromkeys(("file", "exists", "path", "file_exist", "exist"), "file_exists"),
    **dict.fromkeys(
        ("contains", "content", "contents", "text", "grep", "file_contain", "file_content"),
        "file_contains",
    ),
    **dict.fromkeys(("judgment", "judge", "evaluation", "review", "manual"), "judgement"),
}
_DELTA_LINES: Final = ("goal", "why_now", "decision")
_DELTA_LISTS: Final = ("constraints", "plan_brief", "open_questions", "context_refs")


class DecisionReader:
    """Reads one reply. ``problems`` and ``warnings`` collect what it met."""

    def __init__(self, operations: tuple[OperationSpec, ...], ids: IdSource) -> None:
        self._specs = {spec.name: spec for spec in operations}
        self._by_wire = {wire_name(name): name for name in self._specs}
        self._ids = ids
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def spec(self, operation: str) -> OperationSpec | None:
        """The specification of an operation by its dotted name."""
        return self._specs.get(operation)

    def decision(
        self,
        decision_id: str,
        data: JsonObject,
        *,
        reply: str,
        actions: tuple[Action, ...],
        stated: bool = True,
    ) -> TurnDecision:
        """The decision of these fields; ``stated`` is false for a reply without a judgement.

        Missing checks are a problem only when an action has side effects (S4-58).
        """
        for name in sorted(set(data) - _FIELDS):
            self.warnings.append(f"unknown field {_quoted(name)}")
        goal = self._check(data, "goal_consistency")
        constraint = self._check(data, "constraint_check")
        self._demand_checks(goal, constraint, actions)
        question = self._question(data.get("question"))
        if stated:
            for name in ("rationale", "step", "next_step", "prompt_pattern"):
                if data.get(name) is None:
                    self.warnings.append(f"{name} is missing")
        return TurnDecision(
            decision_id=decision_id,
            rationale=self._text(data, "rationale"),
            reply=reply,
            goal_consistency=goal,
            constraint_check=constraint,
            confidence=self._confidence(data.get("confidence")),
            task_profile=self._choice(TaskProfile, data, "task_profile"),
            requirements=self._requirements(data.get("requirements")),
            continues=self._yes_or_no(data, "continues"),
            step=self._step(data),
            next_step=self._next_step(data, actions, question),
            prompt_pattern=self._choice(PromptPattern, data, "prompt_pattern")
            or PromptPattern.BASE_MAIN,
            state_delta=self._delta(data.get("state_delta")),
            question=question,
            actions=actions,
        )

    def actions(self, value: object) -> tuple[Action, ...]:
        """The actions of a JSON reply; a malformed one is left out and is a problem (R16)."""
        if value is None:
            return ()
        if not isinstance(value, list):
            self.problems.append("actions must be a list")
            return ()
        items = cast("list[object]", value)
        if not self.count_allowed(len(items)):
            return ()
        found: list[Action] = []
        for number, item in enumerate(items, start=1):
            action = self._json_action(number, item)
            if action is not None:
                found.append(action)
        return tuple(found)

    def count_allowed(self, count: int) -> bool:
        """Whether a reply may have that many actions; more is a problem and none is read."""
        if count <= MAX_ACTIONS:
            return True
        self.problems.append(
            f"{count} actions in one reply, at most {MAX_ACTIONS} are allowed; send the first ones"
        )
        return False

    def operation(self, where: str, name: str) -> OperationSpec | None:
        """The operation of that name, dotted or as on the wire; unknown is a problem."""
        dotted = name if name in self._specs else self._by_wire.get(name, name)
        if spec := self._specs.get(dotted):
            return spec
        near = difflib.get_close_matches(dotted, self._specs, n=3, cutoff=0.5)
        if not near:
            tail = dotted.rpartition(".")[2]
            near = [known for known in self._specs if tail and tail in known][:3]
        hint = f"; the closest are {', '.join(near)}" if near else ""
        if not self._specs:
            hint = "; no operations are available in this request"
        self.problems.append(f"{where}: there is no operation {_quoted(name)}{hint}")
        return None

    def action(
        self, where: str, spec: OperationSpec, args: JsonObject, extras: JsonObject, wire_id: str
    ) -> Action | None:
        """One action; without ``reasoning`` it is malformed (S4-3)."""
        reasoning = extras.get("reasoning")
        if not isinstance(reasoning, str) or not reasoning.strip():
            self.problems.append(f"{where} ({spec.name}): reasoning is missing; say why in a line")
            return None
        intent = extras.get("intent")
        return Action(
            call_id=self._ids("call"),
            wire_id=wire_id,
            operation=spec.name,
            args=args,
            reasoning=reasoning.strip(),
            intent=intent.strip() if isinstance(intent, str) else "",
            alternatives=self._alternatives(where, extras.get("alternatives")),
        )

    def _json_action(self, number: int, item: object) -> Action | None:
        where = f"action {number}"
        if not isinstance(item, dict):
            self.problems.append(f"{where} must be an object")
            return None
        fields = cast("JsonObject", item)
        for name in sorted(set(fields) - _ACTION_FIELDS):
            self.warnings.append(f"{where}: unknown field {_quoted(name)}")
        name = fields.get("operation")
        if not isinstance(name, str) or not name.strip():
            self.problems.append(f"{where}: operation is missing")
            return None
        spec = self.operation(where, name.strip())
        if spec is None:
            return None
        args = fields.get("args")
        if not isinstance(args, dict):
            what = "is missing" if args is None else "must be an object"
            self.problems.append(f"{where} ({spec.name}): args {what}")
            return None
        return self.action(where, spec, cast("JsonObject", args), fields, "")

    def _alternatives(self, where: str, value: object) -> tuple[str, ...]:
        if value is None:
            return ()
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        labels: list[str] = []
        for item in items:
            label = cast("JsonObject", item).get("label") if isinstance(item, dict) else item
            if isinstance(label, str) and label.strip():
                labels.append(label.strip())
            else:
                self.warnings.append(f"{where}: an alternative without a label is left out")
        if len(labels) > MAX_ALTERNATIVES:
            self.warnings.append(f"{where}: {len(labels)} alternatives, {MAX_ALTERNATIVES} kept")
        return tuple(labels[:MAX_ALTERNATIVES])

    def _demand_checks(
        self, goal: Judgement, constraint: Judgement, actions: tuple[Action, ...]
    ) -> None:
        acting = [a for a in actions if (s := self._specs.get(a.operation)) and s.has_side_effects]
        missing = [
            name
            for name, check in (("goal_consistency", goal), ("constraint_check", constraint))
            if check.ok is None
        ]
        if not missing:
            return
        if not acting:
            self.warnings.append(f"not stated: {', '.join(missing)}")
            return
        self.problems.append(
            f"{' and '.join(missing)} must be stated before {acting[0].operation} can run: "
            '{"ok": true or false, "reason": "…"}'
        )

    def _check(self, data: JsonObject, name: str) -> Judgement:
        value = data.get(name)
        if isinstance(value, dict):
            fields = cast("JsonObject", value)
            reason = fields.get("reason")
            words = reason.strip() if isinstance(reason, str) else ""
            inner = self._verdict(name, fields.get("ok"))
            return Judgement(ok=inner.ok, reason=words or inner.reason)
        return self._verdict(name, value)

    def _verdict(self, name: str, value: object) -> Judgement:
        if value is None or isinstance(value, bool):
            return Judgement(ok=value)
        if not isinstance(value, str):
            self.warnings.append(f"{name} is neither yes nor no")
            return Judgement()
        for ok, pattern in ((True, _YES), (False, _NO)):
            if match := pattern.match(value):
                return Judgement(ok=ok, reason=value[match.end() :].strip())
        self.warnings.append(f"{name} is neither yes nor no")
        return Judgement(reason=value.strip())

    def _confidence(self, value: object) -> float | None:
        if value is None:
            return None
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                value = None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            self.warnings.append("confidence is not a number")
            return None
        clamped = min(max(float(value), 0.0), 1.0)
        if clamped != value:
            self.warnings.append(f"confidence {value:g} is outside 0 to 1, taken as {clamped:g}")
        return clamped

    def _yes_or_no(self, data: JsonObject, name: str) -> bool | None:
        value = data.get(name)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and (said := value.strip().lower()) in ("true", "false"):
            return said == "true"
        self.warnings.append(f"{name} {_quoted(value)} is neither true nor false")
        return None

    def _requirements(self, value: object) -> tuple[RequirementClaim, ...]:
        found: list[RequirementClaim] = []
        for item in self._items("requirements", value):
            fields = cast("JsonObject", item) if isinstance(item, dict) else {"requirement": item}
            text = fields.get("requirement")
            if not isinstance(text, str) or not text.strip():
                self.warnings.append("a requirement without text is left out")
                continue
            priority = fields.get("priority", 1)
            if isinstance(priority, bool) or not isinstance(priority, int):
                self.warnings.append("a priority is not 1, 2 or 3, taken as 1")
                priority = 1
            claim = RequirementClaim(
                requirement=text.strip(),
                priority=min(max(priority, 1), 3),
                check=self._requirement_check(fields.get("check")),
            )
            found.append(claim)
        return tuple(found)

    def _requirement_check(self, value: object) -> Check:
        """How a requirement is decided; what cannot be read as a check is left to judgement."""
        if value is None:
            return Check()
        fields = cast("JsonObject", value) if isinstance(value, dict) else {}
        kind, what = fields.get("kind"), fields.get("value")
        words = what.strip() if isinstance(what, str) else ""
        known = _kind_of_check(kind, words)
        if known is None or (known != "judgement" and not words):
            self.warnings.append("a requirement's check cannot be read, left to judgement")
            return Check(value=words)  # what it names is what to look at
        return Check(kind=known, value=words)

    def _step(self, data: JsonObject) -> Phase | None:
        phase = self._choice(Phase, data, "step")
        if phase is not None and phase.value not in STEPS:
            self.warnings.append(f"step {phase.value} is not for the model to set, left as it is")
            return None
        return phase

    def _next_step(
        self, data: JsonObject, actions: tuple[Action, ...], question: Question | None
    ) -> NextStep:
        chosen = self._choice(NextStep, data, "next_step")
        if chosen is not None:
            return chosen
        if actions or self.problems:
            return NextStep.CONTINUE
        return NextStep.PENDING_USER if question else NextStep.DONE

    def _delta(self, value: object) -> StateDelta:
        if value is None:
            return StateDelta()
        if not isinstance(value, dict):
            self.warnings.append("state_delta is not an object, left out")
            return StateDelta()
        data = cast("JsonObject", value)
        for name in sorted(set(data) - {*_DELTA_LINES, *_DELTA_LISTS}):
            self.warnings.append(f"unknown field {_quoted('state_delta.' + name)}")
        fields: dict[str, Any] = {}
        for name in _DELTA_LINES:
            if data.get(name) is not None:
                fields[name] = self._text(data, name)
        for name in _DELTA_LISTS:
            if data.get(name) is not None:
                items = self._items(f"state_delta.{name}", data[name])
                fields[name] = tuple(item for item in items if isinstance(item, str))
        return StateDelta(**fields)

    def _question(self, value: object) -> Question | None:
        if value is None or value == "":
            return None
        fields = cast("JsonObject", value) if isinstance(value, dict) else {"text": value}
        text = fields.get("text")
        if not isinstance(text, str) or not text.strip():
            self.warnings.append("question has no text, left out")
            return None
        options = self._items("question.options", fields.get("options"))
        return Question(
            text=text.strip(),
            options=tuple(
                item.strip() for item in options if isinstance(item, str) and item.strip()
            ),
        )

    def _items(self, name: str, value: object) -> list[object]:
        """A list; one text stands for a list of one."""
        if value is None:
            return []
        if isinstance(value, list):
            return cast("list[object]", value)
        if isinstance(value, str):
            return [value] if value.strip() else []
        self.warnings.append(f"{name} is not a list, left out")
        return []

    def _text(self, data: JsonObject, name: str) -> str:
        value = data.get(name)
        if value is None:
            return ""
        if isinstance(value, str):
            return value.strip()
        self.warnings.append(f"{name} is not text, left out")
        return ""

    def _choice(self, kind: type[_E], data: JsonObject, name: str) -> _E | None:
        value = data.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            wanted = value.strip().lower()
            for member in kind:
                if member.value.lower() == wanted:
                    return member
        self.warnings.append(f"{name} {_quoted(value)} is unknown, left as not stated")
        return None


def _quoted(value: object) -> str:
    text = str(value)
    return f"“{text[:60]}…”" if len(text) > 60 else f"“{text}”"


def _kind_of_check(kind: object, value: str) -> CheckKind | None:
    """The kind, by another name too; None for one that nothing tells."""
    if not isinstance(kind, str):
        return None
    name = kind.strip().lower().replace("-", "_").replace(" ", "_")
    exact: dict[str, CheckKind] = {known: known for known in _CHECK_KINDS}
    if name in exact:
        return exact[name]
    known = _ALSO_CALLED.get(name)
    return "file_contains" if known == "file_exists" and ": " in value else known
