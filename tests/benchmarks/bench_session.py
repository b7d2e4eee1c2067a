"""A session of 5,000 messages beside an empty one, in two terminals at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from benchmarks.echo import CLEAR, LETTERS, one_key, rest
from benchmarks.processes import Filled, filled_app, to_rest
from benchmarks.programs.filled_app import LAST
from benchmarks.rows import Row, row

MANY = 5000
FEW = 50  # enough to scroll
TIMES = 1.2
OPEN_S = 1.0
PAGE_UP = b"\x1b[5~"
PAGE_DOWN = b"\x1b[6~"


def measure(*, quick: bool) -> list[Row]:
    """Key, scroll and new message, alternately in both; medians, and how they compare."""
    samples = 20 if quick else 48
    _opened()  # compiles what is imported
    opened = [_opened() for _ in range(2 if quick else 5)]
    rows = [row("5,000 messages, opened", median(opened), OPEN_S, "s")]
    with filled_app(0) as few, filled_app(MANY) as many:
        to_rest(few.terminal)
        to_rest(many.terminal)
        rows.append(_compared("key", few, many, _key, samples))
        rows.append(_compared("new message", few, many, _message, samples))
    with filled_app(FEW) as few, filled_app(MANY) as many:
        to_rest(few.terminal)
        to_rest(many.terminal)
        rows.append(_compared("scrolled by a page", few, many, _page, samples))
    return rows


def _opened() -> float:
    """Seconds from the session that is there to its end on the screen."""
    with filled_app(MANY) as filled:
        began = filled.reports.next("opened", terminal=filled.terminal)
        filled.terminal.writes(LAST.encode())
        return time.monotonic() - began


def _compared(
    name: str,
    few: Filled,
    many: Filled,
    act: Callable[[Filled, int], float],
    samples: int,
) -> Row:
    in_few: list[float] = []
    in_many: list[float] = []
    for number in range(samples):
        in_few.append(act(few, number))
        in_many.append(act(many, number))
    base, full = median(in_few), median(in_many)
    return row(
        f"5,000 messages, {name}, times that of a session of {'50' if act is _page else 'none'}",
        full / base,
        TIMES,
        "×",
        beside={"ms": full * 1000, "ms of the other": base * 1000},
    )


def _key(filled: Filled, number: int) -> float:
    letter = LETTERS[number % len(LETTERS)]
    if not number % len(LETTERS):
        filled.terminal.type(CLEAR)
    took = one_key(filled.terminal, letter)
    rest(filled.terminal)
    return took


def _message(filled: Filled, number: int) -> float:
    terminal, text = filled.terminal, f"message-number-{number}-is-here"
    start = len(terminal.output)
    began = filled.command(say=text)
    terminal.writes(text.encode(), start=start)
    took = time.monotonic() - began
    rest(terminal)
    return took


def _page(filled: Filled, number: int) -> float:
    """Up and down in turns; the end of what is written tells that the page is there."""
    terminal = filled.terminal
    began = time.monotonic()
    start = len(terminal.output)
    terminal.type(PAGE_UP if number % 2 == 0 else PAGE_DOWN)
    terminal.until(lambda: len(terminal.output) > start, "a page")
    last = time.monotonic()
    while terminal.read(0.05):
        last = time.monotonic()
    rest(terminal)
    return last - began
