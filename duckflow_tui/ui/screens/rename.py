"""A name for a session."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.words.catalogue import Catalogue


class RenameForm(ModalScreen[str | None]):
    """Gives back the name, empty for none, or None where Esc left it."""

    def __init__(self, words: Catalogue, name: str) -> None:
        super().__init__()
        self._words = words
        self._name = visible_line(name)

    def compose(self) -> ComposeResult:
        with Vertical(classes="card card-small"):
            yield Static(self._words("sessions.rename.title"), markup=False, classes="card-title")
            field = Input(self._name, compact=True, classes="card-field", select_on_focus=False)
            field.cursor_blink = False
            yield field
            yield Static(self._words("sessions.rename.hint"), markup=False, classes="form-keys")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_key(self, event: events.Key) -> None:
        if event.key in ("escape", "ctrl+c"):
            event.stop()
            event.prevent_default()
            self.dismiss(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value.strip())
