"""``/decisions``: the session's approvals, refusals, rules and undone calls, and counts of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from rich.cells import cell_len

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
from duckflow_tui.state.store import Store
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.strips import Row, fit, pad
from duckflow_tui.ui.screens.list_source import PageAction, StateSource, make_row, render_facts
from duckflow_tui.words.catalogue import Catalogue

_WIDE: Final = 64  # cells of a page from which the time has a column


class DecisionSource(StateSource[AuditEntry]):
    """The decisions of the session, newest first, with counts of each kind."""

    TITLE: ClassVar[str] = "decisions.title"
    EMPTY: ClassVar[str] = "decisions.none"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._read: tuple[object, ...] = ()  # what the entries were made of
        self._entries: dict[str, AuditEntry] = {}
        self._counts: dict[str, AuditCounts] = {}

    def get_main_action(self, item: AuditEntry) -> PageAction:
        """Return the action that shows the decision in the chat."""
        return self.make_place_action([item.place] if item.place else [])

    def list_actions(self, item: AuditEntry | None) -> Sequence[PageAction]:
        """Return the action that exports the decisions."""
        export = self.make_session_action(
            "keys.sessions_export", lambda _: self.host.action_export(kind="decisions")
        )
        return (export,)

    def render_head(self, width: int) -> list[Row]:
        """Render the counts, and how many decisions match the filter."""
        entries = self.list_items()
        often = format_counts(sum_counts(self._counts.values()), self.words)
        rows = [make_row(width, [(often, self.palette.quiet)])]
        if self.page.query_text:
            shown, count = len(self.page.list_items()), len(entries)
            said = self.words("decisions.filter", shown=shown, count=count)
            rows.append(make_row(width, [(said, self.palette.quiet)]))
        return [*rows, []]

    def list_items(self) -> Mapping[str, AuditEntry]:
        """Return the decisions, newest first; read again when the state has changed."""
        state = self.state
        read = (
            len(state.messages),
            state.undone_calls,
            state.rule_log,
            state.mode_log,
            state.rewound,
        )
        if self._read != read:
            found = list_decisions(state)
            self._read = read
            self._counts = count_decisions(found, state.undone_calls)
            self._entries = {entry.ref: entry for entry in reversed(found)}
        return self._entries

    def get_search_text(self, item: AuditEntry) -> str:
        return make_search_text(self.state, item, self.words)

    def render_row(self, item: AuditEntry, width: int) -> Row:
        look = self.palette, self.words, self.clock.now()
        return render_entry(self.state, item, width, look)

    def render_detail(self, item: AuditEntry, width: int, room: int) -> list[Row]:
        """Render the facts of a decision, and the counts for its kind of call."""
        facts = list_entry_facts(self.state, item, self.palette, self.words)
        often = self._counts.get(item.what)
        if often is not None and item.place:
            said = f"{operation_words(item.what, self.words)}: {format_counts(often, self.words)}"
            facts.append((self.words("decisions.fact.often"), said, self.palette.quiet))
        return render_facts(facts, width, self.palette)


def render_entry(
    state: AgentState, entry: AuditEntry, width: int, look: tuple[Palette, Catalogue, float]
) -> Row:
    """Render ``✓ 14:05  approved  edit src/a.py   undone``. ``look``: palette, words, and the
    present time; a decision of another day shows its date.
    """
    palette, words, now = look
    sign, colour = get_mark(entry.kind, palette)
    then, today = to_datetime(entry.at), to_datetime(now)
    same = then is not None and today is not None and then.date() == today.date()
    at = "" if then is None else f"{then:%H:%M}" if same else f"{then:%m-%d}"
    column = max(cell_len(words(f"decisions.kind.{kind}")) for kind in AuditKind)
    kind = pad(fit(kind_words(entry, words), column), column)
    said = visible_line(f"{what_words(entry, words)} {subject_words(entry, words)}".rstrip())
    left = [
        (f"{sign} ", colour),
        (f"{at:5}  " if width >= _WIDE else "", palette.faint),
        (f"{kind}  ", colour),
        (said, palette.text),
    ]
    marks: list[str] = [words("decisions.undone")] if is_undone(state, entry) else []
    if entry.step_id and width >= _WIDE:
        marks.append(step_words(state, entry.step_id, words).partition(":")[0])
    right = f"  {' · '.join(filter(None, marks))} " if any(marks) else ""
    return make_row(width, left, [(right, palette.quiet)])


def list_entry_facts(
    state: AgentState, entry: AuditEntry, palette: Palette, words: Catalogue
) -> list[tuple[str, str, str]]:
    """Return label, text and colour of each known fact about a decision."""
    then = to_datetime(entry.at)
    sign, colour = get_mark(entry.kind, palette)
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


def get_mark(kind: AuditKind, palette: Palette) -> tuple[str, str]:
    """Return the sign for a kind of decision, and its colour."""
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
