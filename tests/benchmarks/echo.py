"""Keys that are typed into a terminal, and when the screen shows them."""

from __future__ import annotations

import random
import time
from typing import Final

from benchmarks.rows import percentile
from support.pty import Terminal

#: Letters that no program under measurement writes by itself: seen means echoed.
LETTERS: Final = "".join(map(chr, (*range(0x410, 0x450), *range(0x3B1, 0x3C2))))
BATCH: Final = 48  # keys; they fit in one line of the composer
CLEAR: Final = b"\x15"  # Ctrl+U
PAUSE_S: Final = (0.03, 0.09)  # between an echo and the next key
P95: Final = 0.95


def one_key(of: Terminal, letter: str) -> float:
    """Seconds from the key to the bytes that show it."""
    start, data = len(of.output), letter.encode()
    began = time.monotonic()
    of.type(data)
    of.writes(data, start=start)
    return time.monotonic() - began


def rest(of: Terminal) -> None:
    """A moment without keys, as fingers have it."""
    until = time.monotonic() + random.uniform(*PAUSE_S)
    while (left := until - time.monotonic()) > 0:
        of.read(left)


def batch(of: Terminal, keys: int = BATCH) -> list[float]:
    """Seconds of each of so many keys; the line is cleared afterwards."""
    took: list[float] = []
    for letter in LETTERS[:keys]:
        took.append(one_key(of, letter))
        rest(of)
    of.type(CLEAR)
    rest(of)
    return took


def p95_ms(times: list[float]) -> float:
    """The 95th percentile in milliseconds."""
    return percentile(times, P95) * 1000
