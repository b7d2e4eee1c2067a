"""``/rewind`` and ``/fork``: the user's messages, and what came of each, to go back to."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import BindingType

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.session.rewind import Point, list_points
from duckflow_tui.state.base import name_files, one_line
from duckflow_tui.state.operations import FileChange
from duckflow_tui.state.store import Store
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.panes.rows import palette_of, two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad, rows_of
from duckflow_tui.ui.screens.board import StateBoard, board_bindings
from duckflow_tui.ui.session_words import when
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine

NOW: Final = "now"  # the row of the conversation as it is
#: both: back, and what came of files is undone; files: only that.
Way = Literal["back", "both", "files"]

_LONGEST: Final = 400  # characters of a message in the list
_SHOWN: Final = 4_000  # below it


class ForkBoard(StateBoard):
    """The newest message at the top; the cursor begins where the conversation stands."""

    SURFACE: ClassVar[Surface] = "fork"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("fork")

    def __init__(self, words: Catalogue, store: Store) -> None:
        super().__init__(words, store)
        self._seen: tuple[object, ...] = ()
        self._points: dict[str, Point] = {}

    # --- keys -------------------------------------------------------------------------------

    def choose(self, name: str) -> None:
        self._said = ""
        super().choose(name)

    def action_fork(self) -> None:
        engine = self.host.session.acting()
        if engine is not None:
            message_id = "" if self.chosen == NOW else self.chosen
            self.host.spawn(self._fork(engine, message_id), "rewind")

    async def _fork(self, engine: Engine, message_id: str) -> None:
        host = self.host
        if not host.session.own_key:  # nowhere, or in the demo's own folder
            self.host.report(self.words("rewind.not.not_kept"))
            return
        forked = await engine.rewind.fork(message_id, host.bench.composer.draft)
        if forked.problem:
            self.host.report(self.words(f"rewind.not.{forked.problem}", detail=forked.detail))
            return
        self._close()
        state = engine.store.state
        if state.turn is None and engine is host.session.engine:
            await host.session.switch_to(forked.session_id)
        else:
            command = _resuming(forked.session_id, state.session.workspace)
            host.status.show_notice("rewind.fork_waits", command=command)

    def _close(self) -> None:
        if self.is_mounted:
            self.dismiss(None)

    # --- what it says -----------------------------------------------------------------------

    def heading(self) -> str:
        return self.words("rewind.title_fork")

    def empty(self) -> str:
        return self.words("rewind.nothing_said")

    def names(self) -> Sequence[str]:
        state = self.state
        newest = state.messages[-1] if state.messages else None
        seen = (len(state.messages), newest, len(state.undone_calls))
        if self._seen != seen:
            self._seen = seen
            self._points = {point.message_id: point for point in list_points(state)}
        return [NOW, *self._points] if self._points else []

    def item(self, name: str, width: int) -> Row:
        palette, words = palette_of(self), self.words
        point = self._points.get(name)
        now = self.clock.now()
        column = max(cell_len(when(p.at, now)) for p in self._points.values())
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
            Segment(f"{pad(when(point.at, now), column)}  ", ink(palette.faint)),
            Segment(fit(text, room), ink(palette.quiet if point.aside else palette.text)),
        ]
        return two_sided(left, [Segment(right, ink(palette.accent))], width)

    def about(self, name: str, width: int) -> list[Row]:
        if self._said:
            return self.said_rows(width)
        key = "rewind.about_now_fork" if name == NOW else "rewind.forks_here"
        return rows_of([(self.words(key), ink(palette_of(self).quiet))], width)

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        point = self._points.get(name)
        text = make_visible(point.text[:_SHOWN]) if point is not None else ""
        return rows_of([(text, ink(palette_of(self).text))], width) if text else []


class RewindBoard(ForkBoard):
    """The cursor begins at the last message. Files stay, unless a second key undoes changes."""

    SURFACE: ClassVar[Surface] = "rewind"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("rewind")

    def __init__(self, words: Catalogue, store: Store) -> None:
        super().__init__(words, store)
        self._stuck: dict[str, tuple[str, ...]] = {}  # by message: files that stay all the same
        if len(self.names()) > 1:
            self._chosen = self.names()[1]

    # --- keys -------------------------------------------------------------------------------

    def action_back(self) -> None:
        self._want("back")

    def action_back_with_files(self) -> None:
        self._want_files("both")

    def action_only_files(self) -> None:
        self._want_files("files")

    def _want_files(self, way: Literal["both", "files"]) -> None:
        """The first key shows what would become of files, the second does it."""
        chosen = self.chosen
        point = self._points.get(chosen)
        engine = self.host.session.acting()
        if point is not None and point.files and not self.pressed_twice(way):
            if engine is not None:
                self.host.spawn(self._look(engine, chosen), "rewind")
        elif way == "files" and point is not None and not point.files:
            self.report(self.words("rewind.no_files"))
        else:
            self._want(way)

    async def _look(self, engine: Engine, message_id: str) -> None:
        self._stuck[message_id] = await engine.rewind.list_conflicts(message_id)
        self.invalidate()

    def _want(self, way: Way) -> None:
        engine = self.host.session.acting()
        if self.chosen == NOW:
            self.report(self.words("rewind.here"))
        elif engine is not None:
            self.host.spawn(self._go_back(engine, self.chosen, way), "rewind")

    async def _go_back(self, engine: Engine, message_id: str, way: Way) -> None:
        composer = self.host.bench.composer
        if way == "files":
            problem = await engine.rewind.undo_files(message_id)
        else:
            problem = await engine.rewind.go_back(message_id, composer.draft, files=way == "both")
        if problem:
            self.host.report(self.words(f"rewind.not.{problem}"))
            return
        self._close()
        if way == "files":
            self.host.status.show_notice("rewind.how_to_redo")
            return
        rewound = engine.store.state.rewound
        if rewound is not None:  # the draft of the state may be what was written before, kept late
            composer.write(rewound.draft)
        self.host.status.show_notice("rewind.how_to_undo")

    # --- what it says -----------------------------------------------------------------------

    def heading(self) -> str:
        return self.words("rewind.title")

    def about(self, name: str, width: int) -> list[Row]:
        palette = palette_of(self)
        if self._said:
            return self.said_rows(width)
        if self.asked:
            rows: list[Row] = []
            if stuck := self._stuck.get(name):
                files = visible_line(name_files(stuck))
                said = self.words("rewind.stuck", files=files)
                rows += rows_of([(said, ink(palette.bad))], width)
            key = "rewind.sure" if self.asked == "both" else "rewind.sure_files"
            return rows + rows_of([(self.words(key), ink(palette.accent))], width)
        point = self._points.get(name)
        if point is None:
            return rows_of([(self.words("rewind.about_now"), ink(palette.quiet))], width)
        said = self.words("rewind.leaves")
        if not point.files:
            said = f"{said} {self.words('rewind.no_files')}"
        return rows_of([(said, ink(palette.quiet))], width)

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        palette = palette_of(self)
        point = self._points.get(name)
        rows: list[Row] = []
        if point is not None and point.files:
            if not self.asked:  # else the row above says it
                rows += rows_of([(self.words("rewind.files_stay"), ink(palette.text))], width)
            rows += [self._file(path, changes, width) for path, changes in _by_file(point)]
            rows.append([])
        return rows + super().detail(name, width, room)

    def _file(self, path: str, changes: Sequence[FileChange], width: int) -> Row:
        palette = palette_of(self)
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


def _resuming(session_id: str, workspace: str) -> str:
    """The command that resumes that session from the user's shell."""
    named = workspace and os.path.realpath(os.getcwd()) != workspace
    folder = f" --dir {shlex.quote(workspace)}" if named else ""
    return f"duckflow-tui --resume {session_id}{folder}"


def _by_file(point: Point) -> list[tuple[str, list[FileChange]]]:
    found: dict[str, list[FileChange]] = {}
    for change in point.changes:
        path = f"{change.path} → {change.target}" if change.target else change.path
        found.setdefault(path, []).append(change)
    return list(found.items())
