"""Servers that nobody here wrote, as their packages install them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from support.mcp_servers import served
from support.session import action, decision, done, script, session

from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Effect, Outcome
from duckflow_tui.tools.mcp.config import McpServerConfig

#: The program of mcp-server-sqlite, in an environment of its own, which .ci/run makes.
SQLITE = os.environ.get("DUCKFLOW_TEST_MCP_SERVER_SQLITE", "")
WHY = (
    "mcp-server-sqlite runs only on the mcp SDK below 2, the other servers and this environment "
    "have 2: DUCKFLOW_TEST_MCP_SERVER_SQLITE names its program in an environment of its own"
)


#: Seconds for a start: on a busy machine their imports alone take longer than the default.
START_S = 60.0


def server(name: str) -> McpServerConfig:
    args = ("-m", f"mcp_server_{name}")
    return McpServerConfig(name=name, command=sys.executable, args=args, start_s=START_S)


async def test_the_time_of_mcp_server_time(tmp_path: Path) -> None:
    """Covers S3-24."""
    async with served(tmp_path, server("time")) as s:
        message = await s.run("mcp.time.get_current_time", timezone="Asia/Tokyo")
        assert message.result.outcome is Outcome.OK
        told = datetime.fromisoformat(json.loads(message.result.text)["datetime"])
        assert abs(told - datetime.now(ZoneInfo("Asia/Tokyo"))) < timedelta(minutes=1)
        wrong = await s.run("mcp.time.get_current_time", timezone="Nowhere/Land")
        assert wrong.result.outcome is Outcome.ERROR
        assert "Nowhere/Land" in wrong.result.text


def begin(repository: Path) -> None:
    """A repository with one commit and one new file."""
    for command in (
        ["init", "-q", str(repository)],
        ["-C", str(repository), "config", "user.email", "a@example.org"],
        ["-C", str(repository), "config", "user.name", "A"],
        ["-C", str(repository), "commit", "-q", "--allow-empty", "-m", "the first one"],
    ):
        subprocess.run(["git", *command], check=True)
    (repository / "new.txt").write_text("new\n")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_a_history_of_mcp_server_git(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    begin(repository)
    async with served(tmp_path, server("git")) as s:
        history = await s.bench.answered(
            GateChoice.SESSION, "mcp.git.git_log", {"repo_path": str(repository)}
        )
        assert "the first one" in history.result.text
        again = await s.bench.call("mcp.git.git_log", repo_path=str(repository))
        assert again.gate is None
        assert s.specs()["mcp.git.git_add"].effect is Effect.REMOTE
        added = await s.run("mcp.git.git_add", repo_path=str(repository), files=["new.txt"])
        assert added.gate is not None
        assert added.result.outcome is Outcome.OK
        status = await s.run("mcp.git.git_status", repo_path=str(repository))
        assert "new.txt" in status.result.text


@pytest.mark.skipif(not SQLITE, reason=WHY)
async def test_a_question_to_a_database_of_mcp_server_sqlite(tmp_path: Path) -> None:
    """Covers S3-19, S3-25, S3-39: the whole way of the notes, with a model that begins with the
    query, as models do, and guesses a column. Nothing is set but the server's
    program and the time of its start.
    """
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE products (name TEXT, price NUMERIC);"
            'CREATE TABLE "order items" (product TEXT, amount INTEGER);'
            "INSERT INTO products VALUES ('duck', 4.5), ('pond', 90);"
            "INSERT INTO \"order items\" VALUES ('duck', 30), ('pond', 1);"
        )

    def db(tool: str, **args: Any) -> Reply:
        return decision("", action(f"mcp.db.{tool}", **args), task_profile="RESEARCH")

    wrong = 'SELECT p.name, p.cost * i.amount AS total FROM products p, "order items" i'
    right = wrong.replace("cost", "price") + " WHERE i.product = p.name ORDER BY total DESC"
    said = "The duck brought most: 135.0."
    replies = script(
        db("read_query", query=wrong),
        db("list_tables"),
        db("describe_table", table_name="products"),
        db("read_query", query=wrong),
        db("describe_table", table_name='"order items"'),
        db("read_query", query=right),
        done(said),
    )
    environ = {
        "DUCKFLOW_MCP__SERVERS__DB__COMMAND": SQLITE,
        "DUCKFLOW_MCP__SERVERS__DB__ARGS": json.dumps(["--db-path", str(path)]),
        "DUCKFLOW_MCP__SERVERS__DB__START_S": str(START_S),
    }
    async with session(tmp_path, replies, environ=environ) as s:
        await s.engine.send("Which product brought most?")
        for _ in range(5):  # this server says of no tool that it only reads
            await s.answer(GateChoice.ONCE)
        end = await s.ended()
        early, tables, schema, guessed, second, rows = s.results()
        assert early.result.outcome is Outcome.INVALID
        assert "Call mcp.db.describe_table first" in early.result.text
        assert "products" in tables.result.text
        assert "price" in schema.result.text
        assert "amount" in second.result.text
        assert guessed.result.outcome is Outcome.ERROR
        assert "no such column: p.cost" in guessed.result.text
        assert rows.result.outcome is Outcome.OK
        assert "135" in rows.result.text
        # What went wrong, and what was found, is before the model when it answers.
        told = s.server.of("main")[-1].text
        assert "no such column: p.cost" in told
        assert "135" in told
        assert (end.outcome, end.reply) == ("done", said)
