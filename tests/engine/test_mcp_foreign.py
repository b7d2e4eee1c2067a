"""Servers that nobody here wrote, as their packages install them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from support.mcp_servers import served

from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Effect, Outcome
from duckflow_tui.tools.mcp.config import McpServerConfig

#: The program of mcp-server-sqlite. It needs the SDK's first version, so that it lives in an
#: environment of its own, which .ci/run makes.
SQLITE = os.environ.get("DUCKFLOW_TEST_MCP_SERVER_SQLITE", "")


async def test_the_time_of_mcp_server_time(tmp_path: Path) -> None:
    """Covers S3-24."""
    config = McpServerConfig(name="time", command=sys.executable, args=("-m", "mcp_server_time"))
    async with served(tmp_path, config) as s:
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
    config = McpServerConfig(name="git", command=sys.executable, args=("-m", "mcp_server_git"))
    async with served(tmp_path, config) as s:
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


@pytest.mark.skipif(not SQLITE, reason="DUCKFLOW_TEST_MCP_SERVER_SQLITE names no mcp-server-sqlite")
async def test_a_database_of_mcp_server_sqlite(tmp_path: Path) -> None:
    """Covers S3-19, S3-25."""
    path = tmp_path / "shop.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE products (name TEXT, price NUMERIC)")
    database.execute("INSERT INTO products VALUES ('duck', 4.5)")
    database.commit()
    database.close()
    config = McpServerConfig(
        name="db",
        command=SQLITE,
        args=("--db-path", str(path)),
        schema_tool="describe_table",
        query_tool="read_query",
    )
    async with served(tmp_path, config) as s:
        query = "SELECT name FROM products"
        early = await s.bench.call("mcp.db.read_query", query=query)
        assert early.result.outcome is Outcome.INVALID
        assert "products" in (await s.run("mcp.db.list_tables")).result.text
        schema = await s.run("mcp.db.describe_table", table_name="products")
        assert "price" in schema.result.text
        rows = await s.run("mcp.db.read_query", query=query)
        assert "duck" in rows.result.text
