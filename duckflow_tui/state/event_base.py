"""What all events share."""

from __future__ import annotations

from typing import ClassVar

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Frozen


class StateError(ValueError):
    """An event that does not fit the state; nothing was changed."""


class BaseEvent(Frozen):
    """What all events share. A transient event is shown but never journalled."""

    transient: ClassVar[bool] = False

    def apply(self, state: AgentState) -> None:
        """Change the state, or raise StateError and leave it as it was."""
        raise NotImplementedError
