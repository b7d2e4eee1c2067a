"""``/queue``: the queued messages, to be edited, moved or withdrawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.conversation import QueuedMessage
from duckflow_tui.ui.panes.strips import Row
from duckflow_tui.ui.screens.edit_proposal import EditText, ProposalEditor
from duckflow_tui.ui.screens.list_source import PageAction, StateSource, make_row

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine


class QueueSource(StateSource[QueuedMessage]):
    """The queued messages in order; the first is sent next."""

    TITLE: ClassVar[str] = "waiting.title"
    EMPTY: ClassVar[str] = "waiting.empty"

    def list_items(self) -> Mapping[str, QueuedMessage]:
        return {message.message_id: message for message in self.state.queue}

    def get_main_action(self, item: QueuedMessage) -> PageAction:
        """Return the action that edits the message."""
        return self.make_action("keys.waiting_edit", lambda: self._edit_message(item))

    def list_actions(self, item: QueuedMessage | None) -> Sequence[PageAction]:
        """Return actions that move the message down or up, or back into the composer."""
        if item is None:
            return ()
        at, actions = self.state.queue.index(item), list[PageAction]()
        for label, to in (("keys.waiting_move_down", at + 1), ("keys.waiting_move_up", at - 1)):
            if 0 <= to < len(self.state.queue):
                other = self.state.queue[to]
                actions.append(
                    self.make_session_action(label, lambda e, o=other: self._swap(e, item, o))
                )
        back = self.make_action("keys.waiting_back", lambda: self._take_back(item))
        return [*actions, back]

    def _edit_message(self, message: QueuedMessage) -> None:
        """Open a queued message in the editor."""
        editor = ProposalEditor(message.text, soft_wrap=True, tab_behavior="indent")
        editor.move_cursor(editor.document.end)
        title = self.words("waiting.editing", number=self.state.queue.index(message) + 1)
        screen = EditText(self.words, editor, title, self.words("waiting.edit_apply"))
        self.host.push_screen(screen, lambda text: self._rewrite_message(message, text))

    def _rewrite_message(self, message: QueuedMessage, text: str | None) -> None:
        """Replace a queued message; an empty text withdraws it. If the message was sent meanwhile,
        the text goes to the composer.
        """
        engine = (
            self.host.session.get_writable_engine()
            if text is not None and text != message.text
            else None
        )
        if engine is None or text is None:
            return
        if not text.strip():
            engine.take_back(message.message_id)
        elif not engine.change_queued(message.message_id, text.strip()):
            self.host.bench.composer.append_text(text)
            self.host.status.show_notice("waiting.gone")

    def _swap(self, engine: Engine, one: QueuedMessage, other: QueuedMessage) -> None:
        """Swap the texts of two queued messages, and move the cursor along."""
        engine.change_queued(one.message_id, other.text)
        engine.change_queued(other.message_id, one.text)
        self.page.choose(other.message_id)

    def _take_back(self, message: QueuedMessage) -> None:
        """Move a queued message to the composer; close the page where it was the last."""
        last = len(self.state.queue) <= 1
        self.host.session.take_back(message.message_id)
        if last:
            self.page.dismiss(None)

    def render_row(self, item: QueuedMessage, width: int) -> Row:
        number = f"{self.state.queue.index(item) + 1} "
        palette = self.palette
        return make_row(width, [(number, palette.faint), (visible_line(item.text), palette.text)])

    def render_detail(self, item: QueuedMessage, width: int, room: int) -> list[Row]:
        return self.wrap_text(make_visible(item.text), width)
