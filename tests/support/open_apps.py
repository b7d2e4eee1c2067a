"""Apps that stay open from one test of a file to its next: a start takes longer than most tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from support.app_states import FakeEngine, FakeSessions, app_with, settled, store_with
from support.gates import Alike, Gate, GateApp, drawn
from support.pinned import ManualClock
from support.screens import stands
from textual.app import App
from textual.pilot import Pilot

from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.panes.diff_document import DiffDocument

Size = tuple[int, int]

_LATER: Final = 60.0  # seconds: what one test did is long ago for the next


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
        language: str = "en",
        step: str = "",
        proposed: dict[str, str] | None = None,
        alike: Alike | None = None,
    ) -> AsyncGenerator[tuple[GateApp, Pilot[None]]]:
        """An app of this size with these gates; the rest as ``GateApp`` takes it."""
        how: dict[str, Any] = {"step": step, "proposed": proposed, "alike": alike}
        async with self._at((GateApp, size), GateApp, size) as pilot:
            app = pilot.app
            assert isinstance(app, GateApp)
            if app.card.is_holding:
                await drawn(pilot)
            await app.ask_anew(*gates, language=language, **how)
            yield app, pilot
            assert app.size == size

    @asynccontextmanager
    async def standing(
        self, fake: FakeEngine, width: int = 120, height: int = 40, *, language: str = "en"
    ) -> AsyncGenerator[tuple[DuckflowApp, Pilot[int]]]:
        """The whole app with this session, as at a start: as a user opens another session."""

        def start() -> DuckflowApp:
            return app_with(FakeEngine(store_with()), language=language)

        size = width, height
        async with self._at(DuckflowApp, start, size) as pilot:
            app = pilot.app
            assert isinstance(app, DuckflowApp)
            await settled(pilot, lambda: not app.session.opening, "the session")
            if app.size != size:
                await pilot.resize_terminal(width, height)
            if app.words.language != language:
                app.action_language(language)
            await _show(app, fake)
            await settled(pilot, lambda: stands(app.screen), "the screen")
            yield app, pilot

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
                assert pilot.app.is_running
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


async def _show(app: DuckflowApp, fake: FakeEngine) -> None:
    """Open this session and put away what keys and tests did to the screen."""
    bench, clock, sources = app.bench, app.clock, app.session.sources
    assert isinstance(clock, ManualClock)
    assert isinstance(sources, FakeSessions)
    while app.screen is not bench:
        await app.pop_screen()
    app.theme = "duck-dark"
    bench.shown, bench.column, bench.zoomed = "chat", "side", False
    bench.side.share = 0
    bench.vitals.explained, bench.vitals_place = False, "auto"
    bench.diff.open(DiffDocument())
    app.bridge.attach(store_with())  # what is kept of a plan, a goal and a question goes with them
    vars(bench.plan).update(_cursor=("", ""))
    vars(bench.composer).update(_dismissed="", _recalled=None)
    clock.advance(_LATER)
    clock.set(fake.store.clock.now())
    fake.store.clock = clock
    sources.other, sources.fault = fake, None
    await app.session.switch_to("another")
    assert app.session.store is fake.store
    sources.resumed.clear()
    bench.set_focus(bench.composer)
    app.status.clear_message()
