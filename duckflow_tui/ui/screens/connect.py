"""``/connect``: what is connected, what else there is, and a way to write an address or a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import BindingType

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.base import Clock
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.connecting import Connecting, Source
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad, rows_of
from duckflow_tui.ui.screens.board import Board, board_bindings
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.llm.connections import Connections


class ConnectBoard(Board[Source | None]):
    """Gives back the line that was taken."""

    SURFACE: ClassVar[Surface] = "connect"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("connect")

    def __init__(
        self, words: Catalogue, clock: Clock, owner: Connecting, connections: Connections
    ) -> None:
        super().__init__(words, clock)
        self._owner = owner
        self._connections = connections

    def on_mount(self) -> None:
        self._owner.changed = self.invalidate

    @property
    def _sources(self) -> dict[str, Source]:
        found = self._owner.later_sources(self._connections.all)
        return {f"{source.kind} {source.describe(self.words)[0]}": source for source in found}

    def heading(self) -> str:
        return self.words("connect.title")

    def head(self, width: int) -> list[Row]:
        said = self._said or (self.words("connect.looking") if self._owner.looking else "")
        rows = super().head(width)[:1]
        return [*rows, *rows_of([(visible_line(said), ink(self._page.palette.quiet))], width), []]

    def empty(self) -> str:
        return ""

    def names(self) -> Sequence[str]:
        return list(self._sources)

    def item(self, name: str, width: int) -> Row:
        palette, sources = self._page.palette, self._sources
        labels = [source.describe(self.words)[0] for source in sources.values()]
        column = min(max(map(cell_len, labels)), width // 2)
        label, about = sources[name].describe(self.words)
        mark = "✓ " if sources[name].kept is not None else "  "
        return [
            Segment(mark, ink(palette.good)),
            Segment(pad(fit(visible_line(label), column), column), ink(palette.text)),
            Segment(f"  {fit(about, max(0, width - column - 4))}", ink(palette.quiet)),
        ]

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        kept = self._sources[name].kept
        if kept is None:
            return []
        uses = [
            self.words(f"connect.does.{role}", model=ref.model)
            for role, ref in self._connections.roles.items()
            if ref.endpoint == kept.name
        ]
        text = visible_line(" · ".join([kept.base_url, *uses]))
        return rows_of([(text, ink(self._page.palette.quiet))], width)

    def action_take(self) -> None:
        self.dismiss(self._sources[self.chosen])

    def action_forget(self) -> None:
        """The second time in a row drops the connection and its key."""
        kept = self._sources[self.chosen].kept
        if kept is None:
            return
        if not self.pressed_twice("forget"):
            self.report(self.words("connect.forget_again", name=kept.name))
            return
        try:
            self._connections.forget_connection(kept.name)
        except OSError as error:
            self.report(self.words("connect.not_kept", reason=error.strerror or str(error)))
        else:
            self.report(self.words("connect.forgotten", name=kept.name))
        self._owner.say_put_aside()

    def action_walk(self, by: int) -> None:
        self._said = ""
        super().action_walk(by)
