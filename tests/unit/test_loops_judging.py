"""The verdict: arithmetic of scores, and evidence before words."""

from __future__ import annotations

import time

import pytest

from duckflow_tui.goals.checks import (
    Finding,
    Satisfaction,
    can_fail,
    judged,
    overall,
    squeezed,
    weighted,
)
from duckflow_tui.goals.requirements import new_items
from duckflow_tui.goals.review import lacking
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.decision import RequirementClaim
from duckflow_tui.state.gates import DiffLine, FilePreview, Hunk
from duckflow_tui.state.goal import (
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
