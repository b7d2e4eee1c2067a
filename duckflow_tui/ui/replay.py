"""The app that shows a recorded session: the same screen, and nothing that could act."""

from __future__ import annotations

import asyncio
from importlib import import_module

from textual import events

from duckflow_tui.commands import Command
from duckflow_tui.session.replay import Tape
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.store import Store
from duckflow_tui.ui.actions import TWICE_WITHIN
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.replay_bench import ReplayBench
from duckflow_tui.ui.replay_player import Player
from duckflow_tui.ui.screens.board import Board
from duckflow_tui.ui.session_host import AppOptions
from duckflow_tui.ui.workbench import BenchParts


class ReplayApp(DuckflowApp, inherit_bindings=True):
    """Has no network, no workspace and no journal; ``player`` is the only thing that moves."""

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
        self._escaped_at = float("-inf")

    def make_bench(self, parts: BenchParts) -> ReplayBench:
        self.stage = ReplayBench(parts, self.bridge, self.player)
        self.player.on_leap = self.stage.leap
        self.player.on_change = self.stage.follow
        self.player.on_question = self.bridge.draw_now
        return self.stage

    @property
    def store(self) -> Store:
        return self.player.store

    def acting(self) -> None:
        """What would act on the session is refused here, and only here."""
        said = self.words("replay.read_only")
        if isinstance(self.screen, Board):  # it covers the status line
            self.screen.tell(said)
        self.bench.status.show_message(said)

    async def open_session(self) -> None:
        await self.bench.show_session(self.store)
        self.bridge.attach(self.store)
        self.spawn(self.player.run(), "chat")
        # A leap to a place full of replies does not wait for their parser.
        load = asyncio.to_thread(import_module, "duckflow_tui.ui.panes.markdown")
        self.bench.call_after_refresh(self.run_worker, load, group="warm", exit_on_error=False)
        self.opening = False

    # keys

    async def on_event(self, event: events.Event) -> None:
        """What would act, or would write, is answered here and reaches no pane."""
        fresh = isinstance(event, events.Key | events.Paste) and not event.is_forwarded
        if not fresh or self._held is not None or self.screen is not self.bench:
            await super().on_event(event)
        elif isinstance(event, events.Paste):
            self.acting()
        elif isinstance(event, events.Key) and self.stage.acts(event.key):
            self.bench.status.clear_message()
            action = self.stage.own_action(event.key)
            if not action:
                self.acting()
            elif not await self.run_action(action, self.stage):
                await super().on_event(event)
        elif isinstance(event, events.Key) and self.stage.means_text(event):
            self.acting()
        else:
            await super().on_event(event)

    def action_escape(self) -> None:
        """Back to the bar; there, twice: the end."""
        if self.bench.focused is not self.stage.bar:
            self.bench.to_composer()
        elif self.bench.get_selected_text():
            self.bench.clear_selection()
        else:
            self._leave_on_second("replay.escape_again")

    def action_interrupt(self) -> None:
        self._leave_on_second("shell.quit_again")

    def action_leave(self) -> None:
        self.exit(0)

    def _leave_on_second(self, key: str) -> None:
        now = self.clock.monotonic()
        if now - self._escaped_at <= TWICE_WITHIN:
            self.exit(0)
            return
        self._escaped_at = now
        self.say(key)

    def action_external_editor(self) -> None:
        self.acting()

    def action_search_history(self) -> None:
        self.acting()

    def run_command(self, command: Command, argument: str = "") -> None:
        if command.reads:
            super().run_command(command, argument)
        else:
            self.acting()

    def _questions_changed(self, state: AgentState) -> None:
        """They were answered long ago: nobody is called."""
