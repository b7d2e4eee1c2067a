"""The ten requests of the benchmark, sent to an endpoint as they are to a real one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
from benchmarks import bench_requests
from benchmarks.request_cases import CASES, author
from benchmarks.run import main

from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Script

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


class Said(NamedTuple):
    """What the command told."""

    status: int
    out: str
    err: str


class Answered(Protocol):
    """Runs the command in a thread of this process: to start another takes longer than to ask."""

    async def __call__(self, *args: str) -> Said: ...


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Answered:
    def said(args: tuple[str, ...]) -> Said:
        monkeypatch.setattr(sys, "argv", [str(BENCHMARKS), *args])
        try:
            status = main()
        except SystemExit as ended:
            status = ended.code
        assert isinstance(status, int)
        printed = capsys.readouterr()
        return Said(status, str(printed.out), str(printed.err))

    async def answer(*args: str) -> Said:
        async with asyncio.timeout(DEADLINE_S):
            return await asyncio.to_thread(said, args)

    return answer


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
async def test_planned_work_sends_few_tokens_and_does_what_was_asked(
    answered: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is counted must not hang on where this tree and its folder for temporary files are.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    monkeypatch.setattr(bench_requests, "CASES", [case for case in CASES if case.name == "plan"])
    said = await answered("--only", "requests")
    assert said.status == 0, said.err
    (planned,) = [json.loads(line) for line in said.out.splitlines()]
    assert planned["what"] == "request: plan"
    assert planned["as_wanted"]
    assert planned["sent"].keys() == {"main", "plan", "task", "satisfaction"}
    assert sum(planned["sent"].values()) <= PLANNED_MOST, planned["sent"]


async def test_an_endpoint_that_answers_nothing_is_a_result_and_not_an_end(
    answered: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the requests is sent though the one before had no answer."""
    asked = CASES[:3]
    monkeypatch.setattr(bench_requests, "CASES", asked)
    async with ScriptedEndpoint(Script()) as server:
        said = await answered("--base-url", server.base_url, "--model", "m", "--table")
    assert said.status == 0, said.err
    assert said.out.count("failed") == len(asked)


async def test_a_model_without_an_address_is_refused(answered: Answered) -> None:
    said = await answered("--model", "m")
    assert (said.status, said.out) == (2, "")
    assert "belong together" in said.err
