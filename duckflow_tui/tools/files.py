"""The operations that change files: write, edit, move, delete. Each only proposes."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import re
from collections.abc import Sequence
from typing import Final

from pydantic import Field

from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.workspace import MAX_READ, Workspace
from duckflow_tui.state.base import brief, digest
from duckflow_tui.state.operations import Effect, Zone
from duckflow_tui.tools.changes import PlannedChange, plan_change, plan_move
from duckflow_tui.tools.diffs import NotText, TextFile, decode, size_words
from duckflow_tui.tools.operation import Arguments, Edits, Operation, ToolContext, ToolFault

MAX_EDITS: Final = 50
_IN_A_THREAD: Final = 50_000  # characters; the nearest match in more may take a while


class WriteFile(Arguments):
    path: str = Field(description="The file, relative to the workspace.")
    content: str = Field(description="The whole new content of the file.")


class Edit(Arguments):
    old: str = Field(
        description="The exact text to replace, with its indentation and enough lines around it "
        "to occur once. No line numbers."
    )
    new: str = Field(description="What stands there afterwards; empty to delete the text.")
    all: bool = Field(
        default=False, description="Replace every occurrence instead of the only one."
    )


class EditFile(Arguments):
    path: str = Field(description="The file, relative to the workspace.")
    edits: list[Edit] = Field(
        description="Replacements, applied one after the other.",
        min_length=1,
        max_length=MAX_EDITS,
    )


class MoveFile(Arguments):
    source: str = Field(description="The file to move or rename.")
    target: str = Field(description="Its new path; nothing may lie there.")


class DeleteFile(Arguments):
    path: str = Field(description="The file to delete. Directories are not deleted.")


async def _write(args: WriteFile, places: tuple[Place, ...], context: ToolContext) -> Edits:
    place = _small(places[0])
    change = await rewrite(context.workspace, place, args.content)
    if not place.exists:
        return Edits((change,))
    if change.after_hash == change.before_hash:
        raise ToolFault(f"{place.said} has exactly this content already; nothing to do.")
    return Edits((change,), context.state_of(place, change.before_hash))


async def rewrite(workspace: Workspace, place: Place, text: str) -> PlannedChange:
    """The change that gives a file this content; the encoding, the mark and the line endings of
    a text file that is there stay. Raises ToolFault.
    """
    before = await workspace.read_bytes(place) if place.exists else None
    shape = TextFile("")
    with contextlib.suppress(NotText):
        shape = decode(before or b"")
    after = _encoded(shape, shape.with_endings(text), place)
    return await plan_change("modify" if place.exists else "create", place, before, after)


async def _edit(args: EditFile, places: tuple[Place, ...], context: ToolContext) -> Edits:
    place = _small(places[0])
    if not place.exists:
        raise ToolFault(
            f"{place.said} does not exist; file_ops.write_file creates files, "
            "file_ops.find_files finds them."
        )
    if place.zone is not Zone.INSIDE and place.shown not in context.seen:
        # What an edit finds or does not find would tell of content that needs a gate to be read.
        raise ToolFault(
            f"{place.said} is a {place.zone} file: read it first, which the user must allow, "
            "then edit it."
        )
    before = await context.workspace.read_bytes(place)
    try:
        shape = decode(before)
    except NotText as error:
        raise ToolFault(
            f"{place.said} cannot be edited as text: {error} ({size_words(len(before))})."
        ) from error
    known = context.state_of(place, digest(before))
    try:
        if len(shape.text) < _IN_A_THREAD:
            text = apply_edits(shape.text, args.edits, crlf=shape.crlf)
        else:
            text = await asyncio.to_thread(apply_edits, shape.text, args.edits, crlf=shape.crlf)
    except EditRefused as error:
        raise ToolFault(_refusal(place, error, known)) from error
    after = _encoded(shape, text, place)
    change = await plan_change("modify", place, before, after)
    note = ""
    if "changed_since_read" in known:
        note = f"{place.shown} had changed since you last read it; the edits fitted all the same."
    return Edits((change,), known, note)


async def _move(args: MoveFile, places: tuple[Place, ...], context: ToolContext) -> Edits:
    source, target = _file(places[0]), places[1]
    if not source.exists:
        raise ToolFault(f"{source.said} does not exist.")
    if target.is_dir:
        raise ToolFault(
            f"{target.said} is a directory; name the file in it, "
            f"such as {target.said.rstrip('/')}/{source.real.name}."
        )
    if target.names_directory:
        raise ToolFault(
            f"{brief(target.given)} ends like the path of a directory; name the file in it, "
            f"such as {target.said}/{source.real.name}."
        )
    if target.exists:
        raise ToolFault(f"{target.said} exists already; nothing is moved over another file.")
    sha = await context.workspace.digest(source)
    return Edits((plan_move(source, target, sha),))


async def _delete(args: DeleteFile, places: tuple[Place, ...], context: ToolContext) -> Edits:
    place = _small(places[0])
    if not place.exists:
        raise ToolFault(f"{place.said} does not exist.")
    before = await context.workspace.read_bytes(place)
    change = await plan_change("delete", place, before, None)
    return Edits((change,), context.state_of(place, change.before_hash))


def _file(place: Place) -> Place:
    if place.is_dir:
        raise ToolFault(f"{place.said} is a directory, not a file.")
    if place.names_directory:
        raise ToolFault(
            f"{brief(place.given)} ends like the path of a directory, and this is about files; "
            "name the file itself."
        )
    return place


def _small(place: Place) -> Place:
    """A file whose bytes can be kept, so that its change can be undone."""
    if _file(place).size > MAX_READ:
        raise ToolFault(
            f"{place.said} holds {size_words(place.size)}; a file of more than "
            f"{size_words(MAX_READ)} is not changed, because that could not be undone."
        )
    return place


def _encoded(shape: TextFile, text: str, place: Place) -> bytes:
    try:
        return shape.encode(text)
    except NotText as error:
        raise ToolFault(f"{place.said}: {error}; nothing was changed.") from error


def _refusal(place: Place, error: EditRefused, known: tuple[str, ...]) -> str:
    words = [f"{place.said} was not changed: {error.text}."]
    if "changed_since_read" in known:
        words.append("The file has changed since you last read it: read it again.")
    elif "not_read_before" in known:
        words.append("You have not read this file in this session: read it first.")
    if error.quote:
        words.append(error.quote)
    return "\n".join(words)


_CONTENT: Final = frozenset({"content", "old", "new"})


WRITE_FILE: Final = Operation(
    name="file_ops.write_file",
    summary="Create a file, or replace the whole content of one.",
    help="For a change to part of an existing file use file_ops.edit_file. Directories on the "
    "way are created, a path that ends in a slash is refused; the encoding and line endings of an "
    "existing file are kept.",
    effect=Effect.WRITE,
    arguments=WriteFile,
    paths=lambda args: (args.path,),
    prepare=_write,
    content=_CONTENT,
)


EDIT_FILE: Final = Operation(
    name="file_ops.edit_file",
    summary="Replace exact pieces of text in a file.",
    help="Read the file first. All edits are applied, or none.",
    effect=Effect.WRITE,
    arguments=EditFile,
    paths=lambda args: (args.path,),
    prepare=_edit,
    content=_CONTENT,
)


MOVE_FILE: Final = Operation(
    name="file_ops.move_file",
    summary="Move or rename a file.",
    help="target is the whole new path, the file's name included: a directory is refused, and so "
    "is a path that ends in a slash. Directories on the way are created; nothing is replaced.",
    effect=Effect.MOVE,
    arguments=MoveFile,
    paths=lambda args: (args.source, args.target),
    prepare=_move,
)


DELETE_FILE: Final = Operation(
    name="file_ops.delete_file",
    summary="Delete a file.",
    effect=Effect.DELETE,
    arguments=DeleteFile,
    paths=lambda args: (args.path,),
    prepare=_delete,
)


_SHOWN_LINES: Final = 20
_SHOWN_PLACES: Final = 5
_LONG_LINE: Final = 200
_SEARCHED_LINES: Final = 20_000  # a nearest match is looked for in no more; it is a courtesy


class EditRefused(ValueError):
    """An edit that does not fit, in words for the model; ``quote`` shows lines of the file."""

    def __init__(self, text: str, quote: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.quote = quote


def apply_edits(text: str, edits: Sequence[Edit], *, crlf: bool) -> str:
    """The text after the edits, one after the other; raises EditRefused and changes nothing.

    A line break matches LF and CR LF. A replacement takes the endings of the lines it replaces,
    or with ``crlf`` CR LF where it replaces none.
    """
    for number, edit in enumerate(edits, start=1):
        label = f"edit {number}: " if len(edits) > 1 else ""
        text = _apply(text, edit, label, crlf)
    return text


def _apply(text: str, edit: Edit, label: str, crlf: bool) -> str:
    old = edit.old.replace("\r\n", "\n")
    new = edit.new.replace("\r\n", "\n")
    if not old:
        raise EditRefused(
            f"{label}old is empty; use file_ops.write_file to give a file its content"
        )
    if old == new:
        raise EditRefused(f"{label}old and new are the same, so nothing would change")
    spans = _find(text, old)
    if not spans:
        raise EditRefused(f"{label}old was not found in the file", _nearest(text, old))
    if len(spans) > 1 and not edit.all:
        lines = ", ".join(str(text.count("\n", 0, a) + 1) for a, _ in spans[:_SHOWN_PLACES])
        more = f" and {len(spans) - _SHOWN_PLACES} more" if len(spans) > _SHOWN_PLACES else ""
        raise EditRefused(
            f"{label}old occurs {len(spans)} times, at lines {lines}{more}; "
            "give more of the lines around it, or set all to true"
        )
    parts: list[str] = []
    at = 0
    for start, end in spans:
        if start < at:
            continue
        parts.append(text[at:start])
        replaced = text[start:end]
        pairs = "\r\n" in replaced if "\n" in replaced else crlf
        parts.append(new.replace("\n", "\r\n") if pairs else new)
        at = end
    parts.append(text[at:])
    return "".join(parts)


def _find(text: str, old: str) -> list[tuple[int, int]]:
    """Every place where ``old`` begins, overlapping ones too: they make it ambiguous."""
    pattern = re.compile("\r?\n".join(map(re.escape, old.split("\n"))))
    found: list[tuple[int, int]] = []
    match = pattern.search(text)
    while match:
        found.append(match.span())
        match = pattern.search(text, match.start() + 1)
    return found


def _nearest(text: str, old: str) -> str:
    """The lines most like ``old``, numbered; empty when nothing is."""
    lines = text.replace("\r\n", "\n").split("\n")[:_SEARCHED_LINES]
    wanted = old.strip("\n").split("\n")
    keys = [line.strip() for line in wanted]
    best, score = _best_by_lines([line.strip() for line in lines], keys)
    if score == 0:
        best = _best_by_likeness(lines, max(wanted, key=len).strip(), wanted)
        if best < 0:
            return ""
    end = min(len(lines), best + min(len(wanted), _SHOWN_LINES))
    shown = "\n".join(f"{n + 1:>6}  {lines[n][:_LONG_LINE]}" for n in range(best, end))
    hint = ""
    same = [line.strip() for line in lines[best : best + len(wanted)]] == keys
    if same:
        hint = " (it differs only in spaces or tabs at the ends of lines)"
    return f"The nearest lines are{hint}:\n{shown}"


def _best_by_lines(lines: list[str], keys: list[str]) -> tuple[int, int]:
    """Where most lines of ``keys`` stand in their places; blank lines do not count."""
    where: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        where.setdefault(line, []).append(index)
    votes: dict[int, int] = {}
    for offset, key in enumerate(keys[:_SHOWN_LINES]):
        if not key:
            continue
        for index in where.get(key, ())[:200]:
            if index >= offset:
                votes[index - offset] = votes.get(index - offset, 0) + 1
    if not votes:
        return -1, 0
    best = max(votes, key=lambda start: (votes[start], -start))
    return best, votes[best]


def _best_by_likeness(lines: list[str], key: str, wanted: list[str]) -> int:
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(key[:_LONG_LINE])
    best, ratio = -1, 0.6
    for index, line in enumerate(lines):
        candidate = line.strip()[:_LONG_LINE]
        if not candidate:
            continue
        matcher.set_seq1(candidate)
        if matcher.real_quick_ratio() <= ratio or matcher.quick_ratio() <= ratio:
            continue
        likeness = matcher.ratio()
        if likeness > ratio:
            best, ratio = index, likeness
    if best < 0:
        return -1
    offset = next((i for i, line in enumerate(wanted) if line.strip() == key), 0)
    return max(0, best - offset)
