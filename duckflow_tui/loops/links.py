"""Typed links of a task list: a value taken from an earlier task's result, never by text (C2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from duckflow_tui.state.base import JsonObject

_KEYS: Final = {"from_task", "field"}
_DIGITS: Final = 9  # of a place in a list


class LinkFault(ValueError):
    """A link that leads nowhere; ``str()`` is a sentence for the model."""


def linked_tasks(value: object) -> set[str]:
    """The tasks whose results a value refers to."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        if _is_link(table):
            return {str(table["from_task"])}
        return set[str]().union(*(linked_tasks(item) for item in table.values()))
    if isinstance(value, list):
        return set[str]().union(*(linked_tasks(item) for item in cast("list[Any]", value)))
    return set()


def resolved(args: JsonObject, results: Mapping[str, str]) -> JsonObject:
    """The arguments with every link replaced by the value it leads to.

    ``results`` are the texts of tasks that went well, by the task's id. Raises LinkFault.
    """
    return {key: _value(value, results) for key, value in args.items()}


def _value(value: Any, results: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_value(item, results) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    table = cast("dict[str, Any]", value)
    if not _is_link(table):
        return {key: _value(item, results) for key, item in table.items()}
    task, path = str(table["from_task"]), str(table.get("field", ""))
    if task not in results:
        raise LinkFault(f"Task {task!r} has no result that could be used.")
    return _field(task, path, results[task])


def _field(task: str, path: str, text: str) -> Any:
    if not path:
        return text
    try:
        at: Any = json.loads(text)
    except ValueError as error:
        raise LinkFault(
            f"The result of task {task!r} is no JSON, so it has no field {path!r}."
        ) from error
    for name in path.split("."):
        if isinstance(at, list) and len(name) <= _DIGITS and name.isascii() and name.isdigit():
            items = cast("list[Any]", at)
            found = int(name) < len(items)
            at = items[int(name)] if found else None
        else:
            found = isinstance(at, dict) and name in at
            at = cast("dict[str, Any]", at)[name] if found else None
        if not found:
            raise LinkFault(f"The result of task {task!r} has no field {path!r}.")
    return at


def _is_link(table: Mapping[str, Any]) -> bool:
    return "from_task" in table and set(table) <= _KEYS
