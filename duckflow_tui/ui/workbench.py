"""The main screen: four panes that are always somewhere on it, and one composer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

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
from duckflow_tui.state.base import Clock
from duckflow_tui.state.gates import Card, CardKind, Gate
from duckflow_tui.state.store import Store
from duckflow_tui.ui.bridge import Bridge
from duckflow_tui.ui.compositor import LeanCompositor
from duckflow_tui.ui.layout import ROOMY, SCANT, layout_for, right_column
from duckflow_tui.ui.panes.card import QuestionCard
from duckflow_tui.ui.panes.completion import CompletionList, Token
from duckflow_tui.ui.panes.composer import Composer, work_at
from duckflow_tui.ui.panes.diff_document import DiffDocument
from duckflow_tui.ui.panes.diff_pane import DiffPane, ending_of, newest_change, previews_of
from duckflow_tui.ui.panes.gate import GateCard
from duckflow_tui.ui.panes.goal import GoalPane
from duckflow_tui.ui.panes.header import Header, PaneName, PaneTitle, Tabs, step_place
from duckflow_tui.ui.panes.plan import PlanPane, PlanPill
from duckflow_tui.ui.panes.queue import QueueChips
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.status import StatusLine
from duckflow_tui.ui.panes.transcript import Transcript
from duckflow_tui.ui.panes.welcome import Trouble, Welcome
from duckflow_tui.ui.questions import Unheard, may_ask_again, oldest, step_words
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.ui.layout import Layout

SIDE: Final[tuple[PaneName, ...]] = ("plan", "diff", "vitals")
ALL: Final[tuple[PaneName, ...]] = ("chat", *SIDE)
#: Cards whose answer the plan's own pane helps with.
_ABOUT_PLAN: Final = (CardKind.PLAN, CardKind.PLAN_CHANGE, CardKind.BREAKPOINT)


@dataclass(frozen=True, slots=True)
class BenchParts:
    """What the screen is made with."""

    title: str  # of the workspace, until the session says it
    demo: bool
    settings_path: str
    problems: tuple[Trouble, ...]
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
    vitals_on: var[bool] = var(True)  # whether the gauges are shown anywhere

    def __init__(self, parts: BenchParts, bridge: Bridge) -> None:
        super().__init__(id="workbench")
        self._compositor = LeanCompositor()
        self._parts = parts
        self._bridge = bridge
        self.layout_name: Layout = "wide"
        self._gates_open = False
        self._plan_title = Text()  # as it was drawn, empty without a plan
        self._waiting = 0  # questions that are open
        self._carries = False  # one was answered while another waited
        self._stands = False
        self._in_question = False  # the focus is there, and no pane beside shows a part of it
        self._in_plan: bool = False
        self._unheard = Unheard()
        self.header = Header(parts.title, demo=parts.demo, id="header")
        self.status = StatusLine(id="status")
        self.all_tabs = Tabs(ALL, id="all-tabs")
        self.side_tabs = Tabs(SIDE, id="side-tabs")
        self.goal = GoalPane(id="goal")
        self.vitals = self.goal.vitals
        self.plan = PlanPane(parts.clock, id="plan")
        self.plan.animation = parts.animation
        self.diff = DiffPane(id="diff")
        self.card = GateCard(parts.clock, beside=self.diff, proposed=parts.proposed, id="gate")
        self.question = QuestionCard(parts.clock, id="question")
        self.pill = PlanPill(id="pill")
        self.queue = QueueChips(id="queue")
        self.completions = CompletionList(id="completions")
        self.composer = Composer(self.completions, parts.offer, id="composer")
        self.transcript: Transcript | None = None
        self.welcome: Welcome | None = None

    def compose(self) -> ComposeResult:
        self._shape()  # before there is a child: each is styled once, for this size
        yield self.header
        yield self.all_tabs
        with Container(id="body"):
            with Vertical(id="side"):
                yield self.side_tabs
                yield PaneTitle("vitals", id="vitals-title")
                yield self.goal
                yield PaneTitle("plan", self.plan.title, id="plan-title")
                yield self.plan
                yield PaneTitle("diff", self._diff_title, id="diff-title")
                yield self.diff
            with Vertical(id="main"):
                # The card takes its share of what the composer leaves, however tall that is.
                with Vertical(id="talk"):
                    yield Vertical(id="chat")
                    yield self.card
                    yield self.question
                yield self.pill
                yield self.queue
                yield self.completions
                yield from self.foot()
        yield self.status

    def foot(self) -> ComposeResult:
        """What stands at the bottom of the chat."""
        yield self.composer

    def on_mount(self) -> None:
        bridge = self._bridge
        bridge.add(
            lambda s: (
                *(s.session, s.phase, s.status, s.turn, s.vitals),
                *(s.work, s.usage.calls, *step_place(s)),
            ),
            self.header.show,
        )
        bridge.add(
            lambda s: (
                *(s.usage, s.mode, s.turn, s.gates, s.cards, s.session),
                *(s.processes, s.servers, s.running, s.unkept),
            ),
            self.status.show,
        )
        bridge.add(lambda s: (s.vitals, s.pace), self.vitals.show)
        bridge.add(lambda s: (s.objective,), self._goal_changed)
        bridge.add(
            lambda s: (s.plans, s.active_plan_id, s.work, s.turn, s.gates, s.cards),
            self._plan_changed,
        )
        bridge.add(lambda s: (s.queue, s.turn is None), self.queue.show)
        bridge.add(lambda s: (s.turn,), self._work_changed)
        bridge.add(
            lambda s: (s.gates, s.cards, s.cards and s.plans, may_ask_again(s)),
            self._questions_changed,
        )
        bridge.add(lambda s: (s.gates, len(s.messages), s.undone_calls), self._endings_changed)
        bridge.add(
            lambda s: (s.gates, s.cards, len(s.messages), any(v.aside for v in s.live.values())),
            self._talk_changed,
        )
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
        self.welcome = Welcome(self._parts.settings_path, self._parts.problems, id="welcome")
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
            "diff": self.open_question or self.diff.view,
            "vitals": self.goal.target,
        }[pane]
        if target is not None:
            self.call_after_refresh(self.set_focus, target)

    @property
    def open_question(self) -> GateCard | QuestionCard | None:
        """The gate or card that waits for the user and is shown; None while nothing waits."""
        if self.question.card is not None:
            return self.question
        return self.card if self._gates_open else None

    def focus_question(self) -> None:
        """The user wants to decide."""
        if self.open_question is not None:
            self.set_focus(self.open_question)

    def go_to(self, step_id: str, call_id: str) -> None:
        """Show the place in the chat of a call or message, or of a step where none is named."""
        chat = self.transcript
        if chat is not None and chat.go_to(step_id, call_id):
            self.show_pane("chat")
        else:
            self.plan.problem = self.words("plan.not_in_chat")

    def to_composer(self, typed: events.Key | events.Paste | None = None) -> None:
        """The focus and, where one pane is shown at a time, the chat come back.

        ``typed`` is what was typed elsewhere and meant for the composer.
        """
        before = self.focused
        self.shown = "chat"
        self.set_focus(self.composer)
        if before is not None and before is not self.composer:
            self.composer.behind(before)
        if typed is not None:
            self.composer.take_typed(typed)

    def invalidate(self) -> None:
        """Draw everything anew: another theme."""
        self._speak()

    def go_to_first(self, refs: tuple[str, ...]) -> bool:
        """Show the place of the first of these messages and calls that has one; False without."""
        chat = self.transcript
        if chat is None or not any(ref and chat.go_to("", ref) for ref in refs):
            return False
        self.show_pane("chat")
        return True

    # watchers

    def watch_words(self) -> None:
        if self._stands:
            self._speak()

    def watch_vitals_on(self) -> None:
        self.goal.vitals_on = self.vitals_on
        for tabs in (self.all_tabs, self.side_tabs):
            tabs.vitals_on = self.vitals_on
        self._lay_out()

    def watch_shown(self) -> None:
        self._place()

    def watch_beside(self) -> None:
        self._place()

    # Textual

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        # What Textual would style here was styled when it was mounted, and on every change since.
        event.refresh_styles = False

    def on_resize(self) -> None:
        self._lay_out()

    def on_tabs_chosen(self, event: Tabs.Chosen) -> None:
        event.stop()
        self.show_pane(event.pane)

    def on_gate_card_answered(self) -> None:
        self._carries = self._waiting > 1
        if self.composer.text:  # the user was in the middle of a message
            self.card.release_focus()

    def on_gate_card_left(self, event: GateCard.Left) -> None:
        self._lay_gate(gates_open=bool(self.card.gates))
        if event.typed is not None or self.focused is not self.question:
            self.to_composer(event.typed)

    def on_question_card_answered(self) -> None:
        self._carries = self._waiting > 1

    def on_question_card_left(self, event: QuestionCard.Left) -> None:
        if event.typed is not None or self.focused is not self.card:
            self.to_composer(event.typed)

    def on_question_card_plan_wanted(self) -> None:
        self.show_pane("plan")

    def on_vitals_pane_unfolded(self) -> None:
        self._lay_out()

    def on_text_area_changed(self) -> None:
        self.status.written = self.composer.written

    def on_diff_view_changed(self) -> None:
        self.query_one("#diff-title", PaneTitle).invalidate()

    def on_descendant_focus(self) -> None:
        self._light()
        self._focus_moved()

    def on_descendant_blur(self) -> None:
        self._light()
        self._focus_moved()

    def _focus_moved(self) -> None:
        """A question that the user turned to has the room of the pane beside, where that is short
        and shows nothing of it; so has the plan that of the diff.
        """
        if not self._stands or not self.app.app_focus:  # pyright: ignore[reportUnknownMemberType]  # App[Unknown]
            return
        around = (self.focused, *(self.focused.ancestors if self.focused else ()))
        gate = self.card.gate
        at_gate = self.card in around and gate is not None and not gate.previews
        asked, in_plan = self.question in around or at_gate, self.plan in around
        if asked != self._in_question or in_plan != self._in_plan:
            self._in_question, self._in_plan = asked, in_plan
            self._lay_out()
        if self.card in around or self.question in around:
            self._unheard.heard()
            self.card.yields = self.question.yields = False

    def on_key(self, event: events.Key) -> None:
        """A character that no pane has a use for was meant for the composer, and so is what was
        typed right behind it: it may still come from where the focus was.
        """
        focused = self.focused
        around = (focused, *(focused.ancestors if focused else ()))
        asked = self.card in around or self.question in around
        if asked or not event.is_printable or event.character is None:
            return
        if focused is not self.composer and event.key in self.active_bindings:
            return
        event.stop()
        event.prevent_default()
        self.to_composer(event)

    # state

    def _plan_changed(self, state: AgentState) -> None:
        self.plan.show(state)
        self.pill.show(state)
        title = self.query_one("#plan-title", PaneTitle)
        shown = self.plan.title(200) if state.active_plan else Text()
        if shown != self._plan_title:
            self._plan_title = shown
            title.invalidate()
            self._place()

    def _goal_changed(self, state: AgentState) -> None:
        before = self.goal.ledger.has_items
        self.goal.ledger.show(state)
        if self.goal.ledger.has_items != before:
            self._lay_out()
        self._name_goal()

    def _work_changed(self, state: AgentState) -> None:
        turn = state.turn
        self.composer.work = "none" if turn is None else work_at(turn.pause)

    def _questions_changed(self, state: AgentState) -> None:
        """One question is shown at a time: the oldest, and that one until it is gone."""
        before = self.open_question
        shown = oldest(state, self.card.gates, self.question.card)
        card = shown if isinstance(shown, Card) else None
        gates = state.gates if isinstance(shown, Gate) else ()
        if card is not None:
            self.card.release_focus()
        self._show_gates(gates, state)
        plan = next((p for p in state.plans if card and p.plan_id == card.plan_id), None)
        about_plan = card is not None and card.kind in _ABOUT_PLAN
        if about_plan and self.question.card is None:
            self.beside = "plan"
        self.set_class(card is not None, "-card")
        self._waiting = len(state.gates) + len(state.cards)
        self.question.ask(card, plan, self._waiting)
        self._carry_focus(before)

    def _talk_changed(self, state: AgentState) -> None:
        """What is said while a question is open has some room beside it."""
        gate, card = self.card.gate, self.question.card
        shown = card.card_id if card else gate.gate_id if gate else ""
        self.card.yields = self.question.yields = self._unheard.look(state, shown)

    def _carry_focus(self, before: Widget | None) -> None:
        """After an answer the next question that already waited gets the focus too."""
        shown = self.open_question
        if not self._carries or shown is before:
            return
        self._carries = False
        if shown is not None and self.focused in (self.composer, before) and not self.composer.text:
            shown.take_focus()

    def _show_gates(self, gates: tuple[Gate, ...], state: AgentState) -> None:
        again = may_ask_again(state)
        opened = bool(gates) and not self._gates_open
        self.side_tabs.waiting = self.all_tabs.waiting = bool(gates)
        if opened:
            self.beside = "diff"
        self._lay_gate(gates_open=bool(gates) or (self.card.staying and again))
        self.card.step = step_words(gates[0], state, self.words) if gates else ""
        self.card.gates = gates
        self.card.may_ask_again = again

    def _endings_changed(self, state: AgentState) -> None:
        self._show_unasked(state)
        self.diff.ended(ending_of(self.diff.call_id, state.messages, state.undone_calls))

    def _show_unasked(self, state: AgentState) -> None:
        """A change that no gate asked about is shown once it was made, or refused."""
        message = None if state.gates else newest_change(state.messages)
        if message is not None and message.call_id != self.diff.call_id:
            self.diff.show(DiffDocument(previews_of(message)), message.call_id)

    # layout

    def _lay_gate(self, *, gates_open: bool) -> None:
        self._gates_open = gates_open
        self._lay_out()

    def _lay_out(self) -> None:
        if not self._stands:
            return
        width, height = self.size
        self.layout_name = layout_for(width, height)
        self.status.tight = height < ROOMY
        wide = self.layout_name == "wide"
        self._name_goal()
        self.goal.lay_out(height, wide=wide, squeezed=self._gates_open)
        self.header.gauges = self.vitals_on and self.layout_name == "tabbed"
        # Where the user looks at the plan, the diff gives way instead.
        squeezed = self._gates_open or self.goal.explained
        self.plan.folded = wide and squeezed and not self._in_plan
        self._shape()
        self.query_one("#side").styles.width = right_column(width, self.layout_name) or "1fr"
        self._place()

    def _shape(self) -> None:
        """The classes, at once: each change of one styles the whole tree anew."""
        width, height = self.size
        self.layout_name = layout_for(width, height)
        wide = self.layout_name == "wide"
        squeezed = self._gates_open or self.goal.explained
        self.update_classes(
            {f"-{name}": self.layout_name == name for name in ("wide", "tabbed", "single")}
            | {
                "-tight": height < ROOMY,
                "-scant": height < SCANT,
                "-gate": self._gates_open,
                "-why": wide and self.goal.explained,
                "-in-plan": wide and squeezed and self._in_plan,
            }
        )

    def _name_goal(self) -> None:
        title = self.query_one("#vitals-title", PaneTitle)
        title.vitals_on = self.vitals_on
        title.more = "" if self.vitals_on else self.goal.ledger.progress

    def _place(self) -> None:
        if not self._stands:
            return
        self.all_tabs.shown, self.side_tabs.shown = self.shown, self.beside
        single, tabbed = self.layout_name == "single", self.layout_name == "tabbed"
        visible: set[str] = set(ALL)
        if single:
            # The gate shows its own diff where there is no pane beside it.
            asked = self._gates_open or self.question.card is not None
            visible = {"chat" if self.shown == "diff" and asked else self.shown}
        elif tabbed:
            alone = self.welcome is not None or self._in_question
            visible = {"chat"} if alone else {"chat", self.beside}
        self.query_one("#chat").display = "chat" in visible
        self.query_one("#main").set_class("chat" not in visible, "-foot")
        self.card.alone = self.question.alone = "chat" not in visible
        self.query_one("#side").display = bool(visible - {"chat"})
        wide = self.layout_name == "wide"
        if wide and self.goal.is_empty:
            visible.discard("vitals")
        for pane, widget in (("plan", self.plan), ("diff", self.diff), ("vitals", self.goal)):
            widget.display = pane in visible
            says_more = pane == "diff" or (pane == "plan" and self._plan_title.plain != "")
            titled = pane in visible and (wide or says_more)
            self.query_one(f"#{pane}-title").display = titled

    def _light(self) -> None:
        focused = self.focused
        around = [focused, *(focused.ancestors if focused else ())]
        for pane, widget in (("plan", self.plan), ("diff", self.diff), ("vitals", self.goal)):
            self.query_one(f"#{pane}-title", PaneTitle).lit = widget in around

    def _speak(self) -> None:
        words = self.words
        for rows in self.query(Rows).results(Rows):
            rows.words = words
        self.composer.words = self.diff.words = self.card.words = words
        self.plan.words = self.question.words = self.goal.words = words
        if self.transcript is not None:
            self.transcript.words = words
        if self.welcome is not None:
            self.welcome.words = words
            self.welcome.invalidate()

    def _diff_title(self, width: int) -> Text:
        return self.diff.title(width)
