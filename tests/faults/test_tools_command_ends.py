"""The end of a command, however it comes: nothing of it stays, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.bench import DEADLINE, done
from support.shell import ShellBench, comes, running_with, sleeping

from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.tools.process_table import MARK

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")

RUN = "shell.run"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[ShellBench]:
    (tmp_path / "work").mkdir()
    made = ShellBench(tmp_path / "work")
    await approved(made, "true")  # what every command needs is there from now on
    try:
        yield made
    finally:
        await made.end_commands()


def begin(bench: ShellBench, command: str, **args: Any) -> asyncio.Task[OperationMessage]:
    return bench.begin(RUN, command=command, **args)


async def approve(bench: ShellBench) -> None:
    gate = await bench.gate()
    await bench.answer(gate, GateChoice.ONCE)


async def approved(bench: ShellBench, command: str, **args: Any) -> OperationMessage:
    task = begin(bench, command, **args)
    await approve(bench)
    return await done(task)


async def printing(bench: ShellBench, command: str, **args: Any) -> asyncio.Task[OperationMessage]:
    """The call, once its command has printed something."""
    task = begin(bench, command, **args)
    await approve(bench)
    await bench.until(lambda state: bool(state.outputs))
    return task


def descriptors() -> set[str]:
    """What this process has open."""
    found: set[str] = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
    return found


def mark_of(pid: int) -> str:
    """What the app marked a command with."""
    environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    found = next(line for line in environ if line.startswith(MARK.encode()))
    return found.decode().partition("=")[2]


@pytest.mark.parametrize("pause", [0.0, 0.01, 0.2])
async def test_a_stop_that_is_asked_for_twice_leaves_nothing_behind(
    bench: ShellBench, mark: str, pause: float
) -> None:
    """Its processes, its descriptors, what the watchdog knows of it, and its record."""
    assert await bench.copies.take_snapshot()  # whose file stays open as long as the session
    before = descriptors()
    task = await printing(bench, f"echo here; trap '' TERM; sleep {mark}; sleep {mark}")
    assert await comes(lambda: bool(running_with(f"sleep\0{mark}")))
    known = mark_of(running_with(f"sleep\0{mark}")[0])
    task.cancel()
    await asyncio.sleep(pause)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await done(task)
    assert running_with(mark) == []
    message = bench.store.state.messages[-1]
    assert isinstance(message, OperationMessage)
    assert message.result.outcome is Outcome.STOPPED
    assert message.result.text.endswith("here")
    assert await comes(lambda: descriptors() == before), descriptors() - before
    with sleeping(f"{mark}9", known) as other:
        await bench.watchdog.close()
        assert not await comes(lambda: other.poll() is not None, 0.5)


async def test_a_second_stop_kills_at_once_what_does_not_end(bench: ShellBench, mark: str) -> None:
    took: list[float] = []
    for stops in (1, 2, 2, 2):
        task = await printing(bench, f"echo here; trap '' TERM; sleep {mark}; sleep {mark}")
        began = time.monotonic()
        for _ in range(stops):
            task.cancel()
            await asyncio.sleep(0)
        with contextlib.suppress(asyncio.CancelledError):
            await done(task)
        took.append(time.monotonic() - began)
        await bench.until(lambda state: not state.outputs)
    assert min(took[1:]) < took[0] / 2  # of three, so that a busy moment counts for nothing


# --- the loop goes on --------------------------------------------------------------------------


class Held:
    """Notes what the thread of the loop itself does that would hold it."""

    def __init__(self) -> None:
        self.by: list[str] = []

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.endswith("process_table.py"):
            if code.co_name in ("list_processes", "find_running"):
                self.by.append(code.co_name)
        elif event == "c_call" and arg is time.sleep:
            self.by.append("sleep")

    @contextlib.contextmanager
    def looking(self) -> Generator[None]:
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize("how", ["stopped", "twice", "late", "leaves", "user", "closed", "short"])
async def test_the_end_of_a_command_does_not_hold_the_loop(
    bench: ShellBench, mark: str, how: str
) -> None:
    """Who runs is looked up, and waited for, in another thread."""
    held = Held()
    line = f"echo here; trap '' TERM; setsid sleep {mark} & sleep {mark}; sleep {mark}"
    match how:
        case "late":
            task = await printing(bench, line, timeout_s=1)
        case "leaves":
            task = await printing(bench, f"echo here; sleep 0.5; setsid sleep {mark} & true")
        case "user":
            task = await printing(bench, line, background=True)
        case _:
            task = await printing(bench, line)
    with held.looking():
        match how:
            case "stopped":
                task.cancel()
            case "twice":
                task.cancel()
                await asyncio.sleep(0.05)
                task.cancel()
            case "user":
                await done(task)
                assert await bench.shell.end_process(bench.store.state.processes[0].process_id)
            case "closed":
                await bench.shell.close()
            case "short":
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await bench.shell.close()
            case _:
                pass
        await asyncio.wait([task], timeout=DEADLINE)
        assert await comes(lambda: not running_with(mark))
    assert held.by == []


# --- who holds the pipe ------------------------------------------------------------------------


@pytest.mark.parametrize("background", [False, True])
async def test_a_child_that_nobody_finds_and_that_holds_the_pipe_holds_no_end(
    bench: ShellBench, mark: str, background: bool
) -> None:
    """It left its session, cleared its environment and lost its parent before anyone looked."""
    program = f"echo here; (env -i setsid sleep {mark} &) ; sleep 0.05; exit 3"
    message = await approved(bench, program, background=background)
    assert message.result.exit_code == 3
    assert "here" in message.result.text
    assert len(running_with(f"sleep\0{mark}")) == 1
