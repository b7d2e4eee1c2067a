"""Renders Markdown blocks as rows at one width: paragraphs, lists, code, tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.strips import (
    PLAIN,
    Piece,
    Row,
    Span,
    cut,
    fold,
    ink,
    prefix_rows,
    row_cells,
    rows_of,
)
from duckflow_tui.ui.panes.syntax import SyntaxLines
from duckflow_tui.ui.panes.syntax import Token as SyntaxToken

if TYPE_CHECKING:
    from markdown_it.token import Token


COLUMN_GAP: Final = 2  # cells between columns
NARROWEST: Final = 5  # cells of a column that is still read with ease


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a table cell and its alignment."""

    pieces: list[Piece]
    side: str = "left"

    @property
    def cells(self) -> int:
        """The width the cell needs to stay on one line, at least 1."""
        text = "".join(part for part, _ in self.pieces)
        return max(1, *(cell_len(line) for line in text.split("\n")))


def table_rows(lines: Sequence[Sequence[Cell]], palette: Palette, width: int) -> list[Row]:
    """Render a table whose first line is the header; no line has more cells than it."""
    if not lines or not lines[0]:
        return []
    wanted = [
        max(line[column].cells for line in lines if column < len(line))
        for column in range(len(lines[0]))
    ]
    widths = fair_widths(wanted, width - COLUMN_GAP * (len(wanted) - 1))
    if widths is None:
        return _stack_cells(lines, palette, width)
    rule: Row = []
    for column, cells in enumerate(widths):
        rule.append(Segment(" " * COLUMN_GAP if column else "", PLAIN))
        rule.append(Segment("─" * cells, ink(palette.faint)))
    rows = _table_line(lines[0], widths)
    rows.append([segment for segment in rule if segment.text])
    for line in lines[1:]:
        rows.extend(_table_line(line, widths))
    return rows


def fair_widths(wanted: Sequence[int], room: int) -> list[int] | None:
    """Distribute ``room`` cells among columns: narrow ones keep their width, wide ones share the
    rest. None where a wide column would get less than ``NARROWEST``.
    """
    if sum(wanted) <= room:
        return list(wanted)
    given = [0] * len(wanted)
    left = sorted(range(len(wanted)), key=lambda column: wanted[column])
    while left:
        share = room // len(left)
        column = left[0]
        if wanted[column] > share:
            if share < NARROWEST:
                return None
            for place, index in enumerate(left):
                given[index] = share + (1 if place < room - share * len(left) else 0)
            return given
        given[column] = wanted[column]
        room -= wanted[column]
        left.pop(0)
    return given


def _table_line(line: Sequence[Cell], widths: Sequence[int]) -> list[Row]:
    """The rows of one line of a table, cells wrapped to their columns."""
    columns = [rows_of(cell.pieces, widths[at]) for at, cell in enumerate(line[: len(widths)])]
    rows: list[Row] = []
    for parts in zip_longest(*columns):
        row: Row = []
        for column, part in enumerate(parts):
            content: Row = part or []
            spare = widths[column] - row_cells(content)
            side = line[column].side
            before = spare if side == "right" else spare // 2 if side == "center" else 0
            lead = max(0, before) + (COLUMN_GAP if column else 0)
            last = column == len(parts) - 1
            row.extend([Segment(" " * lead, PLAIN)] if lead else [])
            row.extend(content)
            row.extend(
                [Segment(" " * (spare - before), PLAIN)] if spare > before and not last else []
            )
        rows.append(row)
    return rows


def _stack_cells(lines: Sequence[Sequence[Cell]], palette: Palette, width: int) -> list[Row]:
    """Render a table that is too wide as ``heading: cell`` lines, one table line after the
    other.
    """
    rows: list[Row] = []
    for line in lines[1:] or lines[:1]:
        if rows:
            rows.append([Segment("─" * min(3, width), ink(palette.faint))])
        for name, cell in zip(lines[0], line, strict=False):
            if name is cell:
                rows.extend(rows_of(cell.pieces, width))
            elif cell.pieces:
                pieces = [*name.pieces, (": ", ink(palette.quiet)), *cell.pieces]
                rows.extend(rows_of(pieces, width))
    return rows


#: Set in ``Token.meta`` of a block that has a blank line above it in the source.
GAP: Final = "gap"
BULLETS: Final = ("•", "◦", "▪")
_RULE_WIDTH: Final = 24


@dataclass(frozen=True, slots=True)
class _Inline:
    """The style of inline text at one point of a paragraph."""

    color: str
    bold: bool = False
    italic: bool = False
    strike: bool = False
    underline: bool = False

    @property
    def style(self) -> Style:
        return ink(
            self.color,
            bold=self.bold,
            italic=self.italic,
            strike=self.strike,
            underline=self.underline,
        )


def split_siblings(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens of each block at this level, with everything nested in it."""
    start = depth = 0
    for index, token in enumerate(tokens):
        depth += token.nesting
        if depth == 0:
            yield tokens[start : index + 1]
            start = index + 1


def block_rows(
    tokens: Sequence[Token], palette: Palette, width: int, color: str = "", depth: int = 0
) -> list[Row]:
    """Render blocks at most ``width`` cells wide, unless a single character is wider.

    ``color`` is the text colour, by default the palette's; ``depth`` is the number of enclosing
    lists.
    """
    color = color or palette.text
    width = max(1, width)
    rows: list[Row] = []
    for block in split_siblings(tokens):
        drawn = _one_block(block, palette, width, color, depth)
        if rows and drawn and block[0].meta.get(GAP):
            rows.append([])
        rows.extend(drawn)
    return rows


def item_rows(
    tokens: Sequence[Token],
    number: int | None,
    palette: Palette,
    width: int,
    color: str = "",
    depth: int = 0,
) -> list[Row]:
    """Render a list item; with ``number`` None it gets a bullet."""
    mark = BULLETS[min(depth, len(BULLETS) - 1)] if number is None else f"{number}."
    lead = " " if depth == 0 and number is None else ""
    mark = f"{lead}{mark} " if number is None else f"{mark:>3} "
    if cell_len(mark) + 4 > width:
        mark = mark.strip() + " "
    inner = block_rows(tokens[1:-1], palette, width - cell_len(mark), color, depth + 1)
    return prefix_rows(inner or [[]], (mark, ink(palette.quiet)))


def code_rows(lines: Sequence[Sequence[Piece]], palette: Palette, width: int) -> list[Row]:
    """Render code on the raised background: long lines folded, each row padded to ``width``."""
    ground = ink(None, on=palette.raised)
    rows: list[Row] = []
    for line in lines:
        text = "".join(part for part, _ in line)
        for row in cut(line, fold(text, width)):
            done = [Segment(part, (style or PLAIN) + ground) for part, style, _ in row]
            missing = width - row_cells(row)
            if missing > 0:
                done.append(Segment(" " * missing, ground))
            rows.append(done)
    return rows


def fence_rows(code: str, language: str, palette: Palette, width: int) -> list[Row]:
    """Render a code block; a single newline at its end adds no line."""
    lines = make_visible(code.removesuffix("\n")).split("\n")
    syntax = SyntaxLines(language, lines.__getitem__, len(lines))
    coloured = [_colour_line(line, syntax.spans(at), palette) for at, line in enumerate(lines)]
    return code_rows(coloured, palette, width)


def _colour_line(
    line: str, spans: Sequence[tuple[Span, SyntaxToken]], palette: Palette
) -> list[Piece]:
    """Split a line of code into pieces coloured by token."""
    pieces: list[Piece] = []
    at = 0
    for (start, stop), token in spans:
        pieces.append((line[at:start], ink(palette.text)))
        pieces.append((line[start:stop], token_ink(token, palette)))
        at = stop
    pieces.append((line[at:], ink(palette.text)))
    return [piece for piece in pieces if piece[0]]


def token_ink(token: SyntaxToken, palette: Palette) -> Style:
    """Return the style of a syntax token."""
    match token:
        case "comment":
            return ink(palette.quiet, italic=True)
        case "string":
            return ink(palette.good)
        case "keyword" | "number":
            return ink(palette.ai)
        case "name":
            return ink(palette.text, bold=True)


def language_of(fence: Token) -> str:
    """The first word of a fence's info string."""
    return fence.info.strip().partition(" ")[0].strip("{}.")


def _one_block(
    block: Sequence[Token], palette: Palette, width: int, color: str, depth: int
) -> list[Row]:
    """Rows of one block element: paragraph, heading, code, list, quote, table or rule."""
    head = block[0]
    match head.type:
        case "paragraph_open":
            return rows_of(_inline_pieces(block[1], palette, _Inline(color)), width)
        case "heading_open":
            return rows_of(
                _inline_pieces(block[1], palette, _Inline(palette.text, bold=True)), width
            )
        case "fence":
            return fence_rows(head.content, language_of(head), palette, width)
        case "code_block":
            return fence_rows(head.content, "", palette, width)
        case "bullet_list_open" | "ordered_list_open":
            return _list_rows(block, palette, width, color, depth)
        case "blockquote_open":
            bar = ("▌ ", ink(palette.faint))
            inner = block_rows(block[1:-1], palette, width - 2, palette.quiet, depth)
            return prefix_rows(inner or [[]], bar, bar)
        case "table_open":
            return _read_table(block, palette, width, color)
        case "hr":
            return [[Segment("─" * min(width, _RULE_WIDTH), ink(palette.faint))]]
        case _:
            text = "\n".join(make_visible(token.content) for token in block if token.content)
            return rows_of([(text, ink(color))], width) if text else []


def _list_rows(
    block: Sequence[Token], palette: Palette, width: int, color: str, depth: int
) -> list[Row]:
    """Rows of a list, numbered where it is."""
    number = first_number(block[0])
    rows: list[Row] = []
    for item in split_siblings(block[1:-1]):
        if rows and item[0].meta.get(GAP):
            rows.append([])
        rows.extend(item_rows(item, number, palette, width, color, depth))
        number = None if number is None else number + 1
    return rows


def first_number(head: Token) -> int | None:
    """The number a list begins with; None when it has bullets."""
    if head.type != "ordered_list_open":
        return None
    return int(head.attrs.get("start", 1))


def _read_table(block: Sequence[Token], palette: Palette, width: int, color: str) -> list[Row]:
    """Collect the cells of a table and draw it."""
    lines: list[list[Cell]] = []
    for index, token in enumerate(block):
        if token.type == "tr_open":
            lines.append([])
        elif token.type in ("th_open", "td_open"):
            bold = token.type == "th_open"
            pieces = _inline_pieces(block[index + 1], palette, _Inline(color, bold=bold))
            side = str(token.attrs.get("style", "")).rpartition(":")[2]
            lines[-1].append(Cell(pieces, side if side in ("right", "center") else "left"))
    return table_rows(lines, palette, width)


def _inline_pieces(token: Token, palette: Palette, base: _Inline) -> list[Piece]:
    """The pieces of an inline token; link targets follow their text in brackets."""
    pieces: list[Piece] = []
    stack = [base]
    links: list[tuple[str, int]] = []  # target, and the number of pieces before its text
    children = token.children or []
    for index, child in enumerate(children):
        now = stack[-1]
        match child.type:
            case "strong_open":
                stack.append(replace(now, bold=True))
            case "em_open":
                stack.append(replace(now, italic=True))
            case "s_open":
                stack.append(replace(now, strike=True))
            case "strong_close" | "em_close" | "s_close":
                stack.pop()
            case "link_open":
                links.append((str(child.attrs.get("href", "")), len(pieces)))
                stack.append(replace(now, underline=True))
            case "link_close":
                stack.pop()
                target, before = links.pop()
                said = "".join(text for text, _ in pieces[before:])
                if visible_line(target) not in (said, f"mailto:{said}"):
                    pieces.append((f" ({visible_line(target)})", ink(palette.quiet)))
            case "image":
                source = str(child.attrs.get("src", ""))
                shown = f"![{visible_line(child.content)}]({visible_line(source)})"
                pieces.append((shown, ink(palette.quiet)))
            case "code_inline":
                style = replace(now, color=palette.ai).style
                pieces.append((visible_line(child.content), style))
            case "softbreak":
                pieces.append((_line_break_text(pieces, children[index + 1 :]), now.style))
            case "hardbreak":
                pieces.append(("\n", now.style))
            case _:
                pieces.append((make_visible(child.content), now.style))
    return [piece for piece in pieces if piece[0]]


def _line_break_text(before: Sequence[Piece], after: Sequence[Token]) -> str:
    """Return the text that replaces a line break in the source: a space, or nothing between wide
    characters.
    """
    last = before[-1][0][-1:] if before else ""
    following = next((token.content[:1] for token in after if token.content), "")
    if last and following and cell_len(last) == 2 and cell_len(following) == 2:
        return ""
    return " "


def plain_rows(text: str, palette: Palette, width: int, color: str = "") -> list[Row]:
    """Render plain text wrapped, with its indentation and line breaks."""
    return rows_of([(text, ink(color or palette.text))], max(1, width))
