"""A run without a screen that is told to end before its turn has begun."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from support.quiet_engine import QuietEngine

from duckflow_tui.engine import Engine
from duckflow_tui.headless import HeadlessOptions, TaskSpawn, run_turn
from duckflow_tui.state.store import MemoryRecorder
from duckflow_tui.words.catalogue import Catalogue


class SlowEngine(QuietEngine):
    """Gets the signal while it takes the message, or breaks; no turn comes of it."""

    def __init__(self, number: int) -> None:
        super().__init__(MemoryRecorder())
        self._number = number

    async def chat_loop(self) -> None:
        if not self._number:
            raise RuntimeError("the loop is broken")
        await super().chat_loop()

    async def send(self, text: str, *, quoted: bool = False) -> None:
        if self._number:
            os.kill(os.getpid(), self._number)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_a_signal_before_the_turn_ends_the_run(number: int, status: int) -> None:
    assert (await _ran(number))[0] == status


async def test_a_loop_that_breaks_ends_the_run_and_is_told() -> None:
    status, told = await _ran(0)
    assert status == 1
    assert "the loop is broken" in told


async def _ran(number: int) -> tuple[int, str]:
    @asynccontextmanager
    async def opened(spawn: TaskSpawn) -> AsyncGenerator[Engine]:
        yield cast("Engine", SlowEngine(number))

    options, err = HeadlessOptions(text="go"), io.StringIO()
    async with asyncio.timeout(15):
        ended = await run_turn(opened, options, Catalogue("en"), io.StringIO(), err)
    return ended, err.getvalue()
