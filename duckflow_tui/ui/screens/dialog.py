"""What every page over the workbench does alike: it closes once."""

from __future__ import annotations

from typing import Generic, TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen

from duckflow_tui.ui.host import host_of

T = TypeVar("T")


class Dialog(ModalScreen[T], Generic[T]):
    """A page that the first key that closes it closes, however many more came in the same burst.

    Such keys still reach the page when it is closed already. Textual would then close the page
    below, or raise where there is none.
    """

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close the page and give back ``result``; nothing where it is not the one on top."""
        return super().dismiss(result) if host_of(self).screen is self else AwaitComplete()
