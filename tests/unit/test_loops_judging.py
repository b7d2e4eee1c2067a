"""The verdict: arithmetic of scores, and evidence before words."""

from __future__ import annotations

import time

import pytest

from duckflow_tui.goals.checks import Finding, can_fail
from duckflow_tui.goals.judging import (
    Satisfaction,
    is_quoted,
    judged,
    lacking,
    overall,
    passed_suites,
    squeezed,
    weighted,
)
from duckflow_tui.goals.requirements import new_items
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.decision import RequirementClaim
from duckflow_tui.state.gates import DiffLine, FilePreview, Hunk
from duckflow_tui.state.goal import (
    Check,
    Evidence,
    RequirementItem,
    RequirementState,
    SatisfactionEvaluation,
    TaskObjective,
)
from duckflow_tui.state.operations import FileChange, OperationResult, Outcome

MET = Finding("met", "green", Evidence(kind="command", text="ok", source="t", exit_code=0))
RED = Finding("refuted", "red", Evidence(kind="command", text="no", source="t", exit_code=1))
UNSEEN = Finding("unchecked", "not allowed")


def item(key: str = "r1", priority: int = 1, level: float = 0.0) -> RequirementItem:
    return RequirementItem(
        requirement_id=key, requirement=f"what {key} asks", priority=priority,
        satisfaction_level=level,
    )  # fmt: skip


def said(overall: float, evidence: str = "", **scores: float) -> SatisfactionEvaluation:
    return SatisfactionEvaluation(
        overall_score=overall,
        requirement_scores=scores,
        evidence=dict.fromkeys(scores, (evidence,)) if evidence else {},
        missing_aspects=("an aspect",),
        completion_recommendation=overall >= 0.8,
    )


REJECTED = said(1.0, r1=1.0, r2=1.0).model_copy(
    update={"verdict": "reject", "completion_recommendation": False}
)


@pytest.mark.parametrize(
    ("levels", "mean"),
    [
        ({1: 1.0, 2: 0.0}, 0.6),
        ({1: 0.0, 2: 1.0}, 0.4),
        ({1: 1.0, 2: 1.0, 3: 0.0}, 5 / 6),
        ({}, 0.0),
    ],
)
def test_the_mean_counts_must_three_should_two_nice_one(
    levels: dict[int, float], mean: float
) -> None:
    """C14."""
    items = [item(f"r{priority}", priority, level) for priority, level in levels.items()]
    assert abs(weighted(items) - mean) < 1e-9


@pytest.mark.parametrize(
    ("evaluation", "findings", "levels", "expected"),
    [
        # without a judge the mean decides
        (None, {}, (1.0, 1.0), Satisfaction(1.0, True)),
        (None, {"r2": RED}, (1.0, 0.0), Satisfaction(0.5, False)),
        # the parts decide, but for a whole that is under one half
        (said(0.8, r1=1.0, r2=1.0), {}, (1.0, 1.0), Satisfaction(1.0, True)),
        (said(0.5, r1=1.0, r2=1.0), {}, (1.0, 1.0), Satisfaction(1.0, True, (), True)),
        (said(0.49, r1=1.0, r2=1.0), {}, (1.0, 1.0), Satisfaction(0.49, False)),
        (said(0.3, r2=1.0), {"r1": MET}, (1.0, 1.0), Satisfaction(0.3, False)),
        # a red check: never more than the mean, and never more than the judge said
        (said(1.0, r2=1.0), {"r1": RED}, (0.0, 1.0), Satisfaction(0.5, False, ("r1",), True)),
        (said(0.2, r1=0.1, r2=1.0), {"r1": RED}, (0.0, 1.0), Satisfaction(0.2, False)),
        # a green check that the judge scored low decides its own requirement, not the whole
        (
            said(0.2, r1=0.0, r2=0.9),
            {"r1": MET},
            (1.0, 0.9),
            Satisfaction(0.2, False, ("r1",)),
        ),
        # the judge's recommendation does not decide, and is told apart
        (said(0.9, r1=0.4, r2=1.0), {}, (0.4, 1.0), Satisfaction(0.7, False, (), True)),
        # no word on the whole stands over what was said of its parts
        (said(1.0, r1=0.8, r2=0.7), {}, (0.8, 0.7), Satisfaction(0.75, False, (), True)),
        (said(1.0, r1=0.8, r2=0.8), {}, (0.8, 0.8), Satisfaction(0.8, True)),
        # a green check raises nothing while another is red
        (
            said(0.2, r1=0.1, r2=0.1),
            {"r1": RED, "r2": MET},
            (0.0, 1.0),
            Satisfaction(0.2, False, ("r2",)),
        ),
        # nor does its verdict
        (REJECTED, {}, (1.0, 1.0), Satisfaction(1.0, True, (), True)),
        (REJECTED, {"r1": RED}, (0.0, 1.0), Satisfaction(0.5, False, ("r1",))),
        # what nobody saw counts half, and is told apart from what is not done
        (
            said(1.0, r1=1.0, r2=1.0),
            {"r1": UNSEEN, "r2": UNSEEN},
            (0.5, 0.5),
            Satisfaction(0.5, False, unproven=True),
        ),
        (
            said(1.0, r1=1.0, r2=1.0),
            {"r1": UNSEEN},
            (0.5, 1.0),
            Satisfaction(0.75, False, unproven=True),
        ),
        (said(1.0, r1=0.2, r2=1.0), {"r1": UNSEEN}, (0.2, 1.0), Satisfaction(0.6, False, (), True)),
        (
            REJECTED,
            {"r1": UNSEEN},
            (0.5, 1.0),
            Satisfaction(0.75, False, mismatch=True, unproven=True),
        ),
    ],
)
def test_evidence_overrules_the_judge_in_both_directions(
    evaluation: SatisfactionEvaluation | None,
    findings: dict[str, Finding],
    levels: tuple[float, float],
    expected: Satisfaction,
) -> None:
    """C14, C15."""
    items = [item("r1", 1, levels[0]), item("r2", 1, levels[1])]
    assert overall(items, findings, evaluation) == expected


@pytest.mark.parametrize(
    ("evaluation", "findings", "vetoes"),
    [
        (said(0.8, r1=0.1, r2=1.0), {"r1": RED}, ("r1",)),
        (said(0.79, r1=0.1, r2=1.0), {"r1": RED}, ()),
        (said(0.3, r1=0.5, r2=1.0), {"r1": RED}, ("r1",)),
        (said(0.3, r2=1.0), {"r1": RED}, ()),
        (said(0.3, r1=0.5, r2=1.0), {"r1": MET}, ()),
        (said(0.3, r1=0.49, r2=1.0), {"r1": MET}, ("r1",)),
        (said(0.3, r2=1.0), {"r1": MET}, ()),
    ],
)
def test_a_check_overruled_what_was_said_of_its_requirement_or_of_the_whole(
    evaluation: SatisfactionEvaluation, findings: dict[str, Finding], vetoes: tuple[str, ...]
) -> None:
    """C15."""
    assert overall([item("r1"), item("r2", 1, 1.0)], findings, evaluation).vetoes == vetoes


@pytest.mark.parametrize(
    ("levels", "score", "done"),
    [
        ([], 1.0, True),
        ([(1, 1.0), (2, 0.5)], 0.8, True),
        ([(1, 1.0), (1, 1.0), (2, 0.49)], 0.8725, False),
        ([(2, 1.0), (2, 1.0), (2, 1.0), (1, 0.49)], 0.83, False),
        ([(1, 1.0), (3, 0.3)], 0.825, True),
        ([(2, 1.0), (3, 0.5)], 0.833333, True),
    ],
)
def test_only_a_wish_may_stay_under_one_half(
    levels: list[tuple[int, float]], score: float, done: bool
) -> None:
    """C14."""
    items = [item(f"r{n}", priority, level) for n, (priority, level) in enumerate(levels)]
    assert overall(items, {}, None) == Satisfaction(score, done)


def test_what_nobody_scored_and_no_check_could_show_is_not_believed() -> None:
    items = [item("r1", 3), item("r2", 1, 1.0)]
    found = overall(items, {"r1": UNSEEN}, said(1.0, r2=1.0))
    assert found == Satisfaction(0.75, False, mismatch=True)


def test_a_check_of_the_users_own_outweighs_nothing_while_another_is_red() -> None:
    items = [item("r1", 1, 1.0).replace(by_user=True), item("r2", 1, 0.0)]
    found = overall(items, {"r1": MET, "r2": RED}, said(0.2, r1=0.0, r2=0.1))
    assert (found.score, found.done) == (0.2, False)


def test_a_green_check_of_the_users_own_outweighs_a_low_word_on_the_whole() -> None:
    """C15."""
    items = [item("r1", 1, 1.0).replace(by_user=True), item("r2", 1, 0.9)]
    found = overall(items, {"r1": MET}, said(0.2, r1=0.0, r2=0.9))
    assert found == Satisfaction(0.95, True, ("r1",), True)


@pytest.mark.parametrize(
    ("finding", "score", "level", "state"),
    [
        (MET, 0.0, 1.0, RequirementState.MET),
        (RED, 1.0, 0.0, RequirementState.REFUTED),
        (None, 0.8, 0.8, RequirementState.MET),
        (None, 0.79, 0.79, RequirementState.PARTLY),
        (None, 0.5, 0.5, RequirementState.PARTLY),
        (None, 0.49, 0.49, RequirementState.REFUTED),
        (UNSEEN, 1.0, 0.5, RequirementState.PARTLY),
        (UNSEEN, 0.3, 0.3, RequirementState.REFUTED),
        (UNSEEN, 0.0, 0.0, RequirementState.REFUTED),
    ],
)
def test_the_state_of_a_requirement_follows_its_check_and_then_its_score(
    finding: Finding | None, score: float, level: float, state: RequirementState
) -> None:
    """Covers S1-15."""
    named = said(0.5, "entry 1: it is so", r1=score)
    made = judged(item(), finding, named, (), 5.0, squeezed("It is so."), places={"1": "It is so."})
    assert (made.satisfaction_level, made.state) == (level, state)


@pytest.mark.parametrize("evidence", ["", "  "])
def test_a_score_without_evidence_stands_and_is_unproven(evidence: str) -> None:
    """Covers S1-15, S1-28."""
    made = judged(item(), None, said(1.0, evidence, r1=1.0), (), 5.0)
    assert (made.satisfaction_level, made.evidence, made.unproven) == (1.0, (), True)


def test_what_nobody_scored_is_open() -> None:
    assert judged(item(), None, said(1.0), (), 5.0) == item()


def change(path: str) -> OperationMessage:
    hunk = Hunk(
        old_start=1, old_count=1, new_start=1, new_count=2,
        lines=(
            DiffLine(mark=" ", old=1, new=1, text="same"),
            DiffLine(mark="+", old=None, new=2, text="new"),
        ),
    )  # fmt: skip
    return OperationMessage(
        call_id=f"call_{path}",
        operation="files.mend",
        args={"path": path},
        previews=(FilePreview(path=path, kind="modify", hunks=(hunk,)),),
        result=OperationResult(
            outcome=Outcome.OK, text="", changes=(FileChange(path=path, kind="modify"),)
        ),
        at=3.0,
    )


def test_a_praised_whole_of_refuted_parts_is_not_done_whatever_their_priority() -> None:
    """Covers S1-28. The model sets the priorities, and the veto of C14 looks at the first only."""
    items = [item("r1", 2, 0.0), item("r2", 2, 0.0), item("r3", 3, 1.0)]
    found = overall(items, {}, said(1.0, r1=0.0, r2=0.0, r3=1.0))
    assert (found.done, found.score) == (False, 0.2)


def test_evidence_carries_the_judges_words_and_the_lines_of_files_it_names() -> None:
    log = [change("a.py"), change("b.py")]
    became = "- changed a.py\n@@ a.py 1\n same\n+old\n@@ b.py 1\n same\n+new"
    named = said(0.9, "b.py: new", r1=0.9)
    there = {"b.py": " same\n+new"}
    made = judged(item(), None, named, log, 7.0, squeezed("new"), changes=became, places=there)
    words, diff = made.evidence
    assert (words.kind, words.text, words.at) == ("judgement", "b.py: new", 7.0)
    assert (diff.kind, diff.source, diff.text, diff.at) == ("diff", "b.py", " same\n+new", 3.0)
    other = said(0.9, "b.py: same", r1=0.9)
    made = judged(item(), None, other, log, 7.0, squeezed("same"), changes=became, places=there)
    assert len(made.evidence) == 1


def test_a_judgement_under_one_half_speaks_against_the_requirement() -> None:
    made = judged(item(), None, said(0.2, "entry 1: nothing", r1=0.2), (), 7.0)
    assert [fact.supports for fact in made.evidence] == [False]


def test_what_is_missing_begins_with_the_musts_and_names_the_check() -> None:
    """Covers S1-9."""
    items = [
        item("r1", 3).model_copy(update={"state": RequirementState.REFUTED}),
        item("r2", 1).model_copy(update={"state": RequirementState.REFUTED}),
        item("r3", 1).model_copy(update={"state": RequirementState.MET}),
    ]
    found = lacking(items, {"r2": RED}, said(0.3))
    assert [(m.what, m.priority) for m in found.missing] == [
        ("what r2 asks (red)", 1),
        ("what r1 asks", 3),
    ]


def test_of_thousands_of_requirements_in_one_decision_only_the_kept_ones_get_ids() -> None:
    """What takes the square of their number would take minutes for these."""
    known = item("r2").model_copy(update={"requirement": "Line  3 says why"})
    objective = TaskObjective(
        objective_id="o", original_query="q", created_at=0.0, extracted_requirements=(known,)
    )
    claims = [RequirementClaim(requirement=f"line {n} says why") for n in range(20_000)]
    before = time.monotonic()
    found, made = new_items(objective, claims * 2)
    assert time.monotonic() - before < 10.0
    assert (found, len(made)) == (19_999, 30)
    assert [m.requirement_id for m in made[:3]] == ["r1", "r3", "r4"]
    assert [m.requirement for m in made[2:4]] == ["line 2 says why", "line 4 says why"]


def test_where_every_requirement_is_met_the_judges_aspects_are_what_is_missing() -> None:
    met = item().model_copy(update={"state": RequirementState.MET})
    assert [m.what for m in lacking([met], {}, said(0.3)).missing] == ["an aspect"]


@pytest.mark.parametrize(
    ("command", "can"),
    [
        ("pytest -q", True),
        ("pytest -q && true", True),
        ("cd src && pytest", True),
        ("true && pytest", True),
        ("echo x | grep y", True),
        ("exit 1", True),
        ("sed -n 1p a.txt", True),
        ("pytest > /dev/null", True),
        ("$(pytest)", True),  # what cannot be read may
        ("true", False),
        ("exit", False),
        ("exit 0", False),
        ("true; exit 0", False),
        ("pytest; true", False),
        ("pytest || echo bad", False),
        ("true || pytest", False),
        ("pytest > log.txt", False),  # it makes what it looks for
        ("tee log.txt", False),
        ("sed -i s/a/b/ a.txt && pytest", False),
    ],
)
def test_a_command_that_cannot_fail_says_nothing_of_the_work(command: str, can: bool) -> None:
    assert can_fail(command) is can


SHOWN = """It says why.
+the reason is half
+x = 2
notes.txt was created (+1 -0 lines)
all 12 tests passed in 3 s"""
PLACES = {
    "notes.txt": "+the reason is half\n+half\n+x = 2",
    "1": "notes.txt was created (+1 -0 lines)",
    "reply": "It says why.",
}


@pytest.mark.parametrize(
    ("quote", "there"),
    [
        # What is long enough is found anywhere, whatever place it names, in any spacing or case.
        ("the reason is half", True),
        ("THE  reason\tis half", True),
        ("elsewhere: the reason is half", True),
        ("notes.txt：the reason is half", True),
        ("hereason", True),
        ("ereason", False),
        ("the reason is whole", False),
        ("x: y: the reason is whole", False),
        # By what stands in its quotation marks, and on each side of an ellipsis or a new line.
        ("「It says why.」", True),
        ("the file shows “the reason is half” now", True),
        ("the file shows “the reason is whole” now", False),
        ("the reason is … tests passed", True),
        ("the reason is ... tests passed", True),
        ("the reason is\ntests passed", True),
        ("the reason is … tests failed", False),
        ("the window is … tests passed", False),
        # In another order where three words of four are there, and every number.
        ("12 tests have passed all", True),
        ("entry 1: notes.txt was created, tests passed", True),
        ("13 tests have passed all", False),
        ("tests created half things", True),
        ("tests created other things", False),
        ("passed tests", True),
        ("tests created gone away", False),
        ("happily", False),
        # What is short stands as whole words where it says.
        ("notes.txt: half", True),
        ("NOTES.TXT: HALF", True),
        ("notes.txt: x = 2", True),
        ("notes.txt: x  =  2", True),
        ("entry 1: +1", True),
        ("the reply: why", True),
        ("notes.txt: alf", False),
        ("notes.txt: hal", False),
        ("xnotes.txt: half", False),
        ("notes.txts: half", False),
        ("reply: half", False),
        ("entry 2: +1", False),
        ("entry 11: +1", False),
        # Without a place as a whole line, or several words of one.
        ("half", True),
        ("x = 2", True),
        ("says why", True),
        ("x = 3", False),
        ("why", False),
        ("says", False),
        ("alf", False),
        ("2", False),
        ("", False),
        ("...", False),
    ],
)
def test_a_quote_is_found_by_its_words_and_a_short_one_in_its_place(
    quote: str, there: bool
) -> None:
    """Covers S1-15."""
    assert is_quoted(quote, squeezed(SHOWN), PLACES) is there


def test_a_short_quote_is_nowhere_where_no_places_are_known() -> None:
    assert not is_quoted("half", squeezed(SHOWN))
    assert is_quoted("the reason is half", squeezed(SHOWN))


def run(command: str, text: str, code: int | None = 0, path: str = "") -> OperationMessage:
    changes = (FileChange(path=path, kind="modify"),) if path else ()
    return OperationMessage(
        call_id="call_run",
        operation="shell.run",
        args={"command": command},
        result=OperationResult(outcome=Outcome.OK, text=text, exit_code=code, changes=changes),
        at=3.0,
    )


@pytest.mark.parametrize(
    ("message", "passed"),
    [
        (run("pytest -q", "3 passed in 1 s"), True),
        (run("python -m unittest", "Ran 3 tests\nOK"), True),
        (run("cargo test", "test result: ok. 3 passed"), True),
        (run("go test ./...", "ok  a  0.1s"), True),
        (run("npm test", "12 passing"), True),
        (run("pytest -q", "3 passed, 1 failed"), False),
        (run("pytest -q", "3 passed, 2 errors"), False),
        (run("go test ./...", "ok  a\nFAIL b"), False),
        (run("pytest -q", "no tests ran"), False),
        (run("pytest -q", "0 passed"), False),
        (run("pytest -q", "3 passed", 1), False),
        (run("pytest -q", "3 passed", None), False),
        (run("cat log.txt", "3 passed"), False),
        (run("pytest -q", "3 passed", path="a.py"), False),
        (run("pytest -q", "3 passed").model_copy(update={"operation": "mcp.run"}), False),
    ],
)
def test_a_suite_passed_where_its_output_says_so_and_it_changed_nothing(
    message: OperationMessage, passed: bool
) -> None:
    text = squeezed(message.result.text) if passed else ""
    assert passed_suites([message]) == text
    assert passed_suites([message, change("a.py")]) == ""
    assert passed_suites([change("a.py"), message, run("ls", "a.py")]) == text


def test_all_suites_since_the_last_change_are_taken_together() -> None:
    log = [run("pytest a", "1 passed"), run("pytest b", "2 failed"), run("pytest c", "3 passed")]
    assert passed_suites(log) == "3passed1passed"


@pytest.mark.parametrize(
    ("quote", "claimed", "finding", "suites", "level"),
    [
        ("It says why.", False, None, "", 0.9),
        ("It says where.", False, None, "", 0.45),
        ("It says why.", True, None, "", 0.45),
        ("", False, None, "", 0.9),
        ("", True, None, "", 0.45),
        ("It says why.", False, UNSEEN, "", 0.5),
        ("all 12 tests passed", False, UNSEEN, squeezed("all 12 tests passed"), 0.9),
        ("all 12 tests passed", False, UNSEEN, squeezed("all 13 tests passed"), 0.5),
        ("It says where.", False, UNSEEN, "", 0.45),
        ("", True, MET, "", 1.0),
    ],
)
def test_how_far_a_score_is_taken_depends_on_what_shows_it(
    quote: str, claimed: bool, finding: Finding | None, suites: str, level: float
) -> None:
    """Covers S1-15, S1-1."""
    named = said(0.9, quote, r1=0.9)
    shown = squeezed(SHOWN)
    made = judged(item(), finding, named, (), 5.0, shown, suites, claimed=claimed, places=PLACES)
    assert round(made.satisfaction_level, 6) == level


def test_a_claim_with_a_full_score_is_still_under_one_half() -> None:
    made = judged(item(), None, said(1.0, r1=1.0), (), 5.0, claimed=True)
    assert (made.satisfaction_level, made.state) == (0.49, RequirementState.REFUTED)


def test_one_quote_of_several_is_enough_and_each_is_kept_as_it_was_found() -> None:
    quotes = ("nothing like it anywhere", " ", "It says why.", "elsewhere: nothing")
    named = said(0.5, r1=0.5).model_copy(update={"evidence": {"r1": quotes}})
    made = judged(item(), None, named, (), 5.0, squeezed(SHOWN), places=PLACES)
    assert made.satisfaction_level == 0.5
    assert [fact.found for fact in made.evidence] == [False, True, False]
    assert [fact.supports for fact in made.evidence] == [False, True, False]


BECAME = """- changed a.py
@@ a.py 1 def a():
 one
 two
 three
 four
 five
+the sixth line
 seven
 eight
 nine
 ten
 eleven
@@ a.py 90
+the sixth line
@@ b.py 1
-the sixth line
+ab
@@ c.py 1
+the sixth line"""


def test_of_two_files_the_lines_about_what_is_quoted_are_shown() -> None:
    """At most eight lines, from the same place of the file, and of two files."""
    log = [change("a.py"), change("b.py").model_copy(update={"call_id": "later", "at": 4.0})]
    named = said(0.9, "the sixth line, ab", r1=0.9)
    made = judged(item(), None, named, log, 7.0, squeezed("the sixth line, ab"), changes=BECAME)
    _, first, second = made.evidence
    lines = [" two", " three", " four", " five", "+the sixth line", " seven", " eight", " nine"]
    assert (first.source, first.text.split("\n")) == ("a.py", lines)
    assert (first.call_id, first.at) == ("call_a.py", 3.0)
    assert (second.source, second.text.split("\n")) == ("b.py", ["-the sixth line", "+ab"])
    assert (second.call_id, second.at) == ("later", 4.0)


def test_no_lines_are_shown_of_what_no_quote_names_or_is_not_met_at_all() -> None:
    log, shown = [change("a.py")], squeezed("the sixth line")
    nowhere = said(0.9, "the sixth line of it", r1=0.9)
    made = judged(item(), None, nowhere, log, 7.0, "", changes=BECAME)
    assert [fact.kind for fact in made.evidence] == ["judgement"]
    none = said(0.0, "the sixth line", r1=0.0)
    made = judged(item(), None, none, log, 7.0, shown, changes=BECAME)
    assert [fact.kind for fact in made.evidence] == ["judgement"]


def test_the_lines_that_a_check_of_a_file_looks_for_are_shown() -> None:
    check = Check(kind="file_contains", value="a.py: the sixth line")
    log = [change("a.py")]
    made = judged(item().replace(check=check), MET, None, log, 7.0, changes=BECAME)
    assert [fact.kind for fact in made.evidence] == ["command", "diff", "diff"]
    made = judged(item(), MET, None, log, 7.0, changes=BECAME)
    assert [fact.kind for fact in made.evidence] == ["command"]
