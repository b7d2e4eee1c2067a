"""An app that stays open from one test of a file to its next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, cast

from support.app_states import FakeEngine, FakeSessions, app_with, settled, standing, store_with
from support.pinned import ManualClock
from textual.pilot import Pilot

from duckflow_tui.ui.app import DuckflowApp

_LATER: Final = 60.0  # seconds: what one test did is long ago for the next


class KeptBench:
    """To start an app takes longer than most tests do: each test opens a session of its own in one
    app, as a user opens another, and finds the screen as at a start. Where a test fails, the app
    goes.
    """

    def __init__(self) -> None:
        self._pilot: Pilot[int] | None = None
        self._over = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def standing(
        self, engine: FakeEngine, width: int = 120, height: int = 40
    ) -> AsyncGenerator[tuple[DuckflowApp, Pilot[int]]]:
        """The app of this size with the session of this engine open."""
        pilot = self._pilot or await self._start()
        app = cast("DuckflowApp", pilot.app)
        with app._context():  # pyright: ignore[reportPrivateUsage]  # as ``run_test`` does
            try:
                self._pilot = None
                await _as_at_start(app, pilot, engine, width, height)
                yield app, pilot
                assert app._exception is None  # pyright: ignore[reportPrivateUsage]
                assert app.is_running
                self._pilot = pilot
            finally:
                if self._pilot is None:
                    self._over.set()

    async def _start(self) -> Pilot[int]:
        started: asyncio.Future[Pilot[int]] = asyncio.get_running_loop().create_future()
        self._over = over = asyncio.Event()

        async def run() -> None:
            async with standing(app_with(FakeEngine(store_with()))) as pilot:
                started.set_result(pilot)
                await over.wait()

        task = asyncio.create_task(run())
        self._running.add(task)
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        return await started

    async def close(self) -> None:
        """End them all; an exception of an app is that of the last test."""
        self._over.set()
        await asyncio.gather(*self._running)


async def _as_at_start(
    app: DuckflowApp, pilot: Pilot[int], engine: FakeEngine, width: int, height: int
) -> None:
    bench, sources = app.bench, app.session.sources
    assert isinstance(sources, FakeSessions)
    while len(app.screen_stack) > 1:
        app.pop_screen()
    if app.words.language != "en":
        app.action_language("en")
    app.theme = "duck-dark"
    if app.size != (width, height):
        await pilot.resize_terminal(width, height)
    clock, its_own = app.clock, engine.store.clock
    assert isinstance(clock, ManualClock)
    assert isinstance(its_own, ManualClock)
    clock.advance(_LATER)
    vars(clock)["_now"] = its_own.now()
    engine.store.clock = clock
    sources.other, sources.fault = engine, None
    bench.shown, bench.column, bench.zoomed = "chat", "side", False
    bench.vitals.explained = False
    app.bridge.attach(store_with())  # what is kept of a plan and of a goal goes with them
    vars(bench.plan).update(_cursor=("", ""))
    vars(bench.composer).update(_dismissed="", _recalled=None)
    await app.session.switch_to("")
    sources.resumed.clear()
    app.status.clear_message()
    bench.to_composer()
    await settled(pilot, lambda: app.session.store is engine.store, "the session")
    for _ in range(2):
        drawn = asyncio.Event()
        bench.call_after_refresh(drawn.set)
        await drawn.wait()
        await pilot.pause()
