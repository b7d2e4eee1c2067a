"""``/mcp``: servers of tools, how they are, what they offer, what they wrote to their log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, Literal

from rich.segment import Segment

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.processes import McpServer, McpTool
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.live_blocks import tail_rows
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, prefix_rows, rows_of
from duckflow_tui.ui.screens.list_page import PageAction, StateSource
from duckflow_tui.words.catalogue import Catalogue

LOG_LINES: Final = 12  # newest lines of a log
_SIGNS: Final = {"off": "○", "starting": "◌", "ready": "✓", "failed": "✗", "stopped": "■"}

Wish = Literal["start", "stop", "restart"]


class ServerSource(StateSource):
    """The servers in the order of the settings."""

    _log: tuple[str, list[str]] = ("", [])  # of which server, its newest lines
    _read_for: tuple[object, ...] = ()

    def list_actions(self, row_id: str) -> Sequence[PageAction]:
        if not row_id:
            return ()
        wishes: tuple[Wish, ...] = ("start", "stop", "restart")
        return [
            self.make_action(f"keys.server_{wish}", partial(self._change_server, row_id, wish))
            for wish in wishes
        ]

    def _change_server(self, name: str, wish: Wish) -> None:
        engine = self.host.session.acting()
        servers = engine.servers if engine is not None else None
        if servers is not None:
            wishes = {"start": servers.start, "stop": servers.stop, "restart": servers.restart}
            self.host.spawn(wishes[wish](name), "server")

    def fetch_detail(self) -> None:
        server = self._find_server(self.page.chosen)
        wanted = (self.page.chosen, server)
        if server is not None and (wanted != self._read_for or self.is_ticking()):
            self._read_for = wanted
            self.page.run_worker(self._read_log(server.name), exclusive=True, exit_on_error=False)

    def get_title(self) -> str:
        return self.words("servers.title")

    def get_empty_text(self) -> str:
        return self.words("servers.none")

    def list_ids(self) -> Sequence[str]:
        return [server.name for server in self.state.servers]

    def is_ticking(self) -> bool:
        # A log grows without an event.
        return any(s.status in ("starting", "ready") for s in self.state.servers)

    def render_row(self, row_id: str, width: int) -> Row:
        palette, words = self.palette, self.words
        server = self._find_server(row_id)
        if server is None:
            return []
        color = _pick_colour(server, palette)
        left: Row = [
            Segment(f"{_SIGNS[server.status]} ", ink(color)),
            Segment(visible_line(server.name), ink(palette.text)),
            Segment(f"  {words(f'servers.status.{server.status}')}", ink(color)),
        ]
        figures = [server.transport]
        if server.tools:
            figures.append(_format_count(words, "tool", len(server.tools)))
        if server.calls:
            figures.append(_format_count(words, "call", server.calls))
        right: Row = [Segment(f"  {' · '.join(figures)} ", ink(palette.quiet))]
        return two_sided(left, right, width)

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        palette, words = self.palette, self.words
        server = self._find_server(row_id)
        if server is None:
            return []
        rows: list[Row] = []
        if server.error:
            rows.append(_render_heading(words("servers.problem"), palette))
            rows += rows_of([(make_visible(server.error), ink(palette.bad))], width)
            rows.append([])
        if server.tools:
            rows.append(_render_heading(words("servers.offers"), palette))
            for tool in server.tools:
                rows += self._tool_rows(tool, width)
            if any(tool.read_only for tool in server.tools):
                rows += rows_of([(words("servers.hint_means"), ink(palette.quiet))], width)
            rows.append([])
        if server.transport == "stdio":
            rows += self._log_rows(server, width)
        return rows

    def _tool_rows(self, tool: McpTool, width: int) -> list[Row]:
        palette = self.palette
        name: Row = [Segment(fit(visible_line(tool.operation), width - 2), ink(palette.ai))]
        if tool.read_only:
            name.append(Segment(f"  {self.words('servers.hint')}", ink(palette.quiet)))
        rows = prefix_rows([name], ("  ", ink(None)))
        summary = visible_line(tool.summary.strip())
        if summary:
            text = fit(summary, max(1, 3 * (width - 4)))
            rows += prefix_rows(
                rows_of([(text, ink(palette.quiet))], width - 4), ("    ", ink(None))
            )
        return rows

    def _log_rows(self, server: McpServer, width: int) -> list[Row]:
        palette, words = self.palette, self.words
        head = words("servers.log_at", path=server.log) if server.log else words("servers.log")
        rows = [_render_heading(fit(head, width), palette)]
        whose, lines = self._log
        if whose == server.name and lines:
            return rows + tail_rows(lines, width, ink(palette.quiet))
        return [*rows, [Segment(words("servers.log_empty"), ink(palette.faint))]]

    async def _read_log(self, name: str) -> None:
        engine = self.host.session.engine  # a replay has none: the log is another one by now
        servers = engine.servers if engine is not None else None
        text = await servers.newest_log_lines(name) if servers is not None else ""
        lines = text.rstrip("\n").split("\n")[-LOG_LINES:] if text.strip() else []
        if (name, lines) != self._log:
            self._log = (name, lines)
            self.page.invalidate()

    def _find_server(self, name: str) -> McpServer | None:
        return next((s for s in self.state.servers if s.name == name), None)


def _render_heading(text: str, palette: Palette) -> Row:
    return [Segment(text, ink(palette.quiet, bold=True))]


def _format_count(words: Catalogue, what: str, count: int) -> str:
    return words(f"servers.{what}" if count == 1 else f"servers.{what}s", count=count)


def _pick_colour(server: McpServer, palette: Palette) -> str:
    colours = {"ready": palette.good, "failed": palette.bad, "starting": palette.accent}
    return colours.get(server.status, palette.quiet)
