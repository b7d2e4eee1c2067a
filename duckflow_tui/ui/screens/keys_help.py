"""F1: every key there is, by the place where it works."""

from __future__ import annotations

import os
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll

from duckflow_tui.ui.bindings import KEYS, Key, Surface, keys_of, label_here
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.strips import Row, ink, pad, wrap
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.words.catalogue import Catalogue

GROUPS: Final[tuple[Surface, ...]] = tuple(dict.fromkeys(key.surface for key in KEYS))
LABEL_CELLS: Final = 20  # of the column of keys; a longer label takes a line of its own


class KeysHelp(Dialog[None]):
    """A page to read; Esc, F1, Enter or q closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c,f1,q,enter", "leave", show=False),
    ]

    def __init__(self, words: Catalogue) -> None:
        super().__init__()
        self._words = words

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="card card-page"):
            page = KeyPage()
            page.words = self._words
            yield page

    def action_leave(self) -> None:
        self.dismiss(None)


class KeyPage(Rows):
    """The registry of keys as text."""

    def lines(self, width: int) -> list[Row]:
        rows: list[Row] = []
        for group in GROUPS:
            if rows:
                rows.append([])
            title = self.words(f"keys.surface.{group}")
            rows.append([Segment(title, ink(self.palette.accent, bold=True))])
            for key in keys_of(group):
                rows.extend(self._key_rows(key, width))
        return rows

    def _key_rows(self, key: Key, width: int) -> list[Row]:
        palette = self.palette
        label = f"  {label_here(key, os.environ)}"
        indent = LABEL_CELLS + 2
        text = self.words(key.text)
        parts = [text[start:end] for start, end in wrap(text, max(10, width - indent))]
        rows: list[Row] = []
        head = pad(label, indent)
        if cell_len(label) >= indent:
            rows.append([Segment(label, ink(palette.text))])
            head = " " * indent
        for part in parts:
            rows.append([Segment(head, ink(palette.text)), Segment(part, ink(palette.quiet))])
            head = " " * indent
        return rows
