"""The diff of a gate on the whole screen, where two versions have room side by side."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static

from duckflow_tui.state.base import Clock
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.panes.diff_document import DiffDocument
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.key_guard import KeyGuard
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.ui.textual_private import half_width_key
from duckflow_tui.words.catalogue import Catalogue

#: The keys that act at the gate, and the one that is no answer.
_AT_GATE: Final = {name for key in keys_of("gate") for name in key.keys}
_BACK: Final = {name for key in keys_of("gate") if key.action == "whole_diff" for name in key.keys}


class WholeDiff(Dialog[str]):
    """To read, to take or leave hunks, and to decide: a key of the gate goes back and acts there.
    Esc or z only goes back.

    A key that comes before the page could be seen, or with others in one go, decides nothing.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c,z", "leave", show=False)]

    def __init__(self, words: Catalogue, clock: Clock, document: DiffDocument, at: int) -> None:
        """``at``: the hunk at hand, by its index."""
        super().__init__()
        self._document = document
        self._at = at
        self._guard = KeyGuard(self, clock)
        self._stands_since = float("inf")
        self._title = Static(classes="whole-title", markup=False)
        self._pane = DiffPane(id="whole-diff")
        self._pane.view.on_change(self._refresh_title)
        self._pane.words, self._pane.leads_back, self._pane.decides = words, True, True

    def compose(self) -> ComposeResult:
        with Vertical(classes="whole"):
            yield self._title
            yield self._pane

    def on_mount(self) -> None:
        self._pane.open(self._document, at=self._at)
        self._pane.view.focus()
        self._guard.begin()
        self._stands_since = Message().time  # on the clock that keys carry

    @property
    def at(self) -> int:
        """The hunk at hand."""
        return self._pane.view.at

    def _refresh_title(self) -> None:
        self._title.update(self._pane.title(self._title.size.width))

    async def on_key(self, event: events.Key) -> None:
        begins, text = self._guard.begins(event), self._guard.goes_on
        if await self._guard.first_of_text(event) is not None:
            begins = False
            self._refuse("gate.goes_on")
        key = half_width_key(event).key
        if key not in _AT_GATE - _BACK or self._pane.field.has_focus:
            return
        event.stop()
        event.prevent_default()
        if not self._guard.settled or event.time < self._stands_since:
            self._refuse("diff.too_soon")
        elif text or not begins:
            self._refuse("gate.goes_on")
        else:
            self._guard.hold(event, lambda: self._decide(key))

    async def on_paste(self, event: events.Paste) -> None:
        if await self._guard.first_of_text(event) is not None:
            self._refuse("gate.goes_on")

    def _refuse(self, why: str) -> None:
        self._guard.idle()
        self._pane.view.refuse(why)

    async def _decide(self, key: str) -> None:
        self.dismiss(key)

    def action_leave(self) -> None:
        self.dismiss(None)
