"""What cuts work short wherever it is: the turn, or what else asked, ends with an outcome."""

from __future__ import annotations

from duckflow_tui.state.agent import TurnOutcome
from duckflow_tui.state.phase import Status


class TurnEnd(Exception):
    """The turn, or what else asked, is over, with this outcome. ``laid_down``: no question of the
    model is left behind, so that nothing is under way any more.
    """

    def __init__(
        self,
        outcome: TurnOutcome,
        status: Status = Status.SUCCESS,
        *,
        laid_down: bool = False,
    ) -> None:
        super().__init__(outcome)
        self.outcome: TurnOutcome = outcome
        self.status = status
        self.laid_down = laid_down


class BudgetEnd(TurnEnd):
    """A call was refused at a hard limit, and the user did not raise it: it was never sent."""

    def __init__(self, outcome: TurnOutcome, status: Status = Status.SUCCESS) -> None:
        super().__init__(outcome, status, laid_down=True)
