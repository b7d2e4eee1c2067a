"""Queued messages above the composer, one chip each."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from textual import events

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.conversation import QueuedMessage
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.rows import Rows, two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink

SHOWN: Final = 3  # chips; more are counted
_WITH_KEY: Final = 36  # cells from which there is room for the key that opens them


class QueueChips(Rows):
    """Chips of the queued messages. A click moves a message back into the composer; ``/queue`` can
    do it too.
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._queue: tuple[QueuedMessage, ...] = ()
        self._held = False

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """Return the parts of the state that ``show`` reads."""
        return state.queue, state.turn is None, len(state.messages) if state.queue else 0

    def show(self, state: AgentState) -> None:
        """Show the queued messages. Without a turn, messages newer than all of the chat are left
        out, because they are just being sent.
        """
        last, idle = state.last_turn, state.turn is None
        since = state.messages[-1].at if state.messages else float("-inf")
        self._queue = tuple(m for m in state.queue if not idle or m.at < since)
        # A stop left them waiting: only the user sends them.
        self._held = idle and last is not None and last.outcome == "stopped"
        self.set_class(bool(self._queue), "-open")
        self.invalidate(layout=True)

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        rows: list[Row] = []
        head = self.words("queue.chip")
        opens = self.words("queue.held" if self._held else "queue.open")
        for number, message in enumerate(self._queue[:SHOWN]):
            right: Row = []
            if not number and width >= _WITH_KEY:
                right = [Segment(f"  {opens} ", ink(palette.quiet))]
            used = cell_len(head) + sum(segment.cell_length for segment in right)
            text = fit(visible_line(message.text), max(4, width - used - 6))
            chip: Row = [
                Segment(f" {head} ", ink(palette.accent)),
                Segment(f" {text} ", ink(palette.text, on=palette.raised)),
            ]
            rows.append(two_sided(chip, right, width))
        hidden = len(self._queue) - SHOWN
        if hidden > 0:
            more = self.words("queue.more", count=hidden)
            rows.append([Segment(f" {more}", ink(palette.quiet))])
        return rows

    def on_click(self, event: events.Click) -> None:
        """Move the clicked message back into the composer."""
        if 0 <= event.y < min(len(self._queue), SHOWN):
            host_of(self).session.take_back(self._queue[event.y].message_id)
