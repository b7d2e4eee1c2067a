"""``/ps``: background commands, their output, and the key that ends one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.processes import BackgroundProcess
from duckflow_tui.ui.panes.live_blocks import silence_words, tail_rows
from duckflow_tui.ui.panes.strips import Row, ink
from duckflow_tui.ui.screens.list_source import PageAction, StateSource, make_row
from duckflow_tui.words.figures import clock_text, time_words

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine

KEPT_LINES: Final = 400  # newest lines of output that can be scrolled
_COMMAND_ROWS: Final = 4  # of a long command


class ProcessSource(StateSource[BackgroundProcess]):
    """Background commands: running ones first, newest at the top, then those that ended. The user's
    own commands are listed while they run.
    """

    TITLE: ClassVar[str] = "ps.title"
    EMPTY: ClassVar[str] = "ps.none"
    NEWEST_LAST: ClassVar[bool] = True

    def list_items(self) -> Mapping[str, BackgroundProcess]:
        newest = sorted((*self._list_own(), *self.state.processes), key=lambda p: -p.started_at)
        return {p.process_id: p for p in sorted(newest, key=lambda p: not p.is_running)}

    def list_actions(self, item: BackgroundProcess | None) -> Sequence[PageAction]:
        """Return the action that ends a running command."""
        if item is None or not item.is_running:
            return ()

        async def end_process(engine: Engine) -> None:
            """End the command, or show that it had ended."""
            if not await engine.end_process(item.process_id):
                self.host.status.show_notice("ps.over")

        return (self.make_session_action("keys.process_end", end_process),)

    def is_ticking(self) -> bool:
        return any(process.is_running for process in self.list_items().values())

    def render_row(self, item: BackgroundProcess, width: int) -> Row:
        """Render a command with its state and time."""
        palette = self.palette
        how, color = self._describe_state(item)
        sign = ("▶ ", palette.ai) if item.is_running else ("■ ", palette.faint)
        left = [sign, (visible_line(item.command), palette.text)]
        return make_row(width, left, [(f"  {how} ", color)])

    def render_note(self, item: BackgroundProcess, width: int) -> list[Row]:
        """Render a long command completely, its start, folder and id."""
        palette, command = self.palette, visible_line(item.command)
        since = time_words(self.clock.now() - item.started_at, self.words)
        is_own = any(own.process_id == item.process_id for own in self._list_own())
        where = "ps.own" if is_own else "ps.started"
        place = self.words(where, time=since, cwd=item.cwd, id=item.process_id)
        rows: list[Row] = []
        if cell_len(command) > width // 2:  # its row may have cut it
            rows = self.wrap_text(command, width, palette.text)[:_COMMAND_ROWS]
        return [*rows, make_row(width, [(place, palette.faint)])]

    def render_detail(self, item: BackgroundProcess, width: int, room: int) -> list[Row]:
        """Render the newest output, and how long a running command has been silent."""
        palette, words = self.palette, self.words
        rows: list[Row] = []
        output = self.state.outputs.get(item.process_id)
        if output is None:
            key = "ps.nothing_printed" if item.is_running else "ps.printed_nothing"
            rows.append(make_row(width, [(words(key), palette.quiet)]))
        else:
            lines = output.newest_lines(KEPT_LINES + 1)
            if len(lines) > KEPT_LINES:
                lines = lines[1:]
                rows.append(make_row(width, [(words("output.earlier"), palette.faint)]))
            rows += tail_rows(lines, width, ink(palette.quiet))
        if item.is_running:
            spoke_at = output.at if output is not None and output.at else item.started_at
            if said := silence_words(spoke_at, self.clock.now(), words):
                rows.append(make_row(width, [(said, palette.accent)]))
        return rows

    def _describe_state(self, process: BackgroundProcess) -> tuple[str, str]:
        """Return the state of a command in words, and its colour."""
        palette, words = self.palette, self.words
        end = process.ended_at if process.ended_at is not None else self.clock.now()
        time = clock_text(end - process.started_at)
        if process.is_running:
            return f"{words('ps.running')} {time}", palette.ai
        code = process.exit_code
        if code is None:
            how = words("ps.unknown")
        elif code < 0:
            how = words("ps.signal", number=-code)
        else:
            how = words("output.exit", code=code)
        if process.ended_by:
            how = f"{how} {words(f'ps.by.{process.ended_by}')}"
        bad = process.ended_by == "itself" and code != 0
        return f"{how} · {time}", palette.bad if bad else palette.quiet

    def _list_own(self) -> tuple[BackgroundProcess, ...]:
        """Return the user's own running commands (``!``) as processes, with the call's id as
        process id.
        """
        return tuple(
            BackgroundProcess(
                process_id=running.call_id,
                call_id=running.call_id,
                command=str(running.args.get("command", "")),
                cwd=str(running.args.get("cwd", "")),
                started_at=running.at,
            )
            for running in self.state.running
            if running.by_user
        )
