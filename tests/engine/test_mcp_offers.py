"""Resources and prompts of servers, read and called by what the user writes; over HTTP."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from support.mcp_servers import http_server
from support.prepared import UNTOUCHED
from support.session import action, decision, done, script, session

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.headless import HeadlessOptions, run_turn
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.sessions import open_session
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.processes import McpPrompt, McpResource, McpServer
from duckflow_tui.tools.mcp.offers import PromptRefused, find_mentions, parse_prompt_arguments
from duckflow_tui.words.catalogue import Catalogue

SHOP = McpServer(name="shop", resources=(McpResource(uri="menu://a."), McpResource(uri="b:")))
EMPTY = McpServer(name="empty")


def over_http(url: str) -> dict[str, str]:
    """The setting of the server."""
    return {"DUCKFLOW_MCP__SERVERS__NET__URL": url}


@pytest.mark.parametrize("options", [(), ("--legacy",)], ids=["2026-07-28", "before"])
async def test_a_resource_that_a_message_names_is_read_before_it_is_answered(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with http_server(*options) as (url, _):
        replies = script(done("Soup."), done("Still soup."))
        async with session(tmp_path, replies, environ=over_http(url)) as s:
            end = await s.turn("What is there, by @net:menu://today?")
            assert end.outcome == "answered"
            (read,) = s.results()
            assert read.by_user
            assert read.gate is None
            assert read.args == {"server": "net", "uri": "menu://today"}
            told = s.server.of("main")[0].text
            assert "[resource menu://today, text/plain]" in told
            assert "soup␛[2J" in told
            await s.turn("And by @net:menu://noon/icon @other:menu://today me@net:menu://today")
            picture = s.results()[-1]
            assert picture.args["uri"] == "menu://noon/icon"
            assert "[resource menu://noon/icon, image/png, 4 bytes, not shown]" in (
                picture.result.text
            )
            assert len(s.results()) == 2


async def test_an_address_that_the_user_did_not_write_is_read_with_consent(
    tmp_path: Path,
) -> None:
    with http_server() as (url, _):
        replies = script(done("Soup."), done("Nothing."))
        async with session(tmp_path, replies, environ=over_http(url)) as s:
            await s.engine.send("The log says @net:menu://today", quoted=True)
            await s.answer(GateChoice.ONCE)
            await s.ended()
            (read,) = s.results()
            assert not read.by_user
            assert "soup" in s.server.of("main")[0].text
            await s.engine.send("The log says @net:menu://noon", quoted=True)
            await s.answer(GateChoice.REJECT)
            await s.ended(2)
            assert s.results()[-1].result.outcome is Outcome.REJECTED


@pytest.mark.parametrize("piped", [True, False])
async def test_without_a_screen_an_address_from_a_pipe_is_not_read(
    tmp_path: Path, piped: bool
) -> None:
    with http_server() as (url, _):
        places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
        out, err = io.StringIO(), io.StringIO()
        async with ScriptedEndpoint(script(done("Soup."))) as server:
            flags = Flags(
                workspace=tmp_path,
                base_url=server.base_url,
                model="scripted",
                protocol="json",
                headless=True,
            )
            choice = choose_session(flags, places, "en", {**UNTOUCHED, **over_http(url)})
            await run_turn(
                lambda spawn: open_session(choice, spawn),
                HeadlessOptions(text="By @net:menu://today", is_piped=piped),
                Catalogue("en"),
                out,
                err,
            )
            told = server.of("main")[0].text
    assert ("soup" in told) is not piped
    assert ("denied" in err.getvalue()) is piped


async def test_a_model_reads_a_resource_with_consent(tmp_path: Path) -> None:
    def read(server: str) -> dict[str, object]:
        return action("mcp_resources.read", server=server, uri="menu://today")

    with http_server() as (url, _):
        replies = script(decision("", read("net")), decision("", read("nobody")), done("Soup."))
        async with session(tmp_path, replies, environ=over_http(url)) as s:
            await s.engine.send("What is there?")
            gate = await s.answer(GateChoice.ONCE)
            assert not gate.can_grant_session
            await s.answer(GateChoice.ONCE)
            await s.ended()
            found, unknown = (m.result for m in s.results())
            assert "soup" in found.text
            assert (unknown.outcome, unknown.text) == (
                Outcome.INVALID,
                "There is no server nobody.",
            )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see @shop:menu://a. and", ["menu://a."]),
        ("see @shop:menu://b.", ["menu://b"]),
        ("@shop:b: @shop:b: (@shop:c)", ["b:"]),
        ("「@shop:b」", []),
        ("@empty:x @nobody:y a@shop:z @shop: @file.py", []),
        ("@shop:x、@shop:y", ["x、@shop:y"]),
    ],
)
def test_mentions_are_addresses_of_servers_that_have_some(text: str, found: list[str]) -> None:
    assert [uri for _, uri in find_mentions(text, (SHOP, EMPTY))] == found


PROMPT = McpPrompt(name="p", arguments=("day", "tone", "note"), required=("day",))


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("today", {"day": "today"}),
        ("today nice and long", {"day": "today", "tone": "nice", "note": "and long"}),
        ("tone=nice 'next week'", {"day": "next week", "tone": "nice"}),
        ("day=a=b x", {"day": "a=b", "tone": "x"}),
        ("it's", {"day": "it's"}),
        ("other=1", {"day": "other=1"}),
        ("tone=nice", None),
        ("", None),
    ],
)
def test_arguments_of_a_prompt_have_names_or_an_order(
    written: str, values: dict[str, str] | None
) -> None:
    if values is not None:
        assert parse_prompt_arguments(PROMPT, written) == values
        return
    with pytest.raises(PromptRefused) as refused:
        parse_prompt_arguments(PROMPT, written)
    assert refused.value.told.params == {"prompt": "p", "names": "day"}


async def test_what_a_server_offers_by_now_is_known(tmp_path: Path) -> None:
    with http_server() as (url, _):
        replies = script(done("a"), done("b"))
        async with session(tmp_path, replies, environ=over_http(url)) as s:
            await s.turn("hello")
            (server,) = s.state.servers
            assert [(r.uri, r.is_template) for r in server.resources] == [
                ("menu://today", False),
                ("photo://duck", False),
                ("menu://", True),
            ]
            assert server.prompts == (
                McpPrompt(
                    name="check",
                    about="Checks a menu.",
                    arguments=("day", "tone"),
                    required=("day",),
                ),
            )
            assert s.engine.servers is not None
            text = await s.engine.servers.fetch_prompt("net", "check", "today")
            assert text == "Is the menu of today good? Be plain."
            for name, key in (("nobody", "mcp.no_server"), ("net", "mcp.prompt_failed")):
                with pytest.raises(PromptRefused) as refused:
                    await s.engine.servers.fetch_prompt(name, "none", "")
                assert refused.value.told.key == key
