"""One server of the settings through all of its lives: started, used, ended, started again."""

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
from duckflow_tui.tools.mcp.offers import list_prompts, list_resources, read_arguments
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
        self._life: Connection | None = None  # from one start to the end that follows
        self._calls = 0
        self._report_status("off")

    @property
    def is_offered(self) -> bool:
        """Whether a call of its tools has a chance: the user did not stop it."""
        return self.status not in ("off", "stopped")

    # --- its lives ------------------------------------------------------------------------------

    def start_in_background(self) -> None:
        """Start it in the background, unless it runs."""
        if self._life is not None:
            return
        life = self._life = Connection(
            self.config, self._parts, self._log, self._questions, self._make_tokens
        )
        self._report_status("starting")
        life.job = self._parts.spawn(self._run_connection(life), "mcp")

    async def wait_until_ready(self) -> None:
        """Wait for a start that is under way, as long as the first request waits for it."""
        if self._life is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._life.started_at + self.config.start_s):
                    await self.wait_until_opened()

    async def wait_until_opened(self) -> str:
        """Why the start that is under way came to nothing; empty when it serves."""
        if self._life is None:
            return self._error or "it does not run"
        return await asyncio.shield(self._life.opened)

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """End it, children included; returns when it is over."""
        life = self._life
        if life is None:
            if self.status != "off":
                self._report_status("stopped")
            return
        life.unwanted = True
        life.may_take(grace_s)
        if life.job is not None:
            # Behind its first step, without which it could not clean up after itself.
            asyncio.get_running_loop().call_soon(life.job.cancel)
        try:
            async with asyncio.timeout(grace_s * 2 + _END_S):
                await asyncio.shield(life.over)
        except TimeoutError:
            self._on_connection_over(life, "it did not end when it was told to")

    async def _run_connection(self, life: Connection) -> None:
        reason = "it was stopped"
        try:
            if self.config.command:
                self._log.note_start(" ".join((self.config.command, *self.config.args)))
            reason = await life.run(lambda offers: self._take_offers(life, offers))
        except asyncio.CancelledError:
            life.unwanted = True
            raise
        finally:
            self._on_connection_over(life, reason)

    async def _take_offers(self, life: Connection, offers: Offers) -> None:
        self.tools = await asyncio.to_thread(tool_list, self.name, offers.tools, offers.odd)
        self.resources = list_resources(offers)
        self._prompts = list_prompts(offers)
        self._report_status("ready")
        if not life.opened.done():
            # One step later the connection takes calls.
            asyncio.get_running_loop().call_soon(_settle_future, life.opened, "")
        self._tools_changed()

    def _on_connection_over(self, life: Connection, reason: str) -> None:
        if self._life is not life:
            return
        self._life = None
        served = life.opened.done()
        words = self._redactor.redact_text(reason) or "the connection was closed"
        if life.unwanted:
            self._report_status("stopped")
        else:
            self._report_status("failed", words)
            key = "mcp.ended" if served else "mcp.not_started"
            self._parts.notices.warn(key, server=self.name, reason=words)
        _settle_future(life.opened, words)
        _settle_future(life.over, words)
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
        life = await self._connect()
        now = {offered.tool.operation: offered.version for offered in self.tools.offered}
        if now.get(tool.tool.operation, tool.version) != tool.version:
            raise ConnectionFailed(
                "it says something else of this tool by now. Nothing ran; the tool is offered anew "
                "from the user's next request on, and asked about with the difference"
            )
        self._calls += 1
        self._report_status(self.status, self._error)
        with self._redacted_failures():
            return await life.call(tool.tool.name, args, progress)

    async def read_resource(self, uri: str) -> Output:
        """A resource, with the server's secrets still in it. Raises ConnectionFailed."""
        life = await self._connect()
        with self._redacted_failures():
            result = await life.ask(lambda client: client.read_resource(uri))
        return await asyncio.to_thread(read_contents, result)

    async def fetch_prompt(self, name: str, argument: str) -> str:
        """The text of a prompt with the arguments that were written behind its name. Raises
        ConnectionFailed, and PromptRefused.
        """
        life = await self._connect()
        prompt = next((prompt for prompt in self._prompts if prompt.name == name), None)
        if prompt is None:
            raise ConnectionFailed(f"it has no prompt {printable_line(name, 80)}")
        values = read_arguments(prompt, argument)
        with self._redacted_failures():
            result = await life.ask(lambda client: client.get_prompt(name, values))
        return self.without_secrets(await asyncio.to_thread(prompt_text, result))

    async def _connect(self) -> Connection:
        """The life that serves; a server that has ended is started. Raises ConnectionFailed."""
        if self.status == "stopped":
            raise ConnectionFailed("the user stopped it; it can be started again with /mcp")
        life = self._life
        if life is not None and life.opened.done() and not life.is_open:
            life.end()
            await asyncio.shield(life.over)
            life = None
        if life is None or not life.opened.done():
            self.start_in_background()
            try:
                async with asyncio.timeout(self.config.timeout_s + _END_S):
                    reason = await self.wait_until_opened()
            except TimeoutError:
                reason = "its start takes too long"
            life = self._life
            if reason or life is None:
                raise ConnectionFailed(f"it does not start: {reason or self._error}")
        return life

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
