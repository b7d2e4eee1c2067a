"""What the screen asks of an engine about the conversation and the window of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from duckflow_tui.agent.compaction import Undo
    from duckflow_tui.agent.requests import SentPart
    from duckflow_tui.session.rewind import Forked, Hindrance, PutBack


class ContextFacade(Protocol):
    """What the user's keys do to what the model reads."""

    def sent(self, llm_id: str) -> tuple[SentPart, ...] | None:
        """What a request was made of; None where only its figures are left."""
        ...

    async def whole(self, call_id: str) -> str | None:
        """All of what a call gave; None where it is no longer kept."""
        ...

    async def compact(self, hint: str = "") -> str:
        """Shorten the conversation; ``busy`` or ``nothing`` where that is not possible."""
        ...

    async def undo(self, compaction_id: str = "") -> tuple[Undo, dict[str, str]]:
        """Take the newest compaction back; what is in the way, with its figures."""
        ...


class RewindFacade(Protocol):
    """What the user's keys do to the conversation as a whole."""

    async def back(self, message_id: str, draft: str = "") -> Hindrance:
        """Go back to before a message; its text is the draft again, before what stands there."""
        ...

    async def undo(self) -> Hindrance:
        """Have again what was gone back from, while nothing was said since."""
        ...

    async def put_files_back(self) -> PutBack:
        """Undo what was done to files after the point that was gone back to."""
        ...

    async def fork(self, message_id: str = "", draft: str = "") -> Forked:
        """Make another session from before a message, or from here."""
        ...
