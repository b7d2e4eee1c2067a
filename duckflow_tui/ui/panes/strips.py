"""Converts text to rows of segments for widgets with the line API: wraps, cuts, marks and selects.

A row is the content of one screen line without padding. Widths are terminal cells; offsets are
characters of a row's text, as in Textual's selections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal

from rich.cells import cell_len, split_graphemes
from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip

from duckflow_tui.state.base import ELLIPSIS

Piece = tuple[str, Style]
Row = list[Segment]
Span = tuple[int, int]

PLAIN: Final = Style()

# Characters whose width is known without a look at their neighbours: one cell, two cells.
_NARROW = "\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff\u0391-\u03c9\u0410-\u044f\u2190-\u21ff\u2500-\u259f"

_WIDE = (
    "\u3001-\u3029\u3041-\u3096\u309b-\u30ff\u3131-\u3163\u3165-\u318e\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufa6d\uff01-\uff60\uffe0-\uffe6"
)

_ONLY_SIMPLE: Final = re.compile(f"[{_NARROW}{_WIDE}]*")
_EACH_WIDE: Final = re.compile(f"[{_WIDE}]")
_CLUSTER: Final = 8  # code points of one character on the screen, of nearly all

# Where a line may break without a space, and what may not begin or end one (kinsoku).
_CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3100-\u9fff"
    "\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff"
)
_WIDE_OPENS = "「『（［｛〈《【〔〖｢“‘"
_WIDE_CLOSES = (
    "、。，．・：；？！」』）］｝〉》】〕〗”’…‥々〻ーゝゞ〃～〜゛゜‼⁇⁈⁉"
    "ぁぃぅぇぉっゃゅょゎゕゖァィゥェォッャュョヮヵヶㇰ-ㇿ"
    "｡､･｣ｰﾞﾟｧｨｩｪｫｬｭｮｯ"
)
_OPENS = re.escape(f"{_WIDE_OPENS}([{{")
_CLOSES = f"{_WIDE_CLOSES},.!?:;)\\]}}%"
_ENDS_WORD = f"{_WIDE_OPENS}{_WIDE_CLOSES.replace('’', '')}{_CJK}\\s"  # it’s
_COUNTERS = "[ァ-ヺー]{1,6}|文字|か所|[件回行個秒分度倍番]"
_UNIT: Final = re.compile(
    f"[{_OPENS}]*(?:"
    f"\\d[\\d.,]* (?:%|{_COUNTERS})"  # a number keeps its sign, and what it counts
    f"|[{_CJK}]"
    f"|[^{_ENDS_WORD}]+"
    f")[{_CLOSES}]*"
    f"|[^\\s][{_CLOSES}]*"
)
_ASCII_UNIT: Final = re.compile("[([{]*\\d[\\d.,]* %[,.!?:;)\\]}%]*|\\S+")  # the same, sooner found
_CLOSED: Final = re.compile(f"[{_CLOSES}]")


@lru_cache(maxsize=1024)
def ink(
    color: str | None,
    *,
    on: str | None = None,
    bold: bool = False,
    italic: bool = False,
    underline: bool = False,
    strike: bool = False,
) -> Style:
    """Return a style from palette colours (``#RRGGBB``); attributes that are off are inherited."""
    return Style(
        color=color,
        bgcolor=on,
        bold=bold or None,
        italic=italic or None,
        underline=underline or None,
        strike=strike or None,
    )


def fold(text: str, width: int) -> list[Span]:
    """Split a line every ``width`` cells, at any character, but never inside a wide or combined
    one.
    """
    width = max(1, width)
    if cell_len(text) <= width:
        return [(0, len(text))]
    if text.isascii():
        return [(at, min(at + width, len(text))) for at in range(0, len(text), width)]
    spans: list[Span] = []
    start = used = 0
    for begin, _, cells in split_graphemes(text)[0]:
        if used and used + cells > width:
            spans.append((start, begin))
            start, used = begin, 0
        used += cells
    spans.append((start, len(text)))
    return spans


def wrap(text: str, width: int) -> list[Span]:
    """Split a line at spaces and between CJK characters; words that are too long are split
    anywhere.

    Spaces at a break belong to no span; leading spaces stay. Returns at least one span.
    """
    width = max(1, width)
    if cell_len(text) <= width:
        return [(0, len(text))]
    spans: list[Span] = []
    start = end = used = 0  # the row so far: characters from start to end, used cells
    for unit in (_ASCII_UNIT if text.isascii() else _UNIT).finditer(text):
        begin, stop = unit.span()
        gap = cell_len(text[end:begin])
        cells = cell_len(unit.group())
        if used + gap + cells <= width:
            end, used = stop, used + gap + cells
            continue
        if end > start and text[start:end].strip():
            spans.append((start, end))
            start, gap = begin, 0
        if gap + cells <= width:
            end, used = stop, gap + cells
            continue
        *pieces, (last, _) = fold(text[start:stop], width)
        back = last  # what may not begin a row takes along what it stands behind
        while pieces and back > pieces[-1][0] + 1 and _CLOSED.match(text, start + back):
            back -= 1
        last = back if cell_len(text[start + back : stop]) <= width else last
        if pieces:  # else it is one character, wider than the row
            pieces[-1] = pieces[-1][0], last
        spans.extend((start + a, start + b) for a, b in pieces)
        start, end = start + last, stop
        used = cell_len(text[start:end])
    if end > start or not spans:
        spans.append((start, end if end > start else min(width, len(text))))
    return spans


def break_line(text: str, room: int, hang: int = 0) -> list[Span]:
    """Split a line at words into lines of ``room`` cells, those after the first ``hang`` cells
    shorter. Spaces at a break stay with the line before, so the spans cover the whole text.
    """
    simple = text.isascii() or (room - hang > 1 and _ONLY_SIMPLE.fullmatch(text) is not None)
    spans: list[Span] = []
    start, width = 0, max(1, room)
    while start < len(text):
        if simple:
            stop = _fitting_end(text, start, width)
        else:
            stop = start + fold(text[start : start + _CLUSTER * width], width)[0][1]
        at = stop
        while start < at < len(text) and text[at - 1].isascii() and text[at - 1 : at + 1].isalnum():
            at -= 1
        if text[start:at].strip():
            stop = at
        while stop < len(text) and text[stop] == " ":
            stop += 1
        spans.append((start, stop))
        start, width = stop, max(1, room - hang)
    return spans or [(0, 0)]


def _fitting_end(text: str, start: int, width: int) -> int:
    """Return the end of a line of ``width`` cells from ``start``, in text of narrow and wide
    characters only.
    """
    stop = min(start + width, len(text))
    # A character takes two cells at most, so this never takes away too many.
    while over := max(0, stop - start + _wide_ones(text, start, stop) - width):
        stop -= (over + 1) // 2
    return stop


def _wide_ones(text: str, start: int, stop: int) -> int:
    """Return the number of wide characters between two indexes of a text."""
    piece = text[start:stop]
    return 0 if piece.isascii() else len(_EACH_WIDE.findall(piece))


def fit(text: str, width: int, keep: Literal["start", "end"] = "start") -> str:
    """Cut a text to ``width`` cells, with ``…`` at the side that was cut."""
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    if width == 1:
        return ELLIPSIS
    if keep == "start":
        begin, stop = fold(text, width - 1)[0]
        head = text[begin:stop].rstrip()
        return (head if cell_len(head) < width else "") + ELLIPSIS
    room = width - 1
    tail = ""
    for begin, stop, cells in reversed(split_graphemes(text)[0]):
        if cells > room:
            break
        room -= cells
        tail = text[begin:stop] + tail
    return ELLIPSIS + tail


def pad(text: str, width: int) -> str:
    """Pad a text with spaces to ``width`` cells; a longer text stays."""
    return text + " " * max(0, width - cell_len(text))


def cut(pieces: Sequence[Piece], spans: Iterable[Span]) -> list[Row]:
    """Return a row for each of the ascending spans of the text that the pieces form."""
    rows: list[Row] = []
    index = offset = 0  # the piece at hand and where it begins
    for start, stop in spans:
        row: Row = []
        while index < len(pieces) and offset + len(pieces[index][0]) <= start:
            offset += len(pieces[index][0])
            index += 1
        at, here = index, offset
        while at < len(pieces) and here < stop:
            text, style = pieces[at]
            part = text[max(0, start - here) : stop - here]
            if part:
                row.append(Segment(part, style))
            here += len(text)
            at += 1
        rows.append(row)
    return rows


def rows_of(pieces: Sequence[Piece], width: int, *, words: bool = True) -> list[Row]:
    """Return styled text as rows of at most ``width`` cells; newlines end rows. ``words=False``
    breaks at any character, for code.
    """
    breaker = wrap if words else fold
    rows: list[Row] = []
    for line in split_lines(pieces):
        text = "".join(part for part, _ in line)
        if cell_len(text) <= width:
            rows.append([Segment(part, style) for part, style in line])
        else:
            rows.extend(cut(line, breaker(text, width)))
    return rows


def split_lines(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Split pieces at newlines; returns at least one line."""
    lines: list[list[Piece]] = [[]]
    for text, style in pieces:
        if "\n" not in text:
            if text:
                lines[-1].append((text, style))
            continue
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append((part, style))
    return lines


def prefix_rows(rows: Iterable[Row], first: Piece, rest: Piece | None = None) -> list[Row]:
    """Put ``first`` before the first row and ``rest``, or as many spaces, before the others."""
    blank = rest or (" " * cell_len(first[0]), PLAIN)
    done: list[Row] = []
    for number, row in enumerate(rows):
        text, style = blank if number else first
        done.append([Segment(text, style), *row] if text else list(row))
    return done


def row_text(row: Row) -> str:
    """Return the text of a row."""
    return "".join(segment.text for segment in row)


def row_cells(row: Row) -> int:
    """Return the width of a row in cells."""
    return sum(segment.cell_length for segment in row)


def mark_row(row: Row, start: int, stop: int, style: Style) -> Row:
    """Return the row with ``style`` applied to the characters from ``start`` to ``stop`` (-1: the
    end).
    """
    done: Row = []
    at = 0
    for text, own, _ in row:
        end = at + len(text)
        low = max(start, at) - at
        high = (end if stop < 0 else min(stop, end)) - at
        if low >= high:
            done.append(Segment(text, own))
        else:
            over = style if own is None else own + style
            parts = ((text[:low], own), (text[low:high], over), (text[high:], own))
            done.extend(Segment(part, ink) for part, ink in parts if part)
        at = end
    return done


def mark_selection(row: Row, y: int, selection: Selection | None, style: Style) -> Row:
    """Return the row with the selected part of line ``y`` in ``style``."""
    span = None if selection is None else selection.get_span(y)
    if span is None or span[0] == span[1]:
        return row
    return mark_row(row, *span, style)


def strip_of(row: Row, y: int, width: int, fill: Style | None = None) -> Strip:
    """Return the row as a strip of exactly ``width`` cells with its offsets in line ``y``.

    The padding has no offsets, so that the pointer after the text means the end of the text.
    """
    cells = row_cells(row)
    if not row:
        row = [Segment("", PLAIN)]
    strip = Strip(row, cells).apply_offsets(0, y)
    if cells == width and fill is None:
        return strip
    return strip.adjust_cell_length(width, fill)


def text_of(rows: Sequence[Row], first: int, selection: Selection, indent: int = 0) -> str:
    """Return the selected text of rows that begin at line ``first``, without trailing spaces.

    The first ``indent`` characters of each row are margin and never copied.
    """
    lines: list[str] = []
    for y, row in enumerate(rows, first):
        span = selection.get_span(y)
        if span is None:
            continue
        text = row_text(row)
        stop = len(text) if span[1] < 0 else span[1]
        lines.append(text[max(span[0], indent) : max(stop, indent)].rstrip())
    return "\n".join(lines)
