"""Previews of files as rows: what a diff shows, before widths, colours and languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from duckflow_tui.safety.safe_text import SafeText, visible_line
from duckflow_tui.state.gates import DiffLine, FilePreview
from duckflow_tui.ui.panes.seen import Seen

BLANK_RUN: Final = 4  # blank lines in a row that become one row with a count
SPACE_RUN: Final = 40  # spaces in a row that become one sign with a count

HunkId = tuple[int, int]  # file, hunk of that file: what GateAnswer.left_out names

# All that looks like nothing but takes room; what takes no room is made visible before.
_SPACES: Final = re.compile(f"[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]{{{SPACE_RUN},}}")


class RowKind(Enum):
    """What a row of a diff is."""

    FILE = "file"  # path and figures, where there are several files
    NOTE = "note"  # what lines cannot show: binary, moved, no lines at all
    HUNK = "hunk"  # the head of a hunk
    LINE = "line"
    BLANKS = "blanks"  # a run of blank lines; ``count`` of them


class Whole(StrEnum):
    """Why a hunk cannot be left out; the values are keys of the catalogue."""

    NO_HUNKS = "no_hunks"
    ONLY_SHOWN = "only_shown"  # no gate asks about it, or it was answered
    ONLY_ONE = "only_one"  # leaving it out would be a rejection
    FILE = "file"  # of a file that comes, goes or moves


@dataclass(slots=True)
class DiffRow:
    """One row before wrapping; ``text`` is safe to show and has its spaces folded."""

    kind: RowKind
    file: int
    hunk: int = -1  # of its file; -1 for rows outside of hunks
    mark: str = " "
    old: int | None = None
    new: int | None = None
    text: str = ""
    count: int = 1  # lines it stands for; of HUNK: unchanged lines left out before it
    partner: int = -1  # row of the line that it replaces or that replaces it


@dataclass(frozen=True, slots=True)
class HunkRows:
    """Where a hunk lies in the rows: its head at ``first``, its last line at ``last``."""

    hunk_id: HunkId
    first: int
    last: int


class DiffDocument:
    """The rows of some previews, what of them was seen and which hunks are left out.

    Two views may show one document: what was seen in the one is seen in the other.
    """

    def __init__(self, previews: Sequence[FilePreview] = (), *, choosing: bool = False) -> None:
        self.previews = tuple(previews)
        self.choosing = choosing
        self.left_out: set[HunkId] = set()
        self._listeners: list[Callable[[], None]] = []
        self.rows: list[DiffRow] = []
        self.hunks: list[HunkRows] = []
        self.file_rows: list[int] = []  # first row of each file
        for index, preview in enumerate(self.previews):
            self.file_rows.append(len(self.rows))
            self._add_file(index, preview)
        self.weights = [
            0 if row.kind is RowKind.HUNK else row.count if row.kind is RowKind.BLANKS else 1
            for row in self.rows
        ]
        self.seen = Seen([len(row.text) for row in self.rows], self.weights)

    @property
    def unseen(self) -> int:
        """Lines that have not been on screen as a whole."""
        return self.seen.unseen

    def whole(self, hunk_id: HunkId | None) -> Whole | None:
        """Why the hunk cannot be left out; None where it can, of a file that stays."""
        if not self.choosing:
            return Whole.ONLY_SHOWN
        if hunk_id is None:
            return Whole.NO_HUNKS
        if self.previews[hunk_id[0]].kind != "modify":
            return Whole.FILE
        alone = len(self.hunks) == 1 and len(self.previews) == 1
        return Whole.ONLY_ONE if alone else None

    def toggle(self, hunk_id: HunkId) -> bool:
        """Leave the hunk out, or take it again; False where that is not possible."""
        if self.whole(hunk_id) is not None:
            return False
        self.left_out ^= {hunk_id}
        for listener in tuple(self._listeners):
            listener()
        return True

    def on_choice(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever a hunk was left out or taken, in whichever view."""
        self._listeners.append(listener)

    @property
    def takes_nothing(self) -> bool:
        """Whether every hunk is left out and no file changes in another way."""
        return bool(self.hunks) and all(
            preview.hunks
            and all((index, hunk) in self.left_out for hunk in range(len(preview.hunks)))
            for index, preview in enumerate(self.previews)
        )

    def figures(self, file: int | None = None) -> tuple[int, int]:
        """Lines added and removed, without what is left out; of one file or of all."""
        chosen = range(len(self.previews)) if file is None else (file,)
        added = sum(self.previews[index].added for index in chosen)
        removed = sum(self.previews[index].removed for index in chosen)
        for index, hunk in self.left_out:
            if index in chosen:
                marks = [line.mark for line in self.previews[index].hunks[hunk].lines]
                added -= marks.count("+")
                removed -= marks.count("-")
        return added, removed

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Rows side by side, old and new; -1 for an empty side; heads have no new side."""
        index = 0
        while index < len(self.rows):
            row = self.rows[index]
            if row.kind in (RowKind.FILE, RowKind.NOTE, RowKind.HUNK):
                yield index, -1
                index += 1
            elif row.mark == " ":
                yield index, index
                index += 1
            else:
                removed, added = self._block(index)
                for offset in range(max(len(removed), len(added))):
                    yield (
                        removed[offset] if offset < len(removed) else -1,
                        added[offset] if offset < len(added) else -1,
                    )
                index = (added or removed)[-1] + 1

    def _block(self, index: int) -> tuple[range, range]:
        """The removed rows that begin here, and the added rows right behind them."""
        hunk = self.rows[index].hunk, self.rows[index].file

        def run(at: int, mark: str) -> range:
            end = at
            while end < len(self.rows):
                row = self.rows[end]
                if row.mark != mark or (row.hunk, row.file) != hunk:
                    break
                end += 1
            return range(at, end)

        removed = run(index, "-")
        return removed, run(removed.stop, "+")

    def _add_file(self, index: int, preview: FilePreview) -> None:
        if len(self.previews) > 1:
            self.rows.append(DiffRow(RowKind.FILE, index, text=shown_path(preview)))
        if preview.note or preview.kind != "modify" or not preview.hunks:
            self.rows.append(DiffRow(RowKind.NOTE, index, text=visible_line(preview.note)))
        end = 1  # the old line behind the hunk before
        for number, hunk in enumerate(preview.hunks):
            first = len(self.rows)
            skipped = max(0, hunk.old_start - end) if number else 0
            self.rows.append(DiffRow(RowKind.HUNK, index, number, count=skipped))
            self.rows.extend(_lines(index, number, hunk.lines))
            self.hunks.append(HunkRows((index, number), first, len(self.rows) - 1))
            self._pair(first + 1)
            end = hunk.old_start + hunk.old_count

    def _pair(self, index: int) -> None:
        while index < len(self.rows):
            if self.rows[index].mark == " ":
                index += 1
                continue
            removed, added = self._block(index)
            for old, new in zip(removed, added, strict=False):
                self.rows[old].partner, self.rows[new].partner = new, old
            index = (added or removed)[-1] + 1


def shown_path(preview: FilePreview) -> SafeText:
    """The file's path on one line, with where it goes when it is moved."""
    path = visible_line(preview.path)
    return SafeText(f"{path} → {visible_line(preview.target)}") if preview.target else path


def shown_line(text: str) -> SafeText:
    """The line made visible, long runs of spaces as a sign with their number."""
    if len(text) < SPACE_RUN and text.isascii() and text.isprintable():
        return SafeText(text)  # nearly every line of code; 10,000 of them are wanted at once
    safe = visible_line(text)
    if len(safe) < SPACE_RUN:
        return safe
    return SafeText(_SPACES.sub(lambda run: f"⟨␠×{len(run.group())}⟩", safe))


def _lines(file: int, hunk: int, lines: Iterable[DiffLine]) -> Iterator[DiffRow]:
    blanks: list[DiffRow] = []
    for line in lines:
        text = shown_line(line.text)
        row = DiffRow(RowKind.LINE, file, hunk, line.mark, line.old, line.new, text)
        # Judged by what is shown: a line of control characters only is not blank.
        blank = not text or text.isspace()
        if blanks and (not blank or line.mark != blanks[0].mark):
            yield from _run(blanks)
            blanks = []
        if blank:
            blanks.append(row)
        else:
            yield row
    yield from _run(blanks)


def _run(blanks: list[DiffRow]) -> Iterator[DiffRow]:
    if len(blanks) < BLANK_RUN:
        yield from blanks
        return
    row = blanks[0]
    row.kind, row.text, row.count = RowKind.BLANKS, "", len(blanks)
    yield row
