"""The line at the top: whose session this is, and where the work stands."""

from __future__ import annotations

from dataclasses import replace

from textual.reactive import var

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState, SessionInfo, TurnInfo
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.vitals import Vitals
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import Part, Rows, arranged
from duckflow_tui.ui.panes.strips import Row, ink
from duckflow_tui.ui.panes.vitals import NAMES, level_colour, spark


class Header(Rows):
    """One row. In the tabbed layout it carries the three gauges too."""

    gauges: var[bool] = var(False)

    def __init__(self, title: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._session = SessionInfo(title=title)
        self._phase = Phase.IDLE
        self._status = Status.SUCCESS
        self._turn: TurnInfo | None = None
        self._vitals = Vitals()

    def show(self, state: AgentState) -> None:
        """Take over what the state says now."""
        if state.session.session_id:
            self._session = state.session
        self._phase, self._status = state.phase, state.status
        self._turn, self._vitals = state.turn, state.vitals
        self.again()

    def watch_gauges(self) -> None:
        self.again()

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        fill = ink(palette.text, on=palette.bars)
        return [arranged(self._left(palette), self._right(palette), width, fill)]

    def _left(self, palette: Palette) -> list[Part]:
        session = self._session
        badge = ink(palette.on_accent, on=palette.accent, bold=True)
        parts = [Part(" duckflow ", badge, weight=10)]
        if session.demo:
            parts.append(Part(self.words("header.demo"), ink(palette.accent), weight=10, gap=2))
        if session.title:
            title = visible_line(session.title)
            parts.append(Part(title, ink(palette.text), weight=6, gap=2))
        if session.model and not session.demo:
            model = visible_line(session.model)
            parts.append(Part(model, ink(palette.quiet), weight=1))
        return parts

    def _right(self, palette: Palette) -> list[Part]:
        if not self._session.session_id:
            return []
        turn = self._turn
        parts: list[Part] = []
        if self.gauges:
            parts.extend(self._short_gauges(palette))
        parts.append(Part(self._phase.value, ink(palette.ai, bold=True), weight=9))
        parts.append(self._status_part(palette))
        if turn is None:
            return parts
        if turn.max_attempts > 1:
            attempt = self.words("header.attempt", number=turn.attempt, limit=turn.max_attempts)
            parts.append(Part(attempt, ink(palette.quiet), weight=2))
        if turn.loop:
            loop = self.words("header.loop", number=turn.loop, limit=turn.limit)
            parts.append(Part(loop, ink(palette.quiet), weight=4))
        return parts

    def _status_part(self, palette: Palette) -> Part:
        """``· in progress``: words for the phase with its status (S4-30)."""
        pause = self._turn.pause if self._turn is not None else "running"
        if pause != "running":
            return Part(f"· {self.words(f'header.{pause}')}", ink(palette.accent), weight=7, gap=1)
        words = self.words(f"header.status.{self._phase.value}.{self._status.value}")
        colours = {Status.ERROR: palette.bad, Status.REQUIRES_USER_INPUT: palette.accent}
        colour = colours.get(self._status, palette.quiet)
        return Part(f"· {words}", ink(colour), weight=7, gap=1)

    def _short_gauges(self, palette: Palette) -> list[Part]:
        parts: list[Part] = []
        for name in NAMES:
            value = getattr(self._vitals, name)
            known = any(change.vital == name for change in self._vitals.history)
            colour = level_colour(value, palette) if known else palette.quiet
            name_part = Part(self.words(f"vitals.{name}"), ink(palette.quiet), weight=8)
            parts.append(replace(name_part, gap=2) if parts else name_part)
            parts.append(Part(spark(value), ink(colour), weight=8, gap=1))
        return parts
