"""The diff of a gate on the whole screen, where two versions have room side by side."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from duckflow_tui.ui.panes.diff_document import DiffDocument
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.words.catalogue import Catalogue


class WholeDiff(Dialog[None]):
    """To read, and to take or leave hunks; it answers nothing. Esc or z goes back to the gate."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c,z", "leave", show=False)]

    def __init__(self, words: Catalogue, document: DiffDocument) -> None:
        super().__init__()
        self._document = document
        self._title = Static(classes="whole-title", markup=False)
        self._pane = DiffPane(id="whole-diff")
        self._pane.words = words

    def compose(self) -> ComposeResult:
        with Vertical(classes="whole"):
            yield self._title
            yield self._pane

    def on_mount(self) -> None:
        self._pane.open(self._document)
        self._pane.view.focus()

    def on_diff_view_changed(self) -> None:
        self._title.update(self._pane.title(self._title.size.width))

    def action_leave(self) -> None:
        self.dismiss(None)
