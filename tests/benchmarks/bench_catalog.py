"""500 sessions on the disk: the list of them, and a search through what was said in all."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TypeVar

from benchmarks.processes import fresh
from benchmarks.rows import Row, row
from support.session_shelf import NOW, asked, called, record, replied

from duckflow_tui.places import Places
from duckflow_tui.session.catalog import Catalog
from duckflow_tui.state.base import Event

SESSIONS = 500
TURNS = 4  # of each, three messages in a turn
RARE = 3  # sessions that hold one of the words
LIST_S = 0.2
SEARCH_S = 0.2

Took = tuple[float, float]  # seconds, and those of the processor
T = TypeVar("T")


def measure(*, quick: bool) -> list[Row]:
    """All read for the first time, listed again, and a word that three of them hold."""
    count = SESSIONS // 10 if quick else SESSIONS
    state_dir = Places.find({"DUCKFLOW_HOME": str(fresh("home"))}).state
    for number in range(count):
        record(state_dir, f"session_{number:08x}", _talk(number))
    catalog = Catalog(state_dir)
    first = _timed(catalog.list_all)[0]
    listed: list[Took] = []
    searched: list[Took] = []
    for _ in range(5):
        took, facts = _timed(catalog.list_all)
        assert len(facts) == count
        listed.append(took)
        took, found = _timed(lambda: catalog.search("heron discounts"))
        assert len(found) == RARE
        searched.append(took)
    read = {"s to read them all for the first time": first[0]}
    return [
        _row(f"{count} sessions, listed", listed, LIST_S, read),
        _row(f"{count} sessions, two words searched", searched, SEARCH_S, {}),
    ]


def _row(what: str, took: list[Took], limit: float, beside: dict[str, float]) -> Row:
    seconds, cpu = (median(some) for some in zip(*took, strict=True))
    return row(what, seconds, limit, "s", beside={"CPU s": cpu, **beside})


def _talk(number: int) -> list[Event]:
    bird = "heron" if number < RARE else "duck"
    events: list[Event] = []
    for turn in range(TURNS):
        at = NOW + 60.0 * turn
        events.append(asked(f"the {bird} says part {turn} fails with two discounts", at))
        events += called(f"call_{turn}", f"src/part_{turn}.py", "total = 0\n" * 20, at)
        events.append(replied(f"## part {turn}\n\n" + "it adds where it should round. " * 12, at))
    return events


def _timed(act: Callable[[], T]) -> tuple[Took, T]:
    began, before = time.perf_counter(), time.process_time()
    made = act()
    return (time.perf_counter() - began, time.process_time() - before), made
