"""The ten requests of the benchmark, sent to an endpoint as they are to a real one."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
from benchmarks import bench_requests
from benchmarks.request_cases import CASES
from benchmarks.run import main
from support.session import done

from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Script

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
DEADLINE_S = 120.0


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


async def test_what_each_request_took_is_told_though_one_had_no_answer(
    answered: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = CASES[:2]
    monkeypatch.setattr(bench_requests, "CASES", asked)
    greets = done("Good morning.", step="PLANNING")
    async with ScriptedEndpoint(Script(replies={"main": (greets,)})) as server:
        said = await answered("--base-url", server.base_url, "--model", "m", "--table")
    assert said.status == 0, said.err
    _, first, second = said.out.splitlines()
    assert first.split()[:4] == ["✓", "small", "talk", "1"]
    assert "answered" in first
    assert "failed" in second


async def test_a_model_without_an_address_is_refused(answered: Answered) -> None:
    said = await answered("--model", "m")
    assert (said.status, said.out) == (2, "")
    assert "belong together" in said.err
