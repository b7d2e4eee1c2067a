"""Stories played over HTTP with a model and a judge that make no mistake: what each one costs.

A row for each story: calls by purpose, tokens in and out, and how much of a request the next one
begins with, within a turn, over a turn's end and where a plan begins.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, cast

from benchmarks.bench_requests import Watch, answer_until_ended
from benchmarks.rows import Row, aligned
from benchmarks.sent import body_tokens
from benchmarks.story_cases import PROJECT, STORIES, SUITE, Author, Story

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.headless import TaskSpawn
from duckflow_tui.llm.endpoints import Protocol
from duckflow_tui.places import Places
from duckflow_tui.prompting.budget import ScriptCounter
from duckflow_tui.scripted.endpoint import Request, ScriptedEndpoint
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.sessions import open_session
from duckflow_tui.state.base import JsonObject, canonical_json

MODEL: Final = "scripted"
#: Calls that a story may take with a model and a judge that make no mistake.
MOST_CALLS: Final = {
    "talk": 1,
    "a question about a file": 3,
    "a fix of one line": 3,
    "a fix with a test": 4,
    "work planned in four steps": 3,
    "the same plan, begun after the yes": 4,
    "the same plan, a step at a time": 6,
}
_DECIDES: Final = ("main", "task")
_COUNTER: Final = ScriptCounter()
_DEADLINE_S: Final = 120.0  # of one message


def measure(protocol: Protocol) -> list[Row]:
    """A row for each story."""
    return [asyncio.run(play_story(story, protocol))[0] for story in STORIES]


def table(rows: Iterable[Row]) -> str:
    """The rows for people."""
    head = "story", "calls", "in", "out", "in a turn", "over its end", "at a plan", "outcome"
    return aligned([("", *head), *map(_cells, rows)], left=(0, 1, 8))


def _cells(row: Row) -> tuple[str, ...]:
    begins = (
        f"{row['begins'][kind]:.0%}" if kind in row["begins"] else "–"
        for kind in ("turn", "end", "plan")
    )
    calls = f"{sum(row['calls'].values())}"
    return (
        "✓" if row["as_wanted"] else "✗", row["what"].removeprefix("story: "), calls,
        f"{row['tokens_in']:,}", f"{row['tokens_out']:,}", *begins, row["outcome"],
    )  # fmt: skip


async def play_story(story: Story, protocol: Protocol) -> tuple[Row, list[Request]]:
    """Play a story in a fresh project; returns its row and the requests that were sent."""
    author, said = Author(story), list[int]()

    def reply(request: Request) -> Reply | None:
        made = author.reply(request)
        if made is not None:
            content, calls = made.content_for(request.json)
            spoken = (content, *(canonical_json(call.arguments) for call in calls))
            said.append(sum(map(_COUNTER.count, spoken)))
        return made

    # What is counted must not hang on where this tree and its folder for temporary files are.
    with tempfile.TemporaryDirectory(prefix="duckflow-story-", dir="/tmp") as folder:
        workspace = Path(folder) / "orders"
        for path, text in PROJECT.items():
            (workspace / path).parent.mkdir(parents=True, exist_ok=True)
            (workspace / path).write_text(text, "utf-8")
        async with ScriptedEndpoint(Script(models=(MODEL,)), author=reply) as server:
            flags = Flags(
                workspace=workspace,
                base_url=server.base_url,
                model=MODEL,
                protocol=protocol,
                mode="trusted",
                allow=(SUITE,),
                no_session=True,
            )
            outcomes = await _play(flags, Path(folder) / "home", story)
            requests = [request for request in server.requests if request.method == "POST"]
        row: Row = {
            "what": f"story: {story.name}",
            "calls": dict(Counter(request.purpose for request in requests)),
            "tokens_in": sum(body_tokens(request.json) for request in requests),
            "tokens_out": sum(said),
            "begins": _shares(story, requests),
            "outcome": ", ".join(sorted(outcomes)),
            "as_wanted": outcomes <= {"done", "answered"} and story.is_as_wanted(workspace),
        }
        return row, requests


async def _play(flags: Flags, home: Path, story: Story) -> set[str]:
    """Send the messages one after the other and take each plan; returns the turns' outcomes."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("DUCKFLOW_")}
    choice = choose_session(flags, Places.find({"DUCKFLOW_HOME": str(home)}), "en", environ)
    spawn, watch = TaskSpawn(), Watch()
    outcomes: set[str] = set()
    async with open_session(choice, spawn) as engine:
        engine.store.subscribe(watch.look)
        spawn(engine.chat_loop(), "chat")
        try:
            for message in story.messages:
                await engine.send(message.text)
                async with asyncio.timeout(_DEADLINE_S):
                    end = await answer_until_ended(engine, watch)
                outcomes.add(end.outcome)
        finally:
            await spawn.end_tasks()
    return outcomes


def _shares(story: Story, requests: Sequence[Request]) -> dict[str, float]:
    """By kind of what lies between two requests for a decision, the share of the first one's
    tokens that the second begins with.
    """
    kept, whole = Counter[str](), Counter[str]()
    asked = [request for request in requests if request.purpose in _DECIDES]
    for before, after in pairwise(asked):
        kind = "turn"
        if _heard(story, before) != _heard(story, after):
            kind = "end"
        elif (before.purpose, after.purpose) == ("main", "task"):
            kind = "plan"
        first, second = _wire(before.json), _wire(after.json)
        kept[kind] += _COUNTER.count(_common_begin(first, second))
        whole[kind] += _COUNTER.count(first)
    return {kind: round(kept[kind] / whole[kind], 3) for kind in whole}


def _heard(story: Story, request: Request) -> int:
    """How many of the story's messages the request has heard; a step's request as its plan's."""
    return max((n for n, m in enumerate(story.messages, 1) if m.text in request.text), default=0)


def _wire(body: JsonObject) -> str:
    """What a server reads in the order in which it keeps it: functions, form, messages."""
    parts: list[object] = [body.get("tools") or [], body.get("response_format") or {}]
    parts += cast("list[object]", body.get("messages") or [])
    return "\n".join(map(canonical_json, parts))


def _common_begin(first: str, second: str) -> str:
    pairs = enumerate(zip(first, second, strict=False))
    return first[: next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))]
