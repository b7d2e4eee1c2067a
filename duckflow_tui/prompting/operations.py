"""The operations' part of a prompt, written from the registry's entries and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from duckflow_tui.state.base import JsonObject, canonical_json, one_line
from duckflow_tui.state.operations import OperationSpec

_SUMMARY: Final = 300  # characters; a server's own words may be of any length

_DESCRIPTION: Final = 160

_NAME: Final = 80

_DEPTH: Final = 4  # levels of nested objects that are spelled out


#: Operations that a prompt file may speak of, by the field that names them there.
SPOKEN: Final = {
    "op_propose": "plan_tool.propose",
    "op_revise": "plan_tool.revise",
    "op_get": "plan_tool.get",
    "op_tasks": "task_tool.generate_list",
    "op_pause": "task_loop.pause",
    "op_stop": "task_loop.stop",
    "op_remember": "memory.remember",
    "op_recall": "memory.recall",
}


def spoken(operations: Sequence[OperationSpec]) -> dict[str, str]:
    """The fields of ``SPOKEN``; one whose operation is not offered is empty, so that the line
    of the file that speaks of it is left out.
    """
    offered = {spec.name for spec in operations}
    return {field: name if name in offered else "" for field, name in SPOKEN.items()}


def operation_lines(operations: Sequence[OperationSpec]) -> str:
    """One line for each operation: name, arguments with types, effect, summary."""
    return "\n".join(
        f"- {one_line(spec.name, _NAME)}({_signature(spec.parameters)}) [{spec.effect.value}]"
        f" {one_line(spec.summary, _SUMMARY)}".rstrip()
        for spec in operations
    )


def argument_lines(operations: Sequence[OperationSpec]) -> str:
    """One line for each argument whose schema describes it."""
    lines: list[str] = []
    for spec in operations:
        for name, schema in _properties(spec.parameters).items():
            text = schema.get("description")
            if isinstance(text, str) and text.strip():
                what = f"{one_line(spec.name, _NAME)}.{one_line(name, _NAME)}"
                lines.append(f"- {what}: {one_line(text, _DESCRIPTION)}")
    return "\n".join(lines)


def schema_text(operations: Sequence[OperationSpec]) -> str:
    """What native calls send beside the messages, for estimates."""
    return "".join(f"{s.name}{s.summary}{canonical_json(s.parameters)}" for s in operations)


def _signature(schema: JsonObject) -> str:
    return _members(schema, _definitions(schema), 0)


def _members(schema: JsonObject, definitions: JsonObject, depth: int) -> str:
    needed: object = schema.get("required", ())
    required = cast("list[object]", needed) if isinstance(needed, list) else []
    return ", ".join(
        f"{one_line(name, _NAME)}{'' if name in required else '?'}: "
        f"{_shape(member, definitions, depth)}"
        for name, member in _properties(schema).items()
    )


def _shape(schema: JsonObject, definitions: JsonObject, depth: int) -> str:
    """The type in the notation of TypeScript, which models read best."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        schema = _object(definitions.get(reference.rsplit("/", 1)[-1]))
    choices: object = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(choices, list):
        return "|".join(canonical_json(choice) for choice in cast("list[object]", choices))
    for key in ("anyOf", "oneOf"):
        options: object = schema.get(key)
        if isinstance(options, list):
            shapes = [
                _shape(_object(option), definitions, depth)
                for option in cast("list[object]", options)
                if _object(option).get("type") != "null"
            ]
            return "|".join(dict.fromkeys(shapes))
    kind: object = schema.get("type", "any")
    if kind == "array":
        return f"[{_shape(_object(schema.get('items')), definitions, depth)}]"
    if kind == "object":
        if depth >= _DEPTH or not _properties(schema):
            return "object"
        return "{" + _members(schema, definitions, depth + 1) + "}"
    if isinstance(kind, list):
        return "|".join(str(k) for k in cast("list[object]", kind) if k != "null")
    return one_line(str(kind), _NAME)


def _properties(schema: JsonObject) -> dict[str, JsonObject]:
    return {name: _object(member) for name, member in _object(schema.get("properties")).items()}


def _definitions(schema: JsonObject) -> JsonObject:
    return _object(schema.get("$defs")) or _object(schema.get("definitions"))


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
