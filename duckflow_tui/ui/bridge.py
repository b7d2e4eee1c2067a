"""Passes the state to the panes that show it, at a limited rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.store import Record, Store, Unsubscribe

if TYPE_CHECKING:
    from duckflow_tui.ui.app import DuckflowApp

FRAME: Final = 1 / 30  # seconds between two states that are shown


class ShowsState(Protocol):
    """A pane, or anything else, that shows a part of the state."""

    def slices(self, state: AgentState, /) -> tuple[object, ...]:
        """Return the parts of the state that ``show`` reads; ``show`` is called when one of them
        changes.
        """
        ...

    def show(self, state: AgentState, /) -> None:
        """Update from this state."""
        ...


class Bridge:
    """Follows a Store and updates each pane whose slices changed.

    No timer runs while nothing that is shown changes.
    """

    def __init__(self, app: DuckflowApp, monotonic: Callable[[], float]) -> None:
        self._app = app
        self._monotonic = monotonic
        self._shown: dict[ShowsState, tuple[object, ...] | None] = {}  # the slices of each pane
        self._unwatch: Unsubscribe | None = None
        self._store: Store | None = None
        self._waiting = False  # for the next frame
        self._shown_at = float("-inf")

    def attach(self, store: Store) -> None:
        """Follow this store from now on and update every pane from it."""
        self.detach()
        self._store = store
        self._unwatch = store.subscribe(self._on_change)
        self._shown = dict.fromkeys(self._shown)
        self._app.state = store.state

    def detach(self) -> None:
        """Stop following the store."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def add(self, shows: ShowsState) -> None:
        """Call ``shows.show`` from now on whenever one of its slices changes."""
        self._shown[shows] = None

    def remove(self, shows: ShowsState) -> None:
        """Stop updating this pane."""
        self._shown.pop(shows, None)

    def show_now(self) -> None:
        """Draw the changes that wait for the next frame at once, because the store is about to be
        replaced.
        """
        if self._waiting:
            self._show()

    def show_changes(self, state: AgentState) -> None:
        """Update the panes whose slices differ in this state."""
        for pane in list(self._shown):
            if self._is_news(pane, state):
                self._shown[pane] = pane.slices(state)
                pane.show(state)

    def _on_change(self, state: AgentState, _record: Record) -> None:
        """Schedule an update for the next frame if a pane shows something that changed."""
        if self._waiting or not any(self._is_news(pane, state) for pane in self._shown):
            return
        self._waiting = True
        wait = self._shown_at + FRAME - self._monotonic()
        if wait <= 0:
            self._app.call_later(self._show)
        else:
            self._app.set_timer(wait, self._show)

    def _show(self) -> None:
        """Hand the Store's present state to the app, whose watchers draw it."""
        self._waiting = False
        self._shown_at = self._monotonic()
        if self._store is not None:
            self._app.state = self._store.state

    def _is_news(self, pane: ShowsState, state: AgentState) -> bool:
        """Whether a slice of the pane differs from the one it shows."""
        old, new = self._shown[pane], pane.slices(state)
        return old is None or len(old) != len(new) or not all(map(_same, old, new))


def _same(old: object, new: object) -> bool:
    """Whether two values are the same object, or equal numbers or texts."""
    return old is new or (isinstance(old, int) and old == new)
