"""A session of 5,000 messages that the real journal recorded, opened and typed in; and what a
thousand turns of the real engine leave in memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from statistics import median

from benchmarks.echo import BATCH, CLEAR, LETTERS, P95, one_key, rest
from benchmarks.processes import (
    Filled,
    cpu_s,
    filled_app,
    memory_mb,
    model_server,
    to_rest,
)
from benchmarks.programs.filled_app import LAST
from benchmarks.recorded import MESSAGES, SESSION, Recorded, recorded
from benchmarks.rows import Row, percentile, row
from support.pty import Terminal

OPEN_S = 1.0
TIMES = 1.2
FLAT = 1.1  # memory after the last turn, times that after the first tenth of them
TURNS_S = 1200.0  # that they may take on a machine that others use

Took = tuple[float, float]  # seconds, and those of the processor


def measure(*, quick: bool) -> list[Row]:
    """Everything; ``quick`` with a tenth of the messages and of the turns."""
    share = 10 if quick else 1
    long = recorded(5000 // MESSAGES // share)
    empty = recorded(0)
    return [
        *_opened(long, empty, 2 if quick else 5),
        *_keys(long, empty, 24 if quick else 96),
        *_growth(1000 // share),
    ]


# opening


def _opened(long: Recorded, empty: Recorded, runs: int) -> list[Row]:
    """From the choice of the session to the first key that is answered below its last words."""
    _open(empty)  # compiles what is imported
    nothing, least = _median(_open(empty) for _ in range(runs))
    found = {
        "": _median(_open(long.copy()) for _ in range(runs)),
        " without a snapshot": _median(_open(long.copy(snapshots=False)) for _ in range(runs)),
    }
    return [
        row(
            f"{_count(long)}, opened{how}, behind an empty session",
            took - nothing,
            OPEN_S,
            "s",
            beside={"s": took, "s of the other": nothing, "CPU s behind it": cpu - least},
        )
        for how, (took, cpu) in found.items()
    ]


def _open(of: Recorded) -> Took:
    with _app(of) as filled:
        began = filled.reports.next("opening", terminal=filled.terminal)
        before = cpu_s(filled.terminal.pid)
        filled.reports.next("opened", terminal=filled.terminal)
        if of.turns:
            filled.terminal.writes(LAST.encode())
        one_key(filled.terminal, LETTERS[0])
        return time.monotonic() - began, cpu_s(filled.terminal.pid) - before


def _median(found: Iterable[Took]) -> Took:
    seconds, cpu = zip(*found, strict=True)
    return median(seconds), median(cpu)


def _app(of: Recorded) -> AbstractContextManager[Filled]:
    options = ("--resume", SESSION)
    return filled_app(0, options=options, cwd=of.workspace, home=of.home)


def _count(of: Recorded) -> str:
    return f"{of.turns * MESSAGES:,} messages recorded"


# keys


def _keys(long: Recorded, empty: Recorded, samples: int) -> list[Row]:
    """Keys in turns in three programs, while each of them has a record on its way to the disk
    twenty times a second: in the long session, in an empty one, and in one that is not recorded.
    """
    with (
        _app(long.copy()) as many,
        _app(empty.copy()) as none,
        filled_app(0, options=["--no-session"]) as loose,
    ):
        apps = (many, none, loose)
        for app in apps:
            to_rest(app.terminal)
            app.command(record=True)
        times = [list[float]() for _ in apps]
        for number in range(samples):
            for app, took in zip(apps, times, strict=True):
                took.append(_key(app.terminal, number))
    full, bare, unkept = (
        [percentile(took, share) * 1000 for share in (0.5, P95)] for took in times
    )
    what = f"{_count(long)}, key to echo while the journal writes"
    return [
        *(
            row(
                f"{what}, {name}, times that of an empty session",
                full[at] / bare[at],
                TIMES,
                "×",
                beside={"ms": full[at], "ms of the other": bare[at]},
            )
            for at, name in enumerate(("p50", "p95"))
        ),
        row(
            "key to echo while the journal writes, p50, times that of a session without one",
            bare[0] / unkept[0],
            TIMES,
            "×",
            beside={"ms": bare[0], "ms of the other": unkept[0]},
        ),
    ]


def _key(of: Terminal, number: int) -> float:
    letter = LETTERS[number % BATCH]
    if not number % BATCH:
        of.type(CLEAR)
        rest(of)
    took = one_key(of, letter)
    rest(of)
    return took


# memory


def _growth(turns: int) -> list[Row]:
    """Resident memory after a tenth of the turns, after a half of them and after all."""
    marks = (turns // 10, turns // 2, turns)
    found: list[float] = []
    with model_server(400) as server, filled_app(0, server.base_url) as filled:
        to_rest(filled.terminal)
        done = 0
        for mark in marks:
            filled.command(turns=mark - done)
            filled.reports.next("turns", terminal=filled.terminal, deadline=TURNS_S)
            to_rest(filled.terminal)
            found.append(memory_mb(filled.terminal.pid))
            done = mark
    return [
        row(
            f"memory after {turns:,} turns, times that after {mark:,}",
            found[-1] / before,
            FLAT,
            "×",
            beside={"MB": found[-1], "MB before": before},
        )
        for mark, before in zip(marks[:-1], found[:-1], strict=True)
    ]
