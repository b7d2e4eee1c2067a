"""``/queue``: messages that wait for the next turn, to be changed, moved or taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.binding import BindingType

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.conversation import QueuedMessage
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.board import StateBoard, board_bindings
from duckflow_tui.ui.screens.edit_proposal import EditText, ProposalEditor
from duckflow_tui.words.catalogue import Catalogue


class WaitingBoard(StateBoard):
    """The queue in its order; the first is sent next."""

    SURFACE: ClassVar[Surface] = "waiting"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("waiting")

    def action_edit(self) -> None:
        at = self._place(self.chosen)
        message = self.state.queue[at]
        screen = EditMessage(self.words, at + 1, message.text)
        self.host.push_screen(screen, lambda text: self._rewrite(message, text))

    def _rewrite(self, message: QueuedMessage, text: str | None) -> None:
        engine = self.host.session.acting() if text is not None and text != message.text else None
        if engine is None or text is None:
            return
        if not text.strip():
            engine.take_back(message.message_id)
        elif not engine.change_queued(message.message_id, text.strip()):
            self.host.bench.composer.add(text)
            self.host.status.show_notice("waiting.gone")

    def action_move(self, by: int) -> None:
        queue = self.state.queue
        at = self._place(self.chosen)
        to = at + by
        engine = self.host.session.acting() if 0 <= to < len(queue) else None
        if engine is not None:  # places keep their ids, texts move
            one, other = queue[at], queue[to]
            engine.change_queued(one.message_id, other.text)
            engine.change_queued(other.message_id, one.text)
            self.choose(other.message_id)

    def action_take_back(self) -> None:
        last = len(self.state.queue) <= 1
        self.host.session.take_back(self.chosen)
        if last:
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
        text = make_visible(self.state.queue[self._place(name)].text)
        return rows_of([(text, ink(palette_of(self).quiet))], width)

    def _place(self, name: str) -> int:
        return next(at for at, m in enumerate(self.state.queue) if m.message_id == name)


class EditMessage(EditText):
    """A waiting message, with the cursor at its end."""

    def __init__(self, words: Catalogue, number: int, text: str) -> None:
        editor = ProposalEditor(text, soft_wrap=True, tab_behavior="indent")
        title = words("waiting.editing", number=number)
        super().__init__(words, editor, title, words("waiting.edit_apply"))

    def on_mount(self) -> None:
        self.editor.move_cursor(self.editor.document.end)
