"""Calls in the words of other tools, which models are trained on, read as ours where they can mean
one thing only. Each operation says beside itself by which names it goes elsewhere.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from pydantic import Field

from duckflow_tui.state.base import Frozen, JsonObject

if TYPE_CHECKING:
    from duckflow_tui.state.operations import OperationSpec

#: Tools that do several things, by the argument that says which.
_EDITORS: Final = ("str_replace_editor", "str_replace_based_edit_tool")
_COMMANDS: Final = {"view": "read", "create": "write", "str_replace": "edit"}
_MILLISECONDS: Final = 1_800  # a time-out above it is none in seconds


class Foreign(Frozen):
    """How an operation is called elsewhere. ``args``: our name of an argument by another one; empty
    for what says nothing that ours would need. ``given``: what a call by another name means where
    it does not say otherwise.
    """

    names: tuple[str, ...] = ()
    args: dict[str, str] = Field(default_factory=dict)
    given: JsonObject = Field(default_factory=dict)


def foreign_names(operations: Iterable[OperationSpec]) -> dict[str, OperationSpec]:
    """The operations by their names elsewhere, in lower case."""
    return {name: spec for spec in operations for name in spec.foreign.names}


def read_editor(name: str, args: JsonObject) -> str:
    """The name of the tool that does what a call of an editor with commands asks for; any other
    name, and one with a command that none of ours does, stays as it is.
    """
    if name.lower() not in _EDITORS or "command" not in args:
        return name
    meant = _COMMANDS.get(str(args["command"]))
    if meant is None:
        return name
    del args["command"]
    return meant


def read_arguments(spec: OperationSpec, args: JsonObject) -> JsonObject:
    """The arguments by our names, as far as they can mean one thing only; the others stay, for the
    operation to refuse.
    """
    own: Mapping[str, JsonObject] = spec.parameters.get("properties") or {}
    if isinstance(short := args.get("timeout_ms"), int | float) and "timeout_ms" not in own:
        args = {**args, "timeout": short / 1000}
        del args["timeout_ms"]
    read = _renamed(args, own, spec.foreign)
    for name, value in list(read.items()):
        kind = own.get(name, {}).get("type")
        if kind == "string" and isinstance(value, list):
            read[name] = _command_line([str(word) for word in cast("list[object]", value)])
        elif name == "timeout_s" and isinstance(value, int | float) and value > _MILLISECONDS:
            read[name] = value / 1000
    _read_lines(read, own)
    for name, member in own.items():
        of_items: JsonObject = member.get("items") or {}
        inner: Mapping[str, JsonObject] = of_items.get("properties") or {}
        items: object = read.get(name)
        if not inner:
            continue
        if isinstance(items, list):
            read[name] = [
                _renamed(cast("JsonObject", item), inner, spec.foreign)
                if isinstance(item, dict)
                else item
                for item in cast("list[object]", items)
            ]
        elif items is None:  # one of them, written beside the other arguments
            one = _renamed(read, inner, spec.foreign)
            if found := {key: one[key] for key in one if key in inner and key not in own}:
                read = {key: value for key, value in one.items() if key not in found}
                read[name] = [found]
    return read


def _renamed(args: JsonObject, own: Mapping[str, JsonObject], foreign: Foreign) -> JsonObject:
    read: JsonObject = {}
    for name, value in args.items():
        ours = foreign.args.get(name) if name not in own else name
        if ours == "" or (ours is not None and ours != name and ours in args):
            continue
        read[ours if ours is not None and ours in own else name] = value
    return read


def _read_lines(args: JsonObject, own: Mapping[str, JsonObject]) -> None:
    """A first line with a number of them, or a range, as first and last line."""
    if not {"start_line", "end_line"} <= own.keys():
        return
    limit, both = args.get("limit"), args.get("view_range")
    if isinstance(limit, int):
        start = args.setdefault("start_line", 1)
        if isinstance(start, int):
            args["start_line"] = max(start, 1)
            args["end_line"] = max(start, 1) + args.pop("limit") - 1
    if isinstance(both, list) and len(cast("list[object]", both)) == 2:
        args["start_line"], end = args.pop("view_range")
        if end != -1:
            args["end_line"] = end


def _command_line(words: Sequence[str]) -> str:
    """The line that runs these words; a shell that was asked to run a line stands for that line."""
    if len(words) == 3 and words[0] in ("bash", "sh", "zsh") and words[1] in ("-c", "-lc"):
        return words[2]
    return shlex.join(words)
