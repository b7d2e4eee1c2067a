"""The plan: its steps, or that there is none yet; folded to one line where room is short."""

from __future__ import annotations

from typing import Final

from rich.segment import Segment
from rich.text import Text
from textual.reactive import var

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.work import Plan, Step, WorkStatus
from duckflow_tui.ui.panes.rows import Rows, two_sided
from duckflow_tui.ui.panes.strips import Row, ink, wrap

MARKS: Final[dict[WorkStatus, str]] = {
    WorkStatus.PENDING: "○",
    WorkStatus.IN_PROGRESS: "▶",
    WorkStatus.COMPLETED: "✓",
    WorkStatus.FAILED: "✗",
    WorkStatus.BLOCKED: "◆",
    WorkStatus.SKIPPED: "–",
    WorkStatus.CANCELLED: "–",
}


def current_step(plan: Plan) -> Step | None:
    """The step that runs, else the first that is still to do."""
    wanted = (WorkStatus.IN_PROGRESS, WorkStatus.BLOCKED, WorkStatus.PENDING)
    for status in wanted:
        for step in plan.steps:
            if step.status is status:
                return step
    return None


def one_line(plan: Plan) -> str:
    """``▶ 2/5 Game loop``: where the plan stands, in one line."""
    done, total = plan.progress
    step = current_step(plan)
    if step is None:
        return f"✓ {done}/{total} {visible_line(plan.name)}"
    number = plan.steps.index(step) + 1
    return f"{MARKS[step.status]} {number}/{total} {visible_line(step.name)}"


class PlanPane(Rows, can_focus=True):
    """The active plan's steps."""

    folded: var[bool] = var(False)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plan: Plan | None = None

    def show(self, state: AgentState) -> None:
        """Take over what the state says now."""
        self._plan = state.active_plan
        self.again(layout=True)

    def title(self, width: int) -> Text:
        """``Plan  discounts  1/3`` in at most ``width`` cells."""
        palette = self.palette
        text = Text(self.words("pane.plan"), style=f"bold {palette.accent}", no_wrap=True)
        if self._plan is not None:
            done, total = self._plan.progress
            text.append(f"  {visible_line(self._plan.name)}", style=f"bold {palette.text}")
            text.append(f"  {done}/{total}", style=palette.quiet)
        text.truncate(max(1, width), overflow="ellipsis")
        return text

    def watch_folded(self) -> None:
        self.again(layout=True)

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        plan = self._plan
        if plan is None:
            text = self.words("plan.none")
            style = ink(palette.faint)
            spans = wrap(text, max(8, width - 2))
            return [[Segment(" ", style), Segment(text[a:b], style)] for a, b in spans]
        if self.folded:
            return [[Segment(" " + one_line(plan), ink(palette.quiet))]]
        return [self._step_row(number, step, width) for number, step in enumerate(plan.steps, 1)]

    def _step_row(self, number: int, step: Step, width: int) -> Row:
        palette = self.palette
        colours = {
            WorkStatus.COMPLETED: palette.good,
            WorkStatus.IN_PROGRESS: palette.accent,
            WorkStatus.BLOCKED: palette.accent,
            WorkStatus.FAILED: palette.bad,
        }
        open_step = step.status in (WorkStatus.IN_PROGRESS, WorkStatus.BLOCKED)
        left = [
            Segment(f" {MARKS[step.status]} ", ink(colours.get(step.status, palette.faint))),
            Segment(
                f"{number} {visible_line(step.name)}",
                ink(palette.text if open_step else palette.quiet),
            ),
        ]
        status = self.words(f"plan.status.{step.status.value}")
        right = [Segment(f"{status} ", ink(palette.faint))]
        return two_sided(left, right if step.status is not WorkStatus.PENDING else [], width)


class PlanPill(Rows):
    """One line above the composer where the plan has no pane; gone while there is no plan."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plan: Plan | None = None

    def show(self, state: AgentState) -> None:
        """Take over what the state says now."""
        self._plan = state.active_plan
        self.set_class(self._plan is not None, "-has-plan")
        self.again(layout=True)

    def lines(self, width: int) -> list[Row]:
        if self._plan is None:
            return []
        return [[Segment(" " + one_line(self._plan), ink(self.palette.accent))]]
