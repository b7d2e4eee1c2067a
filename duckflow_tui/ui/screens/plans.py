"""``/plans``: the plans of the session; the active one is marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.plan import Plan, PlanStatus
from duckflow_tui.ui.panes.plan_rows import MARKS, status_words
from duckflow_tui.ui.panes.strips import Row, ink, prefix_rows
from duckflow_tui.ui.screens.list_source import PageAction, StateSource, make_row


class PlanSource(StateSource[Plan]):
    """The plans of the session, the newest first."""

    TITLE: ClassVar[str] = "plans.title"
    EMPTY: ClassVar[str] = "plans.none"

    def list_items(self) -> Mapping[str, Plan]:
        return {plan.plan_id: plan for plan in reversed(self.state.listed_plans)}

    def get_main_action(self, item: Plan) -> PageAction:
        """Return the action that makes the plan the active one."""
        return self.make_session_action(
            "keys.plans_activate", lambda engine: engine.plan.activate_plan(item.plan_id)
        )

    def list_actions(self, item: Plan | None) -> Sequence[PageAction]:
        """Return actions that close or delete the plan; deleting needs a further Enter."""
        if item is None:
            return ()
        close = self.make_session_action(
            "keys.plans_close", lambda engine: engine.plan.close_plan(item.plan_id)
        )
        delete = self.make_session_action(
            "keys.plans_delete",
            lambda engine: engine.plan.close_plan(item.plan_id, delete=True),
            question=self.words("plans.delete_again"),
        )
        return close, delete

    def render_row(self, item: Plan, width: int) -> Row:
        """Render name, state and progress of a plan; the active one is marked."""
        palette = self.palette
        done, total = item.progress
        rejected = item.status is PlanStatus.REJECTED
        active = item.plan_id == self.state.active_plan_id and not rejected
        said: list[str] = [self.words("plans.in_hand")] if active else []
        said.append(status_words(item, self.words) or self.words("plans.in_progress"))
        said.append(self.words("plans.progress", done=done, total=total))
        left = f"{'▶' if active else ' '} {visible_line(item.name)}"
        colour = palette.accent if active else palette.text
        return make_row(width, [(left, colour)], [(f"  {' · '.join(said)} ", palette.quiet)])

    def render_detail(self, item: Plan, width: int, room: int) -> list[Row]:
        """Render the goal and the steps of a plan."""
        palette = self.palette
        lead = f"{self.words('plans.goal')}  "
        goal = self.wrap_text(make_visible(item.goal), max(8, width - cell_len(lead)), palette.text)
        rows = [*prefix_rows(goal, (lead, ink(palette.faint))), Row()]
        for number, step in enumerate(item.steps, start=1):
            said = f"{MARKS[step.status]} {number} {visible_line(step.name)}"
            rows.append(make_row(width, [(said, palette.quiet)]))
        return rows
