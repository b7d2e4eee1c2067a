"""The ten requests of the benchmark, sent to an endpoint as they are to a real one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.request_cases import CASES, author

from duckflow_tui.demo.endpoint import ScriptedEndpoint
from duckflow_tui.demo.replies import Script

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
DEADLINE_S = 120.0
KEY = "DUCKFLOW_BENCHMARK_KEY"
#: Tokens that all requests of the planned case may have together: two fifths of the 266,798 that
#: they had while a step was told much of it twice and asked again after each action.
PLANNED_MOST = 106_700


async def measured(*args: str, **environ: str) -> tuple[int, str, str]:
    """Run the command; exit status, output, errors."""
    ran = await asyncio.create_subprocess_exec(
        sys.executable,
        str(BENCHMARKS),
        *args,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environ},
    )
    async with asyncio.timeout(DEADLINE_S):
        out, err = await ran.communicate()
    assert ran.returncode is not None
    return ran.returncode, out.decode(), err.decode()


@pytest.mark.whole
async def test_ten_requests_to_an_endpoint_tell_what_each_took() -> None:
    script = Script(models=("m",), key="not-a-secret")
    async with ScriptedEndpoint(script, author=author()) as server:
        flags = ("--base-url", server.base_url, "--model", "m", "--api-key-env", KEY)
        status, out, err = await measured(*flags, **{KEY: "not-a-secret"})
        assert status == 0, err
        asked = {request.json["model"] for request in server.of("main")}
    rows: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert [row["what"] for row in rows] == [f"request: {case.name}" for case in CASES]
    assert asked == {"m"}
    by_name = {row["what"].removeprefix("request: "): row for row in rows}
    assert [row["what"] for row in rows if not row["as_wanted"]] == []
    talk, missed = by_name["small talk"], by_name["requirement missed, then met"]
    assert (talk["calls"], talk["attempts"], talk["satisfaction"]) == (1, 1, None)
    assert (missed["attempts"], missed["satisfaction"], missed["outcome"]) == (2, 1.0, "done")
    assert len(missed["loops"]) == 2
    assert by_name["stuck, then told"]["asked"] == 1
    assert all(1 <= used <= limit for row in rows for used, limit in row["loops"])


@pytest.mark.whole
async def test_planned_work_sends_few_tokens_and_does_what_was_asked() -> None:
    # What is counted must not hang on where this tree and its folder for temporary files are.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    status, out, err = await measured("--only", "requests", PATH=path, TMPDIR="/tmp")
    assert status == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    (planned,) = [row for row in rows if row["what"] == "request: plan"]
    assert planned["as_wanted"]
    assert planned["sent"].keys() == {"main", "plan", "task", "report", "satisfaction"}
    assert sum(planned["sent"].values()) <= PLANNED_MOST, planned["sent"]


async def test_an_endpoint_that_answers_nothing_is_a_result_and_not_an_end() -> None:
    async with ScriptedEndpoint(Script()) as server:
        status, out, err = await measured("--base-url", server.base_url, "--model", "m", "--table")
    assert status == 0, err
    assert out.count("failed") == len(CASES)


async def test_a_model_without_an_address_is_refused() -> None:
    status, out, err = await measured("--model", "m")
    assert (status, out) == (2, "")
    assert "belong together" in err
