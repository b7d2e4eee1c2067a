"""All MCP servers of a session, and the operations that call their tools."""

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
    select_tools,
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
#: Tools of servers for SQLite, PostgreSQL and MySQL that describe a table.
SCHEMA_TOOLS: Final = ("describe_table", "get_object_details", "get_table_schema", "table_schema")
#: Arguments in which a tool of such a server takes a query.
QUERIES: Final = frozenset({"sql", "query"})
#: How texts of failures begin in such servers, which do not mark them as errors.
FAILED: Final = ("Database error: ", "Error: ")
RETRIES: Final = 2  # further attempts of a read that failed for a passing reason (S3-22)

_WHYS: Final[tuple[Why, ...]] = get_args(Why)


class DescribeTool(Arguments):
    """Arguments of the operation that describes a tool."""

    name: str = Field(description="mcp.SERVER.TOOL, as it is listed.")


class ReadResource(Arguments):
    """Arguments of the operation that reads a resource of a server."""

    server: str
    uri: str


class UnknownServer(ValueError):
    """No server in the settings has this name."""


class McpServers:
    """Starts the servers of the settings and offers their tools as operations
    ``mcp.<server>.<tool>``.

    Changes of the servers' tools are published between turns only, so that the beginning of a
    model's prompt stays the same; a server that the user starts or stops is published at once.
    """

    def __init__(
        self,
        configs: Iterable[McpServerConfig],
        parts: ServerParts,
        registry: Registry,
        *,
        approved: Iterable[str] = (),
    ) -> None:
        """``approved``: operations, or ``mcp.<server>.*``, that need no approval by the user, for
        the app's own servers.
        """
        self._store = parts.store
        self._notices = parts.notices
        self._registry = registry
        self._approved = frozenset(approved)
        self._servers = {c.name: Server(c, parts, self._tools_changed) for c in configs}
        self._now: dict[str, OfferedTool] = {}  # the published tools, by operation
        self._first: dict[str, OfferedTool] = {}  # each tool as it was first offered
        self._begun = False
        self._stale = False
        self._said: dict[tuple[str, Why], tuple[str, ...]] = {}

    # --- start and end-------------------------------------------------------------------------

    async def start_all(self) -> None:
        """Start all servers in the background; only the first call has an effect."""
        if self._begun:
            return
        self._begun = True
        for server in self._servers.values():
            server.start_in_background()

    async def wait_until_ready(self) -> None:
        """Start the servers, wait at most ``start_s`` seconds for each, warn of those that are
        late, and publish the operations. Called before the first request of a turn.
        """
        await self.start_all()
        servers = self._servers.values()
        await asyncio.gather(*map(Server.wait_until_ready, servers))
        late = [server.name for server in servers if server.status == "starting"]
        if late:
            self._notices.warn("mcp.late", servers=", ".join(late))
        self._publish_operations()

    async def start(self, name: str) -> None:
        """Start a server, wait until it is ready or has failed, and publish the operations. Raises
        UnknownServer.
        """
        server = self._find_server(name)
        self._begun = True
        server.start_in_background()
        await server.wait_until_opened()
        self._publish_operations()

    async def stop(self, name: str) -> None:
        """End a server and withdraw its tools until it is started again. Raises UnknownServer."""
        await self._find_server(name).stop()
        self._publish_operations()

    async def restart(self, name: str) -> None:
        """End a server and start it again. Raises UnknownServer."""
        await self._find_server(name).stop()
        await self.start(name)

    async def sign_out(self, name: str) -> None:
        """End a server, withdraw its tools, and delete the tokens of the user's sign-in. Raises
        UnknownServer.
        """
        await self._find_server(name).sign_out()
        self._publish_operations()

    async def newest_log_lines(self, name: str) -> str:
        """Return the newest lines of a server's standard error. Raises UnknownServer."""
        return await self._find_server(name).read_log_lines()

    async def fetch_prompt(self, server: str, prompt: str, argument: str) -> str:
        """Return the text of a server's prompt; ``argument`` is the user's text behind its name.
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
        """End all servers with their child processes; takes at most 3 seconds."""
        self._begun = True
        await asyncio.gather(*map(Server.stop, self._servers.values(), repeat(GRACE_S)))

    def _find_server(self, name: str) -> Server:
        """Return the server of this name. Raises UnknownServer."""
        try:
            return self._servers[name]
        except KeyError:
            raise UnknownServer(name) from None

    # --- consent --------------------------------------------------------------------------------

    def call_facts(self, operation: str) -> frozenset[CallFact]:
        """Return the facts that the policy needs about a call of a server's tool: APPROVED where
        the user, in this session, or the app vouches for the tool, and CHANGED where its
        description has changed since it was first offered.
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
        """Return the changes in a tool's description since it was first offered, as lines; empty
        for none.
        """
        now = self._now.get(operation)
        return describe_difference(self._first[operation], now) if now is not None else ""

    # --- operations ---------------------------------------------------------------------------

    def _tools_changed(self) -> None:
        """Publish the operations now, or after the running turn."""
        self._stale = True
        if self._store.state.turn is None:
            self._publish_operations()

    def _publish_operations(self) -> None:
        """Replace the servers' operations in the registry, if any tools may have changed."""
        if not self._stale:
            return
        self._stale = False
        taken = {
            wire_name(spec.name): spec.name
            for spec in self._registry.specs()
            if not spec.name.startswith(PREFIX)
        }

        def is_taken(name: str) -> bool:
            """Whether another operation has this name; reserves it otherwise."""
            return taken.setdefault(wire_name(name), name) != name

        offered = [s for s in self._servers.values() if s.is_offered]
        by_name = sum(len(server.tools.offered) for server in offered) > MOST_WHOLE
        kept, left_out = select_tools(
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
        """Warn the user of a server's tools that are not offered, once for each reason and set of
        names.
        """
        left_out = (*server.tools.left_out, *beyond_limits)
        for why in _WHYS:
            these = [left for left in left_out if left.why == why]
            names = tuple(left.name for left in these)
            if names == self._said.get((server.name, why), ()):
                continue
            self._said[server.name, why] = names
            if names:
                self._notices.warn(
                    f"mcp.left_out.{why}",
                    server=server.name,
                    count=str(sum(left.number for left in these)),
                    names=one_line(", ".join(names), 200),
                )

    def _make_resource_operation(self) -> Operation[ReadResource]:
        """Return the operation that reads a resource which the user names as ``@server:uri`` or a
        result links to.
        """

        async def prepare(args: ReadResource, _: object, context: ToolContext) -> Work:
            """Return the work that reads the resource."""

            async def read() -> Output:
                """Read the resource from its server. Raises ToolFault."""
                try:
                    server = self._find_server(args.server)
                    output = await server.read_resource(args.uri)
                except UnknownServer as unknown:
                    text = ModelText("server.unknown", {"server": args.server})
                    raise ToolFault(text, Outcome.INVALID) from unknown
                except ConnectionFailed as failed:
                    raise _make_fault(args.server, failed) from failed
                return _make_output(server, output, context)

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
        """Return the operation that describes the arguments of a tool that is listed
        without them.
        """

        async def prepare(args: DescribeTool, _: object, context: ToolContext) -> Work:
            """Return the work that describes the tool."""

            async def describe() -> Output:
                """Return description and arguments of the tool as JSON. Raises ToolFault for an
                unknown one.
                """
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
        """Return the operation that calls a server's tool. ``by_name``: models get its arguments
        only when they ask for them or call it with wrong ones.
        """

        async def prepare(args: ToolArguments, _: object, context: ToolContext) -> Work:
            """Return the work that calls the tool. Raises ToolFault for a query before the schema
            was read.
            """
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
        """Raise ToolFault for a database query if the server's schema tool has not succeeded in
        this session. Applies to the tools that the settings name, or that common servers have
        (C37, S3-19, S3-33).
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
        """Call the tool and return its result for the model. Raises ToolFault."""
        try:
            result = await server.call(offered, args.values, context.progress)
        except ConnectionFailed as failed:
            raise _make_fault(server.name, failed) from failed
        output = await asyncio.to_thread(read_result, result)
        output = _make_output(server, output, context)
        if result.is_error or (_schema_tool(server) and output.text.startswith(FAILED)):
            raise ToolFault("server.error", server=server.name, error=output.text)
        return output


def _make_output(server: Server, output: Output, context: ToolContext) -> Output:
    """Return a server's output for the model: without secrets, with a note where it is empty."""
    text = server.remove_secrets(output.text) or context.words("server.nothing")
    return replace(output, text=text)


def _make_fault(server: str, failed: ConnectionFailed) -> ToolFault:
    """Return the fault of a call that the server did not carry out."""
    values = {"server": server, "reason": make_harmless(str(failed))}
    return ToolFault(ModelText("server.failed", values), transient=failed.passing)


def _schema_tool(server: Server) -> str:
    """Return the name of the server's tool that describes a database table: from the settings, else
    a name that common servers use; empty for none.
    """
    tools = {found.tool.name for found in server.tools.offered}
    return server.config.schema_tool or next((name for name in SCHEMA_TOOLS if name in tools), "")
