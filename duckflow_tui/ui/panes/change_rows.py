"""The change that a call makes, as rows of a diff behind its row in the chat."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.gates import DiffLine, FilePreview
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.diff_rows import shown_path
from duckflow_tui.ui.panes.strips import Row, ink, pad, prefixed, row_cells, rows_of


def change_rows(previews: Sequence[FilePreview], palette: Palette, width: int) -> list[Row]:
    """Every line of the hunks with its number and mark; a file's path where there are several."""
    rows: list[Row] = []
    lines = [line for preview in previews for hunk in preview.hunks for line in hunk.lines]
    digits = len(str(max((line.new or line.old or 0 for line in lines), default=0)))
    for preview in previews:
        if len(previews) > 1 or not preview.hunks:
            said = f"{visible_line(shown_path(preview))}  +{preview.added} −{preview.removed}"
            rows += rows_of([(said, ink(palette.text, bold=True))], width)
        for number, hunk in enumerate(preview.hunks):
            if number:
                rows.append([Segment("⋯", ink(palette.faint))])
            for line in hunk.lines:
                rows += _line_rows(line, palette, digits, width)
    return rows


def _line_rows(line: DiffLine, palette: Palette, digits: int, width: int) -> list[Row]:
    ground = {"+": palette.added, "-": palette.removed}.get(line.mark)
    tone = palette.quiet if ground is None else palette.text
    sign = {"+": palette.good, "-": palette.bad}.get(line.mark, palette.faint)
    number = line.new if line.new is not None and line.mark != "-" else line.old
    head = f"{number or '':>{digits}} {line.mark} "
    text = visible_line(line.text.expandtabs(4))
    rows = rows_of([(text, ink(tone, on=ground))], max(1, width - len(head)), words=False)
    rows = prefixed(rows, (head, ink(sign, on=ground)), (" " * len(head), ink(None, on=ground)))
    if ground is None:
        return rows
    fill = ink(None, on=ground)
    return [[*row, Segment(pad("", width - row_cells(row)), fill)] for row in rows]
