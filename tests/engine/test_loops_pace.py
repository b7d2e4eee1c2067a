"""The pacemaker in a running session: stagnation, limit and profile, vitals, and the log."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from support.pace_talk import (
    LONG,
    SHORT,
    always,
    changes,
    consultations,
    consulted,
    edit,
    fails,
    files,
    read,
    reads,
    stuck,
)
from support.plan_talk import answer
from support.reviews import WORDS, claim, judged, lacks, next_plan, thrice, works
from support.session import action, decision, done, script, session

from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.gates import CONSULTATION_OPTIONS, GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.pace import (
    LimitExtended,
    LimitSet,
    Pattern,
    ProfileChosen,
    Reason,
    TaskProfile,
    VitalsChanged,
)
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.turn import LoopStarted, TurnFinished
from duckflow_tui.work.vitals import compute_vital

# --- stagnation by progress ------------------------------------------------------------------


async def test_a_model_that_repeats_one_action_is_stopped_at_the_fourth(tmp_path: Path) -> None:
    """Covers S0-38, S0-39."""
    files(tmp_path / "work", 1)
    async with session(tmp_path, script(always(reads("f00.py"))), environ=LONG) as s:
        await s.engine.send("go")
        shown, situation = await consulted(s)
        assert len(s.results()) == 4
        assert (situation.pattern, situation.loop) == (Pattern.STAGNATION, 4)
        assert situation.cause.code == "same_action"
        assert situation.cause.params["what"] == "f00.py"
        tried = situation.tried[0]
        assert (tried.text, tried.times) == ("file_ops.read_file f00.py", 4)
        assert tried.ref == s.results()[-1].call_id
        assert situation.hypothesis is not None
        assert situation.hypothesis.code == "repeats_call"
        assert situation.hypothesis_said == "as asked"
        assert [o.key for o in shown.options] == ["1", "2", "3", "4", "m"]
        assert s.state.turn is not None  # the work waits, it was not ended
        assert len(s.server.of("main")) == 4
        assert s.state.status is Status.REQUIRES_USER_INPUT
        await answer(s, "stop_work")
        assert (await s.ended()).outcome == "partial"
        assert len(s.server.of("main")) == 4


async def test_the_same_failing_call_asks_at_its_fourth_time(tmp_path: Path) -> None:
    files(tmp_path / "work", 9)
    # Progress beside it does not make the call any better.
    calls = [reads("gone.py", f"f0{n}.py") for n in range(8)]
    async with session(tmp_path, script(*calls), environ=LONG) as s:
        await s.engine.send("go")
        _, situation = await consulted(s)
        assert (situation.pattern, situation.loop) == (Pattern.STAGNATION, 4)
        assert situation.cause.params == {
            "operation": "file_ops.read_file",
            "what": "gone.py",
            "times": "4",
        }
        await answer(s, "stop_work")
        await s.ended()


async def test_thirty_different_files_are_read_undisturbed(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 30)
    replies = [reads(*names[n : n + 10]) for n in (0, 10, 20)]
    async with session(tmp_path, script(*replies, done("All read."))) as s:
        end = await s.turn("go")
        assert (end.outcome, len(s.results())) == ("done", 30)
        assert consultations(s) == []


async def test_thirty_files_one_by_one_are_read_undisturbed_with_the_settings_as_they_are(
    tmp_path: Path,
) -> None:
    """The limit grows by itself, which is said and recorded."""
    names = files(tmp_path / "work", 30)
    replies = [reads(name, task_profile="RESEARCH") for name in names]
    last = done("All read.", task_profile="RESEARCH")
    async with session(tmp_path, script(*replies, last)) as s:
        await s.engine.send("look into them")
        end = await s.ended()
        assert len(s.results()) == 30
        assert end.outcome != "limit"
        assert consultations(s) == []
        assert [e.by for e in s.events(LimitExtended) if e.who == "pacemaker"] == [5, 5, 5]
        assert s.notices().count("pace.grown") == 3


async def test_the_limit_grows_to_three_times_itself_and_then_asks_what_is_one_key_to_go_on(
    tmp_path: Path,
) -> None:
    """C1."""
    names = files(tmp_path / "work", 30)
    replies = [reads(name) for name in names]
    async with session(tmp_path, script(*replies, done("All read."))) as s:
        await s.engine.send("go")  # unknown: eight loops
        for loops in (24, 29):
            await s.until(lambda state: bool(state.cards))
            _, situation = await consulted(s)
            assert (situation.pattern, situation.loop) == (Pattern.LIMIT, loops)
            assert situation.hypothesis is not None
            assert situation.hypothesis.code == "long_but_moving"
            assert (situation.read, situation.tried_before) == (loops, loops - 6)
            await answer(s, "more_loops")
            await s.until(lambda state: not state.cards)
        end = await s.ended()
        assert (end.outcome, len(s.results())) == ("done", 30)
        assert s.state.pace is not None
        limit = s.state.pace.limit
        assert (limit.max_loops, limit.extended, limit.grown) == (34, 26, 16)


async def test_at_the_limit_a_loop_that_nothing_moves_asks(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 3)
    replies = [reads(name) for name in names] + [decision("hm", read(f"gone{n}")) for n in range(3)]
    environ = {"DUCKFLOW_PACEMAKER__MAX": "6"}
    async with session(tmp_path, script(*replies), environ=environ) as s:
        await s.engine.send("go")
        _, situation = await consulted(s)
        assert (situation.pattern, situation.loop, situation.limit) == (Pattern.LIMIT, 6, 6)
        assert "pace.grown" not in s.notices()
        await answer(s, "stop_work")
        await s.ended()
        assert (s.state.phase, s.state.status) == (Phase.IDLE, Status.SUCCESS)


async def test_flipping_between_two_edits_is_caught_at_the_fourth_turn(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    one, two = edit("a.py", "x = 1", "x = 2"), edit("a.py", "x = 2", "x = 1")
    replies = [reads("a.py")] + [decision("so", call) for call in (one, two, one, two, one)]
    async with session(tmp_path, script(*replies), mode="trusted", environ=LONG) as s:
        await s.engine.send("go")
        _, situation = await consulted(s)
        edits = [m for m in s.results() if m.operation == "file_ops.edit_file"]
        assert (len(edits), {m.result.outcome for m in edits}) == (4, {Outcome.OK})
        assert situation.cause.code == "back_and_forth"
        assert situation.cause.params["path"] == "a.py"
        await answer(s, "stop_work")
        await s.ended()


async def test_no_card_comes_twice_within_three_loops(tmp_path: Path) -> None:
    files(tmp_path / "work", 1)
    async with session(tmp_path, script(always(reads("f00.py"))), environ=LONG) as s:
        await s.engine.send("go")
        for action_name in ("keep_going", "keep_going", "stop_work"):
            await s.until(lambda state: bool(state.cards))
            await answer(s, action_name)
            await s.until(lambda state: not state.cards)
        await s.ended()
        assert [c.loop for c in consultations(s)] == [4, 7, 10]


async def test_a_word_of_the_user_begins_the_row_of_low_moods_anew(tmp_path: Path) -> None:
    """Two in a row would ask; between them the user said how to go on."""
    files(tmp_path / "work", 3)
    change = edit("f00.py", "the content", "a content")
    unsure = [reads(f"f0{n}.py", confidence=0.0) for n in (1, 2)]
    replies = script(decision("so", change, confidence=0.0), *unsure)
    async with session(tmp_path, replies, environ=LONG) as s:
        await s.engine.send("go")
        await s.gate()
        s.engine.pause()
        await s.answer(GateChoice.ONCE)
        await s.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        await s.engine.send("look at f02.py")
        _, situation = await consulted(s)
        assert (situation.pattern, situation.loop) == (Pattern.LOW_CONFIDENCE, 3)
        await answer(s, "keep_approach")
        s.engine.stop()
        await s.ended()


async def test_what_the_user_refuses_moves_nothing(tmp_path: Path) -> None:
    """R20."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    wants = edit("a.py", "x = 1", "x = 2")
    replies = (reads("a.py"), *(decision("so", wants) for _ in range(5)), done("I leave it."))
    unmet = script(*replies, satisfaction=judged(0.0))
    async with session(tmp_path, unmet, environ=LONG) as s:
        await s.engine.send("go")
        for number in range(1, 6):
            await s.answer(GateChoice.REJECT)
            await s.until(lambda _, n=number: len(s.results()) > n)
        await s.ended()
        refused = [m.result.outcome for m in s.results()[1:]]
        assert refused == [Outcome.REJECTED] * 5
        assert consultations(s) == []
        assert changes(s, "focus") == [("progress", 0.85)]  # of the file that was read
        assert changes(s, "mood") == []
        tired = [e.change for e in s.events(VitalsChanged) if e.change.vital == "stamina"]
        assert {change.inputs["failed"] for change in tired} == {0.0}


async def test_what_the_policy_or_the_schema_refuses_moves_nothing(tmp_path: Path) -> None:
    """R20."""
    files(tmp_path / "work", 1)
    denied = action("file_ops.write_file", path="../x", content="x")
    invalid = action("file_ops.read_file", path="f00.py", start_line=9, end_line=2)
    replies = [decision("so", call) for call in (denied, invalid, invalid)]
    async with session(tmp_path, script(*replies, done("No.")), environ=LONG, headless=True) as s:
        await s.turn("go")
        outcomes = [m.result.outcome for m in s.results()]
        assert outcomes == [Outcome.DENIED, *[Outcome.INVALID] * 2]
        assert (changes(s, "focus"), changes(s, "mood")) == ([], [])
        tired = [e.change.inputs for e in s.events(VitalsChanged) if e.change.vital == "stamina"]
        assert {(i["failed"], i["failed_reads"]) for i in tired} == {(0.0, 0.0)}


# --- limit and profile -----------------------------------------------------------------------


async def test_the_limit_is_set_before_the_first_decision_and_anew_with_its_profile(
    tmp_path: Path,
) -> None:
    """Covers S0-3, S0-31."""
    files(tmp_path / "work", 1)
    replies = script(reads("f00.py", task_profile="GENERAL_CHAT"), done("Hello."))
    async with session(tmp_path, replies) as s:
        await s.turn("well")
        limits = [(e.limit.profile, e.limit.max_loops, e.fresh) for e in s.events(LimitSet)]
        assert limits == [(None, 8, True), (TaskProfile.GENERAL_CHAT, 6, False)]
        order = [
            type(e).__name__
            for e in (record.event for record in s.records)
            if isinstance(e, LimitSet | LoopStarted | VitalsChanged | TurnFinished)
        ]
        assert order[:2] == ["LimitSet", "LoopStarted"]
        assert order.index("VitalsChanged") > order.index("LoopStarted")
        assert order[-1] == "TurnFinished"
        assert [e.limit for e in s.events(LoopStarted)] == [8, 6]
        assert s.objective.profile is TaskProfile.GENERAL_CHAT


async def test_the_users_choice_of_the_profile_goes_before_all_others(tmp_path: Path) -> None:
    files(tmp_path / "work", 1)
    held = Reply(decision=reads("f00.py", task_profile="GENERAL_CHAT").decision, hold="a")
    async with session(tmp_path, script(held, done("Hello."), done("Again."))) as s:
        await s.engine.send("well")
        await s.server.reached("a")
        s.engine.pace.choose_profile(TaskProfile.SIMPLE_QUESTION)
        assert s.state.pace is not None
        assert (s.state.pace.limit.max_loops, s.state.pace.limit.chosen_by) == (5, "user")
        s.server.release("a")
        await s.ended()
        assert s.state.pace.limit.profile is TaskProfile.SIMPLE_QUESTION
        for _ in range(2):  # the same again is no news
            s.engine.pace.choose_profile(None)
        assert [e.profile for e in s.events(ProfileChosen)] == [TaskProfile.SIMPLE_QUESTION, None]
        await s.turn("well")
        assert s.state.pace.limit.profile is None


async def test_a_key_that_extends_the_limit_takes_its_card_away(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 4)
    replies = script(*(reads(name) for name in names), done("Read."))
    async with session(tmp_path, replies, environ=SHORT) as s:
        await s.engine.send("go")
        await consulted(s)
        before = s.state.vitals.stamina
        s.engine.pace.extend_limit()
        assert s.state.cards == ()
        assert s.state.pace is not None
        assert s.state.pace.limit.max_loops == 8
        assert changes(s, "stamina")[-1] == ("extended", s.state.vitals.stamina)
        assert s.state.vitals.stamina > before
        assert (await s.ended()).outcome == "done"


async def test_a_key_that_extends_nothing_that_runs_does_nothing(tmp_path: Path) -> None:
    async with session(tmp_path, script()) as s:
        s.engine.pace.extend_limit()
        assert s.state.pace is None


async def test_nobody_to_ask_at_the_limit_ends_the_turn_at_the_limit(tmp_path: Path) -> None:
    """Covers S3-31."""
    names = files(tmp_path / "work", 4)
    replies = script(*(reads(name) for name in names))
    async with session(tmp_path, replies, environ=SHORT, headless=True) as s:
        end = await s.turn("go")
        assert (end.outcome, end.llm_calls) == ("limit", 3)
        assert end.reason == Reason(code="limit", params={"limit": "3"})
        assert "turn.limit" in s.notices()


@pytest.mark.parametrize("pattern", [p for p in Pattern if p is not Pattern.LIMIT])
async def test_nobody_to_ask_when_stuck_ends_the_turn_where_a_card_would_ask(
    tmp_path: Path, pattern: Pattern
) -> None:
    """No call is spent on more of the same; why it ended stands in the end of the turn."""
    files(tmp_path / "work", 6)
    replies, environ = stuck(pattern)
    never = done("Not asked for.")
    async with session(tmp_path, script(*replies, never), environ=environ, headless=True) as s:
        end = await s.turn("go")
        assert (end.outcome, end.llm_calls) == ("limit", len(replies))
        assert end.reason is not None
        assert end.reason.code not in ("limit", "partial")
        assert f"consulting.nobody.{pattern.value}" in s.notices()


# --- vitals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", list(Pattern))
async def test_every_change_of_a_vital_can_be_computed_again_from_what_it_shows(
    tmp_path: Path, pattern: Pattern
) -> None:
    files(tmp_path / "work", 6)
    replies, environ = stuck(pattern)
    async with session(tmp_path, script(*replies), environ=environ) as s:
        await s.engine.send("go")
        _, situation = await consulted(s)
        assert situation.pattern is pattern
        await answer(s, CONSULTATION_OPTIONS[pattern][0].action, "more")
        moved = [e.change for e in s.events(VitalsChanged)]
        assert moved
        for change in moved:
            assert compute_vital(change.vital, change.inputs) == change.new
            assert change.refs or change.cause in ("new_objective", "extended", "grown")
        for vital, start in (("mood", 0.7), ("focus", 0.75), ("stamina", 1.0)):
            value = start
            for change in (c for c in moved if c.vital == vital):
                assert change.old == value
                value = change.new
        s.engine.stop()
        await s.ended()


async def test_each_signal_moves_its_vital(tmp_path: Path) -> None:
    files(tmp_path / "work", 2)
    no = {"ok": False, "reason": "off the goal"}
    replies = script(
        reads("f00.py", confidence=0.9),
        reads("f00.py"),
        Reply(text='{"rationale": '),
        decision("Wait.", read("f01.py"), goal_consistency=no),
        done("Read."),
    )
    async with session(tmp_path, replies, environ=LONG) as s:
        assert (await s.turn("go")).outcome == "done"
        assert changes(s, "mood")[0] == ("decision", 0.77)
        assert changes(s, "focus") == [
            ("progress", 0.85),
            ("repeat", 0.75),
            ("check_no", 0.65),
            ("repaired", 0.6),
            ("progress", 0.7),  # the review found the requirement met
        ]
        assert changes(s, "stamina")[0] == ("loop", 0.97)


async def test_a_new_objective_has_all_its_stamina(tmp_path: Path) -> None:
    names = files(tmp_path / "work", 2)
    replies = script(reads(*names), done("Read."), done("Hello."))
    async with session(tmp_path, replies) as s:
        await s.turn("go")
        assert s.state.vitals.stamina < 1.0
        mood, focus = s.state.vitals.mood, s.state.vitals.focus
        await s.turn("hello")
        assert ("new_objective", 1.0) in changes(s, "stamina")
        assert (s.state.vitals.mood, s.state.vitals.focus) == (mood, focus)


async def test_a_new_objective_begins_with_a_mood_and_a_focus_that_are_neutral_at_least(
    tmp_path: Path,
) -> None:
    files(tmp_path / "work", 1)
    which: dict[str, Any] = {"text": "Which?", "options": []}
    replies = script(
        *(reads("f00.py") for _ in range(3)),
        decision("", next_step="pending_user", question=which, confidence=0.0),
        done("Hello.", continues=False),
    )
    async with session(tmp_path, replies, environ=LONG) as s:
        await s.turn("go")
        vitals = s.state.vitals
        assert (vitals.mood < 0.7, vitals.focus < 0.75, vitals.stamina < 1.0) == (True,) * 3
        await s.turn("hello")
        assert ("new_objective", 0.7) in changes(s, "mood")
        assert ("new_objective", 0.75) in changes(s, "focus")
        assert ("new_objective", 1.0) in changes(s, "stamina")


async def test_what_failed_since_the_last_progress_tires_also_in_the_next_turn(
    tmp_path: Path,
) -> None:
    """A read that failed tires less than a change that did."""
    files(tmp_path / "work", 1)
    ask = decision("Which?", next_step="pending_user", question={"text": "Which?", "options": []})
    replies = (fails("x.py"), reads("gone.py"), ask, reads("lost.py"), reads("f00.py"), done("So."))
    async with session(tmp_path, script(*replies), mode="trusted", environ=LONG) as s:
        await s.turn("mend it")
        await s.turn("go on")
        tired = [e.change.inputs for e in s.events(VitalsChanged) if e.change.vital == "stamina"]
        failed = [(i["failed"], i["failed_reads"]) for i in tired if "failed" in i]
        assert failed[:2] == [(1.0, 0.0), (1.0, 1.0)]
        assert (1.0, 2.0) in failed[2:]
        assert failed[-1] == (0.0, 0.0)


@pytest.mark.parametrize("headless", [False, True])
async def test_a_simple_question_that_takes_long_is_asked_about_where_somebody_is_there(
    tmp_path: Path, headless: bool
) -> None:
    """C1."""
    names = files(tmp_path / "work", 6)
    replies = [reads(name, task_profile="SIMPLE_QUESTION") for name in names]
    async with session(tmp_path, script(*replies, done("So.")), headless=headless) as s:
        await s.engine.send("what is there?")
        if not headless:
            _, situation = await consulted(s)
            assert (situation.pattern, situation.loop) == (Pattern.LIMIT, 5)
            await answer(s, "stop_work")
        await s.ended()
        assert ("pace.grown" in s.notices()) is headless
        assert len(s.results()) == (6 if headless else 5)


async def test_the_developers_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Covers S0-45, S0-46, S0-47, S0-48, S0-57."""
    files(tmp_path / "work", 1)
    with caplog.at_level(logging.INFO, "duckflow.pacemaker"):
        async with session(tmp_path, script(always(reads("f00.py"))), environ=LONG) as s:
            await s.engine.send("go")
            await answer(s, "stop_work")
            await s.ended()
    lines = [r.message for r in caplog.records if r.name == "duckflow.pacemaker"]
    assert all(line.startswith("[DUCK_PACEMAKER] ") for line in lines)
    said = [line.removeprefix("[DUCK_PACEMAKER] ") for line in lines]
    assert said[:3] == [
        "limit set: profile=unknown limit=20",
        "vitals: mood=0.70 focus=0.75 stamina=1.00",
        "complexity: 0.00 (low)",
    ]
    assert "focus 0.75->0.85 (progress)" in said
    at = said.index("loop 4: detected same_action")
    assert said[at + 1] == "intervention: stagnation -> consult"
    assert said[-3:] == [
        "used 4/20",
        "interventions: 1 (stagnation)",
        "result: partial (ended by the user's instruction)",
    ]


async def test_the_end_log_counts_the_loops_of_all_attempts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Covers S0-48."""
    with caplog.at_level(logging.INFO, "duckflow.pacemaker"):
        async with session(tmp_path, thrice(), mode="trusted", headless=True) as s:
            await s.turn("write the notes")
    (used,) = (r.message for r in caplog.records if "] used " in r.message)
    assert used.startswith("[DUCK_PACEMAKER] used 1/")
    assert used.endswith(", 4 in all attempts")


@pytest.mark.parametrize(("first", "second", "bad"), [(0.9, 0.4, 3), (0.9, 0.9, 2), (0.6, 0.4, 3)])
async def test_each_requirement_that_a_review_refutes_speaks_against_the_plan(
    tmp_path: Path, first: float, second: float, bad: int
) -> None:
    """Covers S0-3, S0-59."""
    levels = ((first, 0.3), (second, 0.4), (0.9, 0.9))
    verdicts = [judged(0.4, {"r1": one, "r2": two}) for one, two in levels]
    verdicts[2] = judged(0.9, {"r1": 0.9, "r2": 0.9})
    scripted = script(
        works(WORDS, claim("clear")),
        done("One."),
        done("Two."),
        done("Three.", confidence=0.1),
        satisfaction=tuple(verdicts),
        missing=(lacks("the reason"),) * 2,
        continuation=tuple(next_plan(f"way {n}") for n in range(2)),
    )
    async with session(tmp_path, scripted, mode="trusted") as s:
        assert (await s.turn("write the notes")).outcome == "done"
        moods = [e.change.inputs for e in s.events(VitalsChanged) if e.change.vital == "mood"]
        assert moods[-1]["confidence"] == 0.1
        assert moods[-1]["outcomes"] - moods[-1]["good"] == bad
