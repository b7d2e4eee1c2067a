"""The base class of the panes in the column beside the chat."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.widget import Widget

from duckflow_tui.state.agent import AgentState
from duckflow_tui.ui.host import bind_keys


class SidePane(Widget):
    """A pane of the column beside the chat. ``Side`` creates all of them; titles, tabs, focus, zoom
    and layout follow from the attributes of the class.

    Its words are ``pane.NAME``, the title, and ``pane.no_NAME``, shown after the title of an empty
    pane.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind_keys("pane")

    pane_name: ClassVar[str]
    words: Any  # a reactive ``Catalogue`` of the pane itself

    def has_content(self, state: AgentState) -> bool:
        """Whether the pane has something to show without being asked for."""
        raise NotImplementedError

    def make_title(self, width: int) -> Text | None:
        """Return the title in at most ``width`` cells; None for the name alone."""
        return None

    @property
    def title_key(self) -> str:
        """Key of the pane's name."""
        return f"pane.{self.pane_name}"

    def describe_folded(self) -> str:
        """Return the words after the name while the pane itself is hidden."""
        return self.words(f"pane.no_{self.pane_name}")

    @property
    def is_always_shown(self) -> bool:
        """Whether the pane is shown beside the chat even without content."""
        return False

    @property
    def takes_rest(self) -> bool:
        """Whether the pane gets the remaining rows if it is the last of the column."""
        return True

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """Return the parts of the state that ``show`` reads."""
        raise NotImplementedError

    def show(self, state: AgentState) -> None:
        """Show the new state."""
        raise NotImplementedError

    @property
    def focus_target(self) -> Widget:
        """The widget of the pane that takes the focus."""
        return self
