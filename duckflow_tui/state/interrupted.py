"""What a turn was in the middle of when the app ended."""

from __future__ import annotations

from duckflow_tui.state.base import Frozen
from duckflow_tui.state.cards import Card, CardKind
from duckflow_tui.state.work import StepReport, WorkInfo


class Interrupted(Frozen):
    """Kept until the turn, taken up again, comes to its next decision."""

    work: WorkInfo | None = None  # on a plan, at the step it had come to
    plan_card: str = ""  # the plan that waited for approval
    report: StepReport | None = None  # whose card waited for an answer
    asked: tuple[Card, ...] = ()  # consultations, escalations, limits that no one has opened again

    def waiting(self, kind: CardKind, step_id: str = "") -> Card | None:
        """The card of this kind that waited in the turn itself, or in this step."""
        found = (c for c in self.asked if c.kind is kind and c.step_id == step_id)
        return next(found, None)

    def without(self, card: Card) -> Interrupted:
        """The same once this card was opened again."""
        same = (card.kind, card.step_id)
        left = tuple(c for c in self.asked if (c.kind, c.step_id) != same)
        return self.model_copy(update={"asked": left})
