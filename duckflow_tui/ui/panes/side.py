"""The column beside the chat: vitals and goal, plan and diff, each under its title."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.reactive import var
from textual.widget import Widget

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock
from duckflow_tui.state.plan import PlanStatus
from duckflow_tui.ui.arrangement import SHARE
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.goal import GoalPane
from duckflow_tui.ui.panes.header import PaneName, PaneTitle
from duckflow_tui.ui.panes.plan import PlanPane
from duckflow_tui.words.catalogue import Catalogue

SIDE: Final[tuple[PaneName, ...]] = ("plan", "diff", "vitals")
LEAST: Final = 25
MOST: Final = 65  # also where the column is wide


class Side(Vertical):
    """Knows which panes have something to show; which of them are shown, the screen says."""

    ALLOW_SELECT = False

    class Moved(Message):
        """The border was dragged to another share of the width."""

    words: var[Catalogue] = var(Catalogue)
    vitals_on: var[bool] = var(True)
    #: The panes that have something to show by themselves.
    holding: var[frozenset[PaneName]] = var(frozenset[PaneName]())
    share: var[int] = var(SHARE)  # percent of the width

    def __init__(self, clock: Clock, *, animation: bool) -> None:
        super().__init__(id="side")
        self.goal = GoalPane(id="goal")
        self.plan = PlanPane(clock, id="plan")
        self.plan.animation = animation
        self.diff = DiffPane(id="diff")
        self._panes: dict[PaneName, Widget] = {
            "vitals": self.goal,
            "plan": self.plan,
            "diff": self.diff,
        }
        self._titles: dict[PaneName, PaneTitle] = {
            "vitals": PaneTitle("vitals", id="vitals-title"),
            "plan": PaneTitle("plan", self.plan.title, id="plan-title"),
            "diff": PaneTitle("diff", self.diff.title, id="diff-title"),
        }
        self.diff.view.on_change(self._titles["diff"].invalidate)
        self.is_narrow = True  # only the gauges have been shown in this session
        self._plan_title = Text()  # as it was drawn, empty without a plan
        self._shown: Collection[str] = ()
        self._opened = ""  # the pane that the user went to
        self._wide = True
        self._drags = False  # the user has the border under the pointer

    def compose(self) -> ComposeResult:
        for name, pane in self._panes.items():
            yield self._titles[name]
            yield pane

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """The slices of the state that ``show`` reads."""
        diff = (*self.diff.slices(state), state.running)
        return *self.plan.slices(state), *self.goal.ledger.slices(state), state.turns, *diff

    def show(self, state: AgentState) -> None:
        """Write the titles, and see what there is to show; the panes show it by themselves."""
        self._name_goal()
        title = self.plan.title(200) if state.active_plan else Text()
        if title != self._plan_title:
            self._plan_title = title
            self._titles["plan"].invalidate()
            self.show_panes(self._shown, self._opened)
        found: set[PaneName] = set()
        brief = state.turn is not None and bool(state.memory.plan_brief)  # holds until its end
        plan, changed = state.active_plan, self._has_change(state)
        over = plan is not None and plan.status is PlanStatus.COMPLETED
        stands = plan is not None and not (over and self.diff.newest.plan_overtaken)
        if stands or brief or state.work is not None:
            found.add("plan")
        if state.objective is not None and state.objective.extracted_requirements:
            found.add("vitals")
        if changed:
            found.add("diff")
        was_reviewed = any(turn.satisfaction is not None for turn in state.turns)
        had_change = self.diff.newest.look(state.messages) is not None
        self.is_narrow = not (found or state.plans or was_reviewed or had_change)
        self.holding = frozenset(found)

    def _has_change(self, state: AgentState) -> bool:
        """Whether a change is to be decided, or is made, or was made for the last request."""
        newest = self.diff.newest
        last = newest.look(state.messages)
        if state.gates:
            return bool(state.gates[0].previews)
        if any(running.call_id == self.diff.call_id for running in state.running):
            return bool(self.diff.view.document.previews)
        return last is not None and not newest.overtaken

    def lay_out(self, height: int, *, wide: bool, squeezed: bool, opened: bool) -> None:
        """Fit the goal to a screen of so many rows; ``squeezed`` while a gate needs the room,
        ``opened`` while the user is in the vitals.
        """
        self._wide = wide
        self.goal.lay_out(height, wide=wide, squeezed=squeezed, opened=opened)
        self._name_goal()

    def show_panes(self, names: Collection[str], opened: str = "") -> None:
        """Show these, and their titles where the tabs do not say as much. One that holds nothing
        and is not the ``opened`` one is its title alone. The last with content takes the rows
        that the others leave.
        """
        self._shown, self._opened = names, opened
        self.display = any(name in names for name in self._panes)
        full = [name for name in self._panes if name in names and self._has_content(name)]
        for name, pane in self._panes.items():
            pane.display = name in full
            stretches = name != "vitals" or self.goal.explained or not self._wide
            pane.set_class(name in full[-1:] and stretches, "-last")
            says_more = name == "diff" or (name == "plan" and self._plan_title.plain != "")
            title = self._titles[name]
            title.display = name in names and (self._wide or says_more)
            if name != "vitals":
                title.more = "" if pane.display else self.words(f"pane.no_{name}")

    def _has_content(self, name: PaneName) -> bool:
        opened = name == self._opened or not self._wide
        return name in self.holding or opened or (name == "vitals" and self.vitals_on)

    def _name_goal(self) -> None:
        self._titles["vitals"].vitals_on = self.goal.shows_vitals
        self._titles["vitals"].more = "" if self.goal.shows_vitals else self.goal.ledger.progress

    # --- the border -------------------------------------------------------------------------

    def validate_share(self, share: int) -> int:
        """Neither side of the border is squeezed out."""
        return min(max(share, LEAST), MOST)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.x == 0 and self._wide and event.button == 1:
            event.stop()
            self._drags = True
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._drags:
            width = self.screen.size.width
            self.share = round(100 * (width - event.screen_x) / max(1, width))

    def on_mouse_up(self) -> None:
        if self._drags:
            self._drags = False
            self.release_mouse()
            self.post_message(self.Moved())

    # --- what its parts say -----------------------------------------------------------------

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _light_titles(self) -> None:
        focused = self.screen.focused
        around = (focused, *(focused.ancestors if focused else ()))
        for name, pane in self._panes.items():
            self._titles[name].lit = pane in around

    def watch_vitals_on(self) -> None:
        self.goal.vitals_on = self.vitals_on

    def watch_words(self) -> None:
        self.plan.words = self.diff.words = self.goal.words = self.words
