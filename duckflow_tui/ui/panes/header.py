"""The line at the top, the tabs, and the titles of panes."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.reactive import reactive, var
from textual.strip import Strip

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.conversation import OperationMessage
from duckflow_tui.state.pace import Vitals
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.plan import WorkInfo
from duckflow_tui.state.session import SessionInfo
from duckflow_tui.state.turn import TurnInfo
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.plan_rows import loop_words
from duckflow_tui.ui.panes.rows import BarPart, Rows, arranged
from duckflow_tui.ui.panes.strips import Row, ink
from duckflow_tui.ui.panes.vitals import level_colour, spark
from duckflow_tui.ui.panes.vitals_words import NAMES


def step_place(state: AgentState) -> tuple[int, int]:
    """Number of the step that is worked on, and of all steps of its plan; 0 where none is."""
    work = state.work
    if work is None or not work.step_id:
        return 0, 0
    plan = next((p for p in state.plans if p.plan_id == work.plan_id), None)
    steps = plan.steps if plan else ()
    number = next((n for n, step in enumerate(steps, 1) if step.step_id == work.step_id), 0)
    return number, len(steps)


class Header(Rows):
    """One row. In the tabbed layout it carries the three gauges too."""

    gauges: reactive[bool] = reactive(False)

    def __init__(self, title: str = "", *, demo: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._session = SessionInfo(title=title, demo=demo)
        self._phase = Phase.IDLE
        self._status = Status.SUCCESS
        self._turn: TurnInfo | None = None
        self._ended = ""  # how the last turn ended, empty while one runs and before the first
        self._vitals = Vitals()
        self._work: WorkInfo | None = None
        self._step = (0, 0)
        self._calls = 0  # of this turn
        self._answers = False  # what was asked beside the work, while no turn runs

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """What ``show`` looks at."""
        work = (state.turn, state.last_turn, state.work, *step_place(state), state.usage.calls)
        seen = state.session, state.phase, state.status, state.vitals, state.undone_calls
        return *seen, *work, _answers(state)

    def show(self, state: AgentState) -> None:
        """Take over what the state says now."""
        if state.session.session_id:
            self._session = state.session
        self._phase, self._status = state.phase, state.status
        self._turn, self._vitals = state.turn, state.vitals
        last = state.last_turn if state.turn is None else None
        self._ended = last.outcome if last is not None else ""
        if self._ended == "done" and _taken_back(state):
            self._ended = "undone"
        self._work, self._step = state.work, step_place(state)
        self._answers = _answers(state)
        self._calls = state.usage.calls - state.turn.calls_before if state.turn else 0
        self.invalidate()

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        fill = ink(palette.text, on=palette.bars)
        return [arranged(self._left(palette), self._right(palette), width, fill)]

    def _left(self, palette: Palette) -> list[BarPart]:
        session = self._session
        badge = ink(palette.on_accent, on=palette.accent, bold=True)
        parts = [BarPart(" duckflow ", badge, weight=10)]
        if session.demo:
            accent = ink(palette.accent)
            name, dot, more = self.words("pane.demo").partition(" · ")
            parts.append(BarPart(name, accent, weight=10, gap=2))
            if more:  # said in full where it costs no gauge
                parts.append(BarPart(f"{dot.strip()} {more}", accent, weight=5, gap=1))
        if session.title:
            title = visible_line(session.title)
            parts.append(BarPart(title, ink(palette.text), weight=5, gap=2))
        if session.model and not session.demo:
            model = visible_line(session.model)
            parts.append(BarPart(model, ink(palette.quiet), weight=1))
        return parts

    def _right(self, palette: Palette) -> list[BarPart]:
        if not self._session.session_id:
            return []
        turn = self._turn
        parts: list[BarPart] = []
        if self.gauges:
            parts.extend(self._short_gauges(palette))
        phase = self.words(f"header.phase.{self._phase.value}")
        parts.append(BarPart(phase, ink(palette.ai, bold=True), weight=9))
        status = self._status_part(palette)
        if status.text != f"· {phase}":
            parts.append(status)
        if turn is None:
            return parts
        if turn.max_attempts > 1:
            attempt = self.words("header.attempt", number=turn.attempt, limit=turn.max_attempts)
            again = turn.attempt > 1  # the first goes without saying where room is short
            parts.append(BarPart(attempt, ink(palette.quiet), weight=5 if again else 2))
        parts.extend(self._progress(turn, palette))
        if self._calls > 0:
            key = "header.call" if self._calls == 1 else "header.calls"
            parts.append(BarPart(self.words(key, count=self._calls), ink(palette.quiet), weight=3))
        return parts

    def _progress(self, turn: TurnInfo, palette: Palette) -> list[BarPart]:
        """``step 2/5 · task 3/4`` while work runs, else the turn's own loop."""
        work, (number, total) = self._work, self._step
        if work is None:
            loop = self.words("header.loop", number=turn.loop, limit=turn.limit)
            return [BarPart(loop, ink(palette.quiet), weight=6)] if turn.loop else []
        parts: list[BarPart] = []
        if number:
            step = self.words("header.step", number=number, total=total)
            parts.append(BarPart(step, ink(palette.text), weight=6))
        if work.loop:
            said = loop_words(work, self.words)
            parts.append(
                BarPart(f"· {said}" if parts else said, ink(palette.quiet), weight=4, gap=1)
            )
        if parts and not number:
            parts[0] = replace(parts[0], gap=3)
        return parts

    def _status_part(self, palette: Palette) -> BarPart:
        """``· in progress``: words for the phase with its status (S4-30)."""
        pause = self._turn.pause if self._turn is not None else "running"
        if pause != "running":
            return BarPart(
                f"· {self.words(f'header.{pause}')}", ink(palette.accent), weight=7, gap=1
            )
        key = f"header.status.{self._phase.value}.{self._status.value}"
        if self._ended and self._phase in (Phase.IDLE, Phase.DONE):
            key = f"header.ended.{self._ended}"
        words = self.words(key)
        if self._answers:
            words = f"{words} · {self.words('header.answering')}"
        colours = {Status.ERROR: palette.bad, Status.REQUIRES_USER_INPUT: palette.accent}
        colour = colours.get(self._status, palette.quiet)
        return BarPart(f"· {words}", ink(colour), weight=7, gap=1)

    def _short_gauges(self, palette: Palette) -> list[BarPart]:
        parts: list[BarPart] = []
        for name in NAMES:
            value = getattr(self._vitals, name)
            known = any(change.vital == name for change in self._vitals.history)
            colour = level_colour(name, value, palette) if known else palette.quiet
            name_part = BarPart(self.words(f"vitals.{name}"), ink(palette.quiet), weight=8)
            parts.append(replace(name_part, gap=2) if parts else name_part)
            parts.append(BarPart(spark(value), ink(colour), weight=8, gap=1))
        return parts


def _taken_back(state: AgentState) -> bool:
    """Whether the user took a change of the last turn back."""
    if state.last_turn is None or not state.undone_calls:
        return False
    begun = state.turns[-2].messages if len(state.turns) > 1 else 0
    said = state.messages[begun : state.last_turn.messages]
    calls = {message.call_id for message in said if isinstance(message, OperationMessage)}
    return not calls.isdisjoint(state.undone_calls)


def _answers(state: AgentState) -> bool:
    """Whether an answer beside the work is still under way, while the work itself has ended."""
    if state.turn is not None:
        return False
    asides = any(live.aside for live in state.live.values())
    return asides or any(not running.by_user for running in state.running)


#: Text needs one to resolve the names of styles; nothing is printed to it.
_CONSOLE: Final = Console(file=io.StringIO(), color_system="truecolor")


PaneName = Literal["chat", "plan", "diff", "vitals"]


def name_key(pane: PaneName, *, vitals_on: bool) -> str:
    """Key of what a pane is called; with the gauges off, the goal is what theirs still holds."""
    return f"pane.{pane}" if vitals_on or pane != "vitals" else "pane.goal"


class PaneTitle(Rows):
    """``Diff  src/a.py  +3 −2``: the pane's name and what it holds; lit while it has the focus."""

    lit: reactive[bool] = reactive(False)
    vitals_on: reactive[bool] = reactive(True)
    more: reactive[str] = reactive("")  # behind the name

    def __init__(
        self,
        pane: PaneName,
        maker: Callable[[int], Text] | None = None,
        *,
        id: str | None = None,
    ) -> None:
        """``maker`` gives the whole title for a width, when the name alone does not say it."""
        super().__init__(id=id)
        self._pane: PaneName = pane
        self._maker = maker

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        on = palette.bars if self.lit else palette.raised
        fill = ink(palette.text, on=on)
        if self._maker is not None:
            text = self._maker(width - 2)
            base = text.style if isinstance(text.style, Style) else Style.parse(text.style)
            made = [
                Segment(s.text, fill + base + (s.style or Style())) for s in text.render(_CONSOLE)
            ]
            return [[Segment(" ", fill), *Strip(made).adjust_cell_length(width - 1, fill)]]
        said = self.words(name_key(self._pane, vitals_on=self.vitals_on))
        name = BarPart(said, ink(palette.accent, bold=True))
        more = [BarPart(self.more, ink(palette.quiet), gap=2)] if self.more else []
        return [arranged([name, *more], [], width, fill)]


class Tabs(Rows):
    """The names of the panes that share a place; a click or their key shows one."""

    no_colour: var[bool] = var(False)  # the tab that is shown cannot stand out by its colour
    shown: reactive[str] = reactive("plan")
    waiting: reactive[bool] = reactive(False)  # something in the diff asks for the user
    vitals_on: reactive[bool] = reactive(True)

    class Chosen(Message):
        """The user clicked a name."""

        def __init__(self, pane: PaneName) -> None:
            super().__init__()
            self.pane: PaneName = pane

    def __init__(self, panes: tuple[PaneName, ...], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._panes = panes
        self._places: list[tuple[int, int, PaneName]] = []

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        row: Row = [Segment(" ", ink(None, on=palette.raised))]
        at = 1
        self._places = []
        for pane in self._panes:
            mark = "◆ " if pane == "diff" and self.waiting else ""
            text = f" {mark}{self.words(name_key(pane, vitals_on=self.vitals_on))} "
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
