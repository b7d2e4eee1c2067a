"""``/stats``: what came of the work in this folder, month by month."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.binding import BindingType

from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.facts import Figures, group_by_month
from duckflow_tui.state.base import Clock
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.panes.strips import Row, fit, ink
from duckflow_tui.ui.screens.board import Board, board_bindings, fact_rows
from duckflow_tui.ui.session_words import figure_rows, figure_words
from duckflow_tui.words.catalogue import Catalogue


class StatsBoard(Board[None]):
    """A table of the months. Sessions are read in a thread; until then it says so."""

    SURFACE: ClassVar[Surface] = "stats"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("stats")

    def __init__(self, words: Catalogue, clock: Clock, catalog: Catalog, workspace: str) -> None:
        super().__init__(words, clock)
        self._catalog = catalog
        self._workspace = workspace
        self._months: Mapping[str, Figures] | None = None  # None: not read yet

    def on_mount(self) -> None:
        self.run_worker(self._read())

    async def _read(self) -> None:
        found = await asyncio.to_thread(self._catalog.list_all, self._workspace)
        self._months = group_by_month(found)
        self.invalidate()

    def heading(self) -> str:
        return self.words("stats.title")

    def empty(self) -> str:
        return self.words("sessions.reading" if self._months is None else "stats.none")

    def head(self, width: int) -> list[Row]:
        rows = super().head(width)
        if self._months:
            head = fit(f"  {self._table[0]}", width)
            rows.append([Segment(head, ink(self._page.palette.quiet))])
        return rows

    def names(self) -> Sequence[str]:
        return list(self._months or ())

    def item(self, name: str, width: int) -> Row:
        row = self._table[1 + self.names().index(name)]
        return [Segment(fit(row, width), ink(self._page.palette.text))]

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        palette, months = self._page.palette, self._months or {}
        shown = figure_words(months[name], self.words)
        facts = [(self.words(f"stats.of.{one}"), text, palette.text) for one, text in shown.items()]
        return fact_rows(facts, width, palette)

    @property
    def _table(self) -> list[str]:
        return figure_rows(self._months or {}, self.words)
