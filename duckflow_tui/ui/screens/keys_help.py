"""F1: every key there is, by the place where it works."""

from __future__ import annotations

import os
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Input

from duckflow_tui.state.base import half_width
from duckflow_tui.ui.bindings import KEYS, Key, Surface, keys_of, label_here
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.strips import Row, ink, pad, wrap
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.words.catalogue import Catalogue

GROUPS: Final[tuple[Surface, ...]] = tuple(dict.fromkeys(key.surface for key in KEYS))
LABEL_CELLS: Final = 20  # of the column of keys; a longer label takes a line of its own


class KeysHelp(Dialog[None]):
    """A page to read; typing leaves the keys that fit, Esc, F1 or Enter closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c,f1,enter", "leave", show=False),
        Binding("tab", "manual", show=False, priority=True),
        Binding("down", "scroll(1)", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("pagedown", "scroll(10)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
    ]

    def __init__(self, words: Catalogue) -> None:
        super().__init__()
        self._words = words

    def compose(self) -> ComposeResult:
        with Vertical(classes="card card-page"):
            field = Input(
                placeholder=self._words("pick.keys_hint"), compact=True, classes="card-field"
            )
            field.cursor_blink = False
            yield field
            with VerticalScroll(can_focus=False):
                page = KeyPage()
                page.words = self._words
                yield page

    def on_input_changed(self, event: Input.Changed) -> None:
        page = self.query_one(KeyPage)
        page.wanted = half_width(event.value)
        page.invalidate(layout=True)
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def on_input_submitted(self) -> None:
        self.action_leave()

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_manual(self) -> None:
        self.dismiss(None)
        host_of(self).action_manual()

    def action_leave(self) -> None:
        self.dismiss(None)


class KeyPage(Rows):
    """The registry of keys as text: those that hold all words of the query."""

    wanted = ""  # what was typed

    def lines(self, width: int) -> list[Row]:
        rows: list[Row] = []
        wanted = self.wanted.casefold().split()
        for group in GROUPS:
            title = self.words(f"keys.surface.{group}")
            keys = [key for key in keys_of(group) if self._has_words(key, title, wanted)]
            if not keys:
                continue
            if rows:
                rows.append([])
            rows.append([Segment(title, ink(self.palette.accent, bold=True))])
            for key in keys:
                rows.extend(self._key_rows(key, width))
        return rows or [[Segment(self.words("pick.no_key"), ink(self.palette.quiet))]]

    def _has_words(self, key: Key, title: str, wanted: list[str]) -> bool:
        said = f"{title} {label_here(key, os.environ)} {self.words(key.text)}".casefold()
        return all(word in said for word in wanted)

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
