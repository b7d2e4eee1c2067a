"""What the page of decisions, its filter and its export say of one decision."""

from __future__ import annotations

from typing import Any

import pytest
from support.decision_states import GIVEN, KEPT, NOW, decided, ended_call, ruled
from support.plans import FIX

from duckflow_tui.safety.hosts import ON_NETWORK
from duckflow_tui.session.decisions import (
    decisions_markdown,
    format_counts,
    granted_words,
    list_uses,
    make_search_text,
    why_words,
)
from duckflow_tui.session.records import Redact
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.audit import AuditCounts, AuditEntry, AuditKind, list_decisions
from duckflow_tui.state.gates import ROUTINE, Grant
from duckflow_tui.words.catalogue import Catalogue

EN = Catalogue("en")
AS_IT_IS: Redact = str
NETWORK = "the network for commands in the sandbox"


def entry(kind: AuditKind = AuditKind.APPROVED, **fields: Any) -> AuditEntry:
    values: dict[str, Any] = {"ref": "r", "kind": kind, "at": 0.0, "what": "shell.run"}
    return AuditEntry(**(values | fields))


def why(kind: AuditKind = AuditKind.APPROVED, **fields: Any) -> str:
    return why_words(decided().state, entry(kind, **fields), EN)


ASKS = "It asks: a command outside the folder needs your approval in standard mode."


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        (AuditKind.OWN, {}, "It did not ask: you ran it yourself."),
        (AuditKind.ANSWERED, {}, ""),  # a card, which no policy judges
        (AuditKind.DENIED, {"ruling": ruled("deny", "", "protected")}, "the place is protected"),
        (
            AuditKind.DENIED,
            {"ruling": ruled("deny", "", "of_later")},
            "denied by the policy in standard mode.",
        ),
        (
            AuditKind.RULE,
            {"ruling": ruled("allow", "write inside", "granted", KEPT.grant_id, GIVEN.grant_id)},
            "your rule allows it: edit CHANGELOG.md, edit src/shop/pricing.py",
        ),
        (AuditKind.NAMED, {"ruling": ruled("allow", "shell named")}, "the command line names it"),
        (
            AuditKind.MODE,
            {"ruling": ruled("allow", "read inside")},
            "reading in the folder needs no approval in standard mode.",
        ),
        (
            AuditKind.MODE,
            {"ruling": ruled("allow", "of later")},
            "It did not ask: shell needs no approval in standard mode.",
        ),
        (
            AuditKind.APPROVED,
            {"ruling": ruled("gate", "shell", "secret")},
            "in every mode, whatever the rules: a secret file.",
        ),
        (
            AuditKind.APPROVED,
            {"ruling": ruled("gate", "shell", "of_later")},
            "in every mode, whatever the rules: of_later.",
        ),
        (
            AuditKind.DENIED,
            {"ruling": ruled("gate", "shell")},
            f"{ASKS} Nobody was there to give it, so it was denied.",
        ),
        (
            AuditKind.REFUSED,
            {"ruling": ruled("gate", "shell")},
            f"{ASKS} No rule can allow it for you.",
        ),
        (
            AuditKind.REFUSED,
            {"ruling": ruled("gate", "shell"), "ruleable": True, "no_rule": "of_later"},
            f"{ASKS} A rule could have allowed it; there was none.",
        ),
        (
            AuditKind.REFUSED,
            {"ruling": ruled("gate", "shell"), "ruleable": True, "no_rule": "not_named"},
            f"{ASKS} A rule could have allowed it; there was none.",
        ),
        (
            AuditKind.REFUSED,
            {"ruling": ruled("gate", "shell"), "no_rule": "cd"},
            f"{ASKS} No rule possible: outside the folder the rules cover.",
        ),
    ],
)
def test_why_a_call_was_asked_about_or_not_is_a_sentence(
    kind: AuditKind, fields: dict[str, Any], said: str
) -> None:
    """Also where a later version of the program gave a reason that has no words here."""
    told = why(kind, **fields)
    assert told.endswith(said) if said.endswith(".") else said in told
    assert bool(told) == bool(said)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (f"{ON_NETWORK}a.example b.example", f"{NETWORK}: a.example, b.example"),
        (ROUTINE, "every edit inside the folder, and every command there in the sandbox"),
        ("//edits", "every edit inside the folder"),
        ("*sandbox", "every command inside the folder, in the sandbox"),
        ("*sandbox make test", "only make test, in the sandbox"),
        ("make test", ""),
    ],
)
def test_what_a_rule_allows_that_is_about_no_single_thing(what: str, said: str) -> None:
    told = granted_words(what, EN)
    assert told.startswith(said)
    assert bool(told) == bool(said)


def rule_of_the_command_line(path: str) -> Grant:
    return KEPT.replace(source="command_line", operation="--allow", path=path)


def test_the_calls_that_a_rule_let_happen_are_found_and_no_others() -> None:
    """A rule of the command line is known by what it names, for it is in no ruling."""
    named, mcp = ruled("allow", "shell named"), "mcp.net.double"
    calls = [
        ended_call(1, "shell.run", {"command": "pytest -q"}, named),
        ended_call(2, "shell.run", {"command": "cd src && pytest -q"}, named),
        ended_call(3, "shell.run", {"command": "make"}, named),
        ended_call(4, "shell.run", {"command": "pytest -q"}, ruled("gate", "shell named")),
        ended_call(5, "shell.run", {"command": "pytest -q"}, ruled("allow", "shell held")),
        ended_call(6, "shell.run", {"command": "pytest -q"}, None, by_user=True),
        ended_call(7, mcp, {"command": "pytest -q"}, ruled("allow", "mcp named")),
        ended_call(8, "mcp.net.halve", {}, ruled("allow", "mcp named", "granted", "grant_9")),
    ]
    state = AgentState()
    state.messages = [*decided().state.messages[:1], *calls]

    def used(rule: Grant) -> list[int]:
        return [int(call.call_id[-1]) for call in list_uses(state, rule)]

    assert used(rule_of_the_command_line("pytest -q")) == [1, 2]
    assert used(rule_of_the_command_line("mcp.net.*")) == [7, 8]
    assert used(rule_of_the_command_line(mcp)) == [7]
    assert used(KEPT.replace(grant_id="grant_9")) == [8]
    assert used(KEPT) == []


def test_a_filter_looks_at_all_words_of_a_decision() -> None:
    state = decided().state
    state.undone_calls = ("call_1",)
    fields: dict[str, Any] = {
        "subject": "Make Test",
        "why": "To see",
        "said": "Not now",
        "place": "call_1",
    }
    text = make_search_text(state, entry(at=NOW, choice="session", outcome="ok", **fields), EN)
    for said in (
        "approved",
        "allowed for this session",
        "shell ",
        "shell.run",
        "make test",
        "to see",
    ):
        assert said in text
    for said in ("not now", "undone", " asked", "2025-06-15 15:06"):
        assert said in text
    assert "step " not in text
    assert "step 2" in make_search_text(state, entry(step_id=FIX), EN)
    unasked = make_search_text(state, entry(AuditKind.RULE, subject="x", outcome="ok"), EN)
    assert "auto-allowed" in unasked
    assert "undone" not in unasked
    assert "1970" not in unasked  # no time is known
    neither = make_search_text(state, entry(AuditKind.OWN), EN)
    assert "asked" not in neither


def test_figures_name_only_what_happened() -> None:
    assert format_counts(AuditCounts(), EN) == "asked 0"
    assert format_counts(AuditCounts(unasked=2, denied=1, undone=3), EN) == (
        "asked 0 · auto-allowed 2 · denied 1 · undone 3"
    )
    assert (
        format_counts(AuditCounts(asked=3, approved=2), EN)
        == "asked 3 · approved 2 (67 %) · rejected 0"
    )


def test_a_row_of_the_export_says_when_what_and_why() -> None:
    state = decided().state
    lines = decisions_markdown(state, EN, AS_IT_IS).splitlines()
    rows = dict(
        zip(
            [e.ref for e in list_decisions(state)],
            lines[-len(list_decisions(state)) :],
            strict=True,
        )
    )
    assert rows["call_00000003"].startswith(
        "| 2025-06-15 14:59 | approved · allowed once · undone | edit `src/shop/cart.py` | "
    )
    assert "step 2: " in rows["call_00000002"]
    assert "you: “keep the old names”" in rows["call_00000004"]
    assert " | edit `CHANGELOG.md` | " in rows["rule_0"]
    state.rule_log = state.rule_log[:1]
    state.mode_log = ()
    state.messages = []
    state.rule_log = (state.rule_log[0].replace(at=0.0, grant=KEPT.replace(path="a`b [x]")),)
    assert decisions_markdown(state, EN, AS_IT_IS).splitlines()[-1] == (
        "|  | rule · this project | edit a`b \\[x\\] |  |"
    )
