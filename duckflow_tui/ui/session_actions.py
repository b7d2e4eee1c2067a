"""What keys and commands do to sessions as a whole: open, name, pin, export, delete."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckflow_tui.commands import rename
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.ui.screens.confirm import Confirm
from duckflow_tui.ui.screens.rename import RenameForm
from duckflow_tui.ui.session_host import SessionHost
from duckflow_tui.ui.session_words import fault_words, size_text
from duckflow_tui.ui.watching import watch_again

if TYPE_CHECKING:
    from duckflow_tui.session.export import Format
    from duckflow_tui.session.facts import SessionFacts
    from duckflow_tui.ui.screens.sessions import SessionScreen


class SessionActions(SessionHost, inherit_bindings=False):
    """The page is told what came of a key; without it the status line is."""

    def action_sessions(self) -> None:
        self.run_worker(self._sessions_page(), group="sessions", exit_on_error=False)

    async def _sessions_page(self) -> None:
        facts = await self.choose_session()
        if facts is not None:
            await self.go_to_session(facts)

    async def go_to_session(self, facts: SessionFacts) -> None:
        """Open another session of this workspace in place of the one that is open."""
        turn = self.store.state.turn if self.store is not None else None
        if turn is not None and turn.pause != "paused":
            self.say("sessions.busy")
        elif self.engine is None:
            self.say("shell.no_endpoint")
        else:
            await self.take_up(facts.session_id)

    # the page

    async def on_session_screen_wanted(self, event: SessionScreen.Wanted) -> None:
        facts, page = event.facts, self._session_page
        if page is None:
            return
        if event.what == "rename":
            form = RenameForm(self.words, facts.name)
            self.push_screen(form, lambda name: self._act_later(self._rename_session(facts, name)))
        elif event.what == "delete":
            size = size_text(facts.size).replace(" ", "")  # no line ends between them
            ask = Confirm(self.words, self.clock, "sessions.delete", name=facts.title, size=size)
            self.push_screen(
                ask,
                lambda answer: self._act_later(
                    self._change_session(facts, "delete", answer == "yes")
                ),
            )
        elif event.what == "export":
            path = self.sessions.catalog.path_of(facts)
            self._act_later(self._export(path, facts.session_id, ""))
        elif event.what == "watch":
            self._act_later(self._watch(self.sessions.catalog.path_of(facts)))
        else:
            self._act_later(self._change_session(facts, event.what, True))

    async def _rename_session(self, facts: SessionFacts, name: str | None) -> None:
        if name is None:
            return
        if self.engine is not None and facts.key == self.own_key:
            self.engine.title.rename(name)
        else:
            await self._tried(lambda: self.sessions.catalog.rename(facts, name))
        await self._reload_page()

    async def _change_session(self, facts: SessionFacts, what: str, wanted: bool) -> None:
        """Pin, delete or fetch back."""
        if not wanted:
            return
        catalog, own = self.sessions.catalog, facts.key == self.own_key
        if what == "pin" and own and self.engine is not None:
            self.engine.title.pin(not facts.pinned)
        elif what == "pin":
            await self._tried(lambda: catalog.pin(facts, not facts.pinned))
        elif what == "delete":
            await self._tried(lambda: catalog.delete(facts))
        elif what == "restore" and await self._tried(lambda: catalog.restore(facts)):
            self._say_done("sessions.restored", title=facts.title)
        await self._reload_page()

    async def _watch(self, folder: Path) -> None:
        try:
            status = await self.show_again(folder)
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            reason = self.words("sessions.ended_with", status=status) if status else ""
        if reason:
            self._say_wrong(self.words("sessions.not_watched", reason=reason))

    async def show_again(self, folder: Path) -> int:
        """Replay a session in place of this screen, until the user ends it; the exit status.

        Raises OSError when it cannot be started.
        """
        return await watch_again(self, folder)

    async def _tried(self, act: Callable[[], object]) -> bool:
        """Do it in a thread; what is in the way is said."""
        try:
            await asyncio.to_thread(act)
        except SessionFault as fault:
            self._say_wrong(fault_words(fault, self.words))
            return False
        return True

    async def _reload_page(self) -> None:
        page = self._session_page
        if page is not None:
            await asyncio.to_thread(self.sessions.catalog.refresh)
            await page.reload()

    # the session that is open

    def action_rename(self) -> None:
        engine = self.acting()
        if engine is not None:
            form = RenameForm(self.words, engine.store.state.session.name)
            self.push_screen(form, self._named)

    def _named(self, name: str | None) -> None:
        engine = self.acting() if name is not None else None
        if engine is not None and name is not None:
            rename(engine, name, self.say)

    def action_export(self, target: str = "") -> None:
        folder = self.sessions.folder
        if self.engine is None or folder is None:
            self.say("sessions.not_kept")
        else:
            self._act_later(
                self._export(folder, self.engine.store.state.session.session_id, target)
            )

    # export

    async def _export(self, folder: Path, session_id: str, target: str) -> None:
        from duckflow_tui.session.export import exported_name, format_of

        kind = format_of(target)
        path = self._in_workspace(target or exported_name(session_id, kind))
        try:
            await self._write_export(folder, path, kind, replace=False)
        except FileExistsError:
            ask = Confirm(self.words, self.clock, "sessions.replace", path=path)
            if await self.push_screen_wait(ask) == "yes":
                await self._write_export(folder, path, kind, replace=True)

    def _in_workspace(self, name: str) -> Path:
        workspace = self.store.state.session.workspace if self.store else self.options.workspace
        return Path(os.path.abspath(os.path.join(workspace, os.path.expanduser(name))))

    async def _write_export(self, folder: Path, path: Path, kind: Format, *, replace: bool) -> None:
        from duckflow_tui.session.export import export_lines, write_file

        words, redact = self.words, self.sessions.catalog.redact or str

        def write() -> None:
            write_file(path, export_lines(folder, kind, words, redact), replace=replace)

        try:
            await asyncio.to_thread(write)
        except SessionFault as fault:
            self._say_wrong(fault_words(fault, self.words))
        except FileExistsError:
            raise
        except OSError as error:
            reason = f"{path}: {error.strerror or error}"
            self._say_wrong(self.words("sessions.not_written", reason=reason))
        else:
            self._say_done("sessions.exported", path=path)

    # words

    @property
    def _session_page(self) -> SessionScreen | None:
        """The page where it is open; it covers the status line."""
        from duckflow_tui.ui.screens.sessions import SessionScreen

        return next((s for s in self.screen_stack if isinstance(s, SessionScreen)), None)

    def _say_done(self, key: str, **params: Any) -> None:
        page = self._session_page
        if page is not None:
            page.tell(self.words(key, **params))
        else:
            self.say(key, **params)

    def _say_wrong(self, said: str) -> None:
        page = self._session_page
        if page is not None:
            page.tell(said, wrong=True)
        else:
            self.bench.status.show_message(said)

    def _act_later(self, act: Coroutine[Any, Any, None]) -> None:
        self.run_worker(act, group="sessions-act", exit_on_error=False)
