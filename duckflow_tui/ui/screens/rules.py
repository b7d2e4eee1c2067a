"""``/rules``: what may happen without a question, and why a call was asked about or was not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final

from rich.segment import Segment
from textual.binding import BindingType

from duckflow_tui.safety.policy import TABLE, Decision
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.session.decisions import list_uses, rule_words, step_words, why_words
from duckflow_tui.state.audit import AuditEntry, make_entry
from duckflow_tui.state.base import to_datetime
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import Grant
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.panes.rows import palette_of, two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.board import StateBoard, board_bindings, fact_rows
from duckflow_tui.ui.screens.decisions import entry_facts, entry_row

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine

SHOWN_CALLS: Final = 50  # the newest; ``/decisions`` has the others
_RULE: Final = "rule "  # begins the name of a rule in the list
_MODE: Final = "mode"  # the name of what the approval mode says
#: Rows of the policy that are one thing to a reader where the mode says the same of all of them.
_EVERY: Final = {
    "shell": ("shell outside the sandbox", "shell network", "shell held", "shell inside", "shell"),
    "mcp": ("mcp read", "mcp"),
}


class RuleBoard(StateBoard):
    """The approval mode, the rules in force, then the newest calls; of each call below why it was
    asked about, or was not. A second ``d`` revokes the rule at the cursor.
    """

    SURFACE: ClassVar[Surface] = "rules"
    BINDINGS: ClassVar[list[BindingType]] = board_bindings("rules")

    _entries: tuple[int, dict[str, AuditEntry]] = (-1, {})  # of so many messages

    # --- keys -------------------------------------------------------------------------------

    def choose(self, name: str) -> None:
        self._said = ""
        super().choose(name)

    def action_go_to(self) -> None:
        rule, entry = self._rule(self.chosen), self._calls().get(self.chosen)
        places = [entry.place] if entry is not None else []
        if rule is not None:
            places = [m.call_id for m in reversed(list_uses(self.state, rule))]
        if self.host.bench.go_to(places):
            self.dismiss(None)
        else:
            self.report(self.words("decisions.no_place"))

    def action_revoke(self) -> None:
        rule = self._rule(self.chosen)
        if rule is None:
            key = "mode_here" if self.chosen == _MODE else "no_rule_here"
            self.report(self.words(f"rules.{key}"))
            return
        engine = self.host.session.acting()
        if engine is not None and self.pressed_twice("revoke"):
            self.host.spawn(self._revoke(engine, rule), "rules")

    async def _revoke(self, engine: Engine, rule: Grant) -> None:
        problem = await engine.rules.revoke_rule(rule)
        if self.is_mounted:
            self.report(self.words.localize(problem))

    # --- what it says -----------------------------------------------------------------------

    def heading(self) -> str:
        return self.words("rules.title")

    def head(self, width: int) -> list[Row]:
        palette = palette_of(self)
        said = self.words("rules.mode", mode=self.state.mode)
        if not self._rules():
            said = f"{self.words('rules.none')} {said}"
        row = [Segment(fit(said, width), ink(palette.quiet))]
        return [*super().head(width)[:1], row, []]

    def empty(self) -> str:
        return self.words("rules.no_calls")

    def names(self) -> Sequence[str]:
        return [_MODE, *(f"{_RULE}{rule.grant_id}" for rule in self._rules()), *self._calls()]

    def item(self, name: str, width: int) -> Row:
        palette, rule = palette_of(self), self._rule(name)
        if name == _MODE:
            said = self.words("rules.in_mode", mode=self.state.mode)
            right = Segment(f"  {self._mode_from()} ", ink(palette.quiet))
            left = [Segment("◆ ", ink(palette.accent)), Segment(said, ink(palette.text))]
            return two_sided(left, [right], width)
        if rule is None:
            look = palette, self.words, self.clock.now()
            return entry_row(self.state, self._calls()[name], width, look)
        used = len(list_uses(self.state, rule))
        key = "rules.used_once" if used == 1 else "rules.used"
        right = f"  {self._source(rule)} · {self.words(key, count=used)} "
        left = [
            Segment("◆ ", ink(palette.accent)),
            Segment(rule_words(rule, self.words), ink(palette.text)),
        ]
        return two_sided(left, [Segment(right, ink(palette.quiet))], width)

    def about(self, name: str, width: int) -> list[Row]:
        if self.asked:
            said = (self.words("rules.revoke_again"), ink(palette_of(self).accent))
            return rows_of([said], width)
        return self.said_rows(width)

    def detail(self, name: str, width: int, room: int) -> list[Row]:
        rule = self._rule(name)
        if rule is not None:
            return self._about_rule(rule, width)
        if name == _MODE:
            return self._about_mode(width)
        palette, entry = palette_of(self), self._calls()[name]
        why = why_words(self.state, entry, self.words)
        rows = [*rows_of([(why, ink(palette.text))], width), Row()] if why else []
        label = self.words("decisions.fact.because")
        facts = entry_facts(self.state, entry, palette, self.words)
        return [*rows, *fact_rows([f for f in facts if f[0] != label], width, palette)]

    def _about_rule(self, rule: Grant, width: int) -> list[Row]:
        palette, words = palette_of(self), self.words
        given = to_datetime(rule.at)
        facts: list[tuple[str, str, str]] = [
            (words("rules.fact.allows"), rule_words(rule, words), palette.text),
            (words("rules.fact.from"), words(f"rules.from.{_kind(rule)}"), palette.quiet),
        ]
        if given:
            facts.append((words("decisions.fact.when"), f"{given:%Y-%m-%d %H:%M}", palette.quiet))
        used = list_uses(self.state, rule)
        for at, call in enumerate(reversed(used)):
            then = to_datetime(call.at)
            time = f"{then:%H:%M}  " if then else ""
            label = "" if at else words("rules.fact.used")
            facts.append((label, f"{time}{visible_line(call.reasoning)}", palette.quiet))
        if not used:
            facts.append((words("rules.fact.used"), words("rules.never_used"), palette.quiet))
        return fact_rows(facts, width, palette)

    def _about_mode(self, width: int) -> list[Row]:
        """The rows of the policy's table for the mode."""
        palette, at = palette_of(self), list(ApprovalMode).index(self.state.mode)
        facts: list[tuple[str, str, str]] = []
        for kind in (Decision.GATE, Decision.DENY, Decision.ALLOW):
            rows = [row.name for row in TABLE if row.decisions[at] is kind]
            whole = {
                row: self.words(f"rules.every.{name}")
                for name, every in _EVERY.items()
                if set(every) <= set(rows)
                for row in every
            }
            said = dict.fromkeys(
                whole.get(row) or self.words(f"rules.row.{row.replace(' ', '_')}") for row in rows
            )
            text = self.words("rules.between").join(said)
            facts.append((self.words(f"rules.mode_says.{kind}"), text, palette.quiet))
        return fact_rows(facts, width, palette)

    def _mode_from(self) -> str:
        """Where the approval mode is from."""
        if self.state.mode_log:
            then = to_datetime(self.state.mode_log[-1][1])
            return self.words("rules.mode_from.set", time=f"{then:%H:%M}" if then else "")
        settings = self.host.options.settings
        origin = settings().origins.get("approval.mode") if settings is not None else None
        if origin is None:
            return self.words("rules.mode_from.default")
        if not origin.name:
            return "--mode"
        return visible_line(f"{origin.name}:{origin.line}" if origin.line else origin.name)

    def _source(self, rule: Grant) -> str:
        step = step_words(self.state, rule.step_id, self.words).partition(":")[0]
        return step or self.words(f"rules.source.{_kind(rule)}")

    def _rules(self) -> list[Grant]:
        """The newest first; those of the command line last."""
        engine = self.host.session.engine
        return [
            *reversed(self.state.grants),
            *(engine.rules.command_line_rules if engine is not None else ()),
        ]

    def _rule(self, name: str) -> Grant | None:
        return next((r for r in self._rules() if f"{_RULE}{r.grant_id}" == name), None)

    def _calls(self) -> dict[str, AuditEntry]:
        count = len(self.state.messages)
        if self._entries[0] != count:
            calls = (m for m in reversed(self.state.messages) if isinstance(m, OperationMessage))
            found = map(make_entry, islice(calls, SHOWN_CALLS))
            self._entries = count, {entry.ref: entry for entry in found}
        return self._entries[1]


def _kind(rule: Grant) -> str:
    return "step" if rule.step_id else rule.source
