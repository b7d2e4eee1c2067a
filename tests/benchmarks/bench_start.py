"""From exec to the first paint, to the first key that is answered, and from the last one out."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from statistics import median

from benchmarks.echo import LETTERS
from benchmarks.processes import APP, BARE, PYTHON, terminal, to_rest
from benchmarks.rows import Row, row

PAINT_S = 0.1
READY = 1.25  # times the bare app
EXIT_S = 0.3
EVERY_S = 0.03  # seconds between two keys while the program starts
_APP_RUNS = b"\x1b[?1003h"  # Textual's driver has the terminal
_TYPED = re.compile("|".join(LETTERS).encode())


def measure(*, quick: bool) -> list[Row]:
    """First paint, ready for a key, exit; medians of several starts, bare app in between."""
    _warm()
    return [_first_paint(5 if quick else 15), _ready(3 if quick else 9), _exit(3 if quick else 7)]


def _warm() -> None:
    """Have both compiled, which takes longer than there are letters to be typed."""
    for command in (APP, BARE):
        with terminal(command) as opened:
            opened.writes(_APP_RUNS)


def _first_paint(runs: int) -> Row:
    painted: list[float] = []
    interpreter: list[float] = []
    for _ in range(runs):
        interpreter.append(_seen_at((PYTHON, "-c", "print('up')"), b"up"))
        painted.append(_seen_at(APP, b" duckflow "))
    return row(
        "first paint",
        median(painted),
        PAINT_S,
        "s",
        beside={"Python that prints a word": median(interpreter)},
    )


def _seen_at(command: Sequence[str], text: bytes) -> float:
    with terminal(command) as opened:
        opened.writes(text)
        return time.monotonic() - opened.started_at


def _ready(runs: int) -> Row:
    ours: list[float] = []
    taken: list[float] = []
    bare: list[float] = []
    for _ in range(runs):
        bare.append(_ready_at(BARE))
        ours.append(_ready_at(APP))
        taken.append(_ready_at(APP, _APP_RUNS))
    return row(
        "ready for a key, times a Textual app of one input and one log",
        median(ours) / median(bare),
        READY,
        "×",
        beside={
            "seconds": median(ours),
            "seconds of the other": median(bare),
            "seconds until the app has taken it from the first frame": median(taken),
        },
    )


def _ready_at(command: Sequence[str], after: bytes = b"") -> float:
    """Seconds from exec until a key that was typed stands on the screen, drawn behind ``after``.

    Keys are typed from the start on, because only some programs keep those that come early.
    """
    with terminal(command) as opened:

        def seen() -> bool:
            start = opened.output.find(after)
            return start >= 0 and _TYPED.search(opened.output, start) is not None

        for letter in LETTERS:
            opened.type(letter)
            until = time.monotonic() + EVERY_S
            while (left := until - time.monotonic()) > 0:
                if opened.read(left) and seen():
                    return time.monotonic() - opened.started_at
        opened.until(seen, "a key")
        return time.monotonic() - opened.started_at


def _exit(runs: int) -> Row:
    took: list[float] = []
    for _ in range(runs):
        with terminal(APP) as opened:
            to_rest(opened)
            opened.type("\x03")
            opened.read(0.3)
            began = time.monotonic()
            opened.type("\x03")
            opened.wait()
            took.append(time.monotonic() - began)
    return row("exit", median(took), EXIT_S, "s")
