"""One MCP server of the settings: start it, use it, end it, and start it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from duckflow_tui.safety.secrets import REDACTED, Redactor
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.processes import McpPrompt, McpResource, McpServer, McpServerChanged
from duckflow_tui.tools.mcp.browser import open_page
from duckflow_tui.tools.mcp.config import McpServerConfig, printable_line
from duckflow_tui.tools.mcp.connection import (
    Connection,
    ConnectionFailed,
    Offers,
    Progress,
    ServerParts,
)
from duckflow_tui.tools.mcp.elicitation import ServerQuestions
from duckflow_tui.tools.mcp.offers import list_prompts, list_resources, parse_prompt_arguments
from duckflow_tui.tools.mcp.schemas import OfferedTool, ToolList, sort_tools
from duckflow_tui.tools.mcp.sign_in import KeptTokens
from duckflow_tui.tools.mcp.stdio import ServerLog, log_end
from duckflow_tui.tools.mcp.tool_results import prompt_text, read_contents
from duckflow_tui.tools.operation import Output

if TYPE_CHECKING:
    from mcp import types

STOP_GRACE_S: Final = 1.0  # seconds; at the end of the app a server has less time
_END_S: Final = 2.5  # seconds, beyond the grace, until a connection must have ended

Status = Literal["off", "starting", "ready", "failed", "stopped"]


class Server:
    """An MCP server with its current connection, if any. ``tools``, ``resources`` and ``status``
    describe its present or last run.
    """

    def __init__(
        self, config: McpServerConfig, parts: ServerParts, tools_changed: Callable[[], None]
    ) -> None:
        """``tools_changed`` is called when its tools may have changed."""
        self.config = config
        self.name = config.name
        self._tools_changed = tools_changed
        self.tools = ToolList()
        self.resources: tuple[McpResource, ...] = ()
        self._prompts: tuple[McpPrompt, ...] = ()
        self._parts = parts
        self._words = parts.notices.words
        self._secrets = frozenset(config.secret_values)
        self._redactor = Redactor(self._secrets)
        path = parts.folder / f"{config.name}.log" if config.command else Path()
        self._log = ServerLog(path, self._redactor.redact_text)
        self._questions = ServerQuestions(
            config.name,
            parts.desk,
            self.remove_secrets,
            lambda url: open_page(url, parts.environ, parts.workspace),
            parts.notices,
        )
        self._connection: Connection | None = None  # None while the server is not running
        self._calls = 0
        self._report_status("off")

    @property
    def is_offered(self) -> bool:
        """Whether its tools are offered to models: False before its first start and after the user
        stopped it.
        """
        return self.status not in ("off", "stopped")

    # --- start and end---------------------------------------------------------------------------

    def start_in_background(self) -> None:
        """Start it in the background, unless it runs."""
        if self._connection is not None:
            return
        connection = self._connection = Connection(
            self.config, self._parts, self._log, self._questions, self._make_tokens
        )
        self._report_status("starting")
        connection.job = self._parts.spawn(self._run_connection(connection), "mcp")

    async def wait_until_ready(self) -> None:
        """Wait until it has started or failed, at most ``start_s`` seconds from its start on."""
        if self._connection is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._connection.started_at + self.config.start_s):
                    await self.wait_until_opened()

    async def wait_until_opened(self) -> str:
        """Wait until the current start has succeeded or failed; return the reason of a failure,
        empty for success. Without a current start, return why the server is not running.
        """
        if self._connection is None:
            return self._error or self._words("server.why.off")
        return await asyncio.shield(self._connection.opened)

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """End the server with its child processes and wait for that. ``grace_s``: seconds that its
        program has to end by itself, and again after SIGTERM.
        """
        connection = self._connection
        if connection is None:
            if self.status != "off":
                self._report_status("stopped")
            return
        connection.unwanted = True
        connection.set_grace(grace_s)
        if connection.job is not None:
            # After the job's first step, since before it nothing would be cleaned up.
            asyncio.get_running_loop().call_soon(connection.job.cancel)
        try:
            async with asyncio.timeout(grace_s * 2 + _END_S):
                await asyncio.shield(connection.over)
        except TimeoutError:
            self._on_connection_over(connection, self._words("server.why.still_there"))

    async def _run_connection(self, connection: Connection) -> None:
        """Run a connection from its start to its end, and record why it ended."""
        reason = self._words("server.why.stopped")
        try:
            if self.config.command:
                self._log.note_start(" ".join((self.config.command, *self.config.args)))
            reason = await connection.run(lambda offers: self._take_offers(connection, offers))
        except asyncio.CancelledError:
            connection.unwanted = True
            raise
        finally:
            self._on_connection_over(connection, reason)

    async def _take_offers(self, connection: Connection, offers: Offers) -> None:
        """Store the server's lists, and report it as ready."""
        self.tools = await asyncio.to_thread(sort_tools, self.name, offers.tools, offers.unread)
        self.resources = list_resources(offers)
        self._prompts = list_prompts(offers)
        self._report_status("ready")
        if not connection.opened.done():
            # The connection takes calls one step of the loop later.
            asyncio.get_running_loop().call_soon(_settle_future, connection.opened, "")
        self._tools_changed()

    def _on_connection_over(self, connection: Connection, reason: str) -> None:
        """Forget the connection, report the end to the store, warn the user unless it was wanted,
        and resolve its futures.
        """
        if self._connection is not connection:
            return
        self._connection = None
        served = connection.opened.done()
        words = self._redactor.redact_text(reason) or self._words("server.why.closed")
        if connection.unwanted:
            self._report_status("stopped")
        else:
            self._report_status("failed", words)
            key = "mcp.ended" if served else "mcp.not_started"
            self._parts.notices.warn(key, server=self.name, reason=words)
        _settle_future(connection.opened, words)
        _settle_future(connection.over, words)
        self._tools_changed()

    def _report_status(self, status: Status, error: str = "") -> None:
        """Set the status, and report the server to the store."""
        self.status: Status = status
        self._error = error
        self._parts.store.dispatch(
            McpServerChanged(
                server=McpServer(
                    name=self.name,
                    transport=self.config.transport,
                    status=status,
                    tools=tuple(offered.tool for offered in self.tools.offered),
                    resources=self.resources,
                    prompts=self._prompts,
                    error=error,
                    log=str(self._log.path) if self.config.command else "",
                    calls=self._calls,
                )
            )
        )

    # --- requests -------------------------------------------------------------------------------

    async def call(
        self, tool: OfferedTool, args: JsonObject, progress: Progress
    ) -> types.CallToolResult:
        """Call a tool and return the result; a server that has ended is started first. Raises
        ConnectionFailed, also where the tool's description has changed since it was offered.
        """
        connection = await self._connect()
        now = {offered.tool.operation: offered.version for offered in self.tools.offered}
        if now.get(tool.tool.operation, tool.version) != tool.version:
            raise ConnectionFailed(self._words("server.why.changed"))
        self._calls += 1
        self._report_status(self.status, self._error)
        with self._redacted_failures():
            return await connection.call(tool.tool.name, args, progress)

    async def read_resource(self, uri: str) -> Output:
        """Return a resource, with the server's secrets not yet removed. Raises ConnectionFailed."""
        connection = await self._connect()
        with self._redacted_failures():
            result = await connection.ask(lambda client: client.read_resource(uri))
        return await asyncio.to_thread(read_contents, result)

    async def fetch_prompt(self, name: str, argument: str) -> str:
        """Return the text of a prompt; ``argument`` is the user's text behind its name. Raises
        ConnectionFailed and PromptRefused.
        """
        connection = await self._connect()
        prompt = next((prompt for prompt in self._prompts if prompt.name == name), None)
        if prompt is None:
            raise ConnectionFailed(
                self._words("server.why.no_prompt", prompt=printable_line(name, 80))
            )
        values = parse_prompt_arguments(prompt, argument)
        with self._redacted_failures():
            result = await connection.ask(lambda client: client.get_prompt(name, values))
        return self.remove_secrets(await asyncio.to_thread(prompt_text, result))

    async def _connect(self) -> Connection:
        """Return the open connection; start a server that has ended. Raises ConnectionFailed."""
        if self.status == "stopped":
            raise ConnectionFailed(self._words("server.why.stopped_by_user"))
        connection = self._connection
        if connection is not None and connection.opened.done() and not connection.is_open:
            connection.end()
            await asyncio.shield(connection.over)
            connection = None
        if connection is None or not connection.opened.done():
            self.start_in_background()
            try:
                async with asyncio.timeout(self.config.timeout_s + _END_S):
                    reason = await self.wait_until_opened()
            except TimeoutError:
                reason = self._words("server.why.slow")
            connection = self._connection
            if reason or connection is None:
                why = self._words("server.why.no_start", reason=reason or self._error)
                raise ConnectionFailed(why)
        return connection

    @contextmanager
    def _redacted_failures(self) -> Generator[None]:
        """Remove the server's secrets from a ConnectionFailed that the block raises."""
        try:
            yield
        except ConnectionFailed as failed:
            words = self._redactor.redact_text(str(failed))
            raise ConnectionFailed(words, passing=failed.passing) from failed

    def remove_secrets(self, text: str) -> str:
        """Return a text without the server's secrets, from its settings or its sign-in."""
        for secret in sorted(self._secrets, key=len, reverse=True):  # a secret may contain another
            if len(secret) >= 8:
                text = text.replace(secret, REDACTED)
        return text

    def _make_tokens(self) -> KeptTokens:
        """Return the stored tokens of this server."""
        return KeptTokens(self.config, self._parts.keys, self._withhold)

    def _withhold(self, secrets: Iterable[str]) -> None:
        """Remove these secrets from all results of this server, and from all that is recorded, from
        now on.
        """
        self._secrets |= frozenset(secrets)
        self._redactor.add_secrets(self._secrets)
        self._parts.withhold(self._secrets)

    async def sign_out(self) -> None:
        """End the server and, if it is at an address, delete its tokens."""
        await self.stop()
        if self.config.url:
            await asyncio.to_thread(self._make_tokens().drop)

    async def read_log_lines(self) -> str:
        """Return the newest lines of its log, which holds its standard error; empty for a server at
        an address.
        """
        if not self.config.command:
            return ""
        return await asyncio.to_thread(log_end, self._log.path)


def _settle_future(future: asyncio.Future[str], value: str) -> None:
    """Resolve a future, unless it already is."""
    if not future.done():
        future.set_result(value)
