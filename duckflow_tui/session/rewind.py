"""Where a conversation can go back to, how things stood there, and what is told of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import ValidationError

from duckflow_tui.agent.parts import TurnParts
from duckflow_tui.session.blobs import named_in, session_blobs
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import SessionFolder, session_path
from duckflow_tui.session.reader import RecordedEvent, read_session
from duckflow_tui.session.recording import Recording, start_journal
from duckflow_tui.session.records import Redact, as_bytes
from duckflow_tui.session.resume import beginnings
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ELLIPSIS, Event, StateError, event_from_json, one_line, put
from duckflow_tui.state.calls import OperationMessage, RunningOperation
from duckflow_tui.state.conversation import (
    AssistantMessage,
    Level,
    Message,
    NoticeMessage,
    UserMessage,
    UserMessageAdded,
)
from duckflow_tui.state.goal import ObjectiveChanged
from duckflow_tui.state.operations import FileChange, OperationResult, Outcome
from duckflow_tui.state.phase import PhaseState
from duckflow_tui.state.plan import Step, WorkStatus
from duckflow_tui.state.rewind import (
    ConversationRewound,
    RewindUndone,
    SessionForked,
    Standing,
    can_be_undone,
    reopen,
)
from duckflow_tui.state.store import MemoryRecorder, Store
from duckflow_tui.tools.undo import UndoReport, last_changed

NAMED: Final = 6  # files that are told by name

log = logging.getLogger("duckflow.session")

_NOT_DONE: Final = "the conversation went back to before it was done"

_STILL_RAN: Final = (
    "It still ran where this session was forked. What it did is not known here: look before you "
    "rely on it."
)


@dataclass(frozen=True, slots=True)
class Point:
    """A message of the user that the conversation can go back to before."""

    message_id: str
    text: str
    at: float  # seconds since the epoch
    aside: bool
    messages: int  # that are behind it, of the user and of the model
    _log: list[FileChange] = field(default_factory=list[FileChange], repr=False)  # newest first
    _count: int = 0  # of them that are behind it

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """What was done to files since and was not undone, oldest first."""
        return tuple(reversed(self._log[: self._count]))

    @property
    def files(self) -> int:
        """How many files that are."""
        return len({change.path for change in self._log[: self._count]})


def points(state: AgentState) -> list[Point]:
    """The user's messages, the newest first."""
    found: list[Point] = []
    log: list[FileChange] = []
    said = 0
    for message in reversed(state.messages):
        if isinstance(message, OperationMessage):
            if message.call_id not in state.undone_calls:
                log += reversed(message.result.changes)
            continue
        said += isinstance(message, (UserMessage, AssistantMessage))
        if isinstance(message, UserMessage) and not message.step_id:
            point = Point(
                message.message_id, message.text, message.at, message.aside, said, log, len(log)
            )
            found.append(point)
    return found


def point_at(state: AgentState, message_id: str) -> Point | None:
    """The message of that id; None when the conversation has none such."""
    return next((p for p in points(state) if p.message_id == message_id), None)


def standing_at(past: AgentState, now: AgentState) -> Standing:
    """How things stood then; what was in the middle of its work is not any more. Of files that
    changed since, nothing that was read holds any more, nor what the work was judged by.
    """
    standing = Standing.of(past)
    standing.files_read = {
        path: sha for path, sha in past.files_read.items() if now.files_read.get(path) == sha
    }
    if past.turn is not None:
        put(standing, PhaseState(), PhaseState)
        standing.plans = tuple(
            plan.replace(steps=tuple(_as_stopped(step) for step in plan.steps))
            for plan in past.plans
        )
    settled = {m.call_id for m in past.messages if isinstance(m, OperationMessage)}
    settled.update(now.undone_calls)
    changed = {
        path
        for m in now.messages
        if isinstance(m, OperationMessage) and m.call_id not in settled
        for change in m.result.changes
        for path in (change.path, change.target)
    }
    items = past.objective.extracted_requirements if past.objective is not None else ()
    ran = any(item.check.kind == "command" for item in items)  # it may look at any file
    if changed and (ran or not changed.isdisjoint(past.files_read)):
        reopen(standing)
    return standing


def _as_stopped(step: Step) -> Step:
    """The step, cancelled with its tasks where it was at work."""
    if step.status is not WorkStatus.IN_PROGRESS:
        return step
    ran, ended = WorkStatus.IN_PROGRESS, WorkStatus.CANCELLED
    tasks = tuple(
        task.replace(status=ended, result=_NOT_DONE) if task.status is ran else task
        for task in step.task_list
    )
    return step.replace(status=ended, note=_NOT_DONE, started_at=None, task_list=tasks)


def carried(past: AgentState, now: Sequence[Message]) -> tuple[OperationMessage, ...]:
    """What came of the calls that ran then; of those that still run, that nothing is known."""
    ended = {m.call_id: m for m in now if isinstance(m, OperationMessage)}
    return tuple(ended.get(call.call_id) or _unknown(call) for call in past.running)


def _unknown(call: RunningOperation) -> OperationMessage:
    result = OperationResult(outcome=Outcome.STOPPED, text=_STILL_RAN)
    return OperationMessage(**call.asked(), result=result, at=call.at)


def file_names(changes: Iterable[FileChange]) -> str:
    """The files of these changes, the first by name."""
    paths = list(dict.fromkeys(change.target or change.path for change in changes))
    named = ", ".join(one_line(path, 200) for path in paths[:NAMED])
    return named if len(paths) <= NAMED else f"{named}, {ELLIPSIS} (+{len(paths) - NAMED})"


def counted_requirements(state: AgentState) -> set[tuple[str, str]]:
    """The requirements that count, of this request and of earlier ones."""
    objectives = [*state.earlier, *([state.objective] if state.objective else [])]
    return {
        (objective.objective_id, item.requirement_id)
        for objective in objectives
        for item in objective.extracted_requirements
        if item.counts
    }


WRITE_WITHIN: Final = 60.0  # seconds that the last sync of a copy may take


class RecordedPast:
    """How an open session stood earlier, and sessions made of that, in threads of its own."""

    def __init__(self, recording: Recording, state_dir: Path, redact: Redact) -> None:
        self.recording = recording
        self._state_dir = state_dir
        self._redact = redact

    async def before(self, message_id: str) -> AgentState | None:
        """The state just before the user sent this message, None where that is nowhere recorded."""
        await self.recording.flushed(self.recording.newest)
        return await asyncio.to_thread(self._before, message_id)

    async def fork(self, message_id: str, event: SessionForked) -> None:
        """Make the session of the event from all that was recorded before the message, or from
        all there is where the message is empty; raises SessionFault and OSError, and then leaves
        nothing behind.
        """
        until = self.recording.newest  # the event tells how things stood then
        await self.recording.flushed(until)
        await asyncio.to_thread(self._fork, message_id, until, event)

    def _before(self, message_id: str) -> AgentState | None:
        """The same in its thread; from the newest snapshot that is older than the message."""
        recorder, path = self.recording.recorder, self.recording.path
        if isinstance(recorder, MemoryRecorder):
            events = [record.event for record in recorder.records]
            return _replayed(AgentState(), events, message_id)
        if path is None:
            return None
        try:
            with contextlib.closing(SessionFolder.open(path)) as folder:
                for state, read, _ in beginnings(folder):
                    if point_at(state, message_id) is not None:
                        continue
                    # Not behind this one where the message had left the conversation for a while.
                    events = (event for entry in read.entries if (event := _event(entry)))
                    if (found := _replayed(state, events, message_id)) is not None:
                        return found
        except SessionFault:
            log.warning("the session cannot be read again: %s", path)
        return None

    def _fork(self, message_id: str, until: int, event: SessionForked) -> None:
        """The same in its thread, with the blobs; records that tell nothing are left out."""
        source = self.recording.path
        assert source is not None
        with contextlib.closing(SessionFolder.open(source)) as folder:
            entries = read_session(folder).entries
        workspace, session_id = Path(event.session.workspace), event.session.session_id
        path = session_path(self._state_dir, workspace, session_id)
        clock = _Then(event.at)
        journal = start_journal(
            self._state_dir, session_id, workspace, event.at, redact=self._redact
        )
        store = Store(AgentState(), clock, journal)
        journal.follow(store)
        count = 0
        copied = False
        try:
            named: set[str] = set()
            for entry, found in _until(entries, message_id, until):
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


def _until(
    entries: Iterable[RecordedEvent], message_id: str, until: int
) -> Iterator[tuple[RecordedEvent, Event]]:
    """What was recorded up to that record, and before the message was sent where there is one."""
    for entry in entries:
        if entry.seq > until:
            return
        found = _event(entry)
        if found is None:
            continue
        if _sends(found, message_id):
            return
        yield entry, found


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


def _event(entry: RecordedEvent) -> Event | None:
    try:
        return event_from_json(entry.fields)
    except ValidationError:
        return None


def _sends(event: Event, message_id: str) -> bool:
    return isinstance(event, UserMessageAdded) and event.message.message_id == message_id


#: What is in the way: work runs, the conversation has no such message, it is nowhere recorded,
#: nothing was gone back from, something was said since, a fork has no place on the disk or could
#: not be written, the session is only watched.
Hindrance = Literal[
    "", "busy", "unknown", "lost", "none", "said", "not_kept", "not_written", "replay"
]

_PREVIEW: Final = 80  # characters of a message that a notice repeats

_BACK: Final = (
    "The user took the conversation back to here. What was said and done after this is no part of "
    "it any more."
)

_FILES: Final = (
    "What it changed in these files was not undone: {files}. Read them before you rely on them."
)

_COMMANDS: Final = "Commands that were started after this still run in the background."

_FORKED: Final = (
    "This session was forked from another one here, and the other goes on by itself. What ran "
    "there does not run here. Files may be other ones than they were: read them before you rely "
    "on them."
)


class Forked(NamedTuple):
    """The id of the new session, or what was in the way of it."""

    session_id: str = ""
    problem: Hindrance = ""
    detail: str = ""


class RewindActions:
    """One for a session."""

    def __init__(
        self, parts: TurnParts, earlier: RecordedPast, turn_runs: Callable[[], bool]
    ) -> None:
        """``turn_runs``: or is about to."""
        self._parts = parts
        self._store = parts.store
        self._earlier = earlier
        self._turn_runs = turn_runs

    async def back(self, message_id: str, draft: str = "") -> Hindrance:
        """Take the conversation back to before a message of the user. Its text is the draft again,
        before what stands in the composer; files stay as they are.
        """
        if self._is_busy() or self._parts.compacting.locked():
            return "busy"
        if point_at(self._store.state, message_id) is None:
            return "unknown"
        async with self._parts.compacting:
            past = await self._earlier.before(message_id)
            if past is None:
                return "lost"
            # What was read may have taken a moment.
            if self._is_busy():
                return "busy"
            point = point_at(self._store.state, message_id)
            if point is None:
                return "unknown"
            await self._store.commit(self._rewound(past, point, draft))
        return ""

    async def undo(self) -> Hindrance:
        """Have what the conversation went back from again."""
        rewound = self._store.state.rewound
        if rewound is None:
            return "none"
        if self._is_busy():
            return "busy"
        if not can_be_undone(self._store.state):
            return "said"
        state = self._store.state
        back = {m.call_id for m in state.rewound_messages if isinstance(m, OperationMessage)}
        reopens = not back.isdisjoint(state.undone_calls)
        await self._store.commit(RewindUndone(message_id=rewound.message_id, reopens=reopens))
        return ""

    async def put_files_back(self) -> None:
        """Undo what was done to files after the point that the conversation went back to, the
        newest change first, until one cannot be undone; the user is told. Where all of it was
        undone, the requirements are again as they were judged at that point.
        """
        state = self._store.state
        rewound = state.rewound
        back = {m.call_id for m in state.rewound_messages if isinstance(m, OperationMessage)}
        left = back & {m.call_id for m in state.left_behind}
        done: list[str] = []
        stopped: UndoReport | None = None
        while (newest := last_changed(state)) is not None and newest.call_id in left:
            if self._is_busy():
                break
            report = await self._parts.router.undo_last()
            done += [change.target or change.path for change in report.undone]
            if len(report.undone) < len(newest.result.changes):
                stopped = report
                break
        if done:
            names = ", ".join(dict.fromkeys(done))
            told = f"The user had these files put back to what they were: {names}."
            self._parts.notices.say("rewind.put_back", for_model=told, files=names)
        if stopped is not None:
            self._parts.notices.warn(stopped.key, **stopped.params)
        undone = set(state.undone_calls)
        whole = all(m.call_id in undone for m in state.left_behind if m.call_id in back)
        if done and whole and rewound is not None:
            past = await self._earlier.before(rewound.message_id)
            then = past.objective if past is not None else None
            now = state.objective
            if then is not None and now is not None and then.objective_id == now.objective_id:
                await self._store.commit(ObjectiveChanged(objective=then))

    async def fork(self, message_id: str = "", draft: str = "") -> Forked:
        """Make another session that goes on from before this message, or from here."""
        if not self._earlier.recording.is_kept:
            return Forked(problem="not_kept")
        state = self._store.state
        point = point_at(state, message_id)
        if message_id and point is None:
            return Forked(problem="unknown")
        past = await self._earlier.before(message_id) if message_id else state
        if past is None:
            return Forked(problem="lost")
        event = self._forked(past, point, draft)
        try:
            await self._earlier.fork(message_id, event)
        except (SessionFault, OSError) as error:
            detail = (isinstance(error, OSError) and error.strerror) or str(error)
            return Forked(problem="not_written", detail=detail)
        return Forked(event.session.session_id)

    # inside

    def _is_busy(self) -> bool:
        state = self._store.state
        works = state.turn is not None or state.work is not None or self._turn_runs()
        calls = any(not call.by_user for call in state.running)
        return works or calls or state.work_waits or bool(state.live)

    def _rewound(self, past: AgentState, point: Point, draft: str) -> ConversationRewound:
        state, now = self._store.state, self._store.clock.now()
        gone = carried(past, state.messages)
        return ConversationRewound(
            message_id=point.message_id,
            standing=standing_at(past, state),
            turns=len(past.turns),
            stopped=past.turn.stopped(past, now) if past.turn is not None else None,
            carried=tuple(call.call_id for call in gone),
            draft=f"{point.text}\n{draft}" if draft.strip() else point.text,
            notices=self._notices(past, point),
        )

    def _notices(self, past: AgentState, point: Point) -> tuple[NoticeMessage, ...]:
        """What went with the messages, and what did not."""
        state, notice = self._store.state, self._parts.notices.message
        files = file_names(point.changes)
        known = {process.process_id for process in past.processes}
        running = sum(p.runs and p.process_id not in known for p in state.processes)
        told = [_FILES.format(files=files)] if files else []
        told += [_COMMANDS] if running else []
        for_model = " ".join([_BACK, *told]) if told else ""
        said = one_line(point.text, _PREVIEW)
        found = [notice("rewind.back", for_model, said=said, count=str(point.messages))]
        if files:
            count = str(point.files)
            found.append(notice("rewind.files", level=Level.WARNING, files=files, count=count))
        then = {plan.plan_id for plan in past.plans}
        plans = [one_line(p.name, _PREVIEW) for p in state.plans if p.plan_id not in then]
        if plans:
            found.append(notice("rewind.plans", names=", ".join(plans)))
        if dropped := counted_requirements(state) - counted_requirements(past):
            found.append(notice("rewind.requirements", count=str(len(dropped))))
        if running:
            found.append(notice("rewind.commands", count=str(running)))
        if state.queue:
            found.append(notice("rewind.queue", count=str(len(state.queue))))
        return tuple(found)

    def _forked(self, past: AgentState, point: Point | None, draft: str) -> SessionForked:
        state, now = self._store.state, self._store.clock.now()
        title = title_of(state)
        session = state.session.replace(
            session_id=self._parts.ids("session"),
            name="",
            pinned=False,
            started_at=now,
            forked_from=state.session.session_id,
            forked_title=title,
        )
        key, said = "rewind.forked", ""
        if point is not None:
            key, said, draft = "rewind.forked_before", one_line(point.text, _PREVIEW), point.text
        params = {"title": title, "said": said, "id": state.session.session_id}
        return SessionForked(
            session=session,
            standing=standing_at(past, state),
            stopped=past.turn.stopped(past, now) if past.turn is not None else None,
            carried=carried(past, state.messages),
            draft=draft,
            notices=(self._parts.notices.message(key, _FORKED, Level.INFO, **params),),
            at=now,
        )


def title_of(state: AgentState) -> str:
    """What a list calls this session: the user's name for it, else the first request."""
    asked = (m.text for m in state.messages if isinstance(m, UserMessage) and m.text.strip())
    return one_line(state.session.name or next(asked, ""), _PREVIEW)
