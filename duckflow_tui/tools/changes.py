"""A planned change of one file: its preview, leaving out hunks, making it, and describing it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal

from duckflow_tui.safety.names import words_of
from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import LocalizedText, hash_data
from duckflow_tui.state.gates import FilePreview, GateAnswer, Hunk
from duckflow_tui.state.operations import FileChange
from duckflow_tui.tools.diffs import (
    BINARY,
    FileDiff,
    NotText,
    compare_files,
    decode_file,
    format_hunks,
    size_words,
)

if TYPE_CHECKING:
    from duckflow_tui.tools.operation import Blobs

ChangeKind = Literal["create", "modify", "delete", "move"]

TAKEN: Final = LocalizedText(key="diff.fact.taken")  # another file is at the path
_IN_A_THREAD: Final = 64_000  # bytes; a smaller diff is quicker than a thread
_QUOTED_LINES: Final = 120  # of a diff for the model


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A planned change of one file, with its content before and after."""

    kind: ChangeKind
    place: Place
    diff: FileDiff  # without bytes for a move
    before_hash: str  # empty: no such file
    after_hash: str  # empty: it is deleted
    target: Place | None = None  # of a move
    unseen: bool = False  # as in FilePreview; ``before_hash`` is empty, the diff without "before"

    @property
    def editable_text(self) -> str | None:
        """The new content as text for the user to edit; None where the file is deleted, moved or
        not text.
        """
        if self.diff.after is None:
            return None
        try:
            return decode_file(self.diff.after).text
        except NotText:
            return None

    def make_preview(self) -> FilePreview:
        """Return the preview for the gate and the diff pane."""
        notes: list[str] = []
        if self.place.resolved != self.place.shown:
            notes.append(f"→ {self.place.resolved}")
        data = self.diff.before if self.diff.after is None else self.diff.after
        if data is not None and BINARY in self.diff.facts:
            notes.append(size_words(len(data)))
        return FilePreview(
            path=self.place.shown,
            kind=self.kind,
            target=self.target.shown if self.target else "",
            before_hash=self.before_hash,
            after_hash=self.after_hash,
            hunks=self.diff.hunks,
            added=self.diff.added,
            removed=self.diff.removed,
            note=", ".join(notes),
            facts=self.diff.facts,
            language=_LANGUAGES.get(PurePath(self.place.shown).suffix.lower(), ""),
            unseen=self.unseen,
        )

    async def make_change(self, workspace: Workspace, keep: Blobs) -> FileChange:
        """Store the present content in ``keep`` (S4-88), then make the change and return its
        record. Raises WorkspaceError, above all ContentChanged, and OSError when the content
        cannot be stored; nothing is changed then.
        """
        made: tuple[str, ...] = ()
        change = self.expected_change()
        before, after = self.diff.before, self.diff.after
        if before is not None:
            await keep.put(before)
        if self.kind == "move" and self.target is not None:
            made = await workspace.move_file(self.place, self.target, self.before_hash)
        elif after is None:
            await workspace.remove_file(self.place, self.before_hash)
        else:
            made = await workspace.replace_file(self.place, after, self.before_hash)
            if before is None:
                with contextlib.suppress(OSError):  # it may be gone already
                    change = change.replace(
                        after_mode=stat.S_IMODE(os.lstat(self.place.real).st_mode)
                    )
        return change.replace(directories=made)

    def expected_change(self) -> FileChange:
        """Return the record of the change, without the directories that will be made. A change
        through a link is recorded for the file that it leads to.
        """
        moved = self.kind == "move" and self.target is not None
        return FileChange(
            path=self.place.resolved,
            kind=self.kind,
            target=self.target.shown if self.target else "",
            before=self.before_hash,
            after=self.after_hash,
            before_mode=self.place.mode,
            after_mode=None if self.diff.after is None else self.place.mode,
            before_size=self.place.size if moved else len(self.diff.before or b""),
            after_size=self.place.size if moved else len(self.diff.after or b""),
            added=self.diff.added,
            removed=self.diff.removed,
        )

    async def without_hunks(self, left_out: Iterable[int]) -> PlannedChange | None:
        """Return the change without these hunks, counted from 0; None when nothing remains."""
        out = set(left_out)
        taken = [index for index in range(len(self.diff.hunks)) if index not in out]
        if not taken:
            return None
        return await plan_change(
            self.kind, self.place, self.diff.before, self.diff.apply_hunks(taken)
        )


async def plan_change(
    kind: ChangeKind, place: Place, before: bytes | None, after: bytes | None
) -> PlannedChange:
    """Return a planned change of content; None as content: no file. A large diff is computed in a
    thread.
    """
    diff = await compare_bytes(before, after)
    before_hash = "" if before is None else hash_data(before)
    after_hash = "" if after is None else hash_data(after)
    return PlannedChange(kind, place, diff, before_hash, after_hash)


async def compare_bytes(before: bytes | None, after: bytes | None) -> FileDiff:
    """Return the diff of two contents, computed in a thread for large ones; None: no file."""
    if len(before or b"") + len(after or b"") < _IN_A_THREAD:
        return compare_files(before, after)
    return await asyncio.to_thread(compare_files, before, after)


def in_words(hunks: Iterable[Hunk], most: int = _QUOTED_LINES) -> str:
    """Return hunks as a unified diff for the model, cut after ``most`` lines with the number of the
    others.
    """
    lines = format_hunks(hunks)
    if len(lines) > most:
        lines = [*lines[:most], f"… {len(lines) - most} more lines"]
    return "\n".join(lines)


def left_out(answer: GateAnswer, file: int) -> tuple[int, ...]:
    """Return the indices of the hunks of one file that the user left out."""
    return tuple(hunk for index, hunk in answer.left_out if index == file)


def describe_change(change: FileChange) -> str:
    """Return one line for the model: which file was created, changed, moved or deleted, and its
    counts.
    """
    in_lines = change.added or change.removed
    counts = f"+{change.added} −{change.removed} lines" if in_lines else describe_sizes(change)
    match change.kind:
        case "create":
            return f"created {change.path} ({counts})"
        case "delete":
            return f"deleted {change.path}"
        case "move":
            return f"moved {change.path} to {change.target}"
        case _:
            return f"changed {change.path} ({counts})"


def describe_sizes(change: FileChange) -> str:
    """Return the size of the file, or both sizes of a modified one, for a change that cannot be
    counted in lines.
    """
    match change.kind:
        case "create":
            return size_words(change.after_size)
        case "delete" | "move":
            return size_words(change.before_size)
        case _:
            return f"{size_words(change.before_size)} → {size_words(change.after_size)}"


#: Lexers for highlighting, by extension: Pygments knows most by the extension itself.
_LANGUAGES: Final = {
    f".{name}": name
    for name in words_of(
        "bash c cfg cpp cs css go html ini java js json jsx lua md php pl py rb rs scss sh sql "
        "swift toml ts tsx xml yaml zsh"
    )
} | {
    ".cc": "cpp",
    ".h": "c",
    ".hpp": "cpp",
    ".htm": "html",
    ".kt": "kotlin",
    ".pyi": "py",
    ".tcss": "css",
    ".yml": "yaml",
}


def mode_fact(before: int, after: int) -> LocalizedText:
    """Return that a file's permission bits differ."""
    params = {"before": f"{before:03o}", "after": f"{after:03o}"}
    return LocalizedText(key="diff.fact.mode", params=params)
