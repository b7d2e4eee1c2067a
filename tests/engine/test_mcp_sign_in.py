"""Servers that want to be signed in at: OAuth over real HTTP, with a browser that is a program."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

from support.mcp_servers import OAUTH, Served, http_server, served

from duckflow_tui.state.gates import Card, CardAnswer, CardKind
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
