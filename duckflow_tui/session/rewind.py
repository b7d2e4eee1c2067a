"""Earlier points of a conversation: the messages it can be rewound to, the state at each, and forks
from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from duckflow_tui.session.blobs import find_hashes, session_blobs
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import SessionFolder, session_path
from duckflow_tui.session.reader import RecordedEvent, read_session
from duckflow_tui.session.recording import Recording, start_journal
from duckflow_tui.session.records import Redact, as_bytes
from duckflow_tui.session.resume import iter_beginnings
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import (
    Event,
    StateError,
    SystemClock,
    copy_slices,
    event_from_json,
    name_files,
)
from duckflow_tui.state.calls import OperationMessage, RunningOperation
from duckflow_tui.state.conversation import (
    Message,
    UserMessage,
    UserMessageAdded,
)
from duckflow_tui.state.operations import FileChange, OperationResult, Outcome
from duckflow_tui.state.phase import PhaseState
from duckflow_tui.state.plan import Step, WorkStatus
from duckflow_tui.state.rewind import (
    SessionForked,
    WorkSnapshot,
    reopen_objective,
)
from duckflow_tui.state.store import MemoryRecorder, Store

PREVIEW: Final = 80  # characters of a message that a notice or a list repeats

log = logging.getLogger("duckflow.session")

_NOT_DONE: Final = "the conversation went back to before it was done"

_STILL_RAN: Final = (
    "It still ran where this session was forked. What it did is not known here: look before you "
    "rely on it."
)


@dataclass(frozen=True, slots=True)
class Point:
    """A message of the user to which the conversation can be rewound; it is taken back too."""

    message_id: str
    text: str
    at: float  # seconds since the epoch
    aside: bool
    messages: int  # number of user messages from this one on
    _log: list[OperationMessage] = field(repr=False)  # calls that changed files, newest first
    _count: int  # calls in ``_log`` that are newer than this message

    @property
    def calls(self) -> tuple[OperationMessage, ...]:
        """Calls since the message that changed files and were not undone, newest first."""
        return tuple(self._log[: self._count])

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """File changes of ``calls``, oldest first."""
        return tuple(
            change for call in reversed(self.calls) for change in call.result.undoable_changes
        )

    @property
    def files(self) -> int:
        """Number of different files in ``changes``."""
        return len({change.path for change in self.changes})


def list_points(state: AgentState) -> list[Point]:
    """Return the points of a conversation, one for each message of the user, newest first."""
    found: list[Point] = []
    log: list[OperationMessage] = []  # newest first
    said = 0
    for message in reversed(state.messages):
        if isinstance(message, OperationMessage):
            if message.result.undoable_changes and message.call_id not in state.undone_calls:
                log.append(message)
            continue
        if isinstance(message, UserMessage) and not message.step_id:
            said += 1
            point = Point(
                message.message_id, message.text, message.at, message.aside, said, log, len(log)
            )
            found.append(point)
    return found


def point_at(state: AgentState, message_id: str) -> Point | None:
    """Return the point at this message; None for an unknown one."""
    return next((p for p in list_points(state) if p.message_id == message_id), None)


def restore_snapshot(past: AgentState, now: AgentState) -> WorkSnapshot:
    """Return the work as it was in ``past``, with running steps cancelled. Files that changed since
    then count as unread, and requirements that were judged by them are open again.
    """
    standing = WorkSnapshot.capture_from(past)
    standing.files_read = {
        path: sha for path, sha in past.files_read.items() if now.files_read.get(path) == sha
    }
    if past.turn is not None:
        copy_slices(standing, PhaseState(), PhaseState)
        standing.plans = tuple(
            plan.replace(steps=tuple(_as_stopped(step) for step in plan.steps))
            for plan in past.plans
        )
    settled = {m.call_id for m in past.messages if isinstance(m, OperationMessage)}
    changed = {
        path
        for m in now.messages
        if isinstance(m, OperationMessage) and m.call_id not in settled
        for change in now.list_standing_changes(m)
        for path in (change.path, change.target)
    }
    items = past.objective.extracted_requirements if past.objective is not None else ()
    ran = any(item.check.kind == "command" for item in items)  # it may look at any file
    if changed and (ran or not changed.isdisjoint(past.files_read)):
        reopen_objective(standing, changed)
    return standing


def _as_stopped(step: Step) -> Step:
    """Return the step; one in progress is cancelled together with its running tasks."""
    if step.status is not WorkStatus.IN_PROGRESS:
        return step
    ran, ended = WorkStatus.IN_PROGRESS, WorkStatus.CANCELLED
    tasks = tuple(
        task.replace(status=ended, result=_NOT_DONE) if task.status is ran else task
        for task in step.task_list
    )
    return step.replace(status=ended, note=_NOT_DONE, started_at=None, task_list=tasks)


def settle_running(past: AgentState, now: Sequence[Message]) -> tuple[OperationMessage, ...]:
    """Return the results, found in ``now``, of the calls that were running in ``past``; a stand-in
    for each that is still running.
    """
    ended = {m.call_id: m for m in now if isinstance(m, OperationMessage)}
    return tuple(ended.get(call.call_id) or _make_unknown_result(call) for call in past.running)


def _make_unknown_result(call: RunningOperation) -> OperationMessage:
    """Return a stopped result for a call that is still running."""
    result = OperationResult(outcome=Outcome.STOPPED, text=_STILL_RAN)
    return OperationMessage(**call.copy_fields(), result=result, at=call.at)


def file_names(changes: Iterable[FileChange]) -> str:
    """Return the changed files in words: the first by name, the others as a number."""
    return name_files(list(dict.fromkeys(change.target or change.path for change in changes)))


def counted_requirements(state: AgentState) -> set[tuple[str, str]]:
    """Return the ids of the counted requirements, of the current and of earlier requests, as pairs
    of objective and requirement.
    """
    objectives = [*state.earlier, *([state.objective] if state.objective else [])]
    return {
        (objective.objective_id, item.requirement_id)
        for objective in objectives
        for item in objective.extracted_requirements
        if item.is_counted
    }


WRITE_WITHIN: Final = 60.0  # seconds that the last sync of a copy may take


class RecordedPast:
    """Reads earlier states of an open session from its journal, and forks it; the work is done in
    threads.
    """

    def __init__(self, recording: Recording, state_dir: Path, redact: Redact) -> None:
        self.recording = recording
        self._state_dir = state_dir
        self._redact = redact

    async def state_before(self, message_id: str) -> AgentState | None:
        """Return the state just before the user sent this message; None where it is not
        recorded.
        """
        await self.recording.wait_until_flushed(self.recording.newest)
        return await asyncio.to_thread(self._find_state, message_id)

    async def fork(self, message_id: str, event: SessionForked) -> None:
        """Write the new session that ``event`` describes: the records before the message, or all
        where its id is empty, then the event. Raises SessionFault or OSError; nothing is then
        left on disk.
        """
        until = self.recording.newest  # the event tells how things stood then
        await self.recording.wait_until_flushed(until)
        await asyncio.to_thread(self._write_fork, message_id, until, event)

    def _find_state(self, message_id: str) -> AgentState | None:
        """Do the blocking work of ``state_before``, from the newest snapshot before the
        message on.
        """
        recorder, path = self.recording.recorder, self.recording.path
        if isinstance(recorder, MemoryRecorder):
            events = [record.event for record in recorder.records]
            return _replay_before(AgentState(), events, message_id)
        if path is None:
            return None
        try:
            with contextlib.closing(SessionFolder.open(path)) as folder:
                for state, read, _ in iter_beginnings(folder):
                    # None where the message was sent before this beginning.
                    events = (event for entry in read.entries if (event := _parse_event(entry)))
                    if (found := _replay_before(state, events, message_id)) is not None:
                        return found
        except SessionFault:
            log.warning("the session cannot be read again: %s", path)
        return None

    def _write_fork(self, message_id: str, until: int, event: SessionForked) -> None:
        """Do the blocking work of ``fork``, up to the record ``until``; copies the blobs too.
        Unreadable records are left out.
        """
        source = self.recording.path
        assert source is not None
        with contextlib.closing(SessionFolder.open(source)) as folder:
            entries = read_session(folder).entries
        workspace, session_id = Path(event.session.workspace), event.session.session_id
        path = session_path(self._state_dir, workspace, session_id)
        clock = _RecordClock(event.at)
        journal = start_journal(
            self._state_dir, session_id, workspace, event.at, redact=self._redact
        )
        store = Store(AgentState(), clock, journal)
        journal.follow_store(store)
        count = 0
        copied = False
        try:
            named: set[str] = set()
            for entry, found in _iter_until(entries, message_id, until):
                clock.at = entry.at
                try:
                    store.dispatch(found)
                except StateError:
                    continue
                count += 1
                named |= find_hashes(as_bytes(entry.fields))
            clock.at = event.at
            store.dispatch(event)
            count += 1
            old, new = session_blobs(source), session_blobs(path)
            for sha in named:
                with contextlib.suppress(KeyError):  # no blob has this hash
                    new.put_blocking(old.get_blocking(sha))
            copied = True
        finally:
            health = journal.close_now(within=WRITE_WITHIN)
            whole = copied and health.reason is None and health.durable == count
            if not whole:
                shutil.rmtree(path, ignore_errors=True)
        if not whole:
            raise OSError(health.detail or f"{path} was not written")


def _iter_until(
    entries: Iterable[RecordedEvent], message_id: str, until: int
) -> Iterator[tuple[RecordedEvent, Event]]:
    """Yield the records up to the number ``until``; where a message id is given, only those before
    it was sent.
    """
    for entry in entries:
        if entry.seq > until:
            return
        found = _parse_event(entry)
        if found is None:
            continue
        if _sends_message(found, message_id):
            return
        yield entry, found


class _RecordClock(SystemClock):
    """A clock that returns the time of the record being copied."""

    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        return self.at


def _replay_before(
    state: AgentState, events: Iterable[Event], message_id: str
) -> AgentState | None:
    """Apply events to ``state`` until the one that sent the message, and return the state; None
    where no event did.
    """
    for event in events:
        if _sends_message(event, message_id):
            return state
        with contextlib.suppress(StateError):
            event.apply(state)
    return None


def _parse_event(entry: RecordedEvent) -> Event | None:
    """Return the event of a record; None where it is not valid."""
    try:
        return event_from_json(entry.fields)
    except ValidationError:
        return None


def _sends_message(event: Event, message_id: str) -> bool:
    """Whether the event adds this message of the user."""
    return isinstance(event, UserMessageAdded) and event.message.message_id == message_id
