"""The colours of a diff: what is added, removed, changed inside a line, and what the code means."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rich.style import Style
from textual.color import Color

from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.diff_rows import DiffDocument, DiffRow, RowKind
from duckflow_tui.ui.panes.diff_words import changed_words
from duckflow_tui.ui.panes.strips import Piece, Span, ink
from duckflow_tui.ui.panes.syntax import SyntaxLines, Token

Layer = tuple[Span, Style]


class DiffPaint:
    """Styles of the rows of one document in one palette."""

    def __init__(self, document: DiffDocument, palette: Palette) -> None:
        self.palette = palette
        self._document = document
        self._sides: dict[tuple[int, int, bool], tuple[SyntaxLines, dict[int, int]]] = {}

    def ground(self, row: DiffRow, *, left_out: bool) -> Style:
        """The style of a line before anything is laid over it."""
        palette = self.palette
        if left_out:
            return ink(palette.faint, on=palette.background, strike=row.mark != " ")
        if row.mark == "+":
            return ink(palette.text, on=palette.added)
        if row.mark == "-":
            return ink(palette.text, on=palette.removed)
        return ink(palette.quiet, on=palette.background)

    def mark(self, row: DiffRow) -> Style:
        """The style of the sign in front of the line."""
        palette = self.palette
        return ink(palette.good if row.mark == "+" else palette.bad, bold=True)

    def layers(self, index: int) -> list[Layer]:
        """What is laid over a row: syntax first, then the words that changed."""
        row = self._document.rows[index]
        if row.kind is not RowKind.LINE:
            return []
        plain = row.mark == " "
        layers: list[Layer] = [
            (span, _token_style(self.palette, token, plain=plain))
            for span, token in self._syntax(index)
        ]
        if row.partner >= 0:
            other = self._document.rows[row.partner].text
            if row.mark == "-":
                words, back = changed_words(row.text, other)[0], self.palette.removed_word
            else:
                words, back = changed_words(other, row.text)[1], self.palette.added_word
            layers.extend((span, ink(None, on=back)) for span in words)
        return layers

    def _syntax(self, index: int) -> Iterable[tuple[Span, Token]]:
        """The old version and the new one are lexed apart: each is a text that makes sense."""
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


def painted(text: str, span: Span, ground: Style, layers: Iterable[Layer]) -> list[Piece]:
    """The characters of ``span`` in pieces of one style each, later layers over earlier ones."""
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
