"""The proxy by which a sandboxed command reaches the hosts that the user agreed to, and no others.

It runs in the app, outside of the sandbox. Its listening socket belongs to the sandbox's own
network: ``sandbox_worker.py`` opens it there and passes it to the app before the command starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import h11

from duckflow_tui.safety.hosts import has_host, is_loopback, is_public, names_address
from duckflow_tui.state.base import one_line
from duckflow_tui.state.usage import HostContacted
from duckflow_tui.tools.sandbox_worker import PROXY

MAX_CONNECTIONS: Final = 64  # of one command at a time
HEAD_S: Final = 30.0  # seconds in which the head of a request must arrive
CONNECT_S: Final = 20.0  # seconds for a name and a connection to its address
IDLE_S: Final = 300.0  # seconds without a byte in either direction
TOLD_S: Final = 1.0  # seconds between two reports on one host
_HEAD: Final = 32 * 1024  # bytes of a request before its body
_PIECE: Final = 64 * 1024  # bytes; the first message of TLS is shorter
_TOLD: Final = 10  # refused hosts that are reported

#: Headers between a client and its proxy, and those that the proxy writes itself.
_OWN_HEADERS: Final = frozenset(
    {b"host", b"connection", b"keep-alive", b"te", b"upgrade", b"content-length"}
    | {b"transfer-encoding", b"proxy-connection", b"proxy-authorization"}
)

#: Threads to resolve names, so that a slow name server delays no other work.
_LOOKUPS: Final = ThreadPoolExecutor(8, thread_name_prefix="names")

Report = Callable[[HostContacted], None]


class NotPassedOn(Exception):
    """A request that the proxy does not pass on. ``status`` is the HTTP status of its answer, the
    text the reason.
    """

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


def proxy_variables(hosts: Iterable[str]) -> Mapping[str, str]:
    """Return the environment variables that make programs use the proxy. Loopback addresses are
    excepted unless a loopback host is among ``hosts``.
    """
    url = f"http://{PROXY[0]}:{PROXY[1]}"
    direct = "" if any(map(is_loopback, hosts)) else "localhost,127.0.0.1,::1"
    found = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "ALL_PROXY": url, "NO_PROXY": direct}
    return found | {name.lower(): value for name, value in found.items()}


class HostProxy:
    """The proxy of one command, in service from ``begin_listening`` until ``close``."""

    def __init__(self, hosts: Iterable[str], report: Report) -> None:
        """``report`` is called with the requests and bytes of each host, at most once in ``TOLD_S``
        seconds for a host, and at the end.
        """
        self._hosts = frozenset(hosts)
        self._report = report
        self._ours, self._theirs = socket.socketpair()
        self._starting: asyncio.Task[asyncio.Server] | None = None
        self._served: set[asyncio.Task[None]] = set()
        self._refused: dict[str, str] = {}  # hosts, each with the message for the model
        self._untold: dict[str, HostContacted] = {}  # traffic of each host since the last report
        self._told: dict[str, float] = {}  # monotonic time of the last report on each host

    @property
    def channel_fd(self) -> int:
        """The descriptor that the command's sandbox inherits to send its listening socket; valid
        until ``begin_listening``.
        """
        return self._theirs.fileno()

    @property
    def refused_hosts(self) -> str:
        """A line for the model on each refused host, at most ten; empty for none."""
        return "\n".join(f"[network: {said}]" for said in self._refused.values())

    def begin_listening(self) -> None:
        """Close the sandbox's end of the channel, which it has inherited by now, and wait in the
        background for its listening socket.
        """
        self._theirs.close()
        self._ours.setblocking(False)
        asyncio.get_running_loop().add_reader(self._ours, self._take_socket)

    async def close(self) -> None:
        """Stop listening, end every connection, and report the traffic that was not
        reported yet.
        """
        asyncio.get_running_loop().remove_reader(self._ours)
        self._ours.close()
        self._theirs.close()
        if self._starting is not None:
            (await self._starting).close()
        for task in self._served:
            task.cancel()
        await asyncio.gather(*self._served, return_exceptions=True)
        for contact in self._untold.values():
            self._report(contact)

    def _count_traffic(
        self, host: str, requests: int = 0, sent: int = 0, received: int = 0
    ) -> None:
        """Add to the traffic of a host, and report it if the last report on the host is
        old enough.
        """
        now, at = time.monotonic(), time.time()
        old = self._untold.get(host) or HostContacted(host=host, use="command", at=at)
        self._untold[host] = old.replace(
            at=at,
            requests=old.requests + requests,
            sent=old.sent + sent,
            received=old.received + received,
        )
        if now - self._told.get(host, -TOLD_S) >= TOLD_S:
            self._told[host] = now
            self._report(self._untold.pop(host))

    def _take_socket(self) -> None:
        """Receive the listening socket from the sandbox and start to serve on it."""
        asyncio.get_running_loop().remove_reader(self._ours)
        with contextlib.suppress(OSError):  # a sandbox that failed sends nothing
            received = socket.recv_fds(self._ours, 1, 1, socket.MSG_CMSG_CLOEXEC)
            for descriptor in received[1]:
                listening = socket.socket(fileno=descriptor)
                serving = asyncio.start_server(self._serve_client, sock=listening, limit=_HEAD)
                self._starting = asyncio.create_task(serving, name="proxy")

    async def _serve_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one connection: read its request, connect to the target, and pass data in both
        directions. A request that is refused gets an HTTP error.
        """
        task = asyncio.current_task()
        assert task is not None
        self._served.add(task)
        client = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD)
        try:
            if len(self._served) > MAX_CONNECTIONS:
                raise NotPassedOn("503 Service Unavailable", "too many connections at a time")
            async with asyncio.timeout(HEAD_S):
                request = await _read_event(client, reader)
            if not isinstance(request, h11.Request):
                return  # the client hung up
            name, port, path = _parse_target(request)
            answers, upstream = await self._connect_to_target(name, port)
            if path:
                shown = f"[{name}]" if ":" in name else name
                host = shown if port == 80 else f"{shown}:{port}"
                sent = _rebuild_request(request, host, path, partial(_read_event, client, reader))
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                sent = self._read_tunnel(name, client.trailing_data[0], reader, upstream)
            await self._pass_on(f"{name}:{port}", sent, upstream, answers, writer)
        except (NotPassedOn, h11.RemoteProtocolError) as no:
            status = no.status if isinstance(no, NotPassedOn) else "400 Bad Request"
            body = f"duckflow-tui: {no}\n".encode()
            head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        except OSError:
            pass  # the client hung up, or was silent for too long
        finally:
            self._served.discard(task)
            writer.close()

    async def _connect_to_target(
        self, name: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a host that the user agreed to, at a public address unless the host is named
        by its address. Raises NotPassedOn where that is refused or fails.
        """
        shown = name if has_host((name,), name, port) else f"{name}:{port}"
        if not has_host(self._hosts, name, port):
            raise self._refuse_request(shown, f"{shown} was refused; ask for it with hosts")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                look_up = partial(socket.getaddrinfo, name, port, type=socket.SOCK_STREAM)
                found = await loop.run_in_executor(_LOOKUPS, look_up)
                addresses = dict.fromkeys(str(entry[4][0]) for entry in found)
                allowed = [one for one in addresses if names_address(name) or is_public(one)]
                if not allowed:
                    why = "was refused: it leads to an address that is not public"
                    raise self._refuse_request(shown, f"{shown} {why} ({', '.join(addresses)})")
                failed: OSError | None = None
                # Only the checked addresses: the name may resolve to others later.
                for address in allowed:
                    try:
                        return await asyncio.open_connection(address, port)
                    except OSError as error:
                        failed = error
        except OSError as error:  # a time-out is one
            failed = error
        reason = (failed and failed.strerror) or "no answer"
        raise NotPassedOn("502 Bad Gateway", f"{shown} could not be reached: {reason}")

    def _refuse_request(self, name: str, message: str) -> NotPassedOn:
        """Note a refusal for the model under this name, and return the exception to raise."""
        if len(self._refused) < _TOLD:
            self._refused.setdefault(name, one_line(message, 200))
        return NotPassedOn("403 Forbidden", message)

    async def _read_tunnel(
        self,
        name: str,
        first: bytes,
        reader: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> AsyncGenerator[bytes]:
        """Yield the bytes that the client sends through its tunnel to ``name``, beginning with
        ``first``; at their end, close the sending side of ``upstream``. Raises NotPassedOn for
        anything but TLS and for TLS to another host, since one address may serve many hosts.
        """
        data, asked = await _read_server_name(first or await reader.read(_PIECE), reader)
        if data and asked not in (name, ""):
            what = "what is no TLS" if asked is None else f"TLS for {asked}"
            said = f"{what} was refused in a tunnel to {name}"
            raise self._refuse_request(said, said)
        while data:
            yield data
            data = await reader.read(_PIECE)
        upstream.write_eof()

    async def _pass_on(
        self,
        host: str,
        sent: AsyncGenerator[bytes],
        upstream: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Send these pieces to the host and its answers to the client until the host closes the
        connection, and count the traffic. Raises TimeoutError after ``IDLE_S`` seconds without a
        byte.
        """
        self._count_traffic(host, requests=1)
        counted = {"sent": 0, "received": 0}
        loop = asyncio.get_running_loop()

        async def send(piece: bytes, to: asyncio.StreamWriter, way: str) -> None:
            """Write a piece, count its bytes, and restart the idle time-out."""
            to.write(piece)
            counted[way] += len(piece)
            idle.reschedule(loop.time() + IDLE_S)
            await to.drain()

        async def send_all() -> None:
            """Send all pieces to the host; on an error, close the connection to it."""
            try:
                async for piece in sent:
                    await send(piece, upstream, "sent")
            except (NotPassedOn, h11.ProtocolError, OSError):
                upstream.close()

        back = asyncio.create_task(send_all())
        try:
            async with asyncio.timeout(IDLE_S) as idle:
                while piece := await answers.read(_PIECE):
                    await send(piece, writer, "received")
        finally:
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)
            upstream.close()
            self._count_traffic(host, **counted)


async def _read_event(client: h11.Connection, reader: asyncio.StreamReader) -> object:
    """Return the next HTTP event of a client. Raises h11.RemoteProtocolError for invalid HTTP."""
    while (event := client.next_event()) is h11.NEED_DATA:
        client.receive_data(await reader.read(_PIECE))
    return event


def _parse_target(request: h11.Request) -> tuple[str, int, str]:
    """Return host, port and path of a request to the proxy; the path is empty for CONNECT, which
    opens a tunnel. Raises NotPassedOn for anything that is no request to a proxy.
    """
    target, tunnel = request.target.decode("ascii"), request.method == b"CONNECT"
    with contextlib.suppress(ValueError):
        url = urlsplit(f"//{target}" if tunnel else target)
        name, port = (url.hostname or "").removesuffix("."), url.port
        if name and port and tunnel:
            return name, port, ""
        if name and url.scheme == "http":
            query = f"?{url.query}" if url.query else ""
            return name, port or 80, f"{url.path or '/'}{query}"
    raise NotPassedOn("400 Bad Request", "this is a proxy, and that is no request to one")


async def _rebuild_request(
    request: h11.Request, host: str, path: str, read_event: Callable[[], Awaitable[object]]
) -> AsyncGenerator[bytes]:
    """Yield the request and its body, rebuilt from the parsed parts with ``host`` as its Host
    header, whatever the client's headers say. Nothing that the client sends behind it is passed
    on.
    """
    given = dict(request.headers)
    headers = [(b"Host", host.encode()), (b"Connection", b"close")]
    headers += [(n, v) for n, v in request.headers.raw_items() if n.lower() not in _OWN_HEADERS]
    if b"transfer-encoding" in given:  # chunked is the only one that h11 parses
        headers.append((b"Transfer-Encoding", b"chunked"))
    elif b"content-length" in given:
        headers.append((b"Content-Length", given[b"content-length"]))
    server = h11.Connection(h11.CLIENT)
    event: object = h11.Request(method=request.method, target=path, headers=headers)
    while isinstance(event, h11.Request | h11.Data):
        yield server.send(event) or b""
        event = await read_event()
    yield server.send(h11.EndOfMessage()) or b""


async def _read_server_name(data: bytes, reader: asyncio.StreamReader) -> tuple[bytes, str | None]:
    """Read a client's TLS greeting, which begins with ``data``; return the bytes read and the host
    that it names: empty for none, None where the greeting is invalid.
    """
    names: list[str] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.sni_callback = lambda _, name, __: names.append((name or "").lower().rstrip("."))
    incoming = ssl.MemoryBIO()
    tls, more = context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True), data
    with contextlib.suppress(ssl.SSLError):  # expected: there is no certificate to answer with
        while more and len(data) <= _PIECE:
            incoming.write(more)
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            if names:
                break
            data += (more := await reader.read(_PIECE))
    return data, names[0] if names else None
