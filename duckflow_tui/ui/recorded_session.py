"""Shows a recorded session on the normal screen, read-only."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Final

from duckflow_tui.state.store import Store
from duckflow_tui.ui.replay_player import Player
from duckflow_tui.ui.session_host import SessionHost

if TYPE_CHECKING:
    from duckflow_tui.ui.app import DuckflowApp

_MEASURED: Final = 500  # messages up to which every item is drawn once after a leap
_AT_ONCE: Final = 10  # of them, before other things get their turn


class RecordedSession(SessionHost):
    """A session host without engine, network, workspace and journal; only ``player`` changes its
    state.
    """

    is_read_only = True

    def __init__(self, app: DuckflowApp, player: Player) -> None:
        super().__init__(app, None)
        self.player = player
        self._was_at_end = False
        player.on_leap = self._show_leap
        player.on_change = self._show_position
        player.on_question = app.bridge.show_now

    @property
    def store(self) -> Store:
        return self.player.store

    def get_writable_engine(self) -> None:
        """Return None, so that every command that would change the session is refused."""
        self._app.report(self._app.words("replay.read_only"))

    async def open(self) -> None:
        app = self._app
        await app.bench.show_session(self.store)
        app.bridge.attach(self.store)
        app.spawn(self.player.run(), "chat")
        # A leap to a place full of replies does not wait for their parser.
        load = asyncio.to_thread(import_module, "duckflow_tui.ui.panes.markdown")
        app.bench.call_after_refresh(app.run_worker, load, group="warm", exit_on_error=False)
        self.opening = False

    def _show_position(self) -> None:
        """Move the scrubber; at the end start the pause before a repeat."""
        arrived = self.player.at_end and not self._was_at_end
        self._was_at_end = self.player.at_end
        if self._app.bench.bar is not None:
            self._app.bench.bar.show_position()
        if arrived:
            self._begin_measuring()

    def _show_leap(self, store: Store) -> None:
        """Show a state that does not follow from the one shown before."""
        chat = self._app.bench.talk.transcript
        if chat is not None:
            chat.bind_state(store, self._app.words)
            self._begin_measuring()
        self._app.bridge.attach(store)
        self._show_position()

    def _begin_measuring(self) -> None:
        """Measure the heights of all items in the background, so that the scroll bar is right."""
        chat, store = self._app.bench.talk.transcript, self.store
        if chat is not None and len(store.state.messages) <= _MEASURED:
            chat.show_state(store.state)  # what came last may wait for its frame
            self._app.call_later(self._measure, store)

    def _measure(self, store: Store) -> None:
        """Measure the chat's blocks a few at a time, while this store is shown."""
        chat = self._app.bench.talk.transcript
        if chat is not None and store is self.store and chat.measure(_AT_ONCE):
            self._app.call_later(self._measure, store)
