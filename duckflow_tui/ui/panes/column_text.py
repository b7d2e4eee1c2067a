"""The text of a column of blocks: which of it is selected, and what is copied."""

from __future__ import annotations

from rich.cells import cell_len
from textual.geometry import Offset
from textual.selection import Selection

from duckflow_tui.ui.panes.blocks import Block, Look
from duckflow_tui.ui.panes.column import Column
from duckflow_tui.ui.panes.strips import Span, row_text, text_of


def copied_text(column: Column, look: Look, selection: Selection) -> str:
    """Return the selected text: the source of blocks selected as a whole, else the text of the
    rows.
    """
    first = 0 if selection.start is None else selection.start.y
    last = column.total_height - 1 if selection.end is None else selection.end.y
    parts: list[str] = []
    above: Block | None = None
    for index in column.blocks_between(first, last + 1):
        block = column.block_at(index)
        if block.hidden:
            continue
        if block.source_text and covers_block(selection, block, column.top_of(index), look.indent):
            text = block.source_text
        else:
            column.draw_block(index, look)
            text = text_of(block.rows or [], column.top_of(index), selection, look.indent)
        if not text.strip("\n"):
            continue
        if above is not None:
            together = above.group == block.group and above.group != "text"
            parts.append("\n" if together else "\n\n")
        parts.append(text)
        above = block
    return "".join(parts)


def whole_selection(block: Block, top: int, indent: int) -> Selection:
    """Return the selection that covers a drawn block; ``top`` is the line of its first row."""
    rows = block.rows or [[]]
    return Selection(Offset(indent, top), Offset(len(row_text(rows[-1])), top + len(rows) - 1))


def word_at(text: str, cell: int, indent: int) -> Span | None:
    """Return the character span of the word at a cell; None between words and in the margin."""
    at = next((n for n in range(len(text)) if cell_len(text[: n + 1]) > cell), None)
    if at is None or text[at].isspace():
        return None
    start = stop = at
    while start > indent and _is_one_word(text[start - 1], text[at]):
        start -= 1
    while stop < len(text) and _is_one_word(text[stop], text[at]):
        stop += 1
    return start, stop


def _is_one_word(one: str, other: str) -> bool:
    return one == other or (_in_word(one) and _in_word(other))


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def covers_block(selection: Selection, block: Block, top: int, indent: int) -> bool:
    """Whether the selection contains all text of the block."""
    start, end = selection
    bottom = top + block.height - 1
    if start is not None and (start.y > top or (start.y == top and start.x > indent)):
        return False
    if end is None or end.y > bottom:
        return True
    last = block.rows[-1] if block.rows else []
    return end.y == bottom and end.x >= len(row_text(last).rstrip())
