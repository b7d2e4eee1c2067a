"""What was recorded of a session that is open: how it stood earlier, and a session made of that."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from duckflow_tui.session.blobs import named_in, session_blobs
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import SessionFolder, session_path
from duckflow_tui.session.payload import Redact, as_bytes
from duckflow_tui.session.reader import Entry, read_session
from duckflow_tui.session.recording import Recording, start_journal
from duckflow_tui.session.rewind import NotWritten
from duckflow_tui.session.snapshots import read_snapshot
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event, StateError, event_from_json
from duckflow_tui.state.conversation import UserMessage, UserMessageAdded
from duckflow_tui.state.rewind import SessionForked
from duckflow_tui.state.store import MemoryRecorder, Store

WRITE_WITHIN: Final = 60.0  # seconds that the last sync of a copy may take


class RecordedPast:
    """Reads in threads of its own; the session goes on meanwhile, and is not changed."""

    def __init__(self, recording: Recording, state_dir: Path, redact: Redact) -> None:
        self._recording = recording
        self._state_dir = state_dir
        self._redact = redact

    @property
    def is_kept(self) -> bool:
        return self._recording.is_kept

    async def before(self, message_id: str) -> AgentState | None:
        recorder, path = self._recording.recorder, self._recording.path
        if isinstance(recorder, MemoryRecorder):
            events = [record.event for record in recorder.records]
            return await asyncio.to_thread(_replayed, AgentState(), events, message_id)
        await self._recording.flushed(self._recording.newest)
        if path is None:
            return None
        return await asyncio.to_thread(state_before, path, message_id)

    async def fork(self, message_id: str, event: SessionForked) -> None:
        until = self._recording.newest  # the event tells how things stood then
        await self._recording.flushed(until)
        source = self._recording.path
        assert source is not None
        try:
            await asyncio.to_thread(
                write_fork, source, self._state_dir, message_id, until, event, self._redact
            )
        except SessionFault as fault:
            raise NotWritten(str(fault)) from fault
        except OSError as error:
            raise NotWritten(error.strerror or str(error)) from error


def state_before(path: Path, message_id: str) -> AgentState | None:
    """How the session in this folder stood before the user sent that message, from the newest
    snapshot that is older; None where no record tells.
    """
    try:
        folder = SessionFolder.open(path)
    except SessionFault:
        return None
    try:
        for seq in reversed(folder.snapshots()):
            found = read_snapshot(folder, seq)
            if found is None or _holds(found.state, message_id):
                continue
            try:
                read = read_session(folder, after=found.place)
            except KeyError:  # made of another journal
                continue
            # Not behind this one where the message had left the conversation for a while.
            if (state := _replayed(found.state, _events(read.entries), message_id)) is not None:
                return state
        return _replayed(AgentState(), _events(read_session(folder).entries), message_id)
    except SessionFault:
        return None
    finally:
        folder.close()


def write_fork(
    source: Path,
    state_dir: Path,
    message_id: str,
    until: int,
    event: SessionForked,
    redact: Redact,
) -> Path:
    """Write a session of all that the one in ``source`` recorded before the message, or up to the
    record ``until`` where it is empty, and of the event; its folder.

    Raises SessionFault or OSError, and then leaves nothing behind. Records that tell nothing are
    left out; what the others keep beside the journal is copied.
    """
    folder = SessionFolder.open(source)
    try:
        entries = read_session(folder).entries
    finally:
        folder.close()
    workspace, session_id = Path(event.session.workspace), event.session.session_id
    path = session_path(state_dir, workspace, session_id)
    clock = _Then(event.at)
    journal = start_journal(state_dir, session_id, workspace, event.at, redact=redact)
    store = Store(AgentState(), clock, journal)
    journal.follow(store)
    count = 0
    named: set[str] = set()
    copied = False
    try:
        for entry in entries:
            if entry.seq > until:
                break
            found = _event(entry)
            if found is None:
                continue
            if message_id and _sends(found, message_id):
                break
            clock.at = entry.at
            try:
                store.dispatch(found)
            except StateError:
                continue
            count += 1
            named |= named_in(as_bytes(entry.fields))
        clock.at = event.at
        store.dispatch(event)
        count += 1
        old, new = session_blobs(source), session_blobs(path)
        for sha in named:
            with contextlib.suppress(KeyError):  # no blob has this hash
                new.keep(old.read(sha))
        copied = True
    finally:
        health = journal.close_now(within=WRITE_WITHIN)
        whole = copied and health.reason is None and health.durable == count
        if not whole:
            shutil.rmtree(path, ignore_errors=True)
    if not whole:
        raise OSError(health.detail or f"{path} was not written")
    return path


class _Then:
    """Tells the time of the record that is copied."""

    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def _replayed(state: AgentState, events: Iterable[Event], message_id: str) -> AgentState | None:
    """The state before the event that sent the message; None where none did."""
    for event in events:
        if _sends(event, message_id):
            return state
        try:
            event.apply(state)
        except StateError:
            continue
    return None


def _events(entries: Iterable[Entry]) -> Iterable[Event]:
    return (event for entry in entries if (event := _event(entry)) is not None)


def _event(entry: Entry) -> Event | None:
    try:
        return event_from_json(entry.fields)
    except ValidationError:
        return None


def _sends(event: Event, message_id: str) -> bool:
    return isinstance(event, UserMessageAdded) and event.message.message_id == message_id


def _holds(state: AgentState, message_id: str) -> bool:
    return any(isinstance(m, UserMessage) and m.message_id == message_id for m in state.messages)
