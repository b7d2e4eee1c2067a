"""Events of the pacemaker: the kind of request, the limit of loops, and its extensions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.decision import TaskProfile
from duckflow_tui.state.event_base import BaseEvent, StateError
from duckflow_tui.state.pace import LoopLimit, Pace


class ProfileChosen(BaseEvent):
    """The user named the kind of request, or with None leaves it to the model again."""

    kind: Literal["profile_chosen"] = "profile_chosen"
    profile: TaskProfile | None

    def apply(self, state: AgentState) -> None:
        state.profile_choice = self.profile


class LimitSet(BaseEvent):
    """How many loops the attempt may take (S0-31). ``fresh`` begins new books: a new objective."""

    kind: Literal["limit_set"] = "limit_set"
    limit: LoopLimit
    fresh: bool = False

    def apply(self, state: AgentState) -> None:
        old = state.pace
        if self.fresh or old is None:
            state.pace = Pace(limit=self.limit)
        else:
            state.pace = old.model_copy(update={"limit": self.limit})
        if state.turn is not None:
            state.turn = state.turn.model_copy(update={"limit": self.limit.max_loops})


class LimitExtended(BaseEvent):
    """The work may go on for more loops: the user lets it, or the pacemaker, since it moves."""

    kind: Literal["limit_extended"] = "limit_extended"
    by: int = Field(ge=1, le=20)
    who: Literal["user", "pacemaker"] = "user"

    def apply(self, state: AgentState) -> None:
        if state.pace is None:
            raise StateError("no limit was set")
        limit = state.pace.limit
        more = limit.model_copy(
            update={
                "max_loops": limit.max_loops + self.by,
                "extended": limit.extended + self.by,
                "grown": limit.grown + (self.by if self.who == "pacemaker" else 0),
            }
        )
        state.pace = state.pace.model_copy(update={"limit": more})
        if state.turn is not None:
            state.turn = state.turn.model_copy(update={"limit": more.max_loops})
