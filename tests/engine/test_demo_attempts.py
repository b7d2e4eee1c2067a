"""The demo's request of which a part is missed at first: two attempts, checked for real."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from engine.test_demo_stuck import stuck
from support.demo_play import CODE, Play, play
from support.prepared import UNTOUCHED

from duckflow_tui.compose import Flags, choose, open_session
from duckflow_tui.headless import HeadlessOptions, run
from duckflow_tui.places import Places
from duckflow_tui.scripted.story import plan_request, savings_request
from duckflow_tui.state.gates import CardKind, GateChoice
from duckflow_tui.state.goal import AttemptMessage, RequirementState, Review, ReviewMessage
from duckflow_tui.words.catalogue import Catalogue

PAIRS = pytest.mark.parametrize(("language", "protocol"), [("en", "tools"), ("ja", "json")])
SAVES = "`savings` tells what the discounts take off a price."


def reviews(on: Play) -> list[Review]:
    return [m.review for m in on.state.messages if isinstance(m, ReviewMessage)]


def states(review: Review) -> list[str]:
    return [item.state.value for item in review.items]


@PAIRS
async def test_what_was_missed_is_named_brought_and_proved(
    tmp_path: Path, protocol: str, language: str
) -> None:
    """Covers S1-1, S1-2, S1-12."""
    async with play(tmp_path, protocol=protocol, language=language) as on:
        await on.say(savings_request(language))
        await on.approving(lambda state: state.turn is None)
        end = await on.end()
        first, second = reviews(on)
        assert (first.attempt, first.score, first.done) == (1, 0.75, False)
        assert states(first) == ["met", "met", "refuted"]
        readme = first.items[2].requirement
        assert [lack.what for lack in first.missing] == [readme]
        begun = [m for m in on.state.messages if isinstance(m, AttemptMessage)]
        assert [(m.attempt, m.max_attempts, m.plan.steps) for m in begun] == [
            (2, 3, begun[0].plan.steps)
        ]
        assert readme in begun[0].for_model
        assert "README" in on.replies()[-3]  # the second attempt begins with what was missing
        assert (second.attempt, second.score, second.done) == (2, 1.0, True)
        assert states(second) == ["met"] * 3
        assert (end.outcome, end.satisfaction) == ("done", 1.0)
        objective = on.state.objective
        assert objective is not None
        assert objective.original_query == savings_request(language)
        assert objective.created_at == on.state.messages[0].at
        assert objective.extracted_requirements == second.items
        assert SAVES in on.text("README.md")
        assert on.text().count("def savings(") == 1
        ran = next(fact for fact in second.items[1].evidence if fact.kind == "command")
        assert ran.exit_code == 0
        assert "OK" in ran.text
        line = next(fact for fact in second.items[2].evidence if fact.kind == "file")
        assert SAVES in line.text
        assert "{" not in end.reply.replace("{}", "")
        await on.say(savings_request(language))  # asked again, what is met is not done twice
        await on.approving(lambda state: state.turn is None)
        end = await on.end()
        assert (end.outcome, end.satisfaction, end.files_changed) == ("done", 1.0, ())
        assert {"en": "already in it", "ja": "すでに入っています"}[language] in end.reply


async def test_a_refusal_is_not_gone_around_by_a_further_attempt(tmp_path: Path) -> None:
    async with play(tmp_path) as on:
        before = on.text("README.md")
        await on.say(savings_request("en"))
        for _ in range(2):
            await on.answer(GateChoice.ONCE)
        gate = await on.gate()
        assert [preview.path for preview in gate.previews] == ["README.md"]
        await on.answer(GateChoice.REJECT, reason="not there")
        end = await on.end()
        assert end.outcome == "partial"
        assert on.text("README.md") == before
        assert len(reviews(on)) == 1
        assert on.state.objective is not None
        items = on.state.objective.extracted_requirements
        assert [item.state for item in items][2] is RequirementState.REFUTED


async def test_in_plan_mode_nothing_is_written_and_the_verdict_says_so(tmp_path: Path) -> None:
    async with play(tmp_path, mode="plan") as on:
        before = on.text()
        await on.say(savings_request("en"))
        end = await on.end()
        assert (end.outcome, on.text()) == ("denied", before)
        assert [review.done for review in reviews(on)] == [False]
        assert "nothing was changed" in end.reply


async def test_it_fits_what_the_other_stories_leave(tmp_path: Path) -> None:
    """What they reached is not told of the next request, which gets stuck."""
    async with play(tmp_path) as on:
        await on.say(plan_request("en"))
        await on.answer_card(CardKind.PLAN, "run_all")
        await on.approving(lambda state: state.turn is None)
        assert savings_request("en") in (await on.end()).reply
        await on.say(savings_request("en"))
        await on.approving(lambda state: state.turn is None)
        assert (await on.end()).satisfaction == 1.0
        assert "def loyal_total(" in on.text(CODE)
        assert "`loyal_total`" in on.text("README.md")
        card = await stuck(on)
        assert card.situation is not None
        assert card.situation.achieved == ()


async def without_a_screen(tmp_path: Path, *, as_json: bool) -> tuple[int, str, str]:
    """Exit status, output and errors of a run in trusted mode."""
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path)})
    flags = Flags(workspace=tmp_path, demo=True, headless=True, mode="trusted")
    choice = choose(flags, places, "en", UNTOUCHED)
    out, err = io.StringIO(), io.StringIO()
    options = HeadlessOptions(savings_request("en"), as_json=as_json)
    status = await run(lambda spawn: open_session(choice, spawn), options, Catalogue(), out, err)
    return status, out.getvalue(), err.getvalue()


async def test_without_a_screen_both_attempts_are_told(tmp_path: Path) -> None:
    status, out, err = await without_a_screen(tmp_path, as_json=True)
    assert status == 0, err
    records: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    reviewed = [r["message"]["review"] for r in records if r["kind"] == "objective_reviewed"]
    assert [(r["attempt"], r["score"], r["done"]) for r in reviewed] == [
        (1, 0.75, False),
        (2, 1.0, True),
    ]
    assert [r["message"]["attempt"] for r in records if r["kind"] == "attempt_started"] == [2]
    assert (records[-1]["outcome"], records[-1]["satisfaction"]) == ("done", 1.0)


async def test_in_words_the_review_says_what_was_missing_and_the_reply_stands_alone(
    tmp_path: Path,
) -> None:
    status, out, err = await without_a_screen(tmp_path, as_json=False)
    assert status == 0, err
    # fmt: off
    order = ["Done. `savings()`", "Not yet, attempt 1 of 3: ", "missing: The README says so",
             "Attempt 2 of 3", "The README was missing", "Done: 3 of 3 · tests pass"]
    # fmt: on
    places = [err.index(words) for words in order]
    assert places == sorted(places)
    assert out.startswith("Now all three are there")
    assert "Now all three" not in err
