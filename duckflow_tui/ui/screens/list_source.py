"""The rows of a list page, the details of each, and the actions on them, apart from any widget."""

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

_SEARCH_CELLS: Final = 500  # width at which a row is searched: nothing of it is cut


class PageAction(NamedTuple):
    """One thing that can be done on a page."""

    label: str
    run: Callable[[], object]


class ListSource(Generic[ItemT]):
    """The items of a list, how each is drawn, and what can be done with it.

    ``page`` is set before any method is called.
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
        """The colours of the theme now."""
        return palette_of(self.page)

    @property
    def clock(self) -> Clock:
        """The clock of the page."""
        return self.page.clock

    @property
    def host(self) -> DuckflowApp:
        """The app, on which actions act."""
        return host_of(self.page)

    # --- what a source says of its list -------------------------------------------------------

    def list_items(self) -> Mapping[str, ItemT]:
        """All items from the top, by ids that stay the same while the page is open."""
        raise NotImplementedError

    def get_title(self) -> str:
        """The first line of the page."""
        return self.words(self.TITLE)

    def get_empty_text(self) -> str:
        """The text of a list without items."""
        return self.words(self.EMPTY) if self.EMPTY else ""

    def render_head(self, width: int) -> list[Row]:
        """The rows between title and list, with those that are blank."""
        return [[]]

    def render_empty(self, width: int) -> list[Row]:
        """The rows below the text of an empty list."""
        return []

    def render_row(self, item: ItemT, width: int) -> Row:
        """A row of the list, at most so many cells wide."""
        raise NotImplementedError

    def get_search_text(self, item: ItemT) -> str:
        """The text in which every word of the filter has to be found."""
        return row_text(self.render_row(item, _SEARCH_CELLS))

    def render_note(self, item: ItemT, width: int) -> list[Row]:
        """Rows on the chosen item that stay while the details are scrolled."""
        return []

    def render_detail(self, item: ItemT, width: int, room: int) -> list[Row]:
        """The details of the chosen item; those beyond ``room`` rows can be scrolled to."""
        return []

    def get_main_action(self, item: ItemT) -> PageAction | None:
        """The action of Enter on this item, if there is one."""
        return None

    def list_actions(self, item: ItemT | None) -> Sequence[PageAction]:
        """The actions of the menu; ``item`` is None for an empty list."""
        return ()

    def is_ticking(self) -> bool:
        """Whether a running time is shown, so that the page is drawn every second."""
        return False

    # --- when the page calls it ---------------------------------------------------------------

    def on_open(self) -> None:
        """Called once the page is on the screen, to begin with what takes long."""

    def on_choose(self) -> None:
        """Called when the cursor was put on a row."""

    def fetch_detail(self) -> None:
        """Called before each drawing, to fetch beside it what the chosen item needs."""

    def on_filter(self) -> None:
        """Called when the filter of the page has changed."""

    # --- what sources share -------------------------------------------------------------------

    @property
    def chosen_item(self) -> ItemT | None:
        """The item at the cursor; None in an empty list."""
        return self.list_items().get(self.page.chosen_id)

    def make_action(self, label: str, run: Callable[[], object]) -> PageAction:
        """An action whose label is a text of the catalogue."""
        return PageAction(self.words(label), run)

    def make_session_action(
        self, label: str, act: Callable[[Engine], object], *, question: str = ""
    ) -> PageAction:
        """An action on the session at work, which a replay refuses. A ``question`` is shown first,
        and a further Enter confirms it. A coroutine that ``act`` returns is run beside the screen;
        a problem that it returns is reported.
        """

        def run() -> None:
            engine = self.host.session.get_writable_engine()
            if engine is not None and question:
                self.page.ask_first(question, lambda: finish(engine))
            elif engine is not None:
                finish(engine)

        def finish(engine: Engine) -> None:
            result = act(engine)
            if inspect.iscoroutine(result):
                self.host.spawn(result, "page")
            elif isinstance(result, LocalizedText):
                self.page.report(self.words.localize(result))

        return self.make_action(label, run)

    def make_place_action(self, refs: Sequence[str]) -> PageAction:
        """An action that closes the page at the first of these places that the chat has; it says
        so if the chat has none.
        """

        def go_to_place() -> None:
            if self.host.bench.go_to(refs):
                self.page.dismiss(None)
            else:
                self.page.report(self.words("list.no_place"))

        return self.make_action("keys.plan_go_to", go_to_place)

    def wrap_text(self, text: str, width: int, colour: str | None = None) -> list[Row]:
        """A text as rows, by default in the colour of secondary text."""
        return rows_of([(text, ink(colour or self.palette.quiet))], width)


class StateSource(ListSource[ItemT]):
    """A source that shows the state of a session, and is drawn anew with every event."""

    def __init__(self, store: Store) -> None:
        self.state: AgentState = store.state


def make_row(
    width: int, left: Sequence[Part], right: Sequence[Part] = (), *, bold: bool = False
) -> Row:
    """Coloured texts: ``right`` at the right edge, ``left`` cut to what it leaves."""
    return two_sided(color_parts(left, bold=bold), color_parts(right), width)


def color_parts(parts: Sequence[Part], *, bold: bool = False) -> Row:
    """Coloured texts behind each other; empty ones are left out."""
    return [Segment(text, ink(colour, bold=bold)) for text, colour in parts if text]


def render_facts(facts: Sequence[tuple[str, str, str]], width: int, palette: Palette) -> list[Row]:
    """Label, text and colour of each, below each other; texts stand beside the longest label."""
    names = max((cell_len(label) for label, _, _ in facts), default=0)
    rows: list[Row] = []
    for label, text, colour in facts:
        lead = f"{pad(label, names)}  "
        part = rows_of([(text, ink(colour))], max(8, width - cell_len(lead)))
        rows += prefix_rows(part, (lead, ink(palette.faint)))
    return rows
