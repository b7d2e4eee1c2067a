"""``/help`` and F1: the manual inside the program."""

from __future__ import annotations

import re
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from duckflow_tui.manual import INDEX, TOPICS, read_page
from duckflow_tui.state.base import half_width
from duckflow_tui.ui.panes.markdown import page_rows
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.strips import Row
from duckflow_tui.ui.screens.dialog import Dialog, Prose
from duckflow_tui.words.catalogue import Catalogue

PAGES: Final = (INDEX, *TOPICS)
WIDE: Final = 80  # columns from which on the list of pages is shown
HIGH: Final = 12  # rows from which on the keys are shown

#: A link to another page. The list of pages leads there, so its target is left out.
_PAGE_LINK: Final = re.compile(r"\[([^\]]+)\]\([a-z]+\.md(?:#[^)]*)?\)")


class Manual(Dialog[None]):
    """The list of the manual's pages with one of them beside it; a small screen shows the page
    alone.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "leave", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("home", "edge(-1)", show=False),
        Binding("end", "edge(1)", show=False),
        Binding("right", "turn(1)", show=False),
        Binding("left", "turn(-1)", show=False),
        Binding("f1", "keys", show=False),
        Binding("slash", "open_filter", show=False),
    ]

    def __init__(self, words: Catalogue, topic: str = INDEX) -> None:
        super().__init__()
        self._words = words
        self.topic = topic

    def compose(self) -> ComposeResult:
        with Vertical(classes="card card-page manual"):
            yield Prose(self._words("manual.keys"), classes="manual-keys")
            hint = self._words("list.filter_hint")
            field = Input(placeholder=hint, compact=True, classes="card-field")
            field.cursor_blink = field.can_focus = field.display = False
            yield field
            with Horizontal():
                names = [Option(self._words(f"choice.topic.{name}"), id=name) for name in PAGES]
                topics = OptionList(*names, markup=False, compact=True, classes="manual-topics")
                topics.can_focus = False
                yield topics
                with VerticalScroll(can_focus=False):
                    yield ManualPage()

    def on_mount(self) -> None:
        self.open_page(self.topic)
        super().on_mount()

    def on_resize(self, event: events.Resize) -> None:
        """Hide the list of pages on a narrow screen, and the keys on a low one."""
        self.set_class(event.size.width < WIDE, "narrow")
        self.set_class(event.size.height < HIGH, "low")

    def open_page(self, topic: str) -> None:
        """Show a page from its beginning, without a filter."""
        self.topic = topic
        self.query_one(OptionList).highlighted = PAGES.index(topic)
        self._close_filter()
        self._show_page()

    def _show_page(self) -> None:
        """Show the page's text, filtered by the field."""
        page = self.query_one(ManualPage)
        text = _PAGE_LINK.sub(r"\1", read_page(self.topic, self._words.language))
        page.text = filter_page(text, self.query_one(Input).value)
        page.text = page.text or self._words("list.no_match")
        page.invalidate(layout=True)
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_open_filter(self) -> None:
        """Open the filter's field."""
        field = self.query_one(Input)
        field.can_focus = field.display = True
        field.focus()

    def _close_filter(self) -> None:
        """Clear and hide the filter's field."""
        field = self.query_one(Input)
        field.value = ""
        field.can_focus = field.display = False

    def on_input_changed(self) -> None:
        self._show_page()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.open_page(PAGES[event.option_index])

    def action_turn(self, by: int) -> None:
        """Show the next page, or with -1 the one before."""
        self.open_page(PAGES[(PAGES.index(self.topic) + by) % len(PAGES)])

    def action_scroll(self, by: int) -> None:
        """Scroll the page by rows."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_edge(self, side: int) -> None:
        """Scroll to the end of the page, or with -1 to its beginning."""
        scroll = self.query_one(VerticalScroll)
        scroll.scroll_to(y=0 if side < 0 else scroll.max_scroll_y, animate=False)

    def action_keys(self) -> None:
        """Show the page about the keys."""
        self.open_page("keys")

    def action_leave(self) -> None:
        """Close the filter; without one close the manual."""
        if self.query_one(Input).display:
            self._close_filter()
        else:
            self.dismiss(None)


def filter_page(text: str, query: str) -> str:
    """Return the paragraphs and table rows of a page that contain, together with their heading, all
    words of the query.
    """
    words = half_width(query).casefold().split()
    if not words:
        return text
    heading, kept = "", list[str]()
    for block in text.split("\n\n"):
        lines = block.strip().split("\n")
        if block.startswith("#"):
            heading = block
            continue
        head = lines[:2] if block.startswith("|") else []
        parts = lines[2:] if head else [block]
        texts = {part: half_width(f"{heading} {part}").casefold() for part in parts}
        found = [part for part in parts if all(word in texts[part] for word in words)]
        if found:
            kept += [heading] * (heading not in kept)
            kept.append("\n".join([*head, *found]))
    return "\n\n".join(kept)


class ManualPage(Rows):
    """The text of a page, drawn like replies in the chat."""

    text = ""

    def lines(self, width: int) -> list[Row]:
        return page_rows(self.text, self.palette, width)
