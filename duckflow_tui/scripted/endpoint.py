"""A real HTTP server on the loopback that plays a model from a script.

The demo talks to it, and so do the tests: whatever is true of the program against it is true
of the program over HTTP.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import parse_headers
from io import BytesIO
from types import TracebackType
from typing import Final, cast

from duckflow_tui.scripted.http_answer import (
    Answer,
    ConnectionCut,
    cut_connection,
    send_whole_fault,
    stall_reply,
)
from duckflow_tui.scripted.replies import (
    Fault,
    Reply,
    Script,
    all_text,
    new_text,
    unpaired_call,
)
from duckflow_tui.scripted.speech import ResponseSpeech, Speech
from duckflow_tui.state.base import JsonObject

MAX_HEAD: Final = 64 * 1024
MAX_BODY: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    raw: bytes
    json: JsonObject

    @property
    def purpose(self) -> str:
        """The purpose of the call; ``main`` where it does not say."""
        return self.headers.get("x-duckflow-purpose", "main")

    @property
    def thread(self) -> str:
        """The id of the turn, step or message that the call works for."""
        return self.headers.get("x-duckflow-thread", "").removeprefix("aside ")

    @property
    def is_aside(self) -> bool:
        """Whether the call answers a message beside running work."""
        return self.headers.get("x-duckflow-thread", "").startswith("aside ")

    @property
    def new_text(self) -> str:
        """The text that is new since the last reply."""
        return new_text(self.json)

    @property
    def text(self) -> str:
        """The text of all messages."""
        return all_text(self.json)


#: Writes the reply to a request for which no queue holds one; None leaves it to the fallback.
Author = Callable[[Request], Reply | None]
#: Answers a request in place of the script, whatever its path; None leaves it to the script.
Guard = Author


@dataclass(slots=True)
class _Hold:
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)  # the client hung up meanwhile


class ScriptedEndpoint:
    """``async with ScriptedEndpoint(script) as server``: serves ``server.base_url``.

    ``requests`` holds every request, oldest first. Serves one event loop.
    """

    def __init__(
        self,
        script: Script,
        *,
        port: int = 0,
        author: Author | None = None,
        guard: Guard | None = None,
        base: str = "/v1",
    ) -> None:
        """``base`` is what the path of every call begins with."""
        self._script = script
        self._author = author
        self._guard = guard
        self._base = base
        self._port = port
        self._queues = {purpose: list(replies) for purpose, replies in script.replies.items()}
        self._holds: dict[str, _Hold] = {}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Condition()
        self._calls = 0
        self.requests: list[Request] = []

    async def __aenter__(self) -> ScriptedEndpoint:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Listen on 127.0.0.1; the port is free to choose unless one was given."""
        self._server = await asyncio.start_server(
            self._accept_connection, "127.0.0.1", self._port, limit=MAX_HEAD
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stop listening and drop every connection."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*tuple(self._connections), return_exceptions=True)
        await server.wait_closed()

    @property
    def port(self) -> int:
        """The port that it listens on, once it was started."""
        return self._port

    @property
    def origin(self) -> str:
        """Scheme, address and port."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        """The address for an endpoint's settings."""
        return f"{self.origin}{self._base}"

    def add(self, purpose: str, *replies: Reply) -> None:
        """Append replies to the queue of a purpose."""
        self._queues.setdefault(purpose, []).extend(replies)

    def of(self, purpose: str) -> list[Request]:
        """Return the POST requests of one purpose so far, oldest first."""
        return [r for r in self.requests if r.purpose == purpose and r.method == "POST"]

    async def wait_for(self, count: int, deadline_s: float = 10.0) -> None:
        """Return once that many requests have come; raises TimeoutError."""
        async with asyncio.timeout(deadline_s), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)

    async def reached(self, hold: str, deadline_s: float = 10.0) -> None:
        """Return once a reply waits at this hold; raises TimeoutError."""
        async with asyncio.timeout(deadline_s):
            await self._get_hold(hold).reached.wait()

    async def wait_for_hangup(self, hold: str, deadline_s: float = 10.0) -> None:
        """Return once the client has hung up on a reply that waits at this hold; raises
        TimeoutError.
        """
        async with asyncio.timeout(deadline_s):
            await self._get_hold(hold).left.wait()

    def release(self, hold: str) -> None:
        """Let the rest of the replies with this hold through, now and from now on."""
        self._get_hold(hold).released.set()

    def _get_hold(self, name: str) -> _Hold:
        """Return the hold of this name, made where it is new."""
        return self._holds.setdefault(name, _Hold())

    # --- connections -------------------------------------------------------------------------

    def _accept_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a new connection in a task of its own."""
        # Not a coroutine: asyncio would report its cancellation at the end as an error.
        task = asyncio.get_running_loop().create_task(self._serve_connection(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve the requests of a connection until it ends or the script cuts it, then close it."""
        try:
            while await self._serve_request(reader, writer):
                pass
        except (
            ConnectionError,
            ConnectionCut,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ):
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()  # the server closes, whatever was still to be said
            raise
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Read one request, record it and answer it. Returns False when the client has gone. Raises
        ConnectionError, ConnectionCut and asyncio's errors of incomplete reads.
        """
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if not error.partial:
                return False
            raise
        request = await _read_request(head, reader)
        self.requests.append(request)
        async with self._arrived:
            self._arrived.notify_all()
        answer = Answer(writer, reader)
        path = request.path.partition("?")[0].removeprefix(self._base)
        if self._guard is not None and (reply := self._guard(request)) is not None:
            await self._send_reply(request, reply, answer)
        elif (
            self._script.key
            and request.headers.get("authorization") != f"Bearer {self._script.key}"
        ):
            await answer.error(401, "the key is missing or wrong")
        elif request.method == "GET" and path == "/models":
            rows = [{"id": name, "object": "model"} for name in self._script.models]
            await answer.send_whole(200, json.dumps({"object": "list", "data": rows}))
        elif request.method == "POST" and path in ("/chat/completions", "/responses"):
            await self._answer_model_call(request, answer)
        else:
            await answer.error(404, f"there is nothing at {request.method} {request.path}")
        return True

    async def _answer_model_call(self, request: Request, answer: Answer) -> None:
        """Answer a call of a model with the reply that the script has for it; with status 400 where
        the script refuses a part of the body, a call has no result, or no reply is left.
        """
        for refusal in self._script.refuses:
            if refusal.refuses(request.json):
                await answer.error(refusal.status, refusal.words)
                return
        if call_id := unpaired_call(request.json):
            await answer.error(400, f"No tool output found for function call {call_id}.")
            return
        reply = self._take_reply(request)
        if reply is None:
            await answer.error(400, f"the script has nothing left to say ({request.purpose})")
            return
        await self._send_reply(request, reply, answer)

    async def _send_reply(self, request: Request, reply: Reply, answer: Answer) -> None:
        """Send a reply after its delay, whole or as a stream as the request asks; or the fault in
        its place.
        """
        await asyncio.sleep(reply.first_delay_s)
        fault = reply.fault or Fault()
        if await send_whole_fault(fault, answer):
            return
        self._calls += 1
        kind = ResponseSpeech if "input" in request.json else Speech
        speech = kind(reply, request.json, self._calls)
        if not request.json.get("stream"):
            await answer.send_whole(200, speech.completion())
            return
        await answer.begin()
        await self._stream_reply(reply, fault, speech, answer)

    def _take_reply(self, request: Request) -> Reply | None:
        """Return the first queued reply that fits the request and take it from the queue unless it
        repeats; else that of the author, else the fallback. None without any.
        """
        queue = self._queues.get(request.purpose, [])
        for at, reply in enumerate(queue):
            if reply.when is None or reply.when.matches(request.json):
                if not reply.repeat:
                    del queue[at]
                return reply
        if self._author is not None and (written := self._author(request)) is not None:
            return written
        fallback = self._script.fallback
        return fallback.get(request.purpose) or fallback.get("*")

    async def _stream_reply(
        self, reply: Reply, fault: Fault, speech: Speech, answer: Answer
    ) -> None:
        """Stream the events of a reply, with its pauses, holds and faults. Raises ConnectionCut
        where the script cuts the connection.
        """
        if reply.raw:
            for piece in reply.raw:
                await asyncio.sleep(reply.delay_s)
                await answer.piece(piece.encode("utf-8", "surrogatepass"))
            await answer.end()
            return
        marks: list[tuple[int, Callable[[], Awaitable[None]]]] = []
        if fault.cut_after is not None:
            marks.append((fault.cut_after, cut_connection))
        if fault.stall_after is not None:
            marks.append((fault.stall_after, lambda: stall_reply(fault, answer)))
        if reply.hold:
            marks.append((reply.hold_after, lambda: self._hold_reply(reply.hold, answer)))
        marks.sort(key=lambda mark: mark[0])
        sent = 0
        for event, size in speech.events():
            while marks and sent >= marks[0][0] and size != 0:
                await answer.flush()
                await marks.pop(0)[1]()
            if reply.delay_s:
                await answer.flush()
                await asyncio.sleep(reply.delay_s)
            answer.add(event)
            sent += size or 0
        await answer.flush()
        for _, act in marks:
            await act()
        for event in speech.ending():
            answer.add(event)
        await answer.end()

    async def _hold_reply(self, name: str, answer: Answer) -> None:
        """Wait until this hold is released. Raises ConnectionCut where the client hung up."""
        hold = self._get_hold(name)
        hold.reached.set()
        if not await answer.is_waited_for(hold.released.wait()):
            hold.left.set()
            raise ConnectionCut


async def _read_request(head: bytes, reader: asyncio.StreamReader) -> Request:
    """Read the rest of the request that begins with this head; a body that is no JSON object counts
    as empty. Raises ConnectionCut for one that is too large.
    """
    first, _, rest = head.partition(b"\r\n")
    method, path, _ = (*first.decode("latin-1").split(" ", 2), "", "")[:3]
    headers = {name.lower(): value for name, value in parse_headers(BytesIO(rest)).items()}
    length = headers.get("content-length", "0")
    size = int(length) if length.isdigit() else 0
    if size > MAX_BODY:
        raise ConnectionCut
    raw = await reader.readexactly(size)
    try:
        data: object = json.loads(raw) if raw else {}
    except ValueError:
        data = {}
    body = cast("JsonObject", data) if isinstance(data, dict) else {}
    return Request(method, path, headers, raw, body)
