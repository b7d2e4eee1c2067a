"""What every request repeats, as it goes over the wire: how much it is, and what is not in it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from benchmarks.sent import body_tokens
from support.session import done, script, session

from duckflow_tui.llm.decision_reading import EXTRAS
from duckflow_tui.llm.endpoints import Protocol
from duckflow_tui.scripted.endpoint import Request

ASKED = "Hi."
#: Tokens by protocol.
LIMITS: dict[Protocol, int] = {"tools": 2_600, "json": 2_400}


async def first_request(protocol: Protocol) -> Request:
    """The first request of a new session on an empty folder, all operations on offer."""
    # The request names the folder: what is counted must not hang on where others are made.
    with tempfile.TemporaryDirectory(prefix="duckflow-tokens-", dir="/tmp") as folder:
        greets = script(done("Hello.", step="PLANNING"))
        async with session(Path(folder), greets, protocol=protocol, no_session=True) as s:
            await s.turn(ASKED)
            return s.server.of("main")[0]


@pytest.mark.parametrize("protocol", LIMITS)
async def test_the_fixed_part_of_a_request_keeps_its_limit(protocol: Protocol) -> None:
    sent = await first_request(protocol)
    fixed = body_tokens(sent.json) - body_tokens({"messages": [{"content": ASKED}]})
    assert fixed <= LIMITS[protocol]


@pytest.mark.parametrize("protocol", LIMITS)
async def test_each_operation_is_offered_once_and_what_needs_something_is_not_told_before(
    protocol: Protocol,
) -> None:
    """Neither a plan nor a background command nor a note is there in a new session."""
    sent = await first_request(protocol)
    body = json.dumps(sent.json)
    used = "file_ops__edit_file" if protocol == "tools" else "- file_ops.edit_file("
    idle = ("plan_tool.get", "plan_tool.revise", "task_loop", "shell.end", "memory.recall")
    assert body.count(used) == 1
    assert body.count("- file_ops.delete_file(") == 1
    for name in idle:
        assert name not in body
        assert name.replace(".", "__") not in body
    for word in EXTRAS:  # once in a schema, and where the format explains it
        assert body.count(word) <= 4
