"""How coroutines are started beside the caller: as asyncio tasks, or as workers of a screen."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol


class Job(Protocol):
    """Something that runs beside the caller and can be cancelled: a task or a Textual worker."""

    def cancel(self) -> object:
        """Ask it to end."""
        ...


class Spawn(Protocol):
    """Starts a coroutine beside the caller, in a group: ``chat``, ``turn``, ``task``, ``watch``."""

    def __call__(self, coroutine: Coroutine[Any, Any, None], group: str) -> Job:
        """Its exceptions go to whoever spawns; they do not come back here."""
        ...
