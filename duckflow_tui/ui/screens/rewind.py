"""``/rewind`` and ``/fork``: the user's messages, and what came of each, to go back to."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.session.rewind import Point, list_points
from duckflow_tui.state.base import name_files, one_line
from duckflow_tui.state.operations import FileChange
from duckflow_tui.state.store import Store
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad, rows_of
from duckflow_tui.ui.screens.list_page import PageAction, StateSource
from duckflow_tui.ui.session_words import format_day

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine

NOW: Final = "now"  # the row of the conversation as it is
#: both: back, and what came of files is undone; files: only that.
Way = Literal["back", "both", "files"]

_LONGEST: Final = 400  # characters of a message in the list
_SHOWN: Final = 4_000  # below it


class MessageSource(StateSource):
    """The user's messages, the newest at the top, to fork from or to go back to.

    ``/fork`` begins where the conversation stands and its Enter forks; ``/rewind`` begins at the
    last message and its Enter goes back. Files stay, unless the user says otherwise.
    """

    def __init__(self, store: Store, *, forks: bool) -> None:
        super().__init__(store)
        self._forks = forks
        self._seen: tuple[object, ...] = ()
        self._points: dict[str, Point] = {}

    def on_open(self) -> None:
        ids = self.list_ids()
        if not self._forks and len(ids) > 1:
            self.page.choose(ids[1])

    def get_main_action(self, row_id: str) -> PageAction | None:
        if self._forks:
            return self.make_action("keys.rewind_fork", lambda: self._start_fork(row_id))
        if row_id == NOW:
            return None
        return self.make_action("keys.rewind_back", lambda: self._start_back(row_id, "back"))

    def list_actions(self, row_id: str) -> Sequence[PageAction]:
        if self._forks or not row_id:
            return ()
        fork = self.make_action("keys.rewind_fork", lambda: self._start_fork(row_id))
        point = self._points.get(row_id)
        if point is None or not point.files:
            return (fork,)
        return (
            self.make_action("keys.rewind_files", lambda: self._ask_for_files(row_id, "both")),
            self.make_action(
                "keys.rewind_only_files", lambda: self._ask_for_files(row_id, "files")
            ),
            fork,
        )

    def _start_fork(self, row_id: str) -> None:
        engine = self.host.session.acting()
        if engine is not None:
            self.host.spawn(self._fork_session(engine, "" if row_id == NOW else row_id), "rewind")

    async def _fork_session(self, engine: Engine, message_id: str) -> None:
        host = self.host
        if not host.session.own_key:  # nowhere, or in the demo's own folder
            self.host.report(self.words("rewind.not.not_kept"))
            return
        forked = await engine.rewind.fork(message_id, host.bench.composer.draft_text)
        if forked.problem:
            self.host.report(self.words(f"rewind.not.{forked.problem}", detail=forked.detail))
            return
        self._close_page()
        state = engine.store.state
        if state.turn is None and engine is host.session.engine:
            await host.session.switch_to(forked.session_id)
        else:
            command = _format_resume_command(forked.session_id, state.session.workspace)
            host.status.show_notice("rewind.fork_waits", command=command)

    def _ask_for_files(self, message_id: str, way: Literal["both", "files"]) -> None:
        engine = self.host.session.acting()
        if engine is not None:
            self.host.spawn(self._ask_with_conflicts(engine, message_id, way), "rewind")

    async def _ask_with_conflicts(
        self, engine: Engine, message_id: str, way: Literal["both", "files"]
    ) -> None:
        """Ask before changes are undone, with the files that stay all the same."""
        asks = self.words("rewind.sure" if way == "both" else "rewind.sure_files")
        if stuck := await engine.rewind.list_conflicts(message_id):
            files = visible_line(name_files(stuck))
            asks = f"{self.words('rewind.stuck', files=files)} {asks}"
        self.page.ask_first(asks, lambda: self._start_back(message_id, way))

    def _start_back(self, message_id: str, way: Way) -> None:
        engine = self.host.session.acting()
        if engine is not None:
            self.host.spawn(self._go_back(engine, message_id, way), "rewind")

    async def _go_back(self, engine: Engine, message_id: str, way: Way) -> None:
        composer = self.host.bench.composer
        if way == "files":
            problem = await engine.rewind.undo_files(message_id)
        else:
            problem = await engine.rewind.go_back(
                message_id, composer.draft_text, files=way == "both"
            )
        if problem:
            self.host.report(self.words(f"rewind.not.{problem}"))
            return
        self._close_page()
        if way == "files":
            self.host.status.show_notice("rewind.how_to_redo")
            return
        rewound = engine.store.state.rewound
        if rewound is not None:  # the draft of the state may be what was written before, kept late
            composer.replace_text(rewound.draft)
        self.host.status.show_notice("rewind.how_to_undo")

    def _close_page(self) -> None:
        if self.page.is_mounted:
            self.page.dismiss(None)

    def get_title(self) -> str:
        return self.words("rewind.title_fork" if self._forks else "rewind.title")

    def get_empty_text(self) -> str:
        return self.words("rewind.nothing_said")

    def list_ids(self) -> Sequence[str]:
        state = self.state
        newest = state.messages[-1] if state.messages else None
        seen = (len(state.messages), newest, len(state.undone_calls))
        if self._seen != seen:
            self._seen = seen
            self._points = {point.message_id: point for point in list_points(state)}
        return [NOW, *self._points] if self._points else []

    def render_row(self, row_id: str, width: int) -> Row:
        palette, words = self.palette, self.words
        point = self._points.get(row_id)
        now = self.clock.now()
        column = max(cell_len(format_day(p.at, now)) for p in self._points.values())
        if point is None:
            left = [
                Segment(pad("", column + 2), ink(None)),
                Segment(words("rewind.now"), ink(palette.quiet)),
            ]
            return two_sided(left, [], width)
        files = point.files
        said = words("rewind.file" if files == 1 else "rewind.files_count", count=files)
        right = f"  {said} " if files else " "
        text = visible_line(one_line(point.text, _LONGEST))
        room = max(1, width - column - 2 - cell_len(right))
        left = [
            Segment(f"{pad(format_day(point.at, now), column)}  ", ink(palette.faint)),
            Segment(fit(text, room), ink(palette.quiet if point.aside else palette.text)),
        ]
        return two_sided(left, [Segment(right, ink(palette.accent))], width)

    def render_note(self, row_id: str, width: int) -> list[Row]:
        if self.page.is_asking:
            return []
        point = self._points.get(row_id)
        if self._forks:
            key = "rewind.about_now_fork" if row_id == NOW else "rewind.forks_here"
        else:
            key = "rewind.about_now" if point is None else "rewind.leaves"
        said = self.words(key)
        if point is not None and not self._forks and not point.files:
            said = f"{said} {self.words('rewind.no_files')}"
        return rows_of([(said, ink(self.palette.quiet))], width)

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        palette = self.palette
        point = self._points.get(row_id)
        if point is None:
            return []
        rows: list[Row] = []
        if point.files and not self._forks:
            if not self.page.is_asking:  # else the row above says it
                rows += rows_of([(self.words("rewind.files_stay"), ink(palette.text))], width)
            rows += [
                self._render_file(path, changes, width) for path, changes in _group_by_file(point)
            ]
            rows.append([])
        return rows + rows_of([(make_visible(point.text[:_SHOWN]), ink(palette.text))], width)

    def _render_file(self, path: str, changes: Sequence[FileChange], width: int) -> Row:
        palette = self.palette
        added, removed = sum(c.added for c in changes), sum(c.removed for c in changes)
        kind = self.words(f"rewind.kind.{changes[-1].kind}")
        kinds = [self.words(f"rewind.kind.{k}") for k in ("create", "modify", "delete", "move")]
        lead = f"  {pad(kind, max(map(cell_len, kinds)))}  "
        figures = f"  +{added} −{removed} "
        left = [
            Segment(lead, ink(palette.faint)),
            Segment(
                fit(visible_line(path), max(1, width - cell_len(lead) - cell_len(figures))),
                ink(palette.text),
            ),
        ]
        return two_sided(left, [Segment(figures, ink(palette.quiet))], width)


def _format_resume_command(session_id: str, workspace: str) -> str:
    """The command that resumes that session from the user's shell."""
    named = workspace and os.path.realpath(os.getcwd()) != workspace
    folder = f" --dir {shlex.quote(workspace)}" if named else ""
    return f"duckflow-tui --resume {session_id}{folder}"


def _group_by_file(point: Point) -> list[tuple[str, list[FileChange]]]:
    found: dict[str, list[FileChange]] = {}
    for change in point.changes:
        path = f"{change.path} → {change.target}" if change.target else change.path
        found.setdefault(path, []).append(change)
    return list(found.items())
