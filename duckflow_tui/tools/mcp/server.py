"""One server of the settings: started, used, ended, started again."""

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
from duckflow_tui.tools.mcp.schemas import OfferedTool, ToolList, tool_list
from duckflow_tui.tools.mcp.sign_in import KeptTokens
from duckflow_tui.tools.mcp.stdio import ServerLog, log_end
from duckflow_tui.tools.mcp.tool_results import prompt_text, read_contents
from duckflow_tui.tools.operation import Output

if TYPE_CHECKING:
    from mcp import types

STOP_GRACE_S: Final = 1.0  # a server that the user stops may take longer than one the exit ends
_END_S: Final = 2.5  # within which a life is over once it was told to end

Status = Literal["off", "starting", "ready", "failed", "stopped"]


class Server:
    """Knows the tools it has, or had when it last ran."""

    def __init__(
        self, config: McpServerConfig, parts: ServerParts, tools_changed: Callable[[], None]
    ) -> None:
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
            self.without_secrets,
            lambda url: open_page(url, parts.environ, parts.workspace),
            parts.notices,
        )
        self._connection: Connection | None = None  # from one start to the end that follows
        self._calls = 0
        self._report_status("off")

    @property
    def is_offered(self) -> bool:
        """Whether a call of its tools has a chance: the user did not stop it."""
        return self.status not in ("off", "stopped")

    # --- its lives ------------------------------------------------------------------------------

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
        """Wait until it has started or failed, at most ``start_s`` seconds from the start on."""
        if self._connection is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._connection.started_at + self.config.start_s):
                    await self.wait_until_opened()

    async def wait_until_opened(self) -> str:
        """Wait for a start that is under way; returns why it failed, empty where it serves."""
        if self._connection is None:
            return self._error or self._words("server.why.off")
        return await asyncio.shield(self._connection.opened)

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """End it, children included; returns once it has ended. ``grace_s``: seconds that its
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
            # Behind its first step, without which it could not clean up after itself.
            asyncio.get_running_loop().call_soon(connection.job.cancel)
        try:
            async with asyncio.timeout(grace_s * 2 + _END_S):
                await asyncio.shield(connection.over)
        except TimeoutError:
            self._on_connection_over(connection, self._words("server.why.still_there"))

    async def _run_connection(self, connection: Connection) -> None:
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
        self.tools = await asyncio.to_thread(tool_list, self.name, offers.tools, offers.odd)
        self.resources = list_resources(offers)
        self._prompts = list_prompts(offers)
        self._report_status("ready")
        if not connection.opened.done():
            # One step later the connection takes calls.
            asyncio.get_running_loop().call_soon(_settle_future, connection.opened, "")
        self._tools_changed()

    def _on_connection_over(self, connection: Connection, reason: str) -> None:
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

    # --- its work -------------------------------------------------------------------------------

    async def call(
        self, tool: OfferedTool, args: JsonObject, progress: Progress
    ) -> types.CallToolResult:
        """One call; a server that has ended is started once more. Raises ConnectionFailed, also
        where the server says something else of the tool by now.
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
        """A resource, with the server's secrets still in it. Raises ConnectionFailed."""
        connection = await self._connect()
        with self._redacted_failures():
            result = await connection.ask(lambda client: client.read_resource(uri))
        return await asyncio.to_thread(read_contents, result)

    async def fetch_prompt(self, name: str, argument: str) -> str:
        """The text of a prompt with the arguments that were written behind its name. Raises
        ConnectionFailed, and PromptRefused.
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
        return self.without_secrets(await asyncio.to_thread(prompt_text, result))

    async def _connect(self) -> Connection:
        """The connection that serves; starts a server that has ended. Raises ConnectionFailed."""
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
        """Take the server's secrets out of the words of a ConnectionFailed."""
        try:
            yield
        except ConnectionFailed as failed:
            words = self._redactor.redact_text(str(failed))
            raise ConnectionFailed(words, passing=failed.passing) from failed

    def without_secrets(self, text: str) -> str:
        """A result without the secrets that the server was given, or gave at the sign-in; nothing
        else is changed.
        """
        for secret in sorted(self._secrets, key=len, reverse=True):  # one may hold another
            if len(secret) >= 8:
                text = text.replace(secret, REDACTED)
        return text

    def _make_tokens(self) -> KeptTokens:
        return KeptTokens(self.config, self._parts.keys, self._withhold)

    def _withhold(self, secrets: Iterable[str]) -> None:
        """No result of this server holds these from now on, and nothing that is recorded."""
        self._secrets |= frozenset(secrets)
        self._redactor.add_secrets(self._secrets)
        self._parts.withhold(self._secrets)

    async def sign_out(self) -> None:
        """Forget the tokens of a server at an address, and end it."""
        await self.stop()
        if self.config.url:
            await asyncio.to_thread(self._make_tokens().drop)

    async def log_lines(self) -> str:
        """The newest lines that it wrote to its standard error."""
        if not self.config.command:
            return ""
        return await asyncio.to_thread(log_end, self._log.path)


def _settle_future(future: asyncio.Future[str], value: str) -> None:
    if not future.done():
        future.set_result(value)
