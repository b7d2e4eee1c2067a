"""One life of a server: from its start to its end, and the calls in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

import httpx2
from pydantic import TypeAdapter, ValidationError

from duckflow_tui.state.base import Job, JsonObject, Spawn
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import HostContacted
from duckflow_tui.tools.diffs import size_words
from duckflow_tui.tools.mcp.config import McpServerConfig, make_harmless, printable_line
from duckflow_tui.tools.mcp.stdio import (
    ProgramRefused,
    ServerLog,
    ServerProcess,
    server_program,
    stdio_server,
)
from duckflow_tui.tools.notices import Notices
from duckflow_tui.tools.watchdog import Watchdog

if TYPE_CHECKING:
    from mcp import Client, types
    from mcp.client._transport import TransportStreams
    from mcp.client.session import IncomingMessage


def result_text(result: types.CallToolResult) -> str:
    """Structured content as JSON, then texts that do not repeat it; pictures by name."""
    parts: list[str] = []
    structured: Any = result.structured_content
    if structured is not None:
        parts.append(json.dumps(structured, ensure_ascii=False))
    blocks = [block for block in result.content if not _repeats_structured(block, structured)]
    if structured is not None and _are_its_items(result.content, structured):
        blocks = []
    parts.extend(_block_text(block) for block in blocks)
    return make_harmless("\n".join(parts)) or "(the server answered with nothing)"


def _repeats_structured(block: types.ContentBlock, structured: Any) -> bool:
    """Whether a text says what the structured content says; servers send both for old clients."""
    if structured is None or block.type != "text":
        return False
    inner = _unwrap_result(structured)
    if block.text == inner:
        return True
    try:
        value: Any = json.loads(block.text)
    except (ValueError, RecursionError):
        return False
    return bool(value in (structured, inner))


def _are_its_items(blocks: Sequence[types.ContentBlock], structured: Any) -> bool:
    """Whether the texts are the items of a list, one block each."""
    items = _unwrap_result(structured)
    if not isinstance(items, list):
        return False
    each = cast("list[Any]", items)
    return len(blocks) == len(each) and all(map(_repeats_structured, blocks, each))


def _unwrap_result(structured: Any) -> Any:
    """Unwrap ``result``, the only member of an object that carries a value of another type."""
    if isinstance(structured, dict):
        table = cast("JsonObject", structured)
        return table["result"] if list(table) == ["result"] else table
    return structured


def _block_text(block: types.ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return (
                f"[{printable_line(block.mime_type, 80)}, {_describe_size(block.data)}, not shown]"
            )
        case "resource_link":
            return f"[resource {printable_line(block.name, 80)}: {printable_line(str(block.uri))}]"
        case "resource":
            resource = block.resource
            head = f"[resource {printable_line(str(resource.uri))}"
            kind = f", {printable_line(resource.mime_type, 80)}" if resource.mime_type else ""
            text = getattr(resource, "text", None)
            if isinstance(text, str):
                return f"{head}{kind}]\n{text}"
            return f"{head}{kind}, {_describe_size(getattr(resource, 'blob', ''))}, not shown]"


def _describe_size(base64: str) -> str:
    return size_words(len(base64) * 3 // 4)


MAX_BODY: Final = 32 * 1024 * 1024  # decoded bytes of an answer that is no stream of events (R18)
MAX_EVENT: Final = 4 * 1024 * 1024  # bytes of one event


class _BoundedResponse(httpx2.Response):
    body_read: Callable[[int], None]  # hears how many bytes of the body came, once it ends

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        streams = self.headers.get("content-type", "").startswith("text/event-stream")
        total = 0
        try:
            async with aclosing(super().aiter_bytes(chunk_size)) as pieces:
                async for piece in pieces:
                    total += len(piece)
                    if total > MAX_BODY and not streams:
                        raise httpx2.ReadError(f"the answer is over {MAX_BODY // 1024 // 1024} MB")
                    yield piece
        finally:
            self.body_read(self.num_bytes_downloaded)


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """Bounds what is read, and tells the store of what is sent and received."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, name: str, url: str, store: Store) -> None:
        self._inner = inner
        self._name = name
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._host = f"{parts.hostname}:{port}"
        self._store = store

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._report_traffic(requests=1)
        try:
            answer = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise
        except BaseException:
            self._report_traffic(sent=_head_size(request))
            raise
        self._report_traffic(sent=_head_size(request), received=_head_size(answer))
        response = _BoundedResponse(
            answer.status_code,
            headers=answer.headers,
            stream=answer.stream,
            extensions=answer.extensions,
        )
        response.body_read = lambda size: self._report_traffic(received=size)
        return response

    def _report_traffic(self, *, requests: int = 0, sent: int = 0, received: int = 0) -> None:
        self._store.dispatch(
            HostContacted(
                host=self._host,
                use="mcp",
                name=self._name,
                setting=f"mcp.servers.{self._name}.url",
                at=self._store.clock.now(),
                requests=requests,
                sent=sent,
                received=received,
            )
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


def _head_size(message: httpx2.Request | httpx2.Response) -> int:
    """Bytes of the head, and of a request's body."""
    size = sum(len(name) + len(value) for name, value in message.headers.raw)
    is_request = isinstance(message, httpx2.Request)
    return size + (int(message.headers.get("content-length", 0)) if is_request else 0)


def http_client(url: str, name: str, store: Store) -> httpx2.AsyncClient:
    """A client without our environment's proxies and credentials; reads certificates, so in a
    thread. An answer may take as long as the request's own time-out allows. The store is told of
    what is sent to the server of this name.
    """
    inner = httpx2.AsyncHTTPTransport(verify=url.startswith("https:"))
    return httpx2.AsyncClient(
        transport=_BoundedTransport(inner, name, url, store),
        follow_redirects=False,
        trust_env=False,
        timeout=httpx2.Timeout(None, connect=20.0, write=60.0),
        headers={"user-agent": "duckflow-tui"},
    )


MAX_PAGES: Final = 20  # of a list of tools
_SETTLE_S: Final = 0.2  # a list that changes again and again is asked for at most so often
_CLOSED: Final = "Connection closed"  # what the SDK says of a connection that has gone
_REASON_S: Final = 1.0  # to learn why a connection ended under a call

Progress = Callable[[str], None]
TakeTools = Callable[[Sequence["types.Tool"]], Awaitable[None]]


class ConnectionFailed(Exception):
    """A start or a request that came to nothing; the text says what the server or system said.
    ``passing``: the same may go well in a moment: it was too slow, or the connection is gone.
    """

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing


def _import_sdk() -> None:
    """The SDK, which takes a second: in a thread, that holds the loop for a part of it only."""
    for name in ("jsonschema", "mcp", "mcp.client.streamable_http", "mcp.types.jsonrpc"):
        import_module(name)


class ServerParts(NamedTuple):
    """The services shared by every server of a session."""

    store: Store
    notices: Notices
    spawn: Spawn
    folder: Path  # of their logs, with a working folder for each
    environ: Mapping[str, str]
    watchdog: Watchdog
    workspace: Path  # the folder that is worked in


class Connection:
    """Serves calls from the moment it took the tools until ``run`` returns. ``opened`` becomes
    empty then, or why it never came to that; ``over`` why it ended.
    """

    def __init__(self, config: McpServerConfig, parts: ServerParts, log: ServerLog) -> None:
        self._config = config
        self._parts = parts
        self._log = log
        self._client: Client | None = None
        self._process: ServerProcess | None = None
        self._news = asyncio.Event()  # its tools changed, or it ended
        self._has_ended = False
        loop = asyncio.get_running_loop()
        self.started_at = loop.time()
        self.opened: asyncio.Future[str] = loop.create_future()
        self.over: asyncio.Future[str] = loop.create_future()
        self.job: Job | None = None  # that runs it
        self.unwanted = False  # the user or the end of the session ended it

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        running = self._process is None or self._process.is_running
        return self._client is not None and running and not self.over.done()

    def may_take(self, grace_s: float) -> None:
        """How long the program may take to end when it is told to."""
        if self._process is not None:
            self._process.grace_s = grace_s

    def end(self) -> None:
        """Give it up: ``run`` returns, and what is left of the program is ended."""
        if self._process is not None:
            self._process.end_output()
        else:
            self._on_ended()

    async def run(self, take_tools: TakeTools) -> str:
        """Start, hand over the tools now and whenever they change; returns why it ended."""
        try:
            await asyncio.to_thread(_import_sdk)
            await self._serve_calls(take_tools)
        except ConnectionFailed as failed:
            return str(failed)
        finally:
            self._client = None
        return self._process.ended if self._process is not None else ""

    async def _serve_calls(self, take_tools: TakeTools) -> None:
        import anyio
        import httpx2
        from mcp import MCPError

        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._config.timeout_s):
                    client = await self._open_client(stack)
                    tools = await self._list_tools(client)
                await take_tools(tools)
                self._client = client
                await stack.enter_async_context(self._told_of_changes(client))
                while await self._news.wait() and not self._has_ended:
                    await asyncio.sleep(_SETTLE_S)
                    self._news.clear()
                    await take_tools(await self._list_tools(client))
        except TimeoutError as error:
            words = f"it did not answer within {self._config.timeout_s:g} s"
            last = self._log.last_line
            raise ConnectionFailed(printable_line(f"{words}: {last}" if last else words)) from error
        except ProgramRefused as refused:
            raise ConnectionFailed(str(refused)) from refused
        except OSError as error:
            words = error.strerror or str(error)
            named = f"{words}: {error.filename}" if error.filename else words
            raise ConnectionFailed(printable_line(named)) from error
        except (
            MCPError, httpx2.HTTPError, anyio.BrokenResourceError, anyio.ClosedResourceError,
            # What is no answer of this protocol: the SDK's models and its negotiation say so.
            ValueError, RuntimeError, RecursionError,
        ) as error:  # fmt: skip
            raise ConnectionFailed(self._failure_reason(error)) from error
        except ExceptionGroup as group:
            raise ConnectionFailed(self._failure_reason(_first_exception(group))) from group

    def _failure_reason(self, error: Exception) -> str:
        if self._process is not None and self._process.ended:
            return self._process.ended
        return printable_line(_describe_error(error))

    async def _open_client(self, stack: AsyncExitStack) -> Client:
        import mcp
        from mcp import Client

        return await stack.enter_async_context(
            Client(
                self._open_streams(),
                read_timeout_seconds=self._config.timeout_s,
                message_handler=self._handle_message,
                client_info=mcp.Implementation(name="duckflow-tui", version="0.1.0"),
                cache=None,
            )
        )

    @asynccontextmanager
    async def _open_streams(self) -> AsyncGenerator[TransportStreams]:
        config = self._config
        if config.url:
            from mcp.client.streamable_http import streamable_http_client

            async with (
                await asyncio.to_thread(
                    http_client, config.url, config.name, self._parts.store
                ) as http,
                streamable_http_client(
                    config.url, http_client=http, max_sse_event_size=MAX_EVENT
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

    async def _list_tools(self, client: Client) -> list[types.Tool]:
        found: list[types.Tool] = []
        cursor: str | None = None
        if client.server_capabilities.tools is None:
            return found
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            found.extend(page.tools)
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    # --- what it tells by itself ----------------------------------------------------------------

    def _on_ended(self) -> None:
        self._has_ended = True
        self._news.set()

    async def _handle_message(self, message: IncomingMessage) -> None:
        from mcp.types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._news.set()

    @asynccontextmanager
    async def _told_of_changes(self, client: Client) -> AsyncGenerator[None]:
        """Newer servers tell of changes only on a stream that is asked for."""
        from mcp.types.version import MODERN_PROTOCOL_VERSIONS

        tools = client.server_capabilities.tools
        wanted = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not wanted or tools is None or not tools.list_changed:
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
        from mcp import MCPError

        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._news.set()
        except (MCPError, RuntimeError, TimeoutError) as lost:
            self._log.add_line(f"[no more news of its tools] {printable_line(str(lost))}")

    # --- calls ----------------------------------------------------------------------------------

    async def call(self, tool: str, args: JsonObject, progress: Progress) -> types.CallToolResult:
        """The server's answer. Raises ConnectionFailed; a cancellation is told to the server."""
        import anyio
        from mcp import MCPError, types

        client = self._client
        if client is None:
            raise ConnectionFailed("it does not run")
        answers: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
            types.CallToolResult | types.InputRequiredResult
        )
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=tool, arguments=args)
        )
        try:
            # Not ``call_tool``: that runs the regular expressions of the server's own schema.
            result = await client.session.send_request(
                request, answers, progress_callback=_Progress(progress)
            )
        except MCPError as error:
            if error.message == _CLOSED:  # a server can use the code as well
                raise ConnectionFailed(await self._end_reason(), passing=True) from error
            if error.code == types.REQUEST_TIMEOUT:
                raise ConnectionFailed(
                    f"it did not answer within {self._config.timeout_s:g} s", passing=True
                ) from error
            raise ConnectionFailed(printable_line(error.message)) from error
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise ConnectionFailed(await self._end_reason(), passing=True) from error
        except (ValueError, RecursionError) as error:
            raise ConnectionFailed(printable_line(_describe_error(error))) from error
        if not isinstance(result, types.CallToolResult):
            raise ConnectionFailed("it asks for input in the middle of a call; that is not offered")
        return result

    async def _end_reason(self) -> str:
        done, _ = await asyncio.wait({self.over}, timeout=_REASON_S)
        reason = self.over.result() if done else ""
        return reason or "the connection was closed"


class _Progress:
    """Passes on at most ten notes a second."""

    def __init__(self, tell: Progress) -> None:
        self._tell = tell
        self._next = 0.0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return
        self._next = now + 0.1
        part = f"{progress:g}/{total:g}" if total else f"{progress:g}"
        self._tell(printable_line(f"{part} {message or ''}", 120))


def _describe_error(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"its answer breaks the protocol: {where}: {first['msg']}"
    return str(error) or type(error).__name__


def _first_exception(group: BaseExceptionGroup[Exception]) -> Exception:
    """The first real exception in nested groups."""
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]  # type: ignore[reportUnknownMemberType]  # of any kind
    return inner if isinstance(inner, Exception) else group  # type: ignore[return-value]  # a group of them
