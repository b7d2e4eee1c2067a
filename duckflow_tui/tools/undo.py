"""Undo and redo of the file changes of calls, byte for byte, without losing what others wrote
since.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, NamedTuple

from duckflow_tui.safety.paths import ContentChanged, Place, WorkspaceError
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ModelText, name_files, one_line
from duckflow_tui.state.calls import ChangesRedone, ChangesUndone, OperationMessage
from duckflow_tui.state.operations import FileChange
from duckflow_tui.state.rewind import list_all_calls
from duckflow_tui.state.store import Store
from duckflow_tui.tools.changes import compare_bytes
from duckflow_tui.tools.operation import RUN, Blobs
from duckflow_tui.tools.watch import OwnWrites

_UNKNOWN: Final = "?"  # instead of a hash: the file cannot be read
_MODE: Final = 0o777  # permission bits that an undo restores

log = logging.getLogger("duckflow.tools")


@dataclass(frozen=True, slots=True)
class UndoReport:
    """The result of an undo or a redo, for the screen and for the model."""

    key: str  # key of the message on the screen
    params: dict[str, str] = field(default_factory=dict[str, str])
    #: Texts for the model: keys, each with its values; none when nothing was done.
    for_model: tuple[tuple[str, dict[str, str]], ...] = ()
    undone: tuple[FileChange, ...] = ()  # or redone
    complete: bool = False  # whether all changes of the call were made
    why: ModelText | None = None  # the reason of a failure; becomes ``params["why"]`` once rendered


class _Refused(Exception):
    """The changes cannot be made. ``why`` is the last part of the key of the message, whose
    parameters are ``path`` and the others.
    """

    def __init__(self, why: str, path: str, **params: str) -> None:
        super().__init__(f"{path}: {why}")
        self.why = why
        self.params = {"path": path, **params}


class _Step(NamedTuple):
    """A change to make; ``done`` if the file already is in its final state."""

    change: FileChange
    place: Place  # where the file is
    to: Place  # where it will be
    data: bytes | None  # its new content; None: it is removed, or only moved
    done: bool = False


def reverse_change(change: FileChange) -> FileChange:
    """Return the change that undoes this one."""
    path, target = change.path, change.target
    return change.replace(
        path=target or path,
        target=path if target else "",
        kind={"create": "delete", "delete": "create"}.get(change.kind, change.kind),
        before=change.after,
        after=change.before,
        before_mode=change.after_mode,
        after_mode=change.before_mode,
        before_size=change.after_size,
        after_size=change.before_size,
        added=change.removed,
        removed=change.added,
    )


def find_last_change(state: AgentState, *, ignored: bool = False) -> OperationMessage | None:
    """Return the newest call that changed files of the workspace and is not undone; None for none.
    A call that only overwrote ignored files counts only with ``ignored``.
    """
    for message in reversed(list_all_calls(state)):
        result = message.result
        changes = result.undoable_changes if ignored else result.shown_changes
        stands = changes and message.call_id not in state.undone_calls
        if stands and _is_of_this_folder(state, message):
            return message
    return None


def calls_allowed_with(state: AgentState, message: OperationMessage) -> list[OperationMessage]:
    """Return this call and the others that the same gate allowed, the newest first."""
    calls = reversed(list(list_all_calls(state)))
    return [m for m in calls if m is message or (m.gate and _gate_of(m) == _gate_of(message))]


def find_command_since(state: AgentState, call_id: str | None) -> str:
    """Return, on one line, the newest command after this call that undo does not cover; empty for
    none. With None, all commands of the session count.
    """
    for message in reversed(list_all_calls(state)):
        if message.call_id == call_id:
            return ""
        command = message.args.get("command")
        if message.operation != RUN or message.result.covered:
            continue
        if message.result.summary and isinstance(command, str):
            return one_line(command, 60)
    return ""


def place_of(workspace: Workspace, path: str) -> Place | None:
    """Return the place of the file at this path, which is relative to the workspace's root; None
    where the path leads outside or through a link, which may have replaced the file or a folder
    since. Raises WorkspaceError.
    """
    # A recorded path is literal, even if it begins with ``~`` or is a space.
    place = workspace.locate_path(f"./{path}")
    return place if place.shown == place.resolved == path else None


def _is_of_this_folder(state: AgentState, message: OperationMessage) -> bool:
    """Whether all changes of a call are in the present workspace."""
    paths = (p for c in message.result.undoable_changes for p in (c.path, c.target))
    return message.at >= state.folder_since and not any(map(os.path.isabs, paths))


@dataclass(frozen=True, slots=True)
class Undoing:
    """Undoes and redoes the changes of calls, those of each call together or not at all. Only files
    whose earlier content is not stored are left out.

    A file that somebody else has changed since blocks its call, unless ``anyway``: then its present
    content is stored first, so that a redo restores it. The report names a command that ran since
    and that undo does not cover. With ``reopens``, requirements that were judged by these files are
    judged again.
    """

    store: Store
    workspace: Workspace
    blobs: Blobs
    own: OwnWrites
    writing: asyncio.Lock  # held by whoever changes the workspace

    async def undo_last(self, *, anyway: bool = False, ignored: bool = False) -> UndoReport:
        """Undo the newest changes that are not undone yet, or report why not. ``anyway``: also
        files that somebody else has changed since. ``ignored``: also a command that overwrote
        only ignored files.
        """
        async with self.writing:
            last = find_last_change(self.store.state, ignored=ignored)
            return await self._undo_call(last, anyway=anyway)

    async def redo_last(self, *, anyway: bool = False) -> UndoReport:
        """Redo the changes that were undone last, or report why not. ``anyway``: also files that
        somebody else has changed since.
        """
        async with self.writing:
            undone = self.store.state.undone_calls
            return await self._redo_call(undone[-1] if undone else "", anyway=anyway)

    async def undo_allowed(self, *, anyway: bool = False) -> list[UndoReport]:
        """Undo the newest changes and those of the other calls that the same gate allowed. A call
        with a file that somebody else has changed since is skipped, unless ``anyway``.
        """
        state = self.store.state
        last = find_last_change(state)
        if last is None:
            return [await self.undo_last()]
        done = state.undone_calls
        calls = [m for m in calls_allowed_with(state, last) if m.result.undoable_changes]
        async with self.writing:
            return _merge_reports(
                "undo",
                [await self._undo_call(m, anyway=anyway) for m in calls if m.call_id not in done],
            )

    async def redo_allowed(self, *, anyway: bool = False) -> list[UndoReport]:
        """Redo the changes that were undone last and those, undone with them, of the other calls
        that the same gate allowed. Returns a report that says so where nothing was undone.
        """
        state = self.store.state
        calls = {m.call_id: m for m in list_all_calls(state)}
        newest = reversed(state.undone_calls)
        last = calls.get(next(newest, ""))
        if last is None:
            return [await self.redo_last()]
        together = {m.call_id for m in calls_allowed_with(state, last)}
        found = [last.call_id, *takewhile(together.__contains__, newest)]
        async with self.writing:
            return _merge_reports(
                "redo", [await self._redo_call(call_id, anyway=anyway) for call_id in found]
            )

    async def turn_back(self, message: OperationMessage) -> UndoReport:
        """Undo the changes of this call as a part of going back in the session; no requirement is
        judged again.
        """
        async with self.writing:
            return await self._undo_call(message, reopens=False)

    async def turn_again(self, call_id: str) -> UndoReport:
        """Redo the changes of this call that ``turn_back`` has undone; no requirement is judged
        again.
        """
        async with self.writing:
            return await self._redo_call(call_id, reopens=False)

    async def _undo_call(
        self, message: OperationMessage | None, *, anyway: bool = False, reopens: bool = True
    ) -> UndoReport:
        """Undo the changes of this call, record that, and return the report; with None, report that
        there is nothing to undo. The lock must be held.
        """
        state = self.store.state
        command = find_command_since(state, message.call_id if message else None)
        if message is None:
            key = "operations.undo.nothing_command" if command else "operations.undo.nothing"
            if find_last_change(state, ignored=True) is not None:
                key = "operations.undo.only_ignored"
            return UndoReport(key, {"command": command} if command else {})
        changes = message.result.undoable_changes
        if not _is_of_this_folder(state, message):
            return UndoReport("operations.undo.outside", {"path": _list_paths(changes)})
        made, lost, stopped = await self._make_changes(
            map(reverse_change, reversed(changes)), "undo", anyway
        )
        if stopped is not None and not made:
            return stopped
        undone = tuple(map(reverse_change, reversed(made)))
        event = ChangesUndone(call_id=message.call_id, changes=undone, reopens=reopens)
        await self.store.commit(event)
        complete = len(made) == len(changes)
        paths = _list_paths(undone)
        key = "operations.undo.done" if complete else "operations.undo.partly"
        if lost and stopped is None:
            key = "operations.undo.partly_lost"
        told = [("undo.undone", {"paths": paths, "call": message.call_id})]
        added, removed = sum(c.added for c in undone), sum(c.removed for c in undone)
        params = {"path": paths, "added": str(added), "removed": str(removed)}
        params |= {"lost": name_files(lost)} if lost else {}
        if command:
            told.append(("undo.commands_since", {"command": command}))
            key, params = f"{key}_command", {**params, "command": command}
        return UndoReport(key, params, tuple(told), undone, complete)

    async def _redo_call(
        self, call_id: str, *, anyway: bool = False, reopens: bool = True
    ) -> UndoReport:
        """Redo the undone changes of this call, record that, and return the report; report that
        there is nothing to redo where it was not undone. The lock must be held.
        """
        state = self.store.state
        message = next((m for m in list_all_calls(state) if m.call_id == call_id), None)
        undone = message is not None and call_id in state.undone_calls
        if message is None or not undone or not _is_of_this_folder(state, message):
            return UndoReport("operations.redo.nothing")
        changes = state.undone_changes.get(call_id) or message.result.undoable_changes
        made, _, stopped = await self._make_changes(changes, "redo", anyway)
        if stopped is not None and not made:
            return stopped
        complete = len(made) == len(changes)
        again = tuple(made)
        await self.store.commit(
            ChangesRedone(call_id=call_id, changes=again, complete=complete, reopens=reopens)
        )
        paths = _list_paths(made)
        told = (("undo.redone", {"paths": paths, "call": call_id}),)
        key = "operations.redo.done" if complete else "operations.redo.partly"
        return UndoReport(key, {"path": paths}, told, again, complete)

    async def in_the_way(self, calls: Iterable[OperationMessage]) -> tuple[str, ...]:
        """Return the paths of the files that would block an undo of these calls, in this order,
        because their content has changed; nothing is changed.
        """
        found: dict[str, str] = {}  # hash of each file at that point

        async def held(path: str) -> str:
            """Return the hash that the file would have by then; empty where it would not exist."""
            if path not in found:
                found[path] = await self.hash_path(path)
            return found[path]

        stuck: list[str] = []
        for message in calls:
            becomes: dict[str, str] = {}
            wrong: list[str] = []
            for change in map(reverse_change, reversed(message.result.undoable_changes)):
                now = await held(change.path)
                if change.kind == "move":
                    there = await held(change.target)
                    if (now, there) == ("", change.after):
                        continue
                    wrong += [change.path] if now != change.before else []
                    wrong += [change.target] if there else []
                    becomes |= {change.path: "", change.target: now}
                elif now != change.after:
                    wrong += [change.path] if now != change.before else []
                    becomes[change.path] = change.after
            stuck += wrong
            found |= {} if wrong else becomes
        return tuple(dict.fromkeys(stuck))

    async def hash_path(self, path: str) -> str:
        """Return the hash of the file that is now at a recorded path: empty for no file, ``?``
        where it cannot be read.
        """
        try:
            place = self._locate_path(path)
            return await self.workspace.hash_file(place) if place.exists else ""
        except (_Refused, WorkspaceError):
            return _UNKNOWN

    # inside

    async def _make_changes(
        self, changes: Iterable[FileChange], word: str, anyway: bool
    ) -> tuple[list[FileChange], list[str], UndoReport | None]:
        """Make these changes; return those made, the paths left out because their content is not
        stored, and the report of what stopped the rest, None if nothing did. ``word`` is "undo"
        or "redo". Content that is not stored stops a redo; an undo leaves such files out unless
        all files are such.
        """
        made: list[FileChange] = []
        lost: list[str] = []
        key, params, why = "failed", dict[str, str](), None
        try:
            steps: list[_Step] = []
            for change in changes:
                try:
                    steps.append(await self._plan_step(change, anyway))
                except _Refused as refused:
                    if refused.why != "lost" or word != "undo":
                        raise
                    lost.insert(0, change.path)  # an undo runs in reverse order
            if lost and not steps:
                raise _Refused("lost", name_files(lost))
            for step in steps:
                if not step.done:
                    await self._take_step(step)
                made.append(step.change)
                if step.data is None:
                    await self._clear_directories(step.change.directories)
            return made, lost, None
        except _Refused as refused:
            key, params = refused.why, refused.params
        except ContentChanged as changed:
            key, params = "changed_now", {"path": changed.shown}
        except WorkspaceError as error:
            params, why = {"path": error.shown}, error.told
        except OSError as error:  # from storing the earlier content
            params = {"path": "", "why": error.strerror or str(error)}
        return made, lost, UndoReport(f"operations.{word}.{key}", params, why=why)

    async def _plan_step(self, change: FileChange, anyway: bool) -> _Step:
        """Return the step that makes a change, without changing anything. Raises _Refused."""
        place = self._locate_path(change.path)
        now = await self.workspace.hash_file(place) if place.exists else ""
        if change.kind == "move":
            to = self._locate_path(change.target)
            if not now and to.exists and await self.workspace.hash_file(to) == change.after:
                return _Step(change, place, to, None, done=True)
            if now != change.before and not (anyway and now):
                raise _Refused("changed", change.path, added="0", removed="0")
            if to.exists:
                raise _Refused("taken", change.target)
            return _Step(change.replace(before=now, after=now), place, to, None)
        mode = change.after_mode
        only_mode = change.before == change.after
        if now == change.after and not (only_mode and _modes_differ(place.mode, mode)):
            return _Step(change, place, place, None, done=True)
        others = _modes_differ(place.mode, change.before_mode)  # somebody else changed the mode
        if (now != change.before or (only_mode and others)) and not anyway:
            raise await self._refuse_changed(change, place, now)
        if others and not only_mode:
            mode = place.mode
        change = change.replace(
            before=now,
            before_mode=place.mode,
            after_mode=mode if mode is not None or not now else place.mode,
            before_size=place.size,
        )
        if not change.after:
            return _Step(change, place, place, None)
        return _Step(change, place, place, await self._read_copy(change))

    def _locate_path(self, path: str) -> Place:
        """Return the place of a file. Raises _Refused where its path leads elsewhere now."""
        place = place_of(self.workspace, path)
        if place is None:
            raise _Refused("taken", path)
        return place

    async def _read_copy(self, change: FileChange) -> bytes:
        """Return the content that the file has after the change. Raises _Refused where it is not
        stored.
        """
        if change.after == change.before:  # even if the content was never stored
            return await self.workspace.read_bytes(self._locate_path(change.path))
        try:
            return await self.blobs.get(change.after)
        except (KeyError, OSError) as error:
            raise _Refused("lost", change.path) from error

    async def _refuse_changed(self, change: FileChange, place: Place, now: str) -> _Refused:
        """Return the refusal of a file that somebody else has changed, with the lines that an undo
        or redo would add and remove.
        """
        data = await self._read_copy(change) if change.after else b""
        held = await self.workspace.read_bytes(place) if now else b""
        diff = await compare_bytes(held, data)
        figures = {"added": str(diff.added), "removed": str(diff.removed)}
        return _Refused("changed", change.path, **figures)

    async def _take_step(self, step: _Step) -> None:
        """Make one change, after storing the content that it overwrites."""
        change, workspace = step.change, self.workspace
        if change.kind == "move":
            with self.own.expect_writes({change.path: "", change.target: change.after}):
                await workspace.move_file(step.place, step.to, change.before)
            return
        with self.own.expect_writes({change.path: change.after}):
            if change.before:
                # An undo is a change too: the content that it overwrites is stored.
                await self.blobs.put(await workspace.read_bytes(step.place))
            if step.data is None:
                await workspace.remove_file(step.place, change.before)
            else:
                mode = change.after_mode
                await workspace.replace_file(step.place, step.data, change.before, mode=mode)

    async def _clear_directories(self, directories: tuple[str, ...]) -> None:
        """Remove the directories that were created or removed with a file, the innermost first, as
        far as they are empty.
        """
        for path in reversed(directories):
            try:
                await self.workspace.remove_directory(self._locate_path(path))
            except (_Refused, WorkspaceError) as error:
                log.info("%s stays: %s", path, error)
                return


def _gate_of(message: OperationMessage) -> str:
    """Return the id of the gate that allowed a call; empty for none."""
    return message.gate.gate_id if message.gate else ""


def _merge_reports(word: str, reports: list[UndoReport]) -> list[UndoReport]:
    """Return the reports with the complete ones merged into the first, if there are several.
    ``word``: "undo" or "redo".
    """
    done = [report for report in reports if report.complete]
    if len(done) < 2:
        return reports
    changes = tuple(change for report in done for change in report.undone)
    paths = list(dict.fromkeys(change.path for change in changes))
    command = done[-1].params.get("command", "")  # of the oldest call
    params = {"path": name_files(sorted(paths)), "count": str(len(paths))}
    params |= {"command": command} if command else {}
    told = tuple(text for report in done for text in report.for_model)
    key = f"operations.{word}.together{'_command' if command else ''}"
    return [
        UndoReport(key, params, told, changes, complete=True),
        *(report for report in reports if not report.complete),
    ]


def _modes_differ(now: int | None, then: int | None) -> bool:
    """Whether both modes are known and their permission bits differ."""
    return now is not None and then is not None and now & _MODE != then & _MODE


def _list_paths(changes: Sequence[FileChange]) -> str:
    """Return the paths of these changes, each once, joined by commas."""
    return ", ".join(dict.fromkeys(change.path for change in changes))
