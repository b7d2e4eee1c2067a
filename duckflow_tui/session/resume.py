"""Resumes a session, from its folder to the first key of its user.

1. Find its folder; a folder without a session is refused (``resume_journal``).
2. Lock it, so that no other process writes to it.
3. Restore a state from the newest intact snapshot (``restore``).
4. Read the records after that snapshot, or all records where there is none.
5. Apply their events; those that no longer fit are counted (``apply_all``). An engine is built on
   this state.
6. Settle the calls without a result: ask for them again, or end them with what is known
   (``end_calls``).
7. Record ``SessionResumed`` (``resume``).
8. Tell the user what was lost, and what waits for an answer.
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
from duckflow_tui.session.faults import SessionFault
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

#: Operations that only wait for a card of these kinds: if one is open, the call is made again and
#: finds it.
_WAITS_FOR: Final[dict[str, frozenset[str]]] = {
    "plan_tool.propose": frozenset({CardKind.PLAN}),
    "plan_tool.revise": frozenset({CardKind.PLAN, CardKind.PLAN_CHANGE, CardKind.PLAN_END}),
    "plan_tool.update_step": frozenset({CardKind.BREAKPOINT}),
    "task_loop.run": frozenset({CardKind.BREAKPOINT}),
}

EffectOf = Callable[[str], Effect | None]  # of an operation, None for an unknown one


class Restored(NamedTuple):
    """A session as restored from its files; ``snapshot`` is the record of the snapshot used, 0 for
    none.
    """

    state: AgentState
    read: SessionRead
    skipped: int  # recorded events that could not be applied
    snapshot: int

    @property
    def last_seq(self) -> int:
        """The sequence number of the last record, after which the Store continues."""
        return self.read.last_seq

    @property
    def missing_count(self) -> int:
        """Number of recorded events that are not in the state; 0 for an intact session."""
        return self.read.lost_count + self.skipped


class Resumed(NamedTuple):
    """A resumed session: its state and its open journal, from which a Store is made."""

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
    """Lock and restore the session in this folder, and open its journal for appending. Blocking.

    Raises SessionFault; the journal is then unchanged. A folder that can only be read gives a
    session that is kept in memory from now on.
    """
    folder = SessionFolder.open(path)
    try:
        if not folder.list_segments():  # no session: it gets no lock file either
            raise SessionFault("missing", path)
        with contextlib.suppress(OSError):  # the journal will report that there is no lock
            folder.lock()
        restored = restore(folder)
    except BaseException:  # release the lock on any error
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
    """Restore the session in this folder without a lock, even while another process writes it.
    Raises SessionFault.
    """
    with contextlib.closing(SessionFolder.open(path)) as folder:
        return restore(folder)


def restore(folder: SessionFolder, *, snapshots: bool = True) -> Restored:
    """Restore the state from the newest usable snapshot and the records after it;
    ``snapshots=False``: from all records. Raises SessionFault.
    """
    state, read, seq = next(iter_beginnings(folder, snapshots=snapshots))
    return Restored(state, read, apply_all(state, read.entries), seq)


def iter_beginnings(
    folder: SessionFolder, *, snapshots: bool = True
) -> Iterator[tuple[AgentState, SessionRead, int]]:
    """Yield each state from which the journal can be applied, the records after it, and its
    sequence number: first the snapshots, newest first, then the empty state with all records.
    Raises SessionFault.
    """
    for seq in reversed(folder.list_snapshots()) if snapshots else ():
        found = read_snapshot(folder, seq)
        if found is None:
            continue
        place, state = found
        with contextlib.suppress(KeyError):  # made of another journal
            yield state, read_session(folder, after=place), seq
    yield AgentState(), read_session(folder), 0


def apply_all(state: AgentState, entries: Iterable[RecordedEvent]) -> int:
    """Apply the events to ``state`` one after the other. An event that is unknown, or does not fit
    because what it rests on was lost, changes nothing; return the number of these.
    """
    skipped = 0
    for entry in entries:
        try:
            event_from_json(entry.fields).apply(state)
        except (ValidationError, StateError):
            skipped += 1
    return skipped


async def resume(
    store: Store,
    notices: Notices,
    restored: Restored,
    today: SessionStarted,
    workspace: Workspace,
    effect: EffectOf,
) -> None:
    """Record the resumption of a session in its Store and notify the user of it.

    Calls without a result are settled first. ``today`` is the event that a new session would begin
    with. Without a screen the open turn ends here, and nothing is asked for again.
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
        notices.say("resume.replies_lost", count=str(len(lost)))
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
    """Return the session's info with its old id, title and start, and today's workspace, model,
    branch and sandbox.
    """
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
    """Whether the workspace is another folder than the one the session was recorded in; False where
    that is unknown.
    """
    header = restored.read.header
    if header is None or not header.inode:
        return False
    return workspace.identity != (header.device, header.inode)


class EndedCalls(NamedTuple):
    """Results of the calls that ended with the process, hashes of the files they touched by path,
    and whether a question to the user opens again.
    """

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
    """Settle every call without a result, and return the results for those that are not made again.
    ``ends_turn``: none is made again. ``words`` renders the texts that the model is told.
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
    """Return the ids of the calls that are made again: not started, only reading, or waiting for a
    question that is itself asked again.
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
        """Whether the call can be made again without harm, and something still wants its result."""
        if call.by_user or call.call_id not in wanted or _find_refusal(call) is not None:
            return False
        if not call.started or effect(call.operation) is Effect.READ:
            return True
        return not waiting.isdisjoint(_WAITS_FOR.get(call.operation, ()))

    return {call.call_id for call in state.running if is_repeatable(call)}


def _find_refusal(call: RunningOperation) -> ToolFault | None:
    """Return the user's refusal of the call, where the process ended before it became the call's
    result; else None.
    """
    if call.gate is None or call.answer is None:
        return None
    return rejection_of(call.answer, call.gate)


async def _make_result(
    call: RunningOperation, workspace: Workspace, at: float, words: Callable[..., str]
) -> tuple[OperationResult, dict[str, str]]:
    """Return the result of a call that was cut off, found by comparing its files with the expected
    changes, and the files' hashes by path. Deletes its unfinished drafts.
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
    """Delete the drafts that a change left unfinished: files with the app's draft names, written
    between ``since`` and ``until``. Errors are logged only.
    """
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
    """Return whether the file is as ``before`` the change, as ``after`` it, or ``other``."""
    path = await _hash_file(change.path, workspace)
    if change.kind == "move":
        target = await _hash_file(change.target, workspace)
        ways = {("", change.after): "after", (change.before, ""): "before"}
        return ways.get((path, target), "other")
    if path == change.after:
        return "after"
    return "before" if path == change.before else "other"


async def _hash_file(path: str, workspace: Workspace) -> str:
    """Return the SHA-256 of a file; empty where it is missing, ``unreadable`` where it cannot be
    read.
    """
    try:
        place = workspace.locate_path(path)
        return await workspace.hash_file(place) if place.exists else ""
    except WorkspaceError:
        return "unreadable"
