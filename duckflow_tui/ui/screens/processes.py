"""``/ps``: commands in the background, what they print, and the key that ends one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.processes import BackgroundProcess
from duckflow_tui.ui.panes.blocks import whole_seconds
from duckflow_tui.ui.panes.live_blocks import silence_words, tail_rows
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.list_page import PageAction, StateSource

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine

KEPT_LINES: Final = 400  # of the newest output that can be scrolled through
_COMMAND_ROWS: Final = 4  # of a long command


class ProcessSource(StateSource):
    """Those that run first, the newest of them at the top; then those that ended. The user's own
    commands are among them while they run.
    """

    NEWEST_LAST: ClassVar[bool] = True

    def list_actions(self, row_id: str) -> Sequence[PageAction]:
        process = self._find_process(row_id)
        if process is None or not process.is_running:
            return ()
        return (self.make_action("keys.process_end", lambda: self._end_process(row_id)),)

    def _end_process(self, process_id: str) -> None:
        engine = self.host.session.acting()
        if engine is not None:
            self.host.spawn(self._end_and_report(engine, process_id), "process")

    async def _end_and_report(self, engine: Engine, process_id: str) -> None:
        if not await engine.end_process(process_id):
            self.host.status.show_notice("ps.over")

    def get_title(self) -> str:
        return self.words("ps.title")

    def get_empty_text(self) -> str:
        return self.words("ps.none")

    def list_ids(self) -> Sequence[str]:
        newest = sorted((*self._list_own(), *self.state.processes), key=lambda p: -p.started_at)
        return [p.process_id for p in sorted(newest, key=lambda p: not p.is_running)]

    def is_ticking(self) -> bool:
        return any(process.is_running for process in (*self._list_own(), *self.state.processes))

    def render_row(self, row_id: str, width: int) -> Row:
        palette = self.palette
        process = self._find_process(row_id)
        if process is None:
            return []
        how, color = self._describe_state(process)
        sign, sign_color = ("▶", palette.ai) if process.is_running else ("■", palette.faint)
        right: Row = [Segment(f"  {how} ", ink(color))]
        room = max(1, width - 2 - cell_len(right[0].text))
        command = fit(visible_line(process.command), room)
        left: Row = [Segment(f"{sign} ", ink(sign_color)), Segment(command, ink(palette.text))]
        return two_sided(left, right, width)

    def render_note(self, row_id: str, width: int) -> list[Row]:
        process = self._find_process(row_id)
        if process is None:
            return []
        since = whole_seconds(max(0.0, self.clock.now() - process.started_at), self.words)
        where = (
            "ps.own" if any(own.process_id == row_id for own in self._list_own()) else "ps.started"
        )
        place = self.words(where, time=since, cwd=process.cwd, id=row_id)
        palette, command = self.palette, visible_line(process.command)
        rows: list[Row] = []
        if cell_len(command) > width // 2:  # its row may have cut it
            rows = rows_of([(command, ink(palette.text))], width)[:_COMMAND_ROWS]
        return [*rows, [Segment(fit(place, width), ink(palette.faint))]]

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        palette, words = self.palette, self.words
        process = self._find_process(row_id)
        if process is None:
            return []
        quiet, faint = ink(palette.quiet), ink(palette.faint)
        now = self.clock.now()
        rows: list[Row] = []
        output = self.state.outputs.get(row_id)
        if output is None:
            key = "ps.nothing_printed" if process.is_running else "ps.printed_nothing"
            rows.append([Segment(fit(words(key), width), quiet)])
        else:
            lines = output.newest_lines(KEPT_LINES + 1)
            if len(lines) > KEPT_LINES:
                lines = lines[1:]
                rows.append([Segment(words("ps.earlier"), faint)])
            rows += tail_rows(lines, width, quiet)
        spoke_at = output.at if output is not None else 0.0
        said = (
            silence_words(spoke_at or process.started_at, now, words) if process.is_running else ""
        )
        if said:
            rows.append([Segment(fit(said, width), ink(palette.accent))])
        return rows

    def _describe_state(self, process: BackgroundProcess) -> tuple[str, str]:
        """How it is, and the colour of that."""
        palette, words = self.palette, self.words
        end = process.ended_at if process.ended_at is not None else self.clock.now()
        time = whole_seconds(max(0.0, end - process.started_at), words)
        if process.is_running:
            return f"{words('ps.running')} {time}", palette.ai
        code = process.exit_code
        if code is None:
            how = words("ps.unknown")
        elif code < 0:
            how = words("ps.signal", number=-code)
        else:
            how = words("ps.exit", code=code)
        if process.ended_by:
            how = f"{how} {words(f'ps.by.{process.ended_by}')}"
        bad = process.ended_by == "itself" and code != 0
        return f"{how} · {time}", palette.bad if bad else palette.quiet

    def _find_process(self, name: str) -> BackgroundProcess | None:
        known = (*self._list_own(), *self.state.processes)
        return next((p for p in known if p.process_id == name), None)

    def _list_own(self) -> tuple[BackgroundProcess, ...]:
        """The user's own commands with ``!``, by the ids of the calls."""
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
