"""The start page above the composer, before anything was said: recent sessions, or stories of the
demo.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.session.facts import SessionFacts
from duckflow_tui.session.words import format_day, state_words
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import half_width
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.session import SessionInfo
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.layout import TEXT
from duckflow_tui.ui.panes.rows import Rows, two_sided
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
from duckflow_tui.ui.screens.session_rows import mark_of

MOST: Final = 9  # numbered lines
_LISTED: Final = 5  # sessions of the folder, the newest; /sessions has the others
_NOTICES: Final = 4  # lines left for notices below
_AMPLE: Final = 64  # cells from which a session's state stands beside its title


def is_fresh(state: AgentState) -> bool:
    """Whether nothing was said, done or asked in this session yet."""
    begun = state.turn or state.turns or state.queue or state.running or state.rewound
    said = any(not isinstance(message, NoticeMessage) for message in state.messages)
    return not (begun or said or state.gates or state.cards)


class Start(Rows, can_focus=True):
    """Numbered lines, the stories of the demo or recent sessions of the folder, and facts about
    model, mode and sandbox. A digit chooses a line while the composer is empty; so does a click.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "walk(-1)", show=False),
        Binding("down", "walk(1)", show=False),
        Binding("enter", "take", show=False),
    ]

    class Taken(Message):
        """Posted when the user chose a session to resume, or a request of the demo."""

        def __init__(self, *, session_id: str = "", request: str = "") -> None:
            super().__init__()
            self.session_id = session_id
            self.request = request

    def __init__(self, stories: dict[str, str], *, id: str | None = None) -> None:
        """``stories``: the requests of the demo, by name."""
        super().__init__(id=id)
        self._stories = stories
        self._recent: Sequence[SessionFacts] = ()
        self._session = SessionInfo()
        self._mode = ApprovalMode.STANDARD
        self._notices = False  # something is said below
        self._room = 0  # lines
        self._places: list[int] = []  # for each row, the line that a click on it chooses; -1: none
        self.at = 0  # index of the marked line

    def show_recent(self, recent: Sequence[SessionFacts]) -> None:
        """Show these sessions, newest first, to be resumed."""
        self._recent = recent[:_LISTED]
        self.invalidate(layout=True)

    def show(self, state: AgentState) -> None:
        """Show the facts of the state."""
        before = self._session, self._mode, self._notices
        self._session, self._mode, self._notices = state.session, state.mode, bool(state.messages)
        if before != (self._session, self._mode, self._notices):
            self.invalidate(layout=True)

    # --- choosing -----------------------------------------------------------------------------

    def place_of(self, typed: str) -> int | None:
        """Return the index of the line that a typed character chooses; None for none."""
        digit = half_width(typed)
        at = int(digit) - 1 if len(digit) == 1 and digit.isdecimal() else -1
        return at if 0 <= at < self._line_count else None

    def mark(self, at: int) -> None:
        """Put the mark on this line."""
        self.at = at
        self.invalidate()

    def action_walk(self, by: int) -> None:
        """Move the mark, around the ends."""
        if self._line_count:
            self.mark((self.at + by) % self._line_count)

    def action_take(self) -> None:
        """Choose the marked line."""
        if self._recent:
            self.post_message(self.Taken(session_id=self._recent[self.at].session_id))
        elif self._stories:
            self.post_message(self.Taken(request=list(self._stories.values())[self.at]))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        at = self._places[event.y] if event.y < len(self._places) else -1
        if at >= 0:
            self.mark(at)
            self.action_take()

    def focus_on_click(self) -> bool:
        """Keep the focus where it is."""
        return False

    @property
    def _line_count(self) -> int:
        """The number of lines that can be chosen."""
        return len(self._stories) or len(self._recent)

    # --- drawing -------------------------------------------------------------------------------

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height that fits the container, less some lines for notices."""
        room = container.height - (_NOTICES if self._notices else 0)
        if room != self._room:
            self._room, self._made = room, None
        return super().get_content_height(container, viewport, width)

    def lines(self, width: int) -> list[Row]:
        """Return the rows that fit: first gaps are left out, then descriptions, then the end."""
        wide = max(1, min(width, TEXT))
        for gaps, texts in ((True, 2), (False, 2), (False, 1), (False, 0)):
            rows = self._rows_with(wide, gaps=gaps, texts=texts)
            if len(rows) <= self._room:
                break
        rows = rows[: max(1, self._room)]
        self._places = [at for at, _ in rows]
        return [[*row, Segment(" " * max(0, width - row_cells(row)), ink(None))] for _, row in rows]

    def _rows_with(self, width: int, *, gaps: bool, texts: int) -> list[tuple[int, Row]]:
        """Return each row with the index of the line that a click on it chooses, -1 for none;
        ``texts``: lines of a description.
        """
        palette, gap = self.palette, [(-1, list[Segment]())] if gaps else []
        rows: list[tuple[int, Row]] = []
        head = "start.stories" if self._stories else "start.recent" if self._recent else "start.new"
        said = fit(self.words(head), width - 2)
        rows.append((-1, [Segment("  "), Segment(said, ink(palette.accent, bold=True))]))
        rows += gap
        for at, name in enumerate(self._stories):
            rows += [(at, row) for row in self._story_rows(at, name, width, texts=texts)]
            rows += gap
        for at, facts in enumerate(self._recent):
            rows.append((at, self._session_row(at, facts, width)))
        if self._recent:
            rows += gap
        hint = "start.hint" if self._stories else "start.hint_recent" if self._recent else ""
        if texts and not self._stories:
            rows += [(-1, row) for row in self._fact_rows(width)]
            rows += gap if hint else []
        if hint:
            said = rows_of([(self.words(hint), ink(palette.quiet))], width - 2)
            rows += [(-1, row) for row in prefix_rows(said, ("  ", ink(None)))]
        return rows

    def _number_row(self, at: int) -> Row:
        """Return the mark and number of a line."""
        sign = "› " if at == self.at else "  "
        accent = self.palette.accent
        return [Segment(sign, ink(accent)), Segment(f"{at + 1}  ", ink(accent, bold=True))]

    def _story_rows(self, at: int, name: str, width: int, *, texts: int) -> list[Row]:
        """Return the rows of a story: title, and its description where there is room."""
        palette, room = self.palette, max(1, width - 5)
        on = palette.bars if at == self.at else palette.raised
        title = fit(self.words(f"start.story.{name}"), room)
        rows: list[Row] = [[*self._number_row(at), Segment(title, ink(palette.text, bold=True))]]
        about = self.words(f"start.shows.{name}")
        about = fit(about, room) if texts == 1 else about
        if texts:
            below = rows_of([(about, ink(palette.quiet))], room)
            rows += prefix_rows(below, ("     ", ink(None)))
        padded = [[*row, Segment(" " * max(0, width - row_cells(row)), ink(None))] for row in rows]
        return [mark_row(row, 0, -1, ink(None, on=on)) for row in padded]

    def _session_row(self, at: int, facts: SessionFacts, width: int) -> Row:
        """Return the row of a recent session: title, state and day."""
        palette, words = self.palette, self.words
        sign, colour = mark_of(facts, palette)
        right: Row = []
        if width >= _AMPLE:
            said: str = state_words(facts, words)
            if facts.plan_steps and facts.plan_done < facts.plan_steps:
                plan = words("start.plan", done=facts.plan_done, steps=facts.plan_steps)
                said = f"{said} · {plan}"
            right += [Segment(f"  {sign} {said}", ink(colour))]
        else:
            right += [Segment(f"  {sign}", ink(colour))]
        day = pad(format_day(facts.last_at, host_of(self).clock.now()), 5)
        right.append(Segment(f"  {day} ", ink(palette.quiet)))
        left = [*self._number_row(at), Segment(visible_line(facts.title), ink(palette.text))]
        row = two_sided(left, right, width)
        return mark_row(row, 0, -1, ink(None, on=palette.bars)) if at == self.at else row

    def _fact_rows(self, width: int) -> list[Row]:
        """Return rows about model, approval mode and sandbox, with the key that changes each."""
        palette, session = self.palette, self._session
        said = [(self.words("start.model", model=visible_line(session.model)), "/model")]
        said.append((self.words(f"choice.mode.{self._mode.value}"), "Shift+Tab"))
        said.append((self.words(f"start.sandbox.{session.sandbox}"), "/doctor"))
        keys = max(cell_len(key) for _, key in said)
        column = min(max(cell_len(text) for text, _ in said), max(8, width - keys - 4))
        rows: list[Row] = []
        for text, key in said:
            first, *more = rows_of([(text, ink(palette.text))], column)
            gap = " " * (column - row_cells(first) + 2)
            rows.append([Segment("  "), *first, Segment(gap + key, ink(palette.quiet))])
            rows += prefix_rows(more, ("  ", ink(None)))
        return rows
