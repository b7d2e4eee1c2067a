"""What a turn was in the middle of when the app ended."""

from __future__ import annotations

from duckflow_tui.state.base import Frozen
from duckflow_tui.state.work import StepReport, WorkInfo


class Interrupted(Frozen):
    """Kept until the turn, taken up again, comes to its next decision."""

    work: WorkInfo | None = None  # on a plan, at the step it had come to
    plan_card: str = ""  # the plan that waited for approval
    report: StepReport | None = None  # whose card waited for an answer
