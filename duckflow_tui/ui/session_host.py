"""The part of the app that has an engine: opens sessions, runs their loops as workers."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from rich.console import RenderableType
from rich.text import Text
from textual.app import App
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import TextArea
from textual.worker import Worker, WorkerState

from duckflow_tui.commands import starting_with
from duckflow_tui.places import asset_folder
from duckflow_tui.safety.safe_text import visible
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.state.base import Clock, SystemClock, Told
from duckflow_tui.state.store import Store
from duckflow_tui.ui.bridge import Bridge
from duckflow_tui.ui.driver import driver_for
from duckflow_tui.ui.file_names import FileNames
from duckflow_tui.ui.first_frame import FirstFrame
from duckflow_tui.ui.history import MessageHistory
from duckflow_tui.ui.panes.completion import SHOWN, Candidate, Token
from duckflow_tui.ui.panes.welcome import Trouble
from duckflow_tui.ui.screens.confirm import Confirm
from duckflow_tui.ui.session_words import fault_words
from duckflow_tui.ui.terminal import TerminalGuard
from duckflow_tui.ui.themes import themes
from duckflow_tui.ui.workbench import BenchParts, Workbench
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.compose import Sessions
    from duckflow_tui.engine import Engine
    from duckflow_tui.session.facts import SessionFacts

log = logging.getLogger("duckflow.ui")

DRAFT_AFTER: Final = 0.5  # seconds from a key until what is written is kept
REFUSED: Final = 2  # the exit status where the session cannot be taken up
CLOSE_WITHIN: Final = 0.2  # seconds that closing connections may take of the exit's 0.3


@dataclass(frozen=True, slots=True)
class AppOptions:
    """What the composition root hands to the screen."""

    language: str = "en"
    theme: str = "duck-dark"
    vitals: bool = True  # whether the gauges are shown
    animation: bool = True
    notifications: bool = True
    title: str = ""  # name of the workspace folder, until the session says it
    settings_path: str = "settings.toml"  # shown on the first screen
    demo: bool = False  # the replies are scripted
    problems: tuple[Trouble, ...] = ()  # of the settings; a session says them itself
    data_dir: Path | None = None  # for the message history; None keeps none
    workspace: str = ""  # the folder's real path, until the session says it
    choose: bool = False  # which session goes on, before one is opened


@dataclass(frozen=True, slots=True)
class Unsent:
    """What was sent before there was a session; ``own``: a command the user runs, ``command``: one
    of the app's own.
    """

    text: str
    own: bool
    command: bool = False


class SessionHost(App[int], inherit_bindings=False):
    """Everything that is not a key: the engine, its workers, the language, the end."""

    ENABLE_COMMAND_PALETTE: ClassVar[bool] = False  # ours speaks the user's language

    def __init__(
        self,
        sessions: Sessions | None,
        options: AppOptions | None = None,
        *,
        frame: FirstFrame | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.guard = TerminalGuard(frame)
        super().__init__(
            driver_class=driver_for(frame, self.terminal_lost),
            css_path=[str(path) for path in sorted(asset_folder("styles").glob("*.tcss"))],
        )
        self.options = options or AppOptions()
        self.clock: Clock = clock or SystemClock()
        self.words = Catalogue(self.options.language)
        self.engine: Engine | None = None
        self.opening = True  # a session is on its way; what is sent meanwhile is kept
        self.unsent: list[Unsent] = []
        self.bridge = Bridge(self, time.monotonic)
        self._sessions = sessions
        self._names: FileNames | None = None
        self._drafting: Timer | None = None  # runs from a key until the draft is kept
        for theme in themes():
            self.register_theme(theme)
        self.theme = self.options.theme
        self.title = "duckflow"
        if not self.options.animation:
            self.animation_level = "none"
        parts = BenchParts(
            title=self.options.title,
            demo=self.options.demo,
            settings_path=self.options.settings_path,
            problems=self.options.problems,
            clock=self.clock,
            animation=self.options.animation,
            offer=self.offer,
            proposed=self.proposed,
        )
        self.bench = self.make_bench(parts)
        self.bench.words = self.words
        self.bench.vitals_on = self.options.vitals
        self.bench.all_tabs.no_colour = self.bench.side_tabs.no_colour = self.no_color

    def make_bench(self, parts: BenchParts) -> Workbench:
        """The screen of this app."""
        return Workbench(parts, self.bridge)

    def get_default_screen(self) -> Screen[None]:
        return self.bench

    # sessions

    @property
    def sessions(self) -> Sessions:
        """Where sessions come from; a replay has none, and nothing there asks."""
        assert self._sessions is not None
        return self._sessions

    @property
    def store(self) -> Store | None:
        """What is true of the session that is shown; None while there is none."""
        return self.engine.store if self.engine is not None else None

    def acting(self) -> Engine | None:
        """What keys and commands act on; None where there is nothing to act on."""
        return self.engine

    async def open_session(self) -> None:
        """Ask for the session of the workspace; with none, show how to get one."""
        if self.sessions.unconfirmed_origin and not await self._confirm_origin():
            self.opening = False
            await self.bench.show_welcome()
            self._give_back_unsent()
            return
        if self.options.choose:
            facts = await self.choose_session(choosing=True)
            self.sessions.resume(facts.session_id if facts is not None else "")
        try:
            engine = await self.sessions.open(self.spawn)
        except SessionFault as fault:  # which the command line puts into words
            log.info("no session: %s", fault)
            self.exit(REFUSED, REFUSED)
            return
        if engine is not None:
            await self.attach(engine)
            return
        self.opening = False
        await self.bench.show_welcome()
        self._give_back_unsent()

    def _give_back_unsent(self) -> None:
        """No session comes: messages are the user's draft again, commands say what they need."""
        waiting, self.unsent = self.unsent, []
        for unsent in waiting:
            if unsent.command:
                self.run_typed(unsent.text)
            else:
                self.bench.composer.add(unsent.text)

    async def open_demo(self) -> None:
        """Start the session with scripted replies."""
        self.opening = True
        await self.attach(await self.sessions.open_demo(self.spawn))

    async def choose_session(self, *, choosing: bool = False) -> SessionFacts | None:
        """The session that the user picks from all there are; ``choosing``: before any is open."""
        from duckflow_tui.ui.screens.sessions import SessionScreen

        store = self.store
        workspace = store.state.session.workspace if store else self.options.workspace
        page = SessionScreen(
            self.words,
            self.clock,
            self.sessions.catalog,
            workspace=workspace,
            own=self.own_key,
            choosing=choosing,
        )
        return await self.push_screen_wait(page)

    async def take_up(self, session_id: str) -> None:
        """Go on with another session of this workspace; where that cannot be, it is said."""
        if self.engine is not None:
            self._keep_draft()
        try:
            engine = await self.sessions.open_resumed(session_id, self.spawn)
        except SessionFault as fault:
            reason = fault_words(fault, self.words)
            self.say("sessions.not_opened", reason=reason)
            return
        for group in ("chat", "warm"):
            self.workers.cancel_group(self, group)  # pyright: ignore[reportUnknownMemberType]  # Worker[Unknown]
        self.bench.composer.write("")
        await self.attach(engine)

    @property
    def own_key(self) -> str:
        """The open session's key in the catalog, empty where it has none."""
        folder, root = self.sessions.folder, self.sessions.catalog.state_dir
        inside = folder is not None and folder.is_relative_to(root)
        return str(folder.relative_to(root)) if folder is not None and inside else ""

    async def _confirm_origin(self) -> bool:
        """Plain http to a private address is confirmed once (R11)."""
        origin = self.sessions.unconfirmed_origin
        question = Confirm(self.words, self.clock, "origin", origin=origin)
        if await self.push_screen_wait(question) != "yes":
            return False
        self.sessions.confirm_origin()
        return True

    async def attach(self, engine: Engine) -> None:
        """Show this engine's session and run its loops."""
        self.engine = engine
        self._names = None
        session = engine.store.state.session
        keeps = None if session.demo else self.options.data_dir
        self.bench.composer.past = MessageHistory(keeps, session.workspace, self.sessions.redact)
        await self.bench.show_session(engine.store)
        self.bridge.attach(engine.store)
        self.spawn(engine.chat_loop(), "chat")
        # A second of imports, that would share the processor with the session's first drawing.
        self.bench.call_after_refresh(lambda: self.spawn(engine.warm(), "warm"))
        self.opening = False
        if engine.store.state.draft:
            self.bench.composer.give_back(engine.store.state.draft)
        self.bench.composer.suggested = engine.suggestion
        waiting, self.unsent = self.unsent, []
        for unsent in waiting:
            if unsent.command:
                self.run_typed(unsent.text)
            else:
                await self.send(unsent.text, own=unsent.own)

    def run_typed(self, text: str) -> None:
        """Run a command that was typed before there was a session."""

    async def send(self, text: str, *, later: bool = False, own: bool = False) -> None:
        """Hand a message to the engine, or a command of the user's ``own`` behind its ``!``;
        before there is an engine it is kept.
        """
        engine = self.acting()
        if engine is None:
            self.unsent.append(Unsent(text, own))
        elif own:
            await engine.run_command(text.removeprefix("!").strip())
        else:
            await engine.send(text, when="next" if later else "now")

    def spawn(self, coroutine: Coroutine[Any, Any, None], group: str) -> Worker[None]:
        """Run beside the screen; what it raises is shown, and does not end the app."""
        return self.run_worker(coroutine, name=group, group=group, exit_on_error=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is not WorkerState.ERROR:
            return
        worker = cast("Worker[None]", event.worker)  # pyright: ignore[reportUnknownMemberType]  # Worker[Unknown]
        log.error("the worker %s failed", worker.name, exc_info=worker.error)
        if worker.group == "opening":
            self.opening = False
            self._give_back_unsent()
        self.say("shell.worker_failed", name=worker.name, error=str(worker.error))

    # the draft

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Keep what is being written, a moment later: a key waits for nothing."""
        if event.text_area is self.bench.composer and self._drafting is None:
            self._drafting = self.set_timer(DRAFT_AFTER, self._keep_draft)

    def _keep_draft(self) -> None:
        self._drafting = None
        if self.engine is not None:
            self.engine.keep_draft(self.bench.composer.draft)

    # completion

    async def offer(self, token: Token) -> None:
        """Fill the list above the composer for what is being typed."""
        completions = self.bench.completions
        if token.kind == "command":
            completions.offer(
                tuple(
                    Candidate(f"/{command.name}", self.words(command.text))
                    for command in starting_with(token.query)
                )
            )
            return
        if self.engine is None:
            return
        names = self._names
        if names is None or (names.complete and not completions.is_open):
            names = self._names = FileNames(self.engine.workspace_files())
            self.run_worker(names.read(), group="names", exclusive=True, exit_on_error=False)
        async for found in names.matches(token.query, SHOWN):
            completions.offer(tuple(Candidate(path) for path in found))

    def proposed(self, gate_id: str) -> str | None:
        """The whole new content behind a gate, where the engine has it."""
        return None if self.engine is None else self.engine.proposed_text(gate_id)

    # words

    def say(self, key: str, *, stays: bool = False, **params: object) -> None:
        """A word of the app on the status line until a key or a moment has passed, one that
        ``stays`` until a key; an empty one takes the last away. A param may be words too.
        """
        if not key:
            self.bench.status.clear_message()
            return
        told = {n: self.words.told(v) if isinstance(v, Told) else v for n, v in params.items()}
        self.bench.status.show_message(self.words(key, **told), stays=stays)

    def speak(self, language: str) -> None:
        """Switch the language of everything on the screen."""
        self.words = Catalogue(language)
        self.bench.words = self.words

    # the end

    def terminal_lost(self) -> None:
        """The terminal hung up: end as SIGHUP would."""
        self.end(129)

    def end(self, status: int) -> None:
        """End the app with this exit status; safe from a signal handler."""
        loop = self._loop
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(self.exit, status, status)

    def exit(
        self,
        result: int | None = None,
        return_code: int = 0,
        message: RenderableType | None = None,
    ) -> None:
        """End the app. From here on nothing is recorded: the session goes on another time from
        where it is now, with what is open, and what the end stops was not the user's wish.
        """
        if self.engine is not None:
            self._keep_draft()
        if self._sessions is not None:
            self._sessions.freeze()
        super().exit(result, return_code, message)

    async def on_unmount(self) -> None:
        self.bridge.detach()
        try:
            async with asyncio.timeout(CLOSE_WITHIN):
                if self._sessions is not None:
                    await self._sessions.close()
        except TimeoutError:
            log.warning("connections were still open at the end")

    def run_to_end(self) -> int:
        """Run on the terminal and give it back; the exit status."""
        try:
            self.run()
        finally:
            self.guard.restore()
        if self.guard.exit_status is not None:
            return self.guard.exit_status
        return self.return_code or 0

    def _fatal_error(self) -> None:
        if self._sessions is not None:
            self._sessions.freeze()
        # Textual's own report prints the values of local variables, keys and file contents too.
        self._exit_renderables.append(Text(visible(traceback.format_exc())))
        self._close_messages_no_wait()
