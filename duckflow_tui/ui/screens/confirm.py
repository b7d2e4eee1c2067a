"""A small page with a question to which only the key ``y`` means yes."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from duckflow_tui.state.base import Clock
from duckflow_tui.ui.panes.key_guard import KeyGuard, is_for_composer
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.screens.dialog import Dialog, Prose
from duckflow_tui.ui.textual_private import half_width_key
from duckflow_tui.words.catalogue import Catalogue

Answer = Literal["yes", "no", "past"]


class Confirm(Dialog[Answer | None]):
    """Asks a question: ``y`` gives "yes", Shift+Tab "past", every other key "no". Text that is
    typed here goes to the composer and gives None.

    ``about`` is a table of the catalogue with ``title``, ``means``, ``yes`` and ``no``.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("shift+tab", "past", show=False)]

    def __init__(self, words: Catalogue, clock: Clock, about: str, **params: object) -> None:
        super().__init__()
        self._words = words
        self._about = about
        self._params = params
        self._guard = KeyGuard(self, clock, self.hand_on, self._show_standing)
        self._guard.begin_settling()

    def compose(self) -> ComposeResult:
        palette = palette_of(self)
        with Vertical(classes="card card-small"):
            yield Static(self._entry_text("title"), markup=False, classes="card-title")
            yield Prose(self._entry_text("means"), classes="card-text")
            yield Static(
                Content.assemble(
                    (" y ", f"bold {palette.on_accent} on {palette.accent}"),
                    (f" {self._entry_text('yes')}   ", palette.text),
                    (f"Esc {self._entry_text('no')}", palette.quiet),
                ),
                markup=False,
            )

    async def on_key(self, event: events.Key) -> None:
        """Answer by ``y``, or by any other key; the guard hands typed text to the composer."""
        if event.key == "shift+tab":
            return
        event.stop()
        key = half_width_key(event).key
        if not self.is_current:  # an earlier key of the same burst closed it
            self.hand_on([event] if is_for_composer(event) else [])
        elif not await self._guard.handle_key(
            event, self._answer_yes if key == "y" else self._answer_no
        ):
            self.dismiss("no")

    def on_paste(self, event: events.Paste) -> None:
        """Pass the paste to the guard, which hands it to the composer."""
        event.stop()
        self._guard.take_paste(event)

    async def _answer_yes(self) -> None:
        """Close the page with "yes"."""
        self.dismiss("yes")

    async def _answer_no(self) -> None:
        """Close the page with "no"."""
        self.dismiss("no")

    def _show_standing(self) -> None:
        """Show in the border how the key guard treats the keys now."""
        if self.is_mounted:
            said = self._guard.standing_words(self._words, self._entry_text("yes"))
            self.query_one(".card").border_subtitle = said

    def action_past(self) -> None:
        """Close the page with "past"."""
        self.dismiss("past")

    def _entry_text(self, entry: str) -> str:
        """Return the text of an entry of the question's table."""
        return self._words(f"{self._about}.{entry}", **self._params)
