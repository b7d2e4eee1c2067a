"""The window of the model as a bar in segments, with what each of them stands for."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.state.context import PARTS, PartName, PromptFigures
from duckflow_tui.ui.i18n import Catalogue
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.strips import Row, ink

FREE: Final = "·"
#: Each segment is told from its neighbours by its character too, not by its colour alone.
_CHARACTERS: Final[dict[PartName, str]] = {
    "base": "█",
    "operations": "▓",
    "project": "▒",
    "pinned": "█",
    "files": "▓",
    "results": "▒",
    "chat": "█",
    "tail": "▓",
}


def colour_of(part: PartName, palette: Palette) -> str:
    """The colour of a part wherever it is shown."""
    return {
        "base": palette.faint,
        "operations": palette.quiet,
        "project": palette.faint,
        "pinned": palette.accent,
        "files": palette.ai,
        "results": palette.ai,
        "chat": palette.good,
        "tail": palette.bad,
    }[part]


def character_of(part: PartName) -> str:
    """The character its segment is drawn with."""
    return _CHARACTERS[part]


def meter(figures: PromptFigures, width: int, palette: Palette) -> Row:
    """The parts of a request in its window, in ``width`` cells; what is there takes one at least.

    Without a known window the bar is the request alone.
    """
    whole = max(figures.window, figures.tokens, 1)
    cells: dict[PartName, int] = {}
    for part in PARTS:
        if size := getattr(figures.parts, part):
            cells[part] = max(size * width // whole, 1)
    while sum(cells.values()) > max(width, len(cells)):
        cells[max(cells, key=lambda part: cells[part])] -= 1
    row: Row = [
        Segment(_CHARACTERS[part] * count, ink(colour_of(part, palette)))
        for part, count in cells.items()
    ]
    used = sum(cells.values())
    return [*row, Segment(FREE * max(width - used, 0), ink(palette.faint))]


def legend(figures: PromptFigures, width: int, palette: Palette, words: Catalogue) -> list[Row]:
    """Each part with its tokens, as many to a row as fit."""
    rows: list[Row] = [[]]
    used = 0
    for part in PARTS:
        size = getattr(figures.parts, part)
        if not size:
            continue
        text = f" {words(f'context.part.{part}')} {tokens_text(size, figures)}"
        cells = 1 + cell_len(text)
        gap = 2 if used else 0
        if used and used + gap + cells > width:
            rows.append([])
            used = gap = 0
        rows[-1] += [
            Segment(" " * gap, ink(None)),
            Segment(_CHARACTERS[part], ink(colour_of(part, palette))),
            Segment(text, ink(palette.quiet)),
        ]
        used += gap + cells
    return rows


def tokens_text(count: int, figures: PromptFigures) -> str:
    """A count of tokens, with ``~`` while the endpoint has not counted."""
    return f"{'~' if figures.estimated else ''}{short_tokens(count)}"


def short_tokens(count: int) -> str:
    """812, 4.2k, 42k, 1.3M."""
    if count < 1_000:
        return str(count)
    if count < 9_950:
        return f"{count / 1_000:.1f}k"
    return f"{count / 1_000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.1f}M"
