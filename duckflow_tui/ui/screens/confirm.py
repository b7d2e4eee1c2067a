"""A question that only a deliberate ``y`` answers with yes."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from duckflow_tui.state.base import Clock
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.composer import NEWLINES
from duckflow_tui.ui.panes.key_guard import HOLD, SETTLE, composes, writes
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.screens.dialog import Dialog, Prose
from duckflow_tui.words.catalogue import Catalogue

Answer = Literal["yes", "no", "past"]


class Confirm(Dialog[Answer]):
    """``y`` is yes, Shift+Tab goes past, every other key leaves things as they are.

    A ``y`` that others come right behind is the first letter of a text. ``typed`` is then all of
    that text, so that the composer gets the whole or nothing.

    ``about`` is a table of the catalogue with ``title``, ``means``, ``yes`` and ``no``.
    """

    ASKS: ClassVar[bool] = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("shift+tab", "past", show=False)]

    def __init__(self, words: Catalogue, clock: Clock, about: str, **params: object) -> None:
        super().__init__()
        self._words = words
        self._clock = clock
        self._about = about
        self._params = params
        self._since = clock.monotonic()
        self.typed: list[events.Key] = []  # meant for the composer
        self._yes = False  # the first of them is a yes, if it stays alone
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        palette = palette_of(self)
        with Vertical(classes="card card-small"):
            yield Static(self._text("title"), markup=False, classes="card-title")
            yield Prose(self._text("means"), classes="card-text")
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
        if event.key == "escape" or not (self.typed or writes(event)):
            if self._yes:  # taken back
                self.typed.clear()
            self.dismiss("no")
            return
        settled = self._clock.monotonic() - self._since >= SETTLE
        self._yes = event.key == "y" and settled and not self.typed
        if writes(event) or composes(event) or event.key in NEWLINES:
            self.typed.append(event)
        if self._timer is not None:
            self._timer.stop()
        # Behind the keys that were read already and are on their way here.
        app = host_of(self)
        self._timer = self.set_timer(
            HOLD, lambda: app.call_later(lambda: self.call_later(self._end, len(self.typed)))
        )

    def _end(self, count: int) -> None:
        """No key came for a moment: answer, if it is still so."""
        if count != len(self.typed):
            return
        if self._yes:
            self.typed.clear()
            self.dismiss("yes")
        else:
            self.dismiss("no")

    def action_past(self) -> None:
        self.dismiss("past")

    def _text(self, entry: str) -> str:
        return self._words(f"{self._about}.{entry}", **self._params)
