"""What the user does to the session as a whole by key."""

from __future__ import annotations

from duckflow_tui.state.base import one_line
from duckflow_tui.state.store import Store
from duckflow_tui.state.title_events import MAX_NAME, SessionPinned, SessionTitled


class TitleKeys:
    """One for a session that is open; others are changed by ``session.catalog``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def rename(self, name: str) -> str:
        """Name the session, on one line; empty takes the name away. Returns the name."""
        name = one_line(name, MAX_NAME)
        if name != self._store.state.session.name:
            self._store.dispatch(SessionTitled(name=name))
        return name

    def pin(self, pinned: bool) -> None:
        """At the top of the list, or no longer."""
        if pinned != self._store.state.session.pinned:
            self._store.dispatch(SessionPinned(pinned=pinned))
