"""Draws the lines of a diff: gutter, colours, changed words, search matches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.selection import Selection
from textual.strip import Strip

from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.diff_document import (
    REMARK_HANG,
    DiffCell,
    DiffDocument,
    DiffLayout,
    DiffRow,
    RowKind,
    shown_path,
)
from duckflow_tui.ui.panes.search import Search
from duckflow_tui.ui.panes.strips import Piece, Row, Span, fit, ink, row_cells, row_text
from duckflow_tui.ui.panes.syntax import SyntaxLines, Token
from duckflow_tui.words.catalogue import Catalogue

_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_WORDS: Final = 400  # above, comparing word by word costs more than it tells
_ALIKE: Final = 0.65  # lines less alike than this are two lines, not one that changed


@lru_cache(maxsize=2048)
def changed_words(old: str, new: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the spans that differ between an old and a new line, in whole words.

    Both are empty where the lines have too little in common for this to help.
    """
    if len(old) + len(new) > 16 * _MOST_WORDS:
        return (), ()
    a, b = _WORD.findall(old), _WORD.findall(new)
    if not a or not b or len(a) + len(b) > 2 * _MOST_WORDS:
        return (), ()
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    blocks = matcher.get_matching_blocks()
    kept = sum(len("".join(a[m.a : m.a + m.size]).strip()) for m in blocks)
    total = len(old.strip()) + len(new.strip())
    if not total or 2 * kept / total < _ALIKE:
        return (), ()
    spans = (
        _changed_spans(a, [(m.a, m.a + m.size) for m in blocks]),
        _changed_spans(b, [(m.b, m.b + m.size) for m in blocks]),
    )
    return _spans_with_words(old, spans[0]), _spans_with_words(new, spans[1])


def _spans_with_words(text: str, spans: tuple[Span, ...]) -> tuple[Span, ...]:
    """Return the spans that contain a word; punctuation changes along with the words around it."""
    return tuple(span for span in spans if re.search(r"\w", text[slice(*span)]))


def _changed_spans(words: list[str], kept: list[tuple[int, int]]) -> tuple[Span, ...]:
    """Return the spans of the words outside ``kept``, in characters of the joined text; ``kept``
    are ranges of word indexes.
    """
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    spans: list[Span] = []
    at = 0
    for begin, end in kept:
        if begin > at:
            spans.append((starts[at], starts[begin]))
        at = end
    return _join_spans("".join(words), spans)


def _join_spans(text: str, spans: list[Span]) -> tuple[Span, ...]:
    """Join spans with only spaces between them, without the line's indentation."""
    indent = len(text) - len(text.lstrip())

    def trimmed(span: Span) -> Span:
        return max(span[0], indent), span[1]

    done: list[Span] = []
    for start, stop in spans:
        if done and not text[done[-1][1] : start].strip():
            done[-1] = (done[-1][0], stop)
        else:
            done.append((start, stop))
    return tuple((start, stop) for start, stop in map(trimmed, done) if start < stop)


Layer = tuple[Span, Style]


def paint_text(text: str, span: Span, ground: Style, layers: Iterable[Layer]) -> list[Piece]:
    """Return the characters of ``span`` as styled pieces; later layers override earlier ones."""
    start, stop = span
    styles = [ground] * (stop - start)
    for (begin, end), style in layers:
        for at in range(max(begin, start) - start, min(end, stop) - start):
            styles[at] = styles[at] + style
    pieces: list[Piece] = []
    at = 0
    while at < len(styles):
        style = styles[at]
        end = at + 1
        while end < len(styles) and styles[end] == style:
            end += 1
        pieces.append((text[start + at : start + end], style))
        at = end
    return pieces


@lru_cache(maxsize=64)
def _token_style(palette: Palette, token: Token, *, plain: bool) -> Style:
    colours: dict[Token, tuple[str, str, float]] = {
        "keyword": (palette.ai, palette.text, 0.15),
        "name": (palette.text, palette.ai, 0.35),
        "string": (palette.good, palette.text, 0.35),
        "number": (palette.accent, palette.text, 0.45),
        "comment": (palette.quiet, palette.text, 0.15),
    }
    near, far, amount = colours[token]
    colour = Color.parse(near).blend(Color.parse(far), amount)
    if plain:  # unchanged lines stay behind the changed ones
        colour = colour.blend(Color.parse(palette.quiet), 0.6)
    return ink(colour.hex, italic=token == "comment")


class DiffRenderer:
    """Draws one document with one palette in one language."""

    def __init__(
        self,
        document: DiffDocument,
        palette: Palette,
        words: Catalogue,
        search: Search[tuple[int, Span]],
    ) -> None:
        """``search`` holds the matches as pairs of row and character span."""
        self.palette = palette
        self.blank = ink(palette.text, on=palette.background)
        self._document = document
        self._words = words
        self._search = search
        self._matches: dict[int, list[tuple[int, Span]]] = {}  # by row
        for match in search.found:
            self._matches.setdefault(match[0], []).append(match)
        self._sides: dict[tuple[int, int, bool], tuple[SyntaxLines, dict[int, int]]] = {}
        self._numbers = {hunk.hunk_id: n for n, hunk in enumerate(document.hunks)}

    def caption_row(self, part: DiffCell, width: int, at: int) -> tuple[Row, Style]:
        """Return a row of the app's words and the style that fills the rest of its line; ``at`` is
        the current hunk.
        """
        palette = self.palette
        row = self._document.rows[part.row]
        if row.kind is RowKind.HUNK:
            return self._hunk_row(row, width, at), self.blank
        text = caption_text(self._document, self._words, part.row)[part.span[0] : part.span[1]]
        if row.kind is RowKind.FILE:
            fill = ink(palette.text, on=palette.raised)
            drawn = [Segment(f" {text}", fill + ink(None, bold=True))]
            whole = not self._document.previews[row.file].hunks
            if whole and (row.file, 0) in self._document.left_out:
                out = f" · {self._words('diff.left_out')}"
                drawn.append(Segment(out, fill + ink(palette.accent, bold=True)))
            return drawn, fill
        return [Segment(f" {text}", self.blank + ink(palette.quiet))], self.blank

    def side(
        self, layout: DiffLayout, part: DiffCell, scrolled: int, *, old: bool = False
    ) -> tuple[Row, Style]:
        """Return gutter and text of one side and the style that fills the rest; ``old`` shows old
        line numbers.
        """
        if part.row < 0:
            return [], ink(None, on=self.palette.background)
        row = self._document.rows[part.row]
        if part.remark:
            return self._draw_remark(layout, part)
        left_out = (row.file, row.hunk) in self._document.left_out
        ground = self._ground_style(row, left_out=left_out)
        fill = Style(bgcolor=ground.bgcolor)
        numbers = [row.old, row.new]
        if layout.columns == 1:
            numbers = [row.old if row.mark == "-" or old else row.new]
        drawn = self._draw_gutter(layout, part, row.mark, numbers, fill, left_out=left_out)
        if part.first and part.row == self._document.cursor:
            here = fill + ink(self.palette.accent, bold=True)
            drawn = [Segment(f"{drawn[0].text if drawn[1:] else ''}{row.mark}▸", here)]
        if row.kind is RowKind.BLANKS:
            text = self._words("diff.blank_lines", count=row.count)
            drawn.append(Segment(text, fill + ink(self.palette.quiet, italic=True)))
            return drawn, fill
        layers: list[Layer] = [] if left_out else self._layers_on(part.row)
        here = ink(self.palette.on_accent, on=self.palette.accent)
        there = ink(None, on=self.palette.selection)
        for match in self._matches.get(part.row, ()):
            layers.append((match[1], here if match is self._search.current_match else there))
        span = layout.on_screen(part, scrolled)
        if not part.first:
            drawn.append(Segment(" " * layout.hang_of(part.row), ground))
        drawn += [
            Segment(text, style) for text, style in paint_text(row.text, span, ground, layers)
        ]
        if not layout.wraps and span[1] < len(row.text):
            drawn.append(Segment("…", ground + ink(self.palette.accent)))
        return drawn, fill

    def _ground_style(self, row: DiffRow, *, left_out: bool) -> Style:
        """Return the base style of a line."""
        palette = self.palette
        if left_out:
            return ink(palette.faint, on=palette.background, strike=row.mark != " ")
        if row.mark == "+":
            return ink(palette.text, on=palette.added)
        if row.mark == "-":
            return ink(palette.text, on=palette.removed)
        return ink(palette.quiet, on=palette.background)

    def _layers_on(self, index: int) -> list[Layer]:
        """Return the styled spans of a row: syntax, then changed words, then search matches."""
        row = self._document.rows[index]
        if row.kind is not RowKind.LINE:
            return []
        plain = row.mark == " "
        layers: list[Layer] = [
            (span, _token_style(self.palette, token, plain=plain))
            for span, token in self._syntax_spans(index)
        ]
        if row.partner >= 0:
            other = self._document.rows[row.partner].text
            if row.mark == "-":
                words, back = changed_words(row.text, other)[0], self.palette.removed_word
            else:
                words, back = changed_words(other, row.text)[1], self.palette.added_word
            layers.extend((span, ink(self.palette.text, on=back)) for span in words)
        return layers

    def _syntax_spans(self, index: int) -> Iterable[tuple[Span, Token]]:
        """Return a row's syntax spans. Old and new version are lexed separately, because only each
        by itself is valid code.
        """
        rows = self._document.rows
        row = rows[index]
        side = (row.file, row.hunk, row.mark == "-")
        if side not in self._sides:
            other = "+" if row.mark == "-" else "-"
            hunk = next(h for h in self._document.hunks if h.hunk_id == (row.file, row.hunk))
            chosen = [at for at in range(hunk.first + 1, hunk.last + 1) if rows[at].mark != other]
            lines = SyntaxLines(
                self._document.previews[row.file].language,
                lambda at: rows[chosen[at]].text,
                len(chosen),
            )
            self._sides[side] = lines, {at: number for number, at in enumerate(chosen)}
        lines, numbers = self._sides[side]
        return lines.spans(numbers[index])

    def _draw_remark(self, layout: DiffLayout, part: DiffCell) -> tuple[Row, Style]:
        """Return the row of the user's remark on the line above."""
        ground = ink(self.palette.text, on=self.palette.raised)
        text = layout.remark_text(part.row)
        piece = text[part.span[0] : part.span[1]]
        drawn = [Segment(" " * layout.gutter, ground)]
        if part.span[0]:
            drawn.append(Segment(" " * REMARK_HANG, ground))
            drawn.append(Segment(piece, ground))
        else:
            drawn.append(Segment(piece[:1], ground + ink(self.palette.accent, bold=True)))
            drawn.append(Segment(piece[1:], ground))
        return drawn, Style(bgcolor=ground.bgcolor)

    def both_sides(
        self, layout: DiffLayout, parts: Sequence[DiffCell], width: int, scrolled: int
    ) -> Row:
        """Return old version, divider and new version as one row."""
        joined: Row = []
        for number, part in enumerate(parts):
            row, fill = self.side(layout, part, scrolled, old=number == 0)
            joined += pad_row(row, layout.half if number == 0 else width - layout.half - 1, fill)
            if number == 0:
                joined.append(Segment("│", self.blank + ink(self.palette.faint)))
        return joined

    def _draw_gutter(
        self,
        layout: DiffLayout,
        part: DiffCell,
        mark: str,
        numbers: Sequence[int | None],
        fill: Style,
        *,
        left_out: bool,
    ) -> Row:
        faint = fill + ink(self.palette.faint)
        margin = "" if layout.split else " "
        shown = [str(number) if part.first and number else "" for number in numbers]
        head = margin + "".join(f"{number:>{layout.digits}} " for number in shown)
        head = head if layout.digits else ""
        if not part.first:
            return [Segment(f"{head}↳ ", faint)]
        sign = ink(self.palette.good if mark == "+" else self.palette.bad, bold=True)
        return [
            *([Segment(head, faint)] if head else []),
            Segment(f"{mark} ", faint if left_out else fill + sign),
        ]

    def _hunk_row(self, row: DiffRow, width: int, at: int) -> Row:
        palette, words = self.palette, self._words
        total = len(self._document.hunks)
        number = self._numbers[(row.file, row.hunk)]
        here = number == at and total > 1
        said: list[str] = []
        if row.count:
            said.append(words("diff.unchanged", count=row.count))
        if total > 1:
            said.append(words("diff.hunk", number=number + 1, total=total))
        tone = self.blank + ink(palette.accent if here else palette.faint)
        drawn = [
            Segment(" ▸ " if here else "   ", self.blank + ink(palette.accent)),
            Segment(" · ".join(said), tone),
        ]
        if (row.file, row.hunk) in self._document.left_out:
            out = f"{' · ' if said else ''}{words('diff.left_out')}"
            drawn.append(Segment(out, self.blank + ink(palette.accent, bold=True)))
        if row.hunk and len(self._document.previews) > 1:  # the file's own row may be far above
            path = shown_path(self._document.previews[row.file])
            drawn.append(Segment(fit(f" · {path}", width - row_cells(drawn)), tone))
        return list(Strip(drawn).crop(0, width))


def caption_text(document: DiffDocument, words: Catalogue, index: int) -> str:
    """Return the text of a row that is not a line of a file; a note's begins with
    ``before_note``.
    """
    row = document.rows[index]
    if row.kind is RowKind.NOTE:
        return before_note(document, words, row) + row.text
    if row.kind is RowKind.FILE:
        added, removed = document.figures(row.file)
        return f"{row.text}  +{added} −{removed}  {row.file + 1}/{len(document.previews)}"
    return ""


def before_note(document: DiffDocument, words: Catalogue, row: DiffRow) -> str:
    """Return the app's words before a file's note: that the file is created, and its facts."""
    if row.kind is not RowKind.NOTE:
        return ""
    preview = document.previews[row.file]
    said: list[str] = []
    if preview.kind != "modify":
        said.append(words(f"diff.kind.{preview.kind}", target=preview.target))
    if not preview.hunks:
        said.append(words("diff.no_lines"))
    said += map(words.localize, preview.facts)
    return " · ".join(said) + (" · " if said and row.text else "")


def figures_text(added: int, removed: int) -> str:
    """Format counts of lines as ``+3 −2``, or as one of both where the other is 0."""
    parts = [f"+{added}"] if added or not removed else []
    return " ".join([*parts, f"−{removed}"] if removed else parts)


def pad_row(row: Row, width: int, fill: Style) -> Row:
    """Return the row in exactly ``width`` cells."""
    cells = row_cells(row)
    if cells <= width:
        return [*row, Segment(" " * (width - cells), fill)]
    return list(Strip(row, cells).crop(0, width))


def shift_row(row: Row, left: int, y: int, width: int, fill: Style, *, gutter: int) -> Strip:
    """Return a strip of exactly ``width`` cells whose text after the gutter is scrolled by ``left``
    cells.
    """
    head: Row = []
    rest = list(row)
    taken = 0
    while left and rest and taken < gutter:
        head.append(rest.pop(0))
        taken += cell_len(head[-1].text)
    strips = [
        Strip(head, taken).apply_offsets(0, y),
        Strip(rest, row_cells(rest)).apply_offsets(taken + left, y),
    ]
    return Strip.join(strips).adjust_cell_length(width, fill)


def selected_text(
    layout: DiffLayout, renderer: DiffRenderer, words: Catalogue, selection: Selection
) -> str:
    """Return the selected text; side by side, of the version in which the selection begins."""
    first = selection.start.y if selection.start else 0
    last = min(selection.end.y if selection.end else layout.height - 1, layout.height - 1)
    new_side = bool(selection.start and layout.split and selection.start.x > layout.half)
    text = ""
    for y in range(first, last + 1):
        parts = layout.cells_on(y)
        part = parts[-1] if new_side else parts[0]
        before = 0
        if new_side and len(parts) > 1:
            row, fill = renderer.side(layout, parts[0], 0, old=True)
            before = len(row_text(pad_row(row, layout.half, fill))) + 1
        piece = _selected_piece(layout, words, part, selection.get_span(y), before)
        if piece is not None:
            text += f"\n{piece}" if text and part.first else piece
    return text


def _selected_piece(
    layout: DiffLayout, words: Catalogue, part: DiffCell, span: tuple[int, int] | None, before: int
) -> str | None:
    if part.row < 0 or part.remark or span is None:
        return None
    row = layout.document.rows[part.row]
    if row.kind in (RowKind.HUNK, RowKind.NOTE):
        return None
    if row.kind is RowKind.BLANKS:
        return "\n" * (row.count - 1)
    if row.kind is RowKind.FILE:
        text, before = caption_text(layout.document, words, part.row), 1
    else:
        hang = 0 if part.first else layout.hang_of(part.row)
        text, before = row.text, before + layout.gutter + hang
    start, stop = part.span
    begin = max(start, start + span[0] - before)
    end = stop if span[1] < 0 else min(stop, start + span[1] - before)
    return text[begin:end] if end > begin else ""
