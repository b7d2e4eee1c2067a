"""The points of a gate where not every line of them has room: each one stays, the rest counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len

from duckflow_tui.ui.panes.seen import whole_spans
from duckflow_tui.ui.panes.strips import Span, fit, fold, wrap

LEAST_ROOM: Final = 12  # cells of text below which a cut line would say nothing
_LEAST_ITEM: Final = 6  # cells of one of several items on a line


@dataclass(frozen=True, slots=True)
class Foldable:
    """A row's text and the cells of a line it may take; ``items`` begin where its keys are.

    One that is ``early`` gets lines that are to spare before those that are not.
    """

    text: str
    room: int
    items: tuple[Span, ...] = ()
    early: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the screen: characters of a row, and how many lines of it are left behind.

    ``pieces`` are set where several items share the line, each cut for itself; only the first
    of them then counts as read up to ``stop``.
    """

    row: int
    start: int
    stop: int
    first: bool = True  # of the lines that the row has here
    more: int = 0  # lines of the row that come behind this one and are not shown
    pieces: tuple[Span, ...] = ()

    @property
    def marker(self) -> str:
        """``…+2`` behind a row that is cut; empty behind one that is whole."""
        return f" …+{self.more}" if self.more else ""


def folded(rows: Sequence[Foldable], height: int, page: Mapping[int, int]) -> list[Line]:
    """Exactly ``height`` lines or fewer, at least one for each row; ``height >= len(rows)``.

    Lines that are to spare go to the rows of ``page`` first, which names the character each of
    them goes on at; then to the rows that need the fewest to be whole.
    """
    needs = [len(wrap(row.text, row.room)) for row in rows]
    given = [1] * len(rows)
    begins = [0] * len(rows)
    spare = height - len(rows)
    others = [n for n in range(len(rows)) if n not in page]
    order = [*page, *sorted(others, key=lambda n: (not rows[n].early, needs[n]))]
    for index in order:
        row, want = rows[index], needs[index] - 1
        if index in page and want > spare:
            begins[index] = _word_start(row, page[index])
            want = len(wrap(row.text[begins[index] :], row.room)) - 1
        more = min(want, spare)
        given[index] += more
        spare -= more
    lines: list[Line] = []
    for index, row in enumerate(rows):
        lines.extend(_cut(index, row, begins[index], given[index]))
    return lines


def _word_start(row: Foldable, at: int) -> int:
    """Where the word begins that was cut there, unless it began far before."""
    space = row.text.rfind(" ", max(0, at - row.room // 4), at)
    return space + 1 if space >= 0 else at


def _cut(index: int, row: Foldable, begin: int, count: int) -> list[Line]:
    rest = row.text[begin:]
    spans = [(begin + a, begin + b) for a, b in whole_spans(rest, wrap(rest, row.room))]
    shown = spans[:count]
    lines = [Line(index, a, b, number == 0) for number, (a, b) in enumerate(shown)]
    if len(spans) <= count:
        return lines
    marker = len(f" …+{len(spans) - count + 1}")
    room = max(1, row.room - marker)
    if count == 1 and begin == 0 and len(row.items) > 1:
        pieces = _shared(row, room)
        if pieces:
            lines[-1] = Line(index, 0, pieces[0][1], more=len(spans) - 1, pieces=pieces)
            return lines
    start = shown[-1][0]
    stop = start + fold(row.text[start:], room)[0][1]  # it is cut anyway: at no word, but full
    left = len(wrap(row.text[stop:].lstrip(), row.room))
    lines[-1] = Line(index, start, stop, count == 1, more=left)
    return lines


def _shared(row: Foldable, room: int) -> tuple[Span, ...]:
    """The beginning of each item, so that all of them stand on one line; none where they cannot.

    Short ones leave what they do not need to the others.
    """
    starts = [start for start, _ in row.items]
    ends = [*starts[1:], len(row.text)]
    texts = [row.text[a:b].rstrip() for a, b in zip(starts, ends, strict=True)]
    spare = room - (len(texts) - 1)  # a space between two
    if spare // len(texts) < _LEAST_ITEM:
        return ()
    cells = [0] * len(texts)
    for left, index in enumerate(sorted(range(len(texts)), key=lambda n: cell_len(texts[n]))):
        cells[index] = min(cell_len(texts[index]), spare // (len(texts) - left))
        spare -= cells[index]
    pieces: list[Span] = []
    for start, text, width in zip(starts, texts, cells, strict=True):
        kept = fit(text, width)
        pieces.append((start, start + (len(kept) if kept == text else len(kept) - 1)))
    return tuple(pieces)
