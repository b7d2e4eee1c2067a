"""What the user's keys do to the notes of the project, and what a session adds to its counts."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Protocol

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.messages import OperationMessage, UserMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.store import Store
from duckflow_tui.tools.memory import Memory, MemoryFault, MemoryKind, MemoryLine


class Notes(Memory, Protocol):
    """The notes with what only the user may do. Each method raises MemoryFault."""

    async def text(self) -> str:
        """The whole file as it can be shown."""
        ...

    async def forget(self, line: MemoryLine) -> None:
        """Take a line out."""
        ...

    async def begin(self) -> None:
        """Make the file where there is none."""
        ...

    async def reread(self) -> None:
        """The file may have changed."""
        ...

    async def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add to the totals over all sessions."""
        ...


def counted(state: AgentState) -> dict[str, int]:
    """What a session has read, done and been asked, as the totals count it."""
    asked = sum(isinstance(m, UserMessage) and not m.aside for m in state.messages)
    done = sum(
        isinstance(m, OperationMessage) and m.result.outcome is Outcome.OK for m in state.messages
    )
    return {
        "total_files": len(state.files_read),
        "successful_operations": done,
        "total_conversations": asked,
    }


class MemoryKeys:
    """Each method that changes something returns what is in the way, or None. What this run
    of the program did joins the totals over all sessions at its end.
    """

    def __init__(self, store: Store, notes: Notes) -> None:
        self._store = store
        self._notes = notes
        self._before = counted(store.state)

    @property
    def path(self) -> str:
        """The file."""
        return self._notes.path

    async def text(self) -> str:
        """The whole file; raises MemoryFault."""
        return await self._notes.text()

    async def lines(self) -> tuple[MemoryLine, ...]:
        """Its lines; raises MemoryFault."""
        return await self._notes.lines()

    async def remember(self, text: str, kind: MemoryKind = "preference") -> MemoryFault | None:
        """Note a line."""
        return await _fault(self._notes.remember(text, kind))

    async def forget(self, line: MemoryLine) -> MemoryFault | None:
        """Take a line out, as ``lines`` had it."""
        return await _fault(self._notes.forget(line))

    async def begin(self) -> MemoryFault | None:
        """Make the file where there is none, for the user's own editor."""
        return await _fault(self._notes.begin())

    async def reread(self) -> None:
        """After the user's own editor."""
        await self._notes.reread()

    async def close(self) -> None:
        """The session is over: its counts join the totals."""
        now = counted(self._store.state)
        await self._notes.add_counts({key: now[key] - self._before[key] for key in now})


async def _fault(work: Awaitable[None]) -> MemoryFault | None:
    try:
        await work
    except MemoryFault as fault:
        return fault
    return None
