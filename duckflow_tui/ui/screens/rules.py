"""``/rules``: the approval mode, the rules in force, and why calls were asked about or allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final

from duckflow_tui.safety.policy import TABLE, Decision
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.session.decisions import list_uses, rule_words, step_words, why_words
from duckflow_tui.state.audit import AuditEntry, make_entry
from duckflow_tui.state.base import to_datetime
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import DENY, Grant
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.ui.panes.strips import Row
from duckflow_tui.ui.screens.decisions import list_entry_facts, render_entry
from duckflow_tui.ui.screens.list_source import PageAction, StateSource, make_row, render_facts

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine

SHOWN_CALLS: Final = 50  # newest calls; ``/decisions`` lists all
#: Rows of the policy that are shown as one where the mode decides them equally.
_EVERY: Final = {
    "shell": ("shell outside the sandbox", "shell network", "shell held", "shell inside", "shell"),
    "mcp": ("mcp read", "mcp"),
}

Item = ApprovalMode | Grant | AuditEntry


class RuleSource(StateSource[Item]):
    """The approval mode, the rules in force, and the newest calls; the details explain each."""

    TITLE: ClassVar[str] = "rules.title"
    EMPTY: ClassVar[str] = "rules.no_calls"
    _entries: tuple[int, dict[str, AuditEntry]] = (-1, {})  # number of messages, entries

    def list_items(self) -> Mapping[str, Item]:
        """Return the approval mode, the rules and the newest calls."""
        rules = {f"rule {rule.grant_id}": rule for rule in self._list_rules()}
        return {"mode": self.state.mode, **rules, **self._read_calls()}

    def get_main_action(self, item: Item) -> PageAction | None:
        """Return the action that shows the call, or the newest use of the rule, in the chat."""
        match item:
            case ApprovalMode():
                return None
            case Grant():
                places = [m.call_id for m in reversed(list_uses(self.state, item))]
            case AuditEntry():
                places = [item.place]
        return self.make_place_action(places)

    def list_actions(self, item: Item | None) -> Sequence[PageAction]:
        """Return the action that revokes a rule, after a question."""
        if not isinstance(item, Grant):
            return ()

        async def revoke_rule(engine: Engine) -> None:
            """Revoke the rule and report a problem."""
            problem = await engine.rules.revoke_rule(item)
            if self.page.is_mounted:
                self.page.report(self.words.localize(problem))

        asks = self.words("rules.revoke_again")
        return (self.make_session_action("keys.rules_revoke", revoke_rule, question=asks),)

    def render_head(self, width: int) -> list[Row]:
        """Render the approval mode, and whether there are no rules."""
        said = self.words("rules.mode", mode=self.state.mode)
        if not self._list_rules():
            said = f"{self.words('rules.none')} {said}"
        return [make_row(width, [(said, self.palette.quiet)]), []]

    def render_row(self, item: Item, width: int) -> Row:
        """Render a rule with source and uses, the mode with its source, or a call."""
        palette, words = self.palette, self.words
        match item:
            case AuditEntry():
                look = palette, words, self.clock.now()
                return render_entry(self.state, item, width, look)
            case ApprovalMode():
                said, right = words("rules.in_mode", mode=item), self._mode_from()
            case Grant():
                used = len(list_uses(self.state, item))
                uses = words("rules.used", count=used)
                said, right = rule_words(item, words), f"{self._describe_source(item)} · {uses}"
        left = [("◆ ", palette.accent), (said, palette.text)]
        return make_row(width, left, [(f"  {right} ", palette.quiet)])

    def render_detail(self, item: Item, width: int, room: int) -> list[Row]:
        """Render the details of a rule, the mode, or why a call was asked about or not."""
        if isinstance(item, Grant):
            return self._about_rule(item, width)
        if isinstance(item, ApprovalMode):
            return self._about_mode(width)
        palette = self.palette
        why = why_words(self.state, item, self.words)
        rows = [*self.wrap_text(why, width, palette.text), Row()] if why else []
        label = self.words("decisions.fact.because")
        facts = list_entry_facts(self.state, item, palette, self.words)
        return [*rows, *render_facts([f for f in facts if f[0] != label], width, palette)]

    def _about_rule(self, rule: Grant, width: int) -> list[Row]:
        """Render the details of a rule: what it allows or denies, its source, and each use."""
        palette, words = self.palette, self.words
        given = to_datetime(rule.at)
        denies = rule.operation == DENY
        what = visible_line(rule.path) if denies else rule_words(rule, words)
        origin = "typed" if denies and rule.source == "key" else _get_kind(rule)
        facts: list[tuple[str, str, str]] = [
            (words("rules.fact.denies" if denies else "rules.fact.allows"), what, palette.text),
            (words("rules.fact.from"), words(f"rules.from.{origin}"), palette.quiet),
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
        """Render what the approval mode asks about, denies and allows."""
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
            text = self.words("gate.list").join(said)
            facts.append((self.words(f"rules.mode_says.{kind}"), text, palette.quiet))
        return render_facts(facts, width, palette)

    def _mode_from(self) -> str:
        """Return the source of the approval mode in words."""
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
        """Return the source of a rule in words; for a rule of a step, the step."""
        step = step_words(self.state, rule.step_id, self.words).partition(":")[0]
        return step or self.words(f"rules.source.{_get_kind(rule)}")

    def _list_rules(self) -> list[Grant]:
        """Return the rules, newest first, then those of the command line."""
        engine = self.host.session.engine
        return [
            *reversed(self.state.grants),
            *(engine.rules.command_line_rules if engine is not None else ()),
        ]

    def _read_calls(self) -> dict[str, AuditEntry]:
        """Return the newest calls as entries, by reference; cached until a message is added."""
        count = len(self.state.messages)
        if self._entries[0] != count:
            calls = (m for m in reversed(self.state.messages) if isinstance(m, OperationMessage))
            found = map(make_entry, islice(calls, SHOWN_CALLS))
            self._entries = count, {entry.ref: entry for entry in found}
        return self._entries[1]


def _get_kind(rule: Grant) -> str:
    """Return the source of a rule; ``step`` for a rule of a step."""
    return "step" if rule.step_id else rule.source
