"""How full the model's context is, as a bar; and compactions in the chat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.memory import CompactionMessage
from duckflow_tui.state.usage import PARTS, PartName, PromptFigures
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.blocks import (
    Block,
    Group,
    Look,
    bar_rows,
    fold_sign,
    frame_rows,
    labelled_rows,
)
from duckflow_tui.ui.panes.strips import Row, fit, ink, prefix_rows, rows_of
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import no_digest_words, short_count

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
    """Token limits within a window: the share kept for the reply, and where compaction begins."""

    reply: int
    compacts_at: int


def colour_of(part: PartName, palette: Palette) -> str:
    """Return the colour of a part of a request."""
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
    """Return the character with which a part is drawn in the bar."""
    return _CHARACTERS[part]


def meter_row(
    figures: PromptFigures, width: int, palette: Palette, limits: Limits | None = None
) -> Row:
    """Return the parts of a request as a bar of ``width`` cells; each present part takes at least
    one.

    Without a known window the bar is the request alone, without limits.
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


def legend_rows(
    figures: PromptFigures,
    width: int,
    palette: Palette,
    words: Catalogue,
    limits: Limits | None = None,
) -> list[Row]:
    """Return each part with its tokens, then free room and limits, as many per row as fit."""
    entries: list[tuple[str, str, str]] = []
    for part in PARTS:
        if size := getattr(figures.parts, part):
            said = f"{words(f'context.part.{part}')} {tokens_text(size, figures)}"
            entries.append((_CHARACTERS[part], colour_of(part, palette), said))
    free = figures.window - figures.tokens - (limits.reply if limits is not None else 0)
    if free > 0:
        said = words("context.limit.free", tokens=tokens_text(free, figures))
        entries.append((FREE, palette.faint, said))
    if limits is not None:
        said = words("context.limit.compacts", tokens=f"~{short_count(limits.compacts_at)}")
        entries.append((COMPACTS, palette.accent, said))
        said = words("context.limit.reply", tokens=short_count(limits.reply))
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
    """Format a count of tokens; with ``~`` while it is an estimate."""
    return f"{'~' if figures.estimated else ''}{short_count(count)}"


_LISTED: Final = ("requirements", "constraints", "decisions", "gates")


class CompactionBlock(Block):
    """A compaction: ``Compacted  ~42k → ~9k tokens``; unfolded with digest and details."""

    group: Group = "row"
    foldable = True

    def __init__(self, message: CompactionMessage) -> None:
        super().__init__()
        self.compaction = message.compaction
        self.in_force = False  # it is the newest, and the user has not taken it back
        self.undone = False

    def follow_state(self, state: AgentState) -> bool:
        before, name = (self.in_force, self.undone), self.compaction.compaction_id
        newest = state.compaction
        self.in_force = newest is not None and newest.compaction_id == name
        self.undone = name in state.undone_compactions
        return (self.in_force, self.undone) != before

    def draw_rows(self, look: Look) -> list[Row]:
        found, palette, words = self.compaction, look.palette, look.words
        sign = fold_sign(self, look)
        before, after = short_count(found.tokens_before), short_count(found.tokens_after)
        size = words("compaction.size", before=before, after=after)
        why = words("decisions.undone" if self.undone else f"compaction.by.{found.by}")
        title = words("compaction.title")
        room = max(1, look.text_width - sign.cell_length)
        head: Row = [sign, Segment(fit(title, room), ink(palette.accent, bold=True))]
        rest = f"  {size} · {why}"
        if cell_len(title) + cell_len(rest) <= room:
            rows: list[Row] = [[*head, Segment(rest, ink(palette.quiet))]]
        else:
            below = rows_of([(f"{size} · {why}", ink(palette.quiet))], max(1, room))
            rows = [head, *prefix_rows(below, ("  ", ink(None)))]
        width = look.output_width
        told = self._list_changes(look)
        if self.opened:
            rows += bar_rows(
                [*self._pair_rows(told, width, look), *self._detail_rows(look, width)], look
            )
        else:
            rows += prefix_rows(
                self._pair_rows(told, width, look), ("  ", ink(None)), ("  ", ink(None))
            )
        return frame_rows(rows, look)

    def _list_changes(self, look: Look) -> list[tuple[str, str, str]]:
        """Return what the compaction did, as label, words and colour."""
        found, words, palette = self.compaction, look.words, look.palette
        told = [("kept", self._kept_words(look), palette.text)]
        if not found.failure:
            said = words("compaction.digested", **self._count_parts())
            told.append(("digested", said, palette.text))
        else:
            reason = no_digest_words(found.failure, words)
            said = words("compaction.no_digest", reason=reason, **self._count_parts())
            told.append(("digested", said, palette.bad))
        if found.results:
            told.append(
                ("dropped", words("compaction.dropped", **self._count_parts()), palette.quiet)
            )
        if self.in_force:
            told.append(("undo", words("compaction.how_to_undo"), palette.quiet))
        return told

    def _count_parts(self) -> dict[str, object]:
        """Return the figures for the compaction's sentence."""
        found = self.compaction
        return {
            "exchanges": found.exchanges,
            "messages": found.messages,
            "results": found.results,
        }

    def _kept_words(self, look: Look) -> str:
        """Return what was kept in full, such as ``goal, 4 requirements, plan``."""
        kept, words = self.compaction.kept, look.words
        parts = [words("compaction.kept.goal")] if kept.goal else []
        for name in _LISTED:
            if count := len(getattr(kept, name)):
                parts.append(words(f"compaction.kept.{name}", count=count))
        if kept.plan:
            parts.append(words("compaction.kept.plan"))
        return words("gate.list").join([*parts, words("compaction.kept.newest")])

    def _pair_rows(self, told: list[tuple[str, str, str]], width: int, look: Look) -> list[Row]:
        """Rows of ``(label, text, colour)``, labels in a column."""
        rows: list[Row] = []
        for name, text, colour in told:
            label = look.words(f"compaction.label.{name}") if name else ""
            rows += labelled_rows(label, text, look, width, colour=colour, column=9)
        return rows

    def _detail_rows(self, look: Look, width: int) -> list[Row]:
        """The unfolded part: hint, what was kept, and the digest."""
        found, words, palette = self.compaction, look.words, look.palette
        kept = found.kept
        told: list[tuple[str, str, str]] = [("hint", found.hint, palette.accent)]
        told.append(("goal", kept.goal, palette.quiet))
        for name in _LISTED:
            for number, item in enumerate(getattr(kept, name)):
                told.append(("" if number else name, item, palette.quiet))
        told.append(("plan", kept.plan, palette.quiet))
        shown: list[tuple[str, str, str]] = [
            (name, visible_line(text), colour) for name, text, colour in told if text
        ]
        rows: list[Row] = [[], *self._pair_rows(shown, width, look)]
        if found.digest:
            head = f"{words('compaction.label.digest')}  {words('gate.says')}"
            rows += [[], *rows_of([(head, ink(palette.ai, italic=True))], width)]
            rows += rows_of([(make_visible(found.digest), ink(palette.quiet))], width)
        return rows
