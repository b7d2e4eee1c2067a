"""One page for every list: rows, details of the chosen row, a menu of actions, a filter.

A ``ListSource`` provides the items and actions; several sources become the tabs of one page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock, half_width
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.key_guard import KeyGuard, is_for_composer
from duckflow_tui.ui.panes.rows import Rows, palette_of
from duckflow_tui.ui.panes.strips import Row, fit, ink, mark_row, row_cells, row_text, rows_of
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.ui.screens.list_source import ListSource, PageAction, StateSource
from duckflow_tui.ui.screens.pick_list import Choice, PickList
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.ui.app import DuckflowApp

T = TypeVar("T")

TICK_S: Final = 1.0  # seconds between two drawings of a page that shows running times
SCROLLED_ROWS: Final = 5  # rows of the details that one key scrolls
_LOW: Final = 6  # rows of a page below which it shows the chosen row and its details alone
_LEAST: Final = 3  # rows of the list that are shown however little room there is


class ListPage(Dialog[T], Generic[T]):
    """The page of one list, or of several lists as tabs.

    Letters are not keys here: typed text goes to the composer, unless the filter or a row is being
    edited.
    """

    AUTO_FOCUS: ClassVar[str | None] = ""  # the field has the focus only while a filter is written
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "walk(-1)", show=False),
        Binding("down", "walk(1)", show=False),
        Binding("pageup", "scroll_rows(-1)", show=False),
        Binding("pagedown", "scroll_rows(1)", show=False),
        Binding("enter", "run_main", show=False),
        Binding("full_stop", "open_menu", show=False),
        Binding("slash", "open_filter", show=False),
        Binding("tab,right", "turn_tab(1)", show=False),
        Binding("left", "turn_tab(-1)", show=False),
        Binding("escape,ctrl+c", "leave", show=False),
    ]

    def __init__(
        self, words: Catalogue, clock: Clock, sources: Sequence[ListSource[Any]], at: int = 0
    ) -> None:
        """``at`` is the tab shown first."""
        super().__init__()
        self.words = words
        self.clock = clock
        self.sources = sources
        self.query_text = ""  # of the filter
        self.scrolled = 0  # rows that the details are scrolled by
        self._tab = at
        self._guard = KeyGuard(self, clock, self.hand_on, lambda: None)
        self._guard.begin_settling()
        self._asked: PageAction | None = None  # waits for Enter; any other key drops it
        self._said = ""  # outcome of the last action
        self._is_wrong = False
        self._chosen = ""
        self._at = 0  # last known index of the chosen row
        self._first = 0  # first visible row at the last drawing
        #: The last filter with the items that were searched, and its result.
        self._searched: tuple[Sequence[str], Mapping[str, Any]] = [], {}
        self._found: Mapping[str, Any] = {}
        self._ids_at: dict[int, str] = {}  # ids of rows by the line on which they are drawn
        self._ticker: Timer | None = None
        #: Takes the text of an edited row; returns the problem, empty for none.
        self._submit: Callable[[str], str] = str
        self._entry = Input(compact=True, classes="card-field list-entry", select_on_focus=False)
        self._entry.cursor_blink = self._entry.display = False
        self._title = Static("", markup=False, classes="card-title list-title")
        self._page = Page(self)
        for source in sources:
            source.page = self

    @property
    def source(self) -> ListSource[Any]:
        """The source of the tab shown now."""
        return self.sources[self._tab]

    # --- called by sources -------------------------------------------------------------------

    def report(self, said: str, *, wrong: bool = True) -> None:
        """Show the outcome of an action until another row is chosen; an empty text clears it."""
        self._said, self._is_wrong = said, wrong
        self.invalidate()

    def ask_first(self, said: str, then: Callable[[], object]) -> None:
        """Show a question; Enter then calls ``then``, every other key drops it."""
        self._asked = PageAction(said, then)
        self._guard.begin_settling()  # the user has to read the question first
        self.report("")

    def edit_row(self, text: str, submit: Callable[[str], str]) -> None:
        """Open a field on the row at the cursor, with ``text`` in it. Enter passes the input to
        ``submit``, which returns the problem, or an empty text to close the field; Esc closes
        it.
        """
        self._entry.value, self._submit = text, submit
        self._entry.display = True
        self._entry.focus()
        self.invalidate()

    def _place_entry(self) -> None:
        """Lay the field over the right half of the row at the cursor."""
        self.paint(*self._page.size)  # updates ``_ids_at``
        line = next((y for y, row_id in self._ids_at.items() if row_id == self._chosen), 0)
        width = self._page.size.width // 2
        place = self._page.region.offset - self._card.content_region.offset
        self._entry.styles.width = width
        self._entry.styles.offset = (place.x + self._page.size.width - width, place.y + line)

    def choose(self, row_id: str) -> None:
        """Put the cursor on a row, as the user does."""
        self._chosen = row_id
        self.scrolled = 0
        self._asked = None
        self.source.on_choose()
        self.report("")

    def put_cursor(self, row_id: str) -> None:
        """Put the cursor on a row, or for an empty id on the first one, without the effects of a
        choice by the user.
        """
        self._chosen, self._at, self.scrolled = row_id, 0, 0

    @property
    def chosen_id(self) -> str:
        """The id of the row at the cursor; empty for an empty list. If the row is gone, the cursor
        moves to its neighbour.
        """
        ids = list(self.list_items())
        if self._chosen in ids:
            self._at = ids.index(self._chosen)
        elif ids:
            self._at = min(self._at, len(ids) - 1)
            self._chosen = ids[self._at]
            self.scrolled = 0
        else:
            self._chosen = ""
        return self._chosen

    def list_items(self) -> Mapping[str, Any]:
        """Return the items that match the filter, by id."""
        source, items = self.source, self.source.list_items()
        words = half_width(self.query_text).casefold().split()
        if not words or source.ANSWERS_FILTER:
            return items
        if (words, items) != self._searched:  # several times a drawing, for thousands of rows
            texts = {
                item_id: half_width(source.get_search_text(item)).casefold()
                for item_id, item in items.items()
            }
            self._found = {
                item_id: item
                for item_id, item in items.items()
                if all(word in texts[item_id] for word in words)
            }
            self._searched = words, dict(items)
        return self._found

    @property
    def room(self) -> int:
        """The number of rows below the title."""
        return self._page.size.height

    @property
    def is_settled(self) -> bool:
        """Whether keys count as meant for this page, because it has been visible for a moment."""
        return self._guard.is_settled

    def invalidate(self) -> None:
        """Draw the page again for the present items, fetch missing details, and start or stop the
        timer that redraws running times.
        """
        if not self.is_mounted:
            return
        self.source.fetch_detail()
        self._title.update(self._make_title())
        self._title.display = self._card.content_size.height >= _LOW
        self._page.invalidate()
        if self._entry.display:
            self._place_entry()
        if self.source.is_ticking() and self._ticker is None:
            self._ticker = self.set_interval(TICK_S, self.invalidate)
        elif not self.source.is_ticking() and self._ticker is not None:
            self._ticker.stop()
            self._ticker = None

    # --- Textual -----------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        with Vertical(classes="card list-card"):
            yield self._title
            field = Input(
                placeholder=self.words(self.source.FILTER_HINT),
                compact=True,
                classes="card-field",
                select_on_focus=False,
            )
            field.cursor_blink = field.can_focus = field.display = False
            yield field
            yield self._page
            yield self._entry

    def on_mount(self) -> None:
        """Open the sources, and follow the state where one of them shows it."""
        self._page.words = self.words
        if any(isinstance(source, StateSource) for source in self.sources):
            self.host.bridge.add(self)
        for source in self.sources:
            source.on_open()
        self.invalidate()

    def on_unmount(self) -> None:
        self.host.bridge.remove(self)

    @property
    def host(self) -> DuckflowApp:
        """The app."""
        return host_of(self)

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """Return a new object each time, so that the page is drawn again after every event."""
        return (object(),)

    def show(self, state: AgentState) -> None:
        """Draw the page again for the new state."""
        self.invalidate()

    # --- keys --------------------------------------------------------------------------------

    @property
    def _card(self) -> Vertical:
        """The container of the page's contents."""
        return self.query_one(".list-card", Vertical)

    @property
    def _field(self) -> Input:
        """The filter's field."""
        return self.query(Input).first()

    async def on_key(self, event: events.Key) -> None:
        """Handle a key by the guard, the filter or the edited row; typed text goes to the
        composer.
        """
        key = event.key
        self._card.border_subtitle = ""
        if not self.is_current:  # an earlier key of the same burst closed it
            event.stop()
            self.hand_on([event] if is_for_composer(event) else [])
            return
        if self._field.has_focus:
            self._handle_field_key(event)
            return
        if self._entry.has_focus:
            if key in ("escape", "ctrl+c", "tab", "up", "down"):
                event.stop()
                event.prevent_default()
                self._leave_entry()
            return
        if self._asked is not None and key != "enter":
            self._asked = None
            self.invalidate()
            if key == "escape":
                event.stop()
                return
        opens = key == "slash" or (key == "full_stop" and self.is_settled)
        if opens and not self._guard.is_waiting:
            self._guard.forget_keys()
        elif await self._guard.handle_key(event, None):
            event.stop()
        elif key == "enter" and not self.is_settled:
            event.stop()
            self._card.border_subtitle = self.words("guard.too_soon", key="Enter")

    def _handle_field_key(self, event: events.Key) -> None:
        """Handle a key while the filter is edited."""
        match event.key:
            case "up" | "down":
                self.action_walk(-1 if event.key == "up" else 1)
            case "escape":
                self._field.value = ""
                self._leave_field()
            case "tab":
                self._leave_field()
            case _:
                return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """Pass a paste to the composer, unless a field has the focus."""
        if self.focused is None:
            event.stop()
            self._guard.take_paste(event)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the list by the changed text."""
        if event.input is self._field and event.value.strip() != self.query_text:
            self.query_text = event.value.strip()
            self.put_cursor("")
            self.source.on_filter()
            self.report("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Run the main action after the filter, or submit the edited row."""
        if event.input is self._field:
            self._leave_field()
            self.action_run_main()
        elif wrong := self._submit(event.value.strip()):
            self.report(wrong)
        else:
            self._leave_entry()

    def _leave_entry(self) -> None:
        """Close the field on a row."""
        self.set_focus(None)
        self._entry.display = False
        self.invalidate()

    def _leave_field(self) -> None:
        """Leave the filter's field, which stays visible while it has a text."""
        self.set_focus(None)
        self._field.can_focus = False
        self._field.display = bool(self._field.value)
        self.invalidate()

    def action_open_filter(self) -> None:
        """Open the filter's field."""
        self._field.can_focus = self._field.display = True
        self._field.focus()

    def action_walk(self, by: int) -> None:
        """Move the cursor by rows."""
        ids = list(self.list_items())
        if ids:
            at = ids.index(self.chosen_id)
            self.choose(ids[min(max(at + by, 0), len(ids) - 1)])

    def action_scroll_rows(self, by: int) -> None:
        """Scroll the details."""
        step = -SCROLLED_ROWS if self.source.NEWEST_LAST else SCROLLED_ROWS
        self.scrolled += by * step
        self._page.invalidate()

    def _get_main_action(self) -> PageAction | None:
        """Return the action of Enter on the row at the cursor, if any."""
        item = self.source.chosen_item
        return self.source.get_main_action(item) if item is not None else None

    def action_run_main(self) -> None:
        """Run the action that waits for confirmation, else that of Enter."""
        action = self._asked or self._get_main_action()
        self._asked = None
        self.report("")
        if action is not None:
            action.run()

    def action_open_menu(self) -> None:
        """Open a menu of the actions on the row at the cursor."""
        source, item_id, item = self.source, self.chosen_id, self.source.chosen_item
        main = self._get_main_action()
        actions = [*([main] if main is not None else []), *source.list_actions(item)]
        if not actions:
            return
        title = self._read_title()
        if item is not None:
            title = row_text(source.render_row(item, 60)).strip()
        choices = [Choice(str(at), action.label) for at, action in enumerate(actions)]

        def run_chosen(value: str | None) -> None:
            """Run the chosen action, if its row still exists."""
            if value is not None and (not item_id or item_id in source.list_items()):
                self.report("")
                actions[int(value)].run()

        self.host.push_screen(PickList(self.words, title, choices), run_chosen)

    def action_turn_tab(self, by: int) -> None:
        """Switch to another tab."""
        if len(self.sources) > 1:
            self._tab = (self._tab + by) % len(self.sources)
            self._field.value = ""
            self._leave_field()
            self.put_cursor("")
            self.choose(self.chosen_id)

    def action_leave(self) -> None:
        """Clear the filter; without one close the page."""
        if self._field.value:
            self._field.value = ""
            self._leave_field()
        else:
            self.dismiss(None)

    # --- drawing -----------------------------------------------------------------------------

    def _read_title(self) -> str:
        """Return the title of the shown tab, safe to show."""
        return visible_line(self.source.get_title())

    def _make_title(self) -> Content | str:
        """Return the title; with several tabs the titles of all, the others fainter."""
        width = max(1, self._page.size.width)
        if len(self.sources) == 1:
            return fit(self._read_title(), width)
        palette = palette_of(self)
        return Content.assemble(
            *(
                (
                    f"{visible_line(source.get_title())}   ",
                    f"bold {palette.accent}" if source is self.source else palette.quiet,
                )
                for source in self.sources
            )
        )

    def choose_line(self, line: int) -> None:
        """Put the cursor on the row drawn on this line, if any."""
        if line in self._ids_at:
            self.choose(self._ids_at[line])

    def paint(self, width: int, height: int) -> list[Row]:
        """Return all rows below the title, and note on which lines the list's rows are."""
        source, palette = self.source, palette_of(self)
        low = not self._title.display  # then only the chosen row is shown
        rows: list[Row] = [] if low else source.render_head(width)
        foot = self._render_foot(width)[: height // 3 if low else None]
        gap: list[Row] = [] if low else [[]]
        items, chosen = self.list_items(), self.chosen_id
        if not items:
            text = self.words("list.no_match") if self.query_text else source.get_empty_text()
            rows += [*rows_of([(text, ink(palette.quiet))], width), *self._render_said(width)]
            rows += source.render_empty(width)
            self._ids_at = {}
        else:
            item = items[chosen]
            listed = {chosen: item} if low else items
            space = max(1, height - len(rows) - len(foot) - 2 * len(gap))
            note = [*self._render_said(width), *source.render_note(item, width)]
            # Half of the room for the list, and what the rest does not need.
            most = min(len(listed), space, max(_LEAST + 1, (space + len(gap)) // 2))
            room = space - most - len(note)
            detail = source.render_detail(item, width, room) if room > 0 else []
            while detail and not detail[-1]:
                detail.pop()
            most = min(len(listed), most + max(0, room - len(detail)))
            rows += [*self._render_list(listed, chosen, width, most, len(rows)), *gap, *note]
            room = height - len(rows) - len(foot) - len(gap)
            if room > 0:
                rows += self._cut_detail(detail, room)
        del rows[max(0, height - len(foot) - len(gap)) :]
        rows += [[] for _ in range(height - len(rows) - len(foot))]
        return [*rows, *foot][:height]

    def _render_list(
        self, items: Mapping[str, Any], chosen: str, width: int, most: int, top: int
    ) -> list[Row]:
        """Render at most ``most`` rows of the list; ``top`` is the line of the first. If rows are
        hidden, the last one counts them.
        """
        palette, ids = palette_of(self), list(items)
        shown = len(ids) if len(ids) <= most else max(1, most - 1)
        at = ids.index(chosen)
        first = min(max(self._first, at - shown + 1, 0), at, len(ids) - shown)
        self._first = first
        self._ids_at = {top + n: row_id for n, row_id in enumerate(ids[first : first + shown])}
        rows: list[Row] = []
        for row_id in self._ids_at.values():
            lit = row_id == chosen
            sign = Segment("› " if lit else "  ", ink(palette.accent))
            row = [sign, *self.source.render_row(items[row_id], width - 2)]
            row.append(Segment(" " * max(0, width - row_cells(row)), ink(None)))
            rows.append(mark_row(row, 0, -1, ink(None, on=palette.bars)) if lit else row)
        hidden = [
            self.words(f"list.{where}", count=count)
            for where, count in (("above", first), ("below", len(ids) - first - shown))
            if count
        ]
        if hidden and most > 1:
            rows.append([Segment(f"  {'   '.join(hidden)}", ink(palette.quiet))])
        return rows

    def _cut_detail(self, rows: list[Row], room: int) -> list[Row]:
        """Return the visible part of the details; where rows below are hidden, the last one counts
        them.
        """
        if self.source.CUTS_DETAIL:
            return rows
        spare = max(0, len(rows) - room)
        self.scrolled = max(0, self.scrolled)
        if not spare:
            self.scrolled = 0
            return rows
        if self.source.NEWEST_LAST:
            self.scrolled = min(self.scrolled, spare)
            return rows[spare - self.scrolled : len(rows) - self.scrolled]
        self.scrolled = min(self.scrolled, spare + 1)
        shown = rows[self.scrolled : self.scrolled + room]
        hidden = len(rows) - self.scrolled - room
        if hidden > 0 and room > 1:
            said = self.words("transcript.more_lines", count=hidden + 1)
            shown[-1] = [Segment(said, ink(palette_of(self).quiet))]
        return shown

    def _render_said(self, width: int) -> list[Row]:
        """Render the question before an action, or the outcome of the last action."""
        palette = palette_of(self)
        if self._asked is not None:
            return rows_of([(self._asked.label, ink(palette.accent))], width)
        if not self._said:
            return []
        sign, colour = ("✗", palette.bad) if self._is_wrong else ("✓", palette.good)
        return rows_of([(f"{sign} {visible_line(self._said)}", ink(colour))], width)

    def _render_foot(self, width: int) -> list[Row]:
        """Render the keys that work now; after the menu's key the names of its actions."""
        words = self.words
        if self._asked is not None:
            keys = [("Enter", words("list.do_it")), ("Esc", words("list.drop_it"))]
            return render_keys(keys, width, palette_of(self))
        main, item = self._get_main_action(), self.source.chosen_item
        keys = [("Enter", main.label)] if main is not None else []
        if actions := [action.label for action in self.source.list_actions(item)]:
            named = " · ".join(actions)
            keys.append((".", named if cell_len(named) + 2 <= width else words("keys.list_menu")))
        if len(self.sources) > 1:
            keys.append(("Tab", words("keys.list_tab")))
        if item is not None or self.query_text:
            keys.append(("/", words("keys.list_filter")))
        return render_keys([*keys, ("Esc", words("keys.close"))], width, palette_of(self))


def render_keys(keys: Sequence[tuple[str, str]], width: int, palette: Palette) -> list[Row]:
    """Render keys with their effects, in as many rows as needed."""
    rows: list[Row] = [[]]
    for label, effect in keys:
        cells = cell_len(label) + 1 + cell_len(effect)
        if rows[-1] and row_cells(rows[-1]) + 3 + cells > width:
            rows.append([])
        gap = " " * 3 if rows[-1] else ""
        rows[-1] += [
            Segment(gap, ink(None)),
            Segment(label, ink(palette.accent)),
            Segment(f" {effect}", ink(palette.quiet)),
        ]
    return rows


class Page(Rows):
    """Widget that draws the rows of a list page below its title."""

    def __init__(self, owner: ListPage[Any]) -> None:
        super().__init__()
        self._owner = owner

    def on_resize(self) -> None:
        self._owner.invalidate()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked row."""
        self._owner.choose_line(event.y)

    def lines(self, width: int) -> list[Row]:
        return self._owner.paint(width, self.size.height)
