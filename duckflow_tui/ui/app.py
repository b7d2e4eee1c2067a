"""The Textual app: its commands, the services that screens use, its start and end."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.console import RenderableType
from textual import events
from textual.binding import Binding, BindingType
from textual.filter import Monochrome, NoColor
from textual.reactive import var
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from duckflow_tui.commands import CHOICES, COMMANDS, Command, parse_command, rename
from duckflow_tui.manual import INDEX
from duckflow_tui.places import find_assets
from duckflow_tui.safety.safe_text import make_visible
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock, SystemClock
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.ui.bridge import Bridge
from duckflow_tui.ui.driver import driver_for
from duckflow_tui.ui.escape_filter import SafeLineFilter
from duckflow_tui.ui.first_frame import FirstFrame
from duckflow_tui.ui.host import bind_keys
from duckflow_tui.ui.key_queue import KeyQueue
from duckflow_tui.ui.outside_editor import OutsideEditor
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.question_pane import QuestionPane
from duckflow_tui.ui.screens.confirm import Answer, Confirm
from duckflow_tui.ui.screens.list_page import ListPage
from duckflow_tui.ui.screens.list_source import ListSource
from duckflow_tui.ui.screens.pick_list import Choice, PickList, profile_choices
from duckflow_tui.ui.session_host import CLOSE_WITHIN, AppOptions, SessionHost
from duckflow_tui.ui.terminal import Terminal, TerminalGuard
from duckflow_tui.ui.textual_private import HostedApp, half_width_key
from duckflow_tui.ui.themes import themes
from duckflow_tui.ui.workbench import Workbench
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine
    from duckflow_tui.session.export import Format
    from duckflow_tui.sessions import Sessions
    from duckflow_tui.ui.connecting import Connecting
    from duckflow_tui.ui.panes.replay_bar import ReplayBar
    from duckflow_tui.ui.panes.status import VitalsPlace
    from duckflow_tui.ui.replay_player import Player

log = logging.getLogger("duckflow.ui")

_TO_PAGES = frozenset({"connecting", "sessions", "sessions-act"})  # workers that open pages


class DuckflowApp(HostedApp, inherit_bindings=False):
    """The app of one process; sessions are opened and closed in it.

    The command line calls ``run_to_end``; tests use ``run_test``.
    """

    ENABLE_COMMAND_PALETTE: ClassVar[bool] = False  # ours speaks the user's language
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "screen.search_history", show=False),
        Binding("ctrl+g", "screen.external_editor", show=False),
        *bind_keys("anywhere"),
    ]

    #: The shown state, updated at most 30 times a second: the same object with changed slices.
    state: var[AgentState | None] = var[AgentState | None](None, init=False, always_update=True)

    _own_loop: asyncio.AbstractEventLoop | None = None  # once it runs
    _undrawn: ExitStack  # holds back drawing until early keys are in the composer

    def __init__(
        self,
        sessions: Sessions | None,
        options: AppOptions | None = None,
        *,
        frame: FirstFrame | None = None,
        clock: Clock | None = None,
        player: Player | None = None,
    ) -> None:
        """With a ``player`` the app replays its tape, and the session cannot be changed."""
        self.guard = TerminalGuard(frame)
        super().__init__(
            driver_class=driver_for(frame, lambda: self.end(129)),  # as SIGHUP would
            css_path=[str(path) for path in sorted(find_assets("styles").glob("*.tcss"))],
        )
        self.options = options or AppOptions()
        self.clock: Clock = clock or (player.clock if player is not None else SystemClock())
        self.words = Catalogue(self.options.language)
        self.bridge = Bridge(self, time.monotonic)
        self._keeper = ThreadPoolExecutor(1, "keep")  # a single thread keeps writes in order
        self.terminal = Terminal(self)
        self.editor = OutsideEditor(self)
        self.key_queue = KeyQueue(self)
        for theme in themes():
            self.register_theme(theme)
        self.theme = self.options.theme
        self.title = "duckflow"
        if not self.options.animation:
            self.animation_level = "none"
        bar: ReplayBar | None = None
        if player is None:
            self.session = SessionHost(self, sessions)
        else:
            from duckflow_tui.ui.panes.replay_bar import ReplayBar
            from duckflow_tui.ui.recorded_session import RecordedSession

            self.session, bar = RecordedSession(self, player), ReplayBar(player, id="replay")
        self.bench = Workbench(self.options, self.clock, self.bridge, bar)
        self.status = self.bench.status
        self.bench.words = self.words
        self.bench.vitals_place = self.options.vitals
        self.status.duck = self.options.duck
        self.bench.all_tabs.no_colour = self.no_color

    # --- Textual ----------------------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        return self.bench

    def refresh_css(self, animate: bool = True) -> None:
        """Parse the style sheets again; before the first screen only set their variables."""
        if self.screen_stack:
            super().refresh_css(animate)
        else:  # the first screen has the sheets parsed, once it has added its own
            self.stylesheet.set_variables(self.get_css_variables())

    def on_load(self) -> None:
        """Hold keys and drawing until the composer has the focus, set up the filters, and watch
        signals.
        """
        self.key_queue.hold_keys()  # until the composer has the focus
        # Otherwise the composer would be drawn empty for a moment, without the early keys.
        self._undrawn = ExitStack()
        self._undrawn.enter_context(self.batch_update())
        # Textual turns colours to grey for NO_COLOR; the convention asks for none at all.
        self.change_filters(
            lambda filters: [
                *(NoColor() if isinstance(f, Monochrome) else f for f in filters),
                SafeLineFilter(),
            ]
        )
        self._own_loop = asyncio.get_running_loop()
        if not self.is_headless:
            self.guard.watch_signals(self.end)

    def on_mount(self) -> None:
        """Set up the terminal; outside a replay it follows the state."""
        if not self.session.is_read_only:  # its questions were answered long ago: nobody is called
            self.bridge.add(self.terminal)
        self.terminal.begin()

    def watch_state(self, state: AgentState | None) -> None:
        """Show the changed slices of the state in the panes."""
        if state is not None:
            self.bridge.show_changes(state)

    async def on_event(self, event: events.Event) -> None:
        """Pass keys and pastes through the key queue."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self.key_queue.handle_key(event, self._hand_on)
        else:
            await super().on_event(event)

    async def _hand_on(self, event: events.Key | events.Paste) -> None:
        """Send a key or paste to the focused widget."""
        bar = self.bench.bar if self.screen is self.bench else None
        if bar is not None and await bar.handle_key(event):
            return
        if isinstance(event, events.Key):
            self.status.clear_message()
            event = self._without_width(event)
        await super().on_event(event)

    def _without_width(self, event: events.Key) -> events.Key:
        """Return the plain key for one typed in full width: a space everywhere but in the composer;
        another key where it is bound, or on any other screen. A field that takes it as text and
        a question, which converts it itself, get the key unchanged.
        """
        key, focused = half_width_key(event), self.focused
        if key is event or (key.key != "space" and isinstance(focused, QuestionPane)):
            return event
        if key.key == "space":  # no other field takes the wide one
            return event if focused is self.bench.composer else key
        if focused is not None and focused.check_consume_key(event.key, event.character):
            return event
        bound = self.screen is not self.bench or key.key in self.bench.active_bindings
        return key if bound else event

    def on_paste_unfinished(self) -> None:
        self.status.show_notice("shell.paste_unfinished", stays=True)

    async def on_workbench_stands(self) -> None:
        """Send the keys typed before the composer had the focus to it, in order."""
        await self.key_queue.release_keys()
        self.bench.composer.call_later(self._draw)  # behind the keys in its queue

    def _draw(self) -> None:
        """Draw the first time, with the early keys in the composer."""
        self._undrawn.close()
        self.bench.refresh()
        self.bench.composer.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """Open the session once the first keys are on the screen, because its imports are slow, and
        send the request of the command line; turn garbage collection on again.
        """
        gc.freeze()
        gc.enable()  # disabled by the command line
        self.spawn(self.session.open(), "opening")
        if request := self.options.request:
            self.bench.composer.send_text(request, own=request.startswith("!"))

    def spawn(self, coroutine: Coroutine[Any, Any, None], group: str) -> Worker[None]:
        """Run a coroutine as a worker beside the screen; an error is shown and does not end the
        app.
        """
        worker = self.run_worker(coroutine, name=group, group=group, exit_on_error=False)
        if group in _TO_PAGES:
            self.key_queue.await_page(worker)
        return worker

    async def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Release held keys, and show the error of a failed worker."""
        await self.key_queue.release_if_ready()
        if event.state is not WorkerState.ERROR:
            return
        worker = cast("Worker[None]", event.worker)  # pyright: ignore[reportUnknownMemberType]  # Worker[Unknown]
        log.error("the worker %s failed", worker.name, exc_info=worker.error)
        if not self.is_running:  # the app is ending: its screen may be gone already
            return
        if worker.group in ("opening", "connecting") and self.session.opening:
            await self.session.show_failure(worker.error)
            return
        self.status.show_notice("shell.worker_failed", name=worker.name, error=str(worker.error))

    @property
    def clipboard(self) -> str:
        """The text copied last."""
        return self.terminal.copied

    def copy_to_clipboard(self, text: str) -> None:
        self.terminal.copy(text)

    # --- services for screens ---------------------------------------------------------------

    def report(self, said: str, *, wrong: bool = False) -> None:
        """Show the outcome of a key on the newest open list page, in the colour of errors if
        ``wrong``; without a page on the status line, where ``wrong`` makes no difference.
        """
        page = next((s for s in reversed(self.screen_stack) if isinstance(s, ListPage)), None)
        if page is not None:
            page.report(said, wrong=wrong)
        else:
            self.status.show_message(said)

    def save_in_background(self, write: Callable[[], str]) -> None:
        """Run ``write`` in a thread, after earlier writes; show the message that it returns, if
        any.
        """
        self.spawn(self._report_saved(self._keeper.submit(write)), "keep")

    async def _report_saved(self, written: Future[str]) -> None:
        """Wait for a write and show its message; the end of the app does not cancel it."""
        said = await asyncio.shield(asyncio.wrap_future(written))  # the end of the app waits for it
        if said:
            self.status.show_message(said, stays=True)

    def _choose_setting(self, key: str, value: str) -> None:
        """Apply a setting of the screen, and save it for later sessions."""
        self.apply_setting(key, value)
        if self.options.keep is not None:
            self.save_in_background(partial(self.options.keep, key, value, self.words))

    def apply_setting(self, key: str, value: object) -> bool:
        """Apply a setting of the screen at once; returns False for one that affects only later
        sessions.
        """
        match key:
            case "ui.language" if value != "auto":
                self.words = Catalogue(str(value))
                self.bench.words = self.words
            case "ui.theme":
                self.show_theme(str(value))
            case "ui.vitals":
                self.bench.vitals_place = cast("VitalsPlace", value)
            case "ui.duck":
                self.status.duck = bool(value)
            case "ui.notifications":
                self.options = replace(self.options, notifications=bool(value))
            case _:
                return False
        return True

    # --- commands ---------------------------------------------------------------------------

    def run_typed(self, text: str) -> None:
        """Run a command line such as ``/mode plan``; nothing for another text."""
        typed = parse_command(text)
        if typed is not None and typed.command is not None:
            self.run_command(typed.command, typed.argument)

    def run_command(self, command: Command, argument: str = "") -> None:
        """Run a command, or show why it cannot run; where a choice is missing, show the list of
        choices.
        """
        if self.session.is_read_only and not command.reads:
            self.session.get_writable_engine()
            return
        store = self.session.store
        problem = command.problem(argument, store.state if store is not None else None)
        values = CHOICES.get(command.takes, ())
        if problem is not None:
            if problem.key:
                self.status.show_message(self.words.localize(problem))
        elif values and not (argument or command.bare or command.with_choice):
            if command.takes == "profile":
                choices = profile_choices(store.state if store is not None else None, self.words)
            else:
                said = f"choice.{command.takes}"
                choices = [Choice(v, v, self.words(f"{said}.{v}")) for v in values]
            self.pick(command.takes, choices, lambda value: self.run_command(command, value))
        elif command.act is not None and command.acts_with(argument):
            engine = self.session.get_writable_engine()
            if engine is not None:
                given = argument.lower() if values else argument
                work = command.act(engine, given, self.status.show_notice)
                if work is not None:
                    self.spawn(work, command.name)
        elif argument and command.takes:
            given = argument.lower() if values else argument
            action = command.with_choice or command.action
            self._run_soon(f"{action}({given!r})")
        else:
            self._run_soon(command.action)

    def _run_soon(self, action: str) -> None:
        """Run a Textual action, next in the app's queue."""
        self.call_next(self.run_action, action, namespaces={"screen": self.bench})

    def pick(self, what: str, choices: Sequence[Choice], then: Callable[[str], object]) -> None:
        """Show a list; ``then`` is called with the chosen value, if any. A theme at the cursor is
        previewed.
        """

        def chosen(value: str | None) -> None:
            """Pass the chosen value on; nothing after Esc."""
            if value is not None:
                then(value)

        store = self.session.store
        mode = store.state.mode.value if store is not None else ""
        now = {"theme": self.theme, "language": self.words.language, "mode": mode}.get(what, "")
        preview = self.show_theme if what == "theme" else None
        title = self.words(f"pick.{what}")
        self.push_screen(PickList(self.words, title, choices, now=now, preview=preview), chosen)

    def action_command_palette(self) -> None:
        """Show the list of commands, and run the chosen one."""
        choices = [
            Choice(c.name, f"/{c.name}", self.words(c.text), c.label, " ".join(c.also))
            for c in COMMANDS
        ]
        names = {command.name: command for command in COMMANDS}
        self.pick("palette", choices, lambda name: self.run_command(names[name]))

    def action_keys(self) -> None:
        self.action_manual("keys")

    def action_manual(self, topic: str = INDEX) -> None:
        """Open the manual at this page."""
        from duckflow_tui.ui.screens.manual import Manual

        self.push_screen(Manual(self.words, topic))

    def action_redraw(self) -> None:
        """Write every cell of the screen again, over the output of other programs."""
        self.refresh(layout=True)

    def action_quit_now(self) -> None:
        self.exit(0)

    def action_language(self, language: str) -> None:
        """Apply and save the language."""
        self._choose_setting("ui.language", language)

    def action_theme(self, theme: str) -> None:
        """Apply and save the theme."""
        self._choose_setting("ui.theme", theme)

    def show_theme(self, theme: str) -> None:
        """Draw everything in this theme."""
        self.theme = theme
        self.bench.invalidate()

    def action_diff(self, what: str) -> None:
        """Show the file changes since the session began, or with ``last`` the newest change."""
        engine = self.session.get_writable_engine()
        if engine is not None and what == "session":
            self.spawn(self._show_session_diff(engine), "diff")
        else:
            if engine is not None:
                self.bench.diff.follow(engine.store.state)
            self.bench.show_pane("diff")

    async def _show_session_diff(self, engine: Engine) -> None:
        """Open the diff of the whole session; while a gate is open, only show a notice. A notice
        names the newest command whose changes are not known.
        """
        found, command = await engine.session_diff()
        state, pane = engine.store.state, self.bench.diff
        if state.gates:  # the diff that is shown must be the one its keys answer
            self.status.show_notice("diff.session_later")
            return
        pane.open_session(found, state)
        self.bench.show_pane("diff")
        if command:
            self.status.show_notice("diff.session_command", command=command)

    def action_vitals(self, place: VitalsPlace) -> None:
        """Set where the gauges are shown, save that as a setting, and show it in a notice; see
        ``VitalsPlace``.
        """
        self._choose_setting("ui.vitals", place)
        self.status.show_notice(f"vitals.{place}")

    def on_diff_view_arranged(self, event: DiffView.Arranged) -> None:
        """Apply the diff's new display options to every diff, and save them."""
        self.bench.arrange_diffs(split=event.split, wrap=event.wrap)
        self.bench.keep_arrangement()

    def action_cycle_mode(self) -> None:
        """Set the next approval mode."""
        if self.session.store is not None:
            modes = list(ApprovalMode)
            now = modes.index(self.session.store.state.mode)
            self.action_mode(modes[(now + 1) % len(modes)])

    def action_mode(self, mode: str) -> None:
        """Set the approval mode; for ``trusted`` a ``y`` is asked for first. An open gate stays
        open.
        """
        engine, wanted = self.session.get_writable_engine(), ApprovalMode(mode)
        if engine is None:
            return
        if wanted is not ApprovalMode.TRUSTED or engine.store.state.mode is wanted:
            self._set_mode(engine, wanted)
            return

        def answered(answer: Answer | None) -> None:
            """Set trusted mode, or for "past" plan mode."""
            engine = self.session.get_writable_engine()
            if engine is not None and answer == "yes":
                self._set_mode(engine, ApprovalMode.TRUSTED)
            elif engine is not None and answer == "past":
                self._set_mode(engine, ApprovalMode.PLAN)

        self.push_screen(Confirm(self.words, self.clock, "trusted"), answered)

    def _set_mode(self, engine: Engine, mode: ApprovalMode) -> None:
        """Set the approval mode and show a notice."""
        engine.set_mode(mode)
        self.status.show_notice("shell.mode", mode=mode.value)

    # --- pages ------------------------------------------------------------------------------

    def action_page(self, name: str) -> None:
        """Open the list page with this name; in a replay its actions are refused."""
        store = self.session.store
        if name == "queue" and (store is None or not store.state.queue):
            self.status.show_notice("shell.queue_empty")
        elif store is not None:
            from duckflow_tui.ui.screens.sources import list_sources

            sources, at = list_sources(name, store)
            self._open_list(*sources, at=at)

    def action_memory(self) -> None:
        """Open the page of notes; not in a replay."""
        engine = self.session.get_writable_engine()
        if engine is not None:
            from duckflow_tui.ui.screens.memory import MemorySource

            self._open_list(MemorySource(engine))

    def _open_list(self, *sources: ListSource[Any], at: int = 0) -> None:
        """Open a list page with these tabs."""
        self.push_screen(ListPage[None](self.words, self.clock, sources, at))

    def action_settings(self, wanted: str = "") -> None:
        """Open the page of settings, at the first whose key contains ``wanted``."""
        from duckflow_tui.ui.screens.settings import SettingSource

        engine = self.session.get_writable_engine()
        models = engine.models if engine is not None else None
        self._open_list(SettingSource(self.options, models, wanted))

    @cached_property
    def connecting(self) -> Connecting:
        """The flow for finding and choosing models."""
        from duckflow_tui.ui.connecting import Connecting

        return Connecting(self)

    def action_model(self, wanted: str = "") -> None:
        """Open the list of models, filtered by ``wanted``."""
        self.spawn(self.connecting.choose_model(wanted=wanted), "connecting")

    def action_connect(self) -> None:
        self.spawn(self.connecting.open_connect(), "connecting")

    def action_probe(self) -> None:
        """Try again the features that the models refused, and report the result in the chat."""
        engine = self.session.get_writable_engine()
        if engine is not None:
            engine.probe_models()
            self.status.show_notice("llm.probed")
            self.spawn(self.connecting.try_behind(engine), "probe")

    def action_sessions(self) -> None:
        """Let the user choose another session."""
        self.spawn(self.session.choose_another(), "sessions")

    def action_new_session(self) -> None:
        """Begin a new session in place of the open one."""
        self.spawn(self.session.leave_for(), "sessions")

    def action_stats(self) -> None:
        from duckflow_tui.ui.screens.stats import StatsSource

        self._open_list(StatsSource(self.session.sources.catalog, self.session.workspace))

    def action_doctor(self) -> None:
        from duckflow_tui.ui.screens.health import HealthSource

        self._open_list(HealthSource(self.options.health(self.words.language)))

    # --- the session as a whole -------------------------------------------------------------

    def action_rename(self) -> None:
        """Ask for a name and rename the open session."""
        from duckflow_tui.ui.screens.form import LineForm

        engine = self.session.get_writable_engine()
        if engine is None:
            return

        def named(name: str | None) -> None:
            if name is not None:
                rename(engine, name, self.status.show_notice)

        name = engine.store.state.session.name
        self.push_screen(LineForm(self.words, "sessions.rename", name), named)

    def action_export(self, target: str = "", kind: Format | None = None) -> None:
        """Export the open session; ``target`` is the file, by default named after the session."""
        session, folder = self.session, self.session.sources.folder
        if session.engine is None or folder is None:
            self.report(self.words("sessions.not_kept"), wrong=True)
        else:
            session_id = session.engine.store.state.session.session_id
            self.spawn(session.export(folder, session_id, target, kind), "export")

    def action_undo_rewind(self, _undo: str) -> None:
        """Undo the last rewind."""
        engine = self.session.get_writable_engine()
        if engine is not None:
            self.spawn(self._undo_rewind(engine), "rewind")

    async def _undo_rewind(self, engine: Engine) -> None:
        """Undo the last rewind, and remove its draft from the composer."""
        composer, rewound = self.bench.composer, engine.store.state.rewound
        problem = await engine.rewind.undo_rewind()
        if problem:
            self.status.show_notice(f"rewind.not.{problem}")
            return
        if rewound is not None and composer.draft_text.strip() == rewound.draft.strip():
            composer.replace_text("")
        self.status.show_notice("rewind.undone")

    def action_remember(self, text: str = "") -> None:
        """Add a preference to the project's notes."""
        if not text.strip():
            self.status.show_notice("memory.usage")
        elif self.session.store is None:
            self.bench.composer.append_text(
                f"/remember {text}"
            )  # there is no project to note it on yet
        else:
            engine = self.session.get_writable_engine()
            if engine is not None:
                self.spawn(self._remember(engine, text.strip()), "memory")

    async def _remember(self, engine: Engine, text: str) -> None:
        """Add a note, and show the result."""
        from duckflow_tui.ui.screens.memory import fault_words

        fault = await engine.memory.add_line(text)
        if fault is None:
            self.status.show_notice("memory.noted")
        else:
            self.status.show_message(fault_words(fault, engine.memory.notes.path, self.words))

    # --- the end ----------------------------------------------------------------------------

    def end(self, status: int) -> None:
        """End the app with this exit status; can be called from a signal handler."""
        loop = self._own_loop
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(self.exit, status, status)

    def exit(
        self,
        result: int | None = None,
        return_code: int = 0,
        message: RenderableType | None = None,
    ) -> None:
        """End the app. Recording stops first, so that the session resumes from the present state:
        with its open questions, and without the cancellations of the exit.
        """
        self.session.keep_draft()
        self.session.freeze()
        super().exit(result, return_code, message)

    async def on_unmount(self) -> None:
        """Close the session, and wait a moment for writes in the background."""
        self.bridge.detach()
        await self.session.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_WITHIN):
                await asyncio.to_thread(self._keeper.shutdown)

    def run_to_end(self) -> int:
        """Run the app, restore the terminal, and return the exit status."""
        try:
            self.run()
        finally:
            self.guard.restore()
        if self.guard.exit_status is not None:
            return self.guard.exit_status
        return self.return_code or 0

    def error_report(self) -> str:
        """Return the traceback of the present error, safe to print; recording stops."""
        self.session.freeze()
        return make_visible(traceback.format_exc())
