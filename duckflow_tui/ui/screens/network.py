"""``/network``: hosts that were sent requests, what for, how many bytes, and what made it so."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.session.network import beyond_words, host_facts, total_words, use_words
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.list_page import PageAction, StateSource, render_facts
from duckflow_tui.words.figures import size_text


class NetworkSource(StateSource):
    """The hosts in the order of the first contact."""

    def list_actions(self, row_id: str) -> Sequence[PageAction]:
        return (self.make_action("keys.sessions_export", self._start_export),)

    def _start_export(self) -> None:
        if self.host.session.acting() is not None:
            self.host.action_export(kind="network")

    def get_title(self) -> str:
        return self.words("network.title")

    def render_head(self, width: int) -> list[Row]:
        if not self.state.hosts:
            return [[]]
        total = fit(total_words(self.state, self.words), width)
        return [[Segment(total, ink(self.palette.quiet))], []]

    def get_empty_text(self) -> str:
        return self.words("network.none")

    def render_empty(self, width: int) -> list[Row]:
        return [[], *self._render_beyond(width)]

    def list_ids(self) -> Sequence[str]:
        return list(self.state.hosts)

    def render_row(self, row_id: str, width: int) -> Row:
        palette, host = self.palette, self.state.hosts[row_id]
        figures = self.words(
            "network.row",
            requests=host.requests,
            sent=size_text(host.sent),
            received=size_text(host.received),
        )
        left: Row = [
            Segment(visible_line(host.host), ink(palette.text)),
            Segment(f"  {visible_line(use_words(host, self.words))}", ink(palette.quiet)),
        ]
        return two_sided(left, [Segment(f"  {figures} ", ink(palette.quiet))], width)

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        palette = self.palette
        known = host_facts(self.state, self.state.hosts[row_id], self.words)
        facts = [(self.words(f"network.fact.{n}"), t, palette.text) for n, t in known.items()]
        return [*render_facts(facts, width, palette), [], *self._render_beyond(width)]

    def _render_beyond(self, width: int) -> list[Row]:
        said = beyond_words(self.state, self.words)
        return rows_of([(said, ink(self.palette.quiet))], width)
