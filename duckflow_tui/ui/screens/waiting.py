"""``/queue``: messages that wait for the next turn, to be changed, moved or taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from duckflow_tui.safety.safe_text import visible, visible_line
from duckflow_tui.state.conversation import QueuedMessage
from duckflow_tui.ui.bindings import Surface, keys_of
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.board import Board, board_bindings
from duckflow_tui.ui.screens.edit_proposal import ProposalEditor
from duckflow_tui.words.catalogue import Catalogue


class WaitingBoard(Board):
    """The queue in its order; the first is sent next."""

    SURFACE: ClassVar[Surface] = "waiting"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("waiting")

    class EditWanted(Message):
        """The user wants to change this one."""

        def __init__(self, number: int, message: QueuedMessage) -> None:
            super().__init__()
            self.number = number
            self.message = message

    class Swapped(Message):
        """The user wants these two to change places."""

        def __init__(self, one: QueuedMessage, other: QueuedMessage) -> None:
            super().__init__()
            self.one = one
            self.other = other

    class TakeBack(Message):
        """The user wants this one back in the composer."""

        def __init__(self, message_id: str) -> None:
            super().__init__()
            self.message_id = message_id

    def action_edit(self) -> None:
        queue = self.state.queue
        at = self._place(self.chosen)
        self.post_message(self.EditWanted(at + 1, queue[at]))

    def action_move(self, by: int) -> None:
        queue = self.state.queue
        at = self._place(self.chosen)
        to = at + by
        if 0 <= to < len(queue):
            self.post_message(self.Swapped(queue[at], queue[to]))
            self.choose(queue[to].message_id)  # places keep their ids, texts move

    def action_take_back(self) -> None:
        self.post_message(self.TakeBack(self.chosen))
        if len(self.state.queue) <= 1:
            self.dismiss(None)

    def heading(self) -> str:
        return self.words("waiting.title")

    def empty(self) -> str:
        return self.words("waiting.empty")

    def names(self) -> Sequence[str]:
        return [message.message_id for message in self.state.queue]

    def item(self, name: str, width: int) -> Row:
        palette = palette_of(self)
        at = self._place(name)
        number = f"{at + 1} "
        text = fit(visible_line(self.state.queue[at].text), max(1, width - len(number)))
        return [Segment(number, ink(palette.faint)), Segment(text, ink(palette.text))]

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        text = visible(self.state.queue[self._place(name)].text)
        return rows_of([(text, ink(palette_of(self).quiet))], width)

    def _place(self, name: str) -> int:
        return next(at for at, m in enumerate(self.state.queue) if m.message_id == name)


class EditMessage(ModalScreen[str | None]):
    """A waiting message in an editor; gives the text back, or None when left alone."""

    def __init__(self, words: Catalogue, number: int, text: str) -> None:
        super().__init__()
        self._words = words
        self._number = number
        self._text = text

    def compose(self) -> ComposeResult:
        yield Static(id="edit-title", markup=False)
        editor = ProposalEditor(self._text, soft_wrap=True, tab_behavior="indent")
        editor.cursor_blink = False
        yield editor
        yield Static(id="edit-keys", markup=False)

    def on_mount(self) -> None:
        palette = palette_of(self)
        title = self._words("waiting.editing", number=self._number)
        self.query_one("#edit-title", Static).update(Text(title, style=f"bold {palette.accent}"))
        texts = {"apply": "waiting.edit_apply", "escape": "gate.edit_cancel"}
        hints = [f"{key.label} {self._words(texts[key.action])}" for key in keys_of("editing")]
        keys = Text("   ".join(hints), style=palette.quiet)
        self.query_one("#edit-keys", Static).update(keys)
        editor = self.query_one(TextArea)
        editor.move_cursor(editor.document.end)
        editor.focus()

    def on_proposal_editor_pressed(self, event: ProposalEditor.Pressed) -> None:
        event.stop()
        self.dismiss(self.query_one(TextArea).text if event.action == "apply" else None)
