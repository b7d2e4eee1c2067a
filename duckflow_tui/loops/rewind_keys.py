"""What the user's keys do to the conversation as a whole: go back in it, take that back, fork."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from duckflow_tui.loops import rewinding
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.rewinding import Point
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import one_line
from duckflow_tui.state.events import (
    ConversationRewound,
    RewindUndone,
    SessionForked,
)
from duckflow_tui.state.messages import (
    Level,
    NoticeMessage,
    OperationMessage,
    UserMessage,
)
from duckflow_tui.state.rewind_events import can_be_undone
from duckflow_tui.tools.undo import UndoReport, last_changed

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


class NotWritten(Exception):
    """A fork could not be made; the text says why."""


class Earlier(Protocol):
    """What was recorded of the session so far."""

    async def before(self, message_id: str) -> AgentState | None:
        """A state of its own, as the session stood just before the user sent this message; None
        where that is nowhere recorded.
        """
        ...

    async def fork(self, message_id: str, event: SessionForked) -> None:
        """Make the session of the event from all that was recorded before the message, or from
        all there is where the message is empty; raises NotWritten.
        """
        ...

    @property
    def is_kept(self) -> bool:
        """Whether the session is on the disk, so that a fork can be."""
        ...


@dataclass(frozen=True, slots=True)
class Forked:
    """The id of the new session, or what was in the way of it."""

    session_id: str = ""
    problem: Hindrance = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PutBack:
    """Files that are as they were again, and what kept the next one from it."""

    files: str = ""  # their names
    stopped_by: UndoReport | None = None


class RewindKeys:
    """One for a session."""

    def __init__(
        self,
        parts: TurnParts,
        earlier: Earlier,
        undo_last: Callable[[], Awaitable[UndoReport]],
        turn_runs: Callable[[], bool],
    ) -> None:
        """``undo_last`` takes the newest change of files back; ``turn_runs``: or is about to."""
        self._parts = parts
        self._store = parts.store
        self._earlier = earlier
        self._undo_last = undo_last
        self._turn_runs = turn_runs

    async def back(self, message_id: str, draft: str = "") -> Hindrance:
        """Take the conversation back to before a message of the user. Its text is the draft again,
        before what stands in the composer; files stay as they are.
        """
        if problem := self._in_the_way(message_id):
            return problem
        async with self._parts.compacting:
            past = await self._earlier.before(message_id)
            if past is None:
                return "lost"
            # What was read may have taken a moment.
            if self._is_busy():
                return "busy"
            point = rewinding.point_at(self._store.state, message_id)
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
        await self._store.commit(RewindUndone(message_id=rewound.message_id))
        return ""

    async def put_files_back(self) -> PutBack:
        """Undo what was done to files after the point that the conversation went back to, the
        newest change first, until one cannot be undone.
        """
        state = self._store.state
        back = {m.call_id for m in state.rewound_messages if isinstance(m, OperationMessage)}
        left = back & {m.call_id for m in state.left_behind}
        done: list[str] = []
        stopped: UndoReport | None = None
        while (newest := last_changed(state)) is not None and newest.call_id in left:
            if self._is_busy():
                break
            report = await self._undo_last()
            done += [change.target or change.path for change in report.undone]
            if len(report.undone) < len(newest.result.changes):
                stopped = report
                break
        names = ", ".join(dict.fromkeys(done))
        if done:
            told = f"The user had these files put back to what they were: {names}."
            self._parts.notices.say("rewind.put_back", for_model=told, files=names)
        if stopped is not None:
            self._parts.notices.warn(stopped.key, **stopped.params)
        return PutBack(names, stopped)

    async def fork(self, message_id: str = "", draft: str = "") -> Forked:
        """Make another session that goes on from before this message, or from here. This one stays
        as it is, whatever it does.
        """
        if not self._earlier.is_kept:
            return Forked(problem="not_kept")
        state = self._store.state
        point = rewinding.point_at(state, message_id)
        if message_id and point is None:
            return Forked(problem="unknown")
        past = await self._earlier.before(message_id) if message_id else state
        if past is None:
            return Forked(problem="lost")
        event = self._forked(past, point, draft)
        try:
            await self._earlier.fork(message_id, event)
        except NotWritten as error:
            return Forked(problem="not_written", detail=str(error))
        return Forked(event.session.session_id)

    # inside

    def _is_busy(self) -> bool:
        state = self._store.state
        works = state.turn is not None or state.work is not None or self._turn_runs()
        calls = any(not call.by_user for call in state.running)
        return works or calls or bool(state.gates or state.cards or state.live)

    def _in_the_way(self, message_id: str) -> Hindrance:
        if self._is_busy() or self._parts.compacting.locked():
            return "busy"
        known = rewinding.point_at(self._store.state, message_id) is not None
        return "" if known else "unknown"

    def _rewound(self, past: AgentState, point: Point, draft: str) -> ConversationRewound:
        state, now = self._store.state, self._store.clock.now()
        gone = rewinding.carried(past, state.messages)
        return ConversationRewound(
            message_id=point.message_id,
            standing=rewinding.standing_at(past, state, rewinding.laid_plans(past)),
            turns=len(past.turns),
            stopped=rewinding.stopped_turn(past, now),
            carried=tuple(call.call_id for call in gone),
            draft=f"{point.text}\n{draft}" if draft.strip() else point.text,
            notices=self._notices(past, point),
        )

    def _notices(self, past: AgentState, point: Point) -> tuple[NoticeMessage, ...]:
        """What went with the messages, and what did not."""
        state = self._store.state
        files = rewinding.file_names(point.changes)
        known = {process.process_id for process in past.processes}
        running = sum(p.runs and p.process_id not in known for p in state.processes)
        told = [_FILES.format(files=files)] if files else []
        told += [_COMMANDS] if running else []
        for_model = " ".join([_BACK, *told]) if told else ""
        said = one_line(point.text, _PREVIEW)
        found = [self._notice("rewind.back", for_model, said=said, count=str(point.messages))]
        if files:
            count = str(point.files)
            found.append(
                self._notice("rewind.files", level=Level.WARNING, files=files, count=count)
            )
        if plans := rewinding.new_plans(past, state):
            names = ", ".join(one_line(name, _PREVIEW) for name in plans)
            found.append(self._notice("rewind.plans", names=names))
        if dropped := rewinding.new_requirements(past, state):
            found.append(self._notice("rewind.requirements", count=str(dropped)))
        if running:
            found.append(self._notice("rewind.commands", count=str(running)))
        if state.queue:
            found.append(self._notice("rewind.queue", count=str(len(state.queue))))
        return tuple(found)

    def _forked(self, past: AgentState, point: Point | None, draft: str) -> SessionForked:
        state, now = self._store.state, self._store.clock.now()
        title = title_of(state)
        session = state.session.model_copy(
            update={
                "session_id": self._parts.ids("session"),
                "name": "",
                "pinned": False,
                "started_at": now,
                "forked_from": state.session.session_id,
                "forked_title": title,
            }
        )
        said = one_line(point.text, _PREVIEW) if point is not None else ""
        key = "rewind.forked_before" if point is not None else "rewind.forked"
        params = {"title": title, "said": said, "id": state.session.session_id}
        return SessionForked(
            session=session,
            standing=rewinding.standing_at(past, state, rewinding.laid_plans(past)),
            stopped=rewinding.stopped_turn(past, now),
            carried=rewinding.carried(past, state.messages),
            draft=point.text if point is not None else draft,
            notices=(self._notice(key, _FORKED, Level.INFO, **params),),
            at=now,
        )

    def _notice(
        self, key: str, for_model: str = "", level: Level = Level.INFO, **params: str
    ) -> NoticeMessage:
        return NoticeMessage(
            message_id=self._parts.ids("msg"),
            level=level,
            key=key,
            params=params,
            for_model=for_model,
            at=self._store.clock.now(),
        )


def title_of(state: AgentState) -> str:
    """What a list calls this session: the user's name for it, else the first request."""
    asked = (m.text for m in state.messages if isinstance(m, UserMessage) and m.text.strip())
    return one_line(state.session.name or next(asked, ""), _PREVIEW)
