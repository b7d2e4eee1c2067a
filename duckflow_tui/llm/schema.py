"""What a model is asked for: the schema of a decision, and operations as functions."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any, Final, cast

from duckflow_tui.llm.codec import DECIDE, wire_name
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.decision import TurnDecision
from duckflow_tui.state.operations import OperationSpec

_NULL: Final[JsonObject] = {"type": "null"}
#: What of a generated schema is sent.
_KEPT: Final = (
    "type", "description", "enum", "minimum", "maximum", "maxItems", "items", "properties",
    "required",
)  # fmt: skip

#: What a native call says about itself beside its arguments, and how it is called where an
#: operation has a parameter of that name.
EXTRAS: Final = ("reasoning", "intent", "alternatives")


def decision_schema(operations: tuple[OperationSpec, ...]) -> JsonObject:
    """The schema of a TurnDecision; the operations are named, their arguments are left open."""
    schema = copy.deepcopy(_decision())
    if operations:
        action = schema["properties"]["actions"]["items"]
        action["properties"]["operation"]["enum"] = [spec.name for spec in operations]
    return schema


def decide_function() -> JsonObject:
    """The function of the judgement, for native calls: all but what is said and called."""
    schema = copy.deepcopy(_decision())
    for name in ("reply", "actions"):
        del schema["properties"][name]
    return {
        "type": "function",
        "function": {
            "name": DECIDE,
            "description": "Your judgement of this reply. Call it once, before all other calls.",
            "parameters": schema,
        },
    }


@cache
def _decision() -> JsonObject:
    generated = TurnDecision.model_json_schema()
    return _plain({**generated, "description": None}, generated["$defs"])


def _plain(node: JsonObject, models: JsonObject) -> JsonObject:
    """A generated schema without references, titles, defaults and null: servers differ in what
    they take, and a model leaves out what it does not want to say.
    """
    if "anyOf" in node:
        node = {**next(way for way in node["anyOf"] if way != _NULL), **node}
    if "$ref" in node:
        model: JsonObject = models[node["$ref"].rpartition("/")[2]]
        node = {**model, "description": None, **node}
    plain: JsonObject = {key: node[key] for key in _KEPT if node.get(key) is not None}
    if "items" in plain:
        plain["items"] = _plain(plain["items"], models)
    if "properties" in plain:
        named: JsonObject = plain["properties"]
        plain["properties"] = {name: _plain(value, models) for name, value in named.items()}
    return plain


def extra_name(spec: OperationSpec | None, extra: str) -> str:
    """How ``reasoning``, ``intent`` or ``alternatives`` is called on calls of this operation."""
    taken = _properties(spec.parameters) if spec is not None else {}
    name = extra
    while name in taken:
        name = f"call_{name}"
    return name


def operation_function(spec: OperationSpec) -> JsonObject:
    """An operation as a function, with ``reasoning``, ``intent`` and ``alternatives`` added."""
    action = _decision()["properties"]["actions"]["items"]["properties"]
    reasoning, intent, alternatives = (extra_name(spec, extra) for extra in EXTRAS)
    own: JsonObject = {
        reasoning: action["reasoning"],
        **_properties(spec.parameters),
        intent: action["intent"],
        alternatives: action["alternatives"],
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
