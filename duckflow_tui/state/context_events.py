"""Events of what fills the window: a request measured, a conversation compacted, and undone."""

from __future__ import annotations

from typing import Literal

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.context import KEPT_REQUESTS, Compaction, PromptFigures
from duckflow_tui.state.event_base import BaseEvent, StateError
from duckflow_tui.state.messages import CompactionMessage
from duckflow_tui.state.usage import LlmCall

_DECISIONS = ("main", "task")  # requests that fill the window of the main model


class PromptMeasured(BaseEvent):
    """A request is about to be sent, and this is what it is made of."""

    kind: Literal["prompt_measured"] = "prompt_measured"
    figures: PromptFigures

    def apply(self, state: AgentState) -> None:
        state.requests = (*state.requests, self.figures)[-KEPT_REQUESTS:]
        if self.figures.purpose in _DECISIONS:
            update = {"last_context": self.figures.tokens, "estimated": True}
            state.usage = state.usage.model_copy(update=update)


class ContextCompacted(BaseEvent):
    """From here on a digest travels in place of the older messages, which stay in the session."""

    kind: Literal["context_compacted"] = "context_compacted"
    compaction: Compaction
    message_id: str

    def apply(self, state: AgentState) -> None:
        new = self.compaction.compaction_id
        if any(c.compaction_id == new for c in state.compactions):
            raise StateError(f"compaction {new} is there already")
        state.compactions = (*state.compactions, self.compaction)
        _fill_by(state, self.compaction, by=-1)
        state.messages.append(
            CompactionMessage(
                message_id=self.message_id, compaction=self.compaction, at=self.compaction.at
            )
        )


class CompactionUndone(BaseEvent):
    """The user wants the newest compaction away: the full messages travel again."""

    kind: Literal["compaction_undone"] = "compaction_undone"
    compaction_id: str

    def apply(self, state: AgentState) -> None:
        newest = state.compaction
        if newest is None or newest.compaction_id != self.compaction_id:
            raise StateError(f"{self.compaction_id} is not the newest compaction")
        state.compactions = state.compactions[:-1]
        _fill_by(state, newest, by=1)
        state.undone_compactions = (*state.undone_compactions, self.compaction_id)


def _fill_by(state: AgentState, compaction: Compaction, *, by: int) -> None:
    """The next request will be so much shorter (-1) or longer (1): an estimate until it is sent."""
    if state.usage.last_context:
        change = by * (compaction.tokens_before - compaction.tokens_after)
        filled = max(state.usage.last_context + change, compaction.tokens_after)
        state.usage = state.usage.model_copy(update={"last_context": filled, "estimated": True})


def count_request(state: AgentState, call: LlmCall) -> None:
    """What the endpoint counted takes the place of the estimate."""
    if not any(f.llm_id == call.llm_id for f in state.requests):
        return
    state.requests = tuple(
        f.counted(call) if f.llm_id == call.llm_id else f for f in state.requests
    )
