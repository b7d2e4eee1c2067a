"""Edit a proposed file before it is applied; the gate then shows the difference anew."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from duckflow_tui.state.gates import FilePreview
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.i18n import Catalogue
from duckflow_tui.ui.panes.diff_rows import shown_path
from duckflow_tui.ui.panes.theme_palette import palette_of


class ProposalEditor(TextArea):
    """Acts on the keys of the surface in their turn: a priority binding would overtake letters
    that were typed just before, and what it hands on would lack them.
    """

    class Pressed(Message):
        """A key of the surface, after everything typed before it."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def on_key(self, event: events.Key) -> None:
        for key in keys_of("editing"):
            if event.key in key.keys:
                event.stop()
                event.prevent_default()
                self.post_message(self.Pressed(key.action))


class EditProposal(ModalScreen[str | None]):
    """The whole proposed text in an editor; gives the text back, or None when left alone."""

    def __init__(self, words: Catalogue, preview: FilePreview, text: str) -> None:
        """``text`` holds no control characters but tabs and line endings."""
        super().__init__()
        self._words = words
        self._preview = preview
        self._text = text

    def compose(self) -> ComposeResult:
        yield Static(id="edit-title", markup=False)
        editor = ProposalEditor(
            self._text, soft_wrap=False, show_line_numbers=True, tab_behavior="indent"
        )
        editor.cursor_blink = False
        yield editor
        yield Static(id="edit-keys", markup=False)

    def on_mount(self) -> None:
        palette = palette_of(self)
        title = Text(self._words("gate.edit_title"), style=f"bold {palette.accent}", no_wrap=True)
        title.append(f"  {shown_path(self._preview)}", style=f"bold {palette.text}")
        self.query_one("#edit-title", Static).update(title)
        hints = [f"{key.label} {self._words(key.text)}" for key in keys_of("editing")]
        keys = Text("   ".join(hints), style=palette.quiet)
        self.query_one("#edit-keys", Static).update(keys)
        self.query_one(TextArea).focus()

    def on_proposal_editor_pressed(self, event: ProposalEditor.Pressed) -> None:
        event.stop()
        self.dismiss(self.query_one(TextArea).text if event.action == "apply" else None)
