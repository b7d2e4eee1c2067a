"""What each answer to a consultation does to the turn, the state and the next request."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pace_talk import (
    ANALYSIS,
    DIGEST,
    LONG,
    changes,
    consulted,
    files,
    next_request,
    reads,
    stuck,
)
from support.plan_talk import answer
from support.reviews import WORDS, judged, write
from support.session import Session, decision, done, script, session

from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.conversation import NoticeMessage, UserMessage
from duckflow_tui.state.goal import ObjectiveChanged, RequirementItem
from duckflow_tui.state.memory import WorkingMemoryChanged
from duckflow_tui.state.pace import LimitExtended, Pattern, Situation
from duckflow_tui.state.phase import Phase
from duckflow_tui.state.turn import LoopStarted


async def stuck_session(s: Session, pattern: Pattern) -> Situation:
    """The consultation of this kind, open."""
    await s.engine.send("go")
    _, situation = await consulted(s)
    assert situation.pattern is pattern
    return situation


ENDS = [
    (Pattern.STAGNATION, "stop_work"),
    (Pattern.TOO_MANY_TRIES, "accept_result"),
    (Pattern.LIMIT, "accept_result"),
    (Pattern.LIMIT, "stop_work"),
    (Pattern.TOO_MANY_TRIES, "analyse"),
    (Pattern.LIMIT, "analyse"),
]


@pytest.mark.parametrize(("pattern", "way"), ENDS)
async def test_answers_that_end_the_turn(tmp_path: Path, pattern: Pattern, way: str) -> None:
    """Covers S0-39, S0-42."""
    files(tmp_path / "work", 6)
    replies, environ = stuck(pattern)
    scripted = script(*replies, failure=ANALYSIS)
    async with session(tmp_path, scripted, environ=environ) as s:
        await stuck_session(s, pattern)
        asked = len(s.server.of("main"))
        await answer(s, way)
        end, accepts = await s.ended(), way == "accept_result"
        assert end.reason is not None
        assert (end.outcome, end.reason.code) == (
            ("done", "accepted") if accepts else ("partial", "user")
        )
        assert len(s.server.of("main")) == asked
        assert s.objective.closed is accepts
        shown = [m for m in s.state.messages if isinstance(m, NoticeMessage)]
        analyses = [m.params["cause"] for m in shown if m.key == "consulting.analysis"]
        assert analyses == (["a tool is missing"] if way == "analyse" else [])


async def test_an_analysis_that_no_model_can_make_is_missing_and_said(tmp_path: Path) -> None:
    """The turn ends as the user chose."""
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.LIMIT)
    async with session(tmp_path, script(*replies), environ=environ) as s:
        await stuck_session(s, Pattern.LIMIT)
        await answer(s, "analyse")
        assert (await s.ended()).outcome == "partial"
        assert "consulting.no_analysis" in s.notices()
        assert "consulting.analysis" not in s.notices()


async def test_an_analysis_is_told_what_of_the_request_is_not_met(tmp_path: Path) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.LIMIT)
    scripted = script(*replies, failure=ANALYSIS)
    async with session(tmp_path, scripted, environ=environ) as s:
        await stuck_session(s, Pattern.LIMIT)
        levels = {"met": 1.0, "partly": 0.9, "open": 0.0, "waived": 0.0}
        items = tuple(
            RequirementItem.model_validate(
                {"requirement_id": f"r{n}", "requirement": f"it is {how}", "state": how}
                | {"satisfaction_level": level}
            )
            for n, (how, level) in enumerate(levels.items(), 1)
        )
        changed = s.objective.model_copy(update={"extracted_requirements": items})
        s.store.dispatch(ObjectiveChanged(objective=changed))
        await answer(s, "analyse")
        await s.ended()
        missing = s.server.of("failure")[0].text.partition("<missing>\n")[2]
        assert missing.partition("\n</missing>")[0] == "- it is partly\n- it is open"
        told = [m for m in s.state.messages if isinstance(m, NoticeMessage)][-1]
        assert told.params == {"cause": "a tool is missing", "fix": "install it"}
        assert "Cause: a tool is missing\nFix: install it" in told.for_model


GOES_ON = [
    (Pattern.STAGNATION, "more_info", "do not make the call again"),
    (Pattern.STAGNATION, "other_approach", "completely different approach"),
    (Pattern.LOW_CONFIDENCE, "detailed_requirements", "restate the goal"),
    (Pattern.LOW_CONFIDENCE, "split", "plan_tool.propose"),
    (Pattern.LOW_CONFIDENCE, "other_source", "Look where you have not looked yet"),
    (Pattern.CONFUSION, "top_requirement", "the one requirement that matters most"),
    (Pattern.CONFUSION, "start_over", "wants you to start over"),
    (Pattern.CONFUSION, "tidy_results", "f00 holds a comment"),
    (Pattern.CONFUSION, "other_angle", "two ways of looking at"),
    (Pattern.TOO_MANY_TRIES, "simplify", "made the request simpler"),
    (Pattern.TOO_MANY_TRIES, "different_approach", "completely different approach"),
]
TEXTS = {"more_info", "detailed_requirements", "top_requirement", "simplify", "tell"}


@pytest.mark.parametrize(("pattern", "way", "told"), GOES_ON)
async def test_answers_that_change_what_the_model_is_told(
    tmp_path: Path, pattern: Pattern, way: str, told: str
) -> None:
    """Covers S0-39, S0-40, S0-41, S0-42."""
    files(tmp_path / "work", 6)
    replies, environ = stuck(pattern)
    scripted = script(*replies, done("Then so."), digest=DIGEST)
    async with session(tmp_path, scripted, environ=environ) as s:
        await stuck_session(s, pattern)
        await answer(s, way, "the sum is rounded" if way in TEXTS else "")
        assert (await s.ended()).outcome in ("done", "partial")
        assert told in next_request(s)
        assert ("the sum is rounded" in next_request(s)) is (way in TEXTS)
        words = [m.text for m in s.state.messages if isinstance(m, UserMessage)]
        assert ("the sum is rounded" in words) is (way in TEXTS)


@pytest.mark.parametrize(
    ("pattern", "way"),
    [(Pattern.STAGNATION, "keep_going"), (Pattern.LOW_CONFIDENCE, "keep_approach")],
)
async def test_answers_that_let_it_go_on_as_before(
    tmp_path: Path, pattern: Pattern, way: str
) -> None:
    """Covers S0-39, S0-40."""
    files(tmp_path / "work", 6)
    replies, environ = stuck(pattern)
    async with session(tmp_path, script(*replies, done("Then so.")), environ=environ) as s:
        await stuck_session(s, pattern)
        before = len(s.state.messages)
        await answer(s, way)
        assert (await s.ended()).outcome == "done"
        assert not any(isinstance(m, NoticeMessage) for m in s.state.messages[before:])


async def test_more_loops_go_on_right_there(tmp_path: Path) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.LIMIT)
    more = [reads(f"f0{n}.py") for n in (3, 4)]
    async with session(tmp_path, script(*replies, *more, done("Read.")), environ=environ) as s:
        situation = await stuck_session(s, Pattern.LIMIT)
        assert (situation.loop, situation.limit) == (3, 3)
        assert len(situation.tried) == 3
        await answer(s, "more_loops")
        assert (await s.ended()).outcome == "done"
        assert [(e.loop, e.limit) for e in s.events(LoopStarted)][2:4] == [(3, 3), (4, 8)]
        assert ("extended", 0.775) in changes(s, "stamina")  # 1 − 0.6 · 3 / 8


@pytest.mark.parametrize("pattern", list(Pattern))
async def test_free_words_are_always_possible(tmp_path: Path, pattern: Pattern) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(pattern)
    async with session(tmp_path, script(*replies, done("Then so.")), environ=environ) as s:
        await stuck_session(s, pattern)
        await answer(s, "tell", "look at f05.py only")
        assert (await s.ended()).outcome == "done"
        assert "look at f05.py only" in next_request(s)
        extended = [e.by for e in s.events(LimitExtended) if e.who == "user"]
        assert extended == ([5] if pattern is Pattern.LIMIT else [])  # a yes to going on


@pytest.mark.parametrize("way", ["more_info", "tell"])
async def test_an_answer_that_needs_words_and_has_none_asks_again(tmp_path: Path, way: str) -> None:
    """Covers S0-43."""
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.STAGNATION)
    async with session(tmp_path, script(*replies), environ=environ) as s:
        await stuck_session(s, Pattern.STAGNATION)
        first = await answer(s, way)
        await s.until(lambda state: any(c.card_id != first.card_id for c in state.cards))
        await answer(s, "stop_work")
        await s.ended()


async def test_another_approach_is_kept_as_a_strategy_that_failed(tmp_path: Path) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.STAGNATION)
    async with session(tmp_path, script(*replies, done("Then so.")), environ=environ) as s:
        await stuck_session(s, Pattern.STAGNATION)
        await answer(s, "other_approach")
        await s.ended()
        assert s.objective.attempted_strategies[0] == "only looked, changed nothing"
        assert "- file_ops.read_file f00.py" in next_request(s)


async def test_another_approach_than_the_model_said_is_told_and_each_way_kept_once(
    tmp_path: Path,
) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.STAGNATION)
    async with session(tmp_path, script(*replies, done("Then so.")), environ=environ) as s:
        await stuck_session(s, Pattern.STAGNATION)
        memory = s.state.memory.replace(plan_brief=("read on", "and on"))
        s.store.dispatch(WorkingMemoryChanged(memory=memory))
        tried = s.objective.replace(attempted_strategies=("first", "read on; and on"))
        s.store.dispatch(ObjectiveChanged(objective=tried))
        await answer(s, "other_approach")
        await s.ended()
        changed = s.events(ObjectiveChanged)[-1].objective
        assert changed is not None
        assert changed.attempted_strategies[:2] == ("first", "read on; and on")
        assert changed.attempted_strategies.count("read on; and on") == 1
        words = next_request(s).partition("<tried>\n")[2]
        assert words.startswith("- read on; and on\n- file_ops.read_file f00.py\n</tried>")


async def test_splitting_goes_back_to_planning(tmp_path: Path) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.LOW_CONFIDENCE)
    held = Reply(decision=done("Then so.").decision, hold="a")
    async with session(tmp_path, script(*replies, held), environ=environ) as s:
        await stuck_session(s, Pattern.LOW_CONFIDENCE)
        await answer(s, "split")
        await s.server.reached("a")
        assert s.state.phase is Phase.PLANNING
        assert "# Planning" in s.server.of("main")[-1].text
        s.server.release("a")
        await s.ended()


async def test_another_source_is_another_model_where_there_is_one(tmp_path: Path) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.LOW_CONFIDENCE)
    more = (reads("f03.py"), done("Then so."))
    roles = {"evaluator": "cli/second"}
    async with session(tmp_path, script(*replies, *more), environ=environ, roles=roles) as s:
        await stuck_session(s, Pattern.LOW_CONFIDENCE)
        await answer(s, "other_source")
        await s.ended()
        models = [r.json["model"] for r in s.server.of("main")]
        assert models == ["scripted", "scripted", "second", "second"]
        assert "another model goes on" in s.server.of("main")[2].new_text


async def test_another_model_goes_on_only_until_the_attempt_ends(tmp_path: Path) -> None:
    files(tmp_path / "work", 6)
    begin = decision("I write.", write("half\n"), requirements=[WORDS], confidence=0.0)
    unsure = reads("f01.py", confidence=0.0)
    scripted = script(
        begin, unsure, done("One."), done("Two."), satisfaction=(judged(0.4), judged(0.9))
    )
    roles = {"evaluator": "cli/second"}
    async with session(tmp_path, scripted, environ=LONG, roles=roles, mode="trusted") as s:
        await stuck_session(s, Pattern.LOW_CONFIDENCE)
        await answer(s, "other_source")
        assert (await s.ended()).outcome == "done"
        models = [r.json["model"] for r in s.server.of("main")]
        assert models == ["scripted", "scripted", "second", "scripted"]


async def test_the_top_requirement_comes_first_and_the_others_second(tmp_path: Path) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.CONFUSION)
    async with session(tmp_path, script(*replies, done("Then so.")), environ=environ) as s:
        await stuck_session(s, Pattern.CONFUSION)
        assert s.engine.ledger.add_requirement("it is fast", 1) is None
        assert s.engine.ledger.add_requirement("it is small", 2) is None
        assert s.engine.ledger.add_requirement("it is pretty", 3) is None
        assert s.engine.ledger.add_requirement("it is old", 1) is None
        assert s.engine.ledger.waive_requirement("r4") is None
        await answer(s, "top_requirement", "it is small")
        await s.until(lambda state: not state.cards and state.turn is None)
        items = s.objective.extracted_requirements
        assert [(i.requirement, i.priority) for i in items] == [
            ("it is fast", 2),
            ("it is small", 1),
            ("it is pretty", 3),
            ("it is old", 1),
        ]


async def test_starting_over_sends_what_was_before_as_a_digest_only(tmp_path: Path) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.CONFUSION)
    async with session(tmp_path, script(*replies, done("Then so.")), environ=environ) as s:
        await stuck_session(s, Pattern.CONFUSION)
        assert "the content of f00.py" in s.server.of("main")[-1].text
        await answer(s, "start_over")
        await s.ended()
        request = s.server.of("main")[-1]
        assert "the content of f00.py" not in request.text
        assert len(request.json["messages"]) < len(s.server.of("main")[-2].json["messages"])
        said = [m["content"] for m in request.json["messages"] if m["role"] == "user"]
        assert said[0] == "go"  # the request itself stays


async def test_tidied_results_are_shown_and_kept(tmp_path: Path) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.CONFUSION)
    scripted = script(*replies, done("Then so."), digest=DIGEST)
    async with session(tmp_path, scripted, environ=environ) as s:
        await stuck_session(s, Pattern.CONFUSION)
        await answer(s, "tidy_results")
        await s.ended()
        kept, *reads = s.objective.accumulated_results
        assert kept == "f00 holds a comment, the rest is unknown"
        assert all(line.startswith("file_ops.read_file") for line in reads)  # of the review
        shown = [m for m in s.state.messages if isinstance(m, NoticeMessage)]
        assert [m.params for m in shown if m.key == "consulting.tidied"] == [
            {"digest": "f00 holds a comment, the rest is unknown"}
        ]
        assert "the content of f00.py" in s.server.of("digest")[0].text


async def test_what_failed_is_tidied_too_and_two_thousand_characters_are_kept(
    tmp_path: Path,
) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.CONFUSION)
    main = (reads("gone.py"), *replies, done("Then so."))
    long = Reply(data={"digest": "so " * 1000})
    async with session(tmp_path, script(*main, digest=long), environ=environ) as s:
        await stuck_session(s, Pattern.CONFUSION)
        await answer(s, "tidy_results")
        await s.ended()
        assert "- failed: read file gone.py: " in s.server.of("digest")[0].text
        assert len(s.objective.accumulated_results[0]) == 2000


@pytest.mark.parametrize("replies", [(Reply(data={"digest": " "}), DIGEST), ()])
async def test_results_are_tidied_by_whoever_can_or_shown_as_they_are(
    tmp_path: Path, replies: tuple[Reply, ...]
) -> None:
    """An empty digest is sent back; without any, the plain results are kept. C8."""
    files(tmp_path / "work", 6)
    main, environ = stuck(Pattern.CONFUSION)
    scripted = script(*main, done("Then so."), digest=replies)
    async with session(tmp_path, scripted, environ=environ) as s:
        await stuck_session(s, Pattern.CONFUSION)
        await answer(s, "tidy_results")
        await s.ended()
        kept = s.objective.accumulated_results[0]
        assert ("consulting.no_digest" in s.notices()) is not replies
        if replies:
            assert "digest is empty" in s.server.of("digest")[1].text
            assert kept == "f00 holds a comment, the rest is unknown"
        else:
            assert kept.startswith("- read file f00.py: ")


async def test_a_simpler_request_is_a_requirement_of_the_user(tmp_path: Path) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.TOO_MANY_TRIES)
    async with session(tmp_path, script(*replies, done("Then so.")), environ=environ) as s:
        await stuck_session(s, Pattern.TOO_MANY_TRIES)
        await answer(s, "simplify", "only name the files")
        await s.until(lambda state: state.turn is None)
        items = s.objective.extracted_requirements
        assert "consulting.simplify" in s.notices()
        told = [(i.requirement, i.priority, i.by_user) for i in items]
        assert told == [("only name the files", 1, True)]
        assert "The user made the request simpler" in s.server.of("main")[-1].text


async def test_everything_else_goes_on_while_a_consultation_waits(tmp_path: Path) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.STAGNATION)
    beside = done("It reads one file again and again.")
    async with session(tmp_path, script(*replies, beside), environ=environ) as s:
        await stuck_session(s, Pattern.STAGNATION)
        await s.engine.send("what is going on?", "now")
        await s.until(lambda state: "again and again" in str(state.messages[-1]))
        assert len(s.state.cards) == 1
        await answer(s, "stop_work")
        await s.ended()


async def test_a_stop_takes_the_consultation_away(tmp_path: Path) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(Pattern.STAGNATION)
    async with session(tmp_path, script(*replies), environ=environ) as s:
        await stuck_session(s, Pattern.STAGNATION)
        s.engine.stop()
        assert (await s.ended()).outcome == "stopped"
        assert s.state.cards == ()
