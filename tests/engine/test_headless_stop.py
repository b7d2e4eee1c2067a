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
from support.pinned import ManualClock

from duckflow_tui.headless import HeadlessOptions, TaskSpawn, run
from duckflow_tui.loops.engine import Engine
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.store import MemoryRecorder, Record, Store
from duckflow_tui.ui.i18n import Catalogue


class SlowEngine:
    """Gets the signal while it takes the message; no turn comes of it."""

    suggestion = ""
    begun: tuple[Record, ...] = ()

    def __init__(self, number: int) -> None:
        self.store = Store(AgentState(), ManualClock(), MemoryRecorder())
        self._number = number

    async def chat_loop(self) -> None:
        await asyncio.Event().wait()

    async def send(self, text: str) -> None:
        os.kill(os.getpid(), self._number)

    def stop(self) -> None:
        """There is nothing to stop."""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_a_signal_before_the_turn_ends_the_run(number: int, status: int) -> None:
    @asynccontextmanager
    async def opened(spawn: TaskSpawn) -> AsyncGenerator[Engine]:
        yield cast("Engine", SlowEngine(number))

    options = HeadlessOptions(text="go")
    async with asyncio.timeout(15):
        ended = await run(opened, options, Catalogue("en"), io.StringIO(), io.StringIO())
    assert ended == status
