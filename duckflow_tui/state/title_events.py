"""Events of what the user makes of a session as a whole: its name, and its place in the list."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.event_base import BaseEvent

MAX_NAME: Final = 200  # characters


class SessionTitled(BaseEvent):
    """The user named the session; an empty name is none: the first request stands for it."""

    kind: Literal["session_titled"] = "session_titled"
    name: str = Field(max_length=MAX_NAME)

    def apply(self, state: AgentState) -> None:
        state.session = state.session.model_copy(update={"name": self.name})


class SessionPinned(BaseEvent):
    """The user wants the session at the top of the list, or no longer."""

    kind: Literal["session_pinned"] = "session_pinned"
    pinned: bool

    def apply(self, state: AgentState) -> None:
        state.session = state.session.model_copy(update={"pinned": self.pinned})
