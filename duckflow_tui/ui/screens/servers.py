"""``/mcp``: MCP servers with their state, tools, prompts, resources and logs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.processes import McpServer, McpTool
from duckflow_tui.ui.panes.live_blocks import tail_rows
from duckflow_tui.ui.panes.strips import Row, fit, ink, prefix_rows
from duckflow_tui.ui.screens.list_source import PageAction, Part, StateSource, make_row

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine
    from duckflow_tui.tools.mcp.servers import McpServers

LOG_LINES: Final = 12  # newest lines of a log
MOST_LISTED: Final = 20  # prompts, and resources, of a server
_SIGNS: Final = {"off": "○", "starting": "◌", "ready": "✓", "failed": "✗", "stopped": "■"}


class ServerSource(StateSource[McpServer]):
    """The MCP servers in the order of the settings."""

    TITLE: ClassVar[str] = "servers.title"
    EMPTY: ClassVar[str] = "servers.none"
    _log: tuple[str, list[str]] = ("", [])  # name of a server, newest lines of its log
    _read_for: McpServer | None = None

    def list_items(self) -> Mapping[str, McpServer]:
        return {server.name: server for server in self.state.servers}

    def list_actions(self, item: McpServer | None) -> Sequence[PageAction]:
        """Return actions that start, stop and restart the server, or sign out of it."""
        if item is None:
            return ()
        sign_out = self._make_server_action("sign_out", lambda s: s.sign_out(item.name))
        signs_out = [sign_out] if item.transport == "http" else []
        return [
            self._make_server_action("start", lambda servers: servers.start(item.name)),
            self._make_server_action("stop", lambda servers: servers.stop(item.name)),
            self._make_server_action("restart", lambda servers: servers.restart(item.name)),
            *signs_out,
        ]

    def _make_server_action(
        self, name: str, change: Callable[[McpServers], Coroutine[Any, Any, None]]
    ) -> PageAction:
        """Return an action that changes a server through ``change``."""

        def act(engine: Engine) -> object:
            """Return the coroutine that changes the server; None without servers."""
            return change(engine.servers) if engine.servers is not None else None

        return self.make_session_action(f"keys.server_{name}", act)

    def fetch_detail(self) -> None:
        """Read the log of the chosen server, if it may have changed."""
        server = self.chosen_item
        if server is not None and (server != self._read_for or self.is_ticking()):
            self._read_for = server
            read = partial(self._read_log, server.name)
            self.page.run_worker(read, exclusive=True, exit_on_error=False)

    async def _read_log(self, name: str) -> None:
        """Read the newest lines of a server's log and draw them if they changed."""
        engine = self.host.session.engine  # none in a replay: the log has changed since
        servers = engine.servers if engine is not None else None
        text = await servers.newest_log_lines(name) if servers is not None else ""
        lines = text.rstrip("\n").split("\n")[-LOG_LINES:] if text.strip() else []
        if (name, lines) != self._log:
            self._log = (name, lines)
            self.page.invalidate()

    def is_ticking(self) -> bool:
        """Whether a server is running, whose log grows without an event."""
        return any(s.status in ("starting", "ready") for s in self.state.servers)

    def render_row(self, item: McpServer, width: int) -> Row:
        """Render name, state, transport, tools and calls of a server."""
        palette, words = self.palette, self.words
        colours = {"ready": palette.good, "failed": palette.bad, "starting": palette.accent}
        color = colours.get(item.status, palette.quiet)
        figures = [item.transport]
        for what, count in (("servers.tools", len(item.tools)), ("turn_line.calls", item.calls)):
            if count:
                figures.append(words(what, count=count))
        left = [
            (f"{_SIGNS[item.status]} ", color),
            (visible_line(item.name), palette.text),
            (f"  {words(f'servers.status.{item.status}')}", color),
        ]
        return make_row(width, left, [(f"  {' · '.join(figures)} ", palette.quiet)])

    def render_detail(self, item: McpServer, width: int, room: int) -> list[Row]:
        """Render error, tools, prompts, resources and the end of the log."""
        palette, words = self.palette, self.words
        rows: list[Row] = []
        if item.error:
            rows.append(self._render_heading(words("servers.problem"), width))
            rows += [*self.wrap_text(make_visible(item.error), width, palette.bad), Row()]
        if item.tools:
            rows.append(self._render_heading(words("servers.offers"), width))
            for tool in item.tools:
                rows += self._render_tool(tool, width)
            if any(tool.read_only for tool in item.tools):
                rows += self.wrap_text(words("servers.hint_means"), width)
            rows.append([])
        for kind, entries in self._list_offers(item):
            rows.append(self._render_heading(words(f"servers.{kind}"), width))
            for entry, about in entries[:MOST_LISTED]:
                parts: list[Part] = [(f"  {visible_line(entry)}", palette.ai)]
                rows.append(make_row(width, [*parts, (f"  {visible_line(about)}", palette.quiet)]))
            if len(entries) > MOST_LISTED:
                more = words("servers.more", count=len(entries) - MOST_LISTED)
                rows.append(make_row(width, [(f"  {more}", palette.faint)]))
            rows.append([])
        if item.transport == "stdio":
            head = words("servers.log_at", path=item.log) if item.log else words("servers.log")
            rows.append(self._render_heading(head, width))
            whose, lines = self._log
            if whose == item.name and lines:
                rows += tail_rows(lines, width, ink(palette.quiet))
            else:
                rows.append(make_row(width, [(words("servers.log_empty"), palette.faint)]))
        return rows

    def _list_offers(self, item: McpServer) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Yield ``prompts`` and ``resources`` with their entries: each as typed in the composer,
        and its description.
        """
        prompts = [(f"/{item.name}:{prompt.name}", prompt.about) for prompt in item.prompts]
        resources = [(f"@{item.name}:{found.uri}", found.about) for found in item.resources]
        for kind, entries in (("prompts", prompts), ("resources", resources)):
            if entries:
                yield kind, entries

    def _render_heading(self, text: str, width: int) -> Row:
        """Render a heading of the details."""
        return make_row(width, [(text, self.palette.quiet)], bold=True)

    def _render_tool(self, tool: McpTool, width: int) -> list[Row]:
        """Render a tool of a server: name and description."""
        palette = self.palette
        name: list[Part] = [(f"  {visible_line(tool.operation)}", palette.ai)]
        if tool.read_only:
            name.append((f"  {self.words('servers.hint')}", palette.quiet))
        rows = [make_row(width, name)]
        if summary := visible_line(tool.summary.strip()):
            text = fit(summary, max(1, 3 * (width - 4)))
            rows += prefix_rows(self.wrap_text(text, width - 4), ("    ", ink(None)))
        return rows
