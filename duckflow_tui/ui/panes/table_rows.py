"""A table as rows: columns as wide as they need, shrunk fairly, stacked where there is no room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.strips import PLAIN, Piece, Row, ink, row_cells, rows_of

GAP: Final = 2  # cells between columns
NARROWEST: Final = 5  # cells of a column that is still read with ease


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell says, and on which side: left, right or center."""

    pieces: list[Piece]
    side: str = "left"

    @property
    def cells(self) -> int:
        """The width it would like, at least 1."""
        text = "".join(part for part, _ in self.pieces)
        return max(1, *(cell_len(line) for line in text.split("\n")))


def table_rows(lines: Sequence[Sequence[Cell]], palette: Palette, width: int) -> list[Row]:
    """The table with its first line as header; no line has more cells than the header."""
    if not lines or not lines[0]:
        return []
    wanted = [
        max(line[column].cells for line in lines if column < len(line))
        for column in range(len(lines[0]))
    ]
    widths = fair_widths(wanted, width - GAP * (len(wanted) - 1))
    if widths is None:
        return _stacked(lines, palette, width)
    rule: Row = []
    for column, cells in enumerate(widths):
        rule.append(Segment(" " * GAP if column else "", PLAIN))
        rule.append(Segment("─" * cells, ink(palette.faint)))
    rows = _line(lines[0], widths)
    rows.append([segment for segment in rule if segment.text])
    for line in lines[1:]:
        rows.extend(_line(line, widths))
    return rows


def fair_widths(wanted: Sequence[int], room: int) -> list[int] | None:
    """Widths that fit in ``room`` cells: narrow columns keep theirs, the wide share the rest.

    None when a column that has to give way would come below ``NARROWEST``.
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


def _line(line: Sequence[Cell], widths: Sequence[int]) -> list[Row]:
    columns = [rows_of(cell.pieces, widths[at]) for at, cell in enumerate(line[: len(widths)])]
    rows: list[Row] = []
    for parts in zip_longest(*columns):
        row: Row = []
        for column, part in enumerate(parts):
            content: Row = part or []
            spare = widths[column] - row_cells(content)
            side = line[column].side
            before = spare if side == "right" else spare // 2 if side == "center" else 0
            lead = max(0, before) + (GAP if column else 0)
            last = column == len(parts) - 1
            row.extend([Segment(" " * lead, PLAIN)] if lead else [])
            row.extend(content)
            row.extend(
                [Segment(" " * (spare - before), PLAIN)] if spare > before and not last else []
            )
        rows.append(row)
    return rows


def _stacked(lines: Sequence[Sequence[Cell]], palette: Palette, width: int) -> list[Row]:
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
