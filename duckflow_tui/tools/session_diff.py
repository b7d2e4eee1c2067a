"""Compare the files that calls have changed since the session began with their present content."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from duckflow_tui.safety.paths import WorkspaceError
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import LocalizedText, hash_data
from duckflow_tui.state.gates import FilePreview
from duckflow_tui.state.rewind import list_all_calls
from duckflow_tui.tools.changes import TAKEN, ChangeKind, PlannedChange, compare_bytes, mode_fact
from duckflow_tui.tools.diffs import MAX_COMPARED, format_hunks
from duckflow_tui.tools.operation import Blobs
from duckflow_tui.tools.undo import place_of

_LOST = LocalizedText(key="diff.fact.lost")
_OUTSIDE = LocalizedText(key="diff.fact.outside")
_TOO_MANY = LocalizedText(key="diff.fact.too_many")


class _Start(NamedTuple):
    """A file as it was when the session began; ``sha`` is empty if it did not exist."""

    path: str
    sha: str
    mode: int | None


async def session_diff(
    state: AgentState, workspace: Workspace, blobs: Blobs, words: Callable[..., str]
) -> tuple[FilePreview, ...]:
    """Return a preview of each file that calls changed and that differs from the session's start,
    sorted by its present path, a rename as one. Undone changes do not count. Once the sum passes
    ``MAX_COMPARED`` lines, further files are only named. Raises nothing: a file that cannot be
    read has a note that says why.
    """
    found: list[FilePreview] = []
    lines = 0
    here, gone = _find_starts(state)
    for path, start in (*here.items(), *((start.path, start) for start in gone)):
        is_gone = here.get(path, start) is not start  # another file is at its path now
        preview = await _make_preview(path, start, workspace, blobs, words, is_gone=is_gone)
        if preview is None:
            continue
        lines += sum(len(hunk.lines) for hunk in preview.hunks)
        if lines > MAX_COMPARED:
            preview = preview.replace(hunks=(), facts=(_TOO_MANY,))
        found.append(preview)
    return tuple(sorted(_join_renamed(found), key=lambda preview: preview.target or preview.path))


def diff_text(preview: FilePreview, localize: Callable[[LocalizedText], str]) -> str:
    """Return a file's difference in the format of ``diff -u``; its facts and note in parentheses
    come before the hunks.
    """
    named = [preview.path] if preview.kind != "create" else ["/dev/null"]
    named += [preview.target or preview.path] if preview.kind != "delete" else ["/dev/null"]
    lines = [f"--- {named[0]}", f"+++ {named[1]}"]
    said = ", ".join([*map(localize, preview.facts), *filter(None, [preview.note])])
    lines += [f"({said})"] if said else []
    return "\n".join([*lines, *format_hunks(preview.hunks)]) + "\n"


def _find_starts(state: AgentState) -> tuple[dict[str, _Start], list[_Start]]:
    """Return the state at the session's start of each file that a call changed: of those that still
    exist by their present path, and of those that were deleted. Ignored files that a command
    overwrote are left out.
    """
    here: dict[str, _Start] = {}
    gone: dict[str, _Start] = {}
    for call in list_all_calls(state):
        shown = call.result.shown_changes
        for change in state.list_standing_changes(call):
            if change not in shown:  # git ignores the file
                continue
            path = change.path
            was = here.pop(path, None) or gone.pop(path, None)
            was = was or _Start(path, change.before, change.before_mode)
            if change.kind == "delete":
                gone[was.path] = was
            else:
                here[change.target or path] = was
    return here, list(gone.values())


async def _make_preview(
    path: str,
    start: _Start,
    workspace: Workspace,
    blobs: Blobs,
    words: Callable[..., str],
    *,
    is_gone: bool,
) -> FilePreview | None:
    """Return the difference of one file; None where there is none. ``is_gone``: the file was
    deleted, and another one is at its path.
    """
    try:
        place = place_of(workspace, path)
        if place is None:
            fact = _OUTSIDE if os.path.isabs(path) else TAKEN
            return FilePreview(path=start.path, kind="modify", facts=(fact,))
        data = await workspace.read_bytes(place) if place.exists and not is_gone else None
    except WorkspaceError as error:
        return FilePreview(path=start.path, kind="modify", note=words(error.told))
    sha = "" if data is None else hash_data(data)
    moved = bool(sha and start.sha) and start.path != path
    facts: list[LocalizedText] = []
    if sha and start.sha and None not in (start.mode, place.mode) and start.mode != place.mode:
        facts.append(mode_fact(start.mode or 0, place.mode or 0))
    if sha == start.sha and not moved and not facts:
        return None
    before = data if sha == start.sha else None
    if start.sha and before is None:
        try:
            before = await blobs.get(start.sha)
        except (KeyError, OSError):
            facts.append(_LOST)
    kind: ChangeKind = "modify"
    if moved or not (sha and start.sha):
        kind = "move" if moved else "delete" if start.sha else "create"
    diff = await compare_bytes(data if _LOST in facts else before, data)
    made = PlannedChange(kind, place, diff, start.sha, sha).make_preview()
    return made.replace(
        path=start.path if moved else path,
        target=path if moved else "",
        facts=(*made.facts, *facts),
    )


def _join_renamed(found: list[FilePreview]) -> list[FilePreview]:
    """Replace a deleted and a created file with the same content by one moved file, since commands
    do not report moves.
    """
    went = {one.before_hash: one for one in found if one.kind == "delete" and one.removed}
    kept: list[FilePreview] = []
    for one in found:
        old = went.pop(one.after_hash, None) if one.kind == "create" else None
        if old is not None:
            move = {"kind": "move", "path": old.path, "target": one.path, "hunks": ()}
            kept.append(one.replace(**move, before_hash=old.before_hash, added=0, removed=0))
        else:
            kept.append(one)
    moved = {one.path for one in kept if one.kind == "move"}
    return [one for one in kept if one.kind != "delete" or one.path not in moved]
