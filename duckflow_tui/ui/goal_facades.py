"""What the screen asks of an engine about the goal: requirements, pace, and what is noted."""

from __future__ import annotations

from typing import Protocol

from duckflow_tui.state.base import Told
from duckflow_tui.state.decision import Check, TaskProfile
from duckflow_tui.tools.memory import MemoryFault, MemoryKind, MemoryLine


class PaceFacade(Protocol):
    """What the user's keys do to the pacemaker."""

    def choose_profile(self, profile: TaskProfile | None) -> None:
        """Name the kind of request; None leaves it to the model again."""
        ...

    def extend(self, by: int = 5) -> None:
        """Allow the attempt that runs so many loops more."""
        ...


class LedgerFacade(Protocol):
    """What the user's keys do to the requirements. Each returns what is in the way, or nothing."""

    def add(self, text: str, priority: int, check: Check) -> Told | None:
        """A requirement of the user's own; priority 1 high to 3 low."""
        ...

    def edit(
        self,
        requirement_id: str,
        text: str | None = None,
        priority: int | None = None,
        check: Check | None = None,
    ) -> Told | None:
        """Change what is not None."""
        ...

    def waive(self, requirement_id: str, because: str) -> Told | None:
        """It no longer counts; the reason may be empty."""
        ...

    def restore(self, requirement_id: str) -> Told | None:
        """It counts again."""
        ...


class TitleFacade(Protocol):
    """What the user's keys do to the session as a whole."""

    def rename(self, name: str) -> str:
        """Name it; an empty name is none. Returns the name as it is now."""
        ...

    def pin(self, pinned: bool) -> None:
        """Keep it at the top of the list, or no longer."""
        ...


class MemoryFacade(Protocol):
    """What the user's keys do to the notes. What changes them returns what is in the way."""

    @property
    def path(self) -> str:
        """The file; it need not be there."""
        ...

    async def lines(self) -> tuple[MemoryLine, ...]:
        """What it says; raises MemoryFault."""
        ...

    async def remember(self, text: str, kind: MemoryKind = "preference") -> MemoryFault | None:
        """Note a line."""
        ...

    async def forget(self, line: MemoryLine) -> MemoryFault | None:
        """Take a line out, as ``lines`` had it."""
        ...

    async def begin(self) -> MemoryFault | None:
        """Make the file where there is none."""
        ...

    async def reread(self) -> None:
        """The user has edited it."""
        ...
