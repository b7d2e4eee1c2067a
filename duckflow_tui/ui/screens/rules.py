"""``/rules``: what may happen without a question, and why a call was asked about or was not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from rich.segment import Segment

from duckflow_tui.safety.policy import TABLE, Decision
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.session.decisions import list_uses, rule_words, step_words, why_words
from duckflow_tui.state.audit import AuditEntry, make_entry
from duckflow_tui.state.base import to_datetime
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import Grant
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.decisions import list_entry_facts, render_entry
from duckflow_tui.ui.screens.list_page import PageAction, StateSource, render_facts

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


class RuleSource(StateSource):
    """The approval mode, the rules in force, then the newest calls; of each call below why it was
    asked about, or was not.
    """

    _entries: tuple[int, dict[str, AuditEntry]] = (-1, {})  # of so many messages

    def get_main_action(self, row_id: str) -> PageAction | None:
        rule, entry = self._find_rule(row_id), self._read_calls().get(row_id)
        places = [entry.place] if entry is not None else []
        if rule is not None:
            places = [m.call_id for m in reversed(list_uses(self.state, rule))]
        if row_id == _MODE:
            return None
        return self.make_action("keys.plan_go_to", lambda: self.go_to_place(places))

    def list_actions(self, row_id: str) -> Sequence[PageAction]:
        rule = self._find_rule(row_id)
        if rule is None:
            return ()
        return (self.make_action("keys.rules_revoke", lambda: self._ask_to_revoke(rule)),)

    def _ask_to_revoke(self, rule: Grant) -> None:
        engine = self.host.session.acting()
        if engine is not None:
            self.page.ask_first(
                self.words("rules.revoke_again"),
                lambda: self.host.spawn(self._revoke_rule(engine, rule), "rules"),
            )

    async def _revoke_rule(self, engine: Engine, rule: Grant) -> None:
        problem = await engine.rules.revoke_rule(rule)
        if self.page.is_mounted:
            self.page.report(self.words.localize(problem))

    def get_title(self) -> str:
        return self.words("rules.title")

    def render_head(self, width: int) -> list[Row]:
        palette = self.palette
        said = self.words("rules.mode", mode=self.state.mode)
        if not self._list_rules():
            said = f"{self.words('rules.none')} {said}"
        return [[Segment(fit(said, width), ink(palette.quiet))], []]

    def get_empty_text(self) -> str:
        return self.words("rules.no_calls")

    def list_ids(self) -> Sequence[str]:
        return [
            _MODE,
            *(f"{_RULE}{rule.grant_id}" for rule in self._list_rules()),
            *self._read_calls(),
        ]

    def render_row(self, row_id: str, width: int) -> Row:
        palette, rule = self.palette, self._find_rule(row_id)
        if row_id == _MODE:
            said = self.words("rules.in_mode", mode=self.state.mode)
            right = Segment(f"  {self._mode_from()} ", ink(palette.quiet))
            left = [Segment("◆ ", ink(palette.accent)), Segment(said, ink(palette.text))]
            return two_sided(left, [right], width)
        if rule is None:
            look = palette, self.words, self.clock.now()
            return render_entry(self.state, self._read_calls()[row_id], width, look)
        used = len(list_uses(self.state, rule))
        key = "rules.used_once" if used == 1 else "rules.used"
        right = f"  {self._describe_source(rule)} · {self.words(key, count=used)} "
        left = [
            Segment("◆ ", ink(palette.accent)),
            Segment(rule_words(rule, self.words), ink(palette.text)),
        ]
        return two_sided(left, [Segment(right, ink(palette.quiet))], width)

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        rule = self._find_rule(row_id)
        if rule is not None:
            return self._about_rule(rule, width)
        if row_id == _MODE:
            return self._about_mode(width)
        palette, entry = self.palette, self._read_calls()[row_id]
        why = why_words(self.state, entry, self.words)
        rows = [*rows_of([(why, ink(palette.text))], width), Row()] if why else []
        label = self.words("decisions.fact.because")
        facts = list_entry_facts(self.state, entry, palette, self.words)
        return [*rows, *render_facts([f for f in facts if f[0] != label], width, palette)]

    def _about_rule(self, rule: Grant, width: int) -> list[Row]:
        palette, words = self.palette, self.words
        given = to_datetime(rule.at)
        facts: list[tuple[str, str, str]] = [
            (words("rules.fact.allows"), rule_words(rule, words), palette.text),
            (words("rules.fact.from"), words(f"rules.from.{_get_kind(rule)}"), palette.quiet),
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
        return render_facts(facts, width, palette)

    def _about_mode(self, width: int) -> list[Row]:
        """The rows of the policy's table for the mode."""
        palette, at = self.palette, list(ApprovalMode).index(self.state.mode)
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
        return render_facts(facts, width, palette)

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

    def _describe_source(self, rule: Grant) -> str:
        step = step_words(self.state, rule.step_id, self.words).partition(":")[0]
        return step or self.words(f"rules.source.{_get_kind(rule)}")

    def _list_rules(self) -> list[Grant]:
        """The newest first; those of the command line last."""
        engine = self.host.session.engine
        return [
            *reversed(self.state.grants),
            *(engine.rules.command_line_rules if engine is not None else ()),
        ]

    def _find_rule(self, name: str) -> Grant | None:
        return next((r for r in self._list_rules() if f"{_RULE}{r.grant_id}" == name), None)

    def _read_calls(self) -> dict[str, AuditEntry]:
        count = len(self.state.messages)
        if self._entries[0] != count:
            calls = (m for m in reversed(self.state.messages) if isinstance(m, OperationMessage))
            found = map(make_entry, islice(calls, SHOWN_CALLS))
            self._entries = count, {entry.ref: entry for entry in found}
        return self._entries[1]


def _get_kind(rule: Grant) -> str:
    return "step" if rule.step_id else rule.source
