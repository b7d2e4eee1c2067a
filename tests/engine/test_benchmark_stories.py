"""The stories of the benchmark: what a model and a judge that make no mistake take for them."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks import bench_stories
from benchmarks.sent import body_tokens
from benchmarks.story_cases import STORIES

from duckflow_tui.llm.endpoints import Protocol
from duckflow_tui.scripted.endpoint import Request

LONGEST_NOTE = 350  # tokens of what stands at the end of a request of an ordinary turn


async def play(name: str, protocol: Protocol = "tools") -> tuple[dict[str, Any], list[Request]]:
    """The row of a story, and its requests for decisions."""
    (story,) = (story for story in STORIES if story.name == name)
    row, requests = await bench_stories.play_story(story, protocol)
    return row, [request for request in requests if request.purpose in ("main", "task")]


@pytest.mark.parametrize("name", bench_stories.MOST_CALLS)
async def test_a_story_takes_no_more_calls_than_it_needs(name: str) -> None:
    row, _ = await play(name)
    assert row["as_wanted"], row
    assert sum(row["calls"].values()) <= bench_stories.MOST_CALLS[name], row["calls"]


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_session_keeps_its_tools_and_its_system_text_and_ends_with_a_short_note(
    protocol: Protocol,
) -> None:
    """Over talk, questions and changes: each request begins as the one before it did."""
    row, requests = await play("a session of eight messages", protocol)
    assert row["as_wanted"], row
    first = requests[0].json
    for request in requests:
        body = request.json
        assert body.get("tools") == first.get("tools")
        assert body.get("response_format") == first.get("response_format")
        assert body["messages"][0] == first["messages"][0]
        assert body_tokens({"messages": body["messages"][-1:]}) <= LONGEST_NOTE
    assert row["begins"]["turn"] >= 0.9
    assert row["begins"]["end"] >= 0.8


async def test_a_plan_costs_little_more_than_the_same_work_without_one() -> None:
    planned, _ = await play("work planned in four steps")
    plain, _ = await play("the same work without a plan")
    by_step, _ = await play("the same plan, a step at a time")
    assert planned["tokens_in"] <= 1.1 * plain["tokens_in"]
    assert by_step["tokens_in"] <= 3.3 * plain["tokens_in"]
    assert by_step["begins"]["turn"] >= 0.9


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_plan_changes_neither_tools_nor_system_text(
    protocol: Protocol,
) -> None:
    row, requests = await play("the same plan, a step at a time", protocol)
    assert row["as_wanted"], row
    first = requests[0].json
    for request in requests:
        assert request.json.get("tools") == first.get("tools")
        assert request.json["messages"][0] == first["messages"][0]
