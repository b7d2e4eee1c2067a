"""``/decisions``: what was approved, refused, done by rule and undone, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, cast

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.session.decisions import (
    choice_words,
    format_counts,
    is_undone,
    kind_words,
    make_search_text,
    operation_words,
    step_words,
    subject_words,
    what_words,
    why_words,
)
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.audit import (
    AuditCounts,
    AuditEntry,
    AuditKind,
    count_decisions,
    list_decisions,
    sum_counts,
)
from duckflow_tui.state.base import to_datetime
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.rows import palette_of, two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad, rows_of
from duckflow_tui.ui.screens.board import StateBoard, board_bindings, fact_rows
from duckflow_tui.words.catalogue import Catalogue

_WIDE: Final = 64  # cells of a page from which the time has a column
_LONGEST: Final = 100  # characters of a filter


def _bindings() -> list[BindingType]:
    """Those of every list, but that no letter leaves: letters are the filter."""
    found = cast("list[Binding]", board_bindings("decisions"))
    kept = [binding for binding in found if binding.action != "leave"]
    return [
        *kept,
        Binding("escape,ctrl+c", "clear_or_leave", show=False),
        Binding("backspace,ctrl+h", "erase", show=False),
    ]


class DecisionBoard(StateBoard):
    """The newest first. What is typed filters them: each word has to be in an entry, in its kind,
    file, command, step or reason.
    """

    SURFACE: ClassVar[Surface] = "decisions"
    BINDINGS: ClassVar[list[BindingType]] = _bindings()

    _filter = ""
    _wrong = False
    _read: tuple[object, ...] = ()  # what the entries were made of
    _entries: dict[str, AuditEntry] = {}  # noqa: RUF012 - replaced whole
    _counts: dict[str, AuditCounts] = {}  # noqa: RUF012

    # --- keys -------------------------------------------------------------------------------

    @property
    def writing(self) -> bool:
        return True

    async def on_key(self, event: events.Key) -> None:
        character = event.character
        if event.is_printable and character is not None:
            event.stop()
            self._set_filter(self._filter + character)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._set_filter(self._filter + " ".join(event.text.split()))

    def action_erase(self) -> None:
        self._set_filter(self._filter[:-1])

    def action_clear_or_leave(self) -> None:
        if self._filter:
            self._set_filter("")
        else:
            self.action_leave()

    def _set_filter(self, text: str) -> None:
        self._filter = text[:_LONGEST]
        self._chosen, self._at = "", 0  # the newest that fits
        self.report("")

    def choose(self, name: str) -> None:
        self._said = ""
        super().choose(name)

    def action_go_to(self) -> None:
        entry = self._entries[self.chosen]
        if entry.place and self.host.bench.go_to((entry.place,)):
            self.dismiss(None)
        else:
            self.report(self.words("decisions.no_place"))

    def action_export(self) -> None:
        if self.host.session.acting() is not None:
            self.host.action_export(kind="decisions")

    def report(self, said: str, *, wrong: bool = True) -> None:
        self._wrong = wrong
        super().report(said)

    # --- what it says -----------------------------------------------------------------------

    def heading(self) -> str:
        return self.words("decisions.title")

    def head(self, width: int) -> list[Row]:
        palette = palette_of(self)
        names = self.names()
        often = format_counts(sum_counts(self._counts.values()), self.words)
        said, line = self.words("decisions.type"), Row()
        if self._filter:
            shown, count = len(names), len(self._entries)
            said = f"  {self.words('decisions.filter', shown=shown, count=count)}"
            line.append(Segment(visible_line(self._filter), ink(palette.text)))
        return [
            *super().head(width)[:1],
            [Segment(fit(often, width), ink(palette.quiet))],
            two_sided(
                [Segment("› ", ink(palette.accent)), *line, Segment(said, ink(palette.quiet))],
                [],
                width,
            ),
            [],
        ]

    def empty(self) -> str:
        return self.words("decisions.no_match" if self._filter else "decisions.none")

    def names(self) -> Sequence[str]:
        self._take(self.state)
        wanted = self._filter.casefold().split()
        if not wanted:
            return list(self._entries)
        return [
            ref
            for ref, entry in self._entries.items()
            if _fits(make_search_text(self.state, entry, self.words), wanted)
        ]

    def _take(self, state: AgentState) -> None:
        read = (
            len(state.messages),
            state.undone_calls,
            state.rule_log,
            state.mode_log,
            state.rewound,
        )
        if self._read != read or not self._read:
            found = list_decisions(state)
            self._read = read
            self._counts = count_decisions(found, state.undone_calls)
            self._entries = {entry.ref: entry for entry in reversed(found)}

    def item(self, name: str, width: int) -> Row:
        look = palette_of(self), self.words, self.clock.now()
        return entry_row(self.state, self._entries[name], width, look)

    def about(self, name: str, width: int) -> list[Row]:
        palette = palette_of(self)
        if not self._said:
            return []
        if self._wrong:
            return self.said_rows(width)
        return rows_of([(f"✓ {visible_line(self._said)}", ink(palette.good))], width)

    def about_none(self, width: int) -> list[Row]:
        return self.about("", width)

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        entry = self._entries[name]
        facts = entry_facts(self.state, entry, palette_of(self), self.words)
        often = self._counts.get(entry.what)
        if often is not None and entry.place:
            said = f"{operation_words(entry.what, self.words)}: {format_counts(often, self.words)}"
            facts.append((self.words("decisions.fact.often"), said, palette_of(self).quiet))
        return fact_rows(facts, width, palette_of(self))


def _fits(text: str, wanted: Sequence[str]) -> bool:
    return all(word in text for word in wanted)


def entry_row(
    state: AgentState, entry: AuditEntry, width: int, look: tuple[Palette, Catalogue, float]
) -> Row:
    """``✓ 14:05  approved  edit src/a.py   undone``; ``look``: colours, words, and what time it
    is: what is of another day has its date.
    """
    palette, words, now = look
    sign, colour = mark_of(entry.kind, palette)
    then, today = to_datetime(entry.at), to_datetime(now)
    left: Row = [Segment(f"{sign} ", ink(colour))]
    if width >= _WIDE:
        same = then is not None and today is not None and then.date() == today.date()
        at = "" if then is None else f"{then:%H:%M}" if same else f"{then:%m-%d}"
        left.append(Segment(f"{at:5}  ", ink(palette.faint)))
    column = max(cell_len(words(f"decisions.kind.{kind}")) for kind in AuditKind)
    kind = kind_words(entry, words)
    left.append(Segment(f"{pad(fit(kind, column), column)}  ", ink(colour)))
    said = visible_line(f"{what_words(entry, words)} {subject_words(entry, words)}".rstrip())
    left.append(Segment(said, ink(palette.text)))
    marks: list[str] = []
    if is_undone(state, entry):
        marks.append(words("decisions.undone"))
    if entry.step_id and width >= _WIDE:
        marks.append(step_words(state, entry.step_id, words).partition(":")[0])
    right = f"  {' · '.join(filter(None, marks))} " if any(marks) else ""
    return two_sided(left, [Segment(right, ink(palette.quiet))] if right else [], width)


def entry_facts(
    state: AgentState, entry: AuditEntry, palette: Palette, words: Catalogue
) -> list[tuple[str, str, str]]:
    """Label, text and colour of all that is known of it."""
    then = to_datetime(entry.at)
    sign, colour = mark_of(entry.kind, palette)
    kind = [kind_words(entry, words), choice_words(entry, words)]
    if is_undone(state, entry):
        kind.append(words("decisions.undone"))
    subject = make_visible(f"{what_words(entry, words)} {subject_words(entry, words)}".rstrip())
    outcome = f"transcript.outcome.{entry.outcome}"
    facts = [
        ("decided", f"{sign} {' · '.join(dict.fromkeys(filter(None, kind)))}", colour),
        ("because", why_words(state, entry, words), palette.text),
        ("you", make_visible(entry.said), palette.text),
        ("model", make_visible(entry.why), palette.quiet),
        ("outcome", words(outcome) if words.has(outcome) else "", palette.quiet),
        ("step", step_words(state, entry.step_id, words), palette.quiet),
        ("what", subject, palette.quiet),
        ("when", f"{then:%Y-%m-%d %H:%M:%S}" if then else "", palette.quiet),
    ]
    return [(words(f"decisions.fact.{name}"), text, color) for name, text, color in facts if text]


def mark_of(kind: AuditKind, palette: Palette) -> tuple[str, str]:
    """A sign, which says the same as its colour."""
    match kind:
        case AuditKind.APPROVED | AuditKind.EDITED:
            return "✓", palette.good
        case AuditKind.REFUSED | AuditKind.DENIED:
            return "✗", palette.bad
        case AuditKind.RULE_GIVEN | AuditKind.RULE_REVOKED | AuditKind.MODE_SET:
            return "◆", palette.accent
        case AuditKind.ALTERNATIVE | AuditKind.ANSWERED:
            return "→", palette.accent
        case AuditKind.OWN:
            return "!", palette.quiet
        case _:
            return "·", palette.quiet
