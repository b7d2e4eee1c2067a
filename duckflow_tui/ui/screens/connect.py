"""``/connect``: what is connected, what else there is, and a way to write an address or a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.ui.connecting import Connecting, Source
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad, rows_of
from duckflow_tui.ui.screens.list_page import ListSource, PageAction

if TYPE_CHECKING:
    from duckflow_tui.llm.connections import Connections


class ConnectSource(ListSource):
    """Gives back the line that was taken."""

    def __init__(self, owner: Connecting, connections: Connections) -> None:
        self._owner = owner
        self._connections = connections

    def on_open(self) -> None:
        self._owner.changed = self.page.invalidate

    @property
    def _sources(self) -> dict[str, Source]:
        found = self._owner.later_sources(self._connections.all)
        return {f"{source.kind} {source.describe(self.words)[0]}": source for source in found}

    def get_title(self) -> str:
        return self.words("connect.title")

    def render_head(self, width: int) -> list[Row]:
        said = self.words("connect.looking") if self._owner.looking else ""
        return [*rows_of([(said, ink(self.palette.quiet))], width), []]

    def list_ids(self) -> Sequence[str]:
        return list(self._sources)

    def render_row(self, row_id: str, width: int) -> Row:
        palette, sources = self.palette, self._sources
        labels = [source.describe(self.words)[0] for source in sources.values()]
        column = min(max(map(cell_len, labels)), width // 2)
        label, about = sources[row_id].describe(self.words)
        mark = "✓ " if sources[row_id].kept is not None else "  "
        return [
            Segment(mark, ink(palette.good)),
            Segment(pad(fit(visible_line(label), column), column), ink(palette.text)),
            Segment(f"  {fit(about, max(0, width - column - 4))}", ink(palette.quiet)),
        ]

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        kept = self._sources[row_id].kept
        if kept is None:
            return []
        uses = [
            self.words(f"connect.does.{role}", model=ref.model)
            for role, ref in self._connections.roles.items()
            if ref.endpoint == kept.name
        ]
        text = visible_line(" · ".join([kept.base_url, *uses]))
        return rows_of([(text, ink(self.palette.quiet))], width)

    def get_main_action(self, row_id: str) -> PageAction:
        source = self._sources[row_id]
        return self.make_action("keys.connect_take", lambda: self.page.dismiss(source))

    def list_actions(self, row_id: str) -> Sequence[PageAction]:
        kept = self._sources[row_id].kept if row_id else None
        if kept is None:
            return ()
        asks = self.words("connect.forget_again", name=kept.name)
        return (
            self.make_action(
                "keys.connect_forget",
                lambda: self.page.ask_first(asks, lambda: self._forget_connection(kept.name)),
            ),
        )

    def _forget_connection(self, name: str) -> None:
        """Drop the connection and its key."""
        try:
            self._connections.forget_connection(name)
        except OSError as error:
            self.page.report(self.words("connect.not_kept", reason=error.strerror or str(error)))
        else:
            self.page.report(self.words("connect.forgotten", name=name), wrong=False)
        self._owner.say_put_aside()
