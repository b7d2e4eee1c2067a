"""The only way from a sandboxed command to the network: a proxy to the hosts the user agreed to.

It runs in the app, outside of the sandbox. What it listens on is a socket of the sandbox's own
network, which ``sandbox_worker.py`` opens there and hands over before the command starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from duckflow_tui.safety.hosts import has_host, is_here, is_public, named_here
from duckflow_tui.state.base import one_line
from duckflow_tui.state.usage import HostContacted
from duckflow_tui.tools.sandbox_worker import PROXY

MAX_CONNECTIONS: Final = 64  # of one command at a time
HEAD_S: Final = 30.0  # seconds until a request has said what it wants
CONNECT_S: Final = 20.0  # seconds for a name and a connection to its address
IDLE_S: Final = 300.0  # seconds without a byte in either direction
TOLD_S: Final = 1.0  # seconds between two reports on one host: a command may ask for thousands
_HEAD: Final = 32 * 1024  # bytes of a request before its body
_PIECE: Final = 64 * 1024  # bytes
_LONGEST: Final = 15  # digits of the length of a body
_TOLD: Final = 10  # refused hosts that are told of

#: Headers between a client and its proxy, and those that the proxy writes itself.
_OWN_HEADERS: Final = frozenset(
    {b"host", b"connection", b"keep-alive", b"te", b"upgrade"}
    | {b"proxy-connection", b"proxy-authorization"}
)

Report = Callable[[HostContacted], None]


class NotPassedOn(Exception):
    """A request that goes nowhere: the status of the answer, and why."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


class PassedOn(NamedTuple):
    """Where a request goes. ``head`` is sent there first, then ``body`` bytes of what follows;
    None: a tunnel, in which everything passes.
    """

    name: str
    port: int
    head: bytes = b""
    body: int | None = None


def proxy_variables(hosts: Iterable[str]) -> Mapping[str, str]:
    """The environment variables by which programs find the proxy. Their own servers on loopback
    need none, unless one of the hosts is this machine.
    """
    url = f"http://{PROXY[0]}:{PROXY[1]}"
    direct = "" if any(map(is_here, hosts)) else "localhost,127.0.0.1,::1"
    found = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "ALL_PROXY": url, "NO_PROXY": direct}
    return found | {name.lower(): value for name, value in found.items()}


class HostProxy:
    """The proxy of one command: from ``begin`` until ``close``."""

    def __init__(self, hosts: Iterable[str], report: Report) -> None:
        """``report`` hears of the requests that are passed on, and of their bytes at their end."""
        self._hosts = frozenset(hosts)
        self._report = report
        self._ours, self._theirs = socket.socketpair()
        self._server: asyncio.Server | None = None
        self._starting: asyncio.Task[None] | None = None
        self._served: set[asyncio.Task[None]] = set()
        self._refused: dict[str, str] = {}  # hosts, each with what is said of it
        self._untold: dict[str, HostContacted] = {}  # what came to each since the last report
        self._told: dict[str, float] = {}  # when that was, monotonic

    @property
    def channel_fd(self) -> int:
        """The descriptor that the command's sandbox answers on; until ``begin``."""
        return self._theirs.fileno()

    @property
    def refused_hosts(self) -> str:
        """The refused hosts, in words for the model; empty for none."""
        return "\n".join(f"[network: {said}]" for said in self._refused.values())

    def begin_listening(self) -> None:
        """The sandbox has its end of the channel: wait for the socket to listen on."""
        self._theirs.close()
        self._ours.setblocking(False)
        asyncio.get_running_loop().add_reader(self._ours, self._take_socket)

    async def close(self) -> None:
        """End every connection."""
        asyncio.get_running_loop().remove_reader(self._ours)
        self._ours.close()
        self._theirs.close()
        if self._starting is not None:
            await self._starting
        if self._server is not None:
            self._server.close()
        for task in self._served:
            task.cancel()
        await asyncio.gather(*self._served, return_exceptions=True)
        for contact in self._untold.values():
            self._report(contact)

    def _count_traffic(
        self, host: str, requests: int = 0, sent: int = 0, received: int = 0
    ) -> None:
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
        asyncio.get_running_loop().remove_reader(self._ours)
        with contextlib.suppress(OSError):  # a sandbox that could not be made sends nothing
            received = socket.recv_fds(self._ours, 1, 1, socket.MSG_CMSG_CLOEXEC)
            for descriptor in received[1]:
                listening = socket.socket(fileno=descriptor)
                self._starting = asyncio.create_task(self._listen_on(listening), name="proxy")

    async def _listen_on(self, listening: socket.socket) -> None:
        self._server = await asyncio.start_server(self._serve_client, sock=listening, limit=_HEAD)

    async def _serve_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._served.add(task)
        try:
            if len(self._served) > MAX_CONNECTIONS:
                raise NotPassedOn("503 Service Unavailable", "too many connections at a time")
            async with asyncio.timeout(HEAD_S):
                request = _parse_request(await reader.readuntil(b"\r\n\r\n"))
            there = await self._connect_to_target(request)
            await self._pass_on(request, (reader, writer), there)
        except NotPassedOn as no:
            body = f"duckflow-tui: {no}\n".encode()
            head = f"HTTP/1.1 {no.status}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # it hung up, said nothing, or too much
        finally:
            self._served.discard(task)
            writer.close()

    async def _connect_to_target(
        self, request: PassedOn
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to where a request goes; raises NotPassedOn where it may not, or cannot."""
        name, port = request.name, request.port
        shown = name if has_host((name,), name, port) else f"{name}:{port}"
        if not has_host(self._hosts, name, port):
            raise self._refuse_request(shown, f"{shown} was refused; ask for it with hosts")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                found = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
                addresses = dict.fromkeys(str(entry[4][0]) for entry in found)
                allowed = [one for one in addresses if named_here(name) or is_public(one)]
                if not allowed:
                    why = "was refused: it leads to an address that is not public"
                    raise self._refuse_request(shown, f"{shown} {why} ({', '.join(addresses)})")
                failed: OSError | None = None
                for address in allowed:  # what was looked at, whatever the name leads to later
                    try:
                        return await asyncio.open_connection(address, port)
                    except OSError as error:
                        failed = error
        except OSError as error:  # a time-out is one
            failed = error
        reason = (failed and failed.strerror) or "no answer"
        raise NotPassedOn("502 Bad Gateway", f"{shown} could not be reached: {reason}")

    def _refuse_request(self, shown: str, said: str) -> NotPassedOn:
        if len(self._refused) < _TOLD:
            self._refused.setdefault(shown, one_line(said, 200))
        return NotPassedOn("403 Forbidden", said)

    async def _pass_on(
        self,
        request: PassedOn,
        here: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        there: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        host = f"{request.name}:{request.port}"
        self._count_traffic(host, requests=1)
        counted = {"sent": len(request.head), "received": 0}
        loop = asyncio.get_running_loop()
        back: asyncio.Task[None] | None = None

        async def flow(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str, left: int | None
        ) -> None:
            while left is None or left > 0:
                data = await reader.read(_PIECE if left is None else min(left, _PIECE))
                if not data:
                    break
                writer.write(data)
                counted[way] += len(data)
                left = None if left is None else left - len(data)
                idle.reschedule(loop.time() + IDLE_S)
                await writer.drain()
            if left is None and way == "sent":
                writer.write_eof()

        (reader, writer), (answers, wants) = here, there
        try:
            if request.body is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            wants.write(request.head)
            async with asyncio.timeout(IDLE_S) as idle:
                back = asyncio.create_task(flow(reader, wants, "sent", request.body))
                await flow(answers, writer, "received", None)
        finally:
            if back is not None:
                back.cancel()
                await asyncio.gather(back, return_exceptions=True)
            wants.close()
            self._count_traffic(host, **counted)


def _parse_request(head: bytes) -> PassedOn:
    """Parse a request to the proxy; raises NotPassedOn for what is none, or cannot be bounded.

    A plain request goes on with the host of its first line, whatever its headers say, and with as
    much of a body as it names, so that nothing behind it goes to somebody else.
    """
    first, *lines = head[:-4].split(b"\r\n")
    bad = NotPassedOn("400 Bad Request", "this is a proxy, and that is no request to one")
    try:
        method, target, version = first.decode("ascii").split(" ")
        connects = method == "CONNECT"
        url = urlsplit(f"//{target}" if connects else target)
        name, port = (url.hostname or "").removesuffix("."), url.port
    except ValueError:
        raise bad from None
    if connects and name and port:
        return PassedOn(name, port)
    fields = [(n.lower(), v.strip()) for n, _, v in (line.partition(b":") for line in lines)]
    broken = any(not n or n != n.strip() or b"\n" in n + v or b"\r" in n + v for n, v in fields)
    if url.scheme != "http" or not name or not version.startswith("HTTP/1.") or broken:
        raise bad
    if any(n == b"transfer-encoding" for n, _ in fields):
        raise NotPassedOn("411 Length Required", "the length of the body must be given")
    lengths = {v for n, v in fields if n == b"content-length"} or {b"0"}
    length = lengths.pop()
    if lengths or not length.isdigit() or len(length) > _LONGEST:
        raise bad
    path = urlunsplit(("", "", url.path or "/", url.query, ""))
    shown = f"[{name}]" if ":" in name else name
    host = shown if port in (None, 80) else f"{shown}:{port}"
    own = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    kept = [line for line, (n, _) in zip(lines, fields, strict=True) if n not in _OWN_HEADERS]
    sent = b"\r\n".join([*(line.encode() for line in own), *kept, b"", b""])
    return PassedOn(name, port or 80, sent, int(length))
