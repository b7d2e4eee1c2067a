"""Ctrl+F: a search field; matches are marked in the searched pane."""

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
    """Searches a pane while the user types: Enter goes to the next match, ↑ to the one before, Esc
    ends the search.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "leave", show=False),
        Binding("enter,down,ctrl+f", "go(1)", show=False, priority=True),
        Binding("up", "go(-1)", show=False),
    ]

    def __init__(self, words: Catalogue, pane: DiffView | Transcript, below: int = 1) -> None:
        """``below`` is the number of screen rows below the search field."""
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
        """Search for the text, and go to the newest match."""
        self._at = 0
        self._found = self._pane.search(event.value, self._count_more)
        if self._found:
            self.action_go(-1)  # the newest is what one looks for most
        else:
            self._show_count(event.value)

    def _count_more(self) -> None:
        """Update the count while a long chat is still being searched."""
        found = self._found
        self._at, self._found = self._pane.search_position
        if self._found and not found:
            self.action_go(-1)
        else:
            self._show_count(self.query_one(Input).value)

    def action_go(self, step: int) -> None:
        """Go to the next match, or with -1 to the one before."""
        if self._found:
            self._at = self._pane.next_match(step)
        self._show_count(self.query_one(Input).value)

    def action_leave(self) -> None:
        """End the search and close the page."""
        self._pane.search("")
        self.dismiss(None)

    def _show_count(self, query: str) -> None:
        """Show the number of the present match and of all matches."""
        text = ""
        if query:
            text = (
                self._words("find.count", at=self._at, count=self._found)
                if self._found
                else self._words("find.none")
            )
        self.query_one(".find-count", Static).update(text)
