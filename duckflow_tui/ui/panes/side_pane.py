"""The base of each pane in the column beside the chat."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.widget import Widget

from duckflow_tui.state.agent import AgentState
from duckflow_tui.ui.host import bind_keys


class SidePane(Widget):
    """A pane of the column beside the chat. ``Side`` makes all of them; titles, tabs, focus, zoom
    and layout follow from what is declared here.

    Its words are ``pane.NAME``, the title, and ``pane.no_NAME``, behind the title of an empty one.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind_keys("pane")

    pane_name: ClassVar[str]
    words: Any  # a reactive ``Catalogue`` of the pane itself

    def has_content(self, state: AgentState) -> bool:
        """Whether it has something to show unasked."""
        raise NotImplementedError

    def make_title(self, width: int) -> Text | None:
        """The title in at most ``width`` cells; None where it is the name alone."""
        return None

    @property
    def title_key(self) -> str:
        """Key of the pane's name."""
        return f"pane.{self.pane_name}"

    def describe_folded(self) -> str:
        """The words behind the name in the title while the pane itself is not shown."""
        return self.words(f"pane.no_{self.pane_name}")

    @property
    def is_always_shown(self) -> bool:
        """Whether it is shown beside the chat also without content."""
        return False

    @property
    def takes_rest(self) -> bool:
        """Whether the last pane of the column, if this is it, takes the rows that are left."""
        return True

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """The parts of the state that ``show`` reads."""
        raise NotImplementedError

    def show(self, state: AgentState) -> None:
        """Take over what the state says now."""
        raise NotImplementedError

    @property
    def focus_target(self) -> Widget:
        """The widget of the pane that takes the focus."""
        return self
