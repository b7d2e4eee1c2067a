"""An editor for a proposed file before it is applied; the gate then shows the new difference. Also
edits queued messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Static, TextArea
from textual.widgets.text_area import Document

from duckflow_tui.safety.safe_text import is_safe
from duckflow_tui.state.gates import FilePreview, Hunk
from duckflow_tui.ui.panes.diff_document import shown_path
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.words.catalogue import Catalogue

_LINES_BEFORE: Final = 4  # lines shown above the first change


def _first_changed_line(preview: FilePreview) -> int:
    """Return the line of the proposed text, from 0, at which its first change begins; 0 without
    hunks.
    """
    if not preview.hunks:
        return 0
    first = preview.hunks[0]
    unchanged = sum(1 for _ in takewhile(lambda line: line.mark == " ", first.lines))
    return max(0, first.new_start - 1 + unchanged)


def leave_out_hunks(
    text: str, preview: FilePreview, out: Iterable[int]
) -> tuple[str, FilePreview] | None:
    """Return the proposed text with the hunks numbered ``out`` reverted, and the preview of the
    other hunks; None where the text is not the one in the preview.
    """
    lines, left = text.split("\n"), frozenset(out)
    end = "\r" if lines[0].endswith("\r") else ""
    kept: list[Hunk] = []
    moved = 0  # lines that the text has more than proposed, up to here
    for number, hunk in enumerate(preview.hunks):
        at = hunk.new_start - 1 + moved if hunk.new_count else hunk.new_start + moved
        new = [line.text for line in hunk.lines if line.mark != "-"]
        if [line.rstrip("\r") for line in lines[at : at + len(new)]] != new:
            return None
        if number in left:
            old = [f"{line.text}{end}" for line in hunk.lines if line.mark != "+"]
            lines[at : at + len(new)] = old
            moved += len(old) - len(new)
            continue
        shifted = tuple(
            line.model_copy(update={"new": line.new + moved}) if line.new else line
            for line in hunk.lines
        )
        kept.append(hunk.model_copy(update={"new_start": hunk.new_start + moved, "lines": shifted}))
    return "\n".join(lines), preview.model_copy(update={"hunks": tuple(kept)})


def can_edit(text: str) -> bool:
    """Whether the editor shows the text completely and returns it unchanged: it shows no control
    characters, and writes one kind of line ending.
    """
    shown = is_safe(text.replace("\r\n", "\n").replace("\t", " "))
    return shown and Document(text).text == text


class ProposalEditor(TextArea):
    """A text editor that tells when it should be closed.

    Ctrl+S and Esc are handled in the order of all keys: a priority binding would run before letters
    typed just earlier, and the returned text would lack them.
    """

    class Pressed(Message):
        """Posted after Ctrl+S (``applies``) or Esc, once all earlier keys were handled."""

        def __init__(self, *, applies: bool) -> None:
            super().__init__()
            self.applies = applies

    def on_key(self, event: events.Key) -> None:
        """Post ``Pressed`` for Ctrl+S and Esc."""
        if event.key in ("ctrl+s", "escape"):
            event.stop()
            event.prevent_default()
            self.post_message(self.Pressed(applies=event.key == "ctrl+s"))


class EditText(Dialog[str | None]):
    """An editor on the whole screen; returns the text, or None after Esc."""

    def __init__(
        self, words: Catalogue, editor: ProposalEditor, title: str, apply: str, *, about: str = ""
    ) -> None:
        """``apply`` is the label of Ctrl+S; ``about`` is shown after the title."""
        super().__init__()
        self.words = words
        self.editor = editor
        self._title, self._about, self._apply = title, about, apply
        editor.cursor_blink = False

    def compose(self) -> ComposeResult:
        palette = palette_of(self)
        title = Text(self._title, style=f"bold {palette.accent}", no_wrap=True)
        if self._about:
            title.append(f"  {self._about}", style=f"bold {palette.text}")
        yield Static(title, id="edit-title", markup=False)
        yield self.editor
        hints = f"Ctrl+S {self._apply}   Esc {self.words('keys.form_cancel')}"
        keys = Text(hints, style=palette.quiet)
        yield Static(keys, id="edit-keys", markup=False)

    def on_mount(self) -> None:
        self.editor.focus()

    def on_proposal_editor_pressed(self, event: ProposalEditor.Pressed) -> None:
        """Close the editor with its text, or after Esc with None."""
        event.stop()
        self.dismiss(self.editor.text if event.applies else None)


class EditProposal(EditText):
    """An editor for a proposed file, scrolled to the first change."""

    def __init__(self, words: Catalogue, preview: FilePreview, text: str) -> None:
        """``text`` must be one for which ``can_edit`` is True."""
        editor = ProposalEditor(
            text, soft_wrap=False, show_line_numbers=True, tab_behavior="indent"
        )
        title, apply = words("gate.edit_title"), words("gate.edit_apply")
        super().__init__(words, editor, title, apply, about=shown_path(preview))
        self._first = _first_changed_line(preview)

    def on_mount(self) -> None:
        """Put the cursor on the first change and scroll to it."""
        first = min(self._first, self.editor.document.line_count - 1)
        self.editor.move_cursor((first, 0))
        # The line stands in the upper part, with what leads to it above.
        self.editor.call_after_refresh(
            self.editor.scroll_to, None, max(0, first - _LINES_BEFORE), animate=False
        )
