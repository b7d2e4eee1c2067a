"""The session behind the screen: opened, told what the user sends, left for another, exported."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.words import fault_words
from duckflow_tui.state.base import one_line
from duckflow_tui.state.calls import ChangesRedone, ChangesUndone, OperationFinished
from duckflow_tui.state.conversation import NoticeAdded
from duckflow_tui.state.store import Record, Store
from duckflow_tui.state.turn import TurnFinished
from duckflow_tui.ui.history import MessageHistory
from duckflow_tui.ui.outside_editor import run_on_terminal
from duckflow_tui.ui.screens.confirm import Confirm

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine
    from duckflow_tui.session.export import Format
    from duckflow_tui.session.facts import SessionFacts
    from duckflow_tui.sessions import Sessions
    from duckflow_tui.settings import Loaded, SettingProblem
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.ui.app import DuckflowApp
    from duckflow_tui.ui.panes.status import VitalsPlace

log = logging.getLogger("duckflow.ui")

REFUSED: Final = 2  # the exit status where the session cannot be taken up
LOOK_AGAIN: Final = 1.0  # seconds at least between two looks at the branch
#: After these the branch, or what is not committed, may be other; a notice says what is trusted.
_WRITES: Final = (OperationFinished, ChangesUndone, ChangesRedone, NoticeAdded, TurnFinished)
CLOSE_WITHIN: Final = 0.2  # seconds that closing connections may take of the exit's 0.3


#: Settings that the screen takes over at once; later sessions have the others.
AT_ONCE: Final = ("ui.language", "ui.theme", "ui.vitals", "ui.duck", "ui.notifications")


@dataclass(frozen=True, slots=True)
class AppOptions:
    """The services that the composition root hands to the screen."""

    language: str = "en"
    theme: str = "duck-dark"
    vitals: VitalsPlace = "auto"  # where the gauges are shown
    duck: bool = True  # whether the mark at the foot is
    animation: bool = True
    notifications: bool = True
    title: str = ""  # name of the workspace folder, until the session says it
    settings: Callable[[], Loaded] | None = None  # as they are now, for the page that shows them
    settings_path: str = "settings.toml"  # shown on the first screen
    #: Keeps a setting that was chosen on the screen, by its dotted key and value, for later
    #: starts; returns what the user should know of that in the words of the last argument, empty
    #: for nothing. Waits for the disk. None keeps none.
    keep: Callable[[str, object, Callable[..., str]], str] | None = None
    demo: bool = False  # the replies are scripted
    problems: tuple[SettingProblem, ...] = ()  # of the settings; a session says them itself
    data_dir: Path | None = None  # for the message history; None keeps none
    workspace: str = ""  # the folder's real path, until the session says it
    choose: bool = False  # which session goes on, before one is opened
    #: Checks of the machine, in a language: name, state, what was found, the fix.
    health: Callable[[str], Iterator[tuple[str, str, str, str]]] = lambda language: iter(())


@dataclass(frozen=True, slots=True)
class Unsent:
    """A message sent before there was a session; ``own``: a command the user runs, ``command``: one
    of the app's own; ``quoted``: as of ``UserMessage``.
    """

    text: str
    own: bool
    command: bool = False
    quoted: bool = False


class SessionHost:
    """Has the engine of the session that is shown, and runs its loops as workers of the app."""

    is_read_only = False  # whether it is over, and only shown

    def __init__(self, app: DuckflowApp, sources: Sessions | None) -> None:
        """``sources`` is where sessions come from; a replay has none, and nothing there asks."""
        self._app = app
        self._sources = sources
        self.engine: Engine | None = None
        self.opening = True  # a session is on its way; what is sent meanwhile is kept
        self.unsent: list[Unsent] = []
        self.sends_draft = False  # what is written is sent once there is a session

    @property
    def sources(self) -> Sessions:
        """Where sessions come from."""
        assert self._sources is not None
        return self._sources

    @property
    def store(self) -> Store | None:
        """The store of the session that is shown; None while there is none."""
        return self.engine.store if self.engine is not None else None

    def get_writable_engine(self) -> Engine | None:
        """The engine for keys and commands that change the session; None where there is none."""
        return self.engine

    @property
    def workspace(self) -> str:
        """The folder that is worked in."""
        store = self.store
        return store.state.session.workspace if store else self._app.options.workspace

    @property
    def own_key(self) -> str:
        """The open session's key in the catalog, empty where it has none."""
        folder, root = self.sources.folder, self.sources.catalog.state_dir
        inside = folder is not None and folder.is_relative_to(root)
        return str(folder.relative_to(root)) if folder is not None and inside else ""

    # --- opening ----------------------------------------------------------------------------

    async def open(self) -> None:
        """Ask for the session of the workspace; with none, show how to get one."""
        engine = None
        if not self.sources.unconfirmed_origin or await self._confirm_origin():
            if self._app.options.choose:
                facts = await self.choose(choosing=True)
                self.sources.choose_resumed(facts.session_id if facts is not None else "")
            try:
                engine = await self.sources.open(self._app.spawn)
            except SessionFault as fault:  # which the command line puts into words
                log.info("no session: %s", fault)
                self._app.exit(REFUSED, REFUSED)
                return
        if engine is not None:
            await self._attach(engine)
            return
        self.opening = False
        self.give_back_unsent()
        await self._app.bench.show_welcome()
        written = bool(self._app.bench.composer.draft_text.strip())
        if not written or self.sends_draft:
            self._app.bench.to_welcome(waits=self.sends_draft)
        if self.sources.missing:
            self._app.report(visible_line(one_line(self.sources.missing, 400)), wrong=True)

    async def show_failure(self, error: BaseException | None) -> None:
        """No session could be opened: say why on the first screen, where it can be tried again."""
        app = self._app
        self.opening = app.connecting.chosen = False
        reason = one_line(self.sources.redact(_reason(error)), 400)
        app.connecting.failure = reason.rstrip(".。")  # of the sentence that it stands in
        self.give_back_unsent()  # before the reason is seen: no frame has it in neither place
        if app.bench.talk.welcome is None:
            await app.bench.show_welcome()
        app.connecting.changed()
        if not app.bench.composer.draft_text.strip() or self.sends_draft:
            app.bench.to_welcome(waits=self.sends_draft)

    async def _confirm_origin(self) -> bool:
        """Plain http to a private address is confirmed once (R11)."""
        origin = self.sources.unconfirmed_origin
        question = Confirm(self._app.words, self._app.clock, "origin", origin=origin)
        if await self._app.push_screen_wait(question) != "yes":
            return False
        self.sources.confirm_origin()
        return True

    async def choose(self, *, choosing: bool = False) -> SessionFacts | None:
        """The session that the user picks from all there are; ``choosing``: before any is open."""
        from duckflow_tui.ui.screens.list_page import ListPage
        from duckflow_tui.ui.screens.sessions import SessionSource

        source = SessionSource(
            self.sources.catalog, workspace=self.workspace, own=self.own_key, choosing=choosing
        )
        page: ListPage[SessionFacts | None]
        page = ListPage(self._app.words, self._app.clock, [source])
        return await self._app.push_screen_wait(page)

    async def begin(self) -> None:
        """Open a new session with the model that was chosen, in place of the demo if it is open."""
        if self.engine is not None:
            await self.leave_for()
        elif not self.opening:
            self.opening, self._app.connecting.failure = True, ""
            await self.open()

    def start_demo(self) -> None:
        """Open the session that needs no model, where there is none."""
        self.sends_draft = False
        if self.engine is None and not self.opening:
            self._app.spawn(self._open_demo(), "opening")

    async def _open_demo(self) -> None:
        self.opening = True
        await self._attach(await self.sources.open_demo(self._app.spawn))

    async def choose_another(self) -> None:
        """Open another session of this workspace in place of the one that is open."""
        facts = await self.choose()
        if facts is not None:
            await self.leave_for(facts.session_id)

    async def leave_for(self, session_id: str = "") -> None:
        """Go on with that session, or with a new one, where no work runs in this one."""
        turn = self.store.state.turn if self.store is not None else None
        if turn is not None and turn.pause != "paused":
            self._app.status.show_notice("sessions.busy")
        elif self.engine is None:
            self._app.status.show_notice("shell.no_endpoint")
        else:
            await self.switch_to(session_id)

    async def switch_to(self, session_id: str) -> None:
        """Go on with another session of this workspace, with an empty id with a new one; where
        that cannot be, it is said.
        """
        from duckflow_tui.safety.paths import WorkspaceGone

        app = self._app
        self.keep_draft()
        try:
            engine = await self.sources.open_resumed(session_id, app.spawn)
        except SessionFault as fault:
            app.status.show_notice("sessions.not_opened", reason=fault_words(fault, app.words))
            return
        except (OSError, WorkspaceGone) as error:
            log.error("the session was not opened", exc_info=error)
            reason = visible_line(one_line(self.sources.redact(_reason(error)), 400))
            app.status.show_notice("sessions.not_opened", reason=reason)
            return
        for group in ("chat", "warm", "branch"):
            app.workers.cancel_group(app, group)  # pyright: ignore[reportUnknownMemberType]  # Worker[Unknown]
        app.bench.composer.replace_text("")
        await self._attach(engine)

    async def _attach(self, engine: Engine) -> None:
        """Show this engine's session and run its loops."""
        app, composer = self._app, self._app.bench.composer
        self.engine = engine
        engine.lend_terminal(partial(run_on_terminal, app))
        session = engine.store.state.session
        keeps = None if session.demo else app.options.data_dir
        composer.past = MessageHistory(keeps, session.workspace, self.sources.redact)
        await app.bench.show_session(engine.store)
        await app.bench.talk.offer(engine.stories)
        app.bridge.attach(engine.store)
        app.spawn(engine.chat_loop(), "chat")
        # A second of imports, that would share the processor with the session's first drawing.
        app.bench.call_after_refresh(lambda: app.spawn(engine.load_lazily(), "warm"))
        app.spawn(self._follow_branch(engine), "branch")
        if not session.demo:
            app.bench.call_after_refresh(lambda: app.spawn(self._offer_recent(engine), "recent"))
        self.opening = False
        if engine.store.state.draft:
            composer.give_back(engine.store.state.draft)
        composer.suggested = engine.suggestion
        waiting, self.unsent = self.unsent, []
        for unsent in waiting:
            if unsent.command:
                app.run_typed(unsent.text)
            else:
                await self.send(unsent.text, own=unsent.own, quoted=unsent.quoted)
        if self.sends_draft:
            self.sends_draft = False
            composer.send_draft()

    async def _follow_branch(self, engine: Engine) -> None:
        """Keep what the header says of the branch true: look again after whatever may write."""
        may_be_other = asyncio.Event()
        may_be_other.set()

        def heard(_: AgentState, record: Record) -> None:
            if isinstance(record.event, _WRITES):
                may_be_other.set()

        forget = engine.store.subscribe(heard)
        try:
            while True:
                await may_be_other.wait()
                may_be_other.clear()
                self._app.bench.header.show_branch(*await engine.branch_now())
                await asyncio.sleep(LOOK_AGAIN)
        finally:
            forget()

    async def _offer_recent(self, engine: Engine) -> None:
        """Offer the newest sessions of the folder to go on with, while nothing was said here."""

        def read() -> list[SessionFacts]:
            folder = self.sources.folder
            if folder is not None and _is_alone(folder):
                return []
            from duckflow_tui.session.catalog import AT_ONCE

            catalog = self.sources.catalog
            catalog.refresh(AT_ONCE)
            known = catalog.list_read(engine.store.state.session.workspace)
            able = [facts for facts in known if not (facts.in_use or facts.problem)]
            return sorted(able, key=lambda facts: -facts.last_at)

        start = self._app.bench.talk.start
        if start is not None:
            start.show_recent(await asyncio.to_thread(read))

    def give_back_unsent(self) -> None:
        """No session comes: messages are the user's draft again, commands say what they need."""
        waiting, self.unsent = self.unsent, []
        for unsent in waiting:
            if unsent.command:
                self._app.run_typed(unsent.text)
            else:
                self._app.bench.composer.append_text(unsent.text)
                self.sends_draft = True

    # --- what the user sends ----------------------------------------------------------------

    async def send(
        self, text: str, *, later: bool = False, own: bool = False, quoted: bool = False
    ) -> None:
        """Hand a message to the engine, or a command of the user's ``own`` behind its ``!``;
        before there is an engine it is kept. ``quoted``: they may not have written all of it.
        """
        engine = self.get_writable_engine()
        if engine is None:
            self.unsent.append(Unsent(text, own, quoted=quoted))
        elif own:
            await engine.run_command(text.removeprefix("!").strip())
        else:
            await engine.send(text, when="next" if later else "now", quoted=quoted)

    def take_back(self, message_id: str) -> None:
        """A waiting message comes back into the composer."""
        engine = self.get_writable_engine()
        text = engine.take_back(message_id) if engine is not None else None
        if text is not None:
            self._app.bench.composer.append_text(text)

    def stop_own_command(self) -> bool:
        """End what the user runs with ``!``; False when nothing of theirs runs."""
        if self.store is None or not any(r.by_user for r in self.store.state.running):
            return False
        engine = self.get_writable_engine()
        if engine is not None:
            engine.stop()
        return True

    def keep_draft(self) -> None:
        """Record what stands in the composer."""
        if self.engine is not None:
            self.engine.keep_draft(self._app.bench.composer.draft_text)

    # --- exports ----------------------------------------------------------------------------

    async def export(
        self, folder: Path, session_id: str, target: str = "", kind: Format | None = None
    ) -> None:
        """Write the session in this folder to a file in the workspace; without a ``target`` under
        a name made of its id. A file that is there is replaced only if the user says so.
        """
        from duckflow_tui.session.export import guess_format, make_export_name

        app, kind = self._app, kind or guess_format(target)
        path = self._in_workspace(target or make_export_name(session_id, kind))
        try:
            await self._write_export(folder, path, kind, replace=False)
        except FileExistsError:
            ask = Confirm(app.words, app.clock, "sessions.replace", path=path)
            if await app.push_screen_wait(ask) == "yes":
                await self._write_export(folder, path, kind, replace=True)

    def _in_workspace(self, name: str) -> Path:
        return Path(os.path.abspath(os.path.join(self.workspace, os.path.expanduser(name))))

    async def _write_export(self, folder: Path, path: Path, kind: Format, *, replace: bool) -> None:
        from duckflow_tui.session.export import export_lines, write_file

        app, words, redact = self._app, self._app.words, self.sources.catalog.redact or str

        def write() -> None:
            write_file(path, export_lines(folder, kind, words, redact), replace=replace)

        try:
            await asyncio.to_thread(write)
        except SessionFault as fault:
            app.report(fault_words(fault, words), wrong=True)
        except FileExistsError:
            raise
        except OSError as error:
            reason = f"{path}: {error.strerror or error}"
            app.report(words("sessions.not_written", reason=reason), wrong=True)
        else:
            app.report(words("sessions.exported", path=path))

    # --- the end ----------------------------------------------------------------------------

    def freeze(self) -> None:
        """Record nothing more: the session goes on another time."""
        if self._sources is not None:
            self._sources.freeze()

    async def close(self) -> None:
        """Take down what was opened, in the time that the exit has for it."""
        try:
            async with asyncio.timeout(CLOSE_WITHIN):
                if self._sources is not None:
                    await self._sources.close()
        except TimeoutError:
            log.warning("connections were still open at the end")


def _is_alone(folder: Path) -> bool:
    """Whether nothing lies beside it, so that its session is the only one of its workspace."""
    try:
        return all(other.name == folder.name for other in folder.parent.iterdir())
    except OSError:
        return False


def _reason(error: BaseException | None) -> str:
    if isinstance(error, OSError) and error.strerror:
        return ": ".join(filter(None, (error.strerror, str(error.filename or ""))))
    return str(error) or type(error).__name__
