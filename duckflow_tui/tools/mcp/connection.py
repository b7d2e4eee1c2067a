"""One connection to an MCP server: its start, the calls over it, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pydantic import ValidationError

from duckflow_tui.llm.connections import KeyStore
from duckflow_tui.safety.pending_questions import Desk
from duckflow_tui.state.base import Job, JsonObject, Spawn, ToldError
from duckflow_tui.state.store import Store
from duckflow_tui.tools.mcp.answer_repair import (
    MAX_VALUES,
    Refused,
    count_values,
    mend_list,
    mend_messages,
    mend_result,
)
from duckflow_tui.tools.mcp.config import McpServerConfig, printable_line
from duckflow_tui.tools.mcp.elicitation import ServerQuestions
from duckflow_tui.tools.mcp.http import MAX_BODY, http_client
from duckflow_tui.tools.mcp.schemas import LeftOut
from duckflow_tui.tools.mcp.sign_in import KeptTokens, SignIn
from duckflow_tui.tools.mcp.stdio import (
    ServerLog,
    ServerProcess,
    server_program,
    stdio_server,
)
from duckflow_tui.tools.notices import Notices
from duckflow_tui.tools.watchdog import Watchdog

if TYPE_CHECKING:
    import httpx2
    from mcp import Client, MCPError, types
    from mcp.client import ClientRequestContext
    from mcp.client._transport import TransportStreams
    from mcp.client.session import IncomingMessage


MAX_PAGES: Final = 20  # pages read of one list
_EXTRAS_S: Final = 3.0  # seconds for the lists of resources and prompts, which are optional
_SETTLE_S: Final = 0.2  # seconds between two reads of lists that keep changing
#: Messages of the SDK for a closed connection; its code alone is used by servers for other errors.
_CLOSED: Final = frozenset(
    {
        "Connection closed",
        "SSE stream ended without a response",
        "SSE stream ended and reconnection attempts were exhausted",
    }
)
_REASON_S: Final = 1.0  # seconds to learn why a connection ended during a call

Progress = Callable[[str], None]
T = TypeVar("T")


class Offers(NamedTuple):
    """The tools, resources and prompts that a server lists. ``unread``: tools that were removed
    from the list before the SDK read it.
    """

    tools: Sequence[types.Tool] = ()
    unread: Sequence[LeftOut] = ()
    resources: Sequence[types.Resource] = ()
    templates: Sequence[types.ResourceTemplate] = ()
    prompts: Sequence[types.Prompt] = ()


TakeOffers = Callable[[Offers], Awaitable[None]]


class ConnectionFailed(Exception):
    """A server could not be started, or a request failed; the text gives the server's or the
    system's reason. ``passing``: another try may succeed, since the answer was late or the
    connection is gone.
    """

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing


def _import_sdk() -> None:
    """Import the SDK, which takes a second; call it in a thread."""
    for name in ("jsonschema", "mcp", "mcp.client.streamable_http", "mcp.types.jsonrpc"):
        import_module(name)


class ServerParts(NamedTuple):
    """The services shared by every server of a session."""

    store: Store
    notices: Notices
    spawn: Spawn
    folder: Path  # holds their logs and a working folder for each
    environ: Mapping[str, str]
    watchdog: Watchdog
    workspace: Path  # the root of the workspace
    desk: Desk  # puts a server's questions to the user
    keys: KeyStore  # stores the tokens of servers
    withhold: Callable[[Iterable[str]], None]  # removes these secrets from all that is recorded


class TimeLimits:
    """Time limits of requests to one server, which are suspended while it waits for the user."""

    def __init__(self, seconds: float) -> None:
        """``seconds``: the time for each request."""
        self._seconds = seconds
        self._limits: set[asyncio.Timeout] = set()
        self._waits = 0  # number of current waits for the user

    @asynccontextmanager
    async def limit(self) -> AsyncGenerator[None]:
        """Raise TimeoutError if the block takes longer than the limit."""
        async with asyncio.timeout(None if self._waits else self._seconds) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)

    @contextmanager
    def wait_for_user(self) -> Generator[None]:
        """Suspend all limits while the block runs; afterwards each starts again with its
        full time.
        """
        self._waits += 1
        self._set_all(None)
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._set_all(asyncio.get_running_loop().time() + self._seconds)

    def _set_all(self, when: float | None) -> None:
        """Set the end of all running limits to this time of the loop; None suspends them."""
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(when)


class Connection:
    """A connection that serves calls from the moment its tools are listed until ``run`` returns.

    ``opened`` is resolved with an empty text when it serves calls, or with the reason why it failed
    to; ``over`` is resolved with the reason why it ended. The caller of ``run`` resolves both.
    """

    def __init__(
        self,
        config: McpServerConfig,
        parts: ServerParts,
        log: ServerLog,
        questions: ServerQuestions,
        make_tokens: Callable[[], KeptTokens],
    ) -> None:
        """``questions`` puts the server's questions to the user; ``make_tokens`` returns the tokens
        for a server at an address.
        """
        self._config = config
        self._questions = questions
        self._make_tokens = make_tokens
        self._limits = TimeLimits(config.timeout_s)
        self._calls = 0  # number of running requests
        self._parts = parts
        self._words = parts.notices.words
        self._log = log
        self._client: Client | None = None
        self._process: ServerProcess | None = None
        self._news = asyncio.Event()  # its lists changed, or it ended
        self._has_ended = False
        self._session_lost = False
        self._version = ""  # version of the protocol, once negotiated
        self._asked_for = ""  # list that is being requested, as an attribute of the SDK's answer
        self._unread: list[LeftOut] = []  # items removed from the newest lists
        loop = asyncio.get_running_loop()
        self.started_at = loop.time()
        self.opened: asyncio.Future[str] = loop.create_future()
        self.over: asyncio.Future[str] = loop.create_future()
        self.job: Job | None = None  # the job that runs the connection
        self.unwanted = False  # the user or the end of the session ended it

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        running = self._process is None or self._process.is_running
        return self._client is not None and running and not self.over.done()

    def set_grace(self, grace_s: float) -> None:
        """Set the seconds that the server's program has to end by itself; without effect on a
        server at an address.
        """
        if self._process is not None:
            self._process.grace_s = grace_s

    def end(self) -> None:
        """End the connection: ``run`` returns, and the server's program is ended."""
        if self._process is not None:
            self._process.end_output()
        else:
            self._on_ended()

    async def run(self, take_offers: TakeOffers) -> str:
        """Start the server and serve calls until it ends; ``take_offers`` receives its lists at the
        start and whenever they change. Return why the connection ended, empty without a reason.
        """
        try:
            await asyncio.to_thread(_import_sdk)
            await self._serve_calls(take_offers)
        except ConnectionFailed as failed:
            return str(failed)
        finally:
            self._client = None
        return self._end_of_program()

    def _end_of_program(self) -> str:
        """Return why the server's program ended by itself; empty where it did not or there
        is none.
        """
        ended = self._process.ended if self._process is not None else None
        return printable_line(self._words(ended)) if ended is not None else ""

    async def _serve_calls(self, take_offers: TakeOffers) -> None:
        """Open the client and serve calls until the connection ends. Raises ConnectionFailed."""
        import anyio
        import httpx2
        from mcp import MCPError

        try:
            async with AsyncExitStack() as stack:
                async with self._limits.limit():
                    client = await self._open_client(stack)
                    offers = await self._list_offers(client)
                await take_offers(offers)
                self._client = client
                await stack.enter_async_context(self._subscribe_to_changes(client))
                while await self._news.wait() and not self._has_ended:
                    await asyncio.sleep(_SETTLE_S)
                    self._news.clear()
                    async with self._limits.limit():
                        offers = await self._list_offers(client)
                    await take_offers(offers)
        except TimeoutError as error:
            late = self._words("server.why.late", seconds=f"{self._config.timeout_s:g}")
            last = self._log.last_line
            raise ConnectionFailed(printable_line(f"{late}: {last}" if last else late)) from error
        except (
            MCPError, httpx2.HTTPError, anyio.BrokenResourceError, anyio.ClosedResourceError,
            OSError, ToldError,
            # Answers that break the protocol, raised by the SDK's models and its negotiation.
            ValueError, RuntimeError, RecursionError,
        ) as error:  # fmt: skip
            raise ConnectionFailed(self._failure_reason(error)) from error
        except ExceptionGroup as group:
            raise ConnectionFailed(self._failure_reason(_first_exception(group))) from group

    def _failure_reason(self, error: Exception) -> str:
        """Return why the program ended, or the error's message where it did not."""
        return self._end_of_program() or self._describe_error(error)

    def _describe_error(self, error: Exception) -> str:
        """Return the message of an error on one line; for an answer that breaks the protocol, in
        the app's words.
        """
        text = str(error) or type(error).__name__
        if isinstance(error, ToldError):
            return self._words(error.told)
        if isinstance(error, OSError):
            text = ": ".join(filter(None, (error.strerror or text, error.filename)))
        elif isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            text = self._words("server.why.no_answer", where=where, problem=first["msg"])
        return printable_line(text)

    async def _open_client(self, stack: AsyncExitStack) -> Client:
        """Open the SDK's client, which negotiates the protocol's version; ``stack`` closes it."""
        import mcp
        from mcp import Client

        client = await stack.enter_async_context(
            Client(
                self._open_mended_streams(),
                message_handler=self._handle_message,
                elicitation_callback=self._answer_question,
                client_info=mcp.Implementation(name="duckflow-tui", version="0.1.0"),
                cache=None,
            )
        )
        self._version = client.protocol_version
        return client

    @asynccontextmanager
    async def _open_mended_streams(self) -> AsyncGenerator[TransportStreams]:
        """Open the streams to the server, with its answers repaired."""

        async def mend(answer: JsonObject) -> None:
            """Repair an answer, and note the items removed from it. Raises Refused."""
            mend_result(answer)
            if self._asked_for:
                self._unread += await asyncio.to_thread(
                    mend_list, answer, self._asked_for, self._version
                )
            if count_values(answer) > MAX_VALUES:
                raise Refused(self._words("server.why.too_many", limit=f"{MAX_VALUES:,}"))

        async with (
            self._open_streams() as (messages, outbox),
            mend_messages(messages, mend) as mended,
        ):
            yield mended, outbox

    @asynccontextmanager
    async def _open_streams(self) -> AsyncGenerator[TransportStreams]:
        """Open the streams to the server, and start its program if it is one."""
        config = self._config
        if config.url:
            from mcp.client.streamable_http import streamable_http_client

            http = await asyncio.to_thread(self._make_http_client)
            async with (
                http,
                streamable_http_client(
                    config.url, http_client=http, max_sse_event_size=MAX_BODY
                ) as streams,
            ):
                yield streams
            return
        parts, folder = self._parts, self._parts.folder / config.name
        program = await asyncio.to_thread(server_program, config, parts.environ, parts.workspace)
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        async with stdio_server(
            config, program, parts.environ, folder, self._log, self._on_ended, parts.watchdog
        ) as (process, streams):
            self._process = process
            yield streams

    def _make_http_client(self) -> httpx2.AsyncClient:
        """Return the HTTP client for a server at an address. Reads certificates, so call it in a
        thread.
        """
        config, parts = self._config, self._parts
        sign_in = SignIn(
            config,
            self._make_tokens(),
            partial(self._questions.ask_to_open, signs_in=True),
            self._questions.ask_to_contact,
            self._limits.wait_for_user,
        )
        return http_client(
            config.url, config.name, parts.store, parts.environ, self._on_session_lost, sign_in
        )

    async def _list_offers(self, client: Client) -> Offers:
        """Ask the server for its tools, resources and prompts. Lists that it does not have are
        empty; those of resources and prompts are also empty, with a line in the log, where they
        fail or are late.
        """
        from mcp import MCPError

        self._unread = []
        has = client.server_capabilities
        tools = await self._list_pages(client.list_tools, "tools") if has.tools else []
        offers = Offers(tools, tuple(self._unread))
        try:
            async with asyncio.timeout(_EXTRAS_S):
                if has.resources:
                    offers = offers._replace(
                        resources=await self._list_pages(client.list_resources, "resources"),
                        templates=await self._list_pages(
                            client.list_resource_templates, "resource_templates"
                        ),
                    )
                if has.prompts:
                    offers = offers._replace(
                        prompts=await self._list_pages(client.list_prompts, "prompts")
                    )
        except (MCPError, ValidationError, TimeoutError) as error:
            self._log.add_line(f"[no list] {self._describe_error(error)}")
        return offers

    async def _list_pages(self, fetch: Callable[..., Awaitable[Any]], member: str) -> list[Any]:
        """Return all items of a paged list, from at most MAX_PAGES pages; ``member`` is the
        attribute of a page that holds them.
        """
        found: list[Any] = []
        cursor: str | None = None
        self._asked_for = member
        try:
            for _ in range(MAX_PAGES):
                page = await fetch(cursor=cursor)
                found.extend(getattr(page, member))
                cursor = page.next_cursor
                if not cursor:
                    break
        finally:
            self._asked_for = ""
        return found

    # --- changes and questions ------------------------------------------------------------------

    def _on_session_lost(self) -> None:
        """Note that the server no longer knows the session."""
        self._session_lost = True

    def _on_ended(self) -> None:
        """Let ``run`` end."""
        self._has_ended = True
        self._news.set()

    async def _handle_message(self, message: IncomingMessage) -> None:
        """Note that the lists have to be read again when the server reports a change."""
        from mcp.types import (
            PromptListChangedNotification,
            ResourceListChangedNotification,
            ToolListChangedNotification,
        )

        if isinstance(
            message,
            ToolListChangedNotification
            | ResourceListChangedNotification
            | PromptListChangedNotification,
        ):
            self._news.set()

    @asynccontextmanager
    async def _subscribe_to_changes(self, client: Client) -> AsyncGenerator[None]:
        """Subscribe to changes of the server's lists in the block. Only newer protocols
        need this.
        """
        from mcp.types.version import MODERN_PROTOCOL_VERSIONS

        has = client.server_capabilities
        told = [part and part.list_changed for part in (has.tools, has.resources, has.prompts)]
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not any(told):
            yield
            return
        listening = asyncio.create_task(
            self._listen_to_changes(client), name=f"mcp {self._config.name}"
        )
        try:
            yield
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen_to_changes(self, client: Client) -> None:
        """Note each change of the lists that the server reports, until the stream ends."""
        from mcp import MCPError

        try:
            async with client.listen(
                tools_list_changed=True, resources_list_changed=True, prompts_list_changed=True
            ) as changes:
                async for _ in changes:
                    self._news.set()
        except (MCPError, RuntimeError, TimeoutError) as lost:
            self._log.add_line(f"[no news] {printable_line(str(lost))}")

    async def _answer_question(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """Return the user's answer to a question of the server; "cancel" where no call is
        running.
        """
        from mcp.types import ElicitResult

        del context
        if not self._calls:
            return ElicitResult(action="cancel")
        with self._limits.wait_for_user():
            return await self._questions.answer(params)

    # --- calls ----------------------------------------------------------------------------------

    async def call(self, tool: str, args: JsonObject, tell: Progress) -> types.CallToolResult:
        """Call a tool and return the server's result; ``tell`` receives notes on the way, at most
        ten a second. Raises ConnectionFailed. A cancellation is sent to the server.
        """
        loop, next_at = asyncio.get_running_loop(), 0.0

        async def pass_on(progress: float, total: float | None, message: str | None) -> None:
            """Pass on a note of the server unless one was passed on just before."""
            nonlocal next_at
            if loop.time() >= next_at:
                next_at = loop.time() + 0.1
                part = f"{progress:g}/{total:g}" if total else f"{progress:g}"
                tell(printable_line(f"{part} {message or ''}", 120))

        return await self.ask(
            lambda client: client.call_tool(tool, args, progress_callback=pass_on)
        )

    async def ask(self, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request with ``send`` and return the server's answer. Raises ConnectionFailed."""
        import anyio
        from mcp import MCPError

        client = self._client
        if client is None:
            raise ConnectionFailed(self._words("server.why.off"))
        self._calls += 1
        try:
            async with self._limits.limit():
                return await send(client)
        except TimeoutError as error:
            late = self._words("server.why.late", seconds=f"{self._config.timeout_s:g}")
            raise ConnectionFailed(late, passing=True) from error
        except MCPError as error:
            if error.message in _CLOSED or self._session_lost:
                self.end()
                raise ConnectionFailed(await self._end_reason(), passing=True) from error
            words = await self._open_pages(error) or printable_line(error.message)
            raise ConnectionFailed(words) from error
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise ConnectionFailed(await self._end_reason(), passing=True) from error
        except (ValueError, RuntimeError, RecursionError) as error:
            raise ConnectionFailed(self._describe_error(error)) from error
        finally:
            self._calls -= 1
            if not self._calls:
                self._questions.withdraw_all()

    async def _open_pages(self, error: MCPError) -> str:
        """For an error that asks the user to visit pages first (protocols before 2026-07-28), offer
        to open them; return what to tell the model, empty for any other error.
        """
        from mcp.shared.exceptions import UrlElicitationRequiredError

        try:
            pages = UrlElicitationRequiredError.from_error(error.error).elicitations
        except ValueError:
            return ""
        for page in pages:
            if (await self._questions.answer(page)).action != "accept":
                return self._words("server.why.no_visit")
        return self._words("server.why.visit")

    async def _end_reason(self) -> str:
        """Return why the connection has ended; wait up to a second to learn it."""
        done, _ = await asyncio.wait({self.over}, timeout=_REASON_S)
        reason = self.over.result() if done else ""
        return reason or self._words("server.why.closed")


def _first_exception(group: BaseExceptionGroup[Exception]) -> Exception:
    """Return the first exception in nested groups."""
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]  # type: ignore[reportUnknownMemberType]  # of any kind
    return inner if isinstance(inner, Exception) else group  # type: ignore[return-value]  # a group of them
