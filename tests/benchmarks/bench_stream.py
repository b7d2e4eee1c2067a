"""64 KB of markdown over HTTP: how far the screen is behind, and what it costs.

Of so long a reply the chat shows the beginning and how much there is of it: characters while it
arrives, further lines at its end. The screen has the end once it counts all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from statistics import median

from benchmarks.bench_keys import PACE, PIECE
from benchmarks.markdown_sample import mark, sample
from benchmarks.processes import (
    PROGRAMS,
    PYTHON,
    Filled,
    ModelServer,
    cpu_s,
    environ,
    filled_app,
    fresh,
    model_server,
    to_rest,
)
from benchmarks.rows import Row, row

from duckflow_tui.ui.panes.blocks import MOST_REPLY

SIZE = 64 * 1024
BEHIND_S = 1.0
PACED_MS = 60.0
CPU_S = 4.0


def measure(*, quick: bool) -> list[Row]:
    """As fast as it comes and at 2,000 characters a second; ``quick`` paces 16 KB only."""
    return [*_fast(1 if quick else 3), *_paced(SIZE // 4 if quick else SIZE)]


def _fast(runs: int) -> list[Row]:
    ours: list[float] = []
    bare: list[float] = []
    cpu: list[float] = []
    with model_server(SIZE) as server, filled_app(0, server.base_url) as filled:
        to_rest(filled.terminal)
        for run in range(runs):
            before = cpu_s(filled.terminal.pid)
            ours.append(_read_by_app(server, filled, 2 * run + 1)[0])
            to_rest(filled.terminal)
            cpu.append(cpu_s(filled.terminal.pid) - before)
            bare.append(_read_by_client(server)[0])
    return [
        row(
            "64 KB of markdown as fast as it comes, behind a bare client",
            median(a - b for a, b in zip(ours, bare, strict=True)),
            BEHIND_S,
            "s",
            beside={"bare client": median(bare), "CPU s": median(cpu)},
        )
    ]


def _paced(size: int) -> list[Row]:
    part = size / SIZE
    with (
        model_server(size, PIECE, PIECE / PACE) as server,
        filled_app(0, server.base_url) as filled,
    ):
        to_rest(filled.terminal)
        before = cpu_s(filled.terminal.pid)
        took, behind = _read_by_app(server, filled, 1)
        cpu = cpu_s(filled.terminal.pid) - before
        _, client = _read_by_client(server)
    name = f"{size // 1024} KB of markdown at 2,000 characters/s"
    return [
        row(f"{name}, behind at the end", behind * 1000, PACED_MS, "ms"),
        row(
            f"{name}, CPU", cpu, CPU_S * part, "s", beside={"seconds": took, "bare client": client}
        ),
    ]


def _read_by_app(server: ModelServer, filled: Filled, number: int) -> tuple[float, float]:
    """Seconds from the request to the last words on the screen, and from their sending."""
    terminal, words = filled.terminal, _last_words(server, number)
    start = len(terminal.output)
    terminal.type("go on\r")
    came = server.reports.next("came", terminal=terminal)
    terminal.until(
        lambda: any(terminal.output.find(said, start) >= 0 for said in words),
        repr(words),
        deadline=120,
    )
    seen = time.monotonic()
    sent = server.reports.next("sent")
    return seen - came, seen - sent


def _last_words(server: ModelServer, number: int) -> tuple[bytes, ...]:
    """Words of which only a screen shows one that has the end of the reply ``number``."""
    text = f"{sample(server.size)}\n\n{mark(number)}\n"
    if len(text) <= MOST_REPLY:
        return (mark(number).encode(),)
    more = text.rstrip().count("\n", MOST_REPLY)
    return f"{len(text):,} characters".encode(), f"{more:,} more lines".encode()


def _read_by_client(server: ModelServer) -> tuple[float, float]:
    """Seconds from the request to the last piece in the hands of a bare client; of CPU."""
    done = subprocess.run(
        [PYTHON, str(PROGRAMS / "bare_client.py"), server.base_url, "1"],
        capture_output=True,
        check=True,
        env={**os.environ, **environ()},
        cwd=fresh("client"),
    )
    times = json.loads(done.stdout)
    came = server.reports.next("came")
    server.reports.next("sent")
    return times["last"] - came, times["cpu"]
