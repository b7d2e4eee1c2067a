"""``/sessions``: all sessions, a search through everything that was said in them, their end."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from duckflow_tui.session.catalog import AT_ONCE, Catalog
from duckflow_tui.session.facts import Listed, Piece, SessionFacts
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import workspace_key
from duckflow_tui.state.base import Clock
from duckflow_tui.ui.bindings import Surface, keys_of
from duckflow_tui.ui.outside_editor import watch_again
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.board import PAGE, WALKS, Board, board_bindings, foot_rows
from duckflow_tui.ui.screens.confirm import Confirm
from duckflow_tui.ui.screens.form import LineForm
from duckflow_tui.ui.screens.session_rows import (
    Columns,
    about_rows,
    pattern_of,
    preview_rows,
)
from duckflow_tui.ui.session_words import fault_words
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import size_text

PIECES: Final = 60  # texts of a conversation that the preview has
_LOW: Final = 20  # rows of a page where each counts
_TYPED: Final = 0.1  # seconds after a key before a search begins
#: Keys that need a chosen session, and those of them that the trash has.
_ON_ONE: Final = frozenset({"open", "rename", "pin", "export", "watch", "delete", "restore"})
_IN_TRASH: Final = frozenset({"export", "watch", "restore"})


class SessionScreen(Board[SessionFacts | None]):
    """Gives back the session to open, or None.

    ``own`` is the key of the session at work; ``choosing``: the app begins with this page.
    """

    AUTO_FOCUS = ""  # letters are keys here, until the search is asked for
    SURFACE: ClassVar[Surface] = "sessions"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("sessions")

    def __init__(
        self,
        words: Catalogue,
        clock: Clock,
        catalog: Catalog,
        *,
        workspace: str,
        own: str = "",
        choosing: bool = False,
    ) -> None:
        super().__init__(words, clock)
        self._catalog = catalog
        self._workspace = workspace
        self._own = own
        self._choosing = choosing
        self._listed: dict[str, Listed] = {}
        self._query = ""
        self._answered = ""
        self._pattern: re.Pattern[str] | None = None
        self._everywhere = False
        self._trash = False
        self._reading = True
        self._walked = False  # whether the user moved the cursor
        self._wrong = False
        self._pieces: tuple[str, list[Piece]] = ("", [])
        self._top: int | None = None  # the first row of the preview, None where it begins
        self._columns: tuple[int, Columns] | None = None
        self._head = Static("", markup=False, classes="card-title sessions-head")

    # --- Textual ------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        with Vertical(classes="card board"):
            yield self._head
            field = Input(
                placeholder=f"/ {self.words('sessions.search')}",
                compact=True,
                classes="card-field",
                select_on_focus=False,
            )
            field.cursor_blink = False
            yield field
            yield self._page

    def on_mount(self) -> None:
        self._field.can_focus = False
        self.run_worker(self._read(), group="reading", exit_on_error=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in _ON_ONE:
            if self.facts is None or not self.settled:
                return False
            return action in _IN_TRASH if self._trash else action != "restore"
        return self.settled if action in ("trash", "everywhere") else True

    @property
    def writing(self) -> bool:
        return self.focused is self._field

    async def on_key(self, event: events.Key) -> None:
        if self.focused is not self._field:
            return
        if event.key in ("up", "down"):
            event.stop()
            self.action_walk(-1 if event.key == "up" else 1)
        elif event.key in ("escape", "tab"):
            event.stop()
            event.prevent_default()
            if event.key == "escape":
                self._field.value = ""
            self._to_list()

    def on_input_changed(self, event: Input.Changed) -> None:
        query = event.value.strip()
        if query != self._query:
            self._query = query
            self._pattern = pattern_of(query)
            self.run_worker(self._search(), group="search", exclusive=True, exit_on_error=False)

    def on_input_submitted(self) -> None:
        self._to_list()
        self.action_open()

    # --- what there is ------------------------------------------------------------------------

    @property
    def facts(self) -> SessionFacts | None:
        """The session at the cursor."""
        one = self._listed.get(self.chosen)
        return one.facts if one is not None else None

    @property
    def reading(self) -> bool:
        """Whether journals are still being read."""
        return self._reading

    @property
    def searched(self) -> str:
        """The query that the list answers."""
        return self._answered

    @property
    def previewed(self) -> bool:
        """Whether the conversation shown is that of the chosen session."""
        return self._pieces[0] == self.chosen

    def report(self, said: str, *, wrong: bool = False) -> None:
        self._wrong = wrong
        super().report(said)

    async def reload(self) -> None:
        """Ask the catalog again, and keep the cursor where the user left it; until it was moved, it
        stays at the top while journals are read, or at the newest session where one is chosen.
        """
        workspace = None if self._everywhere else self._workspace
        query = self._query
        if query:
            listed = await asyncio.to_thread(
                self._catalog.search, query, workspace, trash_too=self._trash
            )
        else:
            known = await asyncio.to_thread(
                self._catalog.list_read, workspace, trash_too=self._trash
            )
            listed = [Listed(facts) for facts in known]
        if query != self._query:
            return  # another search is on its way
        self._listed = {
            one.facts.key: one
            for one in listed
            if (one.facts.trashed_at is not None) == self._trash
        }
        if self._reading and not self._walked:
            newest = max(listed, key=lambda one: one.facts.last_at, default=None)
            self._chosen = newest.facts.key if newest is not None and self._choosing else ""
            self._at = 0
        self._columns = None
        self._answered = query
        await self._preview()

    async def _read(self) -> None:
        await self.reload()
        again = True
        while await asyncio.to_thread(self._catalog.refresh, AT_ONCE, again=again):
            again = False
            await self.reload()
        await self.reload()
        self._reading = False
        self.invalidate()

    async def _search(self) -> None:
        await asyncio.sleep(_TYPED)
        self._top = None
        self._chosen, self._at = "", 0
        await self.reload()

    async def _preview(self) -> None:
        """The texts of the chosen one."""
        one = self._listed.get(self.chosen)
        if one is not None:
            pieces = await asyncio.to_thread(self._catalog.list_pieces, one.facts, PIECES, one.at)
            if one.facts.key == self.chosen:
                self._pieces = (self.chosen, pieces)
        self.invalidate()

    # --- keys ---------------------------------------------------------------------------------

    def choose(self, name: str) -> None:
        self._chosen = name
        self._walked = True
        self._top = None
        self.report("")
        self.run_worker(self._preview(), group="preview", exclusive=True, exit_on_error=False)

    def action_scroll_rows(self, by: int) -> None:
        self._top = (self._top or 0) + by * PAGE
        self._walked = True
        self.invalidate()

    def action_search(self) -> None:
        self._field.can_focus = True
        self._field.focus()

    def action_open(self) -> None:
        facts = self.facts
        if facts is None or self._trash:
            return
        if facts.problem:
            self.invalidate()  # the reason stands under the list
        elif facts.key == self._own:
            self.dismiss(None)
        elif facts.key.split("/")[1] != workspace_key(self._workspace):
            command = f"duckflow-tui --resume {facts.session_id}"
            command = f"{command} --dir {shlex.quote(facts.workspace)}"
            self.report(self.words("sessions.elsewhere", command=command), wrong=True)
        else:
            self.dismiss(facts)

    async def action_trash(self) -> None:
        self._trash = not self._trash
        self._chosen, self._at = "", 0
        await self.reload()

    async def action_everywhere(self) -> None:
        self._everywhere = not self._everywhere
        await self.reload()

    def action_rename(self) -> None:
        self._do(self._rename, changes=True)

    async def _rename(self, facts: SessionFacts) -> None:
        engine = self.host.session.engine
        form = LineForm(self.words, "sessions.rename", facts.name)
        name = await self.host.push_screen_wait(form)
        if name is None:
            return
        if engine is not None and facts.key == self._own:
            engine.title.rename(name)
        else:
            await self._tried(lambda: self._catalog.rename(facts, name))
        await self._refresh()

    def action_pin(self) -> None:
        self._do(self._pin, changes=True)

    async def _pin(self, facts: SessionFacts) -> None:
        engine = self.host.session.engine
        if engine is not None and facts.key == self._own:
            engine.title.pin(not facts.pinned)
        else:
            await self._tried(lambda: self._catalog.pin(facts, not facts.pinned))
        await self._refresh()

    def action_delete(self) -> None:
        facts = self.facts
        if facts is not None and facts.key == self._own:
            self.report(self.words("sessions.used_here"), wrong=True)
        else:
            self._do(self._delete, changes=True)

    async def _delete(self, facts: SessionFacts) -> None:
        size = size_text(facts.size).replace(" ", "")  # no line ends between them
        ask = Confirm(self.words, self.clock, "sessions.delete", name=facts.title, size=size)
        if await self.host.push_screen_wait(ask) == "yes":
            await self._tried(lambda: self._catalog.delete(facts))
            await self._refresh()

    def action_restore(self) -> None:
        self._do(self._restore)

    async def _restore(self, facts: SessionFacts) -> None:
        if await self._tried(lambda: self._catalog.restore(facts)):
            self.host.report(self.words("sessions.restored", title=facts.title))
        await self._refresh()

    def action_export(self) -> None:
        self._do(lambda facts: self.host.session.export(self._folder(facts), facts.session_id))

    def action_watch(self) -> None:
        if self.facts is not None and self.facts.problem:
            self.invalidate()  # the reason stands under the list
        else:
            self._do(self._watch)

    async def _watch(self, facts: SessionFacts) -> None:
        try:
            status = await watch_again(self.host, self._folder(facts))
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            reason = self.words("sessions.ended_with", status=status) if status else ""
        if reason:
            self.host.report(self.words("sessions.not_watched", reason=reason), wrong=True)

    def _folder(self, facts: SessionFacts) -> Path:
        return self._catalog.path_of(facts)

    def _do(
        self, what: Callable[[SessionFacts], Coroutine[Any, Any, None]], *, changes: bool = False
    ) -> None:
        """Do it to the chosen session, beside the screen; not to one in use where it changes it."""
        facts = self.facts
        if facts is None:
            return
        used = changes and facts.in_use and facts.key != self._own
        self.report(self.words("sessions.used_elsewhere") if used else "", wrong=True)
        if not used:
            self.host.spawn(what(facts), "sessions-act")

    async def _tried(self, act: Callable[[], object]) -> bool:
        """Do it in a thread; what is in the way is said."""
        try:
            await asyncio.to_thread(act)
        except SessionFault as fault:
            self.host.report(fault_words(fault, self.words), wrong=True)
            return False
        return True

    async def _refresh(self) -> None:
        if self.is_mounted:
            await asyncio.to_thread(self._catalog.refresh)
            await self.reload()

    def _to_list(self) -> None:
        self.set_focus(None)
        self._field.can_focus = False

    # --- drawing ------------------------------------------------------------------------------

    def invalidate(self) -> None:
        super().invalidate()
        if self.is_mounted:
            self._head.update(self.heading())

    @property
    def _field(self) -> Input:
        return self.query_one(Input)

    def heading(self) -> str:
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
        return fit("  ".join(parts), max(1, self._page.size.width))

    def head(self, width: int) -> list[Row]:
        said = (self.words("sessions.choose"), ink(self._page.palette.quiet))
        return [[], *rows_of([said], width), []] if self._choosing else [[]]

    def names(self) -> Sequence[str]:
        return list(self._listed)

    def empty(self) -> str:
        if self._reading:
            return self.words("sessions.reading")
        if self._query:
            return self.words("sessions.none_found")
        if self._trash:
            return self.words("sessions.none_in_trash")
        return self.words("sessions.none_anywhere" if self._everywhere else "sessions.none")

    def item(self, name: str, width: int) -> Row:
        if self._columns is None or self._columns[0] != width:
            listed = list(self._listed.values())
            now = self.clock.now()
            columns = Columns(listed, width, self.words, now, folders=self._everywhere)
            self._columns = width, columns
        return self._columns[1].row(self._listed[name], self._page.palette, self._pattern)

    def about(self, name: str, width: int) -> list[Row]:
        one, palette, place = self._listed[name], self._page.palette, self._everywhere
        own = one.facts.key == self._own
        rows = about_rows(one, width, self.words, palette, place=place, own=own)
        return [*rows, *self.said_rows(width), []]

    def about_none(self, width: int) -> list[Row]:
        return self.said_rows(width)

    def said_rows(self, width: int) -> list[Row]:
        palette = self._page.palette
        said = (self._said, ink(palette.bad if self._wrong else palette.good))
        return rows_of([said], width) if self._said else []

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        """The part of the conversation that there is room for: its end, or what was found."""
        palette = self._page.palette
        if self._pieces[0] != name:
            return []
        found = preview_rows(self._pieces[1], width, self.words, palette, self._pattern)
        if not found.rows:
            key = "" if self._listed[name].facts.problem else "sessions.nothing_said"
            return rows_of([(self.words(key) if key else "", ink(palette.faint))], width)
        spare = max(0, len(found.rows) - room)
        start = spare if found.hit is None else min(spare, max(0, found.hit - 1))
        top = start if self._top is None else min(max(0, start + self._top), spare)
        if self._top is not None:
            self._top = top - start
        return found.window(top, room)

    def foot(self, width: int) -> list[Row]:
        """The keys that do something on this page."""
        skip = _ON_ONE - _IN_TRASH if self._trash else {"restore"}
        if self._page.size.height < _LOW:  # what every list has is left unsaid
            skip = skip | WALKS
        keys = [key for key in keys_of("sessions") if key.action not in skip]
        return foot_rows(keys, width, self._page.palette, self.words)
