"""An editor for a proposed file before it is applied; the gate then shows the new difference. Also
edits queued messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Static, TextArea
from textual.widgets.text_area import Document

from duckflow_tui.safety.safe_text import is_safe
from duckflow_tui.state.gates import FilePreview, Hunk
from duckflow_tui.ui.panes.diff_document import shown_path
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import ink
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.words.catalogue import Catalogue

_LINES_BEFORE: Final = 4  # lines shown above the first change


def _changed_lines(preview: FilePreview) -> frozenset[int]:
    """Return the lines of the proposed text, from 0, that the proposal adds; for a hunk that only
    removes lines, the line after them.
    """
    added: set[int] = set()
    for hunk in preview.hunks:
        marked = {line.new - 1 for line in hunk.lines if line.mark == "+" and line.new}
        after = hunk.new_start - 1
        for line in hunk.lines:
            if line.mark == "-":
                break
            after += 1
        added |= marked or {max(0, after)}
    return frozenset(added)


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


def _move_marks(changed: frozenset[int], before: list[str], now: list[str]) -> frozenset[int]:
    """Return the marked lines after an edit: edited lines are marked, marks below them
    move along.
    """
    if before == now:
        return changed
    shortest = min(len(before), len(now))
    head = next((n for n in range(shortest) if before[n] != now[n]), shortest)
    tail = next(
        (n for n in range(shortest - head) if before[-1 - n] != now[-1 - n]), shortest - head
    )
    moved = len(now) - len(before)
    kept = {line for line in changed if line < head}
    kept |= {line + moved for line in changed if line >= len(before) - tail}
    return frozenset(kept | set(range(head, len(now) - tail)))


class ProposalEditor(TextArea):
    """A text editor that marks changed lines in the gutter.

    Ctrl+S and Esc are handled in the order of all keys: a priority binding would run before letters
    typed just earlier, and the returned text would lack them.
    """

    class Pressed(Message):
        """Posted after Ctrl+S (``applies``) or Esc, once all earlier keys were handled."""

        def __init__(self, *, applies: bool) -> None:
            super().__init__()
            self.applies = applies

    changed: frozenset[int] = frozenset()  # lines of the proposal that it changes, from 0

    def on_mount(self) -> None:
        self._proposed = self.text.split("\n")
        self._marks: frozenset[int] = self.changed

    def on_text_area_changed(self) -> None:
        """Move the marks along with the text."""
        self._marks = _move_marks(self.changed, self._proposed, self.text.split("\n"))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Render a line, with a mark in the gutter where it is changed."""
        strip = super().render_line(y)
        if self.scroll_offset.y + y not in self._marks:
            return strip
        at = self.gutter_width - 1
        sign = Strip([Segment("▌", ink(palette_of(self).good, on=palette_of(self).raised))], 1)
        return Strip.join([strip.crop(0, at - 1), sign, strip.crop(at)])

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
        lines = range(len(text.split("\n")))
        editor.changed = _changed_lines(preview).intersection(lines)
        title, apply = words("gate.edit_title"), words("gate.edit_apply")
        super().__init__(words, editor, title, apply, about=shown_path(preview))

    def on_mount(self) -> None:
        """Put the cursor on the first change and scroll to it."""
        first = min(self.editor.changed, default=0)
        self.editor.move_cursor((first, 0))
        # The line stands in the upper part, with what leads to it above.
        self.editor.call_after_refresh(
            self.editor.scroll_to, None, max(0, first - _LINES_BEFORE), animate=False
        )
