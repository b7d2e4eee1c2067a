"""The stories of the benchmark: what a model and a judge that make no mistake take for them."""

from __future__ import annotations

import asyncio

from benchmarks import bench_stories
from benchmarks.story_cases import STORIES


async def test_talk_costs_one_call_and_a_question_about_a_file_two_and_the_judge() -> None:
    stories = [story for story in STORIES if story.name in ("talk", "a question about a file")]
    rows = await asyncio.to_thread(bench_stories.measure, stories=stories)
    most = bench_stories.MOST_CALLS
    for story, row in zip(stories, rows, strict=True):
        assert row["as_wanted"], row
        assert sum(row["calls"].values()) <= most[story.name]
