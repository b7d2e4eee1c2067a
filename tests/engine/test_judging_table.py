"""Requests of words and of work, judged by judges who answer in many styles, over real HTTP.

Right work ends done at the first review, with at most one call more; wrong work never ends done.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.endpoint import bench
from support.reviews import claim, lacks
from support.session import REPORTED, action, decision, done, script, session
from support.whole import WHOLE, rounds

from duckflow_tui.prompting.side_replies import SatisfactionReply
from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.goal import ReviewMessage
from duckflow_tui.state.prompt import ChatMessage

Style = Callable[[float, str], str]


def _full(score: float, fact: str, **fields: Any) -> dict[str, Any]:
    good = score >= 0.8
    return {
        "overall_score": score,
        "requirement_scores": {"r1": score},
        "evidence": {"r1": [fact]},
        "missing_aspects": [] if good else ["the value is still the old one"],
        "grade": "good" if good else "needs_work",
        "quality_assessment": "as asked" if good else "not as asked",
        "suggestions": [],
        "verdict": "approve" if good else "fix",
        "completion_recommendation": good,
        **fields,
    }


def _json(**change: Callable[[float, str], Any]) -> Style:
    """The full form with some fields written in another way."""

    def write(score: float, fact: str) -> str:
        return json.dumps(_full(score, fact, **{k: f(score, fact) for k, f in change.items()}))

    return write


def _japanese(score: float, fact: str) -> str:
    word = "承認" if score >= 0.8 else "要修正"
    said = {"総合スコア": score, "要件スコア": {"r1": score}, "証拠": {"r1": [fact]}}
    return json.dumps({**said, "不足点": [] if score >= 0.8 else ["値が古いまま"], "判定": word},
                      ensure_ascii=False)  # fmt: skip


def _without(*names: str) -> Style:
    def write(score: float, fact: str) -> str:
        return json.dumps({k: v for k, v in _full(score, fact).items() if k not in names})

    return write


def _as_text(form: str) -> Style:
    return lambda score, fact: form.replace("OBJECT", json.dumps(_full(score, fact)))


STYLES: dict[str, Style] = {
    "as asked": _json(),
    "percent": _json(
        overall_score=lambda s, _: f"{s:.0%}", requirement_scores=lambda s, _: {"r1": f"{s:.0%}"}
    ),
    "of a hundred": _json(
        overall_score=lambda s, _: s * 100, requirement_scores=lambda s, _: {"r1": s * 100}
    ),
    "of ten": _json(
        overall_score=lambda s, _: s * 10, requirement_scores=lambda s, _: {"r1": s * 10}
    ),
    "of ten, said": _json(requirement_scores=lambda s, _: {"r1": f"{s * 10:g}/10"}),
    "of five": _json(
        overall_score=lambda s, _: s * 5, requirement_scores=lambda s, _: {"r1": s * 5}
    ),
    "numbers as text": _json(
        overall_score=lambda s, _: str(s), requirement_scores=lambda s, _: {"R1": str(s)}
    ),
    "words": _json(requirement_scores=lambda s, _: {"r1": "high" if s >= 0.8 else "low"}),
    "truth": _json(requirement_scores=lambda s, _: {"r1": s >= 0.8}),
    "score and reason": _json(requirement_scores=lambda s, _: {"r1": {"score": s, "reason": "so"}}),
    "a list": _json(
        requirement_scores=lambda s, f: [{"id": "r1", "score": s, "evidence": [f]}],
        evidence=lambda s, f: {},
    ),
    "a bare list": _json(requirement_scores=lambda s, _: [s]),
    "by the words": _json(
        requirement_scores=lambda s, _: {"it is as asked": s},
        evidence=lambda _, f: {"it is as asked": f},
    ),
    "nested": lambda s, f: json.dumps({"evaluation": _full(s, f)}),
    "fenced prose": _as_text("I looked at all of it.\n```json\nOBJECT\n```\nThat is my word."),
    "comment": _as_text(
        "{ // the judge\nOBJECT".replace("{ // the judge\nOBJECT", "// the judge\nOBJECT")
    ),
    "python": lambda s, f: repr(_full(s, f)),
    "two objects": _as_text('OBJECT\n{"note": "that is all"}'),
    "japanese": _japanese,
    "grades in other words": _json(
        grade=lambda s, _: "Excellent" if s >= 0.8 else "Poor",
        verdict=lambda s, _: "Pass." if s >= 0.8 else "Fail",
    ),
    "only scores": _without(
        "grade", "verdict", "suggestions", "quality_assessment", "completion_recommendation"
    ),
    "no word on the whole": _without("overall_score"),
    "no parts": _without("requirement_scores"),
    "no evidence": _without("evidence"),
    "quote and place": _json(evidence=lambda _, f: {"r1": [{"quote": "value = 2", "where": f}]}),
    "entry": _json(evidence=lambda _s, _f: {"r1": ["entry 1: value = 2", "nowhere to be found"]}),
    "path and line": _json(evidence=lambda _s, _f: {"r1": "a.py:1"}),
    "invented": _json(evidence=lambda _s, _f: {"r1": ["Z9: the moon is full"]}),
}

WORDS = [
    "What does a.py do?",
    "Should TIMEOUT be 30?",
    "Implement quicksort and show me the code",
    "Insert sort vs. bubble sort: which is faster?",
    "Could you please explain the value in a.py to me?",
    "Change my mind: are tabs better than spaces?",
    "Fix this sentence for me: he go home",
    "Would you add a test here, if it were yours?",
    "Explain how to delete a branch, then remove it from your list",
    "tell me what to update in a.py",
    "a.py は何をしますか？",
    "TIMEOUT の値は30にするべき？",
    "英語に直して: 猫が好きです",
    "a.py を説明してください。",
    "クイックソートを実装して、コードを見せて",
    "この文を修正してもらえますか: 私わ行く",
    "どちらが速いか教えていただけますか",
    "削除と取り消しの違いは？",
    "値を変更するとどうなりますか",
    "設計案を追加で三つ挙げて",
]
WORK = [
    "Set value to 2 in a.py",
    "Could you please set the value in a.py to 2?",
    "value should be 2",
    "I'd like value to be two",
    "a.py: 2 instead of 1",
    "Make it 2, would you?",
    "fix a.py",
    "Why is value not 2? It has to be.",
    "Update a.py and tell me what you did.",
    "please bump value",
    "a.py の value を 2 にして",
    "value を 2 に変更してください。",
    "value は 2 であるべきです",
    "2 に直していただけますか？",
    "a.py を修正",
    "値は 2 でお願いします",
    "value を更新して、何をしたか教えて",
    "なぜ 1 なの？ 2 にしてほしい",
    "a.py に 2 を書いて",
    "2 だとうれしいです",
]
OPENINGS = ("", "Hello! ", "Next: ")


def _cases() -> list[tuple[str, bool, str, bool]]:
    """Request, whether it is work, style, whether the work is right."""
    requests = [(f"{o}{text}", False) for o in OPENINGS for text in WORDS]
    requests += [(f"{o}{text}", True) for o in OPENINGS for text in WORK]
    styles = list(STYLES)
    cases = [
        (text, work, styles[(number + 5 * turn) % len(styles)], (number // 3 + turn) % 3 != 0)
        for turn in range(rounds(3, 1))
        for number, (text, work) in enumerate(requests)
    ]
    return cases if WHOLE else cases[::3] + cases[1::9]


def _script(work: bool, style: str, right: bool) -> Script:
    fact = "C1" if work else "P1"
    score = 0.95 if right else 0.3
    wants = claim("it is as asked")
    edit = {"old": "value = 1\n", "new": "value = 2\n"}
    look = action("file_ops.read_file", path="a.py")
    act = action("file_ops.edit_file", path="a.py", edits=[edit]) if work else look
    rest = (done("value is 2 now."),) * 4
    judge = Reply(text=STYLES[style](score, fact), repeat=True)
    return script(
        decision("I look.", act, requirements=[wants]),
        *rest,
        satisfaction=judge,
        missing=(lacks("the value"),) * 3,
    )


@pytest.mark.parametrize("part", range(4))
async def test_right_work_is_done_and_wrong_work_never_is(tmp_path: Path, part: int) -> None:
    """Covers S1-53, S1-54."""
    failed: list[str] = []
    for number, (text, work, style, right) in enumerate(_cases()[part::4]):
        root = tmp_path / str(number)
        (root / "work").mkdir(parents=True)
        (root / "work/a.py").write_text("value = 1\n")
        async with session(root, _script(work, style, right), mode="trusted", headless=True) as s:
            end = await s.turn(text)
            judged = len(s.server.of("satisfaction"))
            others = len(s.server.of("missing")) + len(s.server.of("requirements"))
            if right and not (end.outcome == "done" and judged <= 2 and not others):
                failed.append(f"{text!r} {style}: {end.outcome} after {judged} judgements")
            if not right and end.outcome != "partial":
                failed.append(f"{text!r} {style}: wrong, and {end.outcome}")
    assert not failed, "\n".join(failed)


async def test_a_judge_of_any_style_is_understood_at_once() -> None:
    replies = tuple(Reply(text=style(0.95, "C1")) for style in STYLES.values())
    async with bench(script(satisfaction=replies)) as at:
        for name in STYLES:
            question = [ChatMessage("user", "?")]
            asked = await at.service.ask(
                "satisfaction", "main", question, SatisfactionReply, llm_id="llm_1"
            )
            assert asked.value is not None, name


@pytest.mark.parametrize(("verdict", "score"), [("approve", 0.7), ("fix", 0.9), ("reject", 0.9)])
async def test_a_verdict_against_its_score_is_asked_about_once(
    verdict: str, score: float, tmp_path: Path
) -> None:
    """Nothing is named as missing; the second answer says which of the two was meant."""
    first = Reply(text=json.dumps(_full(score, "C1", verdict=verdict, missing_aspects=[])))
    script = _script(work=True, style="as asked", right=True)
    judges = (first, *script.replies["satisfaction"])
    script = script.model_copy(update={"replies": {**script.replies, "satisfaction": judges}})
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.py").write_text("value = 1\n")
    async with session(tmp_path, script, mode="trusted", headless=True) as s:
        end = await s.turn("set value to 2")
        asked = s.server.of("satisfaction")
        assert (end.outcome, end.satisfaction, len(asked)) == ("done", 0.95, 2)
        assert f"the verdict is {verdict}" in asked[1].new_text


async def test_a_fact_is_found_by_its_id_in_full_width(tmp_path: Path) -> None:
    judge = Reply(text=json.dumps(_full(0.95, "Ｃ１ を参照")))
    script = _script(work=True, style="as asked", right=True)
    script = script.model_copy(update={"replies": {**script.replies, "satisfaction": (judge,)}})
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.py").write_text("value = 1\n")
    async with session(tmp_path, script, mode="trusted", headless=True) as s:
        end = await s.turn("value を 2 に")
        assert (end.outcome, end.proven) == ("done", True)


async def test_talk_costs_one_call_and_is_an_answer(tmp_path: Path) -> None:
    replies = script(done("4"))
    async with session(tmp_path, replies, headless=True) as s:
        end = await s.turn("2+2?")
        assert (end.outcome, end.llm_calls, end.satisfaction, end.proven) == (
            "answered",
            1,
            None,
            None,
        )


async def test_a_bare_claim_is_an_answer_and_never_done(tmp_path: Path) -> None:
    replies = script(done("I have fixed it in a.py."))
    async with session(tmp_path, replies, headless=True) as s:
        end = await s.turn("fix the bug in a.py")
        assert (end.outcome, len(s.server.of("satisfaction"))) == ("answered", 0)


RED = "python3 -m unittest nowhere"


def facts_of(request: Request) -> str:
    return request.text.rpartition("<facts>")[2].partition("</facts>")[0]


async def test_the_judge_reads_what_the_steps_of_a_plan_said(tmp_path: Path) -> None:
    """The user got it there, and the last reply need not say it again."""
    propose = action("plan_tool.propose", goal="explain", steps=["What a is", "What b is"])
    script = Script(
        replies={
            "main": (decision("I plan.", propose), done("That is all.")),
            "task": (done("a is an apple."), done("b is a bear.")),
            "report": (REPORTED,),
        }
    )
    async with session(tmp_path, script, mode="trusted", headless=True) as s:
        assert (await s.turn("what are a and b?")).outcome == "done"
        (judged,) = s.server.of("satisfaction")
        for said in ("a is an apple.", "b is a bear.", "That is all."):
            assert said in facts_of(judged)


@pytest.mark.parametrize("names_it", [True, False])
async def test_a_red_run_of_the_tests_has_to_be_answered(tmp_path: Path, names_it: bool) -> None:
    """A lenient judge gives full marks; the run is red on the files as they are."""
    edit = [{"old": "value = 1\n", "new": "value = 3\n"}]
    change = action("file_ops.edit_file", path="a.py", edits=edit)
    run = action("shell.run", command=RED)
    named = {"quality_assessment": "R1 names a module that is not there."} if names_it else {}
    said = {"r1": ["C1", "R1"]}  # an id alone gives no reason
    judge = Reply(text=json.dumps(_full(1.0, "C1", evidence=said, **named)), repeat=True)
    replies = script(
        decision("", change, requirements=[claim("value is 2")]),
        decision("", run),
        *(done("It is 2."),) * 4,
        satisfaction=judge,
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.py").write_text("value = 1\n")
    async with session(tmp_path, replies, mode="trusted", headless=True, allow=(RED,)) as s:
        end = await s.turn("set value to 2")
        first, *again = s.server.of("satisfaction")
        assert "R1" in facts_of(first)
        assert (end.outcome == "done") is names_it
        assert bool(again) is not names_it


def wrong_edit(new: str) -> dict[str, Any]:
    return action("file_ops.edit_file", path="a.py", edits=[{"old": "value = 1\n", "new": new}])


HOLDS_TWO = claim("value is 2", kind="file_contains", value="a.py: value = 2")

#: Wrong work of which a fact tells: the requirement, and what the worker does.
TELLING = {
    "a comment only": (HOLDS_TWO, [wrong_edit("value = 1  # is 2\n")]),
    "another value": (HOLDS_TWO, [wrong_edit("value = 3\n")]),
    "nothing but a look": (HOLDS_TWO, [action("file_ops.read_file", path="a.py")]),
    "its own tests are red": (
        claim("value is 2"),
        [wrong_edit("value = 3\n"), action("shell.run", command=RED)],
    ),
    "its own command is red": (
        claim("value is 2", kind="command", value="grep -q 2 a.py"),
        [wrong_edit("value = 3\n")],
    ),
    "half a file": (
        claim("there is a test", kind="file_exists", value="test_a.py"),
        [wrong_edit("value = 2\n")],
    ),
}


@pytest.mark.parametrize("evidence", [{}, {"r1": ["C1", "R1", "K1"]}])
@pytest.mark.parametrize("name", TELLING)
async def test_wrong_work_that_a_fact_tells_of_is_not_done_by_a_lenient_judge(
    tmp_path: Path, name: str, evidence: dict[str, list[str]]
) -> None:
    """Full marks, whether it names no fact or all of them: a red one needs a reason. The judge is
    asked once for each attempt.
    """
    wanted, acts = TELLING[name]
    works = [
        decision("", act, requirements=[wanted] if not n else []) for n, act in enumerate(acts)
    ]
    judge = Reply(text=json.dumps(_full(1.0, "C1", evidence=evidence)), repeat=True)
    replies = script(*works, *(done("It is 2."),) * 3, satisfaction=judge)
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.py").write_text("value = 1\n")
    allowed = (RED, "grep -q 2 a.py")
    async with session(tmp_path, replies, mode="trusted", headless=True, allow=allowed) as s:
        end = await s.turn("set value to 2")
        assert end.outcome == "partial"
        reviews = [m.review for m in s.state.messages if isinstance(m, ReviewMessage)]
        assert all(review.unanswered for review in reviews)
        told = " ".join(lack.what for review in reviews for lack in review.missing)
        assert "shell.run" not in told
        assert {review.met_counts for review in reviews} == {(0, 1)}  # as the verdict says
        assert s.objective.met_counts == (0, 1)
        assert len(s.server.of("satisfaction")) == 2 * len(reviews)


@pytest.mark.parametrize("evidence", [{}, {"r1": ["P1"]}])
async def test_a_requirement_whose_only_change_was_denied_is_not_shown_as_met(
    tmp_path: Path, evidence: dict[str, list[str]]
) -> None:
    """Full marks for no fact or the worker's own words; the verdict says what the list does."""
    looks = action("file_ops.read_file", path="a.py")
    judge = Reply(text=json.dumps(_full(1.0, "C1", evidence=evidence)), repeat=True)
    works = decision("", looks, wrong_edit("value = 2\n"), requirements=[claim("value is 2")])
    replies = script(works, *(done("It is 2."),) * 3, satisfaction=judge)
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.py").write_text("value = 1\n")
    async with session(tmp_path, replies, mode="strict", headless=True) as s:
        end = await s.turn("set value to 2")
        (review,) = [m.review for m in s.state.messages if isinstance(m, ReviewMessage)]
        assert (end.outcome, review.score, review.verdict) == ("denied", 1.0, "failed")
        assert review.met_counts == s.objective.met_counts == (0, 1)
