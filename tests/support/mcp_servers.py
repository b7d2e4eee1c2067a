"""Servers of tools for tests: real programs, and the router that calls their tools."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.bench import DEADLINE, Bench
from support.model_words import WORDS

from duckflow_tui.headless import TaskSpawn
from duckflow_tui.llm.connections import KeyStore
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.processes import McpServer
from duckflow_tui.tools.mcp.config import McpServerConfig
from duckflow_tui.tools.mcp.connection import ServerParts
from duckflow_tui.tools.mcp.servers import McpServers
from duckflow_tui.tools.notices import Notices
from duckflow_tui.tools.watchdog import Watchdog

HOSTILE = Path(__file__).with_name("hostile_server.py")


OAUTH = Path(__file__).with_name("oauth_server.py")
CANNED = Path(__file__).with_name("canned_server.py")
OVER_HTTP = Path(__file__).with_name("http_server.py")


@contextmanager
def http_server(
    *options: str, port: int = 0, program: Path = OVER_HTTP
) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """The address of a running server."""
    command = [sys.executable, "-I", str(program), "--port", str(port), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", process
    finally:
        process.kill()
        process.communicate()


def hostile(name: str = "hostile", *options: str, **fields: Any) -> McpServerConfig:
    """The server that does what a server should not."""
    return McpServerConfig(
        name=name, command=sys.executable, args=("-I", str(HOSTILE), *options), **fields
    )


@dataclass
class Served:
    """A bench, and the servers whose tools its router calls."""

    bench: Bench
    servers: McpServers
    folder: Path

    async def run(self, operation: str, /, **args: Any) -> OperationMessage:
        """Call and approve."""
        return await self.bench.approved(operation, **args)

    def server(self, name: str = "hostile") -> McpServer:
        """How a server is, as the state says."""
        return next(s for s in self.bench.store.state.servers if s.name == name)

    async def until(self, status: str, name: str = "hostile") -> McpServer:
        """Return once a server is so."""
        await self.bench.until(lambda _: self.server(name).status == status)
        return self.server(name)

    async def turn(self, operation: str, what: str) -> None:
        """Have the server change the tool so; returns once that is what is offered."""
        registry, news = self.bench.router.registry, asyncio.Event()
        before = registry.get(operation)
        forget = self.bench.store.subscribe(lambda state, record: news.set())
        try:
            await self.run("mcp.hostile.turn", what=what)
            async with asyncio.timeout(DEADLINE):
                while (now := registry.get(operation)) is None or now is before:
                    await news.wait()
                    news.clear()
        finally:
            forget()

    def specs(self) -> dict[str, OperationSpec]:
        """The servers' tools as a model is told."""
        found = self.bench.router.registry.specs()
        return {spec.name: spec for spec in found if spec.name.startswith("mcp.")}

    def notices(self) -> list[NoticeMessage]:
        """What the app said."""
        return [m for m in self.bench.store.state.messages if isinstance(m, NoticeMessage)]


@asynccontextmanager
async def served(
    tmp_path: Path, *configs: McpServerConfig, wait: bool = True, **more: Any
) -> AsyncGenerator[Served]:
    """Servers started, their tools in the registry; all ended afterwards."""
    root = tmp_path / "work"
    root.mkdir(exist_ok=True)
    bench = Bench(root, headless=more.pop("headless", False))
    spawn = TaskSpawn()
    folder = tmp_path / "state" / "mcp"
    watchdog = Watchdog()
    notices = Notices(bench.store, bench.ids, words=WORDS)
    environ = more.pop("environ", os.environ)
    servers = McpServers(
        configs,
        ServerParts(
            bench.store,
            notices,
            spawn,
            folder,
            environ,
            watchdog,
            root,
            bench.desk,
            KeyStore(tmp_path / "keys", more.pop("keyring", None)),
            set[str]().update,
        ),
        bench.router.registry,
        **more,
    )
    try:
        if wait:
            await servers.wait_until_ready()
        yield Served(bench, servers, folder)
    finally:
        await servers.close()
        await watchdog.close()
        await spawn.end_tasks()
    assert spawn.broken is None, spawn.broken


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


async def noted(notes: Path, text: str) -> None:
    """Return once the server has written this line down."""

    def look() -> None:
        until = time.monotonic() + DEADLINE
        while not notes.exists() or text not in notes.read_text(encoding="utf-8").splitlines():
            assert time.monotonic() < until, f"{text} was not noted"
            time.sleep(0.02)  # another process writes: there is nothing to wait on

    await asyncio.to_thread(look)
