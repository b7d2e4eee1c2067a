"""A page with a list above and what belongs to the chosen item below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.timer import Timer

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock
from duckflow_tui.state.store import Store
from duckflow_tui.ui.bindings import Key, Surface, keys_of
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.key_guard import KeyGuard, composes, writes
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.strips import Row, fit, ink, marked, pad, prefixed, rows_of
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.ui.textual_private import bindings_of
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.ui.app import DuckflowApp

T = TypeVar("T")

COUNT: Final = 1.0  # seconds between two times that are shown
PAGE: Final = 5  # rows that one key scrolls
_LOW: Final = 6  # rows of a page, below which it shows the chosen item and at most a row of keys
_LEAST: Final = 3  # items that are shown however little room there is
WALKS: Final = frozenset({"walk", "scroll_rows", "leave"})
#: Actions that open a line to write in, which takes what is typed right behind their key.
_OPEN: Final = frozenset({"add", "edit", "rename", "search", "waive"})
#: Actions whose keys are pressed many times in a row.
_IN_A_ROW: Final = frozenset({"move", "next_priority"})


def board_bindings(surface: Surface) -> list[BindingType]:
    """The keys of the surface, and those that every board has."""
    found: list[BindingType] = [
        Binding("up", "walk(-1)", show=False),
        Binding("down", "walk(1)", show=False),
        Binding("pageup", "scroll_rows(-1)", show=False),
        Binding("pagedown", "scroll_rows(1)", show=False),
        Binding("escape,ctrl+c,q", "leave", show=False),
    ]
    for key in keys_of(surface):
        if key.action == "to_evidence":
            found += [Binding(k, f"to_evidence({k})", k, show=False) for k in key.keys]
        elif key.action not in WALKS:
            found.append(Binding(",".join(key.keys), key.action, key.label, show=False))
    return found


class Board(Dialog[T], Generic[T]):
    """Its letters pass a ``KeyGuard``; a text that is typed here goes to the composer."""

    SURFACE: ClassVar[Surface]
    NEWEST_LAST: ClassVar[bool] = False  # what belongs to an item is shown from its end

    def __init__(self, words: Catalogue, clock: Clock) -> None:
        super().__init__()
        self.words = words
        self.clock = clock
        self._guard = KeyGuard(self, clock, self.hand_on, self._show_standing)
        self._guard.begin()
        self._key = ""  # the one pressed last
        self._twice: tuple[str, str] | None = None  # see ``pressed_twice``
        self._said = ""  # what came of the last key
        self._chosen = ""
        self._at = 0  # where the chosen one stood when it was last seen
        self._first = 0  # the one that the list began with when it was last drawn
        self._offset = 0  # rows that what belongs to it is scrolled by
        self._ticker: Timer | None = None
        self._page = Page(self._paint)

    @property
    def host(self) -> DuckflowApp:
        """The app: what keys act on, and the composer under the board."""
        return host_of(self)

    # --- what a board says -------------------------------------------------------------------

    def heading(self) -> str:
        """Its first line."""
        raise NotImplementedError

    def head(self, width: int) -> list[Row]:
        """The rows above the list."""
        title = fit(self.heading(), width)
        return [[Segment(title, ink(self._page.palette.accent, bold=True))], []]

    def empty(self) -> str:
        """The text of an empty list."""
        raise NotImplementedError

    def names(self) -> Sequence[str]:
        """The ids of the listed items."""
        raise NotImplementedError

    def item(self, name: str, width: int) -> Row:
        """The row of one."""
        raise NotImplementedError

    def about(self, name: str, width: int) -> list[Row]:
        """The fixed rows about the chosen item, above those that scroll."""
        return []

    def about_none(self, width: int) -> list[Row]:
        """The rows below ``empty``."""
        return []

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        """The rows about the chosen item; rows beyond the ``room`` can be scrolled to."""
        raise NotImplementedError

    def moves(self) -> bool:
        """Whether it shows a time that goes on."""
        return False

    def report(self, said: str, *, wrong: bool = True) -> None:
        """Show the outcome of the last key, mostly an obstacle; empty for nothing. A board that
        has a line for it shows it.
        """
        self._said = said
        self.invalidate()

    def said_rows(self, width: int) -> list[Row]:
        """The same line for an obstacle."""
        said = (f"✗ {visible_line(self._said)}", ink(self._page.palette.bad))
        return rows_of([said], width) if self._said else []

    def acts_alone(self, action: str) -> bool:
        """Whether a key that does this needs no item."""
        return action == "leave"

    # --- the choice --------------------------------------------------------------------------

    @property
    def chosen(self) -> str:
        """The id of the item at the cursor, empty for none; where it went, its neighbour."""
        names = self.names()
        if self._chosen in names:
            self._at = names.index(self._chosen)
        elif names:
            self._at = min(self._at, len(names) - 1)
            self._chosen = names[self._at]
            self._offset = 0
        else:
            self._chosen = ""
        return self._chosen

    def choose(self, name: str) -> None:
        """Put the cursor there."""
        self._chosen = name
        self._offset = 0
        self._twice = None
        self.invalidate()

    @property
    def settled(self) -> bool:
        """Whether keys are meant for this page."""
        return self._guard.is_settled

    # --- keys --------------------------------------------------------------------------------

    @property
    def writing(self) -> bool:
        """Whether letters are written somewhere on this page, and are no keys of it."""
        return False

    @property
    def asked(self) -> str:
        """The effect of a second press of the key on the chosen item; empty for none."""
        what, chosen = self._twice or ("", "")
        return what if chosen == self.chosen else ""

    def pressed_twice(self, what: str) -> bool:
        """Whether the key that does ``what`` was pressed a second time, right after the first. Else
        ``asked`` says that it was pressed.
        """
        now = what, self.chosen
        if self._twice == now:
            self._twice = None
            return True
        self._twice = now
        self.report("")
        self._guard.begin()  # nobody has read yet what is asked
        return False

    async def on_key(self, event: events.Key) -> None:
        """A letter that opens a line acts at once, and what is typed behind it is written there."""
        if self.writing:
            return
        if not self.is_current:  # an earlier key of the same burst closed it
            event.stop()
            self.hand_on([event] if writes(event) or composes(event) else [])
            return
        key = event.key
        does = {binding.action.partition("(")[0] for binding in bindings_of(self, key)}
        if key != self._key:
            self._twice = None
            self._page.invalidate()
        self._key = key
        opens = bool(does & _OPEN) and not self._guard.is_waiting and self.settled
        act = partial(self._act, key) if does else None
        if opens or "search" in does:
            self._guard.forget()
        elif await self._guard.handle_key(event, act, is_repeatable=bool(does & _IN_A_ROW)):
            event.stop()
        elif key == "enter" and does and not self.settled:
            self._hint(self.words("guard.too_soon", key="Enter"))

    def on_paste(self, event: events.Paste) -> None:
        if not self.writing:
            event.stop()
            self._guard.take_paste(event)

    async def _act(self, key: str) -> None:
        for binding in bindings_of(self, key):
            await self.run_action(binding.action)

    def _show_standing(self) -> None:
        """Say in the frame how the newest letter stands."""
        key = self._guard.newest
        does = next((self.words(k.text) for k in keys_of(self.SURFACE) if key in k.keys), key)
        self._hint(self._guard.words(self.words, does))

    def _hint(self, text: str) -> None:
        if self.is_mounted:
            self.query_one(".board").border_subtitle = text

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        own = {key.action.partition("(")[0] for key in keys_of(self.SURFACE)} - WALKS
        return action not in own or (
            self.settled and (bool(self.chosen) or self.acts_alone(action))
        )

    # --- Textual -----------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        with Vertical(classes="card board"):
            yield self._page

    def on_mount(self) -> None:
        self._page.words = self.words
        self.invalidate()

    def invalidate(self) -> None:
        """Draw it anew."""
        if not self.is_mounted:
            return
        self._page.invalidate()
        if self.moves() and self._ticker is None:
            self._ticker = self.set_interval(COUNT, self.invalidate)
        elif not self.moves() and self._ticker is not None:
            self._ticker.stop()
            self._ticker = None

    def action_walk(self, by: int) -> None:
        names = self.names()
        if names:
            at = names.index(self.chosen)
            self.choose(names[min(max(at + by, 0), len(names) - 1)])

    def action_scroll_rows(self, by: int) -> None:
        self._offset = max(0, self._offset + by * (-PAGE if self.NEWEST_LAST else PAGE))
        self._page.invalidate()

    def action_leave(self) -> None:
        self.dismiss(None)

    # --- drawing -----------------------------------------------------------------------------

    def _paint(self, width: int, height: int) -> list[Row]:
        palette = self._page.palette
        low = height < _LOW  # what is chosen counts most
        rows = [] if low else self.head(width)
        foot = self.foot(width)[: height // 3 if low else None]
        gap: list[Row] = [] if low else [[]]
        names, chosen = self.names(), self.chosen
        if not names:
            rows += rows_of([(self.empty(), ink(palette.quiet))], width)
            rows += self.about_none(width)
        else:
            listed = [chosen] if low else names
            space = max(1, height - len(rows) - len(foot) - 2 * len(gap))
            about = self.about(chosen, width)
            # Half of the room for the list, and what the rest does not need.
            most = min(len(listed), space, max(_LEAST + 1, (space + len(gap)) // 2))
            room = space - most - len(about)
            detail = self.detail(chosen, width, room) if room > 0 else []
            while detail and not detail[-1]:
                detail.pop()
            most = min(len(listed), most + max(0, room - len(detail)))
            rows += [*self._list(listed, chosen, width, most), *gap, *about]
            room = height - len(rows) - len(foot) - len(gap)
            if room > 0:
                rows += self._window(detail, room, palette)
        del rows[max(0, height - len(foot) - len(gap)) :]
        rows += [[] for _ in range(height - len(rows) - len(foot))]
        return [*rows, *foot][:height]

    def _list(self, names: Sequence[str], chosen: str, width: int, most: int) -> list[Row]:
        """The items, or as many as ``most`` rows hold; what is hidden is counted in the last."""
        palette = self._page.palette
        shown = len(names) if len(names) <= most else max(1, most - 1)
        at = names.index(chosen)
        first = min(max(self._first, at - shown + 1, 0), at, len(names) - shown)
        self._first = first
        rows: list[Row] = []
        for name in names[first : first + shown]:
            lit = name == chosen
            row = [Segment("› " if lit else "  ", ink(palette.accent)), *self.item(name, width - 2)]
            used = sum(cell_len(segment.text) for segment in row)
            row.append(Segment(" " * max(0, width - used), ink(None)))
            rows.append(marked(row, 0, -1, ink(None, on=palette.bars)) if lit else row)
        below = len(names) - first - shown
        hidden = [
            self.words(f"board.{where}", count=count)
            for where, count in (("above", first), ("below", below))
            if count
        ]
        if hidden and most > 1:
            rows.append([Segment(f"  {'   '.join(hidden)}", ink(palette.quiet))])
        return rows

    def _window(self, rows: list[Row], room: int, palette: Palette) -> list[Row]:
        """As many of the rows as there is room for; what is hidden below is counted."""
        spare = max(0, len(rows) - room)
        if not spare:
            self._offset = 0
            return rows
        if self.NEWEST_LAST:
            self._offset = min(self._offset, spare)
            return rows[spare - self._offset : len(rows) - self._offset]
        self._offset = min(self._offset, spare + 1)
        shown = rows[self._offset : self._offset + room]
        hidden = len(rows) - self._offset - room
        if hidden > 0 and room > 1:
            said = self.words("transcript.more_lines", count=hidden + 1)
            shown[-1] = [Segment(said, ink(palette.quiet))]
        return shown

    def foot(self, width: int) -> list[Row]:
        """The keys that something here answers to."""
        keys = keys_of(self.SURFACE)
        if not self.names():
            keys = tuple(key for key in keys if self.acts_alone(key.action))
        return foot_rows(keys, width, self._page.palette, self.words)


class StateBoard(Board[None]):
    """Follows the state while it is open."""

    def __init__(self, words: Catalogue, store: Store) -> None:
        super().__init__(words, store.clock)
        self.state: AgentState = store.state

    def on_mount(self) -> None:
        self.host.bridge.add(self)

    def on_unmount(self) -> None:
        self.host.bridge.remove(self)

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """A page may show anything: each event is news."""
        return (object(),)

    def show(self, state: AgentState) -> None:
        """Draw what the state says now."""
        self.invalidate()


def fact_rows(facts: Sequence[tuple[str, str, str]], width: int, palette: Palette) -> list[Row]:
    """Label, text and colour of each, below each other; texts stand beside the longest label."""
    names = max((cell_len(label) for label, _, _ in facts), default=0)
    rows: list[Row] = []
    for label, text, colour in facts:
        lead = f"{pad(label, names)}  "
        part = rows_of([(text, ink(colour))], max(8, width - cell_len(lead)))
        rows += prefixed(part, (lead, ink(palette.faint)))
    return rows


def foot_rows(keys: Sequence[Key], width: int, palette: Palette, words: Catalogue) -> list[Row]:
    """The keys, as many rows as they take."""
    rows: list[Row] = [[]]
    used = 0
    for key in keys:
        parts = [(key.label, palette.accent), (f" {words(key.text)}", palette.quiet)]
        cells = sum(cell_len(text) for text, _ in parts)
        gap = 3 if used else 0
        if used and used + gap + cells > width:
            rows.append([])
            used = gap = 0
        rows[-1].append(Segment(" " * gap, ink(None)))
        rows[-1] += [Segment(text, ink(color)) for text, color in parts]
        used += gap + cells
    return rows


class Page(Rows):
    """All of a board's rows."""

    def __init__(self, paint: Callable[[int, int], list[Row]]) -> None:
        super().__init__()
        self._paint = paint

    def on_resize(self, _event: events.Resize) -> None:
        self.invalidate()

    def lines(self, width: int) -> list[Row]:
        return self._paint(width, self.size.height)
