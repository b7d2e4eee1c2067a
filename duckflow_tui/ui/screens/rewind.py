"""``/rewind`` and ``/fork``: the user's messages as points to rewind to or fork from."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal, cast

from rich.cells import cell_len

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.session.rewind import Point, list_points
from duckflow_tui.session.words import format_day
from duckflow_tui.state.base import name_files, one_line
from duckflow_tui.state.operations import FileChange
from duckflow_tui.state.store import Store
from duckflow_tui.ui.panes.strips import Row, pad
from duckflow_tui.ui.screens.list_source import PageAction, StateSource, make_row
from duckflow_tui.ui.screens.pick_list import Choice, PickList

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine

NOW: Final[Literal["now"]] = "now"  # the row of the conversation as it is
#: both: rewind conversation and files; back: only the conversation; files: only the files.
Way = Literal["both", "back", "files"]

_LONGEST: Final = 400  # characters of a message in the list
_SHOWN: Final = 4_000  # below it


class MessageSource(StateSource[Point | Literal["now"]]):
    """The user's messages, newest first, below a row for the present.

    ``/fork`` starts at the present, and Enter forks. ``/rewind`` starts at the last message, and
    Enter rewinds, after a choice where files have changed since.
    """

    EMPTY: ClassVar[str] = "sessions.nothing_said"

    def __init__(self, store: Store, *, forks: bool) -> None:
        super().__init__(store)
        self._forks = forks
        self._seen: tuple[object, ...] = ()
        self._points: dict[str, Point] = {}

    def on_open(self) -> None:
        """For ``/rewind``, put the cursor on the last message."""
        ids = list(self.list_items())
        if not self._forks and len(ids) > 1:
            self.page.choose(ids[1])

    def get_main_action(self, item: Point | Literal["now"]) -> PageAction | None:
        """Return the action of Enter: fork, rewind, or choose how to rewind where files have
        changed.
        """
        if self._forks:
            return self._make_fork(item)
        if item == NOW:
            return None
        if item.files:
            return self.make_session_action("keys.rewind_choose", partial(self._offer_ways, item))
        return self.make_session_action(
            "keys.rewind_back", lambda engine: self._go_back(engine, item.message_id, "back")
        )

    def list_actions(self, item: Point | Literal["now"] | None) -> Sequence[PageAction]:
        """Return the fork as the menu's action of ``/rewind``."""
        return () if self._forks or item is None else (self._make_fork(item),)

    def _make_fork(self, item: Point | Literal["now"]) -> PageAction:
        """Return the action that forks the session at this item."""
        message_id = item.message_id if item != NOW else ""
        return self.make_session_action(
            "keys.rewind_fork", lambda engine: self._fork_session(engine, message_id)
        )

    async def _offer_ways(self, point: Point, engine: Engine) -> None:
        """Let the user choose to rewind conversation, files or both; the title names the files that
        cannot be restored.
        """
        words, files = self.words, {"count": point.files}
        choices = [
            Choice("both", words("rewind.way.both"), words("rewind.means.both", **files)),
            Choice("back", words("rewind.way.back"), words("rewind.means.back")),
            Choice("files", words("rewind.way.files"), words("rewind.means.files", **files)),
        ]
        title: str = words("rewind.choose")
        if stuck := await engine.rewind.list_conflicts(point.message_id):
            title += f"  {words('rewind.stuck', files=visible_line(name_files(stuck)))}"

        def go_back(way: str | None) -> None:
            """Rewind in the chosen way; nothing after Esc."""
            if way is not None:
                self.host.spawn(self._go_back(engine, point.message_id, cast("Way", way)), "page")

        self.host.push_screen(PickList(words, title, choices), go_back)

    async def _fork_session(self, engine: Engine, message_id: str) -> None:
        """Fork the session before a message, and switch to the fork; while a turn runs only show
        the command that opens it.
        """
        host = self.host
        if not host.session.own_key:  # not recorded, or in the demo's own folder
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

    async def _go_back(self, engine: Engine, message_id: str, way: Way) -> None:
        """Rewind to a message in the chosen way, and put its text into the composer."""
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
        if rewound is not None:  # the state's draft may be an older text, recorded late
            composer.replace_text(rewound.draft)
        self.host.status.show_notice("rewind.how_to_undo")

    def _close_page(self) -> None:
        """Close the page if it is still open."""
        if self.page.is_mounted:
            self.page.dismiss(None)

    def get_title(self) -> str:
        return self.words("rewind.title_fork" if self._forks else "rewind.title")

    def list_items(self) -> Mapping[str, Point | Literal["now"]]:
        """Return the present and the user's messages; empty before the first message."""
        state = self.state
        newest = state.messages[-1] if state.messages else None
        seen = (len(state.messages), newest, len(state.undone_calls))
        if self._seen != seen:
            self._seen = seen
            self._points = {point.message_id: point for point in list_points(state)}
        return {NOW: NOW, **self._points} if self._points else {}

    def render_row(self, item: Point | Literal["now"], width: int) -> Row:
        """Render time, text and number of changed files of a message."""
        palette, words, now = self.palette, self.words, self.clock.now()
        column = max(cell_len(format_day(point.at, now)) for point in self._points.values())
        if item == NOW:
            blank = " " * (column + 2)
            return make_row(width, [(blank, None), (words("rewind.now"), palette.quiet)])
        said = words("rewind.files_count", count=item.files)
        text = visible_line(one_line(item.text, _LONGEST))
        left = [
            (f"{pad(format_day(item.at, now), column)}  ", palette.faint),
            (text, palette.quiet if item.aside else palette.text),
        ]
        return make_row(width, left, [(f"  {said} " if item.files else " ", palette.accent)])

    def render_note(self, item: Point | Literal["now"], width: int) -> list[Row]:
        """Render what Enter does here."""
        if self._forks:
            key = "rewind.about_now_fork" if item == NOW else "rewind.forks_here"
        else:
            key = "rewind.about_now" if item == NOW else "rewind.leaves"
        return self.wrap_text(self.words(key), width)

    def render_detail(self, item: Point | Literal["now"], width: int, room: int) -> list[Row]:
        """Render the files changed since the message, and its text."""
        if item == NOW:
            return []
        rows: list[Row] = []
        if item.files and not self._forks:
            rows += self.wrap_text(self.words("rewind.changed"), width, self.palette.text)
            files = _group_by_file(item).items()
            rows += [self._render_file(path, changes, width) for path, changes in files]
            rows.append([])
        text = make_visible(item.text[:_SHOWN])
        return rows + self.wrap_text(text, width, self.palette.text)

    def _render_file(self, path: str, changes: Sequence[FileChange], width: int) -> Row:
        """Render the row of a file that was changed since the message."""
        palette = self.palette
        added, removed = sum(c.added for c in changes), sum(c.removed for c in changes)
        kind = self.words(f"rewind.kind.{changes[-1].kind}")
        kinds = [self.words(f"rewind.kind.{k}") for k in ("create", "modify", "delete", "move")]
        lead = f"  {pad(kind, max(map(cell_len, kinds)))}  "
        left = [(lead, palette.faint), (visible_line(path), palette.text)]
        return make_row(width, left, [(f"  +{added} −{removed} ", palette.quiet)])


def _format_resume_command(session_id: str, workspace: str) -> str:
    """Return the shell command that resumes this session."""
    named = workspace and os.path.realpath(os.getcwd()) != workspace
    folder = f" --dir {shlex.quote(workspace)}" if named else ""
    return f"duckflow-tui --resume {session_id}{folder}"


def _group_by_file(point: Point) -> dict[str, list[FileChange]]:
    """Group the changes since a point by file; a moved file as ``old → new``."""
    found: dict[str, list[FileChange]] = {}
    for change in point.changes:
        path = f"{change.path} → {change.target}" if change.target else change.path
        found.setdefault(path, []).append(change)
    return found
