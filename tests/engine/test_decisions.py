"""What was decided in a session: complete, with its reasons, also after a way back and a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.decision_states import decided
from support.session import Session, action, decision, script, session
from support.session import done as ended

from duckflow_tui.safety.policy import TABLE
from duckflow_tui.session.decisions import decisions_markdown, kind_words, list_uses, why_words
from duckflow_tui.session.export import export_lines, make_export_name
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.audit import (
    UNASKED,
    AuditKind,
    count_decisions,
    list_decisions,
    make_entry,
    sum_counts,
)
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode, Outcome, Ruling
from duckflow_tui.words.catalogue import LANGUAGES, Catalogue

EN = Catalogue("en")


def writes(path: str, text: str = "1") -> dict[str, Any]:
    return action("file_ops.write_file", path=path, content=f"{text}\n")


def told(state: AgentState) -> list[tuple[AuditKind, str]]:
    """What was decided about what, the oldest first."""
    return [(entry.kind, entry.subject) for entry in list_decisions(state)]


def message_id(made: Session, text: str) -> str:
    asked = (m for m in made.state.messages if isinstance(m, UserMessage))
    return next(m.message_id for m in asked if m.text == text)


async def test_gates_rules_refusals_and_effects_are_told_with_who_decided(tmp_path: Path) -> None:
    """Covers S4-66, S4-109. A read that nobody had to decide about is none."""
    four = [writes("a.txt"), writes("a.txt", "2"), writes(".git/config")]
    replies = script(
        decision("I list.", action("file_ops.list_dir", path=".")),
        decision("I write.", *four),
        decision("More.", writes("b.txt")),
        ended(),
    )
    async with session(tmp_path, replies) as made:
        await made.engine.send("write")
        await made.answer(GateChoice.ONLY)
        gate = await made.answer(GateChoice.REJECT, reason="not that one")
        assert gate.previews[0].path == "b.txt"
        await made.ended()
        made.engine.set_mode(ApprovalMode.TRUSTED)
        await made.engine.undo()
        state = made.state
        found = [entry for entry in list_decisions(state) if entry.kind is not AuditKind.RULE_GIVEN]
        assert [(e.kind, e.subject) for e in found] == [
            (AuditKind.APPROVED, "a.txt"),
            (AuditKind.RULE, "a.txt"),
            (AuditKind.DENIED, ".git/config"),
            (AuditKind.REFUSED, "b.txt"),
            (AuditKind.MODE_SET, ""),
        ]
        assert found[3].said == "not that one"
        assert found[3].why == "the request needs it"
        assert all(entry.at > 0 for entry in found)
        (rule,) = state.grants
        assert [call.call_id for call in list_uses(state, rule)] == [found[1].place]
        often = count_decisions(list_decisions(state), state.undone_calls)["file_ops.write_file"]
        assert often == (2, 1, 1, 1, 1, 1)
        assert sum_counts([often, often]).asked == 4
        why = [why_words(state, entry, EN) for entry in found[:4]]
        assert why[1].endswith("your rule allows it: write a.txt")
        assert "the place is protected" in why[2]
        assert why[3].startswith("It asks: changing a file in the folder needs your approval")


async def test_a_way_back_and_a_resume_take_no_decision_away(tmp_path: Path) -> None:
    """Nor does the undo of the way back double one."""
    replies = script(decision("I write.", writes("a.txt"), writes("b.txt")), ended())
    async with session(tmp_path, replies) as made:
        await made.engine.send("write both")
        await made.answer(GateChoice.ONCE)
        await made.until(lambda state: bool(state.gates))
        await made.answer(GateChoice.REJECT)
        await made.ended()
        before = told(made.state)
        assert [kind for kind, _ in before] == [AuditKind.APPROVED, AuditKind.REFUSED]
        assert not await made.engine.rewind.go_back(message_id(made, "write both"))
        assert told(made.state) == before
        session_id, folder = made.session_id, made.ending.folder
        assert folder is not None
    async with session(tmp_path, script(), resume=session_id) as made:
        assert told(made.state) == before
        assert not await made.engine.rewind.undo_rewind()
        assert told(made.state) == before
    text = "\n".join(export_lines(folder, "decisions", EN, str))
    assert "asked 2 · approved 1 (50 %) · rejected 1" in text
    assert make_export_name(session_id, "decisions") == f"duckflow-{session_id}-decisions.md"


def test_the_markdown_fits_a_pull_request_and_holds_no_secret() -> None:
    """Covers S4-109. What a model or a user wrote ends no cell and begins no line."""
    state = decided().state
    hostile = "one | two\n\n## three `\x1b[31m hunter2 ![](http://x)"
    message = state.messages[3]
    state.messages[3] = message.model_copy(update={"reasoning": hostile})
    text = decisions_markdown(state, EN, lambda said: said.replace("hunter2", "[redacted]"))
    lines = text.splitlines()
    assert lines[0] == "## Decisions"
    assert lines[2].startswith("asked 3 · approved 2 (67 %) · rejected 1 · auto-allowed 3")
    assert "| edit | 3 | 2 | 1 | 2 | 0 | 1 |" in lines
    row = next(line for line in lines if "three" in line)
    assert row.startswith(
        "| 2025-06-15 14:58 | allowed by rule | edit `src/shop/pricing.py` | one \\| two ##"
    )
    assert "!\\[\\](http://x)" in row
    assert "hunter2" not in text
    assert "\x1b" not in text
    assert "keep the old names" in next(line for line in lines if "names.py" in line)
    assert all(line.count(" | ") == 6 for line in lines[4 : lines.index("", 4)])


def test_a_call_that_was_skipped_is_not_said_to_have_been_judged() -> None:
    state = decided().state
    call = state.messages[1].model_copy(update={"ruling": None})
    state.messages[:] = [call]
    entry = make_entry(call)  # pyright: ignore[reportArgumentType]  # a call
    skipped = entry.replace(outcome=Outcome.SKIPPED)
    assert "It was not judged" in why_words(state, skipped, EN)


@pytest.mark.parametrize("outcome", [Outcome.SKIPPED, Outcome.INVALID])
def test_a_call_that_never_ran_is_not_said_to_have_run_unasked(outcome: Outcome) -> None:
    """It came behind a no, or could not be read; nobody decided about it."""
    state = decided().state
    call = next(m for m in state.messages if isinstance(m, OperationMessage) and m.allowed)
    never = call.replace(result=call.result.replace(outcome=outcome), allowed="mode", ruling=None)
    state.messages[:] = [never]
    assert kind_words(make_entry(never), EN) == "skipped"
    assert never.call_id not in {entry.place for entry in list_decisions(state)}
    assert make_entry(call).kind in UNASKED


def test_what_no_rule_could_answer_is_said_once() -> None:
    """That no rule names the command says no more than the sentence before it; other causes do."""
    state = decided().state
    ruling = Ruling(said="gate", mode=ApprovalMode.STANDARD, row="shell")
    entry = make_entry(state.messages[1])  # pyright: ignore[reportArgumentType]  # a call
    asked = entry.replace(ruling=ruling, ruleable=True, no_rule="not_named")
    assert why_words(state, asked, EN).endswith("there was none.")
    elsewhere = asked.replace(no_rule="cd")
    assert why_words(state, elsewhere, EN).endswith(
        "No rule possible: outside the folder the rules cover."
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_row_of_the_policy_has_words(language: str) -> None:
    words = Catalogue(language)
    for row in TABLE:
        key = f"rules.row.{row.name.replace(' ', '_')}"
        assert words(key) != key, key
    for kind in AuditKind:
        assert words.has(f"decisions.kind.{kind}")
