"""``/stats``: figures of the workspace's sessions by month."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.facts import Figures, group_by_month
from duckflow_tui.session.words import figure_rows, figure_words
from duckflow_tui.ui.panes.strips import Row
from duckflow_tui.ui.screens.list_source import ListSource, make_row, render_facts

#: A line of the table, and its figures.
Month = tuple[str, Figures]


class StatsSource(ListSource[Month]):
    """A table of months. The sessions are read in a thread; until then the page says that
    it reads.
    """

    TITLE: ClassVar[str] = "stats.title"

    def __init__(self, catalog: Catalog, workspace: str) -> None:
        self._catalog = catalog
        self._workspace = workspace
        self._months: Mapping[str, Figures] | None = None  # None: not read yet

    def on_open(self) -> None:
        """Start to read the sessions."""
        self.page.run_worker(self._read_months)

    async def _read_months(self) -> None:
        """Read the workspace's sessions and sum their figures by month."""
        found = await asyncio.to_thread(self._catalog.list_all, self._workspace)
        self._months = group_by_month(found)
        self.page.invalidate()

    def get_empty_text(self) -> str:
        return self.words("sessions.reading" if self._months is None else "stats.none")

    def render_head(self, width: int) -> list[Row]:
        """Render the heads of the table."""
        if not self._months:
            return [[]]
        heads = figure_rows(self._months, self.words)[0]
        return [[], make_row(width, [(f"  {heads}", self.palette.quiet)])]

    def list_items(self) -> Mapping[str, Month]:
        """Return a row of the table and the figures for each month."""
        months = self._months or {}
        lines = figure_rows(months, self.words)[1:]
        return {
            name: (line, figures)
            for line, (name, figures) in zip(lines, months.items(), strict=False)
        }

    def render_row(self, item: Month, width: int) -> Row:
        return make_row(width, [(item[0], self.palette.text)])

    def render_detail(self, item: Month, width: int, room: int) -> list[Row]:
        palette = self.palette
        shown = figure_words(item[1], self.words)
        facts = [(self.words(f"stats.of.{one}"), text, palette.text) for one, text in shown.items()]
        return render_facts(facts, width, palette)
