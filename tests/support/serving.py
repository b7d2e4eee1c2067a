"""A scripted endpoint in a thread of its own, for tests that drive a program from outside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Script

T = TypeVar("T")
DEADLINE = 30.0  # seconds until a wait has failed


class Served:
    """The endpoint as seen from another thread."""

    def __init__(self, script: Script) -> None:
        self.endpoint = ScriptedEndpoint(script)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine on the endpoint's loop; raises TimeoutError after a minute."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(2 * DEADLINE)

    def start(self) -> None:
        """Serve."""
        self._thread.start()
        self.run(self.endpoint.start())

    def stop(self) -> None:
        """Stop serving and end the thread."""
        self.run(self.endpoint.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def reached(self, hold: str) -> None:
        """Wait until a reply stands at this hold."""
        self.run(self.endpoint.reached(hold, DEADLINE))

    def release(self, hold: str) -> None:
        """Let the rest of it through."""
        self._loop.call_soon_threadsafe(self.endpoint.release, hold)


@contextmanager
def served(script: Script) -> Generator[Served]:
    """Serve a script until the block is left."""
    made = Served(script)
    made.start()
    try:
        yield made
    finally:
        made.stop()
