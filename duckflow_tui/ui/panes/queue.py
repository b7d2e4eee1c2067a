"""Messages that wait for the next turn, one chip each, right above the composer."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.message import Message

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.messages import QueuedMessage
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.strips import Row, fit, ink

SHOWN: Final = 3  # chips; more are counted


class QueueChips(Rows):
    """A click on a chip takes the message back into the composer; so does ``/queue``."""

    class TakeBack(Message):
        """The user wants this one back."""

        def __init__(self, message_id: str) -> None:
            super().__init__()
            self.message_id = message_id

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._queue: tuple[QueuedMessage, ...] = ()

    def show(self, state: AgentState) -> None:
        """Take over what the state says now."""
        self._queue = state.queue
        self.set_class(bool(self._queue), "-open")
        self.again(layout=True)

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        rows: list[Row] = []
        head = self.words("queue.chip")
        for message in self._queue[:SHOWN]:
            text = fit(visible_line(message.text), max(4, width - cell_len(head) - 6))
            rows.append(
                [
                    Segment(f" {head} ", ink(palette.accent)),
                    Segment(f" {text} ", ink(palette.text, on=palette.raised)),
                ]
            )
        hidden = len(self._queue) - SHOWN
        if hidden > 0:
            more = self.words("queue.more", count=hidden)
            rows.append([Segment(f" {more}", ink(palette.quiet))])
        return rows

    def on_click(self, event: events.Click) -> None:
        if 0 <= event.y < min(len(self._queue), SHOWN):
            self.post_message(self.TakeBack(self._queue[event.y].message_id))
