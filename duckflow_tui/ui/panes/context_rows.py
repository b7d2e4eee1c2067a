"""The window of the model as a bar in segments, with what each of them stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.state.usage import PARTS, PartName, PromptFigures
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.strips import Row, ink
from duckflow_tui.words.catalogue import Catalogue

FREE: Final = "·"
RESERVED: Final = "░"
COMPACTS: Final = "|"
#: Each part has a character of its own, so that it is known without its colour.
_CHARACTERS: Final[dict[PartName, str]] = {
    "base": "█",
    "operations": "▓",
    "project": "▒",
    "pinned": "▙",
    "files": "▌",
    "results": "▞",
    "chat": "▄",
    "tail": "▀",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What of a window is not free, in tokens: kept for the reply, and where compaction begins."""

    reply: int
    compacts_at: int


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


def meter(
    figures: PromptFigures, width: int, palette: Palette, limits: Limits | None = None
) -> Row:
    """The parts of a request in its window, in ``width`` cells; what is there takes one at least.

    Without a known window the bar is the request alone; then there are no limits either.
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
    free = max(width - sum(cells.values()), 0)
    if limits is None:
        return [*row, Segment(FREE * free, ink(palette.faint))]
    reserved = min(max(limits.reply * width // whole, 1), free)
    free -= reserved
    mark = limits.compacts_at * width // whole - (width - free - reserved)
    if 0 <= mark < free:
        row.append(Segment(FREE * mark, ink(palette.faint)))
        row.append(Segment(COMPACTS, ink(palette.accent)))
        free -= mark + 1
    row.append(Segment(FREE * free, ink(palette.faint)))
    return [*row, Segment(RESERVED * reserved, ink(palette.quiet))]


def legend(
    figures: PromptFigures,
    width: int,
    palette: Palette,
    words: Catalogue,
    limits: Limits | None = None,
) -> list[Row]:
    """Each part with its tokens, then the limits, as many to a row as fit."""
    entries: list[tuple[str, str, str]] = []
    for part in PARTS:
        if size := getattr(figures.parts, part):
            said = f"{words(f'context.part.{part}')} {tokens_text(size, figures)}"
            entries.append((_CHARACTERS[part], colour_of(part, palette), said))
    if limits is not None:
        said = words("context.limit.compacts", tokens=f"~{short_tokens(limits.compacts_at)}")
        entries.append((COMPACTS, palette.accent, said))
        said = words("context.limit.reply", tokens=short_tokens(limits.reply))
        entries.append((RESERVED, palette.quiet, said))
    rows: list[Row] = [[]]
    used = 0
    for character, colour, said in entries:
        text = f" {said}"
        cells = 1 + cell_len(text)
        gap = 2 if used else 0
        if used and used + gap + cells > width:
            rows.append([])
            used = gap = 0
        rows[-1] += [
            Segment(" " * gap, ink(None)),
            Segment(character, ink(colour)),
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
