"""Renders Markdown while it arrives: finished chunks are drawn once, only the rest again.

A chunk is a top-level block, an item of a top-level list, or a part of a long code block. Its end
is determined by the text up to there alone, so a reply gives the same rows whether it arrived in a
thousand pieces or at once, and the cost is linear in its length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from duckflow_tui.safety.safe_text import make_visible
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.blocks import Look, reply_rows
from duckflow_tui.ui.panes.markdown_rows import (
    GAP,
    block_rows,
    fence_rows,
    first_number,
    item_rows,
    language_of,
    plain_rows,
    split_siblings,
)
from duckflow_tui.ui.panes.strips import Row

LONG_BLOCK: Final = 16_384  # characters; a longer one that goes on is drawn less often
MAX_NESTING: Final = 20  # deeper than this the parser drops text; such a block is shown as it came
PART_FROM: Final = 16  # lines of a code block after which a part may end, before a line that
PART_TO: Final = 64  # begins at the margin; at the latest after so many


class _Parser(MarkdownIt):
    """CommonMark with tables and strikethrough. HTML and reference definitions are shown as text,
    so that nothing disappears.
    """

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False, "maxNesting": MAX_NESTING})
        self.enable(["table", "strikethrough"]).disable("reference")

    def normalizeLink(self, url: str) -> str:
        """Return the target as written, because it is only displayed."""
        return url


@cache
def _make_parser() -> MarkdownIt:
    return _Parser()


def page_rows(text: str, palette: Palette, width: int) -> list[Row]:
    """Render a whole Markdown text as rows without a frame. The text may be untrusted."""
    shown = make_visible(text)
    tokens = _make_parser().parse(shown)
    _mark_gaps(tokens, shown.split("\n"))
    return block_rows(tokens, palette, width)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A part of the text with what is needed to draw it."""

    line: int  # of the tail, on which it begins
    tokens: Sequence[Token]  # of a block, or of a list item; empty for code and plain text
    gap: bool  # a blank line above it
    above: bool  # the same in the source: a heading has its gap without one
    lead: str = ""  # a line that opens the code block or the list it goes on with
    number: int | None = None
    text: str = ""  # of a part of a code block, or of a block that is shown as it came
    language: str | None = None  # None: no code

    def draw_rows(self, palette: Palette, width: int) -> list[Row]:
        if self.language is not None:
            return fence_rows(self.text, self.language, palette, width)
        if not self.tokens:
            return plain_rows(self.text, palette, width)
        if self.tokens[0].type == "list_item_open":
            return item_rows(self.tokens, self.number, palette, width)
        return block_rows(self.tokens, palette, width)


class MarkdownDocument:
    """Renders a reply in Markdown, framed: ``feed_text`` adds text, ``draw_fed`` draws it,
    ``draw_rest`` ends it.

    ``rows`` is a list that changes in place; a row that is drawn again unchanged stays the same
    object. The text may be untrusted.
    """

    def __init__(self, look: Look) -> None:
        self.look = look
        self.rows: list[Row] = []
        self._final = 0  # rows that nothing changes any more
        self._source: list[str] = []
        self._fresh: list[str] = []  # fed, not parsed yet
        self._tail = ""  # raw text behind what is final
        self._lead = ""  # a line that opens the code block or the list the tail goes on with
        self._number: int | None = None  # of the tail's first item
        self._gap = False  # above the tail

    @property
    def source_text(self) -> str:
        """The text fed so far."""
        if len(self._source) > 1:
            self._source = ["".join(self._source)]
        return self._source[0] if self._source else ""

    def feed_text(self, text: str) -> None:
        """Add text; it is drawn by ``draw_fed``."""
        if text:
            self._source.append(text)
            self._fresh.append(text)

    def draw_fed(self) -> bool:
        """Draw the text fed since the last call. Returns False where there is none, or too little:
        an unfinished block is drawn as a whole each time, so a long one waits for a proportional
        amount.
        """
        if not self._fresh:
            return False
        if len(self._tail) > LONG_BLOCK and sum(map(len, self._fresh)) < len(self._tail) // 4:
            return False
        self._tail += "".join(self._fresh)
        self._fresh.clear()
        self._parse_tail(ended=False)
        return True

    def draw_rest(self) -> None:
        """Draw the rest, because the text is complete."""
        self._tail += "".join(self._fresh)
        self._fresh.clear()
        self._parse_tail(ended=True)

    def _draw_chunk(self, chunk: _Chunk) -> None:
        rows = chunk.draw_rows(self.look.palette, self.look.text_width)
        if rows and self.rows and chunk.gap:
            rows = [[], *rows]
        self.rows += reply_rows(rows, self.look, first=not self.rows)

    def _parse_tail(self, *, ended: bool) -> None:
        """Parse and draw again the text that may still change; ``ended``: no more will come."""
        at, before = self._final, self.rows[self._final :]
        del self.rows[at:]
        text = make_visible(self._tail)
        lead = int(bool(self._lead))
        if lead:
            text = f"{self._lead}\n{text}"
        lines = text.split("\n")
        tokens = _make_parser().parse(text)
        _mark_gaps(tokens, lines)
        chunks = self._split_chunks(tokens, lines, ended=ended)
        final = len(chunks)
        if not ended:
            # A block's beginning ends the one before it, but only once its first line and the
            # next are whole: half a line may yet turn into something else.
            known = len(lines) - 2
            final = max((at for at, chunk in enumerate(chunks) if chunk.line < known), default=0)
        for number, chunk in enumerate(chunks):
            self._draw_chunk(chunk)
            if number < final:
                self._final = len(self.rows)
        if ended:
            self._shorten_tail(None, 0)
        elif final:
            self._shorten_tail(chunks[final], chunks[final].line - lead)
        # What was made of a row that is as it was is kept too.
        same = [
            old if old == new else new for old, new in zip(before, self.rows[at:], strict=False)
        ]
        self.rows[at : at + len(same)] = same

    def _shorten_tail(self, rest: _Chunk | None, lines: int) -> None:
        """Forget the first lines of the tail, so that ``rest`` is what it begins with."""
        if rest is None:
            self._tail = self._lead = ""
            return
        at = 0
        for _ in range(lines):
            at = self._tail.index("\n", at) + 1
        self._tail = self._tail[at:]
        self._lead = rest.lead
        self._number = rest.number
        self._gap = rest.above

    def _split_chunks(
        self, tokens: Sequence[Token], lines: Sequence[str], *, ended: bool
    ) -> list[_Chunk]:
        """Split parsed blocks into chunks that are final."""
        chunks: list[_Chunk] = []
        for block in split_siblings(tokens):
            head = block[0]
            first = not chunks
            begin = head.map[0] if head.map else 0
            going_on = first and bool(self._lead)
            above = self._gap if first else bool(head.meta.get(GAP))
            gap = above or head.type == "heading_open"
            if head.type in ("bullet_list_open", "ordered_list_open"):
                number = self._number if going_on else first_number(head)
                chunks.extend(_split_items(block, lines, number, gap, going_on=going_on))
            elif head.type == "fence":
                opening = self._lead if going_on else lines[begin]
                chunks.extend(_split_code(head, opening, gap, ended=ended))
            else:
                chunks.append(_make_chunk(block, lines, gap, above))
        return chunks


def _make_chunk(
    tokens: Sequence[Token],
    lines: Sequence[str],
    gap: bool,
    above: bool,
    lead: str = "",
    number: int | None = None,
) -> _Chunk:
    """Return the chunk of a block or list item; one nested too deep is shown as source text."""
    begin, end = tokens[0].map or (0, len(lines))
    if any(token.level >= MAX_NESTING - 1 for token in tokens):
        text = "\n".join(lines[begin:end]).rstrip("\n")
        return _Chunk(begin, (), gap, above, lead, number, text)
    return _Chunk(begin, tokens, gap, above, lead, number)


def _split_items(
    block: Sequence[Token], lines: Sequence[str], number: int | None, gap: bool, *, going_on: bool
) -> Iterator[_Chunk]:
    """Yield a chunk for each item of a list; ``going_on``: without the first, which is drawn
    already.
    """
    for index, item in enumerate([*split_siblings(block[1:-1])][going_on:]):
        head = item[0]
        line = lines[head.map[0] if head.map else 0]
        above = bool(head.meta.get(GAP)) if index else gap
        indent = line[: len(line) - len(line.lstrip())]
        # In another place the same line may begin a table.
        lead = f"{indent}{'' if number is None else 1}{head.markup} x" if index or going_on else ""
        yield _make_chunk(item, lines, above, above, lead, number)
        number = None if number is None else number + 1


def _split_code(head: Token, opening: str, gap: bool, *, ended: bool) -> Iterator[_Chunk]:
    """Yield a code block in chunks of bounded length."""
    begin, end = head.map or (0, 0)
    lines = head.content.split("\n")[:-1]
    closed = len(lines) == end - begin - 2
    sure = len(lines) if closed or ended else len(lines) - 1
    language = language_of(head)
    start = 0
    while True:
        stop = _part_end(lines, start, sure)
        code = "".join(f"{line}\n" for line in lines[start:stop])
        line, above = (begin + 1 + start, False) if start else (begin, gap)
        lead = opening if start else ""
        yield _Chunk(line, (), above, above, lead, text=code, language=language)
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
