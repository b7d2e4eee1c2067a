"""``/sessions``: all sessions, with full-text search, a preview, and actions on them."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Final

from duckflow_tui.session.catalog import AT_ONCE, Catalog
from duckflow_tui.session.facts import Listed, Piece, SessionFacts
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import workspace_key
from duckflow_tui.session.words import fault_words
from duckflow_tui.ui.outside_editor import watch_again
from duckflow_tui.ui.panes.strips import Row
from duckflow_tui.ui.screens.form import LineForm
from duckflow_tui.ui.screens.list_source import ListSource, PageAction
from duckflow_tui.ui.screens.session_rows import (
    Columns,
    about_rows,
    pattern_of,
    preview_rows,
)
from duckflow_tui.words.figures import size_text

PIECES: Final = 60  # texts of a conversation that the preview has
_TYPED: Final = 0.1  # seconds after a key before a search begins


class SessionSource(ListSource[Listed]):
    """All sessions with the end of each conversation; the page returns the session to open, or
    None.

    ``own`` is the key of the open session; ``choosing``: the app begins with this page.
    """

    ANSWERS_FILTER: ClassVar[bool] = True
    CUTS_DETAIL: ClassVar[bool] = True
    FILTER_HINT: ClassVar[str] = "sessions.search"

    def __init__(
        self, catalog: Catalog, *, workspace: str, own: str = "", choosing: bool = False
    ) -> None:
        self._catalog = catalog
        self._workspace = workspace
        self._own = own
        self._choosing = choosing
        self._listed: dict[str, Listed] = {}
        self._answered = ""
        self._pattern: re.Pattern[str] | None = None
        self._everywhere = False
        self._trash = False
        self._reading = True
        self._walked = False  # whether the user moved the cursor
        self._pieces: tuple[str, list[Piece]] = ("", [])
        self._columns: tuple[int, Columns] | None = None

    def on_open(self) -> None:
        """Start to read the catalog."""
        self.page.run_worker(self._read_catalog, group="reading", exit_on_error=False)

    def on_filter(self) -> None:
        """Start a search for the filter's words."""
        self._pattern = pattern_of(self.page.query_text)
        self.page.run_worker(self._run_search, group="search", exclusive=True, exit_on_error=False)

    def on_choose(self) -> None:
        """Start to read the preview of the chosen session."""
        self._walked = True
        self.page.run_worker(
            self._read_preview, group="preview", exclusive=True, exit_on_error=False
        )

    # --- reading -------------------------------------------------------------------------------

    @property
    def facts(self) -> SessionFacts | None:
        """The session at the cursor; None for an empty list."""
        return self.chosen_item.facts if self.chosen_item is not None else None

    @property
    def is_reading(self) -> bool:
        """Whether journals are still being read."""
        return self._reading

    @property
    def searched(self) -> str:
        """The query that the list shows the result of."""
        return self._answered

    @property
    def is_previewed(self) -> bool:
        """Whether the preview belongs to the chosen session."""
        return self._pieces[0] == self.page.chosen_id

    async def reload(self) -> None:
        """Query the catalog again. The cursor stays where the user put it; before that it stays at
        the top while journals are read, or on the newest session where the user is to choose
        one.
        """
        workspace = None if self._everywhere else self._workspace
        query = self.page.query_text
        if query:
            listed = await asyncio.to_thread(
                self._catalog.search, query, workspace, trashed=self._trash
            )
        else:
            known = await asyncio.to_thread(self._catalog.list_read, workspace, trashed=self._trash)
            listed = [Listed(facts) for facts in known]
        if query != self.page.query_text:
            return  # a newer search has begun
        self._listed = {one.facts.key: one for one in listed}
        if self._reading and not self._walked:
            newest = max(listed, key=lambda one: one.facts.last_at, default=None)
            begins = newest.facts.key if newest is not None and self._choosing else ""
            self.page.put_cursor(begins)
        self._columns = None
        self._answered = query
        await self._read_preview()

    async def _read_catalog(self) -> None:
        """List the sessions known so far, then read the other journals in steps of 0.2 s."""
        await self.reload()
        while await asyncio.to_thread(self._catalog.refresh, AT_ONCE):
            await self.reload()
        await self.reload()
        self._reading = False
        self.page.invalidate()

    async def _run_search(self) -> None:
        """Search for the filter's words, 0.1 s after the last key."""
        await asyncio.sleep(_TYPED)
        self.page.put_cursor("")
        await self.reload()

    async def _read_preview(self) -> None:
        """Read the texts of the chosen session for the preview."""
        one = self.chosen_item
        if one is not None:
            pieces = await asyncio.to_thread(self._catalog.list_pieces, one.facts, PIECES, one.at)
            if one.facts.key == self.page.chosen_id:
                self._pieces = (self.page.chosen_id, pieces)
        self.page.invalidate()

    # --- actions ------------------------------------------------------------------------------

    def get_main_action(self, item: Listed) -> PageAction | None:
        """Return the action that opens the session, in the trash the one that restores it; None for
        an unreadable session.
        """
        if self._trash:
            return self._make_work("restore", self._restore_session, item)
        if item.facts.problem:
            return None  # the reason stands under the list
        return self.make_action("keys.sessions_open", lambda: self._open_session(item.facts))

    def list_actions(self, item: Listed | None) -> Sequence[PageAction]:
        """Return the actions on the session, and those that switch to all workspaces or
        the trash.
        """
        actions: list[PageAction] = []
        if item is not None and not self._trash:
            actions += [
                self._make_work("rename", self._rename_session, item, changes=True),
                self._make_work("pin", self._pin_session, item, changes=True),
                self._make_work("delete", self._ask_to_delete, item, changes=True),
            ]
        if item is not None:
            actions.append(self._make_work("export", self._export_session, item))
            if not item.facts.problem:
                actions.append(self._make_work("watch", self._watch_session, item))
        return [
            *actions,
            self.make_action("keys.sessions_all", self._turn_everywhere),
            self.make_action("keys.sessions_trash", self._turn_trash),
        ]

    def _make_work(
        self,
        name: str,
        work: Callable[[SessionFacts], Coroutine[Any, Any, None]],
        item: Listed,
        *,
        changes: bool = False,
    ) -> PageAction:
        """Return an action that runs in the background. One that ``changes`` a session is refused
        for a session that another process has open.
        """
        facts = item.facts

        def start() -> None:
            """Start the work, or report that another process has the session open."""
            if changes and facts.in_use and facts.key != self._own:
                self.page.report(self.words("sessions.used_elsewhere"))
            else:
                self.host.spawn(work(facts), "sessions-act")

        return self.make_action(f"keys.sessions_{name}", start)

    def _open_session(self, facts: SessionFacts) -> None:
        """Close the page with the session; for one of another folder, report the command that opens
        it.
        """
        if facts.key == self._own:
            self.page.dismiss(None)
        elif facts.key.split("/")[1] != workspace_key(self._workspace):
            command = f"duckflow-tui --resume {facts.session_id}"
            command = f"{command} --dir {shlex.quote(facts.workspace)}"
            self.page.report(self.words("sessions.elsewhere", command=command))
        else:
            self.page.dismiss(facts)

    def _turn_trash(self) -> None:
        """Switch between sessions and trash."""
        self._trash = not self._trash
        self.page.put_cursor("")
        self.page.run_worker(self.reload, group="reading", exit_on_error=False)

    def _turn_everywhere(self) -> None:
        """Switch between this workspace and all of them."""
        self._everywhere = not self._everywhere
        self.page.run_worker(self.reload, group="reading", exit_on_error=False)

    async def _rename_session(self, facts: SessionFacts) -> None:
        """Ask for a name and rename the session."""
        engine = self.host.session.engine
        form = LineForm(self.words, "sessions.rename", facts.name)
        name = await self.host.push_screen_wait(form)
        if name is None:
            return
        if engine is not None and facts.key == self._own:
            engine.title.rename_session(name)
        else:
            await self._try_change(lambda: self._catalog.rename(facts, name))
        await self._refresh_catalog()

    async def _pin_session(self, facts: SessionFacts) -> None:
        """Pin or unpin a session."""
        engine = self.host.session.engine
        if engine is not None and facts.key == self._own:
            engine.title.pin_session(not facts.pinned)
        else:
            await self._try_change(lambda: self._catalog.pin(facts, not facts.pinned))
        await self._refresh_catalog()

    async def _ask_to_delete(self, facts: SessionFacts) -> None:
        """Ask whether to move a session to the trash; refused for the open one."""

        async def delete() -> None:
            """Move the session to the trash."""
            await self._try_change(lambda: self._catalog.delete(facts))
            await self._refresh_catalog()

        if facts.key == self._own:
            self.page.report(self.words("sessions.used_here"))
            return
        asks = self.words("sessions.delete_again", name=facts.title, size=size_text(facts.size))
        self.page.ask_first(asks, lambda: self.host.spawn(delete(), "sessions-act"))

    async def _restore_session(self, facts: SessionFacts) -> None:
        """Move a session from the trash back, and report the result."""
        if await self._try_change(lambda: self._catalog.restore(facts)):
            self.host.report(self.words("sessions.restored", title=facts.title))
        await self._refresh_catalog()

    async def _export_session(self, facts: SessionFacts) -> None:
        """Write a session as Markdown to a file of the workspace, named after its id; the user is
        asked before a file is replaced.
        """
        await self.host.session.export(self._catalog.path_of(facts), facts.session_id)

    async def _watch_session(self, facts: SessionFacts) -> None:
        """Replay a session in another process, and report where that fails."""
        try:
            status = await watch_again(self.host, self._catalog.path_of(facts))
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            reason = self.words("sessions.ended_with", status=status) if status else ""
        if reason:
            self.host.report(self.words("sessions.not_watched", reason=reason), wrong=True)

    async def _try_change(self, act: Callable[[], object]) -> bool:
        """Run a change of the catalog in a thread; report a fault and return False."""
        try:
            await asyncio.to_thread(act)
        except SessionFault as fault:
            self.host.report(fault_words(fault, self.words), wrong=True)
            return False
        return True

    async def _refresh_catalog(self) -> None:
        """Read changed journals and query the catalog again."""
        if self.page.is_mounted:
            await asyncio.to_thread(self._catalog.refresh)
            await self.reload()

    # --- drawing ------------------------------------------------------------------------------

    def get_title(self) -> str:
        """Return the title with workspace or trash, and the number and size of the sessions."""
        words = self.words
        where = words("sessions.everywhere" if self._everywhere else "sessions.here")
        if self._trash:
            where = f"{words('sessions.trash')} · {where}"
        listed = [one.facts for one in self._listed.values()]
        size = size_text(sum(facts.size for facts in listed))
        parts = [words("sessions.title"), where]
        parts.append(words("sessions.figures", count=len(listed), size=size))
        if self._reading:
            parts.append(words("sessions.reading"))
        return "  ".join(parts)

    def render_head(self, width: int) -> list[Row]:
        said = self.words("sessions.choose")
        return [[], *self.wrap_text(said, width), []] if self._choosing else [[]]

    def list_items(self) -> Mapping[str, Listed]:
        return self._listed

    def get_empty_text(self) -> str:
        if self._reading:
            return self.words("sessions.reading")
        if self._trash:
            return self.words("sessions.none_in_trash")
        return self.words("sessions.none_anywhere" if self._everywhere else "sessions.none")

    def render_row(self, item: Listed, width: int) -> Row:
        if self._columns is None or self._columns[0] != width:
            listed = list(self._listed.values())
            now = self.clock.now()
            columns = Columns(listed, width, self.words, now, folders=self._everywhere)
            self._columns = width, columns
        return self._columns[1].row(item, self.palette, self._pattern)

    def render_note(self, item: Listed, width: int) -> list[Row]:
        """Render the known facts of the session."""
        own, place = item.facts.key == self._own, self._everywhere
        rows = about_rows(item, width, self.words, self.palette, place=place, own=own)
        return [*rows, []]

    def render_detail(self, item: Listed, width: int, room: int) -> list[Row]:
        """Render the part of the conversation that fits: its end, or the text that a
        search found.
        """
        palette = self.palette
        if self._pieces[0] != item.facts.key:
            return []
        found = preview_rows(self._pieces[1], width, self.words, palette, self._pattern)
        if not found.rows:
            said = "" if item.facts.problem else self.words("sessions.nothing_said")
            return self.wrap_text(said, width, palette.faint)
        spare = max(0, len(found.rows) - room)
        start = spare if found.hit is None else min(spare, max(0, found.hit - 1))
        top = min(max(0, start + self.page.scrolled), spare)
        self.page.scrolled = top - start
        return found.window(top, room)
