"""The text of a diff that a selection covers: no numbers, no marks, wrapped lines as one."""

from __future__ import annotations

from textual.selection import Selection

from duckflow_tui.ui.panes.diff_layout import DiffLayout, Part
from duckflow_tui.ui.panes.diff_pen import DiffPen, caption, padded
from duckflow_tui.ui.panes.diff_rows import RowKind
from duckflow_tui.ui.panes.strips import row_text
from duckflow_tui.words.catalogue import Catalogue


def selected_text(layout: DiffLayout, pen: DiffPen, words: Catalogue, selection: Selection) -> str:
    """What is selected; side by side it is the version in which the selection begins."""
    first = selection.start.y if selection.start else 0
    last = min(selection.end.y if selection.end else layout.height - 1, layout.height - 1)
    new_side = bool(selection.start and layout.split and selection.start.x > layout.half)
    text = ""
    for y in range(first, last + 1):
        parts = layout.parts(y)
        part = parts[-1] if new_side else parts[0]
        before = 0
        if new_side and len(parts) > 1:
            row, fill = pen.side(layout, parts[0], 0, old=True)
            before = len(row_text(padded(row, layout.half, fill))) + 1
        piece = _piece(layout, words, part, selection.get_span(y), before)
        if piece is not None:
            text += f"\n{piece}" if text and part.first else piece
    return text


def _piece(
    layout: DiffLayout, words: Catalogue, part: Part, span: tuple[int, int] | None, before: int
) -> str | None:
    if part.row < 0 or span is None:
        return None
    row = layout.document.rows[part.row]
    if row.kind in (RowKind.HUNK, RowKind.NOTE):
        return None
    if row.kind is RowKind.BLANKS:
        return "\n" * (row.count - 1)
    if row.kind is RowKind.FILE:
        text, before = caption(layout.document, words, part.row), 1
    else:
        text, before = row.text, before + layout.gutter
    start, stop = part.span
    begin = max(start, start + span[0] - before)
    end = stop if span[1] < 0 else min(stop, start + span[1] - before)
    return text[begin:end] if end > begin else ""
