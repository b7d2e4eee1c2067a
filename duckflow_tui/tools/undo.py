"""Taking the last changes back: byte for byte, and only where nobody changed the file since."""

from __future__ import annotations

from dataclasses import dataclass, field

from duckflow_tui.safety.place import ContentChanged, Place, WorkspaceError
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.events import ChangesUndone
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.operations import FileChange
from duckflow_tui.state.store import Store
from duckflow_tui.tools.operation import Blobs
from duckflow_tui.tools.watch import OwnWrites


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


@dataclass(frozen=True, slots=True)
class _Step:
    """One change and the way back; ``done`` when the file is as before it already."""

    change: FileChange
    place: Place  # where the file lies now
    back: Place  # where it lay before
    before: bytes | None
    done: bool = False


def last_changed(state: AgentState) -> OperationMessage | None:
    """The newest call whose changes stand."""
    for message in reversed(state.messages):
        if (
            isinstance(message, OperationMessage)
            and message.result.changes
            and message.call_id not in state.undone_calls
        ):
            return message
    return None


async def undo_last(store: Store, workspace: Workspace, blobs: Blobs, own: OwnWrites) -> UndoReport:
    """Undo the newest call that changed files: all of its changes, or none with the reason."""
    message = last_changed(store.state)
    if message is None:
        return UndoReport("operations.undo.nothing")
    made: list[FileChange] = []
    try:
        steps = [
            await _step(change, workspace, blobs) for change in reversed(message.result.changes)
        ]
        for step in steps:
            if not step.done:
                await _take_back(step, workspace, blobs, own)
            made.append(step.change)
    except _Refused as refused:
        if not made:
            return refused.report
    except ContentChanged as changed:
        if not made:
            return UndoReport("operations.undo.changed", {"path": changed.shown})
    except WorkspaceError as error:
        if not made:
            return UndoReport("operations.undo.failed", {"path": error.shown, "why": str(error)})
    complete = len(made) == len(message.result.changes)
    await store.commit(ChangesUndone(call_id=message.call_id, changes=tuple(made)))
    paths = ", ".join(change.path for change in made)
    return UndoReport(
        "operations.undo.done" if complete else "operations.undo.partly",
        {"path": paths},
        f"The user undid your change of {paths} (call {message.call_id}); the content is what it "
        "was before. Read it again before you build on it.",
        tuple(made),
    )


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
    except KeyError as error:
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
