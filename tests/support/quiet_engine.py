"""A stand-in for the engine in runs without a screen, in which nothing is to be seen or done."""

from __future__ import annotations

import asyncio

from support.pinned import ManualClock

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.store import Record, Recorder, Store


class QuietEngine:
    """Its loop takes no message; a test says what sending one does."""

    suggestion = ""
    begun: tuple[Record, ...] = ()

    class rules:
        """Every rule of the command line can be used."""

        @staticmethod
        async def find_unusable_rule() -> None:
            return None

    def __init__(self, recorder: Recorder) -> None:
        self.store = Store(AgentState(), ManualClock(), recorder)

    async def chat_loop(self) -> None:
        await asyncio.Event().wait()

    async def note_project_files(self) -> None:
        """There is nothing to see."""

    def stop(self) -> None:
        """There is nothing to stop."""

    def redact(self, text: str) -> str:
        """There is nothing to redact."""
        return text
