"""``/rewind`` and ``/fork``: the user's messages, and what came of each, to go back to."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import BindingType

from duckflow_tui.safety.safe_text import visible, visible_line
from duckflow_tui.session.rewind import Point, points
from duckflow_tui.state.base import named, one_line
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
Way = Literal["back", "both", "files", "fork"]

_LONGEST: Final = 400  # characters of a message in the list
_SHOWN: Final = 4_000  # below it


class RewindBoard(StateBoard):
    """The newest message at the top. Nothing happens to files unless a second key says so."""

    SURFACE: ClassVar[Surface] = "rewind"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("rewind")

    def __init__(self, words: Catalogue, store: Store, *, at_end: bool = False) -> None:
        """``at_end``: it is there for a fork: Enter forks, and the cursor is where the conversation
        stands, not at the last message.
        """
        super().__init__(words, store)
        self._forks = at_end
        self._seen: tuple[object, ...] = ()
        self._points: dict[str, Point] = {}
        self._stuck: dict[str, tuple[str, ...]] = {}  # by message: files that stay all the same
        if not at_end and len(self.names()) > 1:
            self._chosen = self.names()[1]

    # --- keys -------------------------------------------------------------------------------

    def choose(self, name: str) -> None:
        self._said = ""
        super().choose(name)

    def action_back(self) -> None:
        self._want("fork" if self._forks else "back")

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
        self._stuck[message_id] = await engine.rewind.in_the_way(message_id)
        self.invalidate()

    def action_fork(self) -> None:
        self._want("fork")

    def _want(self, way: Way) -> None:
        if self.chosen == NOW and way != "fork":
            self.report(self.words("rewind.here"))
        else:
            engine = self.host.session.acting()
            message_id = "" if self.chosen == NOW else self.chosen
            if engine is not None and way == "fork":
                self.host.spawn(self._fork(engine, message_id), "rewind")
            elif engine is not None:
                self.host.spawn(self._go_back(engine, message_id, way), "rewind")

    async def _go_back(self, engine: Engine, message_id: str, way: Way) -> None:
        composer = self.host.bench.composer
        if way == "files":
            problem = await engine.rewind.files_back(message_id)
        else:
            problem = await engine.rewind.back(message_id, composer.draft, files=way == "both")
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
        return self.words("rewind.title_fork" if self._forks else "rewind.title")

    def empty(self) -> str:
        return self.words("rewind.nothing_said")

    def names(self) -> Sequence[str]:
        state = self.state
        newest = state.messages[-1] if state.messages else None
        seen = (len(state.messages), newest, len(state.undone_calls))
        if self._seen != seen:
            self._seen = seen
            self._points = {point.message_id: point for point in points(state)}
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
        palette = palette_of(self)
        if self._said:
            return self.said_rows(width)
        if self.asked:
            key = "rewind.sure" if self.asked == "both" else "rewind.sure_files"
            rows = rows_of([(self.words(key), ink(palette.accent))], width)
            if stuck := self._stuck.get(name):
                files = visible_line(named(stuck))
                said = self.words("rewind.stuck", files=files)
                rows += rows_of([(said, ink(palette.bad))], width)
            return rows
        point = self._points.get(name)
        if self._forks:
            key = "rewind.about_now_fork" if point is None else "rewind.forks_here"
            return rows_of([(self.words(key), ink(palette.quiet))], width)
        if point is None:
            return rows_of([(self.words("rewind.about_now"), ink(palette.quiet))], width)
        said = self.words("rewind.leaves")
        if not point.files:
            said = f"{said} {self.words('rewind.no_files')}"
        return rows_of([(said, ink(palette.quiet))], width)

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        palette = palette_of(self)
        point = self._points.get(name)
        if point is None:
            return []
        rows: list[Row] = []
        if point.files and not self._forks:
            key = "rewind.files_listed" if self.asked else "rewind.files_stay"
            rows += rows_of([(self.words(key), ink(palette.text))], width)
            rows += [self._file(path, changes, width) for path, changes in _by_file(point)]
            rows.append([])
        return rows + rows_of([(visible(point.text[:_SHOWN]), ink(palette.text))], width)

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
    """What takes that session up from where the user's shell is."""
    named = workspace and os.path.realpath(os.getcwd()) != workspace
    folder = f" --dir {shlex.quote(workspace)}" if named else ""
    return f"duckflow-tui --resume {session_id}{folder}"


def _by_file(point: Point) -> list[tuple[str, list[FileChange]]]:
    found: dict[str, list[FileChange]] = {}
    for change in point.changes:
        path = f"{change.path} → {change.target}" if change.target else change.path
        found.setdefault(path, []).append(change)
    return list(found.items())
