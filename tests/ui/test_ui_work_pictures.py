"""What runs and waits beside the composer, at the three sizes and in both languages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.app_states import FakeEngine, app_with, settled
from support.pictures import by_name, each_state
from support.running_states import (
    FAILING,
    QUEUE,
    QUEUE_JA,
    aside,
    ended,
    in_background,
    runs,
    served,
    waits,
    working,
)
from textual.pilot import Pilot

from duckflow_tui.state.store import Store
from duckflow_tui.ui.app import DuckflowApp

LOGS = {"shop": "opened shop.db read-only\nserving on stdio\n"}

Build = Callable[[Store, str], tuple[str, ...]]  # fills the store; the keys to press


def running_command(store: Store, language: str) -> tuple[str, ...]:
    ja = language == "ja"
    store.state.messages.append(aside("テストはいくつ？" if ja else "how many tests are there?"))
    lines = "\n".join(f"tests/test_pricing.py::test_case_{n} PASSED" for n in range(30))
    runs(store, "pytest -v", f"collected 40 items\n{lines}\ntests/test_cart.py ....")
    runs(
        store,
        "docker build .",
        "Step 3/9 : RUN make",
        call_id="call_00000002",
        by_user=True,
        ago=190,
        silent=125,
    )
    return ()


def failed_command(store: Store, language: str) -> tuple[str, ...]:
    store.state.messages += [
        ended("pytest -q", FAILING, 1),
        ended("git status --short", " M src/shop/pricing.py", 0, by_user=True, seconds=0.1),
        ended("make clean", "", 0, seconds=0.2),
        ended("cat server.log", "\n".join(f"GET /{n}" for n in range(900)), 0, cut=1_200_345),
    ]
    store.state.turn = None  # ended with the app: what it did stands there row by row
    in_background(store)
    return ()


def queue(store: Store, language: str) -> tuple[str, ...]:
    waits(store, QUEUE_JA if language == "ja" else QUEUE)
    return ()


def queue_opened(store: Store, language: str) -> tuple[str, ...]:
    waits(store, QUEUE_JA if language == "ja" else QUEUE)
    return ("alt+up", "down")


def own_command(store: Store, language: str) -> tuple[str, ...]:
    served(store)
    return ("!", "l", "s")


def processes(store: Store, language: str) -> tuple[str, ...]:
    in_background(store)
    return ("/", "p", "s", "enter")


def servers(store: Store, language: str) -> tuple[str, ...]:
    served(store)
    return ("/", "m", "c", "p", "enter")


STATES: list[Build] = [
    running_command,
    failed_command,
    queue,
    queue_opened,
    own_command,
    processes,
    servers,
]


@each_state("build", by_name(STATES))
def test_work_at_hand(
    snap_compare: Any, build: Build, size: tuple[int, int], language: str
) -> None:
    store = working(language)
    keys = build(store, language)
    fake = FakeEngine(store)
    fake.logs.update(LOGS)
    app = app_with(fake, language=language, theme="duck-light" if language == "ja" else "duck-dark")

    async def press(pilot: Pilot[int]) -> None:
        assert isinstance(pilot.app, DuckflowApp)
        await settled(pilot, lambda: not app.session.opening)
        await pilot.pause()
        await pilot.press(*keys)
        if keys and keys[-1] in ("enter", "down"):
            await settled(pilot, lambda: app.screen is not app.bench)
        await pilot.pause(0.1)
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=press)
