"""``/stats``: what came of the work in this folder, month by month."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from rich.segment import Segment

from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.facts import Figures, group_by_month
from duckflow_tui.ui.panes.strips import Row, fit, ink
from duckflow_tui.ui.screens.list_page import ListSource, render_facts
from duckflow_tui.ui.session_words import figure_rows, figure_words


class StatsSource(ListSource):
    """A table of the months. Sessions are read in a thread; until then it says so."""

    def __init__(self, catalog: Catalog, workspace: str) -> None:
        self._catalog = catalog
        self._workspace = workspace
        self._months: Mapping[str, Figures] | None = None  # None: not read yet

    def on_open(self) -> None:
        self.page.run_worker(self._read_months())

    async def _read_months(self) -> None:
        found = await asyncio.to_thread(self._catalog.list_all, self._workspace)
        self._months = group_by_month(found)
        self.page.invalidate()

    def get_title(self) -> str:
        return self.words("stats.title")

    def get_empty_text(self) -> str:
        return self.words("sessions.reading" if self._months is None else "stats.none")

    def render_head(self, width: int) -> list[Row]:
        if not self._months:
            return [[]]
        return [[], [Segment(fit(f"  {self._table[0]}", width), ink(self.palette.quiet))]]

    def list_ids(self) -> Sequence[str]:
        return list(self._months or ())

    def render_row(self, row_id: str, width: int) -> Row:
        row = self._table[1 + self.list_ids().index(row_id)]
        return [Segment(fit(row, width), ink(self.palette.text))]

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        palette, months = self.palette, self._months or {}
        shown = figure_words(months[row_id], self.words)
        facts = [(self.words(f"stats.of.{one}"), text, palette.text) for one, text in shown.items()]
        return render_facts(facts, width, palette)

    @property
    def _table(self) -> list[str]:
        return figure_rows(self._months or {}, self.words)
