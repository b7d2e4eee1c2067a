"""``/plans``: the plans of the session, one of them in hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.plan import Plan, PlanStatus
from duckflow_tui.ui.panes.plan_rows import MARKS, status_words
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, prefix_rows, rows_of
from duckflow_tui.ui.screens.list_page import PageAction, StateSource

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine


class PlanSource(StateSource):
    """The plans of the session, the newest first."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.store)
        self._engine = engine

    def get_main_action(self, row_id: str) -> PageAction:
        return self.make_action(
            "keys.plans_activate",
            lambda: self._report_problem(self._engine.plan.activate_plan(row_id)),
        )

    def list_actions(self, row_id: str) -> Sequence[PageAction]:
        if not row_id:
            return ()
        plan = self._engine.plan

        def delete() -> None:
            self._report_problem(plan.close_plan(row_id, delete=True))

        return (
            self.make_action(
                "keys.plans_close", lambda: self._report_problem(plan.close_plan(row_id))
            ),
            self.make_action(
                "keys.plans_delete",
                lambda: self.page.ask_first(self.words("plans.delete_again"), delete),
            ),
        )

    def _report_problem(self, problem: LocalizedText | None) -> None:
        self.page.report(self.words.localize(problem))

    def get_title(self) -> str:
        return self.words("plans.title")

    def get_empty_text(self) -> str:
        return self.words("plans.none")

    def list_ids(self) -> Sequence[str]:
        return [plan.plan_id for plan in reversed(self.state.listed_plans)]

    def render_row(self, row_id: str, width: int) -> Row:
        palette, plan = self.palette, self._find_plan(row_id)
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

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        palette, plan = self.palette, self._find_plan(row_id)
        lead = f"{self.words('plans.goal')}  "
        goal = [(make_visible(plan.goal), ink(palette.text))]
        rows = prefix_rows(
            rows_of(goal, max(8, width - cell_len(lead))), (lead, ink(palette.faint))
        )
        rows.append([])
        for number, step in enumerate(plan.steps, start=1):
            said = f"{MARKS[step.status]} {number} {visible_line(step.name)}"
            rows.append([Segment(fit(said, width), ink(palette.quiet))])
        return rows

    def _find_plan(self, name: str) -> Plan:
        return next(plan for plan in self.state.plans if plan.plan_id == name)
