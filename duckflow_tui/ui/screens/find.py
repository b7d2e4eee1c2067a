"""Ctrl+F: a line to search with; what it finds is marked where it stands."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.transcript import Transcript
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.words.catalogue import Catalogue


class Find(Dialog[None]):
    """Typing searches, Enter goes on, ↑ goes back, Esc ends the search."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "leave", show=False),
        Binding("enter,down,ctrl+f", "go(1)", show=False, priority=True),
        Binding("up", "go(-1)", show=False),
    ]

    def __init__(self, words: Catalogue, pane: DiffView | Transcript, below: int = 1) -> None:
        """``below`` is how many lines of the screen stay free under the line."""
        super().__init__()
        self._below = below
        self._words = words
        self._pane = pane
        self._found = 0
        self._at = 0

    def compose(self) -> ComposeResult:
        line = Horizontal(classes="find")
        line.styles.margin = (0, 0, self._below, 0)
        with line:
            yield Static(self._words("find.label"), markup=False, classes="find-label")
            field = Input(placeholder=self._words("find.hint"), compact=True, classes="find-field")
            field.cursor_blink = False
            yield field
            yield Static("", markup=False, classes="find-count")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._at = 0
        self._found = self._pane.search(event.value, self._count_more)
        if self._found:
            self.action_go(-1)  # the newest is what one looks for most
        else:
            self._show_count(event.value)

    def _count_more(self) -> None:
        """A long chat is read piece by piece."""
        found = self._found
        self._at, self._found = self._pane.search_position
        if self._found and not found:
            self.action_go(-1)
        else:
            self._show_count(self.query_one(Input).value)

    def action_go(self, step: int) -> None:
        if self._found:
            self._at = self._pane.next_match(step)
        self._show_count(self.query_one(Input).value)

    def action_leave(self) -> None:
        self._pane.search("")
        self.dismiss(None)

    def _show_count(self, query: str) -> None:
        text = ""
        if query:
            text = (
                self._words("find.count", at=self._at, count=self._found)
                if self._found
                else self._words("find.none")
            )
        self.query_one(".find-count", Static).update(text)
