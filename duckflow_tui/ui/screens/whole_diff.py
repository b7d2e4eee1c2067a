"""A gate's diff on the whole screen, where two versions fit side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from duckflow_tui.state.base import Clock
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.diff_document import DiffDocument
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.gate_words import AT_ONCE, SELECTS
from duckflow_tui.ui.panes.key_guard import KeyGuard
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.ui.textual_private import bindings_of, half_width_key
from duckflow_tui.words.catalogue import Catalogue

#: The gate's keys; its key for this page is not an answer.
_AT_GATE: Final = {name for key in keys_of("gate") for name in key.keys}
_BACK: Final = {name for key in keys_of("gate") if key.action == "whole_diff" for name in key.keys}
_TEXTS: Final = {name: key.text for key in keys_of("gate", "diff") for name in key.keys}


class WholeDiff(Dialog[str]):
    """Shows a gate's diff to read it and to select hunks. A key of the gate closes the page, which
    returns it, so that the gate acts on it; Esc and z return None.

    Keys pass a ``KeyGuard``; text that is typed here goes to the composer.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c,z", "leave", show=False)]

    def __init__(
        self,
        words: Catalogue,
        clock: Clock,
        document: DiffDocument,
        view: DiffView,
        typed: Sequence[events.Key],
    ) -> None:
        """``view`` shows the document so far; its hunk and its display options are taken over.
        ``typed`` are the keys just before: a text that goes on here begins with them.
        """
        super().__init__()
        self._words = words
        self._document = document
        self._at = view.at
        self._typed = typed
        self._does = ""  # the newest key, in words
        self._guard = KeyGuard(self, clock, self.hand_on, self._refresh_title)
        self._title = Static(classes="whole-title", markup=False)
        self._pane = DiffPane(id="whole-diff")
        self._pane.view.on_change(self._refresh_title)
        self._pane.view.split, self._pane.view.wrap = view.split, view.wrap
        self._pane.words, self._pane.leads_back, self._pane.decides = words, True, True

    def compose(self) -> ComposeResult:
        with Vertical(classes="whole"):
            yield self._title
            yield self._pane

    def on_mount(self) -> None:
        """Show the document at the current hunk, and begin to guard keys."""
        self._pane.open(self._document, at=self._at)
        self._pane.view.focus()
        self._guard.begin_settling()
        self._guard.go_on_with(self._typed)

    @property
    def at(self) -> int:
        """The index of the current hunk."""
        return self._pane.view.at

    def _refresh_title(self) -> None:
        """Show the title, or how the key guard treats the last key."""
        said = self._guard.standing_words(self._words, self._does)
        self._title.update(said or self._pane.make_title(self._title.size.width))

    async def on_key(self, event: events.Key) -> None:
        """Let the guard decide on a key of the gate or of the diff."""
        if self._pane.field.has_focus:
            return
        key = half_width_key(event).key
        view = self._pane.view
        act, self._does = None, self._words(_TEXTS[key]) if key in _TEXTS else ""
        if key in _AT_GATE - _BACK:
            act = partial(self._answer_gate, key)
        elif bindings_of(view, key) or bindings_of(self, key):
            act = partial(self._run_key, key)
        selects = key in SELECTS
        if await self._guard.handle_key(event, act, at_once=key in AT_ONCE, selects=selects):
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """Pass the paste to the guard, which hands it to the composer."""
        event.stop()
        self._guard.take_paste(event)

    async def _run_key(self, key: str) -> None:
        """Run the binding of a key, of the page or of the diff."""
        for widget in (self, self._pane.view):
            for binding in bindings_of(widget, key):
                await host_of(self).run_action(binding.action, widget)
                return

    async def _answer_gate(self, key: str) -> None:
        """Close the page and return the key."""
        self.dismiss(key)

    def action_leave(self) -> None:
        """Close the page without an answer."""
        self.dismiss(None)
