"""The operations that change files: write, edit, move, delete. Each only proposes changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pydantic import Field

from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.secrets import REDACTED
from duckflow_tui.safety.workspace import MAX_READ, Workspace
from duckflow_tui.state.base import ModelText, clip_value, hash_data
from duckflow_tui.state.gates import Hunk
from duckflow_tui.state.operations import Effect, Zone
from duckflow_tui.tools.changes import ChangeKind, PlannedChange, plan_change
from duckflow_tui.tools.diffs import (
    MAX_COMPARED,
    NotText,
    TextFile,
    compare_files,
    decode_file,
    size_words,
)
from duckflow_tui.tools.edits import Edit, EditRefused, apply_edits
from duckflow_tui.tools.operation import Arguments, Edits, Operation, ToolContext, ToolFault

MAX_EDITS: Final = 50
_MAX_LINES: Final = MAX_COMPARED // 2
_IN_A_THREAD: Final = 50_000  # characters; in longer texts the nearest match may take long


class WriteFile(Arguments):
    path: str
    content: str


class EditFile(Arguments):
    path: str
    edits: list[Edit] = Field(min_length=1, max_length=MAX_EDITS)


class MoveFile(Arguments):
    source: str
    target: str = Field(
        description="The whole new path, the file's name included, where nothing lies."
    )


class DeleteFile(Arguments):
    path: str


async def _prepare_write(args: WriteFile, places: tuple[Place, ...], context: ToolContext) -> Edits:
    """Propose to create or rewrite a file. Raises ToolFault."""
    if places[0].zone is not Zone.INSIDE and await _is_hidden_from_model(places[0], context):
        return unseen_write(places[0], args.content)
    place = _require_small_file(places[0])
    change = await plan_rewrite(context.workspace, place, args.content)
    if REDACTED in args.content and (before := change.diff.before) is not None:
        was = before.decode("utf-8", "replace")
        if args.content.count(REDACTED) > was.count(REDACTED) and context.redact(was) != was:
            raise ToolFault("file.key_replaced", path=place.label, mark=REDACTED)
    if not place.exists:
        return Edits((change,))
    if (left_out := _find_left_out(change.diff.hunks)) is not None:
        line, count = left_out
        raise ToolFault(
            "file.left_out", path=place.label, line=clip_value(line), count=f"{count:,}"
        )
    if change.after_hash == change.before_hash:
        raise ToolFault("file.same_content", path=place.label)
    return Edits((change,), context.state_of(place, change.before_hash), _link_note(place, context))


#: Beginnings of comments in most languages, and of lines of an ellipsis only.
_COMMENTS: Final = ("#", "//", "/*", "--", "<!--", ";", "%", "{/*", "...", "…")
_FEW: Final = 3  # lines that a comment may replace


def _find_left_out(hunks: Sequence[Hunk]) -> tuple[str, int] | None:
    """Find a comment that stands for lines of the file: one with an ellipsis, or the only line that
    a hunk adds, in a hunk that removes over ``_FEW`` lines more than it adds. Returns it with the
    count of lines it replaces; None for none.
    """
    for hunk in hunks:
        come = [x.text.strip() for x in hunk.lines if x.mark == "+" and x.text.strip()]
        lost = sum(line.mark == "-" for line in hunk.lines) - len(come)
        for line in come if lost > _FEW else ():
            is_short = "..." in line or "…" in line or len(come) == 1
            if is_short and line.startswith(_COMMENTS):
                return line, lost + 1
    return None


async def plan_rewrite(workspace: Workspace, place: Place, text: str) -> PlannedChange:
    """Return the change that gives a file this text; an existing text file keeps its encoding, byte
    order mark and line endings. Raises ToolFault.
    """
    before = await workspace.read_bytes(place) if place.exists else None
    if before is not None and before.count(b"\n") > _MAX_LINES:
        raise _not_shown(place, before)
    shape = TextFile("")
    with contextlib.suppress(NotText):
        shape = decode_file(before or b"")
    after = _encode_like(shape, shape.with_endings(text), place)
    return await plan_change("modify" if place.exists else "create", place, before, after)


async def _prepare_edit(args: EditFile, places: tuple[Place, ...], context: ToolContext) -> Edits:
    """Propose replacements in a file. Raises ToolFault where an edit does not fit."""
    if places[0].zone is not Zone.INSIDE and await _is_hidden_from_model(places[0], context):
        # Whether an edit fits would reveal content that needs a gate to be read.
        raise ToolFault("file.read_first", path=places[0].label, zone=places[0].zone)
    place = _require_small_file(places[0])
    if not place.exists:
        raise ToolFault("file.missing_for_edit", path=place.label)
    before = await context.workspace.read_bytes(place)
    if before.count(b"\n") > _MAX_LINES:
        raise _not_shown(place, before)
    try:
        shape = decode_file(before)
    except NotText as error:
        size = size_words(len(before))
        raise ToolFault("file.no_text", path=place.label, problem=error.told, size=size) from error
    sha = hash_data(before)
    known = context.state_of(place, sha)
    try:
        if len(shape.text) < _IN_A_THREAD:
            edited = apply_edits(shape.text, args.edits, crlf=shape.has_crlf, sha=sha)
        else:
            edited = await asyncio.to_thread(
                apply_edits, shape.text, args.edits, crlf=shape.has_crlf, sha=sha
            )
    except EditRefused as error:
        raise _make_mismatch_fault(place, error, known) from error
    after = _encode_like(shape, edited.text, place)
    change = await plan_change("modify", place, before, after)
    notes = [note] if (note := _link_note(place, context)) else []
    if "changed_since_read" in known:
        notes.append(context.words("edit.changed_since", path=place.shown))
    if edited.near:
        differs = ", ".join(context.words(f"edit.near.{how}") for how in edited.near)
        notes.append(context.words("edit.fitted_nearly", differences=differs))
    return Edits((change,), (*known, *edited.near), " ".join(notes))


def _link_note(place: Place, context: ToolContext) -> str:
    """Return a sentence for the model on a file with several hard links, of which a write changes
    only one name; empty for other files.
    """
    if "hard_link" not in place.reasons:
        return ""
    return context.words("edit.hard_link", path=place.shown)


async def _prepare_move(args: MoveFile, places: tuple[Place, ...], context: ToolContext) -> Edits:
    """Propose to move a file. Raises ToolFault where the source is missing or the target exists."""
    source, target = places
    unseen = target.zone is Zone.OUTSIDE
    if source.zone is not Zone.INSIDE:
        unseen = await _is_hidden_from_model(source, context) or unseen
    if source.zone is not Zone.OUTSIDE:
        _require_existing(source)
    if target.zone is not Zone.OUTSIDE:
        _require_free(target, source)
    if unseen:
        return Edits((_plan_unseen("move", source, None, target),), _NOT_SHOWN)
    sha = await context.workspace.hash_file(source)
    moved = PlannedChange("move", source, compare_files(None, None), sha, sha, target)
    return Edits((moved,))


async def _prepare_delete(
    args: DeleteFile, places: tuple[Place, ...], context: ToolContext
) -> Edits:
    """Propose to delete a file. Raises ToolFault where it is missing or too large."""
    if places[0].zone is not Zone.INSIDE and await _is_hidden_from_model(places[0], context):
        return Edits((_plan_unseen("delete", places[0], None),), _NOT_SHOWN)
    place = _require_existing(_require_small_file(places[0]))
    before = await context.workspace.read_bytes(place)
    change = await plan_change("delete", place, before, None)
    return Edits((change,), context.state_of(place, change.before_hash))


# --- files that are not looked at before the user agrees --------------------------------------

#: Reasons of a gate whose change is not shown.
_NOT_SHOWN: Final = ("not_shown_before",)


async def _is_hidden_from_model(place: Place, context: ToolContext) -> bool:
    """Whether a change must not reveal anything of the present file, secret or outside the
    workspace, before the user agrees: the model has not read its present content. Only whether a
    secret in the workspace exists may be revealed.
    """
    last = context.seen.get(place.shown)
    if last and place.exists:
        return await context.workspace.hash_file(place) != last
    return place.zone is Zone.OUTSIDE or place.exists


def unseen_write(place: Place, text: str) -> Edits:
    """Return the proposal to write this text whatever the present content is, which is not
    shown.
    """
    return Edits(
        (_plan_unseen("modify", place, _encode_like(TextFile(""), text, place)),), _NOT_SHOWN
    )


def _plan_unseen(
    kind: ChangeKind, place: Place, after: bytes | None, target: Place | None = None
) -> PlannedChange:
    """Return a change that shows nothing of the present content."""
    sha = "" if after is None else hash_data(after)
    return PlannedChange(kind, place, compare_files(None, after), "", sha, target, unseen=True)


async def looked_at(change: PlannedChange, workspace: Workspace) -> PlannedChange:
    """Return a change that the user approved unseen, with the content or hash of the present file,
    so that it can be made. Its diff still shows nothing. Raises ToolFault where it cannot be
    made, and WorkspaceError.
    """
    place, target = change.place, change.target
    if target is not None:
        _require_free(target, _require_existing(place))
        sha = await workspace.hash_file(place)
        return replace(change, before_hash=sha, after_hash=sha)
    _require_small_file(place if change.kind == "modify" else _require_existing(place))
    before = await workspace.read_bytes(place) if place.exists else None
    return replace(
        change,
        kind="create" if before is None else change.kind,
        diff=replace(change.diff, before=before),
        before_hash="" if before is None else hash_data(before),
    )


def _require_existing(place: Place) -> Place:
    """Return the place of an existing file. Raises ToolFault for a missing one and for a
    directory.
    """
    if not _require_file(place).exists:
        raise ToolFault("file.missing", path=place.label)
    return place


def _require_free(target: Place, source: Place) -> None:
    """Raise ToolFault where the target of a move exists or is written like a directory."""
    if target.is_dir:
        inside = f"{target.label.rstrip('/')}/{source.real.name}"
        raise ToolFault("file.target_is_directory", path=target.label, inside=inside)
    if target.names_directory:
        inside = f"{target.label}/{source.real.name}"
        given = clip_value(target.given)
        raise ToolFault("file.target_ends_like_directory", path=given, inside=inside)
    if target.exists:
        raise ToolFault("file.target_exists", path=target.label)


def _require_file(place: Place) -> Place:
    """Return the place, which may be absent. Raises ToolFault for a directory or a path written
    like one.
    """
    if place.is_dir:
        raise ToolFault("path.is_directory", shown=place.label)
    if place.names_directory:
        raise ToolFault("file.ends_like_directory", path=clip_value(place.given))
    return place


def _require_small_file(place: Place) -> Place:
    """Return the place of a file small enough to be stored for undo. Raises ToolFault."""
    if _require_file(place).size > MAX_READ:
        size, limit = size_words(place.size), size_words(MAX_READ)
        raise ToolFault("file.too_large_to_undo", path=place.label, size=size, limit=limit)
    return place


def _encode_like(shape: TextFile, text: str, place: Place) -> bytes:
    """Encode text in the encoding of ``shape``. Raises ToolFault, also for too many lines."""
    try:
        content = shape.encode_text(text)
    except NotText as error:
        raise ToolFault("file.not_encoded", path=place.label, problem=error.told) from error
    if content.count(b"\n") > _MAX_LINES:
        raise _not_shown(place, content)
    return content


def _not_shown(place: Place, content: bytes) -> ToolFault:
    """Return the fault for a file with more lines than can be compared."""
    lines = content.count(b"\n")
    values = {"path": place.label, "lines": f"{lines:,}", "limit": f"{_MAX_LINES:,}"}
    return ToolFault(ModelText("file.too_many_lines", values))


def _make_mismatch_fault(place: Place, error: EditRefused, known: tuple[str, ...]) -> ToolFault:
    """Return the fault for edits that do not fit a file; ``known`` are codes of
    ``ToolContext.state_of``.
    """
    hints = [ModelText(f"edit.{code}", {}) for code in known] + (
        [error.nearest] if error.nearest else []
    )
    return ToolFault("file.edits_do_not_fit", path=place.label, problem=error.told, hints=hints)


_CONTENT: Final = frozenset({"content", "old", "new"})

WRITE_FILE: Final = Operation(
    name="file_ops.write_file",
    summary="Create a file, or replace one whole; missing directories are created.",
    effect=Effect.WRITE,
    arguments=WriteFile,
    paths=lambda args: (args.path,),
    prepare=_prepare_write,
    content=_CONTENT,
    example={"path": "new.txt", "content": ""},
)

EDIT_FILE: Final = Operation(
    name="file_ops.edit_file",
    summary="Replace exact pieces of text in a file.",
    help="All edits, in order, or none.",
    effect=Effect.WRITE,
    arguments=EditFile,
    paths=lambda args: (args.path,),
    prepare=_prepare_edit,
    content=_CONTENT,
    example={"path": "new.txt", "edits": [{"old": "a", "new": "b"}]},
)

MOVE_FILE: Final = Operation(
    name="file_ops.move_file",
    listed=True,
    summary="Move or rename a file.",
    effect=Effect.MOVE,
    arguments=MoveFile,
    paths=lambda args: (args.source, args.target),
    prepare=_prepare_move,
    example={"source": "old.txt", "target": "new.txt"},
)

DELETE_FILE: Final = Operation(
    name="file_ops.delete_file",
    listed=True,
    summary="Delete a file, no directory.",
    effect=Effect.DELETE,
    arguments=DeleteFile,
    paths=lambda args: (args.path,),
    prepare=_prepare_delete,
    example={"path": "old.txt"},
)
