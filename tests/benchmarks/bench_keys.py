"""How long a key takes to the screen, measured on the bytes that come out of a terminal."""

from __future__ import annotations

from statistics import median

from benchmarks.echo import BATCH, batch, p95_ms
from benchmarks.processes import BARE, Filled, filled_app, model_server, terminal, to_rest
from benchmarks.rows import Row, row
from support.pty import Terminal

IDLE_MS = 12.0
STREAM_MS = 35.0
PACE = 2000  # characters a second
SETTLED_S = 2.0  # for a program whose cursor blinks and that is never at rest
PIECE = 20  # characters in one event of the stream
MANY = 5000


def measure(*, quick: bool) -> list[Row]:
    """p95 of batches of keys; the median of the batches, because others use the machine."""
    batches = 2 if quick else 5
    idle, bare = _idle(batches)
    rows = [
        row("key to echo, p95, idle", idle, IDLE_MS, "ms", beside={"bare app": bare}),
        row(
            "key to echo, p95, while markdown streams",
            _streaming(batches, 0, quick=quick),
            STREAM_MS,
            "ms",
        ),
    ]
    with filled_app(MANY) as filled:
        to_rest(filled.terminal)
        above = _batches(filled.terminal, batches)
    rows.append(row("key to echo, p95, idle, 5,000 messages above", above, IDLE_MS, "ms"))
    rows.append(
        row(
            "key to echo, p95, while markdown streams, 5,000 messages above",
            _streaming(batches, MANY, quick=quick),
            STREAM_MS,
            "ms",
        )
    )
    return rows


def _idle(batches: int) -> tuple[float, float]:
    with filled_app(0) as filled, terminal(BARE) as bare:
        to_rest(filled.terminal)
        bare.listen(SETTLED_S)
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(batches):
            ours.append(p95_ms(batch(filled.terminal)))
            theirs.append(p95_ms(batch(bare)))
        return median(ours), median(theirs)


def _batches(of: Terminal, batches: int) -> float:
    return median(p95_ms(batch(of)) for _ in range(batches))


def _streaming(batches: int, messages: int, *, quick: bool) -> float:
    characters = 16 * 1024 if quick else 64 * 1024
    with (
        model_server(characters, PIECE, PIECE / PACE) as server,
        filled_app(messages, server.base_url) as filled,
    ):
        to_rest(filled.terminal)
        _ask(filled)
        server.reports.next("came", terminal=filled.terminal)
        times: list[float] = []
        for _ in range(batches):
            times.append(p95_ms(batch(filled.terminal, BATCH)))
        return median(times)


def _ask(filled: Filled) -> None:
    filled.terminal.type("go on\r")
