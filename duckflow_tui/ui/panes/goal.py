"""The goal pane: vitals above the requirements of the current request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.reactive import reactive, var
from textual.widget import Widget

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.goal import RequirementItem, RequirementState, TaskObjective
from duckflow_tui.ui.host import bind_keys, host_of
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import Rows, two_sided
from duckflow_tui.ui.panes.side_pane import SidePane
from duckflow_tui.ui.panes.strips import Piece, Row, fit, ink, prefix_rows, rows_of
from duckflow_tui.ui.panes.vitals import VitalsPane
from duckflow_tui.words.catalogue import Catalogue

MARKS: Final[dict[RequirementState, str]] = {
    RequirementState.OPEN: "○",
    RequirementState.MET: "✓",
    RequirementState.PARTLY: "◐",
    RequirementState.REFUTED: "✗",
    RequirementState.WAIVED: "–",
}

#: What is settled comes last where not all have room.
_SETTLED: Final = {RequirementState.MET: 1, RequirementState.WAIVED: 2}


def mark_colour(state: RequirementState, palette: Palette) -> str:
    """Return the colour of a requirement's mark; the mark itself says the same."""
    return {
        RequirementState.MET: palette.good,
        RequirementState.PARTLY: palette.accent,
        RequirementState.REFUTED: palette.bad,
    }.get(state, palette.faint)


def _mark_requirement(item: RequirementItem, palette: Palette) -> tuple[Piece, Piece]:
    """Return a requirement's mark (``✓ ``) and its text, struck through if it was dropped."""
    waived = not item.is_counted
    over = ink(palette.quiet if waived else palette.text, strike=waived)
    mark = f"{MARKS[item.state]} ", ink(mark_colour(item.state, palette))
    return mark, (visible_line(item.requirement), over)


def requirement_rows(item: RequirementItem, palette: Palette, width: int) -> list[Row]:
    """Return a requirement in full after its mark, on as many rows as needed."""
    mark, text = _mark_requirement(item, palette)
    return prefix_rows(rows_of([text], max(8, width - cell_len(mark[0]))), mark)


def requirement_row(item: RequirementItem, palette: Palette, width: int, said: str = "") -> Row:
    """Return ``✓ Two discounts of 10 % make 19 %`` on one row, with ``said`` at the
    right edge; without it where it would take more than a third of ``width``.
    """
    left = [Segment(*piece) for piece in _mark_requirement(item, palette)]
    right = [Segment(f"  {said}", ink(palette.faint))] if said else []
    if cell_len(said) * 3 > width:
        right = []
    return two_sided(left, right, width)


def request_row(request: TaskObjective, palette: Palette, width: int, said: str) -> Row:
    """Return the row of an earlier, unfinished request, such as ``· Write the notes    earlier ·
    stopped · 1/3 met``.
    """
    left = [Segment(f"· {visible_line(request.original_query)}", ink(palette.quiet))]
    return two_sided(left, [Segment(f"  {said}", ink(palette.faint))], width)


def pick_foremost(items: Sequence[RequirementItem], count: int) -> list[RequirementItem]:
    """Return the ``count`` most important requirements in their original order."""
    if len(items) <= count:
        return list(items)
    ranked = sorted(items, key=lambda item: (_SETTLED.get(item.state, 0), item.priority))
    chosen = {item.requirement_id for item in ranked[:count]}
    return [item for item in items if item.requirement_id in chosen]


LEDGER_ROWS: Final = 12  # beside plan and diff, the heading included
MOST_ROWS: Final = 13  # of it where the screen has room for all
TOWERING: Final = 48  # rows of the screen from which it has that many
TALL: Final = 36  # rows of the screen from which the ledger keeps its rows beside a gate
MIDDLING: Final = 28  # below this it is one line


class LedgerPane(Rows, can_focus=True):
    """The requirements, one per line; those without room are counted. Enter or a click opens the
    list.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind_keys("goal")

    #: Rows it may take; 0: all that its place has.
    room: reactive[int] = reactive(LEDGER_ROWS, layout=True)
    folded: reactive[bool] = reactive(False, layout=True)  # to one line
    titled: reactive[bool] = reactive(True, layout=True)  # it says itself what it is
    has_items: var[bool] = var(False)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._items: tuple[RequirementItem, ...] = ()
        self._met = (0, 0)

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """The slices of the state that ``show`` reads."""
        return (state.objective,)

    def show(self, state: AgentState) -> None:
        """Update from this state."""
        objective = state.objective
        items = objective.extracted_requirements if objective else ()
        changed = len(items) != len(self._items)
        self._items, self._met = items, objective.met_counts if objective else (0, 0)
        self.invalidate(layout=changed)
        self.has_items = bool(items)

    @property
    def progress(self) -> str:
        """The requirements met, as ``2/3``; empty without any."""
        return f"{self._met[0]}/{self._met[1]}" if self._items else ""

    def watch_has_focus(self, has_focus: bool) -> None:
        self.invalidate()

    def on_resize(self, _event: events.Resize) -> None:
        self.invalidate()

    def on_click(self) -> None:
        host_of(self).action_page("requirements")

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._draw_lines(width, self.room or 999))

    def lines(self, width: int) -> list[Row]:
        return self._draw_lines(width, self.room or self.size.height)

    def _draw_lines(self, width: int, room: int) -> list[Row]:
        palette, words = self.palette, self.words
        if not self._items:
            text = [(str(words("ledger.none")), ink(palette.faint))]
            return [[Segment(" ", ink(None)), *row] for row in rows_of(text, max(8, width - 2))]
        title: Row = []
        if self.titled:
            name = ink(palette.accent, bold=True, underline=self.has_focus)
            title = [
                Segment(f" {words('pane.goal')}", name),
                Segment(f"  {self.progress}", ink(palette.quiet)),
            ]
        if self.folded or room <= 1:
            first = pick_foremost(self._items, 1)[0]
            used = sum(cell_len(segment.text) for segment in title) + 2
            shown = requirement_row(first, palette, max(0, width - used - 2))
            return [[*title, Segment("  " if title else " ", ink(None)), *shown]]
        rows: list[Row] = [title] if title else []
        left = room - len(rows)
        whole = [requirement_rows(item, palette, width - 2) for item in self._items]
        if sum(map(len, whole)) <= left:
            rows += [[Segment(" ", ink(None)), *row] for some in whole for row in some]
            return rows
        count = len(self._items) if len(self._items) <= left else max(0, left - 1)
        for item in pick_foremost(self._items, count):
            rows.append([Segment(" ", ink(None)), *requirement_row(item, palette, width - 2)])
        hidden = len(self._items) - count
        if hidden:
            said = f" {words('ledger.more', count=hidden)}"
            colour = palette.accent if self.has_focus else palette.quiet
            rows.append([Segment(fit(said, width), ink(colour))])
        return rows


class GoalPane(Vertical, SidePane):
    """The gauges with the requirements below; either may be hidden."""

    pane_name = "vitals"
    words: var[Catalogue] = var(Catalogue)
    vitals_on: var[bool] = var(True)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.vitals = VitalsPane(id="vitals")
        self.ledger = LedgerPane(id="ledger")
        self._room_for_gauges = False  # beside the chat, or as the pane that is shown alone
        self._wide = True

    def compose(self) -> ComposeResult:
        yield self.vitals
        yield self.ledger

    @property
    def explained(self) -> bool:
        """Whether the vitals are explained."""
        return self.shows_vitals and self.vitals.explained

    @property
    def shows_vitals(self) -> bool:
        """Whether the gauges are shown."""
        return self.vitals_on and self._room_for_gauges

    def has_content(self, state: AgentState) -> bool:
        return state.objective is not None and bool(state.objective.extracted_requirements)

    @property
    def title_key(self) -> str:
        return "pane.vitals" if self.shows_vitals else "pane.goal"

    def describe_folded(self) -> str:
        return ""

    @property
    def is_always_shown(self) -> bool:
        return self.vitals_on

    @property
    def takes_rest(self) -> bool:
        return self.explained or not self._wide

    def slices(self, state: AgentState) -> tuple[object, ...]:
        return *self.vitals.slices(state), *self.ledger.slices(state)

    def show(self, state: AgentState) -> None:
        self.vitals.show(state)
        self.ledger.show(state)

    @property
    def focus_target(self) -> Widget:
        return self.vitals if self.vitals_on else self.ledger

    def lay_out(self, height: int, *, wide: bool, squeezed: bool, opened: bool) -> None:
        """Fit the pane to a screen of ``height`` rows; ``squeezed`` while a gate needs the room,
        ``opened`` while the pane has the focus.
        """
        self._wide, self._room_for_gauges = wide, wide or opened
        if not opened:
            self.vitals.explained = False
        room = LEDGER_ROWS if height >= TALL else 4 if height >= MIDDLING else 1
        room = MOST_ROWS if height >= TOWERING else room
        self.ledger.room = room if wide else 0
        self.ledger.titled = self.shows_vitals or not wide
        self.ledger.folded = self.explained or (squeezed and wide and height < TALL)
        self.vitals.display = self.shows_vitals
        self.ledger.display = self.ledger.has_items or not self.vitals_on
        self.set_class(self.explained, "-explained")

    def watch_words(self) -> None:
        self.vitals.words = self.ledger.words = self.words
