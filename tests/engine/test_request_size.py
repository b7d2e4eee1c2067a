"""What every request repeats, as it goes over the wire: how much it is, and what is not in it."""

from __future__ import annotations

import json

import pytest
from benchmarks.bench_tokens import ASKED, LIMITS, first_request
from benchmarks.sent import body_tokens

from duckflow_tui.llm.decision_reading import EXTRAS


@pytest.mark.parametrize("protocol", LIMITS)
async def test_the_fixed_part_of_a_request_keeps_its_limit(protocol: str) -> None:
    sent = await first_request(protocol)
    fixed = body_tokens(sent.json) - body_tokens({"messages": [{"content": ASKED}]})
    assert fixed <= LIMITS[protocol]


@pytest.mark.parametrize("protocol", LIMITS)
async def test_each_operation_is_offered_once_and_what_needs_something_is_not_told_before(
    protocol: str,
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
