"""The session behind the screen: opening, sending messages, switching, exporting."""

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
from duckflow_tui.state.calls import OperationFinished
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

REFUSED: Final = 2  # the exit status where the session cannot be resumed
LOOK_AGAIN: Final = 1.0  # seconds at least between two looks at the branch
#: Events after which the branch may be another one.
_WRITES: Final = (OperationFinished, TurnFinished)
CLOSE_WITHIN: Final = 0.2  # seconds that closing connections may take of the exit's 0.3


#: Settings that the screen applies at once; the others apply to later sessions.
AT_ONCE: Final = ("ui.language", "ui.theme", "ui.vitals", "ui.duck", "ui.notifications")


@dataclass(frozen=True, slots=True)
class AppOptions:
    """Options and services that the composition root passes to the app."""

    language: str = "en"
    theme: str = "duck-dark"
    vitals: VitalsPlace = "auto"  # where the gauges are shown
    duck: bool = True  # whether the mark at the bottom is shown
    animation: bool = True
    notifications: bool = True
    title: str = ""  # name of the workspace folder, used before a session is open
    settings: Callable[[], Loaded] | None = None  # returns the present settings
    settings_path: str = "settings.toml"  # shown on the first screen
    #: Saves a setting by its dotted key and value for later starts, and returns a sentence for the
    #: user, in the words of the last argument, or an empty one. Blocks. None: nothing is saved.
    keep: Callable[[str, object, Callable[..., str]], str] | None = None
    demo: bool = False  # the replies are scripted
    problems: tuple[SettingProblem, ...] = ()  # of the settings; a session reports them itself
    data_dir: Path | None = None  # of the message history; None: it is not saved
    workspace: str = ""  # the folder's real path, used before a session is open
    choose: bool = False  # let the user choose the session to resume first
    request: str = ""  # sent at the start as if it were typed
    #: Checks of the machine, in a language: name, state, what was found, the fix.
    health: Callable[[str], Iterator[tuple[str, str, str, str]]] = lambda language: iter(())


@dataclass(frozen=True, slots=True)
class Unsent:
    """A message sent before there was a session. ``own``: a shell command of the user; ``command``:
    a command of the app; ``quoted``: see ``UserMessage``.
    """

    text: str
    own: bool
    command: bool = False
    quoted: bool = False


class SessionHost:
    """Holds the engine of the shown session, and runs its loops as workers of the app."""

    is_read_only = False  # True in a replay

    def __init__(self, app: DuckflowApp, sources: Sessions | None) -> None:
        """``sources`` opens sessions; None in a replay."""
        self._app = app
        self._sources = sources
        self.engine: Engine | None = None
        self.opening = True  # a session is being opened; messages wait in ``unsent``
        self.unsent: list[Unsent] = []
        self.sends_draft = False  # the draft is sent once a session is open

    @property
    def sources(self) -> Sessions:
        """The source of sessions; not available in a replay."""
        assert self._sources is not None
        return self._sources

    @property
    def store(self) -> Store | None:
        """The store of the shown session; None without one."""
        return self.engine.store if self.engine is not None else None

    def get_writable_engine(self) -> Engine | None:
        """Return the engine for keys and commands that change the session; None without one. A
        replay tells the user that nothing can be changed.
        """
        return self.engine

    @property
    def workspace(self) -> str:
        """The workspace folder of the session."""
        store = self.store
        return store.state.session.workspace if store else self._app.options.workspace

    @property
    def own_key(self) -> str:
        """The open session's key in the catalog; empty where it is not in it."""
        folder, root = self.sources.folder, self.sources.catalog.state_dir
        inside = folder is not None and folder.is_relative_to(root)
        return str(folder.relative_to(root)) if folder is not None and inside else ""

    # --- opening ----------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the session of the workspace; without a model show the first screen. Ends the app
        where the session cannot be resumed.
        """
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
        """Show on the first screen why no session could be opened; the user can try again there."""
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
        """Ask once to confirm plain http to a private address (R11); return whether the
        user did.
        """
        origin = self.sources.unconfirmed_origin
        question = Confirm(self._app.words, self._app.clock, "origin", origin=origin)
        if await self._app.push_screen_wait(question) != "yes":
            return False
        self.sources.confirm_origin()
        return True

    async def choose(self, *, choosing: bool = False) -> SessionFacts | None:
        """Let the user choose from all sessions; None for none. ``choosing``: no session is open
        yet.
        """
        from duckflow_tui.ui.screens.list_page import ListPage
        from duckflow_tui.ui.screens.sessions import SessionSource

        source = SessionSource(
            self.sources.catalog, workspace=self.workspace, own=self.own_key, choosing=choosing
        )
        page: ListPage[SessionFacts | None]
        page = ListPage(self._app.words, self._app.clock, [source])
        return await self._app.push_screen_wait(page)

    async def begin(self) -> None:
        """Open a session with the chosen model: a new one in place of the open one, else the
        session of the workspace.
        """
        if self.engine is not None:
            await self.leave_for()
        elif not self.opening:
            self.opening, self._app.connecting.failure = True, ""
            await self.open()

    def start_demo(self) -> None:
        """Open the demo, if no session is open or being opened."""
        self.sends_draft = False
        if self.engine is None and not self.opening:
            self._app.spawn(self._open_demo(), "opening")

    async def _open_demo(self) -> None:
        """Open the demo and show its session."""
        self.opening = True
        await self._attach(await self.sources.open_demo(self._app.spawn))

    async def choose_another(self) -> None:
        """Let the user choose a session and switch to it."""
        facts = await self.choose()
        if facts is not None:
            await self.leave_for(facts.session_id)

    async def leave_for(self, session_id: str = "") -> None:
        """Switch to this session, or for an empty id to a new one; refused with a notice while a
        turn runs or no model is connected.
        """
        turn = self.store.state.turn if self.store is not None else None
        if turn is not None and turn.pause != "paused":
            self._app.status.show_notice("sessions.busy")
        elif self.engine is None:
            self._app.status.show_notice("shell.no_endpoint")
        else:
            await self.switch_to(session_id)

    async def switch_to(self, session_id: str) -> None:
        """Open this session of the workspace, or for an empty id a new one, in place of the present
        one. A failure is shown, and the present one stays.
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
        """Show this engine's session, run its loops, and send the messages that waited."""
        app, composer = self._app, self._app.bench.composer
        # First: once the engine is known, what the composer holds is saved as its draft.
        if engine.store.state.draft:
            composer.give_back(engine.store.state.draft)
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
        """Keep the branch in the header up to date: read it again after events that may change it,
        at most once a second.
        """
        may_be_other = asyncio.Event()
        may_be_other.set()

        def heard(_: AgentState, record: Record) -> None:
            """Note that the branch may have changed."""
            if isinstance(record.event, _WRITES):
                may_be_other.set()

        forget = engine.store.subscribe(heard)
        try:
            while True:
                await may_be_other.wait()
                may_be_other.clear()
                self._app.bench.header.show_branch(await engine.read_branch())
                await asyncio.sleep(LOOK_AGAIN)
        finally:
            forget()

    async def _offer_recent(self, engine: Engine) -> None:
        """Show the folder's recent sessions on the start page."""

        def read() -> list[SessionFacts]:
            """Return the sessions of the folder that can be resumed, newest first; empty where the
            open one is the only one.
            """
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
        """Move unsent messages back to the composer, and run the commands among them, because no
        session will be opened.
        """
        waiting, self.unsent = self.unsent, []
        for unsent in waiting:
            if unsent.command:
                self._app.run_typed(unsent.text)
            else:
                self._app.bench.composer.append_text(unsent.text)
                self.sends_draft = True

    # --- messages ---------------------------------------------------------------------------

    async def send(
        self, text: str, *, later: bool = False, own: bool = False, quoted: bool = False
    ) -> None:
        """Send a message to the engine, or with ``own`` run a shell command of the user; without an
        engine it is stored in ``unsent``.

        ``later``: after the running turn; ``quoted``: the text may not be written by the user.
        """
        engine = self.get_writable_engine()
        if engine is None:
            self.unsent.append(Unsent(text, own, quoted=quoted))
        elif own:
            await engine.run_command(text.removeprefix("!").strip())
        else:
            await engine.send(text, when="next" if later else "now", quoted=quoted)

    def take_back(self, message_id: str) -> None:
        """Move a queued message back into the composer."""
        engine = self.get_writable_engine()
        text = engine.take_back(message_id) if engine is not None else None
        if text is not None:
            self._app.bench.composer.append_text(text)

    def stop_own_command(self) -> bool:
        """Stop the user's own commands; returns False where none is running. Stops a running turn
        too.
        """
        if self.store is None or not any(r.by_user for r in self.store.state.running):
            return False
        engine = self.get_writable_engine()
        if engine is not None:
            engine.stop()
        return True

    def keep_draft(self) -> None:
        """Record the composer's text in the session."""
        if self.engine is not None:
            self.engine.keep_draft(self._app.bench.composer.draft_text)

    # --- exports ----------------------------------------------------------------------------

    async def export(
        self, folder: Path, session_id: str, target: str = "", kind: Format | None = None
    ) -> None:
        """Write the session in this folder to a file in the workspace, by default named after its
        id. The user is asked before a file is replaced.
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
        """Return a path, relative to the workspace, as an absolute one."""
        return Path(os.path.abspath(os.path.join(self.workspace, os.path.expanduser(name))))

    async def _write_export(self, folder: Path, path: Path, kind: Format, *, replace: bool) -> None:
        """Write an export in a thread and report the result. Raises FileExistsError unless
        ``replace``.
        """
        from duckflow_tui.session.export import export_lines, write_file

        app, words, redact = self._app, self._app.words, self.sources.catalog.redact or str

        def write() -> None:
            """Write the export; raises SessionFault and OSError."""
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
        """Record nothing more; the session can be resumed later."""
        if self._sources is not None:
            self._sources.freeze()

    async def close(self) -> None:
        """Close the session, within ``CLOSE_WITHIN`` seconds."""
        try:
            async with asyncio.timeout(CLOSE_WITHIN):
                if self._sources is not None:
                    await self._sources.close()
        except TimeoutError:
            log.warning("connections were still open at the end")


def _is_alone(folder: Path) -> bool:
    """Whether the session's folder is the only one in the folder of its workspace."""
    try:
        return all(other.name == folder.name for other in folder.parent.iterdir())
    except OSError:
        return False


def _reason(error: BaseException | None) -> str:
    """Return the message of an error."""
    if isinstance(error, OSError) and error.strerror:
        return ": ".join(filter(None, (error.strerror, str(error.filename or ""))))
    return str(error) or type(error).__name__
