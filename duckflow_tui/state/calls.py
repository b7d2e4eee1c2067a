"""Calls of operations: requested, running, their live output, finished, and the files they
changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from duckflow_tui.state.base import Event, Frozen, JsonObject, StateError
from duckflow_tui.state.gates import FilePreview, Gate, GateAnswer, GateChoice
from duckflow_tui.state.operations import (
    FileChange,
    OperationResult,
    Ruling,
    change_running,
    describe_target,
)

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState

TAIL: Final = 64_000  # characters kept of output that is still arriving; the whole goes to a blob


def apply_carriage_returns(text: str) -> str:
    """Keep of each line the text after its last carriage return, as a terminal does.

    CR LF is a line end. A carriage return at the very end stays: what it does depends on what
    comes next.
    """
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    last = len(lines) - 1
    for number, line in enumerate(lines):
        if "\r" in line:
            body = line.rstrip("\r")
            rest = "\r" if number == last and body != line else ""
            lines[number] = body.rpartition("\r")[2] + rest
    return "\n".join(lines)


class LiveOutput:
    """The newest output of a running command, and its total size. Mutable, because it grows often.
    A carriage return restarts the line, so that a progress bar stays one line.
    """

    def __init__(self) -> None:
        self.total = 0  # characters so far
        self.at = 0.0  # when the newest piece came, seconds since the epoch; 0: not known
        self._parts: list[str] = []  # whole lines, and pieces of a line that is very long
        self._kept = 0
        self._line = ""  # the last line, as long as it may be printed over

    def add_output(self, text: str, at: float) -> None:
        """Append a piece; only the newest ``TAIL`` characters are kept."""
        self.total += len(text)
        self.at = at
        text = apply_carriage_returns(self._line + text)
        whole = text.rfind("\n") + 1
        if len(text) - whole > TAIL:
            whole = len(text)
        self._line = text[whole:]
        self._parts.append(text[:whole])
        self._kept += whole
        if self._kept > 2 * TAIL:
            joined = "".join(self._parts)[-TAIL:]
            self._parts, self._kept = [joined], len(joined)

    @property
    def text(self) -> str:
        """The newest ``TAIL`` characters."""
        return ("".join(self._parts) + self._line.rstrip("\r"))[-TAIL:]

    def newest_lines(self, count: int) -> list[str]:
        """Return the newest ``count`` lines, including an unfinished one."""
        pieces = [self._line.rstrip("\r")]
        ends = size = 0
        for part in reversed(self._parts):
            if ends > count or size > TAIL:
                break
            pieces.append(part)
            ends += part.count("\n")
            size += len(part)
        lines = "".join(reversed(pieces))[-TAIL:].rsplit("\n", count + 1)
        if not lines[-1]:
            lines.pop()
        return lines[-count:]


class RequestedCall(Frozen):
    """A requested call and who requested it: the fields that all its stages share."""

    call_id: str
    operation: str
    args: JsonObject
    reasoning: str = ""
    intent: str = ""
    step_id: str = ""  # the plan's step it belongs to
    by_user: bool = False  # the user ran it with ``!``; the model is told as of any other event

    @property
    def call_text(self) -> str:
        """The operation and its target, on one line."""
        return f"{self.operation} {describe_target(self.args)}".rstrip()

    def copy_fields(self) -> dict[str, Any]:
        """Return these fields as a dict, to build the next stage from."""
        return {name: getattr(self, name) for name in RequestedCall.model_fields}


class OperationMessage(RequestedCall):
    """A finished call with its result, placed in the conversation where it ended."""

    kind: Literal["operation"] = "operation"
    gate: Gate | None = None  # the gate it went through, as last shown
    answer: GateAnswer | None = None
    previews: tuple[FilePreview, ...] = ()  # of a change that went through no gate
    allowed: str = ""  # what let an effect happen unasked: the name of a mode, or "granted"
    ruling: Ruling | None = None  # of a call that the policy judged
    result: OperationResult
    for_requirement: str = ""  # the app ran it as the check of this requirement, not the model
    at: float


class RunningOperation(RequestedCall):
    """A call that was requested and has not finished."""

    started: bool = False  # false while it waits for a gate or its turn
    at: float  # of the intent, or of the start once started
    progress: str = ""
    gate: Gate | None = None  # the answered one, as it was shown
    answer: GateAnswer | None = None
    expects: tuple[FileChange, ...] = ()  # what it is about to do to files, once started


def list_similar_calls(state: AgentState, gate: Gate) -> list[OperationMessage]:
    """Return earlier calls that were asked about and that this gate's rule for the project would
    have allowed.
    """
    pattern = gate.pattern_of(GateChoice.PROJECT)
    calls = (m for m in state.messages if isinstance(m, OperationMessage) and m.gate is not None)
    return [m for m in calls if m.gate and m.gate.pattern_of(GateChoice.PROJECT) == pattern]


_CALL_ID: Final = attrgetter("call_id")


@dataclass(eq=False)
class CallState:
    """Running and finished calls, and their effects on files."""

    running: tuple[RunningOperation, ...] = ()
    changed_outside: tuple[str, ...] = ()  # paths the model was not told about yet
    read_other_at: float = 0.0  # when a call last read a file that someone else had changed
    undone_calls: tuple[str, ...] = ()  # calls whose changes the user took back, in that order
    #: By call: what was taken back of it, as making it again would do it.
    undone_changes: dict[str, tuple[FileChange, ...]] = field(
        default_factory=dict[str, tuple[FileChange, ...]]
    )
    left_behind: tuple[OperationMessage, ...] = ()  # calls that any way back left

    def list_standing_changes(self, call: OperationMessage) -> tuple[FileChange, ...]:
        """Return the file changes of a call that have not been undone."""
        changes = call.result.undoable_changes
        if call.call_id not in self.undone_calls:
            return changes
        undone = self.undone_changes.get(call.call_id) or changes
        paths = {(change.path, change.target) for change in undone}
        return tuple(change for change in changes if (change.path, change.target) not in paths)


class OperationRequested(RequestedCall, Event, kind="operation_requested"):
    """A call was requested; journalled before anything is touched."""

    at: float

    def apply(self, state: AgentState) -> None:
        if self.call_id in map(_CALL_ID, state.running):
            raise StateError(f"call {self.call_id} runs already")
        call = RunningOperation.model_validate(self, from_attributes=True)
        state.running = (*state.running, call)


class OperationStarted(Event, kind="operation_started"):
    """The call was allowed and now runs."""

    call_id: str
    at: float
    expects: tuple[FileChange, ...] = ()  # what it is about to do to files

    def apply(self, state: AgentState) -> None:
        _find_running(state, self.call_id)
        change_running(state, self.call_id, started=True, at=self.at, expects=self.expects)


class OperationProgress(Event, kind="operation_progress", transient=True):
    """A running call reported progress."""

    call_id: str
    text: str

    def apply(self, state: AgentState) -> None:
        change_running(state, self.call_id, progress=self.text)


class OperationFinished(Event, kind="operation_finished"):
    """A call ended: it leaves ``running`` and enters the conversation with its result."""

    message: OperationMessage
    files_read: dict[str, str] = Field(default_factory=dict)  # path → SHA-256; "" forgets it

    def apply(self, state: AgentState) -> None:
        at = _find_running(state, self.message.call_id)
        state.running = state.running[:at] + state.running[at + 1 :]
        state.outputs.pop(self.message.call_id, None)
        state.messages.append(self.message)
        changed = {path for c in self.message.result.changes for path in (c.path, c.target)}
        for path, sha in self.files_read.items():
            if path not in changed and state.files_read.get(path) not in (None, "", sha):
                state.read_other_at = self.message.at
        note_read(state, self.files_read)


class FileChangedOutside(Event, kind="file_changed_outside"):
    """A file that was read or is shown in a preview was changed by somebody else."""

    path: str
    sha: str  # new hash, empty when the file is gone

    def apply(self, state: AgentState) -> None:
        if self.path in state.files_read:
            state.files_read[self.path] = self.sha
        if self.path not in state.changed_outside:
            state.changed_outside = (*state.changed_outside, self.path)


class OutsideChangesReported(Event, kind="outside_changes_reported"):
    """The model was told which files changed outside."""

    paths: tuple[str, ...]

    def apply(self, state: AgentState) -> None:
        state.changed_outside = tuple(p for p in state.changed_outside if p not in self.paths)


class ChangesUndone(Event, kind="changes_undone"):
    """The user undid changes of files."""

    call_id: str  # the call whose changes were undone
    changes: tuple[FileChange, ...]
    reopens: bool = False  # whether what was judged by these files is to be judged anew

    def apply(self, state: AgentState) -> None:
        before = state.undone_calls
        state.undone_calls = (*state.undone_calls, self.call_id)
        state.undone_changes = {**state.undone_changes, self.call_id: self.changes}
        if self.reopens:
            _reopen_requirements(state, self.call_id, self.changes, before)
        _forget_contents(state, self.changes)


class ChangesRedone(Event, kind="changes_redone"):
    """The user redid changes of files that had been undone."""

    call_id: str
    changes: tuple[FileChange, ...]
    complete: bool = True  # false where something was in the way of others of the call
    reopens: bool = False  # as in ChangesUndone

    def apply(self, state: AgentState) -> None:
        if self.call_id not in state.undone_calls:
            raise StateError(f"call {self.call_id} was not undone")
        before = state.undone_calls
        if self.complete:
            state.undone_calls = tuple(c for c in state.undone_calls if c != self.call_id)
            changes = state.undone_changes.items()
            state.undone_changes = {call: made for call, made in changes if call != self.call_id}
        if self.reopens:
            _reopen_requirements(state, self.call_id, self.changes, before)
        _forget_contents(state, self.changes)


def _forget_contents(state: AgentState, changes: tuple[FileChange, ...]) -> None:
    """Forget the known contents of these files."""
    for change in changes:
        state.files_read.pop(change.path, None)
        state.files_read.pop(change.target, None)


def _reopen_requirements(
    state: AgentState, call_id: str, changes: tuple[FileChange, ...], before: tuple[str, ...]
) -> None:
    """Bring the requirements to how they stood with the calls undone now, after ``changes`` of the
    call were undone or redone; ``before``: the calls undone until now.
    """
    if (objective := state.objective) is None:
        return
    paths = {path for change in changes for path in (change.path, change.target) if path}
    own = any(
        isinstance(m, OperationMessage) and m.call_id == call_id and m.at >= objective.created_at
        for m in state.messages
    )
    state.objective = objective.after_undo(before, state.undone_calls, paths, own=own)


def note_read(state: AgentState, files: dict[str, str]) -> None:
    """Record the file contents that the model knows: path → SHA-256, or "" for no longer known."""
    for path, sha in files.items():
        if sha:
            state.files_read[path] = sha
        else:
            state.files_read.pop(path, None)


def _find_running(state: AgentState, call_id: str) -> int:
    """Return the index of a call among the running ones. Raises StateError."""
    for at, call in enumerate(state.running):
        if call.call_id == call_id:
            return at
    raise StateError(f"call {call_id} does not run")


class OperationOutput(Event, kind="operation_output", transient=True):
    """A running call printed something; the whole output comes with its result."""

    call_id: str
    text: str
    at: float  # seconds since the epoch

    def apply(self, state: AgentState) -> None:
        if all(r.call_id != self.call_id for r in state.running):
            return
        state.outputs.setdefault(self.call_id, LiveOutput()).add_output(self.text, self.at)
