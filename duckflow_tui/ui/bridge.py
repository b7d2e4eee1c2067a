"""State goes down to the panes that show it, joined to so many frames a second."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from textual.app import App

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.store import Record, Store, Unsubscribe

FRAME: Final = 1 / 30  # seconds between two updates of one pane


Slices = Callable[[AgentState], tuple[object, ...]]
Redraw = Callable[[AgentState], None]


class Bridge:
    """Watches a Store and redraws panes whose slices changed, each at most 30 times a second.

    Nothing is scheduled while nothing changes.
    """

    def __init__(self, app: App[Any], monotonic: Callable[[], float]) -> None:
        self._app = app
        self._monotonic = monotonic
        self._panes: list[_Pane] = []
        self._unwatch: Unsubscribe | None = None
        self._state: AgentState | None = None

    def attach(self, store: Store) -> None:
        """Follow this store from now on, and draw every pane from it."""
        self.detach()
        self._state = store.state
        self._unwatch = store.watch(self._changed)
        for pane in self._panes:
            pane.remember(store.state)
            pane.redraw(store.state)

    def detach(self) -> None:
        """Follow nothing."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def add(self, slices: Slices, redraw: Redraw) -> None:
        """Call ``redraw`` whenever a slice is not the object, or not the number, that it was."""
        self._panes.append(_Pane(slices, redraw))

    def draw_now(self) -> None:
        """Draw what waits for its next frame: the state is about to be another."""
        for pane in self._panes:
            if pane.waiting:
                self._draw(pane)

    def _changed(self, state: AgentState, _record: Record) -> None:
        for pane in self._panes:
            if not pane.remember(state) or pane.waiting:
                continue
            pane.waiting = True
            wait = pane.drawn_at + FRAME - self._monotonic()
            if wait <= 0:
                self._app.call_later(partial(self._draw, pane))
            else:
                self._app.set_timer(wait, partial(self._draw, pane))

    def _draw(self, pane: _Pane) -> None:
        pane.waiting = False
        pane.drawn_at = self._monotonic()
        if self._state is not None:
            pane.redraw(self._state)


class _Pane:
    def __init__(self, slices: Slices, redraw: Redraw) -> None:
        self._slices = slices
        self.redraw = redraw
        self.waiting = False
        self.drawn_at = float("-inf")
        self._last: tuple[object, ...] = ()

    def remember(self, state: AgentState) -> bool:
        """Keep the slices; whether one is another object than before."""
        new = self._slices(state)
        old, self._last = self._last, new
        return len(old) != len(new) or not all(map(_same, old, new))


def _same(old: object, new: object) -> bool:
    return old is new or (isinstance(old, int) and old == new)
