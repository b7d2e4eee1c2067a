"""The column beside the chat: vitals and goal, plan and diff, each with a title."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.reactive import var

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.goal import GoalPane
from duckflow_tui.ui.panes.header import PaneTitle
from duckflow_tui.ui.panes.plan import PlanPane
from duckflow_tui.ui.panes.side_pane import SidePane
from duckflow_tui.words.catalogue import Catalogue

LEAST: Final = 15  # percent of the width
MOST: Final = 65  # also where the column is wide


class Side(Vertical):
    """Creates the panes of the side column and their titles; the screen decides which are shown."""

    ALLOW_SELECT = False

    class Moved(Message):
        """The user dragged the column's border."""

    words: var[Catalogue] = var(Catalogue)
    vitals_on: var[bool] = var(True)
    #: Names of the panes that have something to show by themselves.
    holding: var[frozenset[str]] = var(frozenset[str]())
    share: var[int] = var(0)  # percent of the width; 0: as the screen says

    def __init__(self, clock: Clock, *, animation: bool) -> None:
        super().__init__(id="side")
        self.goal = GoalPane(id="goal")
        self.plan = PlanPane(clock, id="plan")
        self.plan.animation = animation
        self.diff = DiffPane(id="diff")
        self.panes: tuple[SidePane, ...] = (self.goal, self.plan, self.diff)  # from the top
        self._titles: dict[SidePane, PaneTitle] = {pane: PaneTitle(pane) for pane in self.panes}
        self.diff.view.on_change(self._titles[self.diff].invalidate)
        self.is_narrow = True  # a diff is its title alone: no line of it would fit
        self._drawn_titles: list[Text | None] = []
        self._shown: Collection[str] = ()
        self._opened = ""  # the pane that the user went to
        self._wide = True
        self._drags = False  # the user has the border under the pointer

    def compose(self) -> ComposeResult:
        for pane in self.panes:
            yield self._titles[pane]
            yield pane

    def pane_around(self, widgets: Collection[object]) -> SidePane | None:
        """Return the pane among these widgets; None without."""
        return next((pane for pane in self.panes if pane in widgets), None)

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """The slices of the state that ``show`` reads."""
        panes = (self.plan, self.goal.ledger, self.diff)
        return tuple(part for pane in panes for part in pane.slices(state))

    def show(self, state: AgentState) -> None:
        """Update titles and visibility from this state; the panes update themselves."""
        titles = [pane.make_title(200) for pane in self.panes]
        if titles != self._drawn_titles:
            self._drawn_titles = titles
            self._invalidate_titles()
            self.show_panes(self._shown, self._opened)
        self._name_goal()
        self.holding = frozenset(pane.pane_name for pane in self.panes if pane.has_content(state))

    def lay_out(self, height: int, *, wide: bool, squeezed: bool, opened: str) -> None:
        """Fit the goal pane to a screen of ``height`` rows; ``squeezed`` while a gate needs the
        room, ``opened`` is the name of the focused pane.
        """
        self._wide = wide
        self.goal.lay_out(
            height, wide=wide, squeezed=squeezed, opened=opened == self.goal.pane_name
        )
        self._name_goal()

    def show_panes(self, names: Collection[str], opened: str = "") -> None:
        """Show these panes, with titles where no tabs name them. An empty pane other than
        ``opened`` is only its title; the last one with content takes the remaining rows.
        """
        self._shown, self._opened = names, opened
        shown = [pane for pane in self.panes if pane.pane_name in names]
        full = [pane for pane in shown if self._is_full(pane)]
        self.display = bool(shown)
        for pane, title in self._titles.items():
            pane.display = pane in full
            pane.set_class(pane in full[-1:] and pane.takes_rest, "-last")
            title.display = pane in shown and (self._wide or pane.make_title(200) is not None)
            title.more = "" if pane.display else pane.describe_folded()
        self._name_goal()

    def _is_full(self, pane: SidePane) -> bool:
        """Whether more than the pane's title is shown."""
        if pane.pane_name == self._opened or not self._wide or pane.is_always_shown:
            return True
        return pane.pane_name in self.holding and not (self.is_narrow and pane is self.diff)

    def _name_goal(self) -> None:
        """Show the progress of the requirements in the goal pane's title, unless it shows the
        vitals.
        """
        title = self._titles[self.goal]
        title.more = "" if self.goal.shows_vitals else self.goal.ledger.progress
        title.invalidate()

    def _invalidate_titles(self) -> None:
        for title in self._titles.values():
            title.invalidate()

    # --- the border -------------------------------------------------------------------------

    def validate_share(self, share: int) -> int:
        """Limit the share so that both sides of the border stay usable."""
        return min(max(share, LEAST), MOST) if share else 0

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.x == 0 and self._wide and event.button == 1:
            event.stop()
            self._drags = True
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._drags:
            width = self.screen.size.width
            share = round(100 * (width - event.screen_x) / max(1, width))
            self.share = max(share, LEAST)

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
        for pane, title in self._titles.items():
            title.lit = pane in around

    def watch_vitals_on(self) -> None:
        self.goal.vitals_on = self.vitals_on

    def watch_words(self) -> None:
        for pane in self.panes:
            pane.words = self.words
