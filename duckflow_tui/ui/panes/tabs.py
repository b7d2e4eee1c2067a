"""Titles of panes, and the row of tabs where they share one place."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Final, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.reactive import var
from textual.strip import Strip

from duckflow_tui.ui.panes.rows import Part, Rows, arranged
from duckflow_tui.ui.panes.strips import Row, ink

#: Text needs one to resolve the names of styles; nothing is printed to it.
_CONSOLE: Final = Console(file=io.StringIO(), color_system="truecolor")

PaneName = Literal["chat", "plan", "diff", "vitals"]


def name_key(pane: PaneName, *, vitals_on: bool) -> str:
    """Key of what a pane is called; with the gauges off, the goal is what theirs still holds."""
    return f"pane.{pane}" if vitals_on or pane != "vitals" else "pane.goal"


class PaneTitle(Rows):
    """``Diff  src/a.py  +3 −2``: the pane's name and what it holds; lit while it has the focus."""

    lit: var[bool] = var(False)
    vitals_on: var[bool] = var(True)
    more: var[str] = var("")  # behind the name

    def __init__(
        self,
        pane: PaneName,
        maker: Callable[[int], Text] | None = None,
        *,
        id: str | None = None,
    ) -> None:
        """``maker`` gives the whole title for a width, when the name alone does not say it."""
        super().__init__(id=id)
        self._pane: PaneName = pane
        self._maker = maker

    def watch_lit(self) -> None:
        self.again()

    def watch_vitals_on(self) -> None:
        self.again()

    def watch_more(self) -> None:
        self.again()

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        on = palette.bars if self.lit else palette.raised
        fill = ink(palette.text, on=on)
        if self._maker is not None:
            text = self._maker(width - 2)
            base = text.style if isinstance(text.style, Style) else Style.parse(text.style)
            made = [
                Segment(s.text, fill + base + (s.style or Style())) for s in text.render(_CONSOLE)
            ]
            return [[Segment(" ", fill), *Strip(made).adjust_cell_length(width - 1, fill)]]
        said = self.words(name_key(self._pane, vitals_on=self.vitals_on))
        name = Part(said, ink(palette.accent, bold=True))
        more = [Part(self.more, ink(palette.quiet), gap=2)] if self.more else []
        return [arranged([name, *more], [], width, fill)]


class Tabs(Rows):
    """The names of the panes that share a place; a click or their key shows one."""

    no_colour: var[bool] = var(False)  # the tab that is shown cannot stand out by its colour
    shown: var[str] = var("plan")
    waiting: var[bool] = var(False)  # something in the diff asks for the user
    vitals_on: var[bool] = var(True)

    class Chosen(Message):
        """The user clicked a name."""

        def __init__(self, pane: PaneName) -> None:
            super().__init__()
            self.pane: PaneName = pane

    def __init__(self, panes: tuple[PaneName, ...], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._panes = panes
        self._places: list[tuple[int, int, PaneName]] = []

    def watch_shown(self) -> None:
        self.again()

    def watch_waiting(self) -> None:
        self.again()

    def watch_vitals_on(self) -> None:
        self.again()

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        row: Row = [Segment(" ", ink(None, on=palette.raised))]
        at = 1
        self._places = []
        for pane in self._panes:
            mark = "◆ " if pane == "diff" and self.waiting else ""
            text = f" {mark}{self.words(name_key(pane, vitals_on=self.vitals_on))} "
            here = pane == self.shown
            style = ink(
                palette.accent if here or mark else palette.quiet,
                on=palette.background if here else palette.raised,
                bold=here,
                underline=here and self.no_colour,
            )
            row.append(Segment(text, style))
            self._places.append((at, at + cell_len(text), pane))
            at += cell_len(text)
        rest = Segment(" " * max(0, width - at), ink(None, on=palette.raised))
        return [[*row, rest]]

    def on_click(self, event: events.Click) -> None:
        for start, end, pane in self._places:
            if start <= event.x < end:
                self.post_message(self.Chosen(pane))
