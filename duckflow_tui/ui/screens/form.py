"""Base classes of pages with text fields: several fields, or one line."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static, TextArea

from duckflow_tui.safety.safe_text import is_safe, make_visible, visible_line
from duckflow_tui.ui.screens.dialog import Dialog, Prose
from duckflow_tui.words.catalogue import Catalogue

T = TypeVar("T")


class Form(Dialog[T], Generic[T]):
    """Fields below their labels; returns the entered values, or None after Esc."""

    #: The key that gives back what was written, and the text of what it does.
    APPLY: ClassVar[tuple[str, str]] = ("Ctrl+S", "keys.form_apply")
    LABELS: ClassVar[str]  # table of the catalogue with the words of the fields

    def __init__(self, words: Catalogue, title: str, first: str) -> None:
        """``first`` is the selector of the field that gets the focus."""
        super().__init__()
        self.words = words
        self._title = title
        self._first = first

    def compose_fields(self) -> ComposeResult:
        """Yield the fields, each below its label."""
        raise NotImplementedError

    def apply(self) -> None:
        """Close the form with the entered values, or show the problem."""
        raise NotImplementedError

    def make_label(self, name: str) -> Static:
        """Return the label above a field."""
        return Static(self.words(f"{self.LABELS}.{name}"), markup=False, classes="form-label")

    def show_problem(self, problem: str, **params: str) -> None:
        """Show a problem below the fields, by its entry in ``LABELS``."""
        line = self.query_one(".form-problem", Static)
        line.update(self.words(f"{self.LABELS}.{problem}", **params))
        line.display = True

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Static(self._title, markup=False, classes="card-title")
            yield from self.compose_fields()
            yield Prose(classes="form-problem")
            keys = (self.APPLY, ("Tab", "keys.form_next"), ("Esc", "keys.form_cancel"))
            hints = [f"{label} {self.words(text)}" for label, text in keys]
            yield Static("   ".join(hints), markup=False, classes="form-keys")

    def on_mount(self) -> None:
        """Stop cursors from blinking and focus the first field."""
        for field in self.query(Input).results(Input):
            field.cursor_blink = field.select_on_focus = False
        for area in self.query(TextArea).results(TextArea):
            area.cursor_blink = False
        self.query_one(".form-problem").display = False
        self.query_one(self._first).focus()

    def on_key(self, event: events.Key) -> None:
        """Handle Ctrl+S (apply), Esc (cancel) and Tab (next field)."""
        if event.key in ("ctrl+s", "escape", "tab"):
            event.stop()
            event.prevent_default()
            if event.key == "ctrl+s":
                self.apply()
            elif event.key == "escape":
                self.dismiss(None)
            else:
                self.focus_next()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.apply()


class LineForm(Dialog[str | None]):
    """A single text field; returns the text, which may be empty, or None after Esc.

    ``about`` is a table of the catalogue with ``title`` and ``hint``, and with ``because`` for a
    text about a ``subject``, which is shown above the field.
    """

    def __init__(self, words: Catalogue, about: str, text: str = "", *, subject: str = "") -> None:
        super().__init__()
        self._words = words
        self._about = about
        self._text = visible_line(text)
        self._subject = subject

    def compose(self) -> ComposeResult:
        words, about = self._words, self._about
        with Vertical(classes="card card-small"):
            yield Static(words(f"{about}.title"), markup=False, classes="card-title")
            if self._subject:
                yield Prose(visible_line(self._subject), classes="card-text")
                yield Static(words(f"{about}.because"), markup=False, classes="form-label")
            field = Input(self._text, compact=True, classes="card-field", select_on_focus=False)
            field.cursor_blink = False
            yield field
            hint = "form-keys" if self._subject else ""
            yield Static(words(f"{about}.hint"), markup=False, classes=hint)

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


def make_writable(text: str, *, one_line: bool = False) -> str:
    """Return the text with hidden characters made visible, so that a field can show it."""
    if one_line:
        return text if is_safe(text) and "\n" not in text else visible_line(text)
    return text if is_safe(text) else make_visible(text)
