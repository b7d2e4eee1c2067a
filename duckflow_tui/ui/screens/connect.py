"""``/connect``: the list of connections and of servers and providers that can be connected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.ui.connecting import Connecting, Source
from duckflow_tui.ui.panes.strips import Row, fit, pad
from duckflow_tui.ui.screens.list_source import ListSource, PageAction, make_row

if TYPE_CHECKING:
    from duckflow_tui.llm.connections import Connections


class ConnectSource(ListSource[Source]):
    """The connections and possible sources; the page returns the chosen one."""

    TITLE: ClassVar[str] = "connect.title"

    def __init__(self, owner: Connecting, connections: Connections) -> None:
        self._owner = owner
        self._connections = connections

    def on_open(self) -> None:
        """Have the page drawn again whenever another source is found."""
        self._owner.changed = self.page.invalidate

    def list_items(self) -> Mapping[str, Source]:
        """Return stored connections and possible sources, by kind and name."""
        found = self._owner.later_sources(self._connections.all)
        return {f"{source.kind} {source.describe(self.words)[0]}": source for source in found}

    def render_head(self, width: int) -> list[Row]:
        """Render a line that says whether servers are being looked for."""
        said = self.words("connect.looking") if self._owner.looking else ""
        return [*self.wrap_text(said, width), []]

    def render_row(self, item: Source, width: int) -> Row:
        """Render name and description; stored connections are ticked."""
        palette, words = self.palette, self.words
        labels = [source.describe(words)[0] for source in self.list_items().values()]
        column = min(max(map(cell_len, labels)), width // 2)
        label, about = item.describe(words)
        left = [
            ("✓ " if item.kept is not None else "  ", palette.good),
            (pad(fit(visible_line(label), column), column), palette.text),
            (f"  {about}", palette.quiet),
        ]
        return make_row(width, left)

    def render_detail(self, item: Source, width: int, room: int) -> list[Row]:
        """Render address and roles of a stored connection."""
        kept = item.kept
        if kept is None:
            return []
        uses = [
            self.words(f"connect.does.{role}", model=ref.model)
            for role, ref in self._connections.roles.items()
            if ref.endpoint == kept.name
        ]
        return self.wrap_text(visible_line(" · ".join([kept.base_url, *uses])), width)

    def get_main_action(self, item: Source) -> PageAction:
        """Return the action that closes the page with this source."""
        return self.make_action("keys.connect_take", lambda: self.page.dismiss(item))

    def list_actions(self, item: Source | None) -> Sequence[PageAction]:
        """Return the action that deletes a stored connection, after a question."""
        kept = item.kept if item is not None else None
        if kept is None:
            return ()
        asks = self.words("connect.forget_again", name=kept.name)

        def ask() -> None:
            """Ask whether to delete the connection."""
            self.page.ask_first(asks, lambda: self._forget_connection(kept.name))

        return (self.make_action("keys.connect_forget", ask),)

    def _forget_connection(self, name: str) -> None:
        """Delete the connection and its key, and report the result."""
        try:
            self._connections.forget_connection(name)
        except OSError as error:
            self.page.report(self.words("connect.not_kept", reason=error.strerror or str(error)))
        else:
            self.page.report(self.words("connect.forgotten", name=name), wrong=False)
        self._owner.say_put_aside()
