"""``/doctor``: what this machine has of what the program uses, each thing with its fix."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad, rows_of
from duckflow_tui.ui.screens.list_page import ListSource

#: Name, state, what was found, and the fix where it is not sound.
Found = tuple[str, str, str, str]

_MARKS: Final = {"ok": "✓", "missing": "!", "broken": "✗"}


class HealthSource(ListSource):
    """The checks in their order, each as soon as it is done."""

    def __init__(self, checks: Iterator[Found]) -> None:
        """``checks`` are made in a thread: each may ask a program or a server."""
        self._checks = checks
        self._found: dict[str, Found] = {}
        self._done = False

    def on_open(self) -> None:
        self.page.run_worker(self._run_checks(), exit_on_error=False)

    async def _run_checks(self) -> None:
        while (check := await asyncio.to_thread(next, self._checks, None)) is not None:
            self._found[f"{len(self._found)}"] = check
            self.page.invalidate()
        self._done = True
        worst = next((at for at, check in self._found.items() if check[1] == "broken"), "")
        if worst and self.page.chosen == "0":
            self.page.choose(worst)
        self.page.invalidate()

    def get_title(self) -> str:
        return self.words("doctor.title")

    def render_head(self, width: int) -> list[Row]:
        broken = sum(check[1] == "broken" for check in self._found.values())
        key = "looking" if not self._done else "broken" if broken else "sound"
        palette = self.palette
        colour = palette.bad if broken else palette.quiet
        said = (self.words(f"doctor.{key}", count=broken), ink(colour))
        return [*rows_of([said], width), []]

    def list_ids(self) -> Sequence[str]:
        return list(self._found)

    def render_row(self, row_id: str, width: int) -> Row:
        palette = self.palette
        what, state, found, _ = self._found[row_id]
        colours = {"ok": palette.good, "missing": palette.accent, "broken": palette.bad}
        names = [self.words(f"doctor.name.{check[0]}") for check in self._found.values()]
        column = max(map(cell_len, names))
        row = [
            Segment(f"{_MARKS[state]} ", ink(colours[state])),
            Segment(pad(self.words(f"doctor.name.{what}"), column), ink(palette.text)),
        ]
        room = width - column - 4
        if room > 0:
            row.append(Segment(f"  {fit(visible_line(found), room)}", ink(palette.quiet)))
        return row

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        palette = self.palette
        _, _, found, fix = self._found[row_id]
        rows = rows_of([(make_visible(found), ink(palette.text))], width)
        return [*rows, *rows_of([(make_visible(fix), ink(palette.accent))], width)] if fix else rows
