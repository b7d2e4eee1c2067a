"""How long a 10,000-line diff takes to the screen, and a page of it while scrolling."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median
from typing import Final

from benchmarks.rows import Row, row
from support.gates import GateApp, gate, many_lines, preview

from duckflow_tui.state.gates import FilePreview
from duckflow_tui.ui.panes.diff import DiffView

LINES: Final = 10_000
SHOWN_S: Final = 0.3
PAGE_S: Final = 0.1  # a pause that is not noticed


def measure(*, quick: bool) -> list[Row]:
    """A new file, and a file that changes in 1,000 places; the best of several openings."""
    rows: list[Row] = []
    for name, shown in {"new file": many_lines(LINES), "1,000 hunks": _scattered()}.items():
        runs = [asyncio.run(_opened(shown)) for _ in range(2 if quick else 5)]
        opened, page, cpu = (min(times) for times in zip(*runs, strict=True))
        what = f"diff of a 10,000-line file on screen, {name}"
        rows.append(row(what, opened, SHOWN_S, "s", beside={"CPU": cpu}))
        rows.append(row(f"a page further in it, {name}", page, PAGE_S, "s"))
    return rows


def _scattered() -> FilePreview:
    before = [
        f"    value_{n} = compute(alpha, {n})" + ("  # 合計を計算する" if n % 10 == 5 else "")
        for n in range(LINES)
    ]
    after = [
        line.replace("alpha", "beta") if n % 10 == 0 else line for n, line in enumerate(before)
    ]
    return preview("src/big.py", "\n".join(before), "\n".join(after))


async def _opened(shown: FilePreview) -> tuple[float, float, float]:
    """Seconds until the first lines are drawn, for a page further, and CPU of the first."""
    app = GateApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        view = app.card.query_one(DiffView)
        waiting = gate([shown], can_edit=False)
        start, cpu = time.perf_counter(), time.process_time()
        app.gates = (waiting,)
        whole = view.document.unseen_lines
        await _until(lambda: view.document.unseen_lines < whole)
        opened, cpu = time.perf_counter() - start, time.process_time() - cpu
        pages: list[float] = []
        for _ in range(20):
            left = view.document.unseen_lines
            start = time.perf_counter()
            view.action_page_down()
            await _until(lambda left=left: view.document.unseen_lines < left)
            pages.append(time.perf_counter() - start)
        return opened, median(pages), cpu


async def _until(done: Callable[[], bool]) -> None:
    """Give the loop its turns until something was drawn, and lose no time to a timer."""
    for _ in range(10_000_000):
        if done():
            return
        await asyncio.sleep(0)
    raise TimeoutError("nothing was drawn")
