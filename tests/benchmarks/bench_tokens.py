"""Tokens of what every request repeats, in both protocols, as it goes over the wire."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.decisions import decision, ends
from benchmarks.rows import Row
from benchmarks.sent import body_tokens

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.headless import TaskSpawn
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import Request, ScriptedEndpoint
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.sessions import open_session

MODEL: Final = "scripted"
ASKED: Final = "Hi."
#: Tokens by protocol.
LIMITS: Final = {"tools": 2_600, "json": 2_400}
_NAMES: Final = {"tools": "native calls", "json": "JSON"}


def measure() -> list[Row]:
    """A row for each protocol: the first request of a session, without the words of the user."""
    return [asyncio.run(_fixed(protocol)) for protocol in LIMITS]


async def _fixed(protocol: str) -> Row:
    sent = await first_request(protocol)
    tokens = body_tokens(sent.json) - body_tokens({"messages": [{"content": ASKED}]})
    return {
        "what": f"fixed part of a request, {_NAMES[protocol]}",
        "measured": tokens,
        "limit": LIMITS[protocol],
        "met": tokens <= LIMITS[protocol],
        "unit": "tokens",
    }


async def first_request(protocol: str) -> Request:
    """The first request of a new session on an empty folder, all operations on offer."""
    answer = Reply(decision=decision("Greet", "the greeting", "Hello.", ends("PLANNING")))
    script = Script(models=(MODEL,))
    # The request names the folder: what is counted must not hang on where others are made.
    with tempfile.TemporaryDirectory(prefix="duckflow-tokens-", dir="/tmp") as folder:
        workspace, home = Path(folder) / "project", Path(folder) / "home"
        workspace.mkdir()
        async with ScriptedEndpoint(script, author=lambda request: answer) as server:
            flags = Flags(
                workspace=workspace,
                base_url=server.base_url,
                model=MODEL,
                protocol=protocol,
                no_session=True,
            )
            environ = {k: v for k, v in os.environ.items() if not k.startswith("DUCKFLOW_")}
            choice = choose_session(flags, Places.find({"DUCKFLOW_HOME": str(home)}), "en", environ)
            spawn = TaskSpawn()
            async with open_session(choice, spawn) as engine:
                spawn(engine.chat_loop(), "chat")
                try:
                    await engine.send(ASKED)
                    await server.wait_for(1)
                finally:
                    await spawn.end_tasks()
            return server.of("main")[0]
