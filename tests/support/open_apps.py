"""Apps that stay open from one test of a file to its next: a start takes longer than most tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from support.app_states import FakeEngine, FakeSessions, app_with, settled, store_with
from support.gates import Alike, Gate, GateApp, drawn
from support.pinned import ManualClock
from support.screens import stands
from textual.app import App
from textual.pilot import Pilot

from duckflow_tui.ui.app import DuckflowApp

Size = tuple[int, int]


class OpenApps:
    """What a test leaves is put away before the next one asks; where a test fails, the app goes."""

    def __init__(self) -> None:
        self._open: dict[object, tuple[Pilot[Any], asyncio.Event]] = {}
        self._running: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def asking(
        self,
        *gates: Gate,
        size: Size = (120, 40),
        beside: bool = True,
        language: str = "en",
        step: str = "",
        proposed: dict[str, str] | None = None,
        alike: Alike | None = None,
    ) -> AsyncGenerator[tuple[GateApp, Pilot[None]]]:
        """An app of this size with these gates; the rest as ``GateApp`` takes it."""
        how: dict[str, Any] = {"step": step, "proposed": proposed, "alike": alike}
        async with self._at((size, beside), lambda: GateApp(beside=beside), size) as pilot:
            app = pilot.app
            assert isinstance(app, GateApp)
            if app.card.holding:
                await drawn(pilot)
            await app.ask_anew(*gates, language=language, **how)
            yield app, pilot

    @asynccontextmanager
    async def standing(
        self, fake: FakeEngine, width: int = 120, height: int = 40, *, language: str = "en"
    ) -> AsyncGenerator[tuple[DuckflowApp, Pilot[int]]]:
        """The whole app with this session, as after a change of the session."""

        def start() -> DuckflowApp:
            return app_with(FakeEngine(store_with()), language=language)

        size = width, height
        async with self._at((size, language), start, size) as pilot:
            app = pilot.app
            assert isinstance(app, DuckflowApp)
            await settled(pilot, lambda: not app.session.opening, "the session")
            await self._show(app, fake)
            await settled(pilot, lambda: stands(app.screen), "the screen")
            yield app, pilot

    async def _show(self, app: DuckflowApp, fake: FakeEngine) -> None:
        while app.screen is not app.bench:
            await app.pop_screen()
        before, clock, sources = app.session.store, app.clock, app.session.sources
        assert before is not None
        assert isinstance(clock, ManualClock)
        assert isinstance(sources, FakeSessions)
        before.state.cards, before.state.gates = (), ()
        app.bridge.spread(before.state)
        clock.advance(60)
        clock.set(ManualClock().now())
        fake.store.clock = clock
        sources.other = fake
        app.bench.composer.write("")
        await app.session.switch_to("another")
        app.bench.composer.focus()
        app.status.clear_message()

    @asynccontextmanager
    async def _at(
        self, key: object, make: Callable[[], App[Any]], size: Size
    ) -> AsyncGenerator[Pilot[Any]]:
        if key not in self._open:
            self._open[key] = await self._start(make(), size)
        pilot, over = self._open[key]
        with pilot.app._context():  # pyright: ignore[reportPrivateUsage]  # as ``run_test`` does
            try:
                yield pilot
                assert pilot.app._exception is None  # pyright: ignore[reportPrivateUsage]
                assert pilot.app.size == size
            except BaseException:
                del self._open[key]
                over.set()
                raise

    async def _start(self, app: App[Any], size: Size) -> tuple[Pilot[Any], asyncio.Event]:
        started: asyncio.Future[Pilot[Any]] = asyncio.get_running_loop().create_future()
        over = asyncio.Event()

        async def run() -> None:
            async with app.run_test(size=size) as pilot:
                started.set_result(pilot)
                await over.wait()

        task = asyncio.create_task(run())
        self._running.add(task)
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        return await started, over

    async def close(self) -> None:
        """End them all; an exception of an app is that of the last test."""
        for _, over in self._open.values():
            over.set()
        await asyncio.gather(*self._running)
