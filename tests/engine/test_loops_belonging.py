"""Which request a message belongs to, and what becomes of one that was not finished."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pace_talk import changes
from support.reviews import WORDS, claim, found, judged, works, write
from support.session import Session, action, decision, done, script, session

from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.goal import RequirementState, TaskObjective

HELD = Reply(decision=done("Too late.").decision, hold="a")
OTHER = claim("the log is there", kind="file_exists", value="log.txt")


def wanted(of: TaskObjective) -> list[str]:
    return [item.requirement for item in of.extracted_requirements]


async def stopped(s: Session) -> TaskObjective:
    """The first turn, stopped by the user with its requirement open."""
    await s.engine.send("write the notes")
    await s.server.reached("a")
    s.engine.stop()
    assert (await s.ended()).outcome == "stopped"
    return s.objective


async def test_another_request_after_a_stop_inherits_nothing_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    replies = script(works(WORDS), HELD, done("Hi.", task_profile="GENERAL_CHAT"), done("Bye."))
    async with session(tmp_path, replies, mode="trusted") as s:
        first = await stopped(s)
        end = await s.turn("hello")
        assert (end.outcome, end.satisfaction) == ("answered", None)
        assert (s.objective.original_query, wanted(s.objective)) == ("hello", [])
        (left,) = s.state.earlier
        assert (left.objective_id, left.left) == (first.objective_id, "stopped")
        assert [item.state for item in left.extracted_requirements] == [RequirementState.OPEN]
        # Only the message after it may go on with it, so only there the model is asked.
        await s.turn("and bye")
        asked = ["Before it, and not finished" in r.text for r in s.server.of("main")]
        assert asked == [False, False, True, False]
        assert "write the notes" in s.server.of("main")[2].text
        assert s.state.earlier == (left,)


@pytest.mark.parametrize(
    "words", ["continue", "weiter, bitte", "続けてください。", "and the rest?"]
)
async def test_what_the_model_says_goes_on_costs_no_call_of_its_own(
    tmp_path: Path, words: str
) -> None:
    """Whatever the words are: no rule reads them."""
    goes_on = done("So.", continues=True)
    replies = script(works(WORDS), HELD, goes_on, satisfaction=judged(0.9))
    async with session(tmp_path, replies, mode="trusted") as s:
        first = await stopped(s)
        end = await s.turn(words)
        assert (end.outcome, end.satisfaction, end.llm_calls) == ("done", 0.9, 2)
        assert s.objective.objective_id == first.objective_id
        assert s.objective.extracted_requirements[0].state is RequirementState.MET
        assert s.state.earlier == ()


@pytest.mark.parametrize("words", ["わかりました、ありがとうございます", "ok, go on with your day"])
async def test_thanks_after_finished_work_are_talk(tmp_path: Path, words: str) -> None:
    replies = script(works(WORDS), done("So."), done("You are welcome."), satisfaction=judged(0.9))
    async with session(tmp_path, replies, mode="trusted") as s:
        assert (await s.turn("write the notes")).outcome == "done"
        end = await s.turn(words)
        assert (end.outcome, end.llm_calls, wanted(s.objective)) == ("answered", 1, [])


async def test_a_message_that_the_model_takes_for_the_same_request_goes_on_with_it(
    tmp_path: Path,
) -> None:
    """What the user noted meanwhile comes along."""
    goes_on = Reply(decision=done("With the reason.", continues=True).decision, hold="b")
    both = judged(0.9, {"r1": 0.9, "r2": 0.9})
    replies = script(works(WORDS), HELD, goes_on, satisfaction=both)
    async with session(tmp_path, replies, mode="trusted") as s:
        first = await stopped(s)
        await s.engine.send("name the script as the reason")
        await s.server.reached("b")
        assert s.engine.ledger.add_requirement("in one line") is None
        s.server.release("b")
        assert (await s.ended(2)).satisfaction == 0.9
        assert s.objective.objective_id == first.objective_id
        assert wanted(s.objective) == ["the answer says why", "in one line"]
        assert (s.objective.left, s.state.earlier) == (None, ())


async def test_what_leads_back_finds_its_working_memory(tmp_path: Path) -> None:
    """What the user wrote into the memory meanwhile stays, and the judge reads the message."""
    aims = decision(
        "I write.",
        write("half\n"),
        requirements=[claim("the answer says why")],
        state_delta={"goal": "notes with a reason", "why_now": "they are wanted"},
    )
    goes_on = Reply(decision=done("With the reason.", continues=True).decision, hold="b")
    replies = script(aims, HELD, goes_on, satisfaction=judged(0.9))
    async with session(tmp_path, replies, mode="trusted") as s:
        await stopped(s)
        await s.engine.send("it should name the script too")
        await s.server.reached("b")
        assert s.state.memory.goal == ""
        assert s.engine.working.write_field("why_now", ["the boss asked"]) is None
        s.server.release("b")
        assert (await s.ended(2)).satisfaction == 0.9
        assert s.server.of("requirements") == []
        assert "it should name the script too" in s.server.of("satisfaction")[0].text
        memory = s.state.memory
        assert (memory.goal, memory.why_now) == ("notes with a reason", "the boss asked")


async def test_requirements_of_a_message_that_goes_on_join_the_ledger(tmp_path: Path) -> None:
    """The user's words may drop one as well, which the splitter is asked about."""
    more = claim("it names the script")
    goes_on = done("With the reason.", continues=True, requirements=[more])
    both = judged(0.9, {"r1": 0.9, "r2": 0.9})
    replies = script(works(WORDS), HELD, goes_on, satisfaction=both, requirements=found(more))
    async with session(tmp_path, replies, mode="trusted") as s:
        await stopped(s)
        await s.turn("it should name the script too")
        assert wanted(s.objective) == ["the answer says why", "it names the script"]
        (asked,) = s.server.of("requirements")
        assert "- said: it should name the script too" in asked.text
        assert "- said: write the notes" not in asked.text


async def test_an_answer_to_the_models_question_is_the_same_unless_the_model_says_otherwise(
    tmp_path: Path,
) -> None:
    ask = decision("", next_step="pending_user", question={"text": "Which?", "options": []})
    other = done("A log.", task_profile="FILE_OPERATION", requirements=[OTHER], continues=False)
    replies = script(works(WORDS), ask, ask, other, missing=(), continuation=())
    async with session(tmp_path, replies, mode="trusted") as s:
        (tmp_path / "work" / "log.txt").write_text("x")
        await s.turn("write the notes")
        first = s.objective.objective_id
        await s.turn("the first")
        assert (s.objective.objective_id, s.state.earlier) == (first, ())
        end = await s.turn("forget it, is there a log?")
        assert (end.outcome, end.satisfaction) == ("done", 0.9)  # the log was there before: judged
        assert wanted(s.objective) == ["the log is there"]
        assert [cause for cause, _ in changes(s, "stamina")].count("new_objective") == 1
        assert [(o.objective_id, o.left) for o in s.state.earlier] == [(first, "partial")]


async def test_only_the_first_decision_says_whether_it_is_the_same_request(tmp_path: Path) -> None:
    ask = decision("", next_step="pending_user", question={"text": "Which?", "options": []})
    look = action("file_ops.list_dir", path=".")
    goes_on = decision("I look.", look, continues=True)
    late = done("With the reason.", continues=False)
    replies = script(works(WORDS), ask, goes_on, late, satisfaction=judged(0.9))
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        first = s.objective.objective_id
        await s.turn("the first")
        assert (s.objective.objective_id, s.state.earlier) == (first, ())


async def test_trying_again_goes_on_with_it(tmp_path: Path) -> None:
    replies = script(works(WORDS), HELD, done("So."), satisfaction=judged(0.9))
    async with session(tmp_path, replies, mode="trusted") as s:
        first = await stopped(s)
        assert await s.engine.retry()
        assert (await s.ended(2)).satisfaction == 0.9
        assert (s.objective.objective_id, s.state.earlier) == (first.objective_id, ())


async def test_an_earlier_request_is_there_again_after_a_restart(tmp_path: Path) -> None:
    first = script(works(WORDS), HELD, done("Hi.", task_profile="GENERAL_CHAT"))
    async with session(tmp_path, first, mode="trusted") as s:
        await stopped(s)
        await s.turn("hello")
        found, session_id = s.state.earlier, s.session_id
    async with session(tmp_path, script(), mode="trusted", resume=session_id) as s:
        assert s.state.earlier == found
