"""A question that only a deliberate ``y`` answers with yes."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from duckflow_tui.state.base import Clock
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.words.catalogue import Catalogue

SETTLE: Final = 0.3  # seconds in which a key was meant for the place before

Answer = Literal["yes", "no", "past"]


class Confirm(Dialog[Answer]):
    """``y`` is yes, Shift+Tab goes past, every other key leaves things as they are.

    ``about`` is a table of the catalogue with ``title``, ``means``, ``yes`` and ``no``.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("shift+tab", "past", show=False)]

    def __init__(self, words: Catalogue, clock: Clock, about: str, **params: object) -> None:
        super().__init__()
        self._words = words
        self._clock = clock
        self._about = about
        self._params = params
        self._since = clock.monotonic()
        self.typed = ""  # a character that was meant for the composer

    def compose(self) -> ComposeResult:
        palette = palette_of(self)
        with Vertical(classes="card card-small"):
            yield Static(self._text("title"), markup=False, classes="card-title")
            yield Static(self._text("means"), markup=False, classes="card-text")
            yield Static(
                Content.assemble(
                    (" y ", f"bold {palette.on_accent} on {palette.accent}"),
                    (f" {self._text('yes')}   ", palette.text),
                    (f"Esc {self._text('no')}", palette.quiet),
                ),
                markup=False,
            )

    def on_key(self, event: events.Key) -> None:
        if event.key == "shift+tab":
            return
        event.stop()
        if host_of(self).screen is not self:  # an earlier key of the same burst answered
            return
        if event.key == "y" and self._clock.monotonic() - self._since >= SETTLE:
            self.dismiss("yes")
            return
        self.typed = event.character if event.is_printable and event.character else ""
        self.dismiss("no")

    def action_past(self) -> None:
        self.dismiss("past")

    def _text(self, entry: str) -> str:
        return self._words(f"{self._about}.{entry}", **self._params)
