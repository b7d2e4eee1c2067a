"""Schemas of servers' tools: the description that a model gets, and the check of a call's
arguments.

A schema is the server's text: it is rewritten within limits before a model sees it, and its regular
expressions are never run, since one can be written that never ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

from pydantic import ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from duckflow_tui.state.base import ELLIPSIS, JsonObject, canonical_json, hash_data, one_line
from duckflow_tui.state.operations import Effect
from duckflow_tui.state.processes import McpTool
from duckflow_tui.tools.mcp.config import MAX_DESCRIPTION, operation_name, printable_line
from duckflow_tui.tools.operation import Arguments

if TYPE_CHECKING:
    from mcp import types


MAX_DEPTH: Final = 32  # levels of a schema
MAX_NODES: Final = 4_000  # objects and lists of a schema
MAX_CHECKS: Final = 4_000  # keywords checked for one call; the rest is left to the server
_TOLD_DEPTH: Final = 5  # levels described to the model
_TOLD_NODES: Final = 600
_TEXT: Final = 300  # characters of a description in a schema
_NAME: Final = 120  # characters of an argument's name
_PROBLEMS: Final = 6

_TOLD: Final = (
    "type", "enum", "const", "default", "format", "pattern", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
    "maxItems", "uniqueItems",
)  # fmt: skip

_UNCHECKED: Final = frozenset({"pattern", "patternProperties", "format", "$dynamicRef"})


class BadSchema(Exception):
    """A schema by which no call can be checked; the text gives the reason."""


class ToolArguments(Arguments):
    """Arguments of a server's tool, checked against its schema."""

    values: JsonObject


def check_size(schema: JsonObject) -> None:
    """Raise BadSchema for a schema that is too deep or has too many parts."""
    nodes = 0
    stack: list[tuple[object, int]] = [(schema, 1)]
    while stack:
        node, depth = stack.pop()
        if not isinstance(node, dict | list):
            continue
        nodes += 1
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            raise BadSchema("its schema is too large")
        inner = node.values() if isinstance(node, dict) else node  # type: ignore[reportUnknownVariableType]  # JSON
        stack.extend((item, depth + 1) for item in cast("Iterator[object]", inner))


def arguments_of(schema: JsonObject) -> type[ToolArguments]:
    """Return a model that checks arguments against the schema; raises BadSchema. Arguments that the
    schema does not name are refused, unless it allows more. The models are cached, since
    building one takes milliseconds and restarted servers list the same schemas.
    """
    check_size(schema)
    return _arguments_of(json.dumps(schema))


@lru_cache(maxsize=512)
def _arguments_of(schema: str) -> type[ToolArguments]:
    """Build the model for a schema, given as JSON. Raises BadSchema."""
    check = _make_checker(json.loads(schema))

    class Checked(ToolArguments):
        """Arguments checked against this schema."""

        @model_validator(mode="before")
        @classmethod
        def compare(cls, data: object) -> object:
            """Check the arguments. Raises ValidationError with at most six problems."""
            if not isinstance(data, dict):
                return data
            values = cast("JsonObject", data)
            problems = check(values)
            if problems:
                raise ValidationError.from_exception_data("arguments", problems[:_PROBLEMS])
            return {"values": values}

    return Checked


class _ChecksUsedUp(Exception):
    """The number of checks for one call is used up."""


def _make_checker(schema: JsonObject) -> Callable[[JsonObject], list[InitErrorDetails]]:
    """Return a function that lists the problems of a call's arguments. Raises BadSchema. After
    MAX_CHECKS comparisons, the rest is left to the server.
    """
    from jsonschema import Draft202012Validator, SchemaError, validators
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    if schema.get("type") != "object":
        raise BadSchema("its schema does not describe an object")
    if any(len(name) > _NAME or not name.isprintable() for name in _properties_of(schema)):
        raise BadSchema("an argument has a name that cannot be written")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise BadSchema(f"its schema is none: {printable_line(error.message)}") from error
    except RecursionError as error:
        raise BadSchema("its schema is too large") from error

    left = 0

    def counted(rule: Any, *given: Any) -> Iterator[Any]:
        """Apply a rule of the schema and count it. Raises _ChecksUsedUp."""
        nonlocal left
        left -= 1
        if left < 0:
            raise _ChecksUsedUp
        return rule(*given) or iter(())

    rules: dict[str, Any] = {
        name: partial(counted, rule)
        for name, rule in cast("dict[str, Any]", Draft202012Validator.VALIDATORS).items()
        if name not in _UNCHECKED
    }
    counting: Any = validators.create(  # type: ignore[reportUnknownMemberType]  # untyped there
        meta_schema=cast("Any", Draft202012Validator.META_SCHEMA), validators=rules
    )
    closed = schema
    if "properties" in schema and not schema.keys() & _OPEN:
        closed = {**schema, "additionalProperties": False}
    registry = cast("Any", Registry)()  # without addresses, so that no reference is fetched
    validator: Any = counting(closed, registry=registry)

    def check(values: JsonObject) -> list[InitErrorDetails]:
        """Return the problems of these arguments; none where they fit."""
        nonlocal left
        left = MAX_CHECKS
        found: list[InitErrorDetails] = []
        try:
            for error in validator.iter_errors(values):
                known = [problem.get("loc") for problem in found]
                found.extend(p for p in _list_problems(error) if p.get("loc") not in known)
                if len(found) >= _PROBLEMS:
                    break
        except (_ChecksUsedUp, RecursionError, Unresolvable):
            return found  # the server decides
        return found

    return check


#: Keywords that can allow arguments beyond ``properties``.
_OPEN: Final = frozenset(
    {
        "additionalProperties", "unevaluatedProperties", "patternProperties", "$ref", "allOf",
        "anyOf", "oneOf", "if", "dependentSchemas",
    }
)  # fmt: skip


def _list_problems(error: Any) -> list[InitErrorDetails]:
    """Return an error of the schema's check as pydantic's errors, so that all calls have the same
    messages.
    """
    where = tuple(
        printable_line(part, _NAME) if isinstance(part, str) else part for part in error.path
    )
    given = error.instance
    if error.validator == "required" and isinstance(given, dict):
        missing = [name for name in error.validator_value if name not in given]
        return [
            InitErrorDetails(
                type="missing", loc=(*where, printable_line(str(name), _NAME)), input=given
            )
            for name in missing
        ]
    if error.validator == "additionalProperties" and isinstance(given, dict):
        known = set(_properties_of(cast("JsonObject", error.schema)))
        return [
            InitErrorDetails(
                type="extra_forbidden", loc=(*where, printable_line(name, _NAME)), input=value
            )
            for name, value in cast("JsonObject", given).items()
            if name not in known
        ]
    message = printable_line(str(error.message)).replace("{", "(").replace("}", ")")
    return [
        InitErrorDetails(type=PydanticCustomError("schema", message), loc=where, input=given)  # type: ignore[reportArgumentType]  # a text that is no literal
    ]


def _properties_of(schema: JsonObject) -> JsonObject:
    """Return the ``properties`` of a schema; empty where it has none."""
    return _as_table(schema.get("properties"))


def _as_table(value: object) -> JsonObject:
    """Return a value that is a JSON object; an empty one for anything else."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


class _SchemaDescriber:
    """Describes a schema to the model: keywords that a model can use, references resolved, the
    server's words made visible and cut. Parts beyond the limits are left open.
    """

    def __init__(self, document: JsonObject) -> None:
        """``document`` is the schema that references point into."""
        self._document = document
        self._left = _TOLD_NODES

    def describe_node(self, node: object, depth: int) -> JsonObject:
        """Return the description of a part of the schema; ``depth`` is its level."""
        self._left -= 1
        if not isinstance(node, dict) or depth > _TOLD_DEPTH or self._left < 0:
            return {}
        schema = self._follow_reference(cast("JsonObject", node))
        told: JsonObject = {
            key: _plain_value(schema[key]) for key in _TOLD if key in schema and key != "default"
        }
        if isinstance(text := schema.get("description"), str) and text.strip():
            told["description"] = printable_line(text, _TEXT)
        if schema.get("default") is not None:
            told["default"] = _plain_value(schema["default"])
        properties = _properties_of(schema)
        if properties:
            told["properties"] = {
                name: self.describe_node(member, depth + 1)
                for name, member in properties.items()
                if len(name) <= _NAME and name.isprintable()
            }
            required: object = schema.get("required")
            if isinstance(required, list):
                names = cast("list[object]", required)
                told["required"] = [name for name in names if name in told["properties"]]
        if isinstance(schema.get("items"), dict):
            told["items"] = self.describe_node(schema["items"], depth + 1)
        if isinstance(schema.get("additionalProperties"), bool):
            told["additionalProperties"] = schema["additionalProperties"]
        for key in ("anyOf", "oneOf", "allOf"):
            options: object = schema.get(key)
            if isinstance(options, list):
                each = cast("list[object]", options)[:10]
                told[key] = [self.describe_node(option, depth + 1) for option in each]
        return told

    def _follow_reference(self, schema: JsonObject) -> JsonObject:
        """Return a schema with its reference into the same document resolved; any other reference
        is dropped.
        """
        for _ in range(4):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            target: object = self._document
            if not reference.startswith("#/"):
                return rest
            for part in reference[2:].split("/")[:6]:
                target = _as_table(target).get(part)
            if not isinstance(target, dict):
                return rest
            schema = {**_as_table(cast("object", target)), **rest}
        return {}


def _plain_value(value: object) -> object:
    """Return a value of a schema for the model: texts shortened and made visible, objects
    emptied.
    """
    if isinstance(value, str):
        return (
            printable_line(value, _TEXT) if not value.isprintable() or len(value) > _TEXT else value
        )
    if isinstance(value, list):
        return [_plain_value(item) for item in cast("list[object]", value)[:50]]
    if isinstance(value, dict):
        return {}
    return value


MAX_TOOLS: Final = 128  # tools of one server
MAX_TOLD: Final = 40 * 1024  # bytes of all servers' tools in a request
MOST_WHOLE: Final = 40  # tools described with their arguments; more are listed by name
SHORT: Final = 120  # characters of the description of a tool that is listed by name

Why = Literal["name", "schema", "many", "size"]


class OfferedTool(NamedTuple):
    """A tool that can be offered to models: its description, and the check of its arguments."""

    tool: McpTool
    parameters: JsonObject  # as the model sees them
    arguments: type[ToolArguments]
    summary: str
    size: int  # bytes of its entry
    version: str  # hash of name, description and schema, on which consent rests

    @property
    def short_summary(self) -> str:
        """The beginning of its description, for a list of tools without arguments."""
        return one_line(self.summary, SHORT)

    @property
    def effect(self) -> Effect:
        """READ where the server calls it read-only, else REMOTE. The policy asks in either case."""
        return Effect.READ if self.tool.read_only else Effect.REMOTE


class LeftOut(NamedTuple):
    """A tool that is not offered, and why. ``name`` is the server's name for it, made visible.
    ``number``: number of tools that it stands for, of which ``name`` lists the first.
    """

    name: str
    why: Why
    number: int = 1


class ToolList(NamedTuple):
    """The tools of a server that can be offered, and those that cannot."""

    offered: tuple[OfferedTool, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def sort_tools(
    server: str, tools: Sequence[types.Tool], unread: Sequence[LeftOut] = ()
) -> ToolList:
    """Sort a server's tools into those that can be offered and those that cannot. ``unread`` are
    those that were removed before the SDK read the list. Slow: call it in a thread.
    """
    offered: dict[str, OfferedTool] = {}
    left_out = list(unread)
    for tool in tools:
        name = operation_name(server, tool.name)
        if not tool.name or name in offered:
            left_out.append(LeftOut(printable_line(tool.name, 60), "name"))
        elif len(offered) >= MAX_TOOLS:
            left_out.append(LeftOut(printable_line(tool.name, 60), "many"))
        else:
            try:
                offered[name] = _make_offered(server, name, tool)
            except BadSchema:
                left_out.append(LeftOut(printable_line(tool.name, 60), "schema"))
    return ToolList(tuple(offered.values()), tuple(left_out))


def _make_offered(server: str, name: str, tool: types.Tool) -> OfferedTool:
    """Return the tool as models are offered it under this operation's name. Raises BadSchema."""
    hints = tool.annotations
    description = tool.description or tool.title or (hints.title if hints else None) or ""
    words = printable_line(description, MAX_DESCRIPTION)
    schema, reads = tool.input_schema, bool(hints and hints.read_only_hint)
    arguments = arguments_of(schema)
    told: JsonObject = {
        "type": "object",
        "properties": {},
        **_SchemaDescriber(schema).describe_node(schema, 0),
    }
    summary = f"The server {server} says: {words}" if words else f"A tool of the server {server}."
    return OfferedTool(
        tool=McpTool(
            name=tool.name,
            operation=name,
            summary=printable_line(description),
            read_only=reads,
        ),
        parameters=told,
        arguments=arguments,
        summary=summary,
        size=len(name) + len(summary.encode()) + len(canonical_json(told).encode()),
        version=hash_data(canonical_json([tool.name, description, schema, reads]))[:16],
    )


def describe_difference(before: OfferedTool, now: OfferedTool) -> str:
    """Return the differences between two versions of a tool's description, as lines with − and +;
    empty for none.
    """
    if before.version == now.version:
        return ""

    def lines(tool: OfferedTool) -> list[str]:
        """Return the description of a tool as lines."""
        given = cast("JsonObject", tool.parameters["properties"])
        hint = "read-only" if tool.tool.read_only else "may change something"
        return [tool.summary, hint, *(f"{name}: {canonical_json(given[name])}" for name in given)]

    old, new = lines(before), lines(now)
    gone = [f"− {line}" for line in old if line not in new]
    return "\n".join([*gone, *(f"+ {line}" for line in new if line not in old)] or [ELLIPSIS])


def select_tools(
    servers: Sequence[tuple[str, Sequence[OfferedTool]]],
    is_taken: Callable[[str], bool],
    *,
    by_name: bool,
) -> tuple[list[OfferedTool], dict[str, list[LeftOut]]]:
    """Return the tools of all servers that fit into a request, the first ones first, and the tools
    left out, by server. ``is_taken`` returns whether another operation has a name, and reserves
    the name otherwise. ``by_name``: models get the tools without arguments.
    """
    kept: list[OfferedTool] = []
    left_out: dict[str, list[LeftOut]] = {}
    room = MAX_TOLD
    for server, tools in servers:
        for tool in tools:
            size = len(tool.tool.operation) + SHORT if by_name else tool.size
            too_large = size > room
            if too_large or is_taken(tool.tool.operation):
                left = LeftOut(printable_line(tool.tool.name, 60), "size" if too_large else "name")
                left_out.setdefault(server, []).append(left)
                continue
            room -= size
            kept.append(tool)
    return kept, left_out
