"""``/sessions``: all sessions, a search through everything that was said in them, their end."""

from __future__ import annotations

import asyncio
import re
import shlex
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from duckflow_tui.session.catalog import AT_ONCE, Catalog
from duckflow_tui.session.facts import Piece, SessionFacts
from duckflow_tui.session.folders import workspace_key
from duckflow_tui.state.base import Clock
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.panes.key_guard import SETTLE
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.board import Page, board_bindings, foot_rows, list_rows
from duckflow_tui.ui.screens.session_rows import (
    Columns,
    Listed,
    about_rows,
    pattern_of,
    preview_rows,
)
from duckflow_tui.ui.session_words import size_text
from duckflow_tui.words.catalogue import Catalogue

SURFACE: Final = "sessions"
PIECES: Final = 60  # texts of a conversation that the preview has
_PAGE: Final = 5  # rows that one key scrolls
_LOW: Final = 20  # rows of a page where each counts
_TYPED: Final = 0.1  # seconds after a key before a search begins
#: Keys that need a chosen session, and those of them that the trash has.
_ON_ONE: Final = frozenset({"open", "rename", "pin", "export", "watch", "delete", "restore"})
_IN_TRASH: Final = frozenset({"export", "watch", "restore"})


class SessionScreen(ModalScreen[SessionFacts | None]):
    """Gives back the session to open, or None. Letters count once the page has stood a moment.

    ``own`` is the key of the session at work; ``choosing``: the app begins with this page.
    """

    AUTO_FOCUS = ""  # letters are keys here, until the search is asked for

    BINDINGS: ClassVar[list[BindingType]] = board_bindings(SURFACE)

    class Wanted(Message):
        """The user wants something done with a session."""

        def __init__(self, facts: SessionFacts, what: str) -> None:
            super().__init__()
            self.facts = facts
            self.what = what  # rename, pin, export, watch, delete, restore

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
        super().__init__()
        self.words = words
        self._clock = clock
        self._since = clock.monotonic()
        self._catalog = catalog
        self._workspace = workspace
        self._own = own
        self._choosing = choosing
        self._listed: dict[str, Listed] = {}
        self._chosen = ""
        self._query = ""
        self._answered = ""
        self._pattern: re.Pattern[str] | None = None
        self._everywhere = False
        self._trash = False
        self._reading = True
        self._said = ""
        self._wrong = False
        self._pieces: tuple[str, list[Piece]] = ("", [])
        self._top: int | None = None  # the first row of the preview, None where it begins
        self._columns: tuple[int, Columns] | None = None
        self._head = Static("", markup=False, classes="card-title sessions-head")
        self._page = Page(self._paint)

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
        self._page.words = self.words
        self._field.can_focus = False
        self.invalidate()
        self.run_worker(self._read(), group="reading", exit_on_error=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in _ON_ONE:
            facts = self.chosen
            if facts is None or not self.settled:
                return False
            return action in _IN_TRASH if self._trash else action != "restore"
        if action in ("trash", "everywhere", "search"):
            return self.settled
        return super().check_action(action, parameters)

    def on_key(self, event: events.Key) -> None:
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
    def settled(self) -> bool:
        """Whether keys are meant for this page."""
        return round(self._clock.monotonic() - self._since, 6) >= SETTLE

    @property
    def chosen(self) -> SessionFacts | None:
        """The session at the cursor."""
        one = self._listed.get(self._chosen)
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
    def searched_ids(self) -> list[str]:
        """The ids in the list, from its top."""
        return [one.facts.session_id for one in self._listed.values()]

    @property
    def previewed(self) -> bool:
        """Whether the conversation shown is that of the chosen session."""
        return self._pieces[0] == self._chosen

    def tell(self, said: str, *, wrong: bool = False) -> None:
        """A word about the last key, under the list."""
        self._said, self._wrong = said, wrong
        self.invalidate()

    async def reload(self) -> None:
        """Ask the catalog again, and keep the cursor where it was."""
        workspace = None if self._everywhere else self._workspace
        query = self._query
        if query:
            found = await asyncio.to_thread(
                self._catalog.search, query, workspace, trash_too=self._trash
            )
            listed = [Listed(one.facts, one.match.count, one.match.at) for one in found]
        else:
            known = await asyncio.to_thread(self._catalog.known, workspace, trash_too=self._trash)
            listed = [Listed(facts) for facts in known]
        if query != self._query:
            return  # another search is on its way
        at = list(self._listed).index(self._chosen) if self._chosen in self._listed else 0
        self._listed = {
            one.facts.key: one
            for one in listed
            if (one.facts.trashed_at is not None) == self._trash
        }
        if self._chosen not in self._listed:
            keys = list(self._listed)
            self._chosen = keys[min(at, len(keys) - 1)] if keys else ""
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
        self._chosen = ""
        await self.reload()

    async def _preview(self) -> None:
        """The texts of the chosen one."""
        one = self._listed.get(self._chosen)
        if one is not None:
            pieces = await asyncio.to_thread(self._catalog.pieces, one.facts, PIECES, one.at)
            if one.facts.key == self._chosen:
                self._pieces = (self._chosen, pieces)
        self.invalidate()

    # --- keys ---------------------------------------------------------------------------------

    def action_walk(self, by: int) -> None:
        keys = list(self._listed)
        if not keys:
            return
        at = keys.index(self._chosen) if self._chosen in keys else 0
        self._chosen = keys[min(max(at + by, 0), len(keys) - 1)]
        self._top = None
        self.tell("")
        self.run_worker(self._preview(), group="preview", exclusive=True, exit_on_error=False)

    def action_scroll_rows(self, by: int) -> None:
        self._top = (self._top or 0) + by * _PAGE
        self.invalidate()

    def action_search(self) -> None:
        self._field.can_focus = True
        self._field.focus()

    def action_open(self) -> None:
        facts = self.chosen
        if facts is None or self._trash:
            return
        if facts.problem:
            self.invalidate()  # the reason stands under the list
        elif facts.key == self._own:
            self.dismiss(None)
        elif facts.key.split("/")[1] != workspace_key(self._workspace):
            command = f"duckflow-tui --resume {facts.session_id}"
            command = f"{command} --dir {shlex.quote(facts.workspace)}"
            self.tell(self.words("sessions.elsewhere", command=command), wrong=True)
        else:
            self.dismiss(facts)

    def action_rename(self) -> None:
        self._want("rename")

    def action_pin(self) -> None:
        self._want("pin")

    def action_export(self) -> None:
        self._want("export")

    def action_watch(self) -> None:
        facts = self.chosen
        if facts is not None and facts.problem:
            self.invalidate()  # the reason stands under the list
        else:
            self._want("watch")

    def action_delete(self) -> None:
        self._want("delete")

    def action_restore(self) -> None:
        self._want("restore")

    async def action_trash(self) -> None:
        self._trash = not self._trash
        self._chosen = ""
        await self.reload()

    async def action_everywhere(self) -> None:
        self._everywhere = not self._everywhere
        await self.reload()

    def action_leave(self) -> None:
        self.dismiss(None)

    def _want(self, what: str) -> None:
        facts = self.chosen
        if facts is None:
            return
        refused = self._refused(facts, what)
        self.tell(self.words(refused) if refused else "", wrong=True)
        if not refused:
            self.post_message(self.Wanted(facts, what))

    def _refused(self, facts: SessionFacts, what: str) -> str:
        """What is in the way of a change before the user is asked anything; mostly nothing."""
        own = facts.key == self._own
        if what == "delete" and own:
            return "sessions.used_here"
        changes = what in ("rename", "pin", "delete")
        return "sessions.used_elsewhere" if changes and facts.in_use and not own else ""

    def _to_list(self) -> None:
        self.set_focus(None)
        self._field.can_focus = False

    # --- drawing ------------------------------------------------------------------------------

    def invalidate(self) -> None:
        """Draw it anew."""
        if self.is_mounted:
            self._head.update(self._heading())
            self._page.invalidate()

    @property
    def _field(self) -> Input:
        return self.query_one(Input)

    def _heading(self) -> str:
        words = self.words
        where = words("sessions.everywhere" if self._everywhere else "sessions.here")
        if self._trash:
            where = f"{words('sessions.trash')} · {where}"
        listed = [one.facts for one in self._listed.values()]
        size = size_text(self._catalog.disk_use(listed))
        parts = [words("sessions.title"), where]
        parts.append(words("sessions.figures", count=len(listed), size=size))
        if self._reading:
            parts.append(words("sessions.reading"))
        return fit("  ".join(parts), max(1, self._page.size.width))

    def _paint(self, width: int, height: int) -> list[Row]:
        palette, words = self._page.palette, self.words
        keys = [key for key in keys_of(SURFACE) if self._counts(key.action)]
        if height < _LOW:  # what every list has is left unsaid
            keys = [key for key in keys if key.action not in ("walk", "scroll_rows", "leave")]
        foot = foot_rows(keys, width, palette, words)
        rows: list[Row] = [[]]
        one = self._listed.get(self._chosen)
        if self._choosing:
            said = words("sessions.choose")
            rows += [*rows_of([(said, ink(palette.quiet))], width), []]
        if one is None:
            rows += rows_of([(self._nothing(), ink(palette.quiet))], width)
        else:
            room = max(1, height - len(rows) - len(foot) - 1)
            rows += list_rows(
                list(self._listed), self._chosen, self._item, width, room, palette, words
            )
            rows.append([])
            own = one.facts.key == self._own
            rows += about_rows(one, width, words, palette, place=self._everywhere, own=own)
        if self._said:
            colour = palette.bad if self._wrong else palette.good
            rows += rows_of([(self._said, ink(colour))], width)
        room = height - len(rows) - len(foot) - 2
        if one is not None and room > 0:
            rows += [[], *self._window(one, width, room)]
        del rows[max(0, height - len(foot) - 1) :]
        rows += [[] for _ in range(height - len(rows) - len(foot))]
        return [*rows, *foot][:height]

    def _item(self, key: str, width: int) -> Row:
        if self._columns is None or self._columns[0] != width:
            listed = list(self._listed.values())
            now = self._clock.now()
            columns = Columns(listed, width, self.words, now, folders=self._everywhere)
            self._columns = width, columns
        return self._columns[1].row(self._listed[key], self._page.palette, self._pattern)

    def _window(self, one: Listed, width: int, room: int) -> list[Row]:
        """The part of the conversation that there is room for: its end, or what was found."""
        palette = self._page.palette
        if self._pieces[0] != one.facts.key:
            return []
        found = preview_rows(self._pieces[1], width, self.words, palette, self._pattern)
        if not found.rows:
            key = "" if one.facts.problem else "sessions.nothing_said"
            return rows_of([(self.words(key) if key else "", ink(palette.faint))], width)
        spare = max(0, len(found.rows) - room)
        start = spare if found.hit is None else min(spare, max(0, found.hit - 1))
        top = start if self._top is None else min(max(0, start + self._top), spare)
        if self._top is not None:
            self._top = top - start
        return found.window(top, room)

    def _nothing(self) -> str:
        if self._reading:
            return self.words("sessions.reading")
        if self._query:
            return self.words("sessions.none_found")
        if self._trash:
            return self.words("sessions.none_in_trash")
        return self.words("sessions.none_anywhere" if self._everywhere else "sessions.none")

    def _counts(self, action: str) -> bool:
        """Whether the key does something on this page."""
        if self._trash:
            return action not in _ON_ONE - _IN_TRASH
        return action != "restore"
