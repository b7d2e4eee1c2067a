"""A session goes on: the one way from its folder to the first key of its user.

1. Its folder is found; what is no session is refused (``resume_journal``).
2. It is locked, so that no other process writes in it.
3. The newest snapshot that is good gives a state (``restore``).
4. The records behind that snapshot are read, or all where there is none.
5. Their events are applied; what fits no more is counted (``apply_all``). An engine is built on
   this state.
6. Calls that had no result are settled: asked once more, or ended with what is known of them
   (``end_calls``).
7. ``SessionResumed`` records this, and who goes on with it (``resume``).
8. The user is told what was lost, and what waits for a key.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import ValidationError

from duckflow_tui import __version__
from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.safety.paths import WorkspaceError
from duckflow_tui.safety.risk import TEMP_PREFIX, TEMP_SUFFIX
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.session.faults import NotASession
from duckflow_tui.session.folders import SessionFolder
from duckflow_tui.session.journal import SNAPSHOT_EVERY, Journal, JournalDisk, OnHealth
from duckflow_tui.session.reader import RecordedEvent, SessionRead, read_session
from duckflow_tui.session.records import SCHEMA, JournalHeader, Redact
from duckflow_tui.session.snapshots import read_snapshot
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import StateError, event_from_json
from duckflow_tui.state.calls import OperationMessage, RunningOperation
from duckflow_tui.state.gates import CardKind
from duckflow_tui.state.operations import Effect, FileChange, OperationResult, Outcome, Zone
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.state.session import (
    ASKED_AGAIN,
    OPENED_AGAIN,
    SessionInfo,
    SessionResumed,
    SessionStarted,
)
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import list_pending_requests
from duckflow_tui.tools.calls import rejection_of
from duckflow_tui.tools.changes import describe_change
from duckflow_tui.tools.notices import Notices
from duckflow_tui.tools.operation import ToolFault
from duckflow_tui.tools.results import describe_figures, find_hashes_after
from duckflow_tui.work.resumed_work import find_rest

_CLOCKS: Final = 2.0  # seconds that a file's time may be off

log = logging.getLogger("duckflow.session")

#: Calls that only wait: with one of these there, the call is made again and finds it.
_WAITS_FOR: Final[dict[str, frozenset[str]]] = {
    "plan_tool.propose": frozenset({CardKind.PLAN}),
    "plan_tool.revise": frozenset({CardKind.PLAN, CardKind.PLAN_CHANGE, CardKind.PLAN_END}),
    "plan_tool.update_step": frozenset({CardKind.BREAKPOINT}),
    "task_loop.run": frozenset({CardKind.BREAKPOINT}),
}

EffectOf = Callable[[str], Effect | None]  # of an operation, None for an unknown one


class Applied(NamedTuple):
    """How the events of a journal went into a state."""

    done: int
    unknown: int  # no event of this program
    refused: int  # does not fit, because what it rests on was lost


class Restored(NamedTuple):
    """A session as it was when the process ended; ``snapshot`` is 0 where none was used."""

    state: AgentState
    read: SessionRead
    applied: Applied
    snapshot: int

    @property
    def last_seq(self) -> int:
        """The Store goes on after this one."""
        return self.read.last_seq

    @property
    def missing_count(self) -> int:
        """Events of this session that are not in the state; 0 for a session that is whole."""
        return self.read.lost_count + self.applied.unknown + self.applied.refused


class Resumed(NamedTuple):
    """A session taken up again: ``Store(restored.state, clock, journal, last_seq=…)``."""

    journal: Journal
    restored: Restored


def resume_journal(
    path: Path,
    now: float,
    *,
    redact: Redact | None = None,
    on_health: OnHealth | None = None,
    disk: Disk | None = None,
    snapshot_every: int = SNAPSHOT_EVERY,
) -> Resumed:
    """Take up the session in this folder; reads its files, so not on the loop. Raises SessionInUse,
    NotASession, NewerSession or SessionUnreadable; the journal is then as it was. A folder that can
    only be read gives a session that lives in memory from here on.
    """
    folder = SessionFolder.open(path)
    try:
        if not folder.list_segments():  # no session: it gets no lock file either
            raise NotASession("missing", path)
        with contextlib.suppress(OSError):  # no lock to be had: the journal finds the same
            folder.lock()
        restored = restore(folder)
    except BaseException:  # whatever it was, the lock may not stay
        folder.close()
        raise
    session = restored.state.session
    old = restored.read.header or JournalHeader(
        session_id=path.name,
        workspace=session.workspace,
        created_at=session.started_at,
        opened_at=now,
    )
    header = old.replace(schema_version=SCHEMA, app=__version__, opened_at=now)
    journal = Journal(
        JournalDisk(path, header, disk=disk, redact=redact, folder=folder),
        on_health=on_health,
        last_seq=restored.last_seq,
        behind=restored.read.size,
        snapshot_every=snapshot_every,
    )
    return Resumed(journal, restored)


def open_to_read(path: Path) -> Restored:
    """The session in this folder as it is now, whoever writes it; raises as ``resume_journal``."""
    with contextlib.closing(SessionFolder.open(path)) as folder:
        return restore(folder)


def restore(folder: SessionFolder, *, snapshots: bool = True) -> Restored:
    """Read and apply; raises what ``read_session`` raises. ``snapshots``: may be used."""
    state, read, seq = next(iter_beginnings(folder, snapshots=snapshots))
    return Restored(state, read, apply_all(state, read.entries), seq)


def iter_beginnings(
    folder: SessionFolder, *, snapshots: bool = True
) -> Iterator[tuple[AgentState, SessionRead, int]]:
    """Each state that the journal can be applied to, what follows it there and the record that it
    was true after: those of the snapshots, the newest first, and the one of a new session.
    """
    for seq in reversed(folder.list_snapshots()) if snapshots else ():
        found = read_snapshot(folder, seq)
        if found is None:
            continue
        place, state = found
        with contextlib.suppress(KeyError):  # made of another journal
            yield state, read_session(folder, after=place), seq
    yield AgentState(), read_session(folder), 0


def apply_all(state: AgentState, entries: Iterable[RecordedEvent]) -> Applied:
    """Apply the events one after the other; what does not fit is counted and changes nothing."""
    done = unknown = refused = 0
    for entry in entries:
        try:
            event_from_json(entry.fields).apply(state)
        except ValidationError:
            unknown += 1
        except StateError:
            refused += 1
        else:
            done += 1
    return Applied(done, unknown, refused)


async def resume(
    store: Store,
    notices: Notices,
    restored: Restored,
    today: SessionStarted,
    workspace: Workspace,
    effect: EffectOf,
) -> None:
    """Go on with this state, which is the Store's; ``today`` is what a new session would begin
    with. Without a screen the turn ends here, and nothing is asked for again.
    """
    state, now = store.state, store.clock.now()
    entries = restored.read.entries
    until = entries[-1].at if entries else now
    ends_turn = today.session.headless
    calls = await end_calls(state, workspace, effect, until, notices.words, ends_turn=ends_turn)
    keys = (grant for grant in state.grants if grant.source == "key")
    had_consent = any(keys)
    commands = sum(process.is_running for process in state.processes)
    worked = state.turn is not None
    lost = (
        list_pending_requests(state.requests, state.turn.turn_id) if state.turn is not None else ()
    )
    replaced = _is_another_folder(restored, workspace)
    await store.commit(
        SessionResumed(
            session=_make_session(state.session, restored, today.session),
            mode=today.mode,
            context_window=today.context_window,
            ended=calls.ended,
            files_read=calls.files_read,
            another_folder=replaced,
            asks_again=calls.asks_again,
            ends_turn=ends_turn,
            interrupted_at=min(until, now),
            at=now,
        )
    )
    for_model = ""
    if worked or commands or replaced:
        for_model = notices.words("resume.resumed")
    if replaced:
        for_model += " " + notices.words("resume.another_folder")
    notices.say("resume.resumed_consent" if had_consent else "resume.resumed", for_model=for_model)
    if lost:
        key = "resume.reply_lost" if len(lost) == 1 else "resume.replies_lost"
        notices.say(key, count=str(len(lost)))
    if state.turn is not None and state.turn.pause == "paused":
        drafted = bool(state.draft.strip())
        notices.say("resume.interrupted_draft" if drafted else "resume.interrupted")
    if commands:
        notices.say("resume.commands_ended", count=str(commands))
    if replaced:
        notices.warn("resume.another_folder", path=state.session.workspace)
    if restored.missing_count or restored.read.damaged_count:
        damaged = str(restored.read.damaged_count + restored.read.unreadable_count)
        notices.warn("resume.damaged", damaged=damaged, missing=str(restored.missing_count))


def _make_session(old: SessionInfo, restored: Restored, today: SessionInfo) -> SessionInfo:
    """The session with the name and the beginning it had, where and with what it goes on."""
    header = restored.read.header
    return old.replace(
        session_id=old.session_id or today.session_id,
        workspace=today.workspace,
        title=old.title or today.title,
        demo=today.demo,
        headless=today.headless,
        started_at=old.started_at or (header.created_at if header else 0.0),
        model=today.model,
        endpoint=today.endpoint,
        base_url=today.base_url,
        api_key_env=today.api_key_env,
        branch=today.branch,
        sandbox=today.sandbox,
    )


def _is_another_folder(restored: Restored, workspace: Workspace) -> bool:
    """Whether the workspace's folder is not the one that the session was recorded in."""
    header = restored.read.header
    if header is None or not header.inode:
        return False
    return workspace.identity != (header.device, header.inode)


class EndedCalls(NamedTuple):
    """Calls that ended with the app, what they did to files, and whether somebody is asked."""

    ended: tuple[OperationMessage, ...]
    files_read: dict[str, str]
    asks_again: bool


async def end_calls(
    state: AgentState,
    workspace: Workspace,
    effect: EffectOf,
    at: float,
    words: Callable[..., str],
    *,
    ends_turn: bool,
) -> EndedCalls:
    """Look at every call that has no result; ``ends_turn``: nothing is asked for again. ``words``
    renders what the model is told of them.
    """
    again = set[str]() if ends_turn else _find_repeatable(state, effect)
    ended: list[OperationMessage] = []
    files: dict[str, str] = {}
    for call in state.running:
        if call.call_id in again:
            continue
        result, found = await _make_result(call, workspace, at, words)
        files |= found
        ended.append(
            OperationMessage(
                **call.copy_fields(), gate=call.gate, answer=call.answer, result=result, at=at
            )
        )
    asks = not ends_turn and state.turn is not None and _is_question_pending(state, again)
    return EndedCalls(tuple(ended), files, asks)


def _is_question_pending(state: AgentState, again: set[str]) -> bool:
    """Whether a gate or a card opens again before anything else happens."""
    if any(gate.call_id in again for gate in state.gates):
        return True
    works = state.work is not None
    held = works or any(call.call_id in again for call in state.running)
    if held and any(card.kind in OPENED_AGAIN for card in state.cards):
        return True
    return any(
        card.kind in ASKED_AGAIN
        and (works or not card.step_id)
        and find_rest(state, card.step_id) is None  # else that would be run first
        for card in state.cards
    )


def _find_repeatable(state: AgentState, effect: EffectOf) -> set[str]:
    """Calls that whoever asked for them makes once more: nothing of them has happened yet, or
    nothing that matters, or they wait for others that are asked again themselves.
    """
    steps = {"", state.work.step_id if state.work is not None else ""}
    wanted = {a.call_id for step in steps if (rest := find_rest(state, step)) for a in rest.actions}
    wanted |= {
        task.call_id
        for plan in state.plans
        for step in plan.steps
        for task in step.task_list
        if task.status is WorkStatus.IN_PROGRESS and step.status is WorkStatus.IN_PROGRESS
    }
    waiting: set[str] = {card.kind for card in state.cards}

    def is_repeatable(call: RunningOperation) -> bool:
        if call.by_user or call.call_id not in wanted or _find_refusal(call) is not None:
            return False
        if not call.started or effect(call.operation) is Effect.READ:
            return True
        return not waiting.isdisjoint(_WAITS_FOR.get(call.operation, ()))

    return {call.call_id for call in state.running if is_repeatable(call)}


def _find_refusal(call: RunningOperation) -> ToolFault | None:
    """The user's no, where the app ended before it was recorded as the call's result."""
    if call.gate is None or call.answer is None:
        return None
    return rejection_of(call.answer, call.gate)


async def _make_result(
    call: RunningOperation, workspace: Workspace, at: float, words: Callable[..., str]
) -> tuple[OperationResult, dict[str, str]]:
    """The result of a call that was cut off, found by comparing its files, and their hashes by
    path.
    """
    if (no := _find_refusal(call)) is not None:
        return OperationResult(outcome=no.outcome, text=words(no.told)), {}
    if not call.started:
        text = words("resume.call_not_begun")
        return OperationResult(outcome=Outcome.STOPPED, text=text), {}
    if not call.expects:
        text = words("resume.call_unknown")
        return OperationResult(outcome=Outcome.STOPPED, text=text, unknown=True), {}
    lines = [words("resume.call_cut")]
    made: list[FileChange] = []
    files: dict[str, str] = {}
    for change in call.expects:
        await _remove_drafts(change, workspace, call.at - _CLOCKS, at + _CLOCKS)
        match await _compare_file(change, workspace):
            case "after":
                made.append(change)
                lines.append(words("resume.change_made", change=describe_change(change)))
            case "before":
                lines.append(words("resume.change_not_made", path=change.path))
            case _:
                files |= dict.fromkeys(find_hashes_after([change]), "")
                lines.append(words("resume.change_unclear", path=change.path))
    files |= find_hashes_after(made)
    result = OperationResult(
        outcome=Outcome.STOPPED,
        text="\n".join(lines),
        summary=describe_figures(made),
        changes=tuple(made),
    )
    return result, files


async def _remove_drafts(
    change: FileChange, workspace: Workspace, since: float, until: float
) -> None:
    """Take away what the change had not finished writing; never what another process writes."""
    try:
        folder = workspace.locate_path(change.path).real.parent
        for name in os.listdir(folder):
            if not (name.startswith(TEMP_PREFIX) and name.endswith(TEMP_SUFFIX)):
                continue
            if not since <= os.lstat(folder / name).st_mtime <= until:
                continue
            place = workspace.locate_path(str(folder / name))
            if place.zone is Zone.INSIDE:
                await workspace.remove_file(place, await workspace.hash_file(place))
    except (WorkspaceError, OSError) as error:
        log.warning("an unfinished file was left: %s", error)


async def _compare_file(change: FileChange, workspace: Workspace) -> str:
    """How the file is: as ``before`` the change, as ``after`` it, or ``other``."""
    path = await _hash_file(change.path, workspace)
    if change.kind == "move":
        target = await _hash_file(change.target, workspace)
        ways = {("", change.after): "after", (change.before, ""): "before"}
        return ways.get((path, target), "other")
    if path == change.after:
        return "after"
    return "before" if path == change.before else "other"


async def _hash_file(path: str, workspace: Workspace) -> str:
    """SHA-256 of a file now; empty where it is missing, ``unreadable`` where it cannot be read."""
    try:
        place = workspace.locate_path(path)
        return await workspace.hash_file(place) if place.exists else ""
    except WorkspaceError:
        return "unreadable"
