"""Where a session is recorded, and how one that was recorded is taken up again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from duckflow_tui.agent.parts import Notices
from duckflow_tui.compose import Choice, secrets_of
from duckflow_tui.engine import Engine
from duckflow_tui.safety.secrets import Redactor
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.session.branch import branch_of
from duckflow_tui.session.faults import JournalHealth
from duckflow_tui.session.recording import (
    NO_SESSION,
    Recording,
    new_recording,
    resumed_recording,
    unrecorded,
)
from duckflow_tui.session.restore import Restored, lay_down
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.operations import Effect
from duckflow_tui.state.session import JournalChanged, SessionInfo, SessionResumed
from duckflow_tui.state.store import Record, Store
from duckflow_tui.state.usage import on_the_way

#: Why a session lives in memory, where the screen has words of its own for it.
_NAMED = ("no_space", "read_only", "no_permission", "io_error")


def record(choice: Choice) -> Recording:
    """Begin to record the session of this choice, or take up the one it names; may read files.

    Raises SessionFault when that one cannot be taken up.
    """
    if choice.no_session:
        return unrecorded()
    workspace = Path(os.path.realpath(choice.workspace))
    redact = Redactor(secrets_of(choice)).redact
    state, now = choice.places.state, time.time()
    if choice.resume:
        return resumed_recording(state, workspace, choice.resume, now, redact)
    return new_recording(state, workspace, now, redact)


class DiskNews:
    """Tells the user, once each time, that the session cannot be kept, and that it can again."""

    def __init__(self, store: Store, notices: Notices) -> None:
        self._store = store
        self._notices = notices

    def __call__(self, health: JournalHealth) -> None:
        """The journal's health changed."""
        code = str(health.reason or "io_error") if health.mode == "memory" else ""
        before = self._store.state.unkept
        if code == before:
            return
        self._store.dispatch(JournalChanged(unkept=code))
        if code and not before:
            key = code if code in _NAMED else "other"
            path = str(health.path or "")
            self._notices.warn(f"resume.memory.{key}", path=path, detail=health.detail)
        elif before and not code:
            self._notices.say("resume.kept_again")


async def attend(
    engine: Engine,
    recording: Recording,
    choice: Choice,
    workspace: Workspace,
    effect: Callable[[str], Effect | None],
) -> None:
    """Bind the record to its engine, and lay down what an earlier process left in flight."""
    store = engine.store
    begun: list[Record] = list(engine.begun)
    forget = store.watch(lambda _, record: begun.append(record))
    recording.follow(store, DiskNews(store, engine.notices))
    if choice.no_session:
        store.dispatch(JournalChanged(unkept=NO_SESSION))
    if recording.restored is not None:
        await _take_up(engine, recording.restored, choice, workspace, effect)
        recording.taken_up()
    forget()
    engine.begun = begun


async def _take_up(
    engine: Engine,
    restored: Restored,
    choice: Choice,
    workspace: Workspace,
    effect: Callable[[str], Effect | None],
) -> None:
    store, now = engine.store, engine.store.clock.now()
    entries = restored.read.entries
    until = entries[-1].at if entries else now
    laid = await lay_down(store.state, workspace, effect, until, ends_turn=choice.headless)
    state = store.state
    had_consent = bool(state.grants or state.accepted_words)
    commands = sum(process.runs for process in state.processes)
    worked = state.turn is not None
    lost = on_the_way(state.requests, state.turn.turn_id) if state.turn is not None else ()
    main = choice.settings.roles.of("main")
    endpoint = choice.settings.endpoints[main.endpoint] if main else None
    replaced = _is_another_folder(restored, workspace)
    await store.commit(
        SessionResumed(
            session=_session(state, restored, choice, workspace),
            mode=choice.mode,
            context_window=endpoint.context if endpoint else 0,
            ended=laid.ended,
            files_read=laid.files_read or {},
            another_folder=replaced,
            asks_again=laid.asks_again,
            ends_turn=choice.headless,
            interrupted_at=min(until, now),
            at=now,
        )
    )
    for_model = ""
    if worked or commands or replaced:
        for_model = "The app ended here and was started again; what was running has ended."
    if replaced:
        for_model += " The workspace is another folder than before: read files again."
    key = "resume.resumed_consent" if had_consent else "resume.resumed"
    engine.notices.say(key, for_model=for_model)
    if lost:
        key = "resume.reply_lost" if len(lost) == 1 else "resume.replies_lost"
        engine.notices.say(key, count=str(len(lost)))
    if state.turn is not None and state.turn.pause == "paused":
        drafted = bool(state.draft.strip())
        engine.notices.say("resume.interrupted_draft" if drafted else "resume.interrupted")
    if commands:
        engine.notices.say("resume.commands_ended", count=str(commands))
    if replaced:
        engine.notices.warn("resume.another_folder", path=state.session.workspace)
    if restored.missing or restored.read.damaged:
        damaged = str(restored.read.damaged + restored.read.unreadable)
        engine.notices.warn("resume.damaged", damaged=damaged, missing=str(restored.missing))


def _session(
    state: AgentState, restored: Restored, choice: Choice, workspace: Workspace
) -> SessionInfo:
    main = choice.settings.roles.of("main")
    header, session = restored.read.header, state.session
    return session.model_copy(
        update={
            "session_id": session.session_id or (header.session_id if header else choice.resume),
            "workspace": str(workspace.root),
            "title": session.title or workspace.root.name or str(workspace.root),
            "demo": choice.demo,
            "headless": choice.headless,
            "started_at": session.started_at or (header.created_at if header else 0.0),
            "model": main.model if main else "",
            "endpoint": main.endpoint if main else "",
            "branch": branch_of(workspace.root),
        }
    )


def _is_another_folder(restored: Restored, workspace: Workspace) -> bool:
    header = restored.read.header
    if header is None or not header.inode:
        return False
    try:
        found = workspace.root.stat()
    except OSError:
        return True
    return (found.st_dev, found.st_ino) != (header.device, header.inode)
