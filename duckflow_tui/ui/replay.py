"""The app that shows a recorded session: the same screen, and nothing that could act."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from textual import events

from duckflow_tui.commands import Command
from duckflow_tui.session.replay import Tape
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.store import Store
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.replay_bench import ReplayBench
from duckflow_tui.ui.replay_player import Player
from duckflow_tui.ui.screens.board import Board
from duckflow_tui.ui.session_host import AppOptions, SessionHost
from duckflow_tui.ui.terminal import Terminal

if TYPE_CHECKING:
    from duckflow_tui.sessions import Sessions


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
        if isinstance(self._app.screen, Board):  # it covers the status line
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
        self.player.on_leap = self.stage.leap
        self.player.on_change = self.stage.follow
        self.player.on_question = self.bridge.show_now
        return self.stage

    async def on_event(self, event: events.Event) -> None:
        """Answer keys that would act or write, so that they reach no pane."""
        fresh = isinstance(event, events.Key | events.Paste) and not event.is_forwarded
        if not fresh or self.key_queue.is_holding or self.screen is not self.bench:
            await super().on_event(event)
        elif isinstance(event, events.Paste):
            self.session.acting()
        elif isinstance(event, events.Key) and self.stage.acts(event.key):
            self.status.clear_message()
            action = self.stage.own_action(event.key)
            if not action:
                self.session.acting()
            elif not await self.run_action(action, self.stage):
                await super().on_event(event)
        elif isinstance(event, events.Key) and self.stage.means_text(event):
            self.session.acting()
        else:
            await super().on_event(event)

    def run_command(self, command: Command, argument: str = "") -> None:
        if command.reads:
            super().run_command(command, argument)
        else:
            self.session.acting()
