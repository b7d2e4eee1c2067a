"""Arguments between models and us: the schema they are told, and what is wrong with a call."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError

from duckflow_tui.state.base import JsonObject, brief, one_line

#: References to results of other calls, which nothing fills in (C2, S3-18).
_REFERENCE: Final = re.compile(
    r"\{\{[^{}]*\}\}"  # {{previous_result}}, {{task_1.output}}
    r"|\$\{(?:previous|task|step|result)[\w.\[\]-]*\}"
    r"|^\s*ref:\s*\S+"
    r"|<(?:previous_result|result_of_[\w.-]+)>",
    re.IGNORECASE,
)
_MAX_PROBLEMS: Final = 5


def model_schema(model: type[BaseModel]) -> JsonObject:
    """The JSON schema of the arguments: no titles, no references, optional without ``null``."""
    schema = model.model_json_schema()
    definitions = cast("dict[str, JsonObject]", schema.pop("$defs", {}))
    for table in (schema, *definitions.values()):
        table.pop("description", None)  # the docstring of the class, which is not for models
    return cast("JsonObject", _clean(schema, definitions))


def _clean(node: object, definitions: dict[str, JsonObject]) -> object:
    if isinstance(node, list):
        return [_clean(item, definitions) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    table = dict(cast("dict[str, Any]", node))
    reference = table.pop("$ref", None)
    if isinstance(reference, str):
        table = {**definitions[reference.rsplit("/", 1)[-1]], **table}
    choices = table.get("anyOf")
    if isinstance(choices, list):
        real = [c for c in cast("list[JsonObject]", choices) if c.get("type") != "null"]
        if len(real) == 1:
            del table["anyOf"]
            table = {**real[0], **table}
            if table.get("default", 0) is None:
                del table["default"]
    cleaned: JsonObject = {}
    for key, value in table.items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "properties":
            fields = cast("JsonObject", value)
            cleaned[key] = {name: _clean(field, definitions) for name, field in fields.items()}
        else:
            cleaned[key] = _clean(value, definitions)
    if model_text := cleaned.get("description"):
        cleaned["description"] = " ".join(str(model_text).split())
    return cleaned


def argument_problems(error: ValidationError) -> str:
    """What is wrong with the arguments, each field named, in words for the model."""
    found = error.errors(include_url=False)
    words: list[str] = []
    for problem in found[:_MAX_PROBLEMS]:
        where = brief(".".join(str(part) for part in problem["loc"])) or "arguments"
        kind = problem["type"]
        if kind == "missing":
            words.append(f"{where}: is required")
        elif kind == "extra_forbidden":
            words.append(f"{where}: there is no such argument")
        else:
            given = one_line(repr(problem["input"]), 80)
            message = problem["msg"].removeprefix("Value error, ")
            words.append(f"{where}: {message[:1].lower()}{message[1:]} (given: {given})")
    if len(found) > _MAX_PROBLEMS:
        words.append(f"and {len(found) - _MAX_PROBLEMS} more")
    return "; ".join(words)


def references(args: JsonObject, content: frozenset[str]) -> list[str]:
    """Arguments that refer to other results instead of holding a value, as ``name: text``, the
    first few of them.

    Fields that hold the content of files may say anything (C2).
    """
    found: list[str] = []
    for name, value in args.items():
        if name in content:
            continue
        for text in _texts(value, content):
            if match := _REFERENCE.search(text):
                found.append(brief(f"{name}: {match.group().strip()}"))
    return found[:_MAX_PROBLEMS]


def _texts(value: object, content: frozenset[str]) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [t for item in cast("list[object]", value) for t in _texts(item, content)]
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        return [
            text
            for name, item in table.items()
            if name not in content
            for text in _texts(item, content)
        ]
    return []
