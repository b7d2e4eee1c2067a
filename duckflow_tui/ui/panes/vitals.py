"""The pane with mood, focus and stamina: gauges, values, curves and causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import var

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.pace import Pace, VitalChange, Vitals, running_pace
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.turn import TurnInfo
from duckflow_tui.ui.host import bind_keys, host_of
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import LineView, palette_of
from duckflow_tui.ui.panes.strips import (
    Row,
    fit,
    ink,
    mark_row,
    pad,
    prefix_rows,
    row_cells,
    rows_of,
)
from duckflow_tui.ui.panes.vitals_words import (
    NAMES,
    break_equation,
    calculation_lines,
    cause_words,
    changes_of,
    consulted_words,
    fallen_vitals,
    given_words,
    level,
    level_word,
    limit_blocks,
    limit_summary,
    list_level_words,
    lowering_cause,
)

SPARKS: Final = "▁▂▃▄▅▆▇"  # no whole block: the curve in the row below would touch it
POINTS: Final = 5  # of the sparkline
SHOWN_CHANGES: Final = 4  # of each vital, where they are explained
LIMIT: Final = "limit"  # what is explained below the three
CONSULTED: Final = "consulted"
_INDENT: Final = 3
_BAR: Final = 10  # cells
_LEAST_BAR: Final = 4
_ROOMY: Final = 46  # cells beside the names; below, bars and curves are short
_LEAST_POINTS: Final = 3


def gauge_parts(value: float, cells: int) -> tuple[str, str]:
    """Return the filled and the empty part of a bar; a value above 0 fills at least one cell."""
    filled = min(cells, max(round(value * cells), 1 if value > 0 else 0))
    return "━" * filled, "─" * (cells - filled)


def sparkline(name: str, vitals: Vitals) -> str:
    """Return the last ``POINTS`` values of a vital as a sparkline."""
    changes = changes_of(name, vitals)
    if not changes:
        return ""
    values = [changes[0].old, *(change.new for change in changes)][-POINTS:]
    return "".join(map(spark_of, values))


def spark_of(value: float) -> str:
    """Return a value as one of seven block characters."""
    return SPARKS[min(len(SPARKS) - 1, int(value * len(SPARKS)))]


def level_colour(name: str, value: float, palette: Palette) -> str:
    """Return green, yellow or red for a value; the word beside it says the same."""
    colours = {"high": palette.good, "middle": palette.accent, "low": palette.bad}
    return colours[level(value, name)]


@dataclass(frozen=True, slots=True)
class _Line:
    row: Row
    spot: str = ""  # what the cursor can stand on here
    change: VitalChange | None = None


class VitalsPane(LineView, can_focus=True):
    """Three gauges. Enter explains them: meaning, formula, inputs, causes (S0-11, S0-44); Enter on
    a change goes to its place in the chat.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "walk(-1)", show=False),
        Binding("down", "walk(1)", show=False),
        Binding("pageup", "turn_page(-1)", show=False),
        Binding("pagedown", "turn_page(1)", show=False),
        *bind_keys("vitals"),
    ]

    ALLOW_SELECT = False
    explained: var[bool] = var(False)  # whether the reasons are shown

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._vitals = Vitals()
        self._pace: Pace | None = None
        self._of_step = False  # the limit is that of a step of the plan
        self._turn: TurnInfo | None = None
        self._phase, self._status = Phase.IDLE, Status.SUCCESS
        self._ended = ""  # how the last turn ended
        self._made: tuple[int, list[_Line]] | None = None
        self._cursor = NAMES[0]

    # --- data -------------------------------------------------------------------------------

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """The slices of the state that ``show`` reads."""
        stands = (state.turn, state.last_turn, state.phase, state.status, state.undone_calls)
        pace = state.pace, state.step_pace, state.work
        return state.vitals, *pace, state.objective, state.gates, *stands

    def show(self, state: AgentState) -> None:
        """Update from this state."""
        self._vitals, self._pace = state.vitals, running_pace(state)
        self._of_step = self._pace is not state.pace
        self._turn, self._phase, self._status = state.turn, state.phase, state.status
        if state.gates and state.status is Status.REQUIRES_USER_INPUT:
            self._phase = Phase.AWAITING_APPROVAL  # a step's gate leaves the phase as it is
        self._ended = state.last_turn.outcome if state.last_turn is not None else ""
        if self._ended == "done" and state.last_turn and state.last_turn.reason:
            self._ended = "accepted"  # as it is: the only reason for which done work ends
        if self._ended == "done" and _taken_back(state):
            self._ended = "undone"
        elif self._ended == "done" and state.objective is not None and state.objective.reopened:
            self._ended = "changed"
        self.invalidate(layout=self.explained)

    def watch_explained(self) -> None:
        """Show the gauges or their explanation from the top."""
        self.invalidate(layout=True)
        self.scroll_to(0, 0, animate=False)

    def watch_has_focus(self, has_focus: bool) -> None:
        self.redraw()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._made = None

    # --- keys -------------------------------------------------------------------------------

    def action_explain(self) -> None:
        """Show or hide the explanation; on a change, go to its place in the chat."""
        here = self._line_at_cursor()
        if self.explained and here is not None and here.change is not None:
            self._go_to(here.change)
            return
        self.explained = not self.explained
        self._cursor = NAMES[0]

    def _go_to(self, change: VitalChange) -> None:
        """Scroll the chat to the newest message or call behind the change that the chat still has;
        where it has none, show a notice.
        """
        host = host_of(self)
        if not host.bench.go_to(change.refs[::-1]):
            host.status.show_notice("list.no_place")

    def action_walk(self, by: int) -> None:
        lines = self._cached_lines()
        stops = [at for at, line in enumerate(lines) if line.spot]
        if not self.explained or not stops:
            return
        at = next((n for n, stop in enumerate(stops) if lines[stop].spot == self._cursor), 0)
        to = min(max(at + by, 0), len(stops) - 1)
        self._cursor = lines[stops[to]].spot
        end = stops[to + 1] if to + 1 < len(stops) else len(lines)
        self.reveal_lines(stops[to], end)
        self.redraw()

    def action_turn_page(self, by: int) -> None:
        page = max(1, self.lines_in_sight - 1)
        self.scroll_to(y=self.scroll_offset.y + by * page, animate=False)

    def on_click(self, event: events.Click) -> None:
        line = self.scroll_offset.y + event.y - self.gutter.top
        lines = self._cached_lines()
        if not 0 <= line < len(lines) or not lines[line].spot:
            return
        self._cursor = lines[line].spot
        self.redraw()
        change = lines[line].change
        if change is not None:
            self._go_to(change)
        elif event.chain == 2 or not self.explained:
            self.explained = not self.explained

    # --- Textual ----------------------------------------------------------------------------

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._cached_lines(width))

    def invalidate(self, *, layout: bool = False) -> None:
        self._made = None
        super().invalidate(layout=layout)

    def line_count(self, width: int) -> int:
        return len(self._cached_lines(width))

    def row(self, line: int, width: int) -> Row:
        lines = self._cached_lines(width)
        if line >= len(lines):
            return []
        at = lines[line]
        if not self.has_focus or not self.explained or at.spot != self._cursor:
            return at.row
        used = sum(cell_len(segment.text) for segment in at.row)
        row = [*at.row, Segment(" " * max(0, width - used), ink(None))]
        return mark_row(row, 0, -1, ink(None, on=palette_of(self).bars))

    def _line_at_cursor(self) -> _Line | None:
        return next((line for line in self._cached_lines() if line.spot == self._cursor), None)

    # --- drawing ----------------------------------------------------------------------------

    def _cached_lines(self, width: int = 0) -> list[_Line]:
        width = width or self.scrollable_content_region.width
        if self._made is None or self._made[0] != width:
            self._made = (width, self._make_lines(width))
        return self._made[1]

    def _make_lines(self, width: int) -> list[_Line]:
        """Return all lines: gauges and phase, with the explanation while it is open."""
        names = max(cell_len(self.words(f"vitals.{name}")) for name in NAMES)
        lines: list[_Line] = []
        for name in NAMES:
            lines.append(_Line(self._gauge_row(name, names, width), name))
            if self.explained:
                lines += self._why_lines(name, width)
            elif name in fallen_vitals(self._vitals):
                lines += self._fall_lines(name, width)
        if self._turn is not None or self._ended:
            said, room = self._phase_words(), max(8, width - 2)
            whole = " · ".join(said)
            text = whole if cell_len(whole) <= room else "\n".join(said)
            stands = rows_of([(text, ink(palette_of(self).quiet))], room)
            lines += [_Line(row) for row in prefix_rows(stands, (" ", ink(None)))]
        if self.explained:
            lines += self._limit_lines(width)
        return lines

    def _fall_lines(self, name: str, width: int) -> list[_Line]:
        """Return the curve of a low vital and the last cause that lowered it."""
        palette = palette_of(self)
        colour = ink(level_colour(name, getattr(self._vitals, name), palette))
        curve = [Segment(f"   {sparkline(name, self._vitals)} ", colour)]
        room = width - 1 - sum(cell_len(segment.text) for segment in curve)
        cause = lowering_cause(name, self._vitals, self.words)
        return [_Line([*curve, Segment(fit(cause, max(0, room)), ink(palette.text))], name)]

    def _phase_words(self) -> list[str]:
        """Return ``in progress``, ``attempt 1 of 3`` and ``loop 4 of 14``; between turns how the
        last one ended.
        """
        words, turn = self.words, self._turn
        if turn is None:
            return [words(f"sessions.state.{self._ended}")]
        said: list[str] = [words(f"vitals.status.{self._phase.value}.{self._status.value}")]
        if turn.max_attempts > 1:
            said.append(words("vitals.attempt", number=turn.attempt, limit=turn.max_attempts))
        if turn.loop:
            said.append(words("vitals.loop", number=turn.loop, limit=turn.limit))
        return said

    def _gauge_row(self, name: str, names: int, width: int) -> Row:
        """Return name, bar and word of a vital; while explained also its value and curve."""
        palette = palette_of(self)
        value: float = getattr(self._vitals, name)
        sparks = sparkline(name, self._vitals)
        colour = ink(level_colour(name, value, palette) if sparks else palette.quiet)
        widest = max(map(cell_len, list_level_words(self.words)))
        points = 0
        if self.explained:
            points = POINTS if width - names >= _ROOMY else _LEAST_POINTS
            widest += points + 7
        full, empty = gauge_parts(value, min(_BAR, max(_LEAST_BAR, width - names - widest - 4)))
        row: Row = [
            Segment(" " + pad(self.words(f"vitals.{name}"), names) + " ", ink(palette.quiet)),
            Segment(full, colour),
            Segment(empty, ink(palette.bars)),
        ]
        if self.explained:
            row.append(Segment(f" {value:.2f}", ink(palette.text)))
            row.append(Segment(f" {sparks[-points:]:>{points}}", colour))
        word = level_word(name, self._vitals, self.words)
        room = max(0, width - 1 - row_cells(row))
        return [*row, Segment(f" {fit(word, room)}", ink(palette.quiet))]

    def _why_lines(self, name: str, width: int) -> list[_Line]:
        """Return the explanation of a vital: meaning, formula, newest changes."""
        palette, words = palette_of(self), self.words
        changes = changes_of(name, self._vitals)
        lines = self._text_lines(words(f"vitals.means.{name}"), palette.quiet, width)
        lines += self._equation_lines(words(f"vitals.formula.{name}"), palette.text, width)
        lines += self._equation_lines(words(f"vitals.where.{name}"), palette.quiet, width)
        if not changes:
            lines += self._text_lines(words("vitals.no_inputs"), palette.quiet, width)
            return [*lines, _Line([])]
        newest = changes[-1]
        lines.append(_Line([]))
        lines += self._text_lines(
            words("vitals.newest", cause=cause_words(newest, words)), palette.text, width
        )
        for said in given_words(newest, words):
            lines += self._text_lines(said, palette.quiet, width)
        for said in calculation_lines(newest, words):
            lines += self._equation_lines(said, palette.ai, width)
        lines.append(_Line([]))
        for change in reversed(changes[-SHOWN_CHANGES:]):
            lines.append(self._change_line(change, width))
        return [*lines, _Line([])]

    def _change_line(self, change: VitalChange, width: int) -> _Line:
        """Return one change of a vital: old and new value, and its inputs or else its cause."""
        palette = palette_of(self)
        lit = ink(palette.accent if change.refs else palette.bars)
        moved = f"{change.old:.2f} → {change.new:.2f}  "
        why = " · ".join(given_words(change, self.words)) or cause_words(change, self.words)
        row = [
            Segment("   ", ink(None)),
            Segment("▸ " if change.refs else "  ", lit),
            Segment(moved, ink(palette.text)),
            Segment(fit(why, max(0, width - 6 - len(moved))), ink(palette.quiet)),
        ]
        return _Line(row, f"{change.vital} {change.at} {change.old} {change.new}", change)

    def _limit_lines(self, width: int) -> list[_Line]:
        """Return how the limit of loops was computed, and what the user was asked."""
        palette, words, pace = palette_of(self), self.words, self._pace
        heading = words("pace.heading_step" if self._of_step else "pace.heading")
        used = words("vitals.loop", number=pace.used, limit=pace.limit.max_loops) if pace else ""
        lines = [_Line(self._heading_row(heading, used), LIMIT)]
        if pace is None:
            return [*lines, *self._text_lines(words("pace.none"), palette.quiet, width)]
        for said in limit_summary(pace, words):
            lines += self._text_lines(said, palette.text, width)
        lines.append(_Line([]))
        lines += self._block_lines(pace, width)
        lines.append(_Line([]))
        lines.append(_Line(self._heading_row(words("pace.consulted.heading"), ""), CONSULTED))
        for said in consulted_words(pace, words):
            lines += self._text_lines(said, palette.quiet, width)
        return lines

    def _heading_row(self, name: str, more: str) -> Row:
        palette = palette_of(self)
        row = [Segment(f" {name}", ink(palette.accent, bold=True))]
        return [*row, Segment(f"  {more}", ink(palette.quiet))] if more else row

    def _block_lines(self, pace: Pace, width: int) -> list[_Line]:
        """Return the terms of the limit with their names in a column."""
        palette = palette_of(self)
        found = limit_blocks(pace.limit, self.words)
        names = max(cell_len(block.name) for block in found)
        indent = _INDENT + names + 2
        lines: list[_Line] = []
        for block in found:
            rows: list[Row] = []
            room = max(8, width - indent - 1)
            for text in block.lines:
                for part in break_equation(text, room):
                    rows += rows_of([(part, ink(palette.quiet))], room)
            first = f"{' ' * _INDENT}{pad(block.name, names)}  "
            lines += map(_Line, prefix_rows(rows, (first, ink(palette.faint))))
        return lines

    def _equation_lines(self, text: str, colour: str, width: int) -> list[_Line]:
        lines: list[_Line] = []
        for part in break_equation(text, max(8, width - _INDENT - 1)):
            lines += self._text_lines(part, colour, width)
        return lines

    def _text_lines(self, text: str, colour: str, width: int) -> list[_Line]:
        rows = rows_of([(str(text), ink(colour))], max(8, width - _INDENT - 1))
        return [_Line(row) for row in prefix_rows(rows, (" " * _INDENT, ink(None)))]


def _taken_back(state: AgentState) -> bool:
    """Whether the user undid a change of the last turn."""
    if state.last_turn is None or not state.undone_calls:
        return False
    begun = state.turns[-2].messages if len(state.turns) > 1 else 0
    said = state.messages[begun : state.last_turn.messages]
    calls = {message.call_id for message in said if isinstance(message, OperationMessage)}
    return not calls.isdisjoint(state.undone_calls)
