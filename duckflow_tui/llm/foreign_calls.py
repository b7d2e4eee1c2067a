"""Translates tool calls that use names of other agents' tools, on which models were trained.

Only unambiguous calls are translated. Each operation declares its foreign names itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.operations import Foreign, OperationSpec

#: Editor tools of other agents whose argument ``command`` selects what they do.
_EDITOR_TOOLS: Final = ("str_replace_editor", "str_replace_based_edit_tool")
_EDITOR_COMMANDS: Final = {"view": "read", "create": "write", "str_replace": "edit"}
_LONGEST_TIMEOUT_S: Final = 1_800  # a greater value of ``timeout_s`` must be in milliseconds

#: Names that models give to the fields of a call that was written as an object.
_NAME_FIELDS: Final = ("operation", "name", "tool", "tool_name", "function", "function_name")
_ARGUMENT_FIELDS: Final = ("args", "arguments", "parameters", "params", "input", "tool_input")


def name_fields(written: JsonObject) -> JsonObject:
    """The object of a call with ``operation`` and ``args`` by these names, as far as they are
    there; its other fields are unchanged.
    """
    inner: object = written.get("function")
    fields = {**written, **cast("JsonObject", inner)} if isinstance(inner, dict) else {**written}
    named = (name for name in _NAME_FIELDS if isinstance(fields.get(name), str))
    if name := next(named, None):
        fields["operation"] = fields.pop(name)
    for name in _ARGUMENT_FIELDS:
        value = fields.get(name)
        if isinstance(value, dict) or str(value).lstrip().startswith("{"):
            fields["args"] = fields.pop(name)
            break
    return fields


def foreign_names(operations: Iterable[OperationSpec]) -> dict[str, OperationSpec]:
    """The operations by their foreign names, which are in lower case."""
    return {name: spec for spec in operations for name in spec.foreign.names}


def read_editor(name: str, args: JsonObject) -> str:
    """Replace the name of an editor tool by that of its ``command``, which is removed from
    ``args``. Any other name, and one with an unknown command, is returned unchanged.
    """
    if name.lower() not in _EDITOR_TOOLS or "command" not in args:
        return name
    meant = _EDITOR_COMMANDS.get(str(args["command"]))
    if meant is None:
        return name
    del args["command"]
    return meant


def read_arguments(spec: OperationSpec, args: JsonObject) -> JsonObject:
    """Translate arguments to our names and types where that is unambiguous. The others are kept, so
    that the operation rejects them.
    """
    own: Mapping[str, JsonObject] = spec.parameters.get("properties") or {}
    if isinstance(milliseconds := args.get("timeout_ms"), int | float) and "timeout_ms" not in own:
        args = {**args, "timeout": milliseconds / 1000}
        del args["timeout_ms"]
    read = _rename_arguments(args, own, spec.foreign)
    for name, value in list(read.items()):
        kind = own.get(name, {}).get("type")
        if kind == "string" and isinstance(value, list):
            read[name] = _join_command([str(word) for word in cast("list[object]", value)])
        elif name == "timeout_s" and isinstance(value, int | float) and value > _LONGEST_TIMEOUT_S:
            read[name] = value / 1000
    _convert_line_range(read, own)
    for name, member in own.items():
        of_items: JsonObject = member.get("items") or {}
        inner: Mapping[str, JsonObject] = of_items.get("properties") or {}
        items: object = read.get(name)
        if not inner:
            continue
        if isinstance(items, list):
            read[name] = [
                _rename_arguments(cast("JsonObject", item), inner, spec.foreign)
                if isinstance(item, dict)
                else item
                for item in cast("list[object]", items)
            ]
        elif items is None:  # the fields of one item stand among the other arguments
            one = _rename_arguments(read, inner, spec.foreign)
            if found := {key: one[key] for key in one if key in inner and key not in own}:
                read = {key: value for key, value in one.items() if key not in found}
                read[name] = [found]
    return read


def _rename_arguments(
    args: JsonObject, own: Mapping[str, JsonObject], foreign: Foreign
) -> JsonObject:
    read: JsonObject = {}
    for given, value in args.items():
        name = given if given in own else _to_snake_case(given)
        ours = foreign.args.get(name) if name not in own else name
        if ours == "" or (ours is not None and ours != given and ours in args):
            continue
        read[ours if ours is not None and ours in own else given] = value
    return read


def _to_snake_case(name: str) -> str:
    """``filePath`` as ``file_path``."""
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda letter: f"_{letter[0]}", name).lower()


def _convert_line_range(args: JsonObject, own: Mapping[str, JsonObject]) -> None:
    """Replace ``limit`` or ``view_range`` by ``start_line`` and ``end_line``, in place."""
    if not {"start_line", "end_line"} <= own.keys():
        return
    limit, line_range = args.get("limit"), args.get("view_range")
    if isinstance(limit, int):
        start = args.setdefault("start_line", 1)
        if isinstance(start, int):
            args["start_line"] = max(start, 1)
            args["end_line"] = max(start, 1) + args.pop("limit") - 1
    if isinstance(line_range, list) and len(cast("list[object]", line_range)) == 2:
        args["start_line"], end = args.pop("view_range")
        if end != -1:
            args["end_line"] = end


def _join_command(words: Sequence[str]) -> str:
    """The command line that runs these words; of ``bash -c LINE`` only the line."""
    if len(words) == 3 and words[0] in ("bash", "sh", "zsh") and words[1] in ("-c", "-lc"):
        return words[2]
    return shlex.join(words)
