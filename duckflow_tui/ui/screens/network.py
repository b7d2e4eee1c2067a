"""``/network``: hosts that were sent requests, what for, how many bytes, and what made it so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.binding import BindingType

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.session.network import beyond_words, host_facts, total_words, use_words
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.panes.rows import palette_of, two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.board import StateBoard, board_bindings, fact_rows
from duckflow_tui.words.figures import size_text


class NetworkBoard(StateBoard):
    """The hosts in the order of the first contact."""

    SURFACE: ClassVar[Surface] = "network"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("network")

    def action_export(self) -> None:
        if self.host.session.acting() is not None:
            self.host.action_export(kind="network")

    def heading(self) -> str:
        return self.words("network.title")

    def head(self, width: int) -> list[Row]:
        palette = palette_of(self)
        total = (fit(total_words(self.state, self.words), width), ink(palette.quiet))
        rows = [*super().head(width)[:1], *([[Segment(*total)]] if self.state.hosts else [])]
        said = visible_line(self._said)
        return [*rows, *(rows_of([(said, ink(palette.quiet))], width) if said else []), []]

    def empty(self) -> str:
        return self.words("network.none")

    def about_none(self, width: int) -> list[Row]:
        return [[], *self._beyond(width)]

    def names(self) -> Sequence[str]:
        return list(self.state.hosts)

    def item(self, name: str, width: int) -> Row:
        palette, host = palette_of(self), self.state.hosts[name]
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

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        palette = palette_of(self)
        known = host_facts(self.state, self.state.hosts[name], self.words)
        facts = [(self.words(f"network.fact.{n}"), t, palette.text) for n, t in known.items()]
        return [*fact_rows(facts, width, palette), [], *self._beyond(width)]

    def _beyond(self, width: int) -> list[Row]:
        said = beyond_words(self.state, self.words)
        return rows_of([(said, ink(palette_of(self).quiet))], width)
