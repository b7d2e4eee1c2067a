"""``/doctor``: what this machine has of what the program uses, each thing with its fix."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import BindingType

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.base import Clock
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad, rows_of
from duckflow_tui.ui.screens.board import Board, board_bindings
from duckflow_tui.words.catalogue import Catalogue

#: Name, state, what was found, and the fix where it is not sound.
Found = tuple[str, str, str, str]

_MARKS: Final = {"ok": "✓", "missing": "!", "broken": "✗"}


class HealthBoard(Board[None]):
    """The checks in their order, each as soon as it is done."""

    SURFACE: ClassVar[Surface] = "health"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("health")

    def __init__(self, words: Catalogue, clock: Clock, checks: Iterator[Found]) -> None:
        """``checks`` are made in a thread: each may ask a program or a server."""
        super().__init__(words, clock)
        self._checks = checks
        self._found: dict[str, Found] = {}
        self._done = False

    def on_mount(self) -> None:
        self.run_worker(self._look(), exit_on_error=False)

    async def _look(self) -> None:
        while (check := await asyncio.to_thread(next, self._checks, None)) is not None:
            self._found[f"{len(self._found)}"] = check
            self.invalidate()
        self._done = True
        worst = next((at for at, check in self._found.items() if check[1] == "broken"), "")
        if worst and self._at == 0:
            self.choose(worst)
        self.invalidate()

    def heading(self) -> str:
        return self.words("doctor.title")

    def head(self, width: int) -> list[Row]:
        rows = super().head(width)
        broken = sum(check[1] == "broken" for check in self._found.values())
        key = "looking" if not self._done else "broken" if broken else "sound"
        palette = self._page.palette
        colour = palette.bad if broken else palette.quiet
        said = (self.words(f"doctor.{key}", count=broken), ink(colour))
        return [*rows[:1], *rows_of([said], width), []]

    def empty(self) -> str:
        return ""

    def names(self) -> Sequence[str]:
        return list(self._found)

    def item(self, name: str, width: int) -> Row:
        palette = self._page.palette
        what, state, found, _ = self._found[name]
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

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        palette = self._page.palette
        _, _, found, fix = self._found[name]
        rows = rows_of([(make_visible(found), ink(palette.text))], width)
        return [*rows, *rows_of([(make_visible(fix), ink(palette.accent))], width)] if fix else rows
