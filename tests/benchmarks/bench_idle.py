"""What the program costs while nothing happens: the terminal, the processor, memory."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.bench_keys import SETTLED_S
from benchmarks.processes import (
    BARE,
    DEMO,
    filled_app,
    memory_mb,
    terminal,
    threads_cpu_s,
    to_rest,
    wake_ups,
)
from benchmarks.rows import Row, row
from support.pty import Terminal

CPU_SHARE = 0.5  # percent of a core
MEMORY = 1.3  # times the bare app with openai imported
WATCHED_S = 20.0


def measure(*, quick: bool) -> list[Row]:
    """Idle at the start and with a gate open; memory beside a bare app."""
    seconds = 5.0 if quick else WATCHED_S
    return [
        *_idle(seconds, after_turn=False),
        *_idle(seconds, after_turn=True),
        _memory(1 if quick else 3),
    ]


def _idle(seconds: float, *, after_turn: bool) -> list[Row]:
    with terminal(DEMO) as opened:
        to_rest(opened)
        if after_turn:
            _open_gate(opened)
        cpu, woken, written = threads_cpu_s(opened.pid), wake_ups(opened.pid), len(opened.output)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            opened.read(left)
        share = 100 * (threads_cpu_s(opened.pid) - cpu) / seconds
        rate = (wake_ups(opened.pid) - woken) / seconds
        size = len(opened.output) - written
    when = "idle with a gate open" if after_turn else "idle"
    return [
        row(f"{when}, written to the terminal", size, 0, "bytes"),
        row(f"{when}, of a core", share, CPU_SHARE, "%"),
        row(f"{when}, threads woken", rate, 0, "/s"),
    ]


def _open_gate(opened: Terminal) -> None:
    """Let the demo read its files and propose its edit."""
    opened.type("why is the total wrong with two discounts? fix it\r")
    opened.writes(b"Enter to decide")
    to_rest(opened)


def _memory(runs: int) -> Row:
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(runs):
        with terminal((*BARE, "--openai")) as other, filled_app(0) as filled:
            to_rest(filled.terminal)
            other.listen(SETTLED_S)
            ours.append(memory_mb(filled.terminal.pid))
            bare.append(memory_mb(other.pid))
    return row(
        "memory, times a Textual app with openai imported",
        median(ours) / median(bare),
        MEMORY,
        "×",
        beside={"MB": median(ours), "MB of the other": median(bare)},
    )
