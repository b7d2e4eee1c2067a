"""``/queue``: messages that wait for the next turn, to be changed, moved or taken back."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.conversation import QueuedMessage
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.edit_proposal import EditText, ProposalEditor
from duckflow_tui.ui.screens.list_page import PageAction, StateSource
from duckflow_tui.words.catalogue import Catalogue


class QueueSource(StateSource):
    """The queue in its order; the first is sent next."""

    def get_main_action(self, row_id: str) -> PageAction:
        return self.make_action("keys.waiting_edit", lambda: self._edit_message(row_id))

    def list_actions(self, row_id: str) -> Sequence[PageAction]:
        if not row_id:
            return ()
        at, actions = self._find_place(row_id), list[PageAction]()
        if at + 1 < len(self.state.queue):
            label = self.words("keys.waiting_move_down")
            actions.append(PageAction(label, lambda: self._move_message(row_id, 1)))
        if at:
            label = self.words("keys.waiting_move_up")
            actions.append(PageAction(label, lambda: self._move_message(row_id, -1)))
        return [
            *actions,
            self.make_action("keys.waiting_back", lambda: self._take_back(row_id)),
        ]

    def _edit_message(self, message_id: str) -> None:
        at = self._find_place(message_id)
        message = self.state.queue[at]
        screen = EditMessage(self.words, at + 1, message.text)
        self.host.push_screen(screen, lambda text: self._rewrite_message(message, text))

    def _rewrite_message(self, message: QueuedMessage, text: str | None) -> None:
        engine = self.host.session.acting() if text is not None and text != message.text else None
        if engine is None or text is None:
            return
        if not text.strip():
            engine.take_back(message.message_id)
        elif not engine.change_queued(message.message_id, text.strip()):
            self.host.bench.composer.append_text(text)
            self.host.status.show_notice("waiting.gone")

    def _move_message(self, message_id: str, by: int) -> None:
        queue = self.state.queue
        at = self._find_place(message_id)
        to = at + by
        engine = self.host.session.acting() if 0 <= to < len(queue) else None
        if engine is not None:  # places keep their ids, texts move
            one, other = queue[at], queue[to]
            engine.change_queued(one.message_id, other.text)
            engine.change_queued(other.message_id, one.text)
            self.page.choose(other.message_id)

    def _take_back(self, message_id: str) -> None:
        last = len(self.state.queue) <= 1
        self.host.session.take_back(message_id)
        if last:
            self.page.dismiss(None)

    def get_title(self) -> str:
        return self.words("waiting.title")

    def get_empty_text(self) -> str:
        return self.words("waiting.empty")

    def list_ids(self) -> Sequence[str]:
        return [message.message_id for message in self.state.queue]

    def render_row(self, row_id: str, width: int) -> Row:
        palette = self.palette
        at = self._find_place(row_id)
        number = f"{at + 1} "
        text = fit(visible_line(self.state.queue[at].text), max(1, width - len(number)))
        return [Segment(number, ink(palette.faint)), Segment(text, ink(palette.text))]

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        text = make_visible(self.state.queue[self._find_place(row_id)].text)
        return rows_of([(text, ink(self.palette.quiet))], width)

    def _find_place(self, name: str) -> int:
        return next(at for at, m in enumerate(self.state.queue) if m.message_id == name)


class EditMessage(EditText):
    """A waiting message, with the cursor at its end."""

    def __init__(self, words: Catalogue, number: int, text: str) -> None:
        editor = ProposalEditor(text, soft_wrap=True, tab_behavior="indent")
        title = words("waiting.editing", number=number)
        super().__init__(words, editor, title, words("waiting.edit_apply"))

    def on_mount(self) -> None:
        self.editor.move_cursor(self.editor.document.end)
