"""The network of a command, host by host: what was consented to is reached, nothing else is.

The internet is a server of the test on a loopback address, which is consented to by its number.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import sys
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.bench import done
from support.shell import ShellBench, no_full_sandbox

from duckflow_tui.safety.hosts import has_host, is_covered, is_loopback, is_public, read_host
from duckflow_tui.session.network import host_facts
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.state.usage import HostContacted
from duckflow_tui.tools.command_runner import SandboxChoice
from duckflow_tui.tools.proxy import MAX_CONNECTIONS, HostProxy
from duckflow_tui.words.catalogue import Catalogue

RUN = "shell.run"
PYTHON = os.path.realpath(sys.executable)

#: Sends what it is given to the proxy, or past it, and prints the answer.
CLIENT = """
import os, socket, sys
way, text = sys.argv[1], sys.argv[2].encode().decode("unicode_escape").encode()
where = os.environ.get("HTTP_PROXY", "http://127.0.0.1:3128").rpartition("/")[2].split(":")
if way != "proxy":
    where = way.split(":")
try:
    with socket.create_connection((where[0], int(where[1])), timeout=10) as s:
        s.sendall(text)
        while data := s.recv(65536):
            print(data.decode(), flush=True)
except OSError as error:
    print("failed:", error)
"""


class Internet(NamedTuple):
    """A server of the test: what it was sent. ``/stay`` is answered, and left open until ``go``."""

    port: int
    heads: list[str]
    go: asyncio.Event

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def internet() -> AsyncGenerator[Internet]:
    heads: list[str] = []
    go = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            wait = "/stay" in heads[-1]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            await writer.drain()
            if wait:
                await go.wait()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield Internet(server.sockets[0].getsockname()[1], heads, go)
    finally:
        go.set()
        server.close()


@pytest.fixture(params=["bwrap", "namespaces"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ShellBench]:
    root = tmp_path / "work"
    root.mkdir()
    (root / "client.py").write_text(CLIENT)
    choice = SandboxChoice("auto", folder=tmp_path / "private", rungs=(request.param,))
    made = ShellBench(root, mode=ApprovalMode.TRUSTED, sandbox=choice)
    made.runner.report = made.store.dispatch
    try:
        level = await made.runner.find_level()
        if level != "full":
            why = "; ".join(made.runner.sandbox.why)
            no_full_sandbox(why) if request.param == "bwrap" else pytest.skip(why)
        yield made
    finally:
        await made.end_commands()


def send(text: str, way: str = "proxy") -> str:
    escaped = text.replace("\r", "\\r").replace("\n", "\\n")
    return f"{PYTHON} -I -S client.py {way} '{escaped}'"


def get(url: str, host: str = "example.org") -> str:
    return f"GET {url} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: x\r\n\r\n"


def connect(host: str) -> str:
    return f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n"


async def answered(
    bench: ShellBench, choice: GateChoice, command: str, hosts: object, **more: object
) -> OperationMessage:
    task = bench.begin(RUN, command=command, hosts=hosts, **more)
    await bench.answer(await bench.gate(), choice)
    return await done(task)


async def test_a_command_reaches_the_hosts_that_the_user_agreed_to_and_nothing_else(
    bench: ShellBench,
) -> None:
    async with internet() as web, internet() as other:
        url, refused = f"http://{web.host}/a?b=c", f"127.0.0.1:{other.port}"
        task = bench.begin(RUN, command=send(get(url)), hosts=[f"http://{web.host}/"])
        gate = await bench.gate()  # in trusted mode, in which all that is held runs unasked
        assert "reaches" in gate.impact.reasons
        assert (gate.facts["hosts"], gate.facts["sandbox"]) == (web.host, "full_hosts")
        assert gate.grant_pattern == f"shell.run *network {web.host}"
        await bench.answer(gate, GateChoice.REJECT)
        assert (await done(task)).result.outcome is Outcome.REJECTED
        assert web.heads == []

        message = await answered(bench, GateChoice.SESSION, send(get(url)), web.host)
        assert "hello" in message.result.text
        assert (
            web.heads[0] == f"GET /a?b=c HTTP/1.1\r\nHost: {web.host}\r\nConnection: close\r\n\r\n"
        )

        # Within what was granted nothing asks, and nothing else is reached.
        async def tried(command: str) -> str:
            return (await bench.call(RUN, command=command, hosts=[web.host])).result.text

        plain = f"{PYTHON} -c 'import urllib.request as u; print(u.urlopen(\"{url}\").read())'"
        assert "hello" in await tried(plain)  # by the variables alone
        listed = f"{PYTHON} -I -S -c 'import os; print(len(os.listdir(\"/proc/self/fd\")))'"
        assert (await tried(listed)).endswith("\n4")  # the outputs and the folder itself
        tunnel = f"{connect(web.host)}GET / HTTP/1.1\r\n\r\n"
        seen = len(web.heads)
        assert "200 Connection established" in (said := await tried(send(tunnel)))
        assert said.endswith("[network: what is no TLS was refused in a tunnel to 127.0.0.1]")
        assert len(web.heads) == seen
        for text in (
            get(f"http://{refused}/"),
            connect(refused),
        ):
            said = await tried(send(text))
            assert "403 Forbidden" in said
            assert said.endswith(f"[network: {refused} was refused; ask for it with hosts]")
        assert "failed:" in await tried(send(get("/"), web.host))  # past the proxy
        twice = get(url).replace("GET", "POST").replace("Host", "Content-Length: 2\r\nHost")
        await tried(send(f"{twice}ab{get(f'http://{refused}/')}"))
        assert len(web.heads) == seen + 1  # what follows a request goes nowhere
        for bad in (
            get("/"),
            get(url).replace("Host", "Transfer-Encoding: gzip\r\nHost"),
            get(url).replace("Host", "Host: two.example\r\nHost"),
            get(url).replace("GET", f"GET\tHTTP/1.1\nHost:\t{refused}\nX:"),
            get(url).replace("Host", "Content-Length: 1\r\nContent-Length: 2\r\nHost"),
            get(url).replace("Host", "Content-Length : 1\r\nHost"),
        ):
            assert "HTTP/1.1 4" in await tried(send(bad))
        assert len(web.heads) == seen + 1
        assert other.heads == []

        contact = next(iter(bench.store.state.hosts.values()))
        assert len(bench.store.state.hosts) == 1
        assert (contact.host, contact.requests) == (web.host, seen + 2)  # the tunnel is one too
        assert contact.sent == sum(map(len, web.heads)) + len("ab")
        assert contact.received >= 40 * len(web.heads)
        facts = host_facts(bench.store.state, contact, Catalogue("en"))
        assert facts["use"] == "commands"
        assert "your answer" in facts["setting"]

        # A command without hosts, the same one too, has no network at all.
        alone = await bench.call(RUN, command=f"env | grep -i proxy; {send(get(url))}")
        assert "failed:" in alone.result.text
        assert "3128" not in alone.result.text


async def test_two_commands_at_once_have_each_their_hosts_and_a_proxy_ends_with_its_command(
    bench: ShellBench,
) -> None:
    async with internet() as one, internet() as two:
        both = "; ".join(
            send(get(f"http://{web.host}/{way}")) for web, way in ((one, "stay"), (two, ""))
        )
        line = f"until test -e go; do sleep 0.05; done; {both}"
        waiting = await answered(bench, GateChoice.ONCE, line, [two.host], background=True)
        process_id = waiting.result.summary
        said = await answered(
            bench, GateChoice.ONCE, f"touch go; {send(get(f'http://{one.host}/'))}", [one.host]
        )
        assert "hello" in said.result.text
        await bench.until(
            lambda state: not state.processes or not any(p.is_running for p in state.processes)
        )
        told = await bench.background.describe_newest(process_id, 50)
        assert f"[network: {one.host} was refused" in told
        assert (len(one.heads), len(two.heads)) == (1, 1)

        stays = send(get(f"http://{one.host}/stay"))
        held = await answered(bench, GateChoice.ONCE, stays, [one.host], background=True)
        await bench.until(lambda state: state.hosts[f"command  {one.host} "].requests == 2)
        ending = asyncio.create_task(bench.background.end(held.result.summary, "model"))
        await asyncio.wait({ending}, timeout=10)
        assert ending.done()  # whatever the server does
        assert len(one.heads) == 2


@contextlib.asynccontextmanager
async def proxy_of(
    hosts: list[str], heard: list[HostContacted] | None = None
) -> AsyncGenerator[tuple[HostProxy, int]]:
    """A proxy to these hosts and its port, without a sandbox."""
    proxy = HostProxy(hosts, (lambda _: None) if heard is None else heard.append)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.socket(fileno=os.dup(proxy.channel_fd)) as channel:
            socket.send_fds(channel, [b"+"], [listening.fileno()])
    proxy.begin_listening()
    try:
        yield proxy, port
    finally:
        await proxy.close()


async def ask(port: int, data: str | bytes) -> str:
    """All that comes back for what is sent to this port."""
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            writer.write(data.encode() if isinstance(data, str) else data)
            return (await reader.read()).decode()


async def test_a_name_that_leads_to_a_private_address_and_endless_requests_are_refused() -> None:
    """``127.1`` is a name to us and an address to the system, as a name of anybody's DNS may be."""
    heard: list[HostContacted] = []
    async with internet() as web:
        hosts = [f"127.1:{web.port}", "127.0.0.1:1", web.host]
        async with proxy_of(hosts, heard) as (proxy, port):
            said = await ask(port, connect(f"127.1:{web.port}"))
            assert "403 Forbidden" in said
            assert "not public (127.0.0.1)" in said
            assert "not public" in proxy.refused_hosts
            assert "502 Bad Gateway" in await ask(port, connect("127.0.0.1:1"))
            assert "400 Bad Request" in await ask(port, "GET / HTTP/1.1\r\nX: " + "x" * 100_000)
            digits = get(f"http://{web.host}/").replace(
                "Host", f"Content-Length: {'9' * 5000}\r\nHost"
            )
            assert "400 Bad Request" in await ask(port, digits)
            many = [
                await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS)
            ]
            assert "503" in await ask(port, "")
            for _, writer in many:
                writer.close()
            assert (web.heads, heard) == ([], [])
            for _ in range(30):
                await ask(port, get(f"http://{web.host}/"))
        assert 1 < len(heard) < 20  # however fast it asks, the record stays small
        assert (sum(h.requests for h in heard), len(web.heads)) == (30, 30)
        assert sum(h.sent for h in heard) == sum(map(len, web.heads))
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_a_body_in_pieces_ends_where_it_says_so() -> None:
    async with internet() as web, proxy_of([web.host]) as (_, port):
        url = f"http://{web.host}/a"
        body = "4\r\nbody\r\n0\r\n\r\n"
        head = get(url).replace("GET", "POST").replace("Host", "Transfer-Encoding: chunked\r\nHost")
        assert "hello" in await ask(port, f"{head}{body}{get(url)}")
        assert len(web.heads) == 1
        assert "Transfer-Encoding: chunked" in web.heads[0]


def greet(name: str | None, piece: int = 1 << 14) -> bytes:
    """The first message of a client that speaks TLS, in records of so many bytes."""
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    message = outgoing.read()[5:]
    parts = (message[at : at + piece] for at in range(0, len(message), piece))
    return b"".join(b"\x16\x03\x01" + len(part).to_bytes(2) + part for part in parts)


@pytest.mark.parametrize("piece", [7, 1 << 14])
async def test_tls_through_a_tunnel_asks_for_the_host_that_was_allowed_or_goes_nowhere(
    piece: int,
) -> None:
    """Also when its first message comes in many small records, or ends too early."""
    got = bytearray()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            got.extend(await reader.read(1 << 16))
            writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host = f"localhost:{server.sockets[0].getsockname()[1]}"
    async with server, proxy_of([host]) as (proxy, port):
        for name in ("localhost", "LOCALHOST", None):
            sent = greet(name, piece)
            assert "hello" in await ask(port, connect(host).encode() + sent)
            assert sent.startswith(got)
            got.clear()
        reader, silent = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(silent):
            silent.write(connect(host).encode())
            silent.write_eof()  # who says nothing asks for no other host
            assert b"hello" in await asyncio.wait_for(reader.read(), 10)
        assert proxy.refused_hosts == ""
        for name in ("evil.example", "a.localhost", "localhost.evil.example"):
            said = await ask(port, connect(host).encode() + greet(name, piece))
            assert said.startswith("HTTP/1.1 200")
            assert "hello" not in said
            assert f"TLS for {name} was refused in a tunnel to localhost" in proxy.refused_hosts
        for other in (b"\x16\x03\x01\xff\xff" * 9, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"):
            assert "hello" not in await ask(port, connect(host).encode() + other)
        assert "what is no TLS was refused in a tunnel to localhost" in proxy.refused_hosts
        assert got == b""


async def test_names_that_are_looked_up_for_long_hold_up_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many they are."""
    over, asked, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

    def look_up(*_: object, **__: object) -> list[object]:
        loop.call_soon_threadsafe(asked.set)
        over.wait(30)
        raise OSError("no such name")

    hosts = [f"slow{number}.example" for number in range(60)]
    async with proxy_of(hosts) as (_, port):
        with monkeypatch.context() as patched:
            patched.setattr(socket, "getaddrinfo", look_up)
            waiting = [asyncio.create_task(ask(port, connect(f"{host}:443"))) for host in hosts]
            async with asyncio.timeout(10):
                await asked.wait()
                assert await asyncio.to_thread(lambda: "at once") == "at once"
            over.set()
            answers = await asyncio.gather(*waiting)
    assert all("502 Bad Gateway" in said for said in answers)


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ("PyPI.org.", "pypi.org"),
        ("https://pypi.org/simple/?q=1", "pypi.org"),
        ("pypi.org:8080", "pypi.org:8080"),
        ("[::1]:80", "[::1]:80"),
        ("::1", "::1"),
        ("*.pypi.org", ""),
        ("127.1", ""),
        ("0x7f000001", ""),
        ("2130706433", ""),
        ("user@pypi.org", ""),
        ("pypi.org:0", ""),
        ("pypi.org:x", ""),
        ("pypi.org files", ""),
        ("pypi..org", ""),
        ("", ""),
    ],
)
def test_a_host_is_written_in_one_way_and_a_pattern_is_none(given: str, host: str) -> None:
    if host:
        assert read_host(given) == read_host(host) == host
        return
    with pytest.raises(ValueError, match="host"):
        read_host(given)


@pytest.mark.parametrize(
    ("host", "here"),
    [
        *((host, True) for host in ("localhost", "localhost:8080", "a.localhost", "127.0.0.1:80")),
        *((host, True) for host in ("::1", "[::1]:80", "127.9.9.9")),
        *((host, False) for host in ("pypi.org", "192.168.1.1", "localhost.org", "notlocalhost:1")),
    ],
)
def test_a_host_is_this_machine_by_its_name(host: str, here: bool) -> None:
    assert is_loopback(host) is here


def test_a_host_without_a_port_stands_for_those_of_the_web() -> None:
    reached = [
        port for port in range(1, 9000) if has_host(["pypi.org", "a:8080"], "pypi.org", port)
    ]
    assert reached == [80, 443]
    assert [port for port in range(1, 9000) if has_host(["a:8080"], "a", port)] == [8080]
    assert is_covered(["pypi.org:443", "a:8080"], ["pypi.org", "a:8080"])
    assert not is_covered(["pypi.org:8080"], ["pypi.org"])
    assert not is_covered(["pypi.org"], ["pypi.org:443"])


def test_only_addresses_that_everybody_reaches_are_public() -> None:
    ours = "127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1"
    ours += " ::1 fe80::1%eth0 fd00::1 ::ffff:10.0.0.1 2002:7f00:1:: 64:ff9b::7f00:1 nonsense"
    ours += " ::127.0.0.1 ::a9fe:a9fe ::ffff:0:127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::7f00:1"
    ours += " 64:ff9b:1:7f00:0:100:: fec0::1 3fff::1 5f00::1 100::1 2001:db8::1 ff0e::1"
    assert [address for address in ours.split() if is_public(address)] == []
    public = "93.184.215.14 2606:2800:21f:cb07:6820:80da:af6b:8b2c 64:ff9b::5db8:d70e"
    public += " ::ffff:93.184.215.14 2002:5db8:d70e::1 2a00:1450::1 240e::1"
    assert [address for address in public.split() if not is_public(address)] == []
