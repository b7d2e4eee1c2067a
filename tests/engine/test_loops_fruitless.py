"""Work that brings nothing: different calls without a hit, checks that say no, talk without action;
and tries that fail, until something moves again.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.pace_talk import (
    LONG,
    changes,
    consultations,
    consulted,
    edit,
    fails,
    files,
    read,
    reads,
)
from support.plan_talk import PROPOSE, answer, begin_plan, plan_reply
from support.session import Session, action, decision, done, script, session

from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.pace import LimitExtended, Pattern

NO = {"ok": False, "reason": "this leads away from the goal"}


def look(*words: str) -> Reply:
    """A decision that searches the project for words."""
    calls = [action("file_ops.search_text", pattern=word) for word in words]
    return decision("I look.", *calls)


def muse(**fields: Any) -> Reply:
    """A decision that goes on and asks for nothing."""
    return decision("One could do this, or that, or both.", **fields)


async def asked_again(s: Session, times: int) -> None:
    """Return once the user was consulted so often."""
    await s.until(lambda state: len(consultations(s)) >= times and bool(state.cards))


async def test_different_searches_without_a_hit_are_the_same_again(tmp_path: Path) -> None:
    """Covers S0-39, S0-55."""
    files(tmp_path / "work", 1)
    searches = [look(f"word{n}") for n in range(16)]
    async with session(tmp_path, script(*searches), environ=LONG) as s:
        await s.engine.send("go")
        _, situation = await consulted(s)
        assert (situation.pattern, situation.loop) == (Pattern.STAGNATION, 8)
        assert situation.cause.code == "nothing_new"
        assert situation.hypothesis is not None
        assert situation.hypothesis.code == "not_there"
        moved = changes(s, "focus")
        assert {cause for cause, _ in moved} == {"fruitless"}
        assert (len(moved), moved[-1][1]) == (8, 0.35)
        await answer(s, "keep_going")
        await asked_again(s, 2)
        # Not for as many as before; by now the focus is low.
        assert [(c.cause.code, c.loop) for c in consultations(s)[1:]] == [("focus_low", 11)]
        s.engine.stop()
        await s.ended()


async def test_many_searches_at_once_are_judged_when_the_model_has_seen_them(
    tmp_path: Path,
) -> None:
    files(tmp_path / "work", 1)
    at_once = [look(*(f"w{n}{m}" for m in range(8))) for n in range(2)]
    async with session(tmp_path, script(*at_once), environ=LONG) as s:
        await s.engine.send("go")
        _, situation = await consulted(s)
        assert (situation.cause.code, situation.loop) == ("nothing_new", 2)
        await answer(s, "stop_work")
        await s.ended()


async def test_a_hit_between_searches_without_one_lets_the_work_go_on(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 3)
    row = [look(f"word{n}") for n in range(6)]
    other = [look(f"other{n}") for n in range(4)]
    replies = [*row, reads(names[0]), *other, reads(names[1]), done("Found.")]
    async with session(tmp_path, script(*replies), environ=LONG) as s:
        assert (await s.turn("go")).outcome == "done"
        assert consultations(s) == []


@pytest.mark.parametrize("calls", [(), (read("f00.py"),)])
async def test_two_times_no_in_its_own_checks_asks_the_user(
    tmp_path: Path, calls: tuple[dict[str, Any], ...]
) -> None:
    """Covers S0-41."""
    files(tmp_path / "work", 1)
    no = [decision("Hm.", *calls, goal_consistency=NO) for _ in range(2)]
    replies = [*no, reads("f00.py"), done("Read.")]
    async with session(tmp_path, script(*replies), environ=LONG) as s:
        await s.engine.send("go")
        shown, situation = await consulted(s)
        assert (situation.pattern, situation.loop) == (Pattern.CONFUSION, 2)
        assert situation.cause.code == "checks_no"
        assert situation.cause.params["reason"] == NO["reason"]
        assert situation.hypothesis is not None
        assert situation.hypothesis.code == "self_contradiction"
        assert len(shown.options) == 5
        assert s.state.turn is not None  # it waits, it has not ended
        assert s.results() == []
        await answer(s, "top_requirement", "read f00.py")
        assert (await s.ended()).outcome == "done"
        assert len(s.results()) == 1


async def test_two_rounds_of_talk_without_an_action_ask_the_user(tmp_path: Path) -> None:
    """Covers S0-41, S0-55, S3-21."""
    names = files(tmp_path / "work", 1)
    replies = [muse(), muse(), reads(names[0]), done("Read.")]
    async with session(tmp_path, script(*replies), environ=LONG) as s:
        await s.engine.send("go")
        _, situation = await consulted(s)
        assert (situation.pattern, situation.loop) == (Pattern.CONFUSION, 2)
        assert situation.cause.code == "no_action"
        assert situation.hypothesis is not None
        assert situation.hypothesis.code == "several_ways"
        assert [cause for cause, _ in changes(s, "focus")] == ["no_action", "no_action"]
        assert s.state.turn is not None
        await answer(s, "tell", "read f00.py")
        assert (await s.ended()).outcome == "done"
        assert "read f00.py" in s.server.of("main")[2].new_text


async def test_a_stubborn_talker_is_asked_about_again(tmp_path: Path) -> None:
    talks = [muse() for _ in range(9)]
    async with session(tmp_path, script(*talks), environ=LONG) as s:
        await s.engine.send("go")
        await consulted(s)
        await answer(s, "other_angle")
        await asked_again(s, 2)
        assert consultations(s)[-1].loop == 5
        await answer(s, "other_angle")
        await asked_again(s, 3)
        s.engine.stop()
        await s.ended()


async def test_a_step_that_only_talks_asks_too(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 1)
    replies = script(
        PROPOSE,
        done("All done."),
        plan=plan_reply("look around"),
        task=(muse(), muse(), reads(names[0]), done("Looked.")),
    )
    async with session(tmp_path, replies, environ=LONG) as s:
        await begin_plan(s)
        await asked_again(s, 1)
        shown, situation = await consulted(s)
        assert shown.step_id
        assert (situation.pattern, situation.cause.code) == (Pattern.CONFUSION, "no_action")
        await answer(s, "tell", "read f00.py")
        assert (await s.ended()).reply == "All done."


# --- many tries ------------------------------------------------------------------------------


async def test_many_tries_ask_once_and_again_only_when_nothing_moves_again(
    tmp_path: Path,
) -> None:
    """Covers S0-42."""
    names = files(tmp_path / "work", 9)
    failing = [fails("a", "b", "c"), fails("d", "e", "f"), fails("g")]
    again = [fails("h", "i", "j"), fails("k", "l", "m"), fails("n")]
    replies = [*failing, *(reads(name) for name in names[:6]), *again]
    async with session(tmp_path, script(*replies), mode="trusted", environ=LONG) as s:
        await s.engine.send("go")
        _, situation = await consulted(s)
        assert (situation.pattern, situation.loop) == (Pattern.TOO_MANY_TRIES, 3)
        assert situation.hypothesis is not None
        assert situation.hypothesis.params == {"count": "7"}
        before = s.state.vitals.stamina
        await answer(s, "different_approach")
        await asked_again(s, 2)
        stamina = [new for _, new in changes(s, "stamina")]
        assert before == stamina[2] < 0.3
        assert stamina[3] == 0.88  # what four of twenty loops leave
        assert (consultations(s)[1].pattern, consultations(s)[1].loop) == (
            Pattern.TOO_MANY_TRIES,
            11,
        )
        await answer(s, "accept_result")
        await s.ended()


async def test_reads_that_cannot_run_cost_less_than_changes(tmp_path: Path) -> None:
    files(tmp_path / "work", 1)
    replies = [reads("gone1", "gone2"), fails("gone3", "gone4"), done("Nothing there.")]
    async with session(tmp_path, script(*replies), mode="trusted", environ=LONG) as s:
        await s.turn("go")
        assert [new for _, new in changes(s, "stamina")][:2] == [0.91, 0.68]


async def test_progress_beside_a_failure_forgets_the_failures_before_it(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 2)
    both = decision("I go on.", read(names[0]), edit("gone4", "x", "y"))
    replies = [fails("gone1", "gone2", "gone3"), both, done("Nothing there.")]
    async with session(tmp_path, script(*replies), mode="trusted", environ=LONG) as s:
        await s.turn("go")
        assert [new for _, new in changes(s, "stamina")][:2] == [0.67, 0.84]


async def test_the_limit_of_a_simple_question_asks_at_once(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 6)
    replies = [reads(name, task_profile="SIMPLE_QUESTION") for name in names]
    last = done("It is in the last one.", task_profile="SIMPLE_QUESTION")
    async with session(tmp_path, script(*replies, last)) as s:
        await s.engine.send("well")
        _, situation = await consulted(s)
        assert (situation.pattern, situation.loop, situation.limit) == (Pattern.LIMIT, 5, 5)
        assert s.events(LimitExtended) == []
        await answer(s, "more_loops")
        assert (await s.ended()).reply == "It is in the last one."


async def test_a_simple_question_that_nobody_can_be_asked_about_grows_as_all_else(
    tmp_path: Path,
) -> None:
    names = files(tmp_path / "work", 6)
    replies = [reads(name, task_profile="SIMPLE_QUESTION") for name in names]
    last = done("It is in the last one.", task_profile="SIMPLE_QUESTION")
    async with session(tmp_path, script(*replies, last), headless=True) as s:
        assert (await s.turn("well")).outcome == "done"
        assert "pace.grown" in s.notices()


async def test_a_sure_model_that_repeats_itself_gains_no_mood(tmp_path: Path) -> None:
    files(tmp_path / "work", 2)
    sure = [reads("f00.py", confidence=1.0) for _ in range(3)]
    replies = [*sure, reads("f01.py", confidence=1.0), done("Read.", confidence=1.0)]
    async with session(tmp_path, script(*replies), environ=LONG) as s:
        await s.turn("go")
        moods = changes(s, "mood")
        # The first read told something; the same again did not, twice; the last one did again.
        values = [0.7] + [new for _, new in moods]
        rises = [after > before for before, after in pairwise(values)]
        assert rises == [True, True, True]
        at = [m.message_id for m in s.state.messages if m.kind == "assistant"]
        moved = [c.refs for c in s.state.vitals.history if c.vital == "mood"]
        assert [refs[0] for refs in moved] == [at[0], at[1], at[4]]
