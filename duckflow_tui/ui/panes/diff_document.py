"""A diff as rows of text, and their layout on the screen at one width."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from itertools import accumulate
from typing import Final

from rich.cells import cell_len

from duckflow_tui.safety.safe_text import SafeText, visible_line
from duckflow_tui.state.gates import DiffLine, FilePreview, Remark
from duckflow_tui.ui.panes.rows import Seen, whole_spans
from duckflow_tui.ui.panes.strips import Span, break_line, fold, wrap

BLANK_RUN: Final = 4  # blank lines in a row that become one row with a count
SPACE_RUN: Final = 40  # spaces in a row that become one sign with a count


HunkId = tuple[int, int]  # file, hunk of that file: what GateAnswer.left_out names


# All that looks like nothing but takes room; what takes no room is made visible before.
_SPACES: Final = re.compile(f"[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]{{{SPACE_RUN},}}")


class RowKind(Enum):
    """The kind of a row of a diff."""

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
    """A row before wrapping; ``text`` is safe to show, with long runs of spaces folded."""

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
    """The rows of a hunk: its heading at ``first``, its last line at ``last``."""

    hunk_id: HunkId
    first: int
    last: int


class DiffDocument:
    """The rows of file previews, which of them were seen, which hunks are left out, and the user's
    remarks.

    Two views may show the same document; what was seen in one counts in the other.
    """

    def __init__(
        self,
        previews: Sequence[FilePreview] = (),
        *,
        choosing: bool = False,
        apart: bool = False,
    ) -> None:
        """``choosing``: hunks can be left out; ``apart``: each file is changed by its own call and
        can be left out as a whole.
        """
        self.previews = tuple(previews)
        self.choosing = choosing
        self.apart = apart
        self.left_out: set[HunkId] = set()
        self.remarks: dict[int, str] = {}  # by row: what the user wrote on it
        self.cursor = -1  # the row that a remark goes to, -1 for none yet
        self._listeners: list[Callable[[], None]] = []
        self.rows: list[DiffRow] = []
        self.hunks: list[HunkRows] = []
        self.file_rows: list[int] = []  # first row of each file
        for index, preview in enumerate(self.previews):
            self.file_rows.append(len(self.rows))
            self._add_file(index, preview)
        self.weights = [self._weight_of(row) for row in self.rows]
        unchanged = (RowKind.LINE, RowKind.BLANKS)
        to_see = [
            0 if row.mark == " " and row.kind in unchanged else weight
            for row, weight in zip(self.rows, self.weights, strict=True)
        ]
        self.seen = Seen([len(row.text) for row in self.rows], to_see)

    @property
    def title_rows(self) -> tuple[int, ...]:
        """The rows that only repeat a gate's title, because its single file is created or
        deleted.
        """
        one = len(self.hunks) == len(self.previews) == 1
        if not one or self.previews[0].kind not in ("create", "delete"):
            return ()
        rows = enumerate(self.rows[: self.hunks[0].first + 1])
        return tuple(n for n, row in rows if not self._says(row))

    def _says(self, row: DiffRow) -> bool:
        """Whether the row has a text of its own, or a note's file has facts."""
        return bool(row.text or (row.kind is RowKind.NOTE and self.previews[row.file].facts))

    def is_joined(self, index: int) -> bool:
        """Whether the row is the head of a hunk that goes on right below the one before, and so is
        not drawn; one that is left out says so.
        """
        row = self.rows[index]
        begins = row.kind is not RowKind.HUNK or not row.hunk or row.count
        return not begins and (row.file, row.hunk) not in self.left_out

    def _weight_of(self, row: DiffRow) -> int:
        """Return the lines that a row counts for; 0 for headings and notes that the title
        repeats.
        """
        alone = len(self.previews) == 1 and bool(self.previews[0].hunks)
        if row.kind is RowKind.HUNK or (alone and row.kind is RowKind.NOTE and not self._says(row)):
            return 0
        return row.count if row.kind is RowKind.BLANKS else 1

    @property
    def unseen_lines(self) -> int:
        """The number of changed lines that were not fully on screen, without hunks that are left
        out.
        """
        out = (row for row in self._rows_out if self.seen.is_left(row))
        return self.seen.unseen_lines - self.seen.weight_of(out)

    @property
    def unseen_rows(self) -> list[int]:
        """The rows that ``unseen_lines`` counts."""
        out = set(self._rows_out)
        return [n for n in range(len(self.rows)) if n not in out and self.seen.is_left(n)]

    @property
    def _rows_out(self) -> Iterator[int]:
        """Yield the rows of hunks that are left out."""
        out = (hunk for hunk in self.hunks if hunk.hunk_id in self.left_out)
        return (row for hunk in out for row in range(hunk.first, hunk.last + 1))

    @property
    def first_change(self) -> int:
        """The first row with a change, or with a note about one; 0 where there is none."""
        rows = enumerate(zip(self.rows, self.weights, strict=True))
        note = RowKind.NOTE
        return next((n for n, (r, w) in rows if r.mark != " " or (r.kind is note and w)), 0)

    @property
    def to_see(self) -> int:
        """The number of lines that must be on screen for an approval without a further question."""
        return self.seen.total_lines - self.seen.weight_of(self._rows_out)

    def find_whole_reason(self, hunk_id: HunkId | None) -> Whole | None:
        """Return why a hunk cannot be left out; None where it can."""
        if not self.choosing:
            return Whole.ONLY_SHOWN
        if hunk_id is None:
            return Whole.NO_HUNKS
        if self.apart:
            return None
        if self.previews[hunk_id[0]].kind != "modify":
            return Whole.FILE
        alone = len(self.hunks) == 1 and len(self.previews) == 1
        return Whole.ONLY_ONE if alone else None

    def toggle(self, hunk_id: HunkId) -> bool:
        """Leave the hunk out, or take it again; False where that is not possible."""
        if self.find_whole_reason(hunk_id) is not None:
            return False
        self.left_out = self.left_out ^ {hunk_id}
        self._tell_listeners()
        return True

    def _tell_listeners(self) -> None:
        """Call all callbacks of ``on_choice``."""
        for listener in tuple(self._listeners):
            listener()

    def on_choice(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when a hunk is left out or taken again and when a remark is written, in
        any view.
        """
        self._listeners.append(listener)

    def remark(self, row: int, said: str) -> None:
        """Set the remark on a line; an empty text removes it."""
        if said.strip():
            self.remarks[row] = said.strip()
        else:
            self.remarks.pop(row, None)
        self._tell_listeners()

    def list_remarks(self) -> tuple[Remark, ...]:
        """Return the remarks in order of their lines, each with the line's text."""
        return tuple(self.remark_on(row, said) for row, said in sorted(self.remarks.items()))

    def remark_on(self, index: int, said: str) -> Remark:
        """Return a remark with this text for a row."""
        row = self.rows[index]
        number, old, path = self._place_of(row)
        here = (row.mark, row.old, row.new)
        lines = self.previews[row.file].hunks[row.hunk].lines
        line = next(n for n in lines if (n.mark, n.old, n.new) == here)
        return Remark(path=path, number=number, old=old, line=line.text, said=said)

    def put_remarks(self, remarks: Iterable[Remark]) -> None:
        """Set remarks that were written on this change or on another version of it: each on the
        nearest line of the same side with the same text, on none where there is no such line.
        """
        for one in remarks:
            text, places = shown_line(one.line), list[tuple[int, int]]()
            for index in self.lines:
                row = self.rows[index]
                number, old, path = self._place_of(row)
                if (row.text, old, path) == (text, one.old, one.path):
                    places.append((abs(number - one.number), index))
            if places:
                self.remarks[min(places)[1]] = one.said

    def _place_of(self, row: DiffRow) -> tuple[int, bool, str]:
        """Return the line's number, whether it is one of the old version, and the file's path in
        that version.
        """
        preview, old = self.previews[row.file], row.mark == "-"
        path = preview.path if old or not preview.target else preview.target
        return (row.old if old else row.new) or 1, old, path

    @property
    def lines(self) -> list[int]:
        """The rows that are lines of a file, on which a remark can be written."""
        kinds = (RowKind.LINE, RowKind.BLANKS)
        return [index for index, row in enumerate(self.rows) if row.kind in kinds]

    @property
    def takes_nothing(self) -> bool:
        """Whether all hunks are left out and no file changes in any other way."""
        if not self.apart and not all(preview.hunks for preview in self.previews):
            return False
        return bool(self.hunks) and all(hunk.hunk_id in self.left_out for hunk in self.hunks)

    def figures(self, file: int | None = None) -> tuple[int, int]:
        """Return the lines added and removed, without hunks left out; of one file or of all."""
        chosen = range(len(self.previews)) if file is None else (file,)
        added = sum(self.previews[index].added for index in chosen)
        removed = sum(self.previews[index].removed for index in chosen)
        for index, hunk in self.left_out:
            if index in chosen:
                hunks = self.previews[index].hunks
                marks = [line.mark for line in hunks[hunk].lines] if hunks else []
                added -= marks.count("+")
                removed -= marks.count("-")
        return added, removed

    def pair_sides(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of rows, old and new side by side; -1 for an empty side. Headings have no new
        side.
        """
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
                removed, added = self._change_at(index)
                for offset in range(max(len(removed), len(added))):
                    yield (
                        removed[offset] if offset < len(removed) else -1,
                        added[offset] if offset < len(added) else -1,
                    )
                index = (added or removed)[-1] + 1

    def _change_at(self, index: int) -> tuple[range, range]:
        """Return the removed rows that begin at this index, and the added rows right after them."""
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
        if preview.facts or preview.note or preview.kind != "modify" or not preview.hunks:
            self.rows.append(DiffRow(RowKind.NOTE, index, text=visible_line(preview.note)))
        if self.apart and not preview.hunks:  # it can be left out as a whole
            first = self.file_rows[index]
            self.hunks.append(HunkRows((index, 0), first, len(self.rows) - 1))
        end = 0  # of the hunk before
        for number, hunk in enumerate(preview.hunks):
            first = len(self.rows)
            skipped = hunk.old_begin - end if number else 0
            self.rows.append(DiffRow(RowKind.HUNK, index, number, count=skipped))
            self.rows.extend(_line_rows(index, number, hunk.lines))
            self.hunks.append(HunkRows((index, number), first, len(self.rows) - 1))
            self._pair_changes(first + 1)
            end = hunk.old_end

    def _pair_changes(self, index: int) -> None:
        """Pair each removed row from ``index`` on with the added row that takes its place."""
        while index < len(self.rows):
            if self.rows[index].mark == " ":
                index += 1
                continue
            removed, added = self._change_at(index)
            for old, new in zip(removed, added, strict=False):
                self.rows[old].partner, self.rows[new].partner = new, old
            index = (added or removed)[-1] + 1


def shown_path(preview: FilePreview) -> SafeText:
    """Return the file's path on one line, with its target where it is moved."""
    path = visible_line(preview.path)
    return SafeText(f"{path} → {visible_line(preview.target)}") if preview.target else path


def shown_line(text: str) -> SafeText:
    """Return a line made safe, with long runs of spaces replaced by a sign and their number."""
    if len(text) < SPACE_RUN and text.isascii() and text.isprintable():
        return SafeText(text)  # nearly every line of code; 10,000 of them are wanted at once
    safe = visible_line(text)
    if len(safe) < SPACE_RUN:
        return safe
    return SafeText(_SPACES.sub(lambda run: f"⟨␠×{len(run.group())}⟩", safe))


def _line_rows(file: int, hunk: int, lines: Iterable[DiffLine]) -> Iterator[DiffRow]:
    blanks: list[DiffRow] = []
    for line in lines:
        text = shown_line(line.text)
        row = DiffRow(RowKind.LINE, file, hunk, line.mark, line.old, line.new, text)
        # Judged by what is shown: a line of control characters only is not blank.
        blank = not text or text.isspace()
        if blanks and (not blank or line.mark != blanks[0].mark):
            yield from _fold_blanks(blanks)
            blanks = []
        if blank:
            blanks.append(row)
        else:
            yield row
    yield from _fold_blanks(blanks)


def _fold_blanks(blanks: list[DiffRow]) -> Iterator[DiffRow]:
    """Yield the blank rows, or where there are many a single row that counts them."""
    if len(blanks) < BLANK_RUN:
        yield from blanks
        return
    row = blanks[0]
    row.kind, row.text, row.count = RowKind.BLANKS, "", len(blanks)
    yield row


USER_MARK: Final = "›"  # before what the user says, as in the chat
REMARK_HANG: Final = 2  # cells of the mark and the space behind it
NARROWEST_SPLIT: Final = 72  # cells; below, two versions side by side are unreadable
_NARROWEST_TEXT: Final = 23  # cells; line numbers that leave less to the text are not shown


_CAPTIONS: Final = (RowKind.FILE, RowKind.NOTE, RowKind.HUNK, RowKind.BLANKS)


@dataclass(frozen=True, slots=True)
class DiffCell:
    """One side of a screen line: a row and a span of its characters."""

    row: int  # -1: this side is empty
    span: Span
    first: bool  # whether the row begins here
    remark: bool = False  # the characters are of the user's remark on the row


class DiffLayout:
    """The screen lines of a document at one width, built in one pass.

    ``caption`` returns the text of rows that are not lines of a file; their length depends on the
    language.
    """

    def __init__(
        self,
        document: DiffDocument,
        width: int,
        caption: Callable[[int], str],
        *,
        split: bool,
        wraps: bool,
        bare: bool = False,
    ) -> None:
        """``bare``: without the rows that repeat a gate's title."""
        self.document = document
        self._told = document.title_rows if bare else ()
        self.given_width = width
        self.width = max(1, width)
        self.split = split and width >= NARROWEST_SPLIT
        self.wraps = wraps and width > 0  # without room there is nothing to measure
        self._caption = caption
        last_old = max((row.old or 0 for row in document.rows), default=0)
        last_new = max((row.new or 0 for row in document.rows), default=0)
        digits = max(3, len(str(max(last_old, last_new))))
        #: columns of numbers: of the old file and of the new one, or of the only one
        self.columns = 2 if last_old and last_new and not self.split else 1
        #: characters before the text: margin, numbers, each with a space, mark, space
        gutter = self.columns * (digits + 1) + (2 if self.split else 3)
        self.digits = digits if width >= gutter + _NARROWEST_TEXT else 0
        self.gutter = gutter if self.digits else 2
        self.half = (self.width - 1) // 2
        room = self.half if self.split else self.width
        self.room = max(1, room - self.gutter)
        self._folds: dict[int, list[Span]] = {}
        self._remarks = {
            row: f"{USER_MARK} {visible_line(s)}" for row, s in document.remarks.items()
        }
        # Numbers in two sequences, not pairs: 10,000 tuples more, and the collector of garbage
        # looks through everything while the diff should be drawn.
        count = len(document.rows)
        self._left: Sequence[int] = range(count)
        self._right: Sequence[int] = array("l", [-1]) * count
        if self.split:
            self._left, self._right = array("l"), array("l")
            for left, right in document.pair_sides():
                self._left.append(left)
                self._right.append(right)
        pairs = zip(self._left, self._right, strict=True)
        self.tops = [0, *accumulate(self._entry_height(left, right) for left, right in pairs)]
        weights = document.weights
        pairs = zip(self._left, self._right, strict=True)
        self.weights = [
            0,
            *accumulate(
                (weights[left] if left >= 0 else 0)
                + (weights[right] if right >= 0 and right != left else 0)
                for left, right in pairs
            ),
        ]
        self.entry_of = [0] * len(document.rows)
        for entry, left in enumerate(self._left):
            right = self._right[entry]
            if left >= 0:
                self.entry_of[left] = entry
            if right >= 0:
                self.entry_of[right] = entry
        self.longest = (
            0
            if self.wraps or width < 1
            else max((cell_len(r.text) for r in document.rows), default=0)
        )

    @property
    def count(self) -> int:
        """The number of entries: rows, or pairs of rows side by side."""
        return len(self._left)

    def entry_at(self, index: int) -> tuple[int, int]:
        """Return the rows of an entry, old and new; -1 for an empty side."""
        return self._left[index], self._right[index]

    @property
    def height(self) -> int:
        """The number of screen lines."""
        return self.tops[-1]

    def find_entry(self, y: int) -> tuple[int, int]:
        """Return the entry at screen line ``y``, and the line's number within it."""
        entry = min(bisect_right(self.tops, y) - 1, self.count - 1)
        return entry, y - self.tops[entry]

    def cells_on(self, y: int) -> tuple[DiffCell, ...]:
        """Return the content of screen line ``y``: one cell, or the old and the new side."""
        entry, line = self.find_entry(y)
        left, right = self.entry_at(entry)
        if not self.split or self.is_caption(left):
            return (self._cell_at(left, line),)
        old, new = self._cell_at(left, line), self._cell_at(right, line)
        if old.remark and left == right:  # it stands on both sides, what is said of it on one
            old = DiffCell(-1, (0, 0), first=False)
        return old, new

    def is_caption(self, row: int) -> bool:
        """Whether the row is text of the app across the whole width."""
        return row >= 0 and self.document.rows[row].kind in (
            RowKind.FILE,
            RowKind.NOTE,
            RowKind.HUNK,
        )

    def spans_of(self, row: int) -> list[Span]:
        """Return how a row's text is split into screen lines; a single span without wrapping."""
        if row not in self._folds:
            kind = self.document.rows[row].kind
            if kind in (RowKind.FILE, RowKind.NOTE):
                caption = self._caption(row)
                self._folds[row] = whole_spans(caption, wrap(caption, self.width - 2))
            else:
                text = self.document.rows[row].text
                whole = [(0, len(text))]
                self._folds[row] = (
                    break_line(text, self.room, self.hang_of(row)) if self.wraps else whole
                )
        return self._folds[row]

    def remark_text(self, row: int) -> SafeText:
        """Return the remark on a row as it is shown below it."""
        return SafeText(self._remarks[row])

    def _remark_spans(self, row: int) -> list[Span]:
        said = self._remarks.get(row)
        return break_line(said, self.room, REMARK_HANG) if said is not None else []

    def hang_of(self, row: int) -> int:
        """Return the indentation of a row's continuation lines in cells: the row's own, unless that
        is more than half of the room.
        """
        text = self.document.rows[row].text
        indent = len(text) - len(text.lstrip(" "))
        return indent if self.wraps and indent <= self.room // 2 else 0

    def on_screen(self, part: DiffCell, scrolled: int) -> Span:
        """Return the characters of a cell that are visible when its line is scrolled by so many
        cells.
        """
        if self.wraps or part.row < 0 or part.remark:
            return part.span
        text = self.document.rows[part.row].text
        left = scrolled
        if text.isascii():
            start = min(left, len(text))
            cut = len(text) - start > self.room
            return start, min(left + self.room - cut, len(text))
        start = fold(text, left)[0][1] if left else 0
        cut = cell_len(text[start:]) > self.room
        return start, start + fold(text[start:], self.room - cut)[0][1]

    def top_of(self, row: int, character: int = 0) -> int:
        """Return the screen line of a character of a row."""
        line = sum(1 for start, _ in self.spans_of(row)[1:] if start <= character)
        return self.tops[self.entry_of[row]] + line

    def _entry_height(self, left: int, right: int) -> int:
        return max(self._row_height(left), self._row_height(right) if right != left else 0)

    def _row_height(self, row: int) -> int:
        if row < 0:
            return 0
        below = len(self._remark_spans(row)) if row in self._remarks else 0
        kind = self.document.rows[row].kind
        if row in self._told or self.document.is_joined(row):
            return 0
        if kind in _CAPTIONS:
            return len(self.spans_of(row)) if kind in (RowKind.FILE, RowKind.NOTE) else 1 + below
        text = self.document.rows[row].text
        if below:
            return len(self.spans_of(row)) + below
        if not self.wraps:
            return 1
        if len(text) <= self.room and text.isascii():  # nearly every line of 10,000
            return 1
        return len(self.spans_of(row))

    def _cell_at(self, row: int, line: int) -> DiffCell:
        if row < 0:
            return DiffCell(-1, (0, 0), first=False)
        spans = self.spans_of(row)
        if line >= len(spans):
            said = self._remark_spans(row)
            if line - len(spans) < len(said):
                return DiffCell(row, said[line - len(spans)], first=False, remark=True)
            return DiffCell(-1, (0, 0), first=False)
        return DiffCell(row, spans[line], first=line == 0)
