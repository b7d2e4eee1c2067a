"""The file picker while names are still being read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from support.app_states import FakeEngine, app_with, settled, standing, store_with

from duckflow_tui.ui.file_names import FileNames

DEADLINE = 30.0


class Disk:
    """Gives a batch whenever the test puts one."""

    def __init__(self) -> None:
        self.batches: asyncio.Queue[list[str] | None] = asyncio.Queue()
        self.closed = False

    async def read(self) -> AsyncGenerator[list[str], None]:
        try:
            while (batch := await self.batches.get()) is not None:
                yield batch
        finally:
            self.closed = True


@pytest.mark.parametrize("query", ["", "b"])
async def test_what_matches_is_offered_before_all_names_are_there(query: str) -> None:
    disk = Disk()
    names = FileNames(disk.read())
    reading = asyncio.create_task(names.read())
    matches = names.matches(query, 2)
    async with asyncio.timeout(DEADLINE):
        disk.batches.put_nowait(["xb.py", "cb.py"])
        assert set(await anext(matches)) == {"xb.py", "cb.py"}
        disk.batches.put_nowait(["zzz.txt"])  # no better than what is offered: nothing changes
        disk.batches.put_nowait(["b.py"])
        assert await anext(matches) == ["b.py", "cb.py"]
        disk.batches.put_nowait(None)
        assert await anext(matches, None) is None
        await reading
    assert names.complete
    assert disk.closed


async def test_without_a_match_there_is_one_empty_offer_at_the_end() -> None:
    disk = Disk()
    names = FileNames(disk.read())
    disk.batches.put_nowait(["a.py"])
    disk.batches.put_nowait(None)
    async with asyncio.timeout(DEADLINE):
        await names.read()
        assert [found async for found in names.matches("q", 3)] == [[]]


async def test_reading_goes_on_whatever_is_typed_and_starts_anew_with_the_next_list() -> None:
    engine = FakeEngine(store_with())
    disks: list[Disk] = []

    def workspace_files() -> AsyncGenerator[list[str], None]:
        disks.append(Disk())
        return disks[-1].read()

    engine.workspace_files = workspace_files  # type: ignore[method-assign]  # a slow disk
    app = app_with(engine)

    def offered() -> list[str]:
        return [candidate.value for candidate in app.bench.completions.candidates]

    async with standing(app) as pilot:
        await pilot.press("@")
        await settled(pilot, lambda: len(disks) == 1)
        await pilot.press("c", "a")
        disks[0].batches.put_nowait(["src/cart.py", "README.md"])
        await settled(pilot, lambda: offered() == ["src/cart.py"])
        disks[0].batches.put_nowait(["cart.md"])
        disks[0].batches.put_nowait(None)
        await settled(pilot, lambda: offered() == ["cart.md", "src/cart.py"])
        await pilot.press("escape", "space", "@")
        await settled(pilot, lambda: len(disks) == 2)
        disks[1].batches.put_nowait(["new.py"])
        await settled(pilot, lambda: offered() == ["new.py"])
    assert all(disk.closed for disk in disks)
