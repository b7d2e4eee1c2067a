"""Draws the lines of a diff: gutter, text in its colours, and the rows that hold our words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.diff_layout import DiffLayout, Part
from duckflow_tui.ui.panes.diff_paint import DiffPaint, Layer, painted
from duckflow_tui.ui.panes.diff_rows import DiffDocument, DiffRow, RowKind, shown_path
from duckflow_tui.ui.panes.diff_search import DiffSearch
from duckflow_tui.ui.panes.strips import Row, fit, ink, row_cells
from duckflow_tui.words.catalogue import Catalogue


class DiffPen:
    """One document in one palette and one language."""

    def __init__(
        self, document: DiffDocument, palette: Palette, words: Catalogue, search: DiffSearch
    ) -> None:
        self.palette = palette
        self.blank = ink(palette.text, on=palette.background)
        self._document = document
        self._words = words
        self._search = search
        self._paint = DiffPaint(document, palette)
        self._numbers = {hunk.hunk_id: n for n, hunk in enumerate(document.hunks)}

    def caption_row(self, part: Part, width: int, at: int) -> tuple[Row, Style]:
        """A row of our words, and what fills the rest of its line; ``at`` is the hunk at hand."""
        palette = self.palette
        row = self._document.rows[part.row]
        if row.kind is RowKind.HUNK:
            return self._hunk_row(row, width, at), self.blank
        text = caption(self._document, self._words, part.row)[part.span[0] : part.span[1]]
        if row.kind is RowKind.FILE:
            fill = ink(palette.text, on=palette.raised)
            return [Segment(f" {text}", fill + ink(None, bold=True))], fill
        return [Segment(f" {text}", self.blank + ink(palette.quiet))], self.blank

    def side(
        self, layout: DiffLayout, part: Part, scrolled: int, *, old: bool = False
    ) -> tuple[Row, Style]:
        """Gutter and text of one side, and what fills the rest; ``old`` asks for old numbers."""
        if part.row < 0:
            return [], ink(None, on=self.palette.background)
        row = self._document.rows[part.row]
        left_out = (row.file, row.hunk) in self._document.left_out
        ground = self._paint.ground(row, left_out=left_out)
        fill = Style(bgcolor=ground.bgcolor)
        number = row.old if row.mark == "-" or old else row.new
        drawn = self._gutter(layout, part, row.mark, number, fill, left_out=left_out)
        if row.kind is RowKind.BLANKS:
            text = self._words("diff.blank_lines", count=row.count)
            drawn.append(Segment(text, fill + ink(self.palette.faint, italic=True)))
            return drawn, fill
        layers: list[Layer] = [] if left_out else self._paint.layers(part.row)
        layers += self._search.layers(part.row, self.palette)
        span = layout.on_screen(part, scrolled)
        drawn += [Segment(text, style) for text, style in painted(row.text, span, ground, layers)]
        if not layout.wraps and span[1] < len(row.text):
            drawn.append(Segment("…", ground + ink(self.palette.accent)))
        return drawn, fill

    def both_sides(
        self, layout: DiffLayout, parts: Sequence[Part], width: int, scrolled: int
    ) -> Row:
        """The old version, a rule, the new version."""
        joined: Row = []
        for number, part in enumerate(parts):
            row, fill = self.side(layout, part, scrolled, old=number == 0)
            joined += padded(row, layout.half if number == 0 else width - layout.half - 1, fill)
            if number == 0:
                joined.append(Segment("│", self.blank + ink(self.palette.faint)))
        return joined

    def _gutter(
        self,
        layout: DiffLayout,
        part: Part,
        mark: str,
        number: int | None,
        fill: Style,
        *,
        left_out: bool,
    ) -> Row:
        faint = fill + ink(self.palette.faint)
        margin = "" if layout.split else " "
        shown = str(number) if part.first and number is not None else ""
        head = f"{margin}{shown:>{layout.digits}} " if layout.digits else ""
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
            said.append(counted(words, "diff.unchanged", row.count))
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


def caption(document: DiffDocument, words: Catalogue, index: int) -> str:
    """The text of a row that is no line of a file; of NOTE it begins with ``before_note``."""
    row = document.rows[index]
    if row.kind is RowKind.NOTE:
        return before_note(document, words, row) + row.text
    if row.kind is RowKind.FILE:
        added, removed = document.figures(row.file)
        return f"{row.text}  +{added} −{removed}  {row.file + 1}/{len(document.previews)}"
    return ""


def before_note(document: DiffDocument, words: Catalogue, row: DiffRow) -> str:
    """Our words in front of a file's note: what becomes of the file, that there are no lines."""
    if row.kind is not RowKind.NOTE:
        return ""
    preview = document.previews[row.file]
    said: list[str] = []
    if preview.kind != "modify":
        said.append(words(f"diff.kind.{preview.kind}", target=preview.target))
    if not preview.hunks:
        said.append(words("diff.no_lines"))
    return " · ".join(said) + (" · " if said and row.text else "")


def counted(words: Catalogue, key: str, count: int) -> str:
    """The entry for one or for many, with its ``{count}``."""
    return words(f"{key}.one" if count == 1 else f"{key}.many", count=count)


def padded(row: Row, width: int, fill: Style) -> Row:
    """The row in exactly ``width`` cells."""
    cells = row_cells(row)
    if cells <= width:
        return [*row, Segment(" " * (width - cells), fill)]
    return list(Strip(row, cells).crop(0, width))


def shifted(row: Row, left: int, y: int, width: int, fill: Style, *, gutter: int) -> Strip:
    """A strip of exactly ``width`` cells; the text behind the gutter is scrolled by ``left``."""
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
