"""Rows of the sessions page: a session in the list, its facts, and a preview of its
conversation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.session.facts import Listed, Piece, SessionFacts
from duckflow_tui.session.words import (
    format_day,
    format_time,
    spent_words,
    state_words,
)
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import (
    Row,
    fit,
    ink,
    mark_row,
    pad,
    prefix_rows,
    row_text,
    rows_of,
)
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import cost_text, size_text

_ALL_COLUMNS: Final = 88  # cells from which every fact has a column
_STATE: Final = 46  # from which the state has one
_FOLDER: Final = 16  # cells of a workspace's name in the list of all of them
_GAP: Final = 2
_MOST: Final = 40  # rows of one text in the preview


def mark_of(facts: SessionFacts, palette: Palette) -> tuple[str, str]:
    """Return the sign for a session's state, and its colour."""
    if facts.problem:
        return "!", palette.bad
    if facts.in_use:
        return "▶", palette.ai
    match facts.state:
        case "done" | "accepted":
            return "✓", palette.good
        case "gate" | "card":
            return "◆", palette.accent
        case "failed" | "denied" | "limit":
            return "✗", palette.bad
        case "new":
            return "○", palette.faint
        case _:
            return "◐", palette.quiet


class Columns:
    """Lays out the columns at the right of each row, as many as there is room for."""

    def __init__(
        self,
        listed: Sequence[Listed],
        width: int,
        words: Catalogue,
        now: float,
        *,
        folders: bool = False,
    ) -> None:
        """``folders``: each row begins with the name of its workspace."""
        self._words = words
        names = [cell_len(one.facts.folder) for one in listed] if folders else []
        self._folder = min(max(names, default=0), _FOLDER, width // 4)
        self._width = width
        self._now = now
        cells = [self._list_cells(one) for one in listed]
        self._widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]

    def row(self, one: Listed, palette: Palette, pattern: re.Pattern[str] | None) -> Row:
        """Render a session as ``✓ title …   done   plan 2/5   met 3/4   $0.12   14:05``; text that
        matches ``pattern`` is marked.
        """
        facts = one.facts
        sign, colour = mark_of(facts, palette)
        quiet = ink(palette.quiet)
        right: Row = []
        for number, (text, wide) in enumerate(
            zip(self._list_cells(one), self._widths, strict=True)
        ):
            if wide:
                lit = colour if number == 0 and len(self._widths) > 1 else palette.quiet
                right.append(Segment(" " * _GAP + pad(text, wide), ink(lit)))
        left: Row = [Segment(f"{sign} ", ink(colour))]
        if self._folder:
            left.append(Segment(f"{pad(visible_line(facts.folder), self._folder)}  ", quiet))
        if facts.pinned:
            left.append(Segment("★ ", ink(palette.accent)))
        title = visible_line(facts.title)
        found = ink(palette.accent, bold=True, underline=True)  # the row has a ground of its own
        left += lit_up([Segment(title, ink(palette.text))], pattern, found)
        return two_sided(left, right, self._width)

    def _list_cells(self, one: Listed) -> list[str]:
        """Return the cells after the title; fewer in a narrow window."""
        facts, words = one.facts, self._words
        day = format_day(facts.last_at, self._now)
        if self._width < _STATE:
            return [day]
        state = words("sessions.state.unreadable") if facts.problem else state_words(facts, words)
        if self._width < _ALL_COLUMNS:
            return [state, day]
        plan = requirements = cost = ""
        if facts.plan_steps:
            plan = words("sessions.fact.plan", done=facts.plan_done, steps=facts.plan_steps)
        if facts.requirements:
            requirements = words(
                "sessions.fact.requirements", met=facts.met, count=facts.requirements
            )
        if facts.cost is not None:
            cost = cost_text(facts.cost)
        return [state, plan, requirements, cost, day]


def about_rows(
    one: Listed, width: int, words: Catalogue, palette: Palette, *, place: bool, own: bool
) -> list[Row]:
    """Render the known facts of a session; ``place``: with its workspace, ``own``: it is the open
    session.
    """
    facts = one.facts
    rows: list[Row] = []
    if facts.problem:
        said = state_words(facts, words)
        rows += rows_of([(f"✗ {said}", ink(palette.bad))], width)
    parts: list[str] = []
    if not facts.problem:
        parts.append(words("sessions.this_one") if own else state_words(facts, words))
    if facts.plan_steps:
        plan = words("sessions.fact.plan", done=facts.plan_done, steps=facts.plan_steps)
        parts.append(f"{plan} {facts.plan}")
    if facts.requirements:
        parts.append(words("sessions.fact.requirements", met=facts.met, count=facts.requirements))
    if facts.waiting:
        parts.append(words("sessions.fact.queued", count=facts.waiting))
    if facts.draft:
        parts.append(words("sessions.fact.draft"))
    if facts.forked_from:
        parts.append(words("rewind.fork_of", title=facts.forked_title or facts.forked_from))
    if one.hits:
        parts.append(words("sessions.hits", count=one.hits))
    wide = width >= _ALL_COLUMNS
    parts += [spent_words(facts, words) if wide else "", facts.branch, size_text(facts.size)]
    parts.append(format_time(facts.last_at))
    if facts.missing:
        parts.append(words("sessions.missing", count=facts.missing))
    if wide or not facts.request:
        parts.append(facts.session_id)
    if place:
        parts.append(facts.workspace)
    said = visible_line(" · ".join(filter(None, parts)))
    return rows + rows_of([(said, ink(palette.faint))], width)


@dataclass(frozen=True, slots=True)
class Preview:
    """The texts of a conversation as rows, each with its speaker's label."""

    rows: list[Row]
    speakers: list[Segment]  # of each row
    hit: int | None  # the first row with something that was searched for

    def window(self, top: int, room: int) -> list[Row]:
        """Return ``room`` rows from ``top`` on; the first always shows its speaker."""
        shown = self.rows[top : top + room]
        if shown:
            shown[0] = [self.speakers[top], *shown[0][1:]]
        return shown


def preview_rows(
    pieces: Sequence[Piece],
    width: int,
    words: Catalogue,
    palette: Palette,
    pattern: re.Pattern[str] | None,
) -> Preview:
    """Render texts of a conversation; matches of ``pattern`` are marked, and long texts cut."""
    rows: list[Row] = []
    speakers: list[Segment] = []
    labels = {who: words(f"sessions.who.{who}") for who in ("user", "ai", "tool", "report")}
    wide = max(map(cell_len, labels.values())) + 2
    found: int | None = None
    for piece in pieces:
        text = make_visible(piece.text)
        if piece.who == "tool":
            head, line, printed = text.partition("\n")
            shown = pattern is not None and pattern.search(printed)
            text = words.name_operations(head) + (f"{line}{printed}" if shown else "")
        colour = {"user": palette.accent, "ai": palette.ai}.get(piece.who, palette.faint)
        style = ink(palette.text if piece.who in ("user", "ai") else palette.quiet)
        body = rows_of([(text, style)], max(8, width - wide))
        hit = next((n for n, row in enumerate(body) if _has_match(row, pattern)), None)
        first = max(0, hit - _MOST // 2) if hit is not None else 0
        cut = body[first : first + _MOST]
        if hit is not None and (found is None or piece is pieces[-1]):
            found = len(rows) + hit - first
        left = len(body) - first - len(cut)
        if left:
            said = words("transcript.more_lines", count=left)
            cut.append([Segment(fit(said, width - wide), ink(palette.quiet))])
        lit = [lit_up(row, pattern, ink(palette.on_accent, on=palette.accent)) for row in cut]
        label = pad(labels.get(piece.who, ""), wide)
        rows += prefix_rows(lit, (label, ink(colour)))
        speakers += [Segment(label, ink(colour))] * len(lit)
    return Preview(rows, speakers, found)


def lit_up(row: Row, pattern: re.Pattern[str] | None, style: Style) -> Row:
    """Return the row with matches of the pattern in this style."""
    if pattern is None:
        return row
    for match in pattern.finditer(row_text(row)):
        row = mark_row(row, match.start(), match.end(), style)
    return row


def pattern_of(query: str) -> re.Pattern[str] | None:
    """Return a pattern that matches the words of a query, ignoring case; None for an empty
    query.
    """
    words = sorted(set(query.split()), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, words)), re.IGNORECASE) if words else None


def _has_match(row: Row, pattern: re.Pattern[str] | None) -> bool:
    """Whether the row contains a match."""
    return pattern is not None and pattern.search(row_text(row)) is not None
