"""Taking the last changes back: byte for byte, and only where nobody changed the file since."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import NamedTuple

from duckflow_tui.safety.paths import ContentChanged, Place, WorkspaceError
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import one_line
from duckflow_tui.state.calls import ChangesUndone, OperationMessage
from duckflow_tui.state.operations import FileChange
from duckflow_tui.state.rewind import all_calls
from duckflow_tui.state.store import Store
from duckflow_tui.tools.operation import RUN, Blobs
from duckflow_tui.tools.watch import OwnWrites

log = logging.getLogger("duckflow.tools")


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What came of taking the last changes back."""

    key: str  # of the catalogue: what the screen says
    params: dict[str, str] = field(default_factory=dict[str, str])
    for_model: str = ""  # what the model is told, empty when nothing was done
    undone: tuple[FileChange, ...] = ()


class _Refused(Exception):
    """The changes cannot be taken back as a whole."""

    def __init__(self, key: str, path: str) -> None:
        super().__init__(f"{path}: {key}")
        self.report = UndoReport(key, {"path": path})


class _Step(NamedTuple):
    """One change and the way back; ``done`` when the file is as before it already."""

    change: FileChange
    place: Place  # where the file lies now
    back: Place  # where it lay before
    before: bytes | None
    done: bool = False


def last_changed(state: AgentState) -> OperationMessage | None:
    """The newest call whose changes stand."""
    for message in reversed(all_calls(state)):
        if message.result.changes and message.call_id not in state.undone_calls:
            return message
    return None


def command_since(state: AgentState, call_id: str | None) -> str:
    """The newest command that ran after a call, on one line; after None: in the whole session."""
    for message in reversed(all_calls(state)):
        if message.call_id == call_id:
            return ""
        command = message.args.get("command")
        if message.operation == RUN and message.result.summary and isinstance(command, str):
            return one_line(command, 60)
    return ""


async def undo_last(store: Store, workspace: Workspace, blobs: Blobs, own: OwnWrites) -> UndoReport:
    """Undo the newest call that changed files: all of its changes, or none with the reason. What a
    command changed is not covered; where one ran since, the report says so.
    """
    message = last_changed(store.state)
    command = command_since(store.state, message.call_id if message else None)
    if message is None:
        key = "operations.undo.nothing_command" if command else "operations.undo.nothing"
        return UndoReport(key, {"command": command} if command else {})
    made: list[FileChange] = []
    report: UndoReport | None = None  # where it did not go to the end
    try:
        steps = [
            await _step(change, workspace, blobs) for change in reversed(message.result.changes)
        ]
        for step in steps:
            if not step.done:
                await _take_back(step, workspace, blobs, own)
            made.append(step.change)
            await _clear(step.change.directories, workspace)
    except _Refused as refused:
        report = refused.report
    except ContentChanged as changed:
        report = UndoReport("operations.undo.changed", {"path": changed.shown})
    except WorkspaceError as error:
        report = UndoReport("operations.undo.failed", {"path": error.shown, "why": str(error)})
    except OSError as error:  # of the store of what was there before
        why = error.strerror or str(error)
        report = UndoReport("operations.undo.failed", {"path": "", "why": why})
    if report is not None and not made:
        return report
    complete = len(made) == len(message.result.changes)
    await store.commit(
        ChangesUndone(call_id=message.call_id, changes=tuple(made), reopens=bool(made))
    )
    paths = ", ".join(change.path for change in made)
    key = "operations.undo.done" if complete else "operations.undo.partly"
    told = (
        f"The user undid your change of {paths} (call {message.call_id}); the content is what it "
        "was before. Read it again before you build on it."
    )
    if command:
        told += f" What commands changed since then was not undone; the newest was: {command}"
        return UndoReport(f"{key}_command", {"path": paths, "command": command}, told, tuple(made))
    return UndoReport(key, {"path": paths}, told, tuple(made))


async def _clear(directories: tuple[str, ...], workspace: Workspace) -> None:
    """Remove directories that were made for a change, as far as nothing lies in them."""
    for path in reversed(directories):
        try:
            await workspace.remove_directory(workspace.locate(path))
        except WorkspaceError as error:
            log.info("%s stays: %s", path, error)
            return


async def _step(change: FileChange, workspace: Workspace, blobs: Blobs) -> _Step:
    """What has to be done, nothing being changed yet; raises _Refused."""
    back = workspace.locate(change.path)
    place = workspace.locate(change.target) if change.kind == "move" else back
    now = await workspace.digest(place) if place.exists else ""
    was = await workspace.digest(back) if back.exists else ""
    if change.kind == "move":
        if was == change.before and not now:
            return _Step(change, place, back, None, done=True)
        if now != change.after:
            raise _Refused("operations.undo.changed", change.target)
        if was:
            raise _Refused("operations.undo.taken", change.path)
        return _Step(change, place, back, None)
    if now == change.before:
        return _Step(change, place, back, None, done=True)
    if now != change.after:
        raise _Refused("operations.undo.changed", change.path)
    if not change.before:
        return _Step(change, place, back, None)
    try:
        before = await blobs.get(change.before)
    except (KeyError, OSError) as error:
        raise _Refused("operations.undo.lost", change.path) from error
    return _Step(change, place, back, before)


async def _take_back(step: _Step, workspace: Workspace, blobs: Blobs, own: OwnWrites) -> None:
    change = step.change
    if change.kind == "move":
        with own.writing({change.path: change.before, change.target: ""}):
            await workspace.move(step.place, step.back, change.after)
        return
    with own.writing({change.path: change.before}):
        if change.after:
            # An undo is a change too: what it overwrites stays in the store.
            await blobs.put(await workspace.read_bytes(step.place))
        if step.before is None:
            await workspace.remove(step.place, change.after)
        else:
            await workspace.replace(step.place, step.before, change.after, mode=change.before_mode)
