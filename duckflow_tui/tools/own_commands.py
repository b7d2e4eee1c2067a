"""``!command``: what the user runs themselves, beside the chat and beside the work."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from duckflow_tui.state.decision import Action
from duckflow_tui.state.ids import IdSource
from duckflow_tui.tools.operation import RUN
from duckflow_tui.tools.router import ToolRouter


class Job(Protocol):
    """Something that runs beside the caller and can be cancelled."""

    def cancel(self) -> object:
        """Ask it to end."""
        ...


class Spawn(Protocol):
    """Starts a coroutine beside the caller, in a group."""

    def __call__(self, coroutine: Coroutine[Any, Any, None], group: str) -> Job: ...


class OwnCommands:
    """Runs the user's lines, each as a job of its own; the key they pressed is the consent."""

    def __init__(self, router: ToolRouter, ids: IdSource, spawn: Spawn) -> None:
        self._router = router
        self._ids = ids
        self._spawn = spawn
        self._jobs: dict[str, Job] = {}

    def run(self, text: str) -> str:
        """Start a line; returns the id of its call, empty for a line that says nothing."""
        if not text.strip():
            return ""
        call_id = self._ids("call")
        action = Action(
            call_id=call_id, operation=RUN, args={"command": text.strip()}, reasoning=""
        )
        self._jobs[call_id] = self._spawn(self._guarded(action), "command")
        return call_id

    def stop(self, call_id: str = "") -> bool:
        """End that command with all it started, or every one of the user's; False for none."""
        wanted = [job for name, job in self._jobs.items() if call_id in ("", name)]
        for job in wanted:
            # Behind the job's first step, without which it could not say that it was stopped.
            asyncio.get_running_loop().call_soon(job.cancel)
        return bool(wanted)

    async def _guarded(self, action: Action) -> None:
        try:
            await self._router.call(action, by_user=True)
        finally:
            self._jobs.pop(action.call_id, None)
