"""Servers over HTTP whose answers are larger than anything that could be used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.mcp_servers import CANNED, Served, http_server, served

from duckflow_tui.state.operations import Outcome
from duckflow_tui.tools.mcp.config import McpServerConfig

TOOL = '{"name": "t", "inputSchema": {"type": "object"}}'
LONGEST_HOLD_S = 3.0  # of the loop, on a busy machine; each case held it for much longer


@asynccontextmanager
async def canned(folder: Path, **answers: str) -> AsyncGenerator[Served]:
    """A server with these answers, while nothing holds the loop for long."""
    options: list[str] = []
    for name, text in answers.items():
        path = folder / name
        path.write_text(text)
        options += [f"--{name}", str(path)]
    loop = asyncio.get_running_loop()
    holds: list[float] = []

    async def measure() -> None:
        while True:
            before = loop.time()
            await asyncio.sleep(0.02)
            holds.append(loop.time() - before)

    measuring = asyncio.create_task(measure())
    with http_server(*options, program=CANNED) as (url, _):
        async with served(folder, McpServerConfig(name="net", url=url)) as s:
            yield s
            await asyncio.sleep(0)
    measuring.cancel()
    assert max(holds) < LONGEST_HOLD_S


def left_out(s: Served) -> dict[str, tuple[str, str]]:
    return {n.key: (n.params["count"], n.params["names"]) for n in s.notices()}


async def test_what_a_server_says_of_its_sign_in_is_read_to_4_mb(tmp_path: Path) -> None:
    with http_server("--closed", program=CANNED) as (url, _):
        async with served(tmp_path, McpServerConfig(name="net", url=url)) as s:
            server = s.server("net")
            assert (server.status, "over 4 MB" in server.error) == ("failed", True)
            (host,) = s.bench.store.state.hosts.values()
            assert host.received < 8 * 1024 * 1024


async def test_of_a_list_without_end_two_thousand_items_are_read(tmp_path: Path) -> None:
    zeros = ",".join("0" * 1_500_000)
    async with canned(tmp_path, tools=f'{{"tools": [{TOOL},{zeros}]}}') as s:
        assert list(s.specs()) == ["mcp.net.t"]
        count, names = left_out(s)["mcp.left_out.many"]
        assert (count, names[:6]) == ("1498001", "…, …, ")
        assert left_out(s)["mcp.left_out.schema"][0] == "1999"


async def test_a_tool_of_more_values_than_are_read_is_left_out_alone(tmp_path: Path) -> None:
    large = TOOL.replace('"t"', f'"large", "icons": [{",".join("0" * 1_000_000)}]')
    async with canned(tmp_path, tools=f'{{"tools": [{large},{TOOL}]}}') as s:
        assert list(s.specs()) == ["mcp.net.t"]
        assert left_out(s) == {"mcp.left_out.schema": ("1", "large")}


@pytest.mark.parametrize("result", ['"content": [],', ""], ids=["an answer", "no answer"])
async def test_a_list_that_was_not_asked_for_costs_nothing(tmp_path: Path, result: str) -> None:
    zeros = ",".join("0" * 1_000_000)
    async with canned(tmp_path, result=f'{{{result}"tools": [{zeros}]}}') as s:
        message = await s.run("mcp.net.t")
        assert message.result.outcome is Outcome.ERROR
        assert "more than 50,000 values" in message.result.text


async def test_texts_of_a_result_beyond_two_thousand_are_told_as_one(tmp_path: Path) -> None:
    texts: list[Any] = [{"type": "text", "text": f"row {n}"} for n in range(60_000)]
    async with canned(tmp_path, result=json.dumps({"content": texts})) as s:
        message = await s.run("mcp.net.t")
        assert message.result.outcome is Outcome.OK
        whole = (await s.bench.blobs.get(message.result.blob)).decode()
        assert whole == "\n".join(f"row {n}" for n in range(60_000))


async def test_a_result_of_things_that_are_no_blocks_is_an_error(tmp_path: Path) -> None:
    zeros = ",".join("0" * 1_500_000)
    async with canned(tmp_path, result=f'{{"content": [{zeros}]}}') as s:
        assert (await s.run("mcp.net.t")).result.outcome is Outcome.ERROR


async def test_an_answer_of_more_than_4_mb_is_an_error_of_its_call(tmp_path: Path) -> None:
    result = {"content": [{"type": "text", "text": "x" * 5_000_000}]}
    async with canned(tmp_path, result=json.dumps(result)) as s:
        message = await s.run("mcp.net.t")
        assert message.result.outcome is Outcome.ERROR
        assert "the answer is over 4 MB" in message.result.text
        assert s.server("net").status == "ready"
