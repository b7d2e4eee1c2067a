"""Searches that would not end, stops in the middle, and programs that are not to be trusted."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from pathlib import Path

import pytest
from support.bench import Bench, done
from support.shell import running_with

from duckflow_tui.state.operations import Outcome
from duckflow_tui.tools import search
from duckflow_tui.tools.listing import iter_files

SEARCH = "file_ops.search_text"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    (path / "a.py").write_text("needle\n")
    (path / "evil").write_text("a" * 40 + "\n")
    return path


async def test_an_expression_that_backtracks_for_ever_elsewhere_is_answered_at_once(
    bench: Bench,
) -> None:
    message = await bench.call(SEARCH, pattern="(a+)+$b", regex=True)
    assert "[0 matches" in message.result.text
    assert message.result.duration_s < 5


async def test_a_slow_expression_ends_soon_after_its_time(
    bench: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also its thread, for which the program would wait at its end."""
    for number in range(9):
        (root / f"{number}.txt").write_bytes(b"ab" * 499_000)
    monkeypatch.setattr(search, "TIME_LIMIT", 0.5)
    message = await bench.call(SEARCH, pattern="(a?b?){900}x", regex=True)
    assert message.result.summary == "time-out · 0 · 0"
    began = time.monotonic()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert time.monotonic() - began < 15


async def test_an_expression_that_grows_too_large_is_refused(bench: Bench) -> None:
    message = await bench.call(SEARCH, pattern=r"(\w?b?){999}" * 3, regex=True)
    assert message.result.outcome is Outcome.INVALID
    assert "pattern too large" in message.result.text


async def test_what_was_found_in_time_is_told_and_a_stop_ends_the_reading(
    bench: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (root / "b").open("wb") as file:
        file.truncate(1 << 40)  # sparse: nobody reads it to its end
        file.write(b"x" * 10_000)
    monkeypatch.setattr(search, "TIME_LIMIT", 0.5)
    message = await bench.call(SEARCH, pattern="needle")
    assert "not everything was searched" in message.result.text
    assert message.result.summary.startswith("time-out")
    task = bench.begin(SEARCH, pattern="needle")
    await bench.until(lambda state: any(r.started for r in state.running))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await done(task)
    last = bench.store.state.messages[-1]
    assert last.kind == "operation"
    assert last.result.outcome is Outcome.STOPPED


async def test_a_program_that_lies_in_the_workspace_is_not_run(
    bench: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository must not bring the program that reads it."""
    fake = root / "tools" / "rg"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\ntouch ran\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent))
    files = [path async for batch in iter_files(bench.workspace) for path in batch]
    assert "a.py" in files
    assert not (root / "ran").exists()


async def test_a_child_of_ripgrep_that_holds_its_outputs_holds_no_end(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a program found is told when the program has ended, whoever else holds the pipes."""
    mark = f"63{secrets.randbelow(10**8):08}"
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "rg").write_text(f"#!/bin/sh\nsetsid sleep {mark} &\nprintf 'a.py\\000'\nexit 0\n")
    (programs / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    try:
        files = [path async for batch in iter_files(bench.workspace) for path in batch]
        assert files == ["a.py"]
        assert running_with(f"sleep\0{mark}")
    finally:
        for pid in running_with(mark):
            os.kill(pid, signal.SIGKILL)


def memory_in_use() -> int:
    """Megabytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 1_000_000


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux bounds it")
async def test_a_line_of_any_length_is_searched_in_bounded_memory(bench: Bench, root: Path) -> None:
    """Longer than a search may take memory; what lies behind it is found too."""
    with (root / "b.txt").open("wb") as file:
        for _ in range(150):
            file.write(b"abcdefgh" * 131_072)
        file.write("\nlocated needle at ä the end\n".encode())
        file.write("ä".encode() * 1_500_000 + b" second needle")
    (root / "c.txt").write_text("a needle\n")
    before = most = memory_in_use()
    task = bench.begin(SEARCH, pattern="needle")
    while not task.done():
        await asyncio.sleep(0.02)
        most = max(most, memory_in_use())
    text = (await done(task)).result.text
    assert most - before < 100
    for found in ("a.py", "b.txt", "2: located needle", "c.txt", "3: ä", "at byte 3,000,009"):
        assert found in text
