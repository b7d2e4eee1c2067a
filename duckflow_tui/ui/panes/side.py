"""The column beside the chat: goal, plan and diff, each under its title."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.reactive import var

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.goal import GoalPane
from duckflow_tui.ui.panes.header import PaneName, PaneTitle, Tabs
from duckflow_tui.ui.panes.plan import PlanPane
from duckflow_tui.words.catalogue import Catalogue

SIDE: Final[tuple[PaneName, ...]] = ("plan", "diff", "vitals")


class Side(Vertical):
    """Which of the panes are shown, and how much of each, the screen says."""

    words: var[Catalogue] = var(Catalogue)
    vitals_on: var[bool] = var(True)

    def __init__(self, clock: Clock, *, animation: bool) -> None:
        super().__init__(id="side")
        self.tabs = Tabs(SIDE, id="side-tabs")
        self.goal = GoalPane(id="goal")
        self.plan = PlanPane(clock, id="plan")
        self.plan.animation = animation
        self.diff = DiffPane(id="diff")
        self._panes = {"vitals": self.goal, "plan": self.plan, "diff": self.diff}
        self._titles = {
            "vitals": PaneTitle("vitals", id="vitals-title"),
            "plan": PaneTitle("plan", self.plan.title, id="plan-title"),
            "diff": PaneTitle("diff", self.diff.title, id="diff-title"),
        }
        self._plan_title = Text()  # as it was drawn, empty without a plan
        self._shown: Collection[str] = ()
        self._wide = True

    def compose(self) -> ComposeResult:
        yield self.tabs
        for name, pane in self._panes.items():
            yield self._titles[name]
            yield pane

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """What ``show`` looks at."""
        return *self.plan.slices(state), *self.goal.ledger.slices(state)

    def show(self, state: AgentState) -> None:
        """Write the titles; the panes show the rest by themselves."""
        self._name_goal()
        title = self.plan.title(200) if state.active_plan else Text()
        if title != self._plan_title:
            self._plan_title = title
            self._titles["plan"].invalidate()
            self.show_panes(self._shown)

    def lay_out(self, height: int, *, wide: bool, squeezed: bool, in_plan: bool) -> None:
        """For a screen of so many rows; ``squeezed`` while a gate needs the room."""
        self._wide = wide
        self._name_goal()
        self.goal.lay_out(height, wide=wide, squeezed=squeezed)
        # Where the user looks at the plan, the diff gives way instead.
        self.plan.folded = wide and (squeezed or self.goal.explained) and not in_plan

    def show_panes(self, names: Collection[str]) -> None:
        """Show these, and their titles where the tabs do not say as much."""
        self._shown = names
        self.display = any(name in names for name in SIDE)
        for name, pane in self._panes.items():
            pane.display = name in names
            says_more = name == "diff" or (name == "plan" and self._plan_title.plain != "")
            self._titles[name].display = pane.display and (self._wide or says_more)

    def _name_goal(self) -> None:
        self._titles["vitals"].vitals_on = self.vitals_on
        self._titles["vitals"].more = "" if self.vitals_on else self.goal.ledger.progress

    def on_diff_view_changed(self) -> None:
        self._titles["diff"].invalidate()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _light(self) -> None:
        focused = self.screen.focused
        around = (focused, *(focused.ancestors if focused else ()))
        for name, pane in self._panes.items():
            self._titles[name].lit = pane in around

    def watch_vitals_on(self) -> None:
        self.goal.vitals_on = self.tabs.vitals_on = self.vitals_on

    def watch_words(self) -> None:
        self.plan.words = self.diff.words = self.goal.words = self.words
