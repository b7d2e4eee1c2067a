"""Which hosts a session contacts: those that were configured, each listed with what for."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from engine.test_tools_mcp_http import http_server
from support.endpoint import bench
from support.pinned import ManualClock
from support.session import action, decision, done, script, session

from duckflow_tui.llm.contacts import Contacts, outside
from duckflow_tui.llm.discovery import reach_server, servers_here
from duckflow_tui.llm.endpoints import Endpoint
from duckflow_tui.llm.transport import open_http
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.session.export import export_lines, make_export_name
from duckflow_tui.session.network import beyond_words
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.state.usage import HostContact, HostContacted, LlmCallFinished
from duckflow_tui.tools.mcp.http import http_client
from duckflow_tui.words.catalogue import LANGUAGES, Catalogue

_hooked: list[bool] = []
_heard: list[list[str]] = []  # where to the process connects, or whose address it looks up


def _hook(name: str, args: tuple[Any, ...]) -> None:
    if not _heard or name not in ("socket.connect", "socket.sendto", "socket.getaddrinfo"):
        return
    address: Any = args[1] if name != "socket.getaddrinfo" else args
    if not isinstance(address, str | bytes):  # which is a socket of this machine
        _heard[-1].append(f"{address[0]}:{address[1]}")


@contextmanager
def contacts_heard() -> Generator[list[str]]:
    """Each address that this process connects to, as the interpreter itself tells."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_hook)  # which no interpreter takes away again
    _heard.append([])
    try:
        yield _heard[-1]
    finally:
        _heard.pop()


def host_of(url: str) -> str:
    return urlsplit(url).netloc


async def test_a_whole_session_contacts_only_what_is_configured_and_lists_all_of_it(
    tmp_path: Path,
) -> None:
    """Two turns with a tool of a server, commands and a judgement; then a resume, which forgets
    nothing, and an export.
    """
    replies = script(
        decision("I double.", action("mcp.net.double", number=21)),
        decision("I look.", action("shell.run", command="echo done", outside=True)),
        decision("Again.", action("shell.run", command="echo again")),
        done("42."),
        done("Yes."),
    )
    with contacts_heard() as heard, http_server("--json") as (url, _):
        environ = {"DUCKFLOW_MCP__SERVERS__NET__URL": url}
        async with session(tmp_path, replies, environ=environ) as made:
            await made.engine.send("What is twice 21?")
            for _ in ("tool", "command", "command"):
                gate = await made.gate()
                await made.answer(GateChoice.ONCE)
                await made.until(lambda state, gate=gate: gate not in state.gates)
            await made.ended()
            await made.turn("Sure?")
            await made.engine.run_command("true")
            await made.until(
                lambda state: any(m.kind == "operation" and m.by_user for m in state.messages)
            )
            assert {host_of(url), made.server.origin.partition("://")[2]} == set(heard)
            model, tools = sorted(made.state.hosts.values(), key=lambda host: host.use != "model")
            asked = made.server.requests
            assert (model.host, model.use) == (host_of(made.server.base_url), "model")
            assert (model.name, model.setting, model.via) == ("cli", "--base-url", "")
            roles = dict.fromkeys(e.call.role for e in made.events(LlmCallFinished))
            assert model.roles == tuple(roles)
            assert {"main", "evaluator"} <= set(model.roles)
            assert model.requests == len(asked) > 3
            heads = sum(len(n) + len(v) for r in asked for n, v in r.headers.items())
            assert model.sent == heads + sum(len(request.raw) for request in asked)
            assert model.received > 1000
            assert 0 < model.first < model.last
            assert (tools.host, tools.use, tools.name) == (host_of(url), "mcp", "net")
            assert tools.setting == "mcp.servers.net.url"
            assert tools.requests >= 4
            assert tools.sent > tools.requests * 200
            assert tools.received > 300
            state, session_id = made.state, made.session_id
            folder = made.ending.folder
            assert folder is not None
    async with session(tmp_path, script(done()), resume=session_id) as made:
        assert made.state.hosts == state.hosts
    for level, opened in (("none", 3), ("full", 2)):
        state.session = state.session.replace(sandbox=level)
        said = f"Commands run with the network open: {opened}."
        assert said in beyond_words(state, Catalogue("en"))
    text = "\n".join(export_lines(folder, "network", Catalogue("en"), str))
    assert f"| {model.host} | the model | {', '.join(model.roles)} | --base-url |" in text
    assert f"| {tools.host} | tools: net |" in text
    assert Catalogue("en")("network.beyond") in text
    assert make_export_name(session_id, "network") == f"duckflow-{session_id}-network.md"


async def test_what_was_looked_for_before_a_session_and_beside_it_is_listed_too(
    tmp_path: Path, port_of_nobody: int
) -> None:
    token = outside.set(Contacts())
    try:
        async with ScriptedEndpoint(script()) as other:
            port = urlsplit(other.base_url).port
            assert port is not None
            (found,) = await servers_here((port, port_of_nobody))
            async with session(tmp_path, script(done())) as made:
                told_in: set[int] = set()
                made.store.subscribe(lambda _, __: told_in.add(threading.get_ident()))
                await asyncio.to_thread(
                    asyncio.run, reach_server(found.base_url)
                )  # as /doctor does
                await made.until(
                    lambda state: any(h.received for h in state.hosts.values() if h.use == "list")
                )
                assert told_in == {threading.get_ident()}
                hosts = {(h.use, h.host): h for h in made.state.hosts.values()}
                looked = hosts["discovery", f"127.0.0.1:{port}"]
                listed = hosts["list", f"127.0.0.1:{port}"]
                in_vain = hosts["discovery", f"127.0.0.1:{port_of_nobody}"]
                assert len(hosts) == 3
            raw = other.requests[0].headers
            assert looked.sent == sum(len(n) + len(v) for n, v in raw.items())
    finally:
        outside.reset(token)
    assert (looked.requests, listed.requests, in_vain.requests) == (1, 1, 1)
    assert (looked.setting, listed.setting) == ("discovery.ports", "")
    assert looked.received > 100
    assert (in_vain.sent, in_vain.received) == (0, 0)


async def test_a_proxy_is_named_since_it_is_what_is_connected_to(port_of_nobody: int) -> None:
    proxy = f"127.0.0.1:{port_of_nobody}"
    heard: list[HostContacted] = []
    far = Endpoint(name="far", base_url="https://models.example/v1")
    environ = {"https_proxy": f"http://user:hunter2@{proxy}"}
    async with await open_http(far, None, environ, 5.0, heard.append) as http:
        with contacts_heard() as connected, pytest.raises(httpx2.ConnectError):
            await http.get("https://models.example/v1/models")
    assert set(connected) == {proxy}
    told, ended = heard
    assert (told.host, told.via, told.requests) == ("models.example:443", proxy, 0)
    assert told.setting == "endpoints.far.base_url"
    assert (ended.requests, ended.sent, ended.received) == (1, 0, 0)
    assert "hunter2" not in told.model_dump_json()


async def test_what_was_sent_counts_where_a_server_does_not_answer() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.close()

    store = Store(AgentState(), ManualClock(), MemoryRecorder())
    heard: list[HostContacted] = []
    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    model = await open_http(Endpoint(name="m", base_url=url), None, {}, 5.0, heard.append)
    tools = http_client(url, "net", store, {}, lambda: None, httpx2.Auth())
    async with server, model, tools:
        for http in (model, tools):
            with pytest.raises(httpx2.RemoteProtocolError):
                await http.post(url, json={})
    for contact in (heard[-1], *store.state.hosts.values()):
        assert (contact.requests, contact.received) == (1, 0)
        assert contact.sent > 100


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_use_of_a_host_has_words(language: str) -> None:
    words = Catalogue(language)
    for use in HostContact.model_fields["use"].annotation.__args__:  # type: ignore[union-attr]
        assert words.has(f"network.use.{use}")


async def test_a_request_goes_over_the_connection_of_the_one_before() -> None:
    reply = Reply(text="Hello.", repeat=True)
    async with bench(script(reply)) as at:
        with contacts_heard() as heard:
            for _ in range(3):
                await at.decide()
    assert len(at.server.requests) == 3
    assert heard == [host_of(at.server.base_url)]


async def test_a_reply_does_not_wait_for_a_body_that_never_ends() -> None:
    """Its connection is given up, and the next request makes another."""
    over = asyncio.Event()
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "Hello."}}]}\n\n'

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        writer.write(event + b"data: [DONE]\n\n")
        await over.wait()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, bench(Script(), base_url=f"http://127.0.0.1:{port}/v1") as at:
        with contacts_heard() as heard:
            async with asyncio.timeout(10):
                said = [(await at.decide()).text for _ in range(2)]
        over.set()
    assert said == ["Hello."] * 2
    assert heard == [f"127.0.0.1:{port}"] * 2
