"""What the user's keys do to the window of the model: look, compact, take a compaction back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from duckflow_tui.loops.compacting import Compactor, Undo
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.request_log import SentPart
from duckflow_tui.tools.operation import ToolFault


class ContextKeys:
    """One for a session."""

    def __init__(self, parts: TurnParts, earlier: Callable[[str], Awaitable[str]]) -> None:
        """``earlier``: the whole of an earlier result; raises ToolFault or OSError."""
        self._parts = parts
        self._earlier = earlier
        self._compactor = Compactor(parts)

    def sent(self, llm_id: str) -> tuple[SentPart, ...] | None:
        """What a request was made of; None where only its figures are left."""
        return self._parts.requests.parts(llm_id)

    async def whole(self, call_id: str) -> str | None:
        """All of what a call gave; None where it is no longer kept."""
        try:
            return await self._earlier(call_id)
        except (ToolFault, OSError):
            return None

    async def compact(self, hint: str = "") -> str:
        """Shorten the conversation; a code of what is in the way, or nothing."""
        if self._parts.store.state.turn is not None:
            return "busy"
        return "" if await self._compactor.compact(hint) else "nothing"

    async def undo(self, compaction_id: str = "") -> tuple[Undo, dict[str, str]]:
        """Take the newest compaction back; a code of what is in the way with its figures."""
        if self._parts.store.state.turn is not None:
            return "busy", {}
        return await self._compactor.undo(compaction_id)
