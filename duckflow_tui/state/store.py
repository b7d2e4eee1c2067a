"""The Store: the only way to change the state, and where sessions are recorded."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock, Event, Frozen

log = logging.getLogger("duckflow.store")


class Record(Frozen):
    """An applied event with its sequence number from 1; None for a transient event."""

    seq: int | None
    at: float  # seconds since the epoch
    event: Event

    def as_json(self) -> dict[str, Any]:
        """Return the line of ``--json``: seq, at, kind, then the event's fields."""
        fields = self.event.model_dump(mode="json", exclude={"kind"})
        return {"seq": self.seq, "at": self.at, "kind": self.event.kind, **fields}


class Recorder(Protocol):
    """A destination for records. Must not raise: a recorder reports its own faults."""

    def append(self, record: Record) -> None:
        """Accept a record that is not transient. Cheap; never waits for the disk."""
        ...

    async def wait_until_flushed(self, seq: int) -> None:
        """Return once every record up to ``seq`` would survive a crash."""
        ...


@dataclass(eq=False)
class MemoryRecorder:
    """Keeps records in a list, and loses them with the process."""

    records: list[Record] = field(default_factory=list[Record])

    def append(self, record: Record) -> None:
        self.records.append(record)

    async def wait_until_flushed(self, seq: int) -> None:
        return


Watcher = Callable[[AgentState, Record], None]
Unsubscribe = Callable[[], None]


class Store:
    """Applies events to one ``AgentState``, one at a time, on one asyncio loop.

    An event whose ``apply`` raises StateError changes nothing and is not recorded; the error is
    raised to the caller. An exception in a watcher is logged and does not stop the other watchers;
    the state has changed by then. A resumed session counts on from ``last_seq``.
    """

    def __init__(
        self, state: AgentState, clock: Clock, recorder: Recorder, *, last_seq: int = 0
    ) -> None:
        self.state = state
        self.clock = clock
        self.recorder = recorder
        self._watchers: list[Watcher] = []
        self._pending: deque[Event] = deque()
        self._busy = False
        self._seq = last_seq

    def subscribe(self, watcher: Watcher) -> Unsubscribe:
        """Call ``watcher(state, record)`` after each event, in the order of subscription."""
        self._watchers.append(watcher)

        def unsubscribe() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return unsubscribe

    def detach(self) -> None:
        """Stop recording and remove all watchers; called when the session is left."""
        self.recorder = MemoryRecorder()
        self._watchers.clear()

    def dispatch(self, event: Event) -> None:
        """Apply an event, record it, and call the watchers. A dispatch from within a watcher is
        queued, and its StateError is logged, because nobody can catch it.
        """
        if self._busy:
            self._pending.append(event)
            return
        self._busy = True
        try:
            try:
                self._apply_event(event)
            finally:
                while self._pending:
                    nested = self._pending.popleft()
                    try:
                        self._apply_event(nested)
                    except Exception:  # one that broke may not hold up the next
                        log.exception("an event from a watcher was refused: %s", nested.kind)
        finally:
            self._busy = False

    async def commit(self, event: Event) -> None:
        """Dispatch, then wait until the event is on disk. Used before any effect that depends on
        it.
        """
        self.dispatch(event)
        await self.recorder.wait_until_flushed(self._seq)

    def _apply_event(self, event: Event) -> None:
        """Apply an event to the state, record it unless it is transient, and tell the watchers."""
        event.apply(self.state)
        seq: int | None = None
        if not event.transient:
            self._seq += 1
            seq = self._seq
        record = Record(seq=seq, at=self.clock.now(), event=event)
        if seq is not None:
            self.recorder.append(record)
        for watcher in tuple(self._watchers):
            try:
                watcher(self.state, record)
            except Exception:  # it happened: the others hear of it too
                log.exception("a watcher failed on %s", event.kind)
