"""Rewinding an open session: the conversation, its files or both; undoing a rewind; forking the
session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.rewind import (
    PREVIEW,
    Point,
    RecordedPast,
    counted_requirements,
    file_names,
    point_at,
    restore_snapshot,
    settle_running,
)
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import Level, NoticeMessage
from duckflow_tui.state.rewind import (
    ConversationRewound,
    RewindUndone,
    SessionForked,
    can_be_undone,
    reopen_objective,
)
from duckflow_tui.tools.operation import RUN
from duckflow_tui.tools.undo import UndoReport
from duckflow_tui.work.services import TurnParts

#: Why an action was not done: work is running; the message is unknown, or not recorded; there was
#: no rewind, or something was said since; a fork has no place on disk, or could not be written;
#: the session is a replay.
Hindrance = Literal[
    "", "busy", "unknown", "lost", "none", "said", "not_kept", "not_written", "replay"
]

_CHANGED: Final = "operations.undo.changed"  # key of the report: somebody else changed the file


class Forked(NamedTuple):
    """The result of a fork: the id of the new session, or the reason why there is none."""

    session_id: str = ""
    problem: Hindrance = ""
    detail: str = ""


@dataclass(slots=True)
class _UndoneFiles:
    """The result of undoing changes of files."""

    calls: list[str] = field(default_factory=list[str])  # ids of calls undone, in that order
    files: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])  # files of which a change was not undone
    stuck: list[UndoReport] = field(default_factory=list[UndoReport])

    @property
    def partly_undone(self) -> list[str]:
        """The files of which only the newer changes were undone, each once."""
        return [name for name in dict.fromkeys(self.files) if name in self.left]

    def list_notices(self) -> list[tuple[str, str]]:
        """Return pairs of a notice's key and its files: those restored in full, and those restored
        in part.
        """
        partly = self.partly_undone
        whole = [name for name in dict.fromkeys(self.files) if name not in partly]
        found = (("rewind.put_back", whole), ("rewind.put_back_partly", partly))
        return [(key, ", ".join(files)) for key, files in found if files]

    def in_the_way(self) -> list[UndoReport]:
        """Return the reports of changes that were not undone, without those of files that are
        reported as restored in part.
        """
        said = self.partly_undone
        return [
            report
            for report in self.stuck
            if report.key != _CHANGED or report.params.get("path") not in said
        ]


def _has_command_since(past: AgentState, now: AgentState) -> bool:
    """Whether a command ran since ``past`` that may have changed more than was undone."""
    settled = {m.call_id for m in past.messages if isinstance(m, OperationMessage)}
    return any(
        m.operation == RUN and m.result.summary and not _is_taken_back(m, now, settled)
        for m in now.messages
        if isinstance(m, OperationMessage)
    )


def _is_taken_back(call: OperationMessage, now: AgentState, settled: set[str]) -> bool:
    """Whether the call ended before the rewind's point, or all its changes are known and undone."""
    undone = set(call.result.touched).isdisjoint(now.list_standing_changes(call))
    return call.call_id in settled or (call.result.covered and undone)


class RewindActions:
    """Rewinds and forks one open session. Its methods return a ``Hindrance``, empty on success."""

    def __init__(
        self, parts: TurnParts, earlier: RecordedPast, turn_runs: Callable[[], bool]
    ) -> None:
        """``turn_runs`` returns whether a turn is running or about to."""
        self._parts = parts
        self._store = parts.store
        self._earlier = earlier
        self._turn_runs = turn_runs

    async def go_back(self, message_id: str, draft: str = "", *, files: bool = False) -> Hindrance:
        """Rewind the conversation to before a message of the user. The message's text goes into the
        composer, before ``draft``, the text there. ``files``: first undo the file changes since
        then, newest first; a file that was changed otherwise since is left alone.
        """
        if self._is_busy() or self._parts.compacting.locked():
            return "busy"
        if point_at(self._store.state, message_id) is None:
            return "unknown"
        async with self._parts.compacting:
            past = await self._earlier.state_before(message_id)
            point = point_at(self._store.state, message_id)  # reading may have taken a moment
            if past is None or point is None:
                return "lost"
            result = await self._undo_calls(point) if files else _UndoneFiles()
            if self._is_busy():
                self._report_files(result)
                return "busy"
            await self._store.commit(self._make_rewound(past, point, draft, result))
        return ""

    async def undo_files(self, message_id: str) -> Hindrance:
        """Undo the file changes made since a message of the user, and report the result; the
        conversation stays.
        """
        if self._is_busy():
            return "busy"
        point = point_at(self._store.state, message_id)
        if point is None:
            return "unknown"
        self._report_files(await self._undo_calls(point))
        return ""

    async def list_conflicts(self, message_id: str) -> tuple[str, ...]:
        """Return the files changed since the message that cannot be restored, because something
        else changed them.
        """
        point = point_at(self._store.state, message_id)
        return await self._parts.router.undoing.in_the_way(point.calls) if point else ()

    async def undo_rewind(self) -> Hindrance:
        """Undo the last rewind, of the conversation and the files. Files that could not be restored
        are reported in notices.
        """
        rewound = self._store.state.rewound
        if rewound is None:
            return "none"
        if self._is_busy():
            return "busy"
        if not can_be_undone(self._store.state):
            return "said"
        state = self._store.state
        stuck: list[UndoReport] = []
        for call_id in reversed(rewound.put_back):
            if call_id in state.undone_calls:
                report = await self._parts.router.undoing.turn_again(call_id)
                stuck += [] if report.complete else [report]
        if self._is_busy() or not can_be_undone(state):
            return "busy"
        undone = [
            m
            for m in state.rewound_messages
            if isinstance(m, OperationMessage) and m.call_id in state.undone_calls
        ]
        paths = {
            path
            for m in undone
            for change in m.result.undoable_changes
            for path in (change.path, change.target)
            if path
        }
        event = RewindUndone(
            message_id=rewound.message_id, reopens=bool(undone), paths=tuple(sorted(paths))
        )
        await self._store.commit(event)
        for report in stuck:
            self._parts.notices.warn(report.key, **report.params)
        return ""

    async def fork(self, message_id: str = "", draft: str = "") -> Forked:
        """Write another session that continues from before this message, or from now without one.
        ``draft`` is its composer's text; with a message, the message's text is.
        """
        if not self._earlier.recording.is_resumable:
            return Forked(problem="not_kept")
        state = self._store.state
        point = point_at(state, message_id)
        if message_id and point is None:
            return Forked(problem="unknown")
        past = await self._earlier.state_before(message_id) if message_id else state
        if past is None:
            return Forked(problem="lost")
        event = self._make_forked(past, point, draft)
        try:
            await self._earlier.fork(message_id, event)
        except (SessionFault, OSError) as error:
            detail = (isinstance(error, OSError) and error.strerror) or str(error)
            return Forked(problem="not_written", detail=detail)
        return Forked(event.session.session_id)

    # --- private

    async def _undo_calls(self, point: Point) -> _UndoneFiles:
        """Undo the file changes since the point, call by call; stops where work begins meanwhile.
        Returns the result.
        """
        result = _UndoneFiles()
        for call in point.calls:
            if self._is_busy():
                break
            report = await self._parts.router.undoing.turn_back(call)
            undone = [change.target or change.path for change in report.undone]
            if undone:
                result.calls.append(call.call_id)
                result.files += undone
            changed = [change.target or change.path for change in call.result.undoable_changes]
            result.left += [name for name in changed if name not in undone]
            known = {stuck.params.get("path") for stuck in result.stuck}
            if not report.complete and report.params.get("path") not in known:
                result.stuck.append(report)
        return result

    def _report_files(self, result: _UndoneFiles) -> None:
        """Report the restored files and those that could not be, as notices of their own."""
        for key, files in result.list_notices():
            self._parts.notices.tell(key, files=files)
        for report in result.in_the_way():
            self._parts.notices.warn(report.key, **report.params)

    def _is_busy(self) -> bool:
        """Whether work is running or waiting, so that the conversation cannot be rewound now."""
        state = self._store.state
        works = state.turn is not None or state.work is not None or self._turn_runs()
        calls = any(not call.by_user for call in state.running)
        return works or calls or state.is_work_waiting or bool(state.live)

    def _make_rewound(
        self, past: AgentState, point: Point, draft: str, result: _UndoneFiles
    ) -> ConversationRewound:
        """Return the event that rewinds the conversation to ``point``, with its notices."""
        state, now = self._store.state, self._store.clock.now()
        gone = settle_running(past, state.messages)
        standing = restore_snapshot(past, state)
        if result.calls and _has_command_since(past, state):
            reopen_objective(standing)
        return ConversationRewound(
            message_id=point.message_id,
            standing=standing,
            turns=len(past.turns),
            stopped=past.turn.summarize_as_stopped(past, now) if past.turn is not None else None,
            carried=tuple(call.call_id for call in gone),
            draft=f"{point.text}\n{draft}" if draft.strip() else point.text,
            notices=self._make_notices(past, point, result),
            put_back=tuple(result.calls),
        )

    def _make_notices(
        self, past: AgentState, point: Point, result: _UndoneFiles
    ) -> tuple[NoticeMessage, ...]:
        """Return the notices of a rewind: files restored or not, and plans, requirements and
        commands affected.
        """
        state, notice = self._store.state, self._parts.notices.make_message
        said_already = result.partly_undone
        files = file_names(
            change
            for call in reversed(point.calls)
            for change in state.list_standing_changes(call)
            if (change.target or change.path) not in said_already
        )
        known = {process.process_id for process in past.processes}
        running = sum(p.is_running and p.process_id not in known for p in state.processes)
        words = self._parts.notices.words
        told = [words("rewind.files", files=files)] if files else []
        told += [words(key, files=names) for key, names in result.list_notices()]
        told += [words("rewind.commands")] if running else []
        for_model = " ".join([words("rewind.back"), *told]) if told else ""
        said = one_line(point.text, PREVIEW)
        found = [notice("rewind.back", for_model, said=said, count=str(point.messages))]
        found += [notice(key, files=names) for key, names in result.list_notices()]
        warning = Level.WARNING
        found += [notice(stuck.key, "", warning, **stuck.params) for stuck in result.in_the_way()]
        if files and not result.stuck:
            count = str(point.files)
            found.append(notice("rewind.files", "", warning, files=files, count=count))
        then = {plan.plan_id for plan in past.plans}
        plans = [one_line(p.name, PREVIEW) for p in state.plans if p.plan_id not in then]
        if plans:
            found.append(notice("rewind.plans", names=", ".join(plans)))
        if dropped := counted_requirements(state) - counted_requirements(past):
            found.append(notice("rewind.requirements", count=str(len(dropped))))
        if running:
            found.append(notice("rewind.commands", count=str(running)))
        if state.queue:
            found.append(notice("rewind.queue", count=str(len(state.queue))))
        return tuple(found)

    def _make_forked(self, past: AgentState, point: Point | None, draft: str) -> SessionForked:
        """Return the event that a fork begins with, from the state ``past``."""
        state, now = self._store.state, self._store.clock.now()
        title = one_line(state.title, PREVIEW)
        session = state.session.replace(
            session_id=self._parts.ids("session"),
            name="",
            goal="",
            pinned=False,
            started_at=now,
            forked_from=state.session.session_id,
            forked_title=title,
        )
        key, said = "rewind.forked", ""
        if point is not None:
            key, said, draft = "rewind.forked_before", one_line(point.text, PREVIEW), point.text
        told = self._parts.notices.words("rewind.forked")
        params = {"title": title, "said": said, "id": state.session.session_id}
        return SessionForked(
            session=session,
            standing=restore_snapshot(past, state),
            stopped=past.turn.summarize_as_stopped(past, now) if past.turn is not None else None,
            carried=settle_running(past, state.messages),
            draft=draft,
            notices=(self._parts.notices.make_message(key, told, Level.INFO, **params),),
            at=now,
        )
