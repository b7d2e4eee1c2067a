"""What model calls cost."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from duckflow_tui.state.base import Count, Frozen

Role = Literal["main", "creative", "fast", "evaluator", "strong"]
Purpose = Literal[
    "main",
    "plan",
    "continuation",
    "tasks",
    "task",
    "report",
    "requirements",
    "satisfaction",
    "missing",
    "failure",
    "digest",
]
CallOutcome = Literal["ok", "malformed", "error", "cancelled", "incomplete"]


class LlmCall(Frozen):
    """One finished call to a model; tokens are counts, times are seconds."""

    llm_id: str
    role: Role
    purpose: Purpose
    endpoint: str
    model: str
    tokens_in: Count = Field(default=0, ge=0)
    tokens_cached: Count = Field(default=0, ge=0)  # part of tokens_in
    tokens_out: Count = Field(default=0, ge=0)
    tokens_reasoning: Count = Field(default=0, ge=0)  # part of tokens_out
    estimated: bool = False  # the endpoint sent no usage; counts are our estimate
    cost: float | None = None  # US dollars; None without a price in the settings
    duration_s: float = 0.0
    first_token_s: float | None = None
    outcome: CallOutcome = "ok"
    error: str = ""  # code of llm.errors, empty when ok
    attempts: int = 1  # HTTP requests, retries included
    step_id: str = ""  # the plan's step it was made for


class UsageTotals(Frozen):
    """Sums over the session; ``cost`` is None until one call had a price."""

    calls: int = 0
    tokens_in: Count = 0
    tokens_out: Count = 0
    cost: float | None = None
    last_context: Count = 0  # tokens of the newest main request: what fills the window
    context_window: Count = 0  # of the main model; 0 when unknown
    estimated: bool = False
    more_tokens: Count = Field(default=0, ge=0)  # beyond the limit of the settings, by the user
    more_cost: float = Field(default=0.0, ge=0.0)  # US dollars, the same

    def plus(self, call: LlmCall) -> UsageTotals:
        """The totals after one more call."""
        cost = self.cost
        if call.cost is not None:
            cost = (cost or 0.0) + call.cost
        is_main = call.purpose in ("main", "task") and call.tokens_in > 0
        return self.model_copy(
            update={
                "calls": self.calls + 1,
                "tokens_in": self.tokens_in + call.tokens_in,
                "tokens_out": self.tokens_out + call.tokens_out,
                "cost": cost,
                "last_context": call.tokens_in if is_main else self.last_context,
                "estimated": call.estimated if is_main else self.estimated,
            }
        )
