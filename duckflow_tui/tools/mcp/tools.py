"""Which of a server's tools are offered, as operations, within limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from duckflow_tui.state.base import JsonObject, canonical_json
from duckflow_tui.state.operations import Effect, OperationSpec
from duckflow_tui.state.processes import McpTool
from duckflow_tui.tools.mcp.names import operation_name
from duckflow_tui.tools.mcp.schemas import BadSchema, ToolArguments, arguments_of, told_schema
from duckflow_tui.tools.mcp.words import MAX_DESCRIPTION, said
from duckflow_tui.tools.operation import Operation

if TYPE_CHECKING:
    from mcp import types

MAX_TOOLS: Final = 128  # of one server
MAX_TOLD: Final = 40 * 1024  # bytes of all servers' tools in a request

Why = Literal["name", "schema", "many", "size"]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that can be offered: its entry, and the check of its arguments."""

    tool: McpTool
    parameters: JsonObject  # as the model is told
    arguments: type[ToolArguments]
    summary: str
    size: int  # bytes of its entry

    @property
    def effect(self) -> Effect:
        """The server's own word that it only reads is taken as a hint: the policy still asks."""
        return Effect.READ if self.tool.read_only else Effect.REMOTE


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A tool that is not offered. ``name`` is as the server calls it, made visible."""

    name: str
    why: Why


@dataclass(frozen=True, slots=True)
class ToolList:
    """What came of a server's list."""

    offered: tuple[OfferedTool, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOperation(Operation[ToolArguments]):
    """A server's tool as an operation; its entry is not written from a model of ours."""

    told: JsonObject

    @property
    def spec(self) -> OperationSpec:
        return OperationSpec(
            name=self.name,
            summary=self.summary,
            parameters=self.told,
            effect=self.effect,
            weight=self.weight,
        )


def tool_list(server: str, tools: Sequence[types.Tool]) -> ToolList:
    """Sort a server's list into what can be offered and what not. Takes a while: in a thread."""
    offered: dict[str, OfferedTool] = {}
    left_out: list[LeftOut] = []
    for tool in tools:
        name = operation_name(server, tool.name)
        if not tool.name or name in offered:
            left_out.append(LeftOut(said(tool.name, 60), "name"))
        elif len(offered) >= MAX_TOOLS:
            left_out.append(LeftOut(said(tool.name, 60), "many"))
        else:
            try:
                offered[name] = _offered(server, name, tool)
            except BadSchema:
                left_out.append(LeftOut(said(tool.name, 60), "schema"))
    return ToolList(tuple(offered.values()), tuple(left_out))


def _offered(server: str, name: str, tool: types.Tool) -> OfferedTool:
    hints = tool.annotations
    description = tool.description or tool.title or (hints.title if hints else None) or ""
    words = said(description, MAX_DESCRIPTION)
    arguments = arguments_of(tool.input_schema)
    told = told_schema(tool.input_schema)
    summary = f"The server {server} says: {words}" if words else f"A tool of the server {server}."
    return OfferedTool(
        tool=McpTool(
            name=tool.name,
            operation=name,
            summary=said(description),
            read_only=bool(hints and hints.read_only_hint),
        ),
        parameters=told,
        arguments=arguments,
        summary=summary,
        size=len(name) + len(summary.encode()) + len(canonical_json(told).encode()),
    )


def within_limits(
    servers: Sequence[tuple[str, Sequence[OfferedTool]]], taken: Callable[[str], bool]
) -> tuple[list[OfferedTool], dict[str, list[LeftOut]]]:
    """The tools of all servers that fit into a request, the first ones first, and the others by
    server. ``taken`` says of a name that another operation has it, and remembers it otherwise.
    """
    kept: list[OfferedTool] = []
    left_out: dict[str, list[LeftOut]] = {}
    room = MAX_TOLD
    for server, tools in servers:
        for tool in tools:
            why: Why | None = None
            if tool.size > room:
                why = "size"
            elif taken(tool.tool.operation):
                why = "name"
            if why is not None:
                left = LeftOut(said(tool.tool.name, 60), why)
                left_out.setdefault(server, []).append(left)
                continue
            room -= tool.size
            kept.append(tool)
    return kept, left_out
