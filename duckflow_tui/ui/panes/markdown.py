"""Markdown that may still be arriving: finished chunks are drawn once, only the rest again.

A chunk is a top-level block, an item of a top-level list, or a part of a long code block. Where
one ends follows from the text up to there alone, so that a reply gives the same rows whether it
arrived in a thousand pieces or at once, and what it costs grows with its length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from duckflow_tui.safety.safe_text import visible
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.markdown_rows import (
    GAP,
    block_rows,
    fence_rows,
    first_number,
    item_rows,
    language_of,
    plain_rows,
    siblings,
)
from duckflow_tui.ui.panes.strips import Row

LONG_BLOCK: Final = 16_384  # characters; a longer one that goes on is drawn less often
MAX_NESTING: Final = 20  # deeper than this the parser drops text; such a block is shown as it came
PART_FROM: Final = 16  # lines of a code block after which a part may end, before a line that
PART_TO: Final = 64  # begins at the margin; at the latest after so many


class _Parser(MarkdownIt):
    """CommonMark with tables and ~~strikes~~. Html and reference definitions show as text:
    nothing vanishes, nothing acts from afar.
    """

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False, "maxNesting": MAX_NESTING})
        self.enable(["table", "strikethrough"]).disable("reference")

    def normalizeLink(self, url: str) -> str:
        """The target as it was written, because it is only read."""
        return url


@cache
def _parser() -> MarkdownIt:
    return _Parser()


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A finished piece of the text and how to draw it."""

    tokens: Sequence[Token]  # of a block, or of a list item; empty for code and plain text
    gap: bool  # a blank line above it
    number: int | None = None
    text: str = ""  # of a part of a code block, or of a block that is shown as it came
    language: str | None = None  # None: no code

    def rows(self, palette: Palette, width: int) -> list[Row]:
        if self.language is not None:
            return fence_rows(self.text, self.language, palette, width)
        if not self.tokens:
            return plain_rows(self.text, palette, width)
        if self.tokens[0].type == "list_item_open":
            return item_rows(self.tokens, self.number, palette, width)
        return block_rows(self.tokens, palette, width)


class MarkdownDocument:
    """Rows of a markdown text. ``feed`` what arrives, then ``update``; ``finish`` at its end.

    ``rows`` is one list that changes in place: rows before ``stable`` stay the same objects
    until ``look`` changes. ``width`` is in cells; text may be untrusted.
    """

    def __init__(self, palette: Palette, width: int) -> None:
        self.rows: list[Row] = []
        self.stable = 0
        self._palette = palette
        self._width = width
        self._chunks: list[_Chunk] = []
        self._source: list[str] = []
        self._fresh: list[str] = []  # fed, not parsed yet
        self._tail = ""  # raw text after the chunks
        self._fence: str | None = None  # opening line of the code block the tail continues
        self._in_list = False  # the tail goes on with a list that has chunks already
        self._number: int | None = None  # of the tail's first item
        self._gap = False  # above the tail

    @property
    def source(self) -> str:
        """All that was fed, as it came."""
        if len(self._source) > 1:
            self._source = ["".join(self._source)]
        return self._source[0] if self._source else ""

    def feed(self, text: str) -> None:
        """Take more text; nothing is drawn before ``update``."""
        if text:
            self._source.append(text)
            self._fresh.append(text)

    def update(self) -> bool:
        """Draw what was fed since the last time; False when that was nothing, or too little: what
        is not finished is drawn whole each time, so that a long block waits for a share of itself.
        """
        if not self._fresh:
            return False
        if len(self._tail) > LONG_BLOCK and sum(map(len, self._fresh)) < len(self._tail) // 4:
            return False
        self._tail += "".join(self._fresh)
        self._fresh.clear()
        self._parse(ended=False)
        return True

    def finish(self) -> None:
        """The text is whole: draw the rest for good."""
        self._tail += "".join(self._fresh)
        self._fresh.clear()
        self._parse(ended=True)

    def set_look(self, palette: Palette, width: int) -> bool:
        """Draw everything again where the look is another; True when it was."""
        if (palette, width) == (self._palette, self._width):
            return False
        self._palette, self._width = palette, width
        self.rows.clear()
        self.stable = 0
        for chunk in self._chunks:
            self._draw(chunk)
        self.stable = len(self.rows)
        self._parse(ended=False)
        return True

    def _draw(self, chunk: _Chunk) -> None:
        rows = chunk.rows(self._palette, self._width)
        if rows and self.rows and chunk.gap:
            self.rows.append([])
        self.rows.extend(rows)

    def _parse(self, *, ended: bool) -> None:
        del self.rows[self.stable :]
        text = visible(self._tail)
        lead = 0
        if self._fence is not None:
            text = f"{self._fence}\n{text}"
            lead = 1
        lines = text.split("\n")
        tokens = _parser().parse(text)
        _mark_gaps(tokens, lines)
        units = self._units(tokens, lines, ended=ended)
        final = len(units)
        if not ended:
            # A block's beginning ends the one before it, but only once its first line and the
            # next are whole: half a line may yet turn into something else.
            known = len(lines) - 2
            final = max((at for at, unit in enumerate(units) if unit.line < known), default=0)
        for unit in units[:final]:
            self._chunks.append(unit.chunk)
            self._draw(unit.chunk)
        self.stable = len(self.rows)
        if ended:
            self._keep(None, 0)
        elif final:
            self._keep(units[final], units[final].line - lead)
        for unit in units[final:]:
            self._draw(unit.chunk)

    def _keep(self, rest: _Unit | None, lines: int) -> None:
        """Forget the first lines of the tail, so that ``rest`` is what it begins with."""
        if rest is None:
            self._tail, self._fence, self._in_list = "", None, False
            return
        at = 0
        for _ in range(lines):
            at = self._tail.index("\n", at) + 1
        self._tail = self._tail[at:]
        self._fence = rest.fence
        self._in_list = rest.in_list
        self._number = rest.chunk.number
        self._gap = rest.above

    def _units(self, tokens: Sequence[Token], lines: Sequence[str], *, ended: bool) -> list[_Unit]:
        units: list[_Unit] = []
        for block in siblings(tokens):
            head = block[0]
            first = not units
            begin, end = head.map or (0, len(lines))
            above = self._gap if first else bool(head.meta.get(GAP))
            gap = above or head.type == "heading_open"
            if any(token.level >= MAX_NESTING - 1 for token in block):
                raw = "\n".join(lines[begin:end]).rstrip("\n")
                units.append(_Unit(begin, _Chunk((), gap, text=raw), above))
            elif head.type in ("bullet_list_open", "ordered_list_open"):
                going_on = first and self._in_list
                number = self._number if going_on else first_number(head)
                units.extend(_items(block, number, gap, going_on=going_on))
            elif head.type == "fence":
                opening = self._fence if first and self._fence is not None else lines[begin]
                units.extend(_parts(head, opening, gap, ended=ended))
            else:
                units.append(_Unit(begin, _Chunk(block, gap), above))
        return units


@dataclass(frozen=True, slots=True)
class _Unit:
    """A chunk in the tail: the line it begins on, and what its own tail would have to know."""

    line: int
    chunk: _Chunk
    above: bool  # a blank line above it in the source; a heading has its gap without one
    fence: str | None = None
    in_list: bool = False


def _items(
    block: Sequence[Token], number: int | None, gap: bool, *, going_on: bool
) -> Iterator[_Unit]:
    for index, item in enumerate(siblings(block[1:-1])):
        head = item[0]
        line = head.map[0] if head.map else 0
        above = bool(head.meta.get(GAP)) if index else gap
        chunk = _Chunk(item, above, number)
        yield _Unit(line, chunk, above, in_list=bool(index) or going_on)
        number = None if number is None else number + 1


def _parts(head: Token, opening: str, gap: bool, *, ended: bool) -> Iterator[_Unit]:
    begin, end = head.map or (0, 0)
    lines = head.content.split("\n")[:-1]
    closed = len(lines) == end - begin - 2
    sure = len(lines) if closed or ended else len(lines) - 1
    language = language_of(head)
    start = 0
    while True:
        stop = _part_end(lines, start, sure)
        code = "".join(f"{line}\n" for line in lines[start:stop])
        chunk = _Chunk((), gap and not start, text=code, language=language)
        line = begin + 1 + start if start else begin
        yield _Unit(line, chunk, chunk.gap, fence=opening if start else None)
        if stop == len(lines):
            return
        start = stop


def _part_end(lines: Sequence[str], start: int, sure: int) -> int:
    """Where the part that begins at ``start`` ends; a string or comment seldom goes beyond."""
    for at in range(start + PART_FROM, min(start + PART_TO, sure - 2) + 1):
        outside = not lines[at - 1].strip() and lines[at][:1].strip()
        if outside or at == start + PART_TO:
            return at
    return len(lines)


def _mark_gaps(tokens: Sequence[Token], lines: Sequence[str]) -> None:
    for token in tokens:
        if token.map and token.nesting >= 0 and token.map[0] > 0:
            above = lines[token.map[0] - 1]
            token.meta[GAP] = not above.strip(" >")
