"""The Workbench of a replay: the same panes, with a bar in the composer's place."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.store import Store
from duckflow_tui.ui.bindings import Surface, keys_of
from duckflow_tui.ui.bridge import Bridge
from duckflow_tui.ui.panes.card import CardPane
from duckflow_tui.ui.panes.diff_document import DiffDocument
from duckflow_tui.ui.panes.diff_pane import document_of, ending_of
from duckflow_tui.ui.panes.gate import GatePane
from duckflow_tui.ui.panes.key_guard import Typed
from duckflow_tui.ui.panes.plan import PlanPane
from duckflow_tui.ui.panes.replay_bar import Reel, ReplayBar
from duckflow_tui.ui.replay_player import Player
from duckflow_tui.ui.session_host import AppOptions
from duckflow_tui.ui.workbench import Workbench

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


def _bindings() -> list[BindingType]:
    """The keys of a replay; of a pair the first goes back."""
    found: list[BindingType] = []
    for key in keys_of("replay"):
        if len(key.keys) == 2:
            one, other = (1, -1) if key.action == "speed" else (-1, 1)
            found.append(Binding(key.keys[0], f"{key.action}({one})", show=False))
            found.append(Binding(key.keys[1], f"{key.action}({other})", show=False))
        else:
            action = "app.quit_now" if key.action == "quit" else key.action
            found.append(Binding(key.keys[0], action, show=False))
    return found


class ReplayBench(Workbench):
    """Everything that goes to the composer goes to the bar, which takes no text."""

    BINDINGS: ClassVar[list[BindingType]] = _bindings()

    def __init__(self, options: AppOptions, bridge: Bridge, player: Player) -> None:
        super().__init__(options, player.clock, bridge)
        self._player = player
        self.bar = ReplayBar(player.tape, id="replay")
        self.status.over = True

    def foot(self) -> ComposeResult:
        yield self.composer
        yield self.bar

    def on_mount(self) -> None:
        self._bridge.add(self)
        self.bar.words = self.words
        self.follow()

    def set_focus(
        self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False
    ) -> None:
        if widget is self.composer:
            widget = self.bar
        super().set_focus(widget, scroll_visible, from_app_focus)

    def to_composer(self, *typed: Typed) -> None:
        self.shown = "chat"
        self.set_focus(self.bar)

    def follow(self) -> None:
        """Show where the player is."""
        player = self._player
        mark = player.mark
        time = player.clock.now() - player.tape.time_at(0)
        kind = mark.kind if mark is not None else None
        arrived = player.at_end and self.bar.reel.position != player.position
        self.bar.show(Reel(player.position, time, player.speed, player.playing, kind))
        if arrived:
            self._begin_measuring()

    def leap(self, store: Store) -> None:
        """Show another state: nothing of what was shown before has to be in it."""
        chat = self.talk.transcript
        if chat is not None:
            chat.bind_state(store, self.words)
            self._begin_measuring()
        self._bridge.attach(store)
        self.follow()

    def _begin_measuring(self) -> None:
        """Whoever lived through the session has seen every item, and its scroll bar knows them."""
        chat, store = self.talk.transcript, self._player.store
        if chat is not None and len(store.state.messages) <= _MEASURED:
            chat.sync(store.state)  # what came last may wait for its frame
            self.call_later(self._measure, store)

    def _measure(self, store: Store) -> None:
        chat = self.talk.transcript
        if chat is not None and store is self._player.store and chat.measure(_AT_ONCE):
            self.call_later(self._measure, store)

    # what a key would do

    def acts(self, key: str) -> bool:
        """Whether the key would do something to the session in the pane that has the focus."""
        for kind in (type(widget) for widget in self._around() if isinstance(widget, Widget)):
            for surface, beginnings in _ACTS.get(kind, ()):
                if any(
                    key in known.keys and known.action.startswith(beginnings)
                    for known in keys_of(surface)
                ):
                    return True
        return False

    def means_text(self, event: events.Key) -> bool:
        """Whether the key writes, and nothing has another use for it."""
        if event.key in self.active_bindings or self.own_action(event.key):
            return False
        return event.is_printable or event.key in _WRITES

    def own_action(self, key: str) -> str:
        """The effect of the key on the replay, empty for none."""
        for binding in _BY_KEY:
            if binding.key == key:
                return binding.action
        return ""

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
        self._player.toggle()

    def action_step(self, by: int) -> None:
        self._player.step(1 if by > 0 else -1)

    def action_jump(self, by: int) -> None:
        if not self._player.jump(1 if by > 0 else -1):
            key = "replay.no_next" if by > 0 else "replay.no_previous"
            self.status.show_notice(key)

    def action_speed(self, by: int) -> None:
        self._player.faster(1 if by > 0 else -1)

    def action_to_edge(self, by: int) -> None:
        self._player.seek(0 if by < 0 else len(self._player.tape))

    def on_replay_bar_sought(self, event: ReplayBar.Sought) -> None:
        event.stop()
        self._player.seek(event.position)

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
        message = self.diff.newest.look(state.messages)
        if message is None:
            if self.diff.call_id:
                self.diff.open(DiffDocument(()))
            return
        if message.call_id == self.diff.call_id and not self.diff.view.document.choosing:
            return
        self.diff.open(document_of(message), message.call_id)
        self.diff.ended(ending_of(message.call_id, state.messages, state.undone_calls))


_BY_KEY: Final = [b for b in _bindings() if isinstance(b, Binding)]
