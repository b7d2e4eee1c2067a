"""A recorded session on the usual screen: a bar in the composer's place, and nothing that acts."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from duckflow_tui.commands import Command
from duckflow_tui.session.replay import Tape
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.store import Store
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.bindings import Surface, keys_of
from duckflow_tui.ui.bridge import Bridge
from duckflow_tui.ui.panes.card import CardPane
from duckflow_tui.ui.panes.diff_document import DiffDocument
from duckflow_tui.ui.panes.diff_pane import document_of, ending_of, find_newest_change
from duckflow_tui.ui.panes.gate import GatePane
from duckflow_tui.ui.panes.key_guard import Typed
from duckflow_tui.ui.panes.plan import PlanPane
from duckflow_tui.ui.panes.replay_bar import ReplayBar
from duckflow_tui.ui.replay_player import Player
from duckflow_tui.ui.screens.list_page import ListPage
from duckflow_tui.ui.session_host import AppOptions, SessionHost
from duckflow_tui.ui.terminal import Terminal
from duckflow_tui.ui.workbench import Workbench

if TYPE_CHECKING:
    from duckflow_tui.sessions import Sessions

#: Which keys of a pane would do something, by the beginnings of their actions.
_ACTS: Final[dict[type[Widget], tuple[tuple[Surface, tuple[str, ...]], ...]]] = {
    GatePane: (("gate", ("",)), ("diff", ("toggle_hunk", "only_hunk"))),
    CardPane: (("card", ("",)), ("consultation", ("option",))),
    PlanPane: (
        (
            "plan",
            ("edit_", "add_", "drop_", "move_", "break_", "retry_", "skip_"),
        ),
    ),
}
_MEASURED: Final = 500  # messages up to which every item is drawn once after a leap
_AT_ONCE: Final = 10  # of them, before other things get their turn
#: Keys that write.
_WRITES: Final = frozenset({"enter", "backspace", "delete", "ctrl+j", "alt+enter", "shift+enter"})


_BINDINGS: Final = [
    Binding(name, action, show=False)
    for key in keys_of("replay")
    for name, action in key.list_actions()
]


class ReplayBench(Workbench):
    """Everything that goes to the composer goes to the bar, which takes no text."""

    BINDINGS: ClassVar[list[BindingType]] = [*_BINDINGS]

    def __init__(self, options: AppOptions, bridge: Bridge, player: Player) -> None:
        super().__init__(options, player.clock, bridge)
        self._player = player
        self._was_at_end = False
        self.bar = ReplayBar(player, id="replay")
        self.status.over = True
        player.on_leap = self.show_store
        player.on_change = self.show_position
        player.on_question = bridge.show_now

    def foot(self) -> ComposeResult:
        yield self.composer
        yield self.bar

    def on_mount(self) -> None:
        self._bridge.add(self)
        self.bar.words = self.words
        self.show_position()

    def set_focus(
        self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False
    ) -> None:
        if widget is self.composer:
            widget = self.bar
        super().set_focus(widget, scroll_visible, from_app_focus)

    def to_composer(self, *typed: Typed) -> None:
        self.shown = "chat"
        self.set_focus(self.bar)

    def show_position(self) -> None:
        """Show where the player is."""
        arrived = self._player.at_end and not self._was_at_end
        self._was_at_end = self._player.at_end
        self.bar.show_position()
        if arrived:
            self._begin_measuring()

    def show_store(self, store: Store) -> None:
        """Show another state: nothing of what was shown before has to be in it."""
        chat = self.talk.transcript
        if chat is not None:
            chat.bind_state(store, self.words)
            self._begin_measuring()
        self._bridge.attach(store)
        self.show_position()

    def _begin_measuring(self) -> None:
        """Whoever lived through the session has seen every item, and its scroll bar knows them."""
        chat, store = self.talk.transcript, self._player.store
        if chat is not None and len(store.state.messages) <= _MEASURED:
            chat.show_state(store.state)  # what came last may wait for its frame
            self.call_later(self._measure, store)

    def _measure(self, store: Store) -> None:
        chat = self.talk.transcript
        if chat is not None and store is self._player.store and chat.measure(_AT_ONCE):
            self.call_later(self._measure, store)

    # what a key would do

    def replace_key(self, event: events.Key | events.Paste) -> str | None:
        """The action of the replay in place of a key that would act on the session or write; empty
        where there is none. None for a key that may do what it always does.
        """
        if isinstance(event, events.Paste):
            return ""
        own = next((binding.action for binding in _BINDINGS if binding.key == event.key), "")
        if self._acts(event.key):
            return own
        text = event.is_printable or event.key in _WRITES
        return "" if text and not own and event.key not in self.active_bindings else None

    def _acts(self, key: str) -> bool:
        """Whether the key would act on the session in the pane that has the focus."""
        panes = [type(widget) for widget in self._around() if isinstance(widget, Widget)]
        acting = [acts for pane in panes for acts in _ACTS.get(pane, ())]
        return any(
            key in known.keys and known.action.startswith(beginnings)
            for surface, beginnings in acting
            for known in keys_of(surface)
        )

    def action_escape(self) -> None:
        """Back to the bar; there, twice: the end."""
        if self.focused is not self.bar:
            self.to_composer()
        elif self.get_selected_text():
            self.clear_selection()
        else:
            self.quit_on_second("replay.escape_again")

    def action_interrupt(self) -> None:
        self.quit_on_second("shell.quit_again")

    def action_external_editor(self) -> None:
        self.host.session.acting()

    def action_search_history(self) -> None:
        self.host.session.acting()

    def action_play(self) -> None:
        self._player.toggle_playing()

    def action_step(self, by: int) -> None:
        self._player.step_by(1 if by > 0 else -1)

    def action_jump(self, by: int) -> None:
        if not self._player.jump_by(1 if by > 0 else -1):
            key = "replay.no_next" if by > 0 else "replay.no_previous"
            self.status.show_notice(key)

    def action_speed(self, by: int) -> None:
        self._player.change_speed(1 if by > 0 else -1)

    def action_to_edge(self, by: int) -> None:
        self._player.seek_to(0 if by < 0 else len(self._player.tape))

    # the diff

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """The slices of the state that ``show`` reads."""
        return self.diff.slices(state)

    def show(self, state: AgentState) -> None:
        """The change that was asked about or made last, without what the user left out of it:
        live, the diff has that from the keys of the gate.
        """
        if state.gates:
            return
        message, _ = find_newest_change(state.messages)
        if message is None:
            if self.diff.call_id:
                self.diff.open(DiffDocument(()))
            return
        if message.call_id == self.diff.call_id and not self.diff.view.document.choosing:
            return
        self.diff.open(document_of(message), message.call_id)
        self.diff.ended(ending_of(message.call_id, state.messages, state.undone_calls))


class RecordedSession(SessionHost):
    """Has no engine, no network, no workspace and no journal; ``player`` alone moves it."""

    def __init__(self, app: ReplayApp) -> None:
        super().__init__(app, None)
        self._replay = app

    @property
    def store(self) -> Store:
        return self._replay.player.store

    def acting(self) -> None:
        """Refuses whatever would act on the session, here and only here."""
        said = self._app.words("replay.read_only")
        if isinstance(self._app.screen, ListPage):  # it covers the status line
            self._app.screen.report(said)
        self._app.status.show_message(said)

    async def open(self) -> None:
        app = self._replay
        await app.bench.show_session(self.store)
        app.bridge.attach(self.store)
        app.spawn(app.player.run(), "chat")
        # A leap to a place full of replies does not wait for their parser.
        load = asyncio.to_thread(import_module, "duckflow_tui.ui.panes.markdown")
        app.bench.call_after_refresh(app.run_worker, load, group="warm", exit_on_error=False)
        self.opening = False


class SilentTerminal(Terminal):
    """The questions of a recorded session were answered long ago: nobody is called."""

    def show(self, state: AgentState) -> None:
        return


class ReplayApp(DuckflowApp, inherit_bindings=True):
    """Shows what ``player`` plays."""

    def __init__(
        self,
        tape: Tape,
        options: AppOptions | None = None,
        *,
        speed: float = 1.0,
        playing: bool = True,
    ) -> None:
        self.player = Player(tape, speed=speed, playing=playing)
        super().__init__(None, options, clock=self.player.clock)
        self.terminal = SilentTerminal(self)

    def make_session(self, sessions: Sessions | None) -> RecordedSession:
        return RecordedSession(self)

    def make_bench(self) -> ReplayBench:
        self.stage = ReplayBench(self.options, self.bridge, self.player)
        return self.stage

    async def on_event(self, event: events.Event) -> None:
        """Answer keys that would act or write, so that they reach no pane."""
        action = None
        if isinstance(event, events.Key | events.Paste) and not (
            event.is_forwarded or self.key_queue.is_holding or self.screen is not self.bench
        ):
            action = self.stage.replace_key(event)
        if action is None:
            await super().on_event(event)
        elif action:
            self.status.clear_message()
            await self.run_action(action, self.stage)
        else:
            self.session.acting()

    def run_command(self, command: Command, argument: str = "") -> None:
        if command.reads:
            super().run_command(command, argument)
        else:
            self.session.acting()
