"""``/plans``: the plans of the session, one of them in hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import BindingType

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.plan import Plan, PlanStatus
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.panes.plan_rows import MARKS, status_words
from duckflow_tui.ui.panes.rows import palette_of, two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, prefixed, rows_of
from duckflow_tui.ui.screens.board import StateBoard, board_bindings
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine


class PlansBoard(StateBoard):
    """The newest first; a second ``d`` deletes the one at the cursor."""

    SURFACE: ClassVar[Surface] = "plans"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("plans")

    def __init__(self, words: Catalogue, engine: Engine) -> None:
        super().__init__(words, engine.store)
        self._actions = engine.plan

    # --- keys -------------------------------------------------------------------------------

    def choose(self, name: str) -> None:
        self._said = ""
        super().choose(name)

    def action_activate(self) -> None:
        self._did(self._actions.activate(self.chosen))

    def action_close(self) -> None:
        self._did(self._actions.close(self.chosen))

    def action_delete(self) -> None:
        if self.pressed_twice("delete"):
            self._did(self._actions.close(self.chosen, delete=True))

    def _did(self, problem: LocalizedText | None) -> None:
        self.report(self.words.localize(problem))

    # --- what it says -----------------------------------------------------------------------

    def heading(self) -> str:
        return self.words("plans.title")

    def empty(self) -> str:
        return self.words("plans.none")

    def names(self) -> Sequence[str]:
        return [plan.plan_id for plan in reversed(self.state.listed_plans)]

    def item(self, name: str, width: int) -> Row:
        palette, plan = palette_of(self), self._plan(name)
        done, total = plan.progress
        rejected = plan.status is PlanStatus.REJECTED
        active = plan.plan_id == self.state.active_plan_id and not rejected
        said: list[str] = [self.words("plans.in_hand")] if active else []
        said.append(status_words(plan, self.words) or self.words("plans.in_progress"))
        said.append(self.words("plans.progress", done=done, total=total))
        right = f"  {' · '.join(said)} "
        left = f"{'▶' if active else ' '} {visible_line(plan.name)}"
        colour = palette.accent if active else palette.text
        room = max(1, width - cell_len(right))
        return two_sided(
            [Segment(fit(left, room), ink(colour))], [Segment(right, ink(palette.quiet))], width
        )

    def about(self, name: str, width: int) -> list[Row]:
        if self.asked:
            said = (self.words("plans.delete_again"), ink(palette_of(self).accent))
            return rows_of([said], width)
        return self.said_rows(width)

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        palette, plan = palette_of(self), self._plan(name)
        lead = f"{self.words('plans.goal')}  "
        goal = [(make_visible(plan.goal), ink(palette.text))]
        rows = prefixed(rows_of(goal, max(8, width - cell_len(lead))), (lead, ink(palette.faint)))
        rows.append([])
        for number, step in enumerate(plan.steps, start=1):
            said = f"{MARKS[step.status]} {number} {visible_line(step.name)}"
            rows.append([Segment(fit(said, width), ink(palette.quiet))])
        return rows

    def _plan(self, name: str) -> Plan:
        return next(plan for plan in self.state.plans if plan.plan_id == name)
