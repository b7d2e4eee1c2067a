"""The base class of pages above the workbench, and a widget for sentences on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from textual.await_complete import AwaitComplete
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.widgets import Static

from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.key_guard import Typed
from duckflow_tui.ui.panes.strips import wrap

T = TypeVar("T")


class Dialog(ModalScreen[T], Generic[T]):
    """A page that closes once, even if several keys that close it arrive in one burst.

    Such keys still reach the page after it is closed; Textual would then close the page below, or
    raise where there is none.
    """

    is_ready = False  # its fields are there, and one has the focus

    def on_mount(self) -> None:
        self.call_later(self._mark_ready)  # behind the focus, where the page moves it by itself

    def _mark_ready(self) -> None:
        """Note that the fields have the focus, and release the keys held for the page."""
        self.is_ready = True
        host = host_of(self)
        host.call_later(host.key_queue.release_if_ready)

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close the page and return ``result``; does nothing where the page is not on top."""
        return super().dismiss(result) if host_of(self).screen is self else AwaitComplete()

    def hand_on(self, typed: Sequence[Typed]) -> None:
        """Move typed keys to the composer and close the page with None."""
        bench = host_of(self).bench
        if bench.composer.is_attached:
            bench.to_composer(*typed)
        self.dismiss(None)


class Prose(Static):
    """Wrapped sentences on a page; lines also break between Japanese characters."""

    def __init__(self, text: str = "", *, id: str | None = None, classes: str = "") -> None:
        super().__init__(text, markup=False, id=id, classes=classes)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._wrapped_rows(width))

    def render(self) -> str:
        return "\n".join(self._wrapped_rows(self.content_size.width))

    def _wrapped_rows(self, width: int) -> list[str]:
        """Return the lines of the text at this width."""
        lines = str(self.content).split("\n")
        return [line[start:stop] for line in lines for start, stop in wrap(line, width)]
