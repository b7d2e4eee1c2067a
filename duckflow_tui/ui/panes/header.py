"""The header line, the tabs, and the titles of panes."""

from __future__ import annotations

import io
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.reactive import reactive, var
from textual.strip import Strip

from duckflow_tui.commands import PANES
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import one_line
from duckflow_tui.state.gates import DENY, EDITS, IN_SANDBOX, ROUTINE
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.session import HOLDS, SessionInfo
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import BarPart, Rows, arrange_bar
from duckflow_tui.ui.panes.side_pane import SidePane
from duckflow_tui.ui.panes.strips import Row, ink

_WORK: Final = 40  # characters of the session's title


class Header(Rows):
    """One row: project, branch, model and the session's title; at the right the approval mode and
    what runs without asking.
    """

    def __init__(self, title: str = "", *, demo: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._session = SessionInfo(title=title, demo=demo)
        self._work = ""  # the title of the session
        self._mode = ApprovalMode.STANDARD
        self._branch = ""  # as it is now
        self._auto_allowed: tuple[str, ...] = ()  # kinds of work that no approval is asked for
        self._rules = 0  # of this session, for single things

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """The slices of the state that ``show`` reads."""
        return state.session, state.title, state.mode, state.grants

    def show(self, state: AgentState) -> None:
        """Update from this state."""
        if state.session.session_id:
            self._session = state.session
            self._work = visible_line(one_line(state.title, _WORK))
        self._mode = state.mode
        whole_session = [g for g in state.grants if not g.step_id and g.operation != DENY]
        paths = {grant.path for grant in whole_session}
        trusted = state.mode is ApprovalMode.TRUSTED
        allowed: list[str] = []
        if trusted or paths & {EDITS, ROUTINE}:
            allowed.append("edits")
        if state.session.sandbox in HOLDS and (trusted or paths & {ROUTINE, IN_SANDBOX}):
            allowed.append("commands")
        self._rules = sum(grant.path not in (EDITS, ROUTINE, IN_SANDBOX) for grant in whole_session)
        if state.mode in (ApprovalMode.PLAN, ApprovalMode.STRICT):
            allowed, self._rules = [], 0
        self._auto_allowed = tuple(allowed)
        self.invalidate()

    def show_branch(self, name: str) -> None:
        """Show the folder's branch; for an empty name, that of the session's start."""
        if name != self._branch:
            self._branch = name
            self.invalidate()

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        fill = ink(palette.text, on=palette.bars)
        return [arrange_bar(self._left_parts(palette), self._right_parts(palette), width, fill)]

    def _left_parts(self, palette: Palette) -> list[BarPart]:
        """Return the app's name, the project, its branch, the model and the session's title."""
        session = self._session
        badge = ink(palette.on_accent, on=palette.accent, bold=True)
        parts = [BarPart(" duckflow ", badge, weight=10)]
        if session.demo:
            accent = ink(palette.accent)
            name, dot, more = self.words("pane.demo").partition(" · ")
            parts.append(BarPart(name, accent, weight=10, gap=2))
            if more:
                parts.append(BarPart(f"{dot.strip()} {more}", accent, weight=5, gap=1))
        if session.title:
            title = visible_line(session.title)
            parts.append(BarPart(title, ink(palette.text), weight=6, gap=2))
        if branch := visible_line(self._branch or session.branch):
            parts.append(BarPart(branch, ink(palette.quiet), weight=3, gap=2))
        if session.model and not session.demo:
            model = visible_line(session.model)
            parts.append(BarPart(model, ink(palette.quiet), weight=4, gap=2))
        if self._work:
            parts.append(BarPart(self._work, ink(palette.quiet), weight=2, gap=3))
        return parts

    def _right_parts(self, palette: Palette) -> list[BarPart]:
        """Return what runs without approval, the mode and the sandbox; nothing before there is a
        session.
        """
        if not self._session.session_id:
            return []
        mode = self._mode.value
        level = self._session.sandbox
        held = palette.quiet if level == "untested" else palette.good
        sandbox = self.words(f"status.sandbox.{level}")
        named = [self.words(f"status.auto.{kind}") for kind in self._auto_allowed]
        if self._rules:
            named.append(self.words("status.auto.rules", count=self._rules))
        auto: list[BarPart] = []
        if named:
            listed = self.words("gate.list").join(named)
            said = self.words("status.auto.allowed", what=listed)
            auto = [
                BarPart(said, ink(palette.text), weight=7),
                BarPart("·", ink(palette.quiet), weight=7, gap=1),
            ]
        return [
            *auto,
            BarPart(mode, ink(palette.text), weight=8, gap=1 if auto else 3),
            BarPart("·", ink(palette.quiet), weight=8, gap=1),
            BarPart(
                sandbox,
                ink(palette.bad, bold=True) if level == "none" else ink(held),
                weight=9,
                gap=1,
            ),
        ]


#: Text needs one to resolve the names of styles; nothing is printed to it.
_CONSOLE: Final = Console(file=io.StringIO(), color_system="truecolor")


class PaneTitle(Rows):
    """A pane's title, such as ``Diff  src/a.py  +3 −2``; highlighted while the pane has
    the focus.
    """

    lit: reactive[bool] = reactive(False)
    more: reactive[str] = reactive("")  # behind the name, instead of what the pane holds

    def __init__(self, pane: SidePane) -> None:
        super().__init__(id=f"{pane.pane_name}-title")
        self._pane = pane

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        on = palette.bars if self.lit else palette.raised
        fill = ink(palette.text, on=on)
        text = None if self.more else self._pane.make_title(width - 2)
        if text is not None:
            base = text.style if isinstance(text.style, Style) else Style.parse(text.style)
            made = [
                Segment(s.text, fill + base + (s.style or Style())) for s in text.render(_CONSOLE)
            ]
            return [[Segment(" ", fill), *Strip(made).adjust_cell_length(width - 1, fill)]]
        said = self.words(self._pane.title_key)
        name = BarPart(said, ink(palette.accent, bold=True))
        more = [BarPart(self.more, ink(palette.quiet), gap=2)] if self.more else []
        return [arrange_bar([name, *more], [], width, fill)]


class Tabs(Rows):
    """The names of panes that share a place; a click or a key shows one."""

    no_colour: var[bool] = var(False)  # the tab that is shown cannot stand out by its colour
    shown: reactive[str] = reactive("plan")
    waiting: reactive[bool] = reactive(False)  # something in the diff asks for the user
    vitals_on: reactive[bool] = reactive(True)

    class Chosen(Message):
        """The user clicked a name."""

        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._places: list[tuple[int, int, str]] = []

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        row: Row = [Segment(" ", ink(None, on=palette.raised))]
        at = 1
        self._places = []
        for pane in PANES:
            mark = "◆ " if pane == "diff" and self.waiting else ""
            # With the gauges off, the goal is what their pane still holds.
            name = pane if self.vitals_on or pane != "vitals" else "goal"
            text = f" {mark}{self.words(f'pane.{name}')} "
            here = pane == self.shown
            style = ink(
                palette.accent if here or mark else palette.quiet,
                on=palette.background if here else palette.raised,
                bold=here,
                underline=here and self.no_colour,
            )
            row.append(Segment(text, style))
            self._places.append((at, at + cell_len(text), pane))
            at += cell_len(text)
        rest = Segment(" " * max(0, width - at), ink(None, on=palette.raised))
        return [[*row, rest]]

    def on_click(self, event: events.Click) -> None:
        for start, end, pane in self._places:
            if start <= event.x < end:
                self.post_message(self.Chosen(pane))
