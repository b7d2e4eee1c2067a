"""All servers of a session, and their tools in the registry."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from itertools import repeat
from typing import Final, get_args

from pydantic import Field

from duckflow_tui.llm.codec import wire_name
from duckflow_tui.safety.policy import CallFact, name_any_call
from duckflow_tui.state.base import JsonObject, ModelText, canonical_json, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.operations import Effect, Outcome
from duckflow_tui.tools.mcp.config import McpServerConfig, make_harmless, operation_name
from duckflow_tui.tools.mcp.connection import ConnectionFailed, ServerParts
from duckflow_tui.tools.mcp.offers import READ_RESOURCE, PromptRefused
from duckflow_tui.tools.mcp.schemas import (
    MOST_WHOLE,
    LeftOut,
    OfferedTool,
    ToolArguments,
    Why,
    describe_difference,
    within_limits,
)
from duckflow_tui.tools.mcp.server import Server
from duckflow_tui.tools.mcp.stdio import GRACE_S
from duckflow_tui.tools.mcp.tool_results import read_result
from duckflow_tui.tools.operation import (
    AnyOperation,
    Arguments,
    Operation,
    Output,
    Registry,
    ToolContext,
    ToolFault,
    Work,
)

PREFIX: Final = "mcp."
ANY: Final = "*"  # all tools of a server
DESCRIBE: Final = "mcp_tools.describe"
OPEN_SCHEMA: Final[JsonObject] = {"type": "object", "additionalProperties": True}
#: Tools of servers for sqlite, postgres and mysql that tell what a table consists of.
SCHEMA_TOOLS: Final = ("describe_table", "get_object_details", "get_table_schema", "table_schema")
#: Arguments in which a tool of such a server takes a query.
QUERIES: Final = frozenset({"sql", "query"})
#: Beginnings of the text of a failure in such a server, which calls none an error.
FAILED: Final = ("Database error: ", "Error: ")
RETRIES: Final = 2  # more tries of a read that failed for a passing reason (S3-22)

_WHYS: Final[tuple[Why, ...]] = get_args(Why)


class DescribeTool(Arguments):
    """Arguments of the operation that describes a tool."""

    name: str = Field(description="mcp.SERVER.TOOL, as it is listed.")


class ReadResource(Arguments):
    """Arguments of the operation that reads a resource of a server."""

    server: str
    uri: str


class UnknownServer(ValueError):
    """No server of that name is in the settings."""


class McpServers:
    """Starts the servers of the settings and offers their tools as ``mcp.<server>.<tool>``.

    The list of operations changes between turns only, so that what a model was told stays the
    beginning of what it is told next; what the user starts or stops counts at once.
    """

    def __init__(
        self,
        configs: Iterable[McpServerConfig],
        parts: ServerParts,
        registry: Registry,
        *,
        approved: Iterable[str] = (),
    ) -> None:
        """``approved``: operations, or ``mcp.<server>.*``, that the app itself vouches for."""
        self._store = parts.store
        self._notices = parts.notices
        self._registry = registry
        self._approved = frozenset(approved)
        self._servers = {c.name: Server(c, parts, self._tools_changed) for c in configs}
        self._now: dict[str, OfferedTool] = {}  # by their operations
        self._first: dict[str, OfferedTool] = {}  # as each was when it was first offered
        self._begun = False
        self._stale = False
        self._said: dict[tuple[str, Why], tuple[str, ...]] = {}

    # --- their lives ----------------------------------------------------------------------------

    async def start_all(self) -> None:
        """Start all servers in the background, once."""
        if self._begun:
            return
        self._begun = True
        for server in self._servers.values():
            server.start_in_background()

    async def wait_until_ready(self) -> None:
        """Start the servers, wait for each that is starting, at most its ``start_s`` seconds, and
        bring the list of operations up to date. Called before the first request of a turn.
        """
        await self.start_all()
        servers = self._servers.values()
        await asyncio.gather(*map(Server.wait_until_ready, servers))
        late = [server.name for server in servers if server.status == "starting"]
        if late:
            self._notices.warn("mcp.late", servers=", ".join(late))
        self._publish_operations()

    async def start(self, name: str) -> None:
        """Start a server, and wait until it serves or failed. Raises UnknownServer."""
        server = self._find_server(name)
        self._begun = True
        server.start_in_background()
        await server.wait_until_opened()
        self._publish_operations()

    async def stop(self, name: str) -> None:
        """End a server; its tools are not offered until it is started. Raises UnknownServer."""
        await self._find_server(name).stop()
        self._publish_operations()

    async def restart(self, name: str) -> None:
        """End a server and start it again. Raises UnknownServer."""
        await self._find_server(name).stop()
        await self.start(name)

    async def sign_out(self, name: str) -> None:
        """End a server and forget the tokens with which the user is signed in at it. Raises
        UnknownServer.
        """
        await self._find_server(name).sign_out()
        self._publish_operations()

    async def newest_log_lines(self, name: str) -> str:
        """The newest lines that a server wrote to its standard error. Raises UnknownServer."""
        return await self._find_server(name).log_lines()

    async def fetch_prompt(self, server: str, prompt: str, argument: str) -> str:
        """The text of a server's prompt, with the arguments that were written behind its name.
        Raises PromptRefused.
        """
        self._begun = True
        try:
            return await self._find_server(server).fetch_prompt(prompt, argument)
        except UnknownServer as unknown:
            raise PromptRefused("mcp.no_server", server=server) from unknown
        except ConnectionFailed as failed:
            why = make_harmless(str(failed))
            raise PromptRefused("mcp.prompt_failed", server=server, reason=why) from failed

    async def close(self) -> None:
        """End all servers, children included; waits at most 3 seconds for those that do not end."""
        self._begun = True
        await asyncio.gather(*map(Server.stop, self._servers.values(), repeat(GRACE_S)))

    def _find_server(self, name: str) -> Server:
        try:
            return self._servers[name]
        except KeyError:
            raise UnknownServer(name) from None

    # --- consent --------------------------------------------------------------------------------

    def call_facts(self, operation: str) -> frozenset[CallFact]:
        """The facts the policy needs about a call of a server's tool: whether the tool itself
        was approved before, by the user in this session or by the app for its own servers.
        """
        if not operation.startswith(PREFIX):
            return frozenset()
        now = self._now.get(operation)
        subject = name_any_call(now.version) if now is not None else ""
        of_server = f"{operation.rpartition('.')[0]}.{ANY}"
        granted = any(
            (grant.operation, grant.path, grant.source) == (operation, subject, "key")
            for grant in self._store.state.grants
        )
        own = operation in self._approved or of_server in self._approved
        if granted:
            return frozenset({CallFact.APPROVED})
        if self._describe_change(operation):
            return frozenset({CallFact.CHANGED})
        return frozenset({CallFact.APPROVED}) if own else frozenset()

    def _describe_change(self, operation: str) -> str:
        """The changes in this tool's description since it was first offered, in lines."""
        now = self._now.get(operation)
        return describe_difference(self._first[operation], now) if now is not None else ""

    # --- their tools as operations --------------------------------------------------------------

    def _tools_changed(self) -> None:
        self._stale = True
        if self._store.state.turn is None:
            self._publish_operations()

    def _publish_operations(self) -> None:
        if not self._stale:
            return
        self._stale = False
        taken = {
            wire_name(spec.name): spec.name
            for spec in self._registry.specs()
            if not spec.name.startswith(PREFIX)
        }

        def is_taken(name: str) -> bool:
            return taken.setdefault(wire_name(name), name) != name

        offered = [s for s in self._servers.values() if s.is_offered]
        by_name = sum(len(server.tools.offered) for server in offered) > MOST_WHOLE
        kept, left_out = within_limits(
            [(s.name, s.tools.offered) for s in offered], is_taken, by_name=by_name
        )
        self._now = {tool.tool.operation: tool for tool in kept}
        self._first = {**self._now, **self._first}
        owners = {tool.tool.operation: s for s in offered for tool in s.tools.offered}
        operations: list[AnyOperation] = [
            self._make_operation(owners[tool.tool.operation], tool, by_name=by_name)
            for tool in kept
        ]
        if by_name:
            operations.append(self._make_describe_operation())
        if any(server.resources for server in offered):
            operations.append(self._make_resource_operation())
        self._registry.add(*operations, instead_of=(PREFIX, DESCRIBE, READ_RESOURCE))
        for server in offered:
            self._tell_left_out(server, left_out.get(server.name, []))

    def _tell_left_out(self, server: Server, beyond_limits: list[LeftOut]) -> None:
        left_out = (*server.tools.left_out, *beyond_limits)
        for why in _WHYS:
            names = tuple(left.name for left in left_out if left.why == why)
            if names == self._said.get((server.name, why), ()):
                continue
            self._said[server.name, why] = names
            if names:
                self._notices.warn(
                    f"mcp.left_out.{why}",
                    server=server.name,
                    count=str(len(names)),
                    names=one_line(", ".join(names), 200),
                )

    def _make_resource_operation(self) -> Operation[ReadResource]:
        """The operation that reads what the user names as ``@server:uri``, or a result links to."""

        async def prepare(args: ReadResource, _: object, context: ToolContext) -> Work:
            async def read() -> Output:
                try:
                    server = self._find_server(args.server)
                    output = await server.read_resource(args.uri)
                except UnknownServer as unknown:
                    text = ModelText("server.unknown", {"server": args.server})
                    raise ToolFault(text, Outcome.INVALID) from unknown
                except ConnectionFailed as failed:
                    raise _make_fault(args.server, failed) from failed
                return _tell_output(server, output, context)

            return Work(read)

        return Operation(
            name=READ_RESOURCE,
            listed=True,
            summary="Read a resource of an MCP server that a result links to.",
            effect=Effect.READ,
            arguments=ReadResource,
            prepare=prepare,
            retries=RETRIES,
        )

    def _make_describe_operation(self) -> Operation[DescribeTool]:
        """The operation that tells what arguments a tool takes which is told by name."""

        async def prepare(args: DescribeTool, _: object, context: ToolContext) -> Work:
            async def describe() -> Output:
                tool = self._now.get(args.name)
                if tool is None:
                    raise ToolFault("call.no_operation", Outcome.INVALID, operation=args.name)
                told = {"description": tool.summary, "arguments": tool.parameters}
                return Output(canonical_json(told))

            return Work(describe)

        return Operation(
            name=DESCRIBE,
            listed=True,
            summary="The arguments of an mcp tool that is listed with (…); ask before you call it.",
            effect=Effect.READ,
            arguments=DescribeTool,
            prepare=prepare,
        )

    def _make_operation(
        self, server: Server, offered: OfferedTool, *, by_name: bool
    ) -> Operation[ToolArguments]:
        """The operation that calls a server's tool; ``by_name``: models are told its arguments only
        when they ask for them or call it with wrong ones.
        """

        async def prepare(args: ToolArguments, _: object, context: ToolContext) -> Work:
            self._check_schema_was_read(server, offered, args)
            changed = self._describe_change(offered.tool.operation)
            facts = {"changed": changed} if changed else {}
            return Work(lambda: self._run(server, offered, args, context), facts)

        return Operation(
            name=offered.tool.operation,
            summary=offered.short_summary if by_name else offered.summary,
            effect=offered.effect,
            arguments=offered.arguments,
            prepare=prepare,
            parameters=OPEN_SCHEMA if by_name else offered.parameters,
            listed=by_name,
            untold=offered.parameters if by_name else None,
            version=offered.version,
            retries=RETRIES,
        )

    def _check_schema_was_read(
        self, server: Server, offered: OfferedTool, args: ToolArguments
    ) -> None:
        """Refuse a query until the server's schema tool has answered in this session, for the two
        tools that the settings name, or for those that the common servers have (C37, S3-19, S3-33).
        """
        schema_tool, asked = _schema_tool(server), offered.tool.name
        takes_query = not QUERIES.isdisjoint(args.values)
        queries = asked == server.config.query_tool if server.config.query_tool else takes_query
        if not schema_tool or asked == schema_tool or not queries:
            return
        schema = operation_name(server.name, schema_tool)
        if not any(
            isinstance(message, OperationMessage)
            and message.operation == schema
            and message.result.outcome is Outcome.OK
            for message in self._store.state.messages
        ):
            raise ToolFault("server.no_schema", Outcome.INVALID, schema=schema)

    @staticmethod
    async def _run(
        server: Server, offered: OfferedTool, args: ToolArguments, context: ToolContext
    ) -> Output:
        try:
            result = await server.call(offered, args.values, context.progress)
        except ConnectionFailed as failed:
            raise _make_fault(server.name, failed) from failed
        output = await asyncio.to_thread(read_result, result)
        output = _tell_output(server, output, context)
        if result.is_error or (_schema_tool(server) and output.text.startswith(FAILED)):
            raise ToolFault("server.error", server=server.name, error=output.text)
        return output


def _tell_output(server: Server, output: Output, context: ToolContext) -> Output:
    """What a server gave as the model is told it: without secrets, and never empty."""
    text = server.without_secrets(output.text) or context.words("server.nothing")
    return replace(output, text=text)


def _make_fault(server: str, failed: ConnectionFailed) -> ToolFault:
    """The fault of a call that a server did not carry out."""
    values = {"server": server, "reason": make_harmless(str(failed))}
    return ToolFault(ModelText("server.failed", values), transient=failed.passing)


def _schema_tool(server: Server) -> str:
    """The tool that tells what a table consists of: by the settings, else by a name that the common
    servers give it; empty where the server is none for a database.
    """
    tools = {found.tool.name for found in server.tools.offered}
    return server.config.schema_tool or next((name for name in SCHEMA_TOOLS if name in tools), "")
