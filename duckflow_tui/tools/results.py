"""Results of calls as the model reads them: bounded in size, with changes and the user's edits
described.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from duckflow_tui.safety.paths import WorkspaceError
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ELLIPSIS, clip_value
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.gates import GateAnswer
from duckflow_tui.state.operations import FileChange, Outcome, Zone
from duckflow_tui.tools.changes import (
    PlannedChange,
    compare_bytes,
    describe_change,
    describe_sizes,
    in_words,
    left_out,
)
from duckflow_tui.tools.diffs import join_hunks
from duckflow_tui.tools.operation import Blobs, ToolFault

MAX_RESULT: Final = 256 * 1024  # bytes; R18
MAX_LINE: Final = 20_000  # characters of one line
_COUNT_ROOM: Final = 40  # characters; a shorter rest is not longer than the note in its place
#: Before the id of a call or the hash of a blob, where file_ops.read_file takes a path.
HANDLE: Final = "result:"
#: The last line of a result in which something was masked.
MASKED: Final = (
    "[what looks like a key stands as [redacted] here and is not sent; the file or the program has "
    "it whole. Do not write [redacted] in its place]"
)
_NOTE_ROOM: Final = 400  # bytes kept free for the line between head and tail

_LINES: Final = 600  # lines of all differences together
_LARGEST: Final = 4 * 1024 * 1024  # bytes of a file that is compared
_TESTS: Final = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test_|[._](?:test|spec)\.\w+$"
)


def reading_hint(handle: str) -> str:
    """Return the note that tells the model how to read the rest of a result."""
    return f'file_ops.read_file with path "{HANDLE}{handle}" reads any part of it'


def hide_reading_hint(text: str, handle: str) -> str:
    """Return a result's text for the user, without the hint to the model on how to read
    the rest.
    """
    if not handle:
        return text
    how = reading_hint(handle)
    whole = f"the whole is kept: {how}"
    for hint in (f"; {whole}, with columns", f"; {whole}", f": {how}"):
        text = text.replace(hint, "")
    return text


async def bound_result(text: str, blobs: Blobs) -> tuple[str, int, str]:
    """Return the text with lines of at most MAX_LINE characters, and of more than MAX_RESULT bytes
    only head and tail; the number of characters left out; and the hash of the blob that keeps
    the whole text, empty where nothing is left out or it could not be kept.
    """
    raw = text.encode("utf-8", "surrogatepass")
    lines, cut = _cut_lines(text)
    if not cut and len(raw) <= MAX_RESULT:
        return text, 0, ""
    try:
        blob = await blobs.put(raw)
        kept = f"the whole is kept: {reading_hint(blob)}"
    except OSError as error:
        blob, kept = "", f"the whole could not be kept: {error.strerror}"
    if cut:
        kept_lines = f"[{cut:,} characters of long lines are left out; {kept}, with columns]"
        lines = f"{lines.removesuffix(chr(10))}\n{kept_lines}"
    short = lines.encode("utf-8", "surrogatepass")
    if len(short) <= MAX_RESULT:  # R18d
        return lines, cut, blob
    half = (MAX_RESULT - _NOTE_ROOM) // 2
    head = short[:half].decode("utf-8", "ignore")
    tail = short[-half:].decode("utf-8", "ignore")
    between = len(lines) - len(head) - len(tail)
    note = f"[… {between:,} characters left out; {kept} …]"
    return f"{head}\n{note}\n{tail}", cut + between, blob


def _cut_lines(text: str) -> tuple[str, int]:
    """Return the text with the end of each overlong line replaced by a count, and the number of
    characters removed.
    """
    if len(text) <= MAX_LINE:
        return text, 0
    shown: list[str] = []
    cut = 0
    for line in text.split("\n"):
        more = len(line) - MAX_LINE
        if more > _COUNT_ROOM:
            cut += more
            line = f"{line[:MAX_LINE]} [… {more:,} more characters]"
        shown.append(line)
    return "\n".join(shown), cut


async def load_earlier_result(state: AgentState, blobs: Blobs, handle: str) -> str:
    """Return the whole text of a result of this session. ``handle`` is the id of its call, or the
    hash of its blob or of a background command's output. Raises ToolFault where there is none,
    or its blob is gone.
    """
    for message in reversed(state.messages if handle else ()):
        if isinstance(message, OperationMessage) and handle in (
            message.call_id,
            message.result.blob,
        ):
            blob, text = message.result.blob, message.result.text
            break
    else:
        kept = (p.output_blob for p in state.processes)
        blob = next((sha for sha in kept if sha and sha == handle), "")
        text = ""
        if not blob:
            raise ToolFault("result.unknown", Outcome.INVALID, handle=clip_value(handle))
    if not blob:
        return text
    try:
        return (await blobs.get(blob)).decode("utf-8", "replace")
    except (KeyError, OSError):
        raise ToolFault("result.gone", handle=clip_value(handle)) from None


class Original(NamedTuple):
    """A file as it was before the first change that the current request made to it."""

    name: str  # shown path
    sha: str  # SHA-256 of its content; empty where there was no file
    data: bytes | None  # None where there was no file or its content was not stored


async def load_originals(state: AgentState, blobs: Blobs) -> dict[str, Original]:
    """Return the files that calls have changed since the current request of the user, by their
    present path, as they were before.
    """
    since = state.objective.message_id if state.objective is not None else ""
    changes: list[FileChange] = []
    for message in reversed(state.messages):
        if isinstance(message, UserMessage) and message.message_id == since:
            break
        if isinstance(message, OperationMessage):
            changes += reversed(message.result.changes)
    was: dict[str, tuple[str, str]] = {}
    for change in reversed(changes):
        if change.kind == "move":
            was[change.target] = was.pop(change.path, (change.path, change.before))
        else:
            was.setdefault(change.path, (change.path, change.before))
    found: dict[str, Original] = {}
    for path, (name, sha) in was.items():
        data: bytes | None = None
        with contextlib.suppress(KeyError, OSError):
            data = await blobs.get(sha) if sha else None
        found[path] = Original(name, sha, data)
    return found


async def net_change(before: Mapping[str, Original], workspace: Workspace) -> str:
    """Return the difference between these files and their present content, for the model: a line
    for each file, then hunks, source before tests, at most 600 lines. Unchanged files are left
    out; files that are secret, outside, too large or unreadable are only named.
    """
    heads: list[str] = []
    source: list[str] = []
    tests: list[str] = []
    for path, (old_path, sha, old) in before.items():
        try:
            place, was = workspace.locate_path(path), workspace.locate_path(old_path)
            outside = place.zone is not Zone.INSIDE or place.secret or place.leads_out
            outside = outside or was.zone is not Zone.INSIDE or was.secret
            if outside or place.size > _LARGEST or (sha and old is None):
                heads.append(f"- {path}")
                continue
            there = place.exists and not place.is_dir
            new = await workspace.read_bytes(place) if there else None
        except (WorkspaceError, OSError):
            heads.append(f"- {path}")
            continue
        moved = f" (was {old_path})" if old_path != path else ""
        if old == new and not moved:
            continue
        diff = await compare_bytes(old, new)
        kind = "created" if old is None else "deleted" if new is None else "changed"
        heads.append(f"- {kind} {path}{moved} +{diff.added} −{diff.removed}")
        shown = tests if _TESTS.search(path) else source
        for hunk in join_hunks(diff.hunks):
            shown.append(f"@@ {path} {hunk.new_start}")
            shown += (f"{row.mark}{row.text}" for row in hunk.lines)
    shown = [*source, *tests]
    if len(shown) > _LINES:
        shown[_LINES:] = [f"{ELLIPSIS} {len(shown) - _LINES} more lines"]
    return "\n".join([*heads, *shown])


async def describe_user_edits(
    proposed: Sequence[PlannedChange],
    applied: Iterable[PlannedChange],
    answer: GateAnswer,
    instead_of: bytes | None,
    words: Callable[..., str],
) -> list[str]:
    """Describe to the model the user's edits of a change before they approved it: new text, and
    parts that they left out. ``instead_of`` is the content that they edited, None where they
    edited none; ``words`` renders texts for the model.
    """
    told: list[str] = []
    if instead_of is not None:
        for change in applied:
            if change.place.zone is not Zone.INSIDE:
                told.append(words("call.edited_outside"))
                continue
            diff = await compare_bytes(instead_of, change.diff.after)
            told.append(words("call.edited_by_user", difference=in_words(diff.hunks)))
    for index, change in enumerate(proposed):
        out = left_out(answer, index)
        if out:
            hunks = change.diff.hunks
            inside = change.place.zone is Zone.INSIDE
            told.append(
                words(
                    "call.parts_left_out",
                    out=str(len(out)),
                    parts=str(len(hunks)),
                    path=change.place.shown,
                    difference=in_words(hunks[number] for number in out) if inside else "",
                )
            )
    return told


def changed_files(log: Sequence[OperationMessage]) -> tuple[str, ...]:
    """Return the paths that these calls changed, each once, in the order of their first change."""
    paths = (
        change.target or change.path
        for m in log
        for change in (m.result.changes or m.result.touched)
    )
    return tuple(dict.fromkeys(paths))


def find_hashes_after(changes: Iterable[FileChange]) -> dict[str, str]:
    """Return the hash of each file after these changes, by path; empty for a file that is gone."""
    found: dict[str, str] = {}
    for change in changes:
        if change.kind == "move":
            found[change.path] = ""
            found[change.target] = change.after
        else:
            found[change.path] = change.after
    return found


def describe_figures(changes: Sequence[FileChange]) -> str:
    """Return the lines added and removed in all, as ``+3 −1``, or the sizes of the files where no
    lines are counted.
    """
    added = removed = 0
    for change in changes:
        added += change.added
        removed += change.removed
    if added or removed:
        return f"+{added} −{removed}"
    return ", ".join(describe_sizes(change) for change in changes if change.kind != "move")


def list_changes(changes: Iterable[FileChange]) -> str:
    """Return a description of these changes on one line."""
    return "; ".join(describe_change(change) for change in changes)


def make_stop_fault(made: Sequence[FileChange], *, started: bool) -> ToolFault:
    """Return the fault of a call that was stopped, with the changes that it had made by then;
    ``started``: it was running, not waiting.
    """
    if made:
        return ToolFault("call.stopped_after", Outcome.STOPPED, done=list_changes(made))
    return ToolFault(f"call.stopped_{'running' if started else 'before'}", Outcome.STOPPED)
