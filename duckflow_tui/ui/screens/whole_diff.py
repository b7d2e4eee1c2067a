"""The diff of a gate on the whole screen, where two versions have room side by side."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.panes.diff_document import DiffDocument
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.words.catalogue import Catalogue


class WholeDiff(Dialog[None]):
    """To read, and to take or leave hunks; it answers nothing. Esc or z goes back to the gate."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c,z", "leave", show=False),
        *(
            Binding(",".join(key.keys), "decide", show=False)
            for key in keys_of("gate")
            if key.action != "whole_diff"
        ),
    ]

    def __init__(self, words: Catalogue, document: DiffDocument, at: int) -> None:
        """``at``: the hunk at hand, by its index."""
        super().__init__()
        self._document = document
        self._at = at
        self._title = Static(classes="whole-title", markup=False)
        self._pane = DiffPane(id="whole-diff")
        self._pane.words, self._pane.leads_back = words, True

    def compose(self) -> ComposeResult:
        with Vertical(classes="whole"):
            yield self._title
            yield self._pane

    def on_mount(self) -> None:
        self._pane.open(self._document, at=self._at)
        self._pane.view.focus()

    @property
    def at(self) -> int:
        """The hunk at hand."""
        return self._pane.view.at

    def on_diff_view_changed(self) -> None:
        self._title.update(self._pane.title(self._title.size.width))

    def action_decide(self) -> None:
        """Say where the keys of the gate act."""
        self._pane.view.refuse("diff.decide_in_gate")

    def action_leave(self) -> None:
        self.dismiss(None)
