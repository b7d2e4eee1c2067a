"""The main screen: four panes that are always somewhere on it, and one composer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.reactive import var
from textual.screen import Screen
from textual.widget import Widget

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.clock import Clock
from duckflow_tui.state.store import Store
from duckflow_tui.ui.bridge import Bridge
from duckflow_tui.ui.i18n import Catalogue
from duckflow_tui.ui.layout import ROOMY, Layout, layout_for, right_column
from duckflow_tui.ui.panes.completion import CompletionList, Token
from duckflow_tui.ui.panes.composer import Composer
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.gate import GateCard
from duckflow_tui.ui.panes.header import Header
from duckflow_tui.ui.panes.plan import PlanPane, PlanPill
from duckflow_tui.ui.panes.queue import QueueChips
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.status import StatusLine
from duckflow_tui.ui.panes.tabs import PaneName, PaneTitle, Tabs
from duckflow_tui.ui.panes.transcript import Transcript
from duckflow_tui.ui.panes.vitals import VitalsPane
from duckflow_tui.ui.panes.welcome import Welcome

SIDE: Final[tuple[PaneName, ...]] = ("plan", "diff", "vitals")
ALL: Final[tuple[PaneName, ...]] = ("chat", *SIDE)


@dataclass(frozen=True, slots=True)
class BenchParts:
    """What the screen is made with."""

    title: str  # of the workspace, until the session says it
    settings_path: str
    clock: Clock
    animation: bool
    offer: Callable[[Token], Coroutine[Any, Any, None]]
    proposed: Callable[[str], str | None]


class Workbench(Screen[None], inherit_bindings=False):
    """Lays the panes out for the size, and knows which of them is shown where room is short."""

    AUTO_FOCUS = None

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", show=False),
        Binding("ctrl+c,super+c", "screen.copy_text", show=False),
    ]

    class Stands(Message):
        """The panes are there and the composer has the focus."""

    words: var[Catalogue] = var(Catalogue)
    shown: var[PaneName] = var[PaneName]("chat")  # where only one is shown at a time
    beside: var[PaneName] = var[PaneName]("plan")  # in the tabbed layout's right column

    def __init__(self, parts: BenchParts, bridge: Bridge) -> None:
        super().__init__(id="workbench")
        self._parts = parts
        self._bridge = bridge
        self.layout_name: Layout = "wide"
        self._gates_open = False
        self._stands = False
        self.header = Header(parts.title, id="header")
        self.status = StatusLine(id="status")
        self.all_tabs = Tabs(ALL, id="all-tabs")
        self.side_tabs = Tabs(SIDE, id="side-tabs")
        self.vitals = VitalsPane(id="vitals")
        self.plan = PlanPane(id="plan")
        self.diff = DiffPane(id="diff")
        self.card = GateCard(parts.clock, beside=self.diff, proposed=parts.proposed, id="gate")
        self.pill = PlanPill(id="pill")
        self.queue = QueueChips(id="queue")
        self.completions = CompletionList(id="completions")
        self.composer = Composer(self.completions, parts.offer, id="composer")
        self.transcript: Transcript | None = None
        self.welcome: Welcome | None = None

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.all_tabs
        with Container(id="body"):
            with Vertical(id="side"):
                yield self.side_tabs
                yield PaneTitle("vitals", id="vitals-title")
                yield self.vitals
                yield PaneTitle("plan", self.plan.title, id="plan-title")
                yield self.plan
                yield PaneTitle("diff", self._diff_title, id="diff-title")
                yield self.diff
            with Vertical(id="main"):
                # The card takes its share of what the composer leaves, however tall that is.
                with Vertical(id="talk"):
                    yield Vertical(id="chat")
                    yield self.card
                yield self.pill
                yield self.queue
                yield self.completions
                yield self.composer
        yield self.status

    def on_mount(self) -> None:
        bridge = self._bridge
        bridge.add(lambda s: (s.session, s.phase, s.status, s.turn, s.vitals), self.header.show)
        bridge.add(lambda s: (s.usage, s.mode, s.turn, s.gates), self.status.show)
        bridge.add(lambda s: (s.vitals,), self.vitals.show)
        bridge.add(lambda s: (s.plans, s.active_plan_id), self._plan_changed)
        bridge.add(lambda s: (s.queue,), self.queue.show)
        bridge.add(lambda s: (s.turn is not None,), self._work_changed)
        bridge.add(lambda s: (s.gates,), self._gates_changed)
        self._stands = True
        self._speak()
        self._lay_out()
        self.set_focus(self.composer)
        self.post_message(self.Stands())

    # what it shows

    async def show_session(self, store: Store) -> None:
        """The chat of this session takes the place of whatever was there."""
        chat = self.query_one("#chat", Vertical)
        await chat.remove_children()
        self.welcome = None
        self.transcript = Transcript(store, animation=self._parts.animation, id="transcript")
        self.transcript.words = self.words
        await chat.mount(self.transcript)
        self._lay_out()

    async def show_welcome(self) -> None:
        """No endpoint is configured: say how to set one."""
        chat = self.query_one("#chat", Vertical)
        await chat.remove_children()
        self.transcript = None
        self.welcome = Welcome(self._parts.settings_path, id="welcome")
        self.welcome.words = self.words
        await chat.mount(self.welcome)
        self._lay_out()

    def show_pane(self, pane: PaneName) -> None:
        """Bring the pane on the screen and give it the focus; an open gate takes the diff's."""
        self.shown = pane
        if pane != "chat":
            self.beside = pane
        target: Widget | None = {
            "chat": self.transcript or self.welcome,
            "plan": self.plan,
            "diff": self.card if self._gates_open else self.diff.view,
            "vitals": self.vitals,
        }[pane]
        if target is not None:
            self.call_after_refresh(self.set_focus, target)

    def focus_gate(self) -> None:
        """The user wants to decide."""
        self.set_focus(self.card)

    def to_composer(self) -> None:
        """The focus and, where one pane is shown at a time, the chat come back."""
        self.shown = "chat"
        self.set_focus(self.composer)

    def again(self) -> None:
        """Draw everything anew: another theme."""
        self._speak()

    # watchers

    def watch_words(self) -> None:
        if self._stands:
            self._speak()

    def watch_shown(self) -> None:
        self._place()

    def watch_beside(self) -> None:
        self._place()

    # Textual

    def on_resize(self) -> None:
        self._lay_out()

    def on_tabs_chosen(self, event: Tabs.Chosen) -> None:
        event.stop()
        self.show_pane(event.pane)

    def on_gate_card_left(self) -> None:
        self.to_composer()

    def on_diff_view_changed(self) -> None:
        self.query_one("#diff-title", PaneTitle).again()

    def on_descendant_focus(self) -> None:
        self._light()

    def on_descendant_blur(self) -> None:
        self._light()

    def on_key(self, event: events.Key) -> None:
        """A character that no pane has a use for was meant for the composer."""
        focused = self.focused
        gate_has_it = focused is self.card or self.card in (focused.ancestors if focused else ())
        if gate_has_it or focused is self.composer or not event.is_printable:
            return
        if event.character is None or event.key in self.active_bindings:
            return
        event.stop()
        event.prevent_default()
        self.to_composer()
        self.composer.insert(event.character)

    # state

    def _plan_changed(self, state: AgentState) -> None:
        self.plan.show(state)
        self.pill.show(state)
        self.query_one("#plan-title", PaneTitle).again()

    def _work_changed(self, state: AgentState) -> None:
        self.composer.busy = state.turn is not None

    def _gates_changed(self, state: AgentState) -> None:
        opened = bool(state.gates) and not self._gates_open
        self._gates_open = bool(state.gates)
        self.set_class(self._gates_open, "-gate")
        self.side_tabs.waiting = self.all_tabs.waiting = self._gates_open
        self.plan.folded = self._gates_open and self.layout_name == "wide"
        if opened:
            self.beside = "diff"
        self._place()
        self.card.gates = state.gates

    # layout

    def _lay_out(self) -> None:
        if not self._stands:
            return
        width, height = self.size
        self.layout_name = layout_for(width, height)
        for name in ("wide", "tabbed", "single"):
            self.set_class(self.layout_name == name, f"-{name}")
        self.set_class(height < ROOMY, "-tight")
        self.header.gauges = self.layout_name == "tabbed"
        self.plan.folded = self._gates_open and self.layout_name == "wide"
        self.query_one("#side").styles.width = right_column(width, self.layout_name) or "1fr"
        self._place()

    def _place(self) -> None:
        if not self._stands:
            return
        self.all_tabs.shown, self.side_tabs.shown = self.shown, self.beside
        single, tabbed = self.layout_name == "single", self.layout_name == "tabbed"
        visible: set[str] = set(ALL)
        if single:
            # The gate shows its own diff where there is no pane beside it.
            visible = {"chat" if self.shown == "diff" and self._gates_open else self.shown}
        elif tabbed:
            visible = {"chat"} if self.welcome is not None else {"chat", self.beside}
        self.query_one("#chat").display = "chat" in visible
        self.query_one("#main").set_class("chat" not in visible, "-foot")
        self.query_one("#side").display = bool(visible - {"chat"})
        for pane, widget in (("plan", self.plan), ("diff", self.diff), ("vitals", self.vitals)):
            widget.display = pane in visible
            titled = pane in visible and (self.layout_name == "wide" or pane == "diff")
            self.query_one(f"#{pane}-title").display = titled

    def _light(self) -> None:
        focused = self.focused
        around = [focused, *(focused.ancestors if focused else ())]
        for pane, widget in (("plan", self.plan), ("diff", self.diff), ("vitals", self.vitals)):
            self.query_one(f"#{pane}-title", PaneTitle).lit = widget in around

    def _speak(self) -> None:
        words = self.words
        for rows in self.query(Rows).results(Rows):
            rows.words = words
        self.composer.words = self.diff.words = self.card.words = words
        if self.transcript is not None:
            self.transcript.words = words
        if self.welcome is not None:
            self.welcome.words = words
            self.welcome.again()

    def _diff_title(self, width: int) -> Text:
        return self.diff.title(width)
