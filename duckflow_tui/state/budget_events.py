"""Events of the hard limits on what models may be asked for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import MOST_COUNTED
from duckflow_tui.state.event_base import BaseEvent

#: What a limit counts: tokens and US dollars of a session.
SessionBudget = Literal["tokens", "cost"]


class BudgetRaised(BaseEvent):
    """The user lets the session take so many tokens or US dollars more than the settings say."""

    kind: Literal["budget_raised"] = "budget_raised"
    what: SessionBudget
    by: float = Field(gt=0.0, allow_inf_nan=False)

    def apply(self, state: AgentState) -> None:
        usage = state.usage
        if self.what == "tokens":
            more = usage.more_tokens + int(self.by)
            update = {"more_tokens": min(more, MOST_COUNTED)}
        else:
            update = {"more_cost": usage.more_cost + self.by}
        state.usage = usage.model_copy(update=update)
