"""The base classes of list pages' contents: items, their rows and details, and actions, without
widgets.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock, LocalizedText
from duckflow_tui.state.store import Store
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import palette_of, two_sided
from duckflow_tui.ui.panes.strips import Row, ink, pad, prefix_rows, row_text, rows_of
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine
    from duckflow_tui.ui.app import DuckflowApp
    from duckflow_tui.ui.screens.list_page import ListPage

ItemT = TypeVar("ItemT")

#: A text and its colour.
Part = tuple[str, str | None]

_SEARCH_CELLS: Final = 500  # width at which a row is rendered for the search, so uncut


class PageAction(NamedTuple):
    """An action on a page: its label, and the function that runs it."""

    label: str
    run: Callable[[], object]


class ListSource(Generic[ItemT]):
    """The items of a list, how each is drawn, and the actions on it.

    The page sets ``page`` before it calls any method.
    """

    #: Key of the words of the title; a source without one has a ``get_title`` of its own.
    TITLE: ClassVar[str] = ""
    #: Key of the words for a list without items; likewise with ``get_empty_text``.
    EMPTY: ClassVar[str] = ""
    #: Whether the details are shown from their end, as output is.
    NEWEST_LAST: ClassVar[bool] = False
    #: Whether ``list_items`` applies the filter itself, as a search through more than the rows.
    ANSWERS_FILTER: ClassVar[bool] = False
    #: The text in the empty field of the filter.
    FILTER_HINT: ClassVar[str] = "list.filter_hint"
    #: Whether ``render_detail`` itself cuts the rows by ``page.scrolled``.
    CUTS_DETAIL: ClassVar[bool] = False
    page: ListPage[Any]

    @property
    def words(self) -> Catalogue:
        """The texts in the language of the page."""
        return self.page.words

    @property
    def palette(self) -> Palette:
        """The colours of the current theme."""
        return palette_of(self.page)

    @property
    def clock(self) -> Clock:
        """The clock of the page."""
        return self.page.clock

    @property
    def host(self) -> DuckflowApp:
        """The app."""
        return host_of(self.page)

    # --- to be overridden: the list -----------------------------------------------------------

    def list_items(self) -> Mapping[str, ItemT]:
        """Return all items from the top, by ids that stay the same while the page is open."""
        raise NotImplementedError

    def get_title(self) -> str:
        """Return the first line of the page."""
        return self.words(self.TITLE)

    def get_empty_text(self) -> str:
        """Return the text shown for a list without items."""
        return self.words(self.EMPTY) if self.EMPTY else ""

    def render_head(self, width: int) -> list[Row]:
        """Return the rows between title and list, blank ones included."""
        return [[]]

    def render_empty(self, width: int) -> list[Row]:
        """Return the rows below the text of an empty list."""
        return []

    def render_row(self, item: ItemT, width: int) -> Row:
        """Return an item's row of the list, at most ``width`` cells wide."""
        raise NotImplementedError

    def get_search_text(self, item: ItemT) -> str:
        """Return the text in which the filter's words are searched."""
        return row_text(self.render_row(item, _SEARCH_CELLS))

    def render_note(self, item: ItemT, width: int) -> list[Row]:
        """Return rows about the chosen item that do not scroll with its details."""
        return []

    def render_detail(self, item: ItemT, width: int, room: int) -> list[Row]:
        """Return the details of the chosen item; more than ``room`` rows can be scrolled."""
        return []

    def get_main_action(self, item: ItemT) -> PageAction | None:
        """Return the action of Enter on this item, if any."""
        return None

    def list_actions(self, item: ItemT | None) -> Sequence[PageAction]:
        """Return the actions of the menu; ``item`` is None for an empty list."""
        return ()

    def is_ticking(self) -> bool:
        """Whether the page shows a running time and must be drawn every second."""
        return False

    # --- to be overridden: events ------------------------------------------------------------

    def on_open(self) -> None:
        """Called once the page is on the screen; starts slow work."""

    def on_choose(self) -> None:
        """Called when the user put the cursor on a row."""

    def fetch_detail(self) -> None:
        """Called before each drawing; starts to fetch details of the chosen item."""

    def on_filter(self) -> None:
        """Called when the filter of the page has changed."""

    # --- shared by sources --------------------------------------------------------------------

    @property
    def chosen_item(self) -> ItemT | None:
        """The item at the cursor; None for an empty list."""
        return self.list_items().get(self.page.chosen_id)

    def make_action(self, label: str, run: Callable[[], object]) -> PageAction:
        """Return an action whose label is an entry of the catalogue."""
        return PageAction(self.words(label), run)

    def make_session_action(
        self, label: str, act: Callable[[Engine], object], *, question: str = ""
    ) -> PageAction:
        """Return an action on the open session; a replay refuses it.

        With a ``question`` a further Enter must confirm it. A coroutine returned by ``act`` runs in
        the background; a LocalizedText that it returns is shown as a problem.
        """

        def run() -> None:
            """Run the action on the open session, after the question if there is one."""
            engine = self.host.session.get_writable_engine()
            if engine is not None and question:
                self.page.ask_first(question, lambda: finish(engine))
            elif engine is not None:
                finish(engine)

        def finish(engine: Engine) -> None:
            """Run the action; start its coroutine, or report its problem."""
            result = act(engine)
            if inspect.iscoroutine(result):
                self.host.spawn(result, "page")
            elif isinstance(result, LocalizedText):
                self.page.report(self.words.localize(result))

        return self.make_action(label, run)

    def make_place_action(self, refs: Sequence[str]) -> PageAction:
        """Return an action that closes the page and scrolls the chat to the first of these messages
        it has; without any it reports that.
        """

        def go_to_place() -> None:
            """Show the place in the chat and close the page, or report that there is none."""
            if self.host.bench.go_to(refs):
                self.page.dismiss(None)
            else:
                self.page.report(self.words("list.no_place"))

        return self.make_action("keys.plan_go_to", go_to_place)

    def wrap_text(self, text: str, width: int, colour: str | None = None) -> list[Row]:
        """Return a text as rows, by default in the colour of secondary text."""
        return rows_of([(text, ink(colour or self.palette.quiet))], width)


class StateSource(ListSource[ItemT]):
    """A source that shows a session's state, and is drawn again after every event."""

    def __init__(self, store: Store) -> None:
        self.state: AgentState = store.state


def make_row(
    width: int, left: Sequence[Part], right: Sequence[Part] = (), *, bold: bool = False
) -> Row:
    """Return a row of coloured texts: ``right`` at the right edge, ``left`` cut to the space it
    leaves.
    """
    return two_sided(color_parts(left, bold=bold), color_parts(right), width)


def color_parts(parts: Sequence[Part], *, bold: bool = False) -> Row:
    """Return coloured texts one after the other; empty ones are left out."""
    return [Segment(text, ink(colour, bold=bold)) for text, colour in parts if text]


def render_facts(facts: Sequence[tuple[str, str, str]], width: int, palette: Palette) -> list[Row]:
    """Render facts, each a label, a text and a colour, one below the other; the texts begin in one
    column.
    """
    names = max((cell_len(label) for label, _, _ in facts), default=0)
    rows: list[Row] = []
    for label, text, colour in facts:
        lead = f"{pad(label, names)}  "
        part = rows_of([(text, ink(colour))], max(8, width - cell_len(lead)))
        rows += prefix_rows(part, (lead, ink(palette.faint)))
    return rows
