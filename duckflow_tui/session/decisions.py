"""Formats the decisions of a session, approvals and rules, as text: for the screen, for its filter,
and as Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from duckflow_tui.safety.command_parsing import read_command
from duckflow_tui.safety.hosts import ON_NETWORK
from duckflow_tui.safety.rules import AllowRules
from duckflow_tui.safety.safe_text import SafeText, make_visible, visible_line
from duckflow_tui.session.records import Redact
from duckflow_tui.session.words import format_time
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.audit import (
    ASKED,
    UNASKED,
    AuditCounts,
    AuditEntry,
    AuditKind,
    count_decisions,
    list_decisions,
    sum_counts,
)
from duckflow_tui.state.base import one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import DENY, EDITS, IN_SANDBOX, ROUTINE, Grant
from duckflow_tui.state.plan import Step
from duckflow_tui.words.catalogue import Catalogue

_CELL: Final = 200  # characters in a cell of a table
_MARKUP: Final = re.compile(r"[\[\]<>]")


def kind_words(entry: AuditEntry, words: Catalogue) -> str:
    """Return the outcome of a decision in words, such as "approved", "refused", "by rule"."""
    return words(f"decisions.kind.{entry.kind}")


def choice_words(entry: AuditEntry, words: Catalogue) -> str:
    """Return the user's answer in words, or for a rule its source; empty where it adds nothing to
    the outcome.
    """
    if entry.kind in (AuditKind.RULE_GIVEN, AuditKind.RULE_REVOKED):
        return words(f"rules.source.{entry.choice}")
    said = entry.kind is AuditKind.APPROVED and words.has(f"transcript.answer.{entry.choice}")
    return words(f"transcript.answer.{entry.choice}") if said else ""


def what_words(entry: AuditEntry, words: Catalogue) -> str:
    """Return the verb of an operation, or the name of a card or of an approval mode; empty for a
    rule that covers many kinds of work.
    """
    if entry.kind is AuditKind.MODE_SET:
        return entry.what
    if entry.what in (EDITS, ROUTINE):
        return ""
    return operation_words(entry.what, words)


def subject_words(entry: AuditEntry, words: Catalogue) -> str:
    """Return the subject of a decision: a file, a command, the pattern of a rule."""
    return granted_words(entry.subject, words) or entry.subject


def granted_words(what: str, words: Catalogue) -> str:
    """Return the scope of a rule that covers more than one file or tool, in words; empty for other
    rules.
    """
    if what.startswith(ON_NETWORK):
        hosts = ", ".join(what.removeprefix(ON_NETWORK).split())
        return words("rules.on_network", hosts=visible_line(hosts))
    if what == ROUTINE:
        return words("rules.routine")
    if what == EDITS:
        return words("rules.edits")
    if what == IN_SANDBOX:
        return words("rules.in_sandbox")
    head, _, command = what.partition(" ")
    return (
        words("rules.only_in_sandbox", command=visible_line(command)) if head == IN_SANDBOX else ""
    )


def operation_words(operation: str, words: Catalogue) -> str:
    """Return the verb of an operation as the chat shows it, or the words for the subject
    of a card.
    """
    key = f"decisions.card.{operation}"
    return words(key) if words.has(key) else visible_line(words.name_operations(operation))


def step_words(state: AgentState, step_id: str, words: Catalogue) -> str:
    """Return the step as ``step 2: the loop``; empty for an unknown id."""
    for plan in state.plans:
        for number, step in enumerate(plan.steps, start=1):
            if step_id and step.step_id == step_id:
                return _describe_step(number, step, words)
    return ""


def _describe_step(number: int, step: Step, words: Catalogue) -> str:
    """Return the step as ``step 2: the loop``."""
    return f"{words('plan.step_number', number=number)}: {visible_line(step.name)}"


def why_words(state: AgentState, entry: AuditEntry, words: Catalogue) -> str:
    """Return a sentence that explains, from the policy's ruling, why a call was asked about,
    allowed or denied; empty where nothing is known.
    """
    ruling = entry.ruling
    if entry.kind is AuditKind.OWN:
        return words("rules.why.own")
    if ruling is None:
        key = f"rules.why.none.{entry.outcome}"
        return words(key) if words.has(key) else ""
    row = f"rules.row.{ruling.row.replace(' ', '_')}"
    what = words(row) if words.has(row) else operation_words(entry.what, words)
    if ruling.said == "deny":
        key = f"rules.why.deny.{ruling.code}"
        rules = ", ".join(pattern_of(state, rule, words) for rule in ruling.rules)
        key = key if words.has(key) else "rules.why.deny.other"
        return words(key, mode=ruling.mode, rule=SafeText(rules))
    if ruling.said == "allow":
        if ruling.rules:
            patterns = ", ".join(pattern_of(state, rule, words) for rule in ruling.rules)
            return words("rules.why.granted", rule=patterns)
        key = "rules.why.named" if "named" in ruling.row.split() else "rules.why.allow"
        return words(key, what=what, mode=ruling.mode)
    if ruling.code:
        reason = f"gate.reason.{ruling.code}"
        said = words(reason) if words.has(reason) else ruling.code
        return words("rules.why.always", reason=said)
    asks = words("rules.why.asks", what=what, mode=ruling.mode)
    no_rule = f"gate.fact_value.rule.{entry.no_rule}"
    if entry.kind is AuditKind.DENIED:
        more = words("rules.why.nobody")
    elif entry.no_rule != "not_named" and words.has(no_rule):
        rule = words(no_rule)
        more = words("rules.why.no_rule", rule=f"{rule[:1].upper()}{rule[1:]}")
    else:
        more = words("rules.why.rule_could" if entry.ruleable else "rules.why.rule_never")
    return words("gate.joint").join((asks, more))


def is_undone(state: AgentState, entry: AuditEntry) -> bool:
    """Whether the decision is about a call whose changes the user has undone."""
    return bool(entry.outcome) and entry.place in state.undone_calls


def pattern_of(state: AgentState, grant_id: str, words: Catalogue) -> str:
    """Return the rule with this id in words, also a revoked one; the id itself where it is
    unknown.
    """
    found = (c.grant for c in reversed(state.rule_log) if c.grant.grant_id == grant_id)
    found_one = next(found, None)
    return visible_line(grant_id) if found_one is None else rule_words(found_one, words)


def rule_words(rule: Grant, words: Catalogue) -> str:
    """Return the scope of a rule in words."""
    if said := granted_words(rule.path, words):
        return said
    if rule.operation == DENY:
        return words("rules.denies", what=visible_line(rule.path))
    if rule.source == "command_line":
        return visible_line(rule.path)
    operation, space, what = rule.pattern.partition(" ")
    return visible_line(f"{words.name_operations(operation)}{space}{what}")


def list_uses(state: AgentState, rule: Grant) -> list[OperationMessage]:
    """Return the calls that this rule allowed without a question, oldest first."""
    calls = [
        (m, m.ruling)
        for m in state.messages
        if isinstance(m, OperationMessage) and m.ruling is not None
    ]
    if rule.source != "command_line":
        return [call for call, ruling in calls if rule.grant_id in ruling.rules]
    rules = AllowRules.parse_rules((rule.path,))
    return [
        call
        for call, ruling in calls
        if ruling.said == "allow" and "named" in ruling.row.split() and _is_named(rules, call)
    ]


def _is_named(rules: AllowRules, call: OperationMessage) -> bool:
    """Whether one of the command line's rules names the call: its command, or its operation."""
    if call.operation == "shell.run":
        return rules.has_part(read_command(str(call.args.get("command"))))
    return rules.names_operation(call.operation)


def make_search_text(state: AgentState, entry: AuditEntry, words: Catalogue) -> str:
    """Return all words of an entry that a filter searches, in lower case."""
    undone = words("decisions.undone") if is_undone(state, entry) else ""
    group = "asked" if entry.kind in ASKED else "unasked" if entry.kind in UNASKED else ""
    parts = (
        *(kind_words(entry, words), choice_words(entry, words), what_words(entry, words)),
        *(entry.what, subject_words(entry, words), entry.why, entry.said, undone),
        words(f"decisions.group.{group}") if group else "",
        step_words(state, entry.step_id, words),
        format_time(entry.at),
    )
    return " ".join(parts).casefold()


def format_counts(found: AuditCounts, words: Catalogue) -> str:
    """Format the counts as ``asked 14 · approved 12 (86 %) · refused 2 · unasked 9 · undone 1``.
    Without a question asked, approved and refused are left out, and so are unasked, denied and
    undone of 0.
    """
    parts = [words("decisions.figure.asked", count=found.asked)]
    if found.asked:
        share = round(100 * found.approved / found.asked)
        parts.append(words("decisions.figure.approved", count=found.approved, share=share))
        parts.append(words("decisions.figure.refused", count=found.refused))
    for name in ("unasked", "denied", "undone"):
        if count := getattr(found, name):
            parts.append(words(f"decisions.figure.{name}", count=count))
    return " · ".join(parts)


def decisions_markdown(state: AgentState, words: Catalogue, redact: Redact) -> str:
    """Format the counts and every decision of a session as Markdown, for reviewers of its changes.
    Secrets are redacted and control characters made visible.
    """
    entries = list_decisions(state)
    rows = count_decisions(entries, state.undone_calls)
    names = ("asked", "approved", "refused", "unasked", "denied", "undone")
    head = [words("decisions.column.what"), *(words(f"decisions.column.{name}") for name in names)]
    table = [[operation_words(what, words), *map(str, found)] for what, found in rows.items()]
    blocks = [
        f"## {words('decisions.title')}",
        format_counts(sum_counts(rows.values()), words),
        table_text(head, table) if table else "",
        table_text(
            [words(f"decisions.column.{name}") for name in ("when", "kind", "what", "why")],
            [_make_row(state, entry, words) for entry in entries],
        )
        if entries
        else words("decisions.none"),
    ]
    return redact(make_visible("\n\n".join(filter(None, blocks)))) + "\n"


def _make_row(state: AgentState, entry: AuditEntry, words: Catalogue) -> list[str]:
    """Return one row of the table of decisions as Markdown cells: time, kind, subject, reason."""
    undone = words("decisions.undone") if is_undone(state, entry) else ""
    kind = [kind_words(entry, words), choice_words(entry, words), undone]
    subject = subject_words(entry, words)
    subject = f"`{subject}`" if subject and "`" not in subject else _escape_markdown(subject)
    step = step_words(state, entry.step_id, words)
    said = words("decisions.you_said", said=entry.said) if entry.said else ""
    return [
        format_time(entry.at),
        " · ".join(dict.fromkeys(filter(None, kind))),
        " ".join(filter(None, (what_words(entry, words), subject))),
        _escape_markdown(" · ".join(filter(None, (entry.why, said, step)))),
    ]


def table_text(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format rows as a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_format_cell, line)) + " |" for line in lines)


def _format_cell(text: str) -> str:
    """Return the text on one line, cut to 200 characters, with ``|`` escaped."""
    return visible_line(one_line(text, _CELL)).replace("|", "\\|")


def _escape_markdown(text: str) -> str:
    """Escape brackets, which Markdown would read as a link, an image or HTML."""
    return _MARKUP.sub(r"\\\g<0>", text)
