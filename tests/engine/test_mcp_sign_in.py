"""Servers that want to be signed in at: OAuth over real HTTP, with a browser that is a program."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.mcp_servers import OAUTH, Served, http_server, served
from support.session import action, decision, done, script, session

from duckflow_tui.state.gates import Card, CardAnswer, CardKind, GateChoice
from duckflow_tui.tools.mcp.config import McpServerConfig


class Ring:
    """A keyring in memory: it stands in for the library."""

    priority = 5.0

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}

    def get_keyring(self) -> Ring:
        return self

    def get_password(self, service_name: str, username: str) -> str | None:
        return self.held.get((service_name, username))

    def set_password(self, service_name: str, username: str, password: str) -> None:
        self.held[service_name, username] = password

    def delete_password(self, service_name: str, username: str) -> None:
        del self.held[service_name, username]


def with_browser(folder: Path, *, comes_back: bool = True) -> dict[str, str]:
    """An environment whose browser follows the page to its end, as a user who agrees does."""
    folder.mkdir(exist_ok=True)
    get = "urllib.request.urlopen(sys.argv[1]).read()" if comes_back else ""
    for name in ("xdg-open", "open"):
        program = folder / name
        program.write_text(f"#!{sys.executable} -I\nimport sys, urllib.request\n{get}\n")
        program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "DISPLAY": ":7"}


async def answer(s: Served, key: str) -> Card:
    """Answer the question to sign in."""
    await s.bench.until(lambda state: bool(state.cards))
    (card,) = s.bench.store.state.cards
    assert card.kind is CardKind.SERVER
    option = next(o for o in card.options if o.key == key)
    given = CardAnswer(card_id=card.card_id, subject=card.subject, action=option.action)
    await s.bench.desk.record_answer(given)
    return card


def text_of_all_files(folder: Path) -> str:
    files = (path for path in folder.rglob("*") if path.is_file())
    return "".join(path.read_text(errors="replace") for path in files)


def settings(url: str, **more: Any) -> McpServerConfig:
    return McpServerConfig(name="closed", url=url, **more)


async def test_the_user_signs_in_once_and_tokens_are_in_the_keyring(tmp_path: Path) -> None:
    ring, environ = Ring(), with_browser(tmp_path / "bin")
    with http_server(program=OAUTH) as (url, _):
        config = settings(url)
        async with served(tmp_path, config, wait=False, environ=environ, keyring=ring) as s:
            await s.servers.start_all()
            card = await answer(s, "y")
            assert card.facts["host"] == "127.0.0.1"
            assert card.facts["signs_in"] == "yes"
            await s.until("ready", "closed")
            message = await s.run("mcp.closed.secret")
            assert "ducks are dinosaurs" in message.result.text
        ((service, user), kept) = next(iter(ring.held.items()))
        assert (service, user.split("//")[0]) == ("duckflow-tui", "mcp http:")
        token = json.loads(kept)["tokens"]["access_token"]
        assert token not in await asyncio.to_thread(text_of_all_files, tmp_path)
        # In the next session the token has run out: it is renewed, and nobody is asked.
        ring.held[service, user] = json.dumps({**json.loads(kept), "until": 1.0})
        async with served(tmp_path, config, environ=environ, keyring=ring) as s:
            assert s.server("closed").status == "ready"
            message = await s.run("mcp.closed.secret")
            assert "ducks are dinosaurs" in message.result.text
            assert token not in ring.held[service, user]
            await s.servers.sign_out("closed")
            assert ring.held == {}


async def test_without_a_keyring_tokens_are_in_the_private_file(tmp_path: Path) -> None:
    with http_server(program=OAUTH) as (url, _):
        environ = with_browser(tmp_path / "bin")
        async with served(tmp_path, settings(url), wait=False, environ=environ) as s:
            await s.servers.start_all()
            await answer(s, "y")
            await s.until("ready", "closed")
        file = tmp_path / "keys" / "keys.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "access_token" in file.read_text()


async def test_who_does_not_sign_in_has_a_server_that_failed(tmp_path: Path) -> None:
    with http_server(program=OAUTH) as (url, _):
        environ = with_browser(tmp_path / "bin")
        async with served(tmp_path, settings(url), wait=False, environ=environ) as s:
            await s.servers.start_all()
            await answer(s, "n")
            failed = await s.until("failed", "closed")
            assert failed.error == "it asks to sign in, and the user declined"
        async with served(tmp_path, settings(url), headless=True, environ=environ) as s:
            failed = await s.until("failed", "closed")
            assert failed.error == "it asks to sign in, and nobody answered"


async def test_what_the_user_signed_in_with_is_in_no_result_journal_or_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in with_browser(tmp_path / "bin").items():
        monkeypatch.setenv(name, value)
    replies = script(decision("", action("mcp.net.greet")), done(), done())
    with http_server(program=OAUTH) as (url, _):
        environ = {"DUCKFLOW_MCP__SERVERS__NET__URL": url}
        async with session(tmp_path, replies, environ=environ) as s:
            await s.engine.send("Hello?")
            await s.until(lambda state: bool(state.cards))
            (card,) = s.state.cards
            option = next(o for o in card.options if o.key == "y")
            await s.engine.answer_card(
                CardAnswer(card_id=card.card_id, subject=card.subject, action=option.action)
            )
            await s.answer(GateChoice.ONCE)
            await s.ended()
            kept = json.loads((tmp_path / "home" / "data" / "keys.json").read_text())
            (secret,) = (json.loads(kept[user]) for user in kept if user.startswith("mcp "))
            tokens = (secret["tokens"]["access_token"], secret["tokens"]["refresh_token"])
            (greeted,) = s.results()
            assert "hello [redacted] and [redacted]" in greeted.result.text
            # Also where somebody else says it: the model, the user or a command.
            await s.turn(f"It is {tokens[0]}.")
            told = "".join(request.text for request in s.server.of("main")[:-1])
        state = await asyncio.to_thread(text_of_all_files, tmp_path / "home" / "state")
        for token in tokens:
            assert token not in told
            assert token not in state


@contextmanager
def refusing_server(**headers: str) -> Generator[tuple[str, list[str]]]:
    """A server that answers 401 to everything, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(401)
            for name, value in {"content-length": "0", **headers}.items():
                self.send_header(name, value)
            self.end_headers()

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_sign_in_reaches_no_other_port_of_a_host_without_https(tmp_path: Path) -> None:
    with (
        refusing_server() as (other, asked),
        refusing_server(**{"www-authenticate": f'Bearer resource_metadata="{other}/meta"'}) as (
            url,
            begun,
        ),
    ):
        async with served(tmp_path, settings(f"{url}/mcp")) as s:
            failed = await s.until("failed", "closed")
        assert "is not reached without https" in failed.error
        assert begun
        assert asked == []


@pytest.mark.parametrize("key", ["y", "n"])
async def test_a_site_that_a_server_names_is_contacted_with_consent(
    tmp_path: Path, key: str
) -> None:
    came = asyncio.Event()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as other:
        site = f"127.0.0.1:{other.sockets[0].getsockname()[1]}"
        header = {"www-authenticate": f'Bearer resource_metadata="https://{site}/meta"'}
        with refusing_server(**header) as (url, _):
            async with served(tmp_path, settings(f"{url}/mcp"), wait=False) as s:
                await s.servers.start_all()
                await s.bench.until(lambda state: bool(state.cards))
                assert not came.is_set()
                card = await answer(s, key)
                assert card.facts["contacts"] == site
                failed = await s.until("failed", "closed")
                assert came.is_set() is (key == "y")
                assert ("the user declined" in failed.error) is (key == "n")


@pytest.mark.parametrize(
    ("environ", "lines"),
    [
        ({}, ["CONNECT tools.invalid:443 HTTP/1.1"]),
        ({"NO_PROXY": ".invalid"}, []),
    ],
)
async def test_a_server_is_reached_through_the_proxy_of_the_environment(
    tmp_path: Path, environ: dict[str, str], lines: list[str]
) -> None:
    came: list[str] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append((await reader.readline()).decode().strip())
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        environ = {"HTTPS_PROXY": f"http://me:hunter2@127.0.0.1:{port}", **environ}
        config = settings("https://tools.invalid/mcp")
        async with served(tmp_path, config, environ=environ) as s:
            failed = await s.until("failed", "closed")
            assert came == lines
            assert ("HTTPS_PROXY: 403 Forbidden" in failed.error) is bool(lines)
            assert "hunter2" not in failed.error
            via = {contact.via for contact in s.bench.store.state.hosts.values()}
            assert via == ({f"127.0.0.1:{port}"} if lines else {""})
