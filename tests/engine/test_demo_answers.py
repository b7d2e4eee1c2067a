"""Four requests that only tools can answer, asked of the demo without a screen."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support.prepared import UNTOUCHED

from duckflow_tui.compose import Flags, choose, open_session
from duckflow_tui.headless import TaskSpawn
from duckflow_tui.places import Places
from duckflow_tui.scripted.answers import kind_of, words
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.store import Record
from duckflow_tui.state.turn import TurnFinished

DEADLINE_S = 30.0
MODES = ("adaptive", "tasklist")


async def ask(tmp_path: Path, text: str, mode: str) -> tuple[TurnFinished, list[OperationMessage]]:
    """Ask the demo; how the turn ended, and the calls of its servers' tools. Each call took one of
    the model's, and there are the answer and its judgement: a list takes no fewer.
    """
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    flags = Flags(workspace=tmp_path, demo=True, headless=True)
    choice = choose(flags, places, "en", {**UNTOUCHED, "DUCKFLOW_EXECUTION__MODE": mode})
    spawn = TaskSpawn()
    ended: asyncio.Future[TurnFinished] = asyncio.get_running_loop().create_future()

    def look(state: AgentState, record: Record) -> None:
        if isinstance(record.event, TurnFinished) and not ended.done():
            ended.set_result(record.event)

    async with open_session(choice, spawn) as engine:
        engine.store.subscribe(look)
        spawn(engine.chat_loop(), "chat")
        try:
            await engine.send(text)
            async with asyncio.timeout(DEADLINE_S):
                end = await ended
        finally:
            await spawn.end_tasks()
        calls = [
            message
            for message in engine.store.state.messages
            if isinstance(message, OperationMessage) and message.operation.startswith("mcp.")
        ]
    assert spawn.broken is None, spawn.broken
    assert end.outcome == "done", end.reply
    assert all(call.result.outcome is Outcome.OK and call.gate is None for call in calls)
    fewest = len(calls) + 2
    assert end.llm_calls == fewest if mode == "adaptive" else end.llm_calls <= fewest
    return end, calls


@pytest.mark.parametrize(
    ("text", "mode"), [("100 + 200", "adaptive"), ("100 足す 200 は?", "tasklist")]
)
async def test_a_sum_is_calculated(tmp_path: Path, text: str, mode: str) -> None:
    """Covers S3-3, S3-7, S3-24."""
    end, calls = await ask(tmp_path, text, mode)
    assert "300" in end.reply
    assert [call.operation for call in calls] == ["mcp.calculator.evaluate"]
    assert end.llm_calls == 3  # with the judgement


@pytest.mark.parametrize("mode", MODES)
async def test_the_time_is_the_clocks(tmp_path: Path, mode: str) -> None:
    """Covers S3-24."""
    before = datetime.now()
    end, calls = await ask(tmp_path, "what time is it", mode)
    found = re.search(r"\*\*(\d\d:\d\d:\d\d)\*\* on \w+, (\d{4}-\d\d-\d\d)", end.reply)
    assert found is not None, end.reply
    told = datetime.fromisoformat(f"{found[2]}T{found[1]}")
    assert before - timedelta(seconds=1) <= told <= datetime.now()
    assert len(calls) == 1


@pytest.mark.parametrize("mode", MODES)
async def test_the_weather_is_that_of_the_place(tmp_path: Path, mode: str) -> None:
    """Covers S3-25."""
    end, calls = await ask(tmp_path, "where am I and what is the weather there", mode)
    assert [call.operation for call in calls] == ["mcp.place.where_am_i", "mcp.place.weather"]
    assert calls[1].args == {"city": "Duckhaven"}
    assert "Duckhaven" in end.reply
    assert "{" not in end.reply


@pytest.mark.parametrize(
    ("text", "mode"), [("list the products", "tasklist"), ("商品の一覧を見せて", "adaptive")]
)
async def test_products_are_listed_once_the_schema_is_known(
    tmp_path: Path, text: str, mode: str
) -> None:
    """Covers S3-19, S3-25."""
    end, calls = await ask(tmp_path, text, mode)
    assert [call.operation.removeprefix("mcp.shop.") for call in calls] == [
        "list_tables",
        "get_table_schema",
        "query",
    ]
    assert "Rubber duck | bath | 4.5 | 120" in end.reply


def test_other_requests_are_left_to_the_story() -> None:
    assert kind_of("The total is wrong when two discounts apply. Find out why and fix it.") is None
    assert kind_of("割引が二つ重なると合計が合いません。原因を調べて直してください。") is None
    assert kind_of("hello") is None


def test_both_languages_have_the_same_entries() -> None:
    english, japanese = words("en"), words("ja")
    assert english.keys() == japanese.keys()
    for name, texts in english.items():
        if isinstance(texts, dict):
            assert texts.keys() == japanese[name].keys()
