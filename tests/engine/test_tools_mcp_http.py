"""Servers that are reached over HTTP, on the loopback."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.mcp_servers import http_server, served

from duckflow_tui.state.operations import Outcome
from duckflow_tui.tools.mcp.config import McpServerConfig


@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_tools_over_http(tmp_path: Path, options: tuple[str, ...]) -> None:
    """New ones are noticed where answers are streams; a server that goes away is an error."""
    with http_server(*options) as (url, process):
        async with served(tmp_path, McpServerConfig(name="net", url=url)) as s:
            server = s.server("net")
            assert (server.status, server.transport, server.log) == ("ready", "http", "")
            message = await s.run("mcp.net.double", number=21)
            assert message.result.text == '{"result": 42}'
            large = await s.run("mcp.net.large", size=1_500_000)
            assert large.result.outcome is Outcome.OK
            assert large.result.truncated_chars > 1_000_000
            if not options:
                await s.run("mcp.net.grow")
                await s.bench.until(lambda _: any(t.name == "twice" for t in s.server("net").tools))
                assert "mcp.net.twice" in s.specs()
            process.kill()
            process.wait()
            message = await s.run("mcp.net.double", number=1)
            assert message.result.outcome is Outcome.ERROR
            assert "The server net did not do it" in message.result.text
            again = await s.run("mcp.net.double", number=1)
            assert again.result.outcome is Outcome.ERROR
            assert s.server("net").status == "failed"


async def test_an_address_where_nobody_listens_is_a_failed_start(tmp_path: Path) -> None:
    config = McpServerConfig(name="net", url="http://127.0.0.1:9/mcp")
    async with served(tmp_path, config) as s:
        server = s.server("net")
        assert server.status == "failed"
        assert "connect" in server.error.lower()


@pytest.mark.parametrize("options", [(), ("--legacy",)])
async def test_a_server_that_was_started_anew_at_its_address_answers_the_next_read(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """The older protocol has a session, which the new process does not know."""
    with http_server(*options) as (url, process):
        port = int(url.split(":")[2].split("/")[0])
        async with served(tmp_path, McpServerConfig(name="net", url=url)) as s:
            assert (await s.run("mcp.net.double", number=1)).result.text == '{"result": 2}'
            process.kill()
            process.wait()
            with http_server(*options, port=port):
                message = await s.run("mcp.net.double", number=21)
                assert message.result.outcome is Outcome.OK
                assert message.result.text.endswith('{"result": 42}')
