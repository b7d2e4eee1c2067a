"""Servers that ask the user something in the middle of a call, over HTTP on the loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.bench import done
from support.mcp_servers import CANNED, Served, hostile, http_server, noted, served

from duckflow_tui.safety.policy import CallFact
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import Card, CardAnswer, CardKind, GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.tools.mcp.config import McpServerConfig

ERAS = pytest.mark.parametrize("options", [(), ("--legacy",)], ids=["2026-07-28", "before"])


async def begin(s: Served, tool: str, /, **args: object) -> asyncio.Task[OperationMessage]:
    """A call that was approved."""
    task = s.bench.begin(f"mcp.net.{tool}", **args)
    await s.bench.answer(await s.bench.gate(), GateChoice.ONCE)
    return task


async def card_of(s: Served, other_than: Card | None = None) -> Card:
    """The open question of a server."""
    old = other_than.card_id if other_than is not None else ""
    await s.bench.until(lambda state: any(c.card_id != old for c in state.cards))
    card = s.bench.store.state.cards[-1]
    assert card.kind is CardKind.SERVER
    return card


async def press(s: Served, card: Card, key: str, text: str = "") -> None:
    option = next(o for o in card.options if o.key == key)
    answer = CardAnswer(card_id=card.card_id, subject=card.subject, action=option.action, text=text)
    await s.bench.desk.record_answer(answer)


@ERAS
async def test_a_form_is_asked_field_by_field(tmp_path: Path, options: tuple[str, ...]) -> None:
    with http_server(*options) as (url, _):
        async with served(tmp_path, McpServerConfig(name="net", url=url, timeout_s=1.5)) as s:
            task = await begin(s, "order", what="duck")
            size = await card_of(s)
            assert size.question == "Which duck do you want?\nThe shop closes soon. ␛]0;owned␇"
            assert size.facts["server"] == "net"
            assert [o.label or o.action for o in size.options] == ["small", "large", "decline"]
            # The time of a call stands still while the user thinks.
            assert not (await asyncio.wait({task}, timeout=2.0))[0]
            await press(s, size, "2")
            count = await card_of(s, size)
            assert (count.facts["least"], count.facts["most"]) == ("1", "10")
            assert count.facts["about"] == "How many ducks."
            for wrong in ("many", "11"):
                await press(s, count, "m", wrong)
                count = await card_of(s, count)
                assert count.facts["wrong"] == wrong
            await press(s, count, "m", " 3 ")
            gift = await card_of(s, count)
            await press(s, gift, "1")
            note = await card_of(s, gift)
            await press(s, note, "k")  # nothing requires it
            message = await done(task)
            assert message.result.outcome is Outcome.OK
            told = json.loads(message.result.text)["result"].partition("accept: ")[2]
            assert json.loads(told)["data"] == {
                "size": "large", "count": 3, "gift": True, "note": "",
            }  # fmt: skip


@ERAS
async def test_an_answer_that_is_declined_or_not_waited_for(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with http_server(*options) as (url, _):
        async with served(tmp_path, McpServerConfig(name="net", url=url)) as s:
            task = await begin(s, "order", what="duck")
            await press(s, await card_of(s), "n")
            assert "duck decline" in (await done(task)).result.text
            task = await begin(s, "order", what="duck")
            await card_of(s)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await s.bench.until(lambda state: not state.cards)


async def test_a_server_that_asks_without_end_has_five_cards(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with served(tmp_path, hostile("net", "--notes", str(notes))) as s:
        task = await begin(s, "asks_often")
        await noted(notes, "dismissed 95")
        assert len(s.bench.store.state.cards) == 5
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await s.bench.until(lambda state: not state.cards)


@pytest.mark.parametrize(
    ("key", "words"),
    [("y", "call it again when they say"), ("n", "visit a page first, and the user did not")],
)
async def test_a_call_that_is_refused_until_a_page_was_visited(
    tmp_path: Path, key: str, words: str
) -> None:
    notes, page = tmp_path / "notes", "https://pay.example/1"
    environ = with_browser(tmp_path / "bin", notes)
    with http_server("--legacy") as (url, _):
        config = McpServerConfig(name="net", url=url)
        async with served(tmp_path, config, environ=environ) as s:
            task = await begin(s, "closed", url=page)
            card = await card_of(s)
            assert (card.question, card.facts["host"]) == ("Pay first.", "pay.example")
            await press(s, card, key)
            message = await done(task)
            assert message.result.outcome is Outcome.ERROR
            assert words in message.result.text
            if key == "y":
                await noted(notes, page)


async def allow_all(*_: object) -> frozenset[CallFact]:
    return frozenset({CallFact.APPROVED})


async def test_nobody_is_asked_where_nobody_is(tmp_path: Path) -> None:
    with http_server() as (url, _):
        config = McpServerConfig(name="net", url=url)
        async with served(tmp_path, config, headless=True) as s:
            s.bench.router.facts = allow_all
            message = await s.bench.call("mcp.net.order", what="duck")
            assert "duck cancel" in message.result.text
            assert [n.key for n in s.notices()] == ["mcp.nobody"]


def with_browser(folder: Path, notes: Path) -> Mapping[str, str]:
    """An environment whose browser notes the page that it is to open."""
    folder.mkdir()
    for name in ("xdg-open", "open"):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "$*" >> {notes}\n')
        program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "DISPLAY": ":7"}


@pytest.mark.parametrize(
    ("page", "opened", "host"),
    [
        ("https://good.example/x?a=1", "https://good.example/x?a=1", "good.example"),
        ("HTTP://[::1]:80/a%20b#c", "http://[::1]:80/a%20b#c", "::1"),
        (
            "https://\u0430pple.example/é",
            "https://xn--pple-43d.example/%C3%A9",
            "xn--pple-43d.example",
        ),
        # Browsers and libraries do not agree on where these lead.
        ("https://good.example@evil.example/", "", ""),
        ("https://evil.example\\@good.example/login", "", ""),
        ("https://evil.example\\.good.example/login", "", ""),
        ("https://good.example%2eevil.example/", "", ""),
        ("https://good.example/\t/a", "", ""),
        ("https://good.example/a b", "", ""),
        ("https://good.example/\0", "", ""),
        ("https://good.example:port/", "", ""),
        ("file:///etc/passwd", "", ""),
        ("javascript:alert(1)", "", ""),
    ],
)
async def test_a_page_is_opened_with_consent_and_only_on_the_web(
    tmp_path: Path, page: str, opened: str, host: str
) -> None:
    notes = tmp_path / "notes"
    environ = with_browser(tmp_path / "bin", notes)
    with http_server("--legacy") as (url, _):
        config = McpServerConfig(name="net", url=url)
        async with served(tmp_path, config, environ=environ) as s:
            task = await begin(s, "sign_up", url=page)
            if opened:
                card = await card_of(s)
                assert (card.facts["url"], card.facts["host"]) == (opened, host)
                assert not notes.exists()
                await press(s, card, "y")
            said = "accept" if opened else "decline"
            assert (await done(task)).result.text == json.dumps({"result": said})
            if opened:
                await noted(notes, opened)
            assert notes.exists() is bool(opened)
            assert [n.key for n in s.notices()] == ([] if opened else ["mcp.no_page"])


async def test_a_servers_words_for_a_field_are_short_lines_without_its_secrets(
    tmp_path: Path,
) -> None:
    secret = "Zq8vT3nLx92KpW7dRm4YbC6s"
    field = {
        "type": "string",
        "title": "t" * 110 + secret,
        "description": f"about {secret}",
        "default": f"is {secret}",
        "format": "\x1b]52;c;AAAA\x07\n\n" + "x" * 90_000,
    }
    choice = {"type": "string", "oneOf": [{"const": "a", "title": f"A {secret}"}, {"const": "b"}]}
    form = {"type": "object", "properties": {"f": field, "g": choice}}
    (tmp_path / "form").write_text(json.dumps({"message": "m", "requestedSchema": form}))
    with http_server("--ask", str(tmp_path / "form"), program=CANNED) as (url, _):
        config = McpServerConfig(name="net", url=url, env={"API_TOKEN": secret})
        async with served(tmp_path, config) as s:
            task = await begin(s, "t")
            card = await card_of(s)
            assert card.facts["wants"].startswith("␛]52;c;AAAA␇")
            assert all(len(fact) <= 120 and fact.isprintable() for fact in card.facts.values())
            assert len(card.facts["wants"]) == 40
            assert (card.facts["about"], card.facts["default"]) == (
                "about [redacted]", "is [redacted]",
            )  # fmt: skip
            assert secret[:8] not in card.facts["field"]
            await press(s, card, "m", "x")
            second = await card_of(s, card)
            assert [o.label for o in second.options[:2]] == ["A [redacted]", "b"]
            await press(s, second, "1")
            assert '"g": "a"' in (await done(task)).result.text


async def test_a_question_with_a_limit_that_is_no_number_of_a_card_is_dismissed(
    tmp_path: Path,
) -> None:
    limit = "1" + "0" * 400
    field = (
        f'{{"type": "object", "properties": {{"f": {{"type": "integer", "minimum": {limit}}}}}}}'
    )
    (tmp_path / "form").write_text(f'{{"message": "m", "requestedSchema": {field}}}')
    with http_server("--ask", str(tmp_path / "form"), program=CANNED) as (url, _):
        async with served(tmp_path, McpServerConfig(name="net", url=url)) as s:
            task = await begin(s, "t")
            assert '"action": "cancel"' in (await done(task)).result.text
