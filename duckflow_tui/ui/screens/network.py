"""``/network``: hosts that received requests, with purpose, bytes, and the setting that
caused it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.session.network import beyond_words, host_facts, total_words, use_words
from duckflow_tui.state.usage import HostContact
from duckflow_tui.ui.panes.strips import Row
from duckflow_tui.ui.screens.list_source import PageAction, StateSource, make_row, render_facts
from duckflow_tui.words.figures import size_text


class NetworkSource(StateSource[HostContact]):
    """The hosts in the order of the first contact."""

    TITLE: ClassVar[str] = "network.title"
    EMPTY: ClassVar[str] = "network.none"

    def list_items(self) -> Mapping[str, HostContact]:
        return self.state.hosts

    def list_actions(self, item: HostContact | None) -> Sequence[PageAction]:
        """Return the action that exports the network contacts."""
        export = self.make_session_action(
            "keys.sessions_export", lambda _: self.host.action_export(kind="network")
        )
        return (export,)

    def render_head(self, width: int) -> list[Row]:
        """Render the sums over all hosts."""
        if not self.state.hosts:
            return [[]]
        total = total_words(self.state, self.words)
        return [make_row(width, [(total, self.palette.quiet)]), []]

    def render_empty(self, width: int) -> list[Row]:
        return [[], *self._render_beyond(width)]

    def render_row(self, item: HostContact, width: int) -> Row:
        """Render host, purpose, requests and bytes."""
        palette = self.palette
        figures = self.words(
            "network.row",
            requests=item.requests,
            sent=size_text(item.sent),
            received=size_text(item.received),
        )
        left = [
            (visible_line(item.host), palette.text),
            (f"  {visible_line(use_words(item, self.words))}", palette.quiet),
        ]
        return make_row(width, left, [(f"  {figures} ", palette.quiet)])

    def render_detail(self, item: HostContact, width: int, room: int) -> list[Row]:
        """Render the known facts of the host, and the note about traffic that is not counted."""
        palette = self.palette
        known = host_facts(self.state, item, self.words)
        facts = [(self.words(f"network.fact.{n}"), t, palette.text) for n, t in known.items()]
        return [*render_facts(facts, width, palette), [], *self._render_beyond(width)]

    def _render_beyond(self, width: int) -> list[Row]:
        """Render the note about traffic that is not counted."""
        return self.wrap_text(beyond_words(self.state, self.words), width)
