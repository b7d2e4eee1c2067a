"""The facts that a request is judged by, what a judge's references lead to, and the judgement."""

from __future__ import annotations

import pytest
from support.model_words import WORDS

from duckflow_tui.prompting.side_replies import SatisfactionReply
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ToldError
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import Message, UserMessage
from duckflow_tui.state.decision import Check
from duckflow_tui.state.gates import (
    ACCEPT,
    REJECT,
    Card,
    CardAnswer,
    CardKind,
    CardMessage,
    CardOption,
)
from duckflow_tui.state.goal import (
    Evidence,
    RequirementItem,
    RequirementState,
    SatisfactionEvaluation,
    TaskObjective,
)
from duckflow_tui.state.operations import (
    Effect,
    FileChange,
    OperationResult,
    OperationSpec,
    Outcome,
)
from duckflow_tui.state.plan import Plan
from duckflow_tui.work.checks import Finding
from duckflow_tui.work.judge_facts import Fact, collect_facts, format_facts, resolve_reference
from duckflow_tui.work.judgement import find_strongest_run, judge_requirements, read_evaluation

CHANGES = """- changed src/a.py +1 −1
- deleted old.bin
@@ src/a.py 3 def total
-    return 1
+    return 2
@@ src/a.py 40 def other
+    pass"""


def spec(name: str, effect: Effect) -> OperationSpec:
    return OperationSpec(name=name, summary="s", effect=effect, parameters={})


SPECS = [
    spec("file_ops.read_file", Effect.READ),
    spec("file_ops.write_file", Effect.WRITE),
    spec("shell.run", Effect.EXECUTE),
]


def ran(command: str, code: int, text: str = "", **fields: object) -> OperationMessage:
    result = OperationResult(outcome=Outcome.OK, text=text, exit_code=code)
    return call("shell.run", result, command=command, **fields)


def call(operation: str, result: OperationResult, **args: object) -> OperationMessage:
    return OperationMessage(
        call_id=f"call_{operation}", operation=operation, args=dict(args), result=result, at=10.0
    )


def read(path: str) -> OperationMessage:
    return call("file_ops.read_file", OperationResult(outcome=Outcome.OK, text="words"), path=path)


def wrote(path: str) -> OperationMessage:
    change = FileChange(path=path, kind="modify", before="a", after="b")
    result = OperationResult(outcome=Outcome.OK, text="written", changes=(change,))
    return call("file_ops.write_file", result, path=path)


def facts_of(*messages: Message, changes: str = CHANGES, reply: str = "") -> list[Fact]:
    state = AgentState()
    state.messages = list(messages)
    asked = TaskObjective(objective_id="o", original_query="q", created_at=1.0, message_id="m1")
    return collect_facts(state, asked, changes, reply, SPECS, WORDS)


def test_facts_stand_in_the_order_in_which_they_matter_each_with_its_id() -> None:
    said = UserMessage(message_id="m2", text="and keep it short", at=20.0)
    facts = facts_of(read("src/a.py"), wrote("src/a.py"), ran("ls", 0), said, reply="One.\n\nTwo.")
    assert [f.id for f in facts] == ["C1", "C2", "C3", "R1", "S1", "P1", "P2", "U1"]
    text = format_facts(facts)
    assert "C2 src/a.py line 3 def total\n    -    return 1\n    +    return 2" in text
    assert "words" not in text  # files were changed: what was read is only named
    assert "U1 the user said:\n    and keep it short" in text


@pytest.mark.parametrize(("key", "said"), [(ACCEPT, "approved"), (REJECT, "refused")])
def test_an_answer_to_a_change_of_the_plan_is_a_fact(key: CardOption, said: str) -> None:
    kind, at = CardKind.PLAN_CHANGE, 20.0
    card = Card(card_id="c", kind=kind, subject="x", options=(ACCEPT, REJECT), opened_at=at)
    answer = CardAnswer(card_id="c", subject="x", action=key.action, text="both")
    plan = Plan(plan_id="p", name="notes", goal="g", steps=(), created_at=at)
    message = CardMessage(message_id="m2", card=card, plan=plan, answer=answer, at=at)
    told = format_facts(facts_of(message, changes=""))
    assert told == f"U1 the user {said} a change of the plan “notes”\n    both"


def test_where_the_words_are_the_work_what_was_read_stands_there_as_an_excerpt() -> None:
    assert "    words" in format_facts(facts_of(read("src/a.py"), changes="", reply="It adds."))


def test_of_a_command_only_the_newest_run_is_left_and_the_end_of_its_output() -> None:
    long = "x" * 9_000 + "\n1 failed"
    facts = facts_of(ran("pytest -q", 1, "old"), wrote("a.py"), ran("pytest -q", 1, long))
    (run,) = [f for f in facts if f.kind == "run"]
    assert run.text.endswith("1 failed")
    assert len(run.text) < 2_000
    assert run.is_red_suite


def test_a_run_before_the_last_change_says_so_and_binds_nobody() -> None:
    (run,) = [f for f in facts_of(ran("pytest -q", 1), wrote("a.py")) if f.kind == "run"]
    assert "before the last change" in run.title
    assert not run.is_red_suite


FACTS = [
    Fact("C1", "change", "src/a.py line 3", "-  return 1\n+  return 2", source="src/a.py"),
    Fact("R1", "run", "shell.run(command: pytest -q) -> exit 1", "1 failed", source="pytest -q",
         ok=False, exit_code=1, suite=True),
    Fact("P1", "reply", "the reply to the user says:", "猫が好きです、と訳しました。"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reference", "ids"),
    [
        ("C1", ["C1"]),
        ("c1: the value", ["C1"]),
        ("C1, R1", ["C1", "R1"]),
        ("entry 2", ["R1"]),
        ("log 3", ["P1"]),
        ("2", ["R1"]),
        ("src/a.py", ["C1"]),
        ("a.py:3", ["C1"]),
        ("src/a.py:3: return 2", ["C1"]),
        ("`return 2`", ["C1"]),
        ("«return   2»", ["C1"]),
        ("**1 failed**", ["R1"]),
        ("pytest -q", ["R1"]),
        ("reply", ["P1"]),
        ("「猫が好きです、と訳しました」", ["P1"]),
        ("Z9", []),
        ("C7", []),
        ("the moon is full", []),
        ("", []),
    ],
)
def test_a_reference_is_resolved_where_it_can_be(reference: str, ids: list[str]) -> None:
    assert [fact.id for fact in resolve_reference(reference, FACTS)] == ids


def item(key: str = "r1", priority: int = 1, **fields: object) -> RequirementItem:
    return RequirementItem(requirement_id=key, requirement="it is so", priority=priority).replace(
        **fields
    )


def said(overall: float = 1.0, *refs: str, **scores: float) -> SatisfactionEvaluation:
    return SatisfactionEvaluation(
        overall_score=overall,
        requirement_scores=scores,
        evidence=dict.fromkeys(scores, refs),
    )


GREEN = FACTS[:1]


@pytest.mark.parametrize(
    ("scores", "score", "done"),
    [
        ((0.8, 0.8, 0.8), 0.8, True),
        ((0.79, 0.8, 0.8), 0.795, False),
        ((1.0, 1.0, 0.0), 5 / 6, True),  # a wish may stay open
        ((1.0, 0.49, 1.0), (3 + 0.98 + 1) / 6, False),  # no P2 under one half
        ((0.49, 1.0, 1.0), (1.47 + 3) / 6, False),
    ],
)
def test_done_is_eight_tenths_and_no_must_or_should_under_one_half(
    scores: tuple[float, float, float], score: float, done: bool
) -> None:
    items = [item(f"r{n}", n) for n in (1, 2, 3)]
    named = {f"r{n}": value for n, value in enumerate(scores, 1)}
    found = judge_requirements(items, GREEN, said(1.0, "C1", **named), {})
    assert abs(found.score - score) < 1e-5
    assert found.done is done


def test_form_lowers_no_score_what_leads_nowhere_is_a_mark() -> None:
    found = judge_requirements([item()], GREEN, said(1.0, "Z9", r1=0.9), {})
    assert (found.score, found.done, found.unproven) == (0.9, True, ("r1",))
    assert found.items[0].is_unproven


def test_the_fact_itself_stands_beside_the_requirement() -> None:
    (judged,) = judge_requirements([item()], GREEN, said(1.0, "C1", r1=0.9), {}).items
    (fact,) = judged.evidence
    assert (fact.fact, fact.kind, fact.source, fact.text) == (
        "C1",
        "diff",
        "src/a.py",
        FACTS[0].text,
    )


RED = Finding("refuted", "text not found", Evidence(kind="file", text="", supports=False))
MET = Finding("met", "it is there", Evidence(kind="file", text="it"))
CLOSED = Finding("unchecked", "nobody was there")
CHECK = Check(kind="file_contains", value="a.py: x")


@pytest.mark.parametrize(
    ("by_user", "finding", "given", "level", "done"),
    [
        (True, RED, 1.0, 0.0, False),
        (True, MET, 0.2, 1.0, True),
        (True, CLOSED, 1.0, 1.0, False),  # the user's own check was not run
        (False, RED, 0.9, 0.9, True),  # no fact of it is among those that the judge saw
        (False, MET, 0.2, 0.2, False),
        (False, CLOSED, 0.9, 0.9, True),
    ],
)
def test_a_check_of_the_user_decides_and_one_of_the_model_is_a_fact(
    by_user: bool, finding: Finding, given: float, level: float, done: bool
) -> None:
    wanted = item(check=CHECK, by_user=by_user)
    found = judge_requirements([wanted], GREEN, said(1.0, "C1", r1=given), {"r1": finding})
    assert (found.items[0].satisfaction_level, found.done) == (level, done)
    assert found.overruled == (("r1",) if by_user and (given >= 0.5) is (finding is RED) and
                            finding is not CLOSED else ())  # fmt: skip
    assert found.wrong_checks == (("r1",) if not by_user and finding is RED else ())
    assert found.unchecked == (("r1",) if by_user and finding is CLOSED else ())


def test_a_red_run_that_the_judge_passes_over_is_never_done() -> None:
    silent = judge_requirements([item()], FACTS, said(1.0, "C1", r1=1.0), {})
    assert (silent.done, silent.unanswered) == (False, ("R1",))
    assert not judge_requirements([item()], FACTS, said(1.0, "C1", "R1", r1=1.0), {}).done
    told = said(1.0, "C1", r1=1.0).replace(quality_assessment="R1 fails for want of a network")
    assert judge_requirements([item()], FACTS, told, {}).done


@pytest.mark.parametrize(
    ("word", "done"),
    [("", False), ("as asked", False), ("K1 looks for blanks that nobody asked for", True)],
)
def test_a_red_check_of_the_model_has_to_be_answered_by_name(word: str, done: bool) -> None:
    facts = [*GREEN, Fact("K1", "check", "the worker's check of r1", ok=False, requirement="r1")]
    given = said(1.0, "C1", r1=0.9).replace(quality_assessment=word)
    found = judge_requirements([item(check=CHECK)], facts, given, {"r1": RED})
    assert (found.items[0].satisfaction_level, found.done) == (0.9, done)
    assert (found.wrong_checks, found.unanswered) == ((("r1",), ()) if done else ((), ("K1",)))


@pytest.mark.parametrize(
    ("named", "done"),
    [("", False), ("Z9", False), ("U1", False), ("U2", True), ("P1", True), ("R1", True)],
)
def test_where_nothing_was_carried_out_a_fact_has_to_show_that_it_is_met(
    named: str, done: bool
) -> None:
    """The user's refusal shows nothing; their own word, such as that they did it, does. A call that
    failed may show why it is met all the same.
    """
    no = OperationResult(outcome=Outcome.REJECTED, text="rejected by the user")
    broke = OperationResult(outcome=Outcome.ERROR, text="old was not found")
    calls = [call("file_ops.write_file", result, path=result.outcome) for result in (no, broke)]
    own = UserMessage(message_id="m2", text="I wrote it myself", at=20.0)
    facts = facts_of(*calls, own, changes="", reply="It is there.")
    given = said(1.0, *([named] if named else []), r1=1.0)
    found = judge_requirements([item()], facts, given, {}, carried_out=False)
    assert (found.done, found.in_vain) == (done, not done)
    assert found.score == 1.0
    assert judge_requirements([item()], facts, given, {}).done


def test_a_low_word_on_the_whole_goes_before_the_parts() -> None:
    found = judge_requirements([item()], GREEN, said(0.3, "C1", r1=1.0), {})
    assert (found.score, found.done) == (0.3, False)


def test_what_nobody_scored_stays_open() -> None:
    found = judge_requirements([item(), item("r2")], GREEN, said(1.0, "C1", r1=1.0), {})
    assert [i.state for i in found.items] == [RequirementState.MET, RequirementState.OPEN]
    assert not found.done


@pytest.mark.parametrize(
    "key", ["r2", "R2", "requirement 2", "要件2", "#2", "r2: it is quick", "It is quick."]
)
def test_a_requirement_is_known_by_its_id_its_place_or_its_words(key: str) -> None:
    items = [item(), item("r2", requirement="it is quick")]
    reply = SatisfactionReply(overall_score=0.9, requirement_scores={key: 0.7})
    assert read_evaluation(reply, items).requirement_scores == {"r2": 0.7}


def test_without_any_score_nothing_is_read() -> None:
    with pytest.raises(ToldError):
        read_evaluation(SatisfactionReply(), [item()])


def test_the_row_says_what_it_rests_on() -> None:
    green = Fact("R2", "run", "t", source="pytest", ok=True, exit_code=0, suite=True)
    other = Fact("R3", "run", "t", source="ls", ok=True, exit_code=0)
    assert [find_strongest_run(f) for f in ([green], [green, FACTS[1]], [other], [])] == [
        "tests", "runs", "runs", "nothing",
    ]  # fmt: skip
