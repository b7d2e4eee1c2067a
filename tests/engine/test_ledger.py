"""What the user asked for stays theirs: later words join, what they drop is waived, and nothing
unmet is shown as done.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.plan_talk import answer, begin_plan, plan_reply
from support.reviews import believes, claim, found, judged, lacks, next_plan, works, write
from support.session import Session, action, decision, done, script, session

from duckflow_tui.llm.endpoints import Protocol
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.gates import CardKind, GateChoice, Remark
from duckflow_tui.state.goal import (
    RequirementState,
    RequirementWaived,
    ReviewMessage,
    is_outdated,
)
from duckflow_tui.state.phase import Phase
from duckflow_tui.state.plan import PlanEdit

LOG = "there is a changelog"
NOTES = "the notes are written"
HELD = Reply(decision=done("Too late.").decision, hold="a")
WAITS: dict[str, Any] = {
    "next_step": "pending_user",
    "question": {"text": "Which?", "options": []},
}
ASK = decision("", **WAITS)
WAIVED, MET, OPEN = RequirementState.WAIVED, RequirementState.MET, RequirementState.OPEN


def ledger(s: Session) -> dict[str, tuple[str, RequirementState]]:
    """The words and the state of each requirement."""
    items = s.objective.extracted_requirements
    return {item.requirement_id: (item.requirement, item.state) for item in items}


def good(*keys: str) -> Reply:
    return judged(0.9, dict.fromkeys(keys, 0.9))


# --- what joins ----------------------------------------------------------------------------------


async def test_the_same_words_with_another_check_are_another_requirement(tmp_path: Path) -> None:
    """Both have to be met; said again without a check they are the ones that are there."""
    there = claim("a good name", kind="file_exists", value="notes.txt")
    said = claim("a good name", kind="file_contains", value="notes.txt: name")
    replies = script(
        works(there, said, claim("A good  name"), there),
        done("Done."),
        decision("", write("name\n")),
        done("Now."),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        end = await s.turn("write the notes")
        assert end.outcome == "done"
        kinds = [item.check.kind for item in s.objective.extracted_requirements]
        assert kinds == ["file_exists", "file_contains"]
        done_at = [m.review.done for m in s.state.messages if isinstance(m, ReviewMessage)]
        assert done_at == [False, True]


async def test_a_later_check_of_the_model_takes_the_place_of_its_own_earlier_one(
    tmp_path: Path,
) -> None:
    """Its first one looked for blanks that the file does not have; the user's own check stays."""
    wrong = claim("x is 2", kind="file_contains", value="notes.txt: x = 2")
    right = claim("X is 2.", kind="file_contains", value="notes.txt: x=2")
    there = claim("there are notes", kind="file_exists", value="notes.txt")
    other = claim("there are notes", kind="file_exists", value="other.txt")
    replies = script(
        works(wrong, there, content="x=2\n").model_copy(update={"hold": "a"}),
        decision("I mend my check.", write("x=2\n"), requirements=[right, other]),
        done("Done."),
        satisfaction=good("r1", "r2"),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.engine.send("set x")
        await s.server.reached("a")
        s.server.release("a")
        await s.until(lambda _: len(ledger(s)) == 2)
        assert s.engine.ledger.edit_requirement("r2", text="There are notes") is None
        assert (await s.ended()).outcome == "done"
        first, second = s.objective.extracted_requirements
        assert (first.check.value, first.state) == ("notes.txt: x=2", MET)
        assert (second.check.value, second.by_user) == ("notes.txt", True)
        assert len(s.server.of("satisfaction")) == 1


async def test_the_number_of_requirements_is_announced_to_the_user_alone(tmp_path: Path) -> None:
    """Once for the request and again when there are more. Covers S1-12, S1-24."""
    more = decision("More.", write("1.0\n", "log.txt"), requirements=[claim(LOG)])
    replies = script(
        works(claim(NOTES), claim("they are short")),
        more,
        done("Done."),
        satisfaction=good("r1", "r2", "r3"),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        told = [m for m in s.state.messages if isinstance(m, NoticeMessage)]
        said = [(m.params["count"], m.for_model) for m in told if m.key == "judging.counted"]
        assert said == [("2", ""), ("3", "")]
        asked, first = s.objective, next(m for m in s.state.messages if m.kind == "user")
        assert (asked.original_query, asked.created_at) == ("write the notes", first.at)
        assert len(asked.extracted_requirements) == 3


#: How models go on after a later message: without a word on requirements, with exactly the new
#: one, and with all of them once more in other words.
TEMPERS = {
    "sloppy": (),
    "exact": (claim(LOG),),
    "stubborn": (claim("notes must be written"), claim("a log of changes"), claim("tests too")),
}


@pytest.mark.parametrize("temper", TEMPERS)
async def test_a_wish_in_a_later_message_of_the_same_task_joins_the_ledger(
    tmp_path: Path, temper: str
) -> None:
    """And the work is not done before it is there, whatever the model says of it."""
    replies = script(
        works(claim(NOTES)),
        ASK,
        done("So.", task_profile="FILE_OPERATION", requirements=list(TEMPERS[temper])),
        decision("", write("1.0\n", "log.txt")),
        done("Both."),
        requirements=found(claim(LOG)),
        satisfaction=(judged(0.6, {"r1": 0.9, "r2": 0.1}), good("r1", "r2")),
        missing=lacks("the changelog"),
        continuation=next_plan(),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        end = await s.turn("the first, and add a changelog")
        assert (end.outcome, end.satisfaction) == ("done", 0.9)
        assert ledger(s) == {"r1": (NOTES, MET), "r2": (LOG, MET)}
        (asked,) = s.server.of("requirements")
        assert "- said: the first, and add a changelog" in asked.text
        assert "r1 are open" in asked.text


async def test_where_nobody_can_say_what_a_later_message_wants_the_models_word_counts(
    tmp_path: Path,
) -> None:
    replies = script(
        works(claim(NOTES)),
        ASK,
        done("So.", task_profile="FILE_OPERATION", requirements=[claim(LOG)]),
        satisfaction=good("r1", "r2"),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        assert (await s.turn("and add a changelog")).outcome == "done"
        assert ledger(s) == {"r1": (NOTES, MET), "r2": (LOG, MET)}
        assert "judging.not_heard" in s.notices()


async def test_what_the_user_says_while_the_work_is_paused_joins_in_the_same_turn(
    tmp_path: Path,
) -> None:
    again = decision("I look.", action("file_ops.list_dir", path="."))
    replies = script(
        works(claim(NOTES)),
        Reply(decision=again.decision, hold="a"),
        decision("Yes.", write("1.0\n", "log.txt")),
        done("Both."),
        requirements=found(claim(LOG)),
        satisfaction=good("r1", "r2"),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.engine.send("write the notes")
        await s.server.reached("a")
        s.engine.pause()
        s.server.release("a")
        await s.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        await s.engine.send("and add a changelog")
        assert (await s.ended()).outcome == "done"
        assert ledger(s) == {"r1": (NOTES, MET), "r2": (LOG, MET)}
        assert len(s.server.of("requirements")) == 1


# --- what is dropped -----------------------------------------------------------------------------


async def test_simpler_replaces_what_it_simplifies_and_that_is_never_asked_for_again(
    tmp_path: Path,
) -> None:
    """What is dropped stays on the list, with the user's word; nobody is asked about it, and a
    model that names it once more, with another check, does not bring it back.
    """
    plain = claim("the notes are one line")
    back = claim(LOG, kind="file_exists", value="log.txt")
    replies = script(
        works(claim(NOTES), claim(LOG)),
        ASK,
        decision("", write("x\n"), task_profile="FILE_OPERATION", requirements=[back]),
        done("So."),
        ASK,
        done("So.", requirements=[back]),
        requirements=(found(plain, dropped=["r2"]), found(back)),
        satisfaction=(judged(0.5, {"r1": 0.9, "r3": 0.2}), good("r1", "r3")),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        await s.turn("make it simpler: one line, no changelog")
        assert {k: state for k, (_, state) in ledger(s).items()}["r2"] is WAIVED
        dropped = s.objective.get_requirement("r2")
        assert dropped is not None
        assert dropped.waived_because == "said: make it simpler: one line, no changelog"
        assert "judging.dropped" in s.notices()
        assert "- r2 waived " in s.server.of("main")[3].text
        end = await s.turn("the first")
        assert (end.outcome, list(ledger(s))) == ("done", ["r1", "r2", "r3"])
        for purpose in ("satisfaction", "missing"):
            for request in s.server.of(purpose):
                assert f"- r2 P1 {LOG}" not in request.text
                assert LOG not in request.text.partition("# Requirements")[2].partition("# ")[0]


async def test_what_was_dropped_is_asked_for_again_by_the_users_word_alone(tmp_path: Path) -> None:
    replies = script(
        works(claim(NOTES), claim(LOG)),
        ASK,
        ASK,
        done("So.", task_profile="FILE_OPERATION"),
        requirements=(found(dropped=["r2"]), found(again=["r2"])),
        satisfaction=good("r1", "r2"),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        await s.turn("write no changelog")
        assert ledger(s)["r2"] == (LOG, WAIVED)
        assert (await s.turn("add the changelog after all")).outcome == "done"
        assert ledger(s)["r2"] == (LOG, MET)
        assert "again: ids out of r2" in s.server.of("requirements")[1].text


@pytest.mark.parametrize("dropped", [["r2"], []])
async def test_a_refusal_waives_what_it_refuses_and_only_that(
    tmp_path: Path, dropped: list[str]
) -> None:
    """A no to one way alone drops nothing: then it is not done. R20."""
    replies = script(
        works(claim(NOTES), claim(LOG)),
        decision("And this.", write("1.0\n", "log.txt")),
        done("I leave the changelog."),
        requirements=found(dropped=dropped),
        satisfaction=good("r1") if dropped else judged(0.4, {"r1": 0.9, "r2": 0.0}),
    )
    async with session(tmp_path, replies) as s:
        await s.engine.send("write the notes")
        await s.answer(GateChoice.ONCE)
        await s.answer(GateChoice.REJECT, reason="no changelog")
        end = await s.ended()
        asked = s.server.of("requirements")[0].text
        assert "- refused: file_ops.write_file log.txt (do what was asked)" in asked
        assert "rejected by the user: no changelog" in asked
        if dropped:
            assert (end.outcome, ledger(s)["r2"]) == ("done", (LOG, WAIVED))
            assert "- r2" not in s.server.of("satisfaction")[0].text
        else:
            assert (end.outcome, ledger(s)["r2"][1]) == ("partial", RequirementState.REFUTED)


async def test_remarks_on_lines_of_a_refused_change_reach_whom_the_ledger_is_kept_by(
    tmp_path: Path,
) -> None:
    said = "leave the changelog out, " + "as nobody here reads one " * 40 + "(the end)"
    remarks = (
        Remark(path="log.txt", number=1, line="1.0", said="no number"),
        Remark(path="log.txt", number=2, line="more", said=said),
    )
    replies = script(
        works(claim(NOTES), claim(LOG)),
        decision("And this.", write("1.0\nmore\n", "log.txt")),
        done("I leave the changelog."),
        requirements=found(dropped=["r2"]),
        satisfaction=good("r1"),
    )
    async with session(tmp_path, replies) as s:
        await s.engine.send("write the notes")
        await s.answer(GateChoice.ONCE)
        await s.answer(GateChoice.REJECT, remarks=remarks)
        await s.ended()
        asked = s.server.of("requirements")[0].text
        assert f"rejected by the user: log.txt:1: no number; log.txt:2: {said}" in asked


ADD_STEP = {"op": "add", "name": "write tests", "after": "2"}


def notes_and_changelog(*then: Reply) -> Script:
    """A plan with a step for each of two requirements, of which the second is dropped later."""
    plans = action("plan_tool.propose", goal="two notes")
    wanted = [claim(NOTES), claim(LOG)]
    return script(
        decision("I plan.", plans, task_profile="FILE_OPERATION", requirements=wanted),
        *then,
        Reply(decision=ASK.decision, hold="a"),
        ASK,
        plan=plan_reply("write the notes", "write the changelog", chain=False),
        requirements=found(dropped=["r2"]),
    )


async def test_a_change_of_the_plan_that_the_user_accepts_waives_what_it_takes_out(
    tmp_path: Path,
) -> None:
    drop = action("plan_tool.revise", changes=[{"op": "drop", "step_id": "2"}])
    replies = notes_and_changelog(decision("Simpler.", drop))
    async with session(tmp_path, replies, mode="trusted") as s:
        await begin_plan(s, "run_steps", asks="write the notes and a changelog")
        await answer(s, "accept", kind=CardKind.PLAN_CHANGE)
        await s.server.reached("a")
        s.server.release("a")
        await s.until(lambda _: ledger(s)["r2"][1] is WAIVED)
        asked = s.server.of("requirements")[0].text
        assert "- accepted a change of the plan: drop the step 'write the changelog'" in asked
        assert ledger(s)["r2"] == (LOG, WAIVED)


@pytest.mark.parametrize("yes", [True, False], ids=["accepted", "refused"])
@pytest.mark.parametrize("beside", [True, False], ids=["beside the work", "in the turn"])
async def test_a_change_of_the_plan_brings_its_own_requirements_without_another_call(
    tmp_path: Path, yes: bool, beside: bool
) -> None:
    """What it adds and waives is on the card, and on the ledger with the user's yes alone."""
    tests = {"requirement": "it has tests", "priority": "P2", "check": "file_exists: test.txt"}
    change = action(
        "plan_tool.revise",
        changes=[{"op": "drop", "step_id": "2"}],
        requirements=[tests],
        waives=["r2"],
    )
    then = (HELD, done("Simpler.", actions=[change])) if beside else (decision("Simpler.", change),)
    replies = notes_and_changelog(*then)
    async with session(tmp_path, replies, mode="trusted") as s:
        await begin_plan(s, "run_steps", asks="write the notes and a changelog")
        if beside:
            await s.server.reached("a")
            await s.engine.send("tests, and no changelog", "now")
        await s.until(lambda state: any(c.kind is CardKind.PLAN_CHANGE for c in state.cards))
        (card,) = s.state.cards
        assert card.change is not None
        assert [claim.requirement for claim in card.change.requirements or ()] == ["it has tests"]
        assert card.change.waives == {"r2": LOG}
        before = ledger(s)
        await answer(s, "accept" if yes else "reject")
        await s.until(lambda state: not state.cards and not state.running)
        new = s.objective.get_requirement("r3")
        if yes:
            assert new is not None
            assert (new.requirement, new.priority, new.check.value) == (
                "it has tests",
                2,
                "test.txt",
            )
            assert ledger(s)["r2"] == (LOG, WAIVED)
        else:
            assert (new, ledger(s)) == (None, before)
        assert not s.server.of("requirements")


async def test_a_request_that_nobody_split_is_judged_beside_what_a_change_of_the_plan_brings(
    tmp_path: Path,
) -> None:
    tests = {"requirement": "it has tests", "check": "file_exists: test.txt"}
    change = action("plan_tool.revise", changes=[ADD_STEP], requirements=[tests])
    replies = script(
        decision("I plan.", action("plan_tool.propose", goal="two notes")),
        HELD,
        done("And tests.", actions=[change]),
        plan=plan_reply("write the notes", "write the changelog", chain=False),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await begin_plan(s, "run_steps", asks="write the notes and a changelog")
        await s.server.reached("a")
        await s.engine.send("it needs tests", "now")
        await answer(s, "accept", kind=CardKind.PLAN_CHANGE)
        await s.until(lambda _: "r2" in ledger(s))
        assert [text for text, _ in ledger(s).values()] == [
            "write the notes and a changelog",
            "it has tests",
        ]


@pytest.mark.parametrize("way", ["drop", "skip", "skip while it runs"])
async def test_a_step_that_the_user_takes_out_by_key_waives_what_it_was_for(
    tmp_path: Path, way: str
) -> None:
    async with session(tmp_path, notes_and_changelog(), mode="trusted") as s:
        await s.engine.send("write the notes and a changelog")
        await s.until(lambda state: any(c.kind is CardKind.PLAN for c in state.cards))
        first = s.state.cards[0].card_id
        step_id = s.state.plans[0].steps[1].step_id
        if way == "drop":
            drop = PlanEdit(op="drop", step_id=step_id)
            assert await s.engine.plan.edit_steps((drop,)) is None
            await s.until(lambda state: any(c.card_id != first for c in state.cards))
        elif way == "skip":
            assert s.engine.plan.skip_step(step_id) is None
        await answer(s, "run_steps")
        await s.server.reached("a")
        if way == "skip while it runs":
            assert s.engine.plan.skip_step(step_id) is None
        assert f"plan.step_{'dropped' if way == 'drop' else 'skipped'}" in s.notices()
        s.server.release("a")
        await s.until(lambda _: ledger(s)["r2"][1] is WAIVED)
        asked = s.server.of("requirements")[0].text
        did = "dropped" if way == "drop" else "skipped"
        assert f"- {did} a step of the plan: 'write the changelog'" in asked
        assert ledger(s)["r1"][1] is not WAIVED


# --- what is true now ----------------------------------------------------------------------------


async def test_after_undo_nothing_is_shown_as_met_or_done_and_going_on_brings_it_again(
    tmp_path: Path,
) -> None:
    replies = script(
        works(claim(NOTES)),
        done("Done."),
        decision("", write("half\n"), continues=True),
        done("Again."),
        satisfaction=(good("r1"), good("r1")),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        assert (s.state.phase, ledger(s)["r1"][1]) == (Phase.DONE, MET)
        first = s.objective.objective_id
        await s.engine.undo()
        assert ledger(s) == {"r1": (NOTES, OPEN)}
        assert (s.state.phase, s.objective.met_counts) == (Phase.IDLE, (0, 1))
        assert s.objective.extracted_requirements[0].evidence == ()
        assert (await s.turn("go on")).outcome == "done"
        assert (s.objective.objective_id, ledger(s)["r1"][1]) == (first, MET)
        assert not s.objective.reopened


@pytest.mark.parametrize("alone", [True, False])
async def test_what_a_file_shows_is_looked_at_again_after_undo_and_redo(
    tmp_path: Path, alone: bool
) -> None:
    """Without a call to a model; what only a model can judge stays open, and so does the request
    then.
    """
    there = claim(NOTES, kind="file_contains", value="notes.txt: half")
    replies = script(
        works(there, *([] if alone else [claim("they are clear")])),
        decision("", action("file_ops.write_file", path="other.txt", content="x\n")),
        done("Done."),
        satisfaction=good("r1", "r2"),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        assert s.objective.met_counts[0] == len(ledger(s))
        calls = len(s.server.requests)
        await s.engine.undo()  # of the other file: not all is as it was
        assert (ledger(s)["r1"][1], s.objective.reopened) == (MET, True)
        await s.engine.undo()
        assert ledger(s)["r1"][1] is RequirementState.REFUTED
        await s.engine.redo(whole=True)
        assert ledger(s)["r1"][1] is MET
        assert all(e.supports for e in s.objective.extracted_requirements[0].evidence)
        # With the files as they were judged the ledger is as it was, row by row.
        assert (s.objective.met_counts, s.objective.reopened) == ((len(ledger(s)),) * 2, False)
        assert len(s.server.requests) == calls


async def test_an_undo_marks_the_verdict_on_an_earlier_request_and_redo_clears_it(
    tmp_path: Path,
) -> None:
    """The request in hand was answered in words, which an undo of files leaves as it was."""
    replies = script(
        works(claim(NOTES)),
        done("Done."),
        done("They say half.", requirements=[claim("it is explained")]),
        satisfaction=(good("r1"), judged(0.9, evidence={"r1": ["P1"]})),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        await s.turn("what do they say?")
        works_on, explains = (m.review for m in s.state.messages if isinstance(m, ReviewMessage))
        assert (works_on.done, explains.done) == (True, True)
        await s.engine.undo()
        assert ledger(s) == {"r1": ("it is explained", MET)}
        assert [is_outdated(s.state, review) for review in (works_on, explains)] == [True, False]
        await s.engine.redo()
        assert not is_outdated(s.state, works_on)


@pytest.mark.parametrize(("evidence", "stays"), [(["C1"], True), (["P1"], False)])
async def test_an_undo_opens_what_only_a_reply_shows_where_nothing_else_is_shown_by_files(
    tmp_path: Path, evidence: list[str], stays: bool
) -> None:
    replies = script(
        works(claim(NOTES), claim("it is explained")),
        done("They say half."),
        satisfaction=judged(0.9, {"r1": 0.9, "r2": 0.9}, evidence={"r1": evidence, "r2": ["P1"]}),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes and say what they say")
        await s.engine.undo()
        assert [state for _, state in ledger(s).values()] == [OPEN, MET if stays else OPEN]
        await s.engine.redo()
        assert [state for _, state in ledger(s).values()] == [MET, MET]


async def test_what_was_undone_is_kept_as_unfinished_when_another_request_comes(
    tmp_path: Path,
) -> None:
    replies = script(
        works(claim(NOTES)),
        done("Done."),
        done("Hi.", task_profile="GENERAL_CHAT"),
        satisfaction=good("r1"),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        await s.engine.undo()
        await s.turn("hello")
        assert [(o.original_query, o.left) for o in s.state.earlier] == [
            ("write the notes", "partial")
        ]


@pytest.mark.parametrize("changed", [True, False])
async def test_after_a_way_back_what_files_no_longer_show_is_open(
    tmp_path: Path, changed: bool
) -> None:
    """The second turn changed the file that shows what the first one brought. Taken back, the way
    back leaves it as it is: what was judged by it before is to be judged anew.
    """
    second = (
        decision("", write("other\n")) if changed else decision("", action("file_ops.list_dir"))
    )
    replies = script(
        works(claim(NOTES)),
        done("Done."),
        second,
        done("Changed.", task_profile="GENERAL_CHAT"),
        satisfaction=(good("r1"), good("r1")),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        await s.turn("hello")
        message = next(m for m in s.state.messages if m.kind == "user" and m.text == "hello")
        assert await s.engine.rewind.go_back(message.message_id) == ""
        if changed:
            assert (s.state.phase, ledger(s)["r1"][1]) == (Phase.IDLE, OPEN)
        else:
            assert (s.state.phase, ledger(s)["r1"][1]) == (Phase.DONE, MET)


async def test_a_way_back_opens_the_rows_of_changed_files_and_no_others(tmp_path: Path) -> None:
    """As undo does; and with the files put back, and back again, each row stands as it did."""
    there = claim(LOG, kind="file_contains", value="log.txt: 1.0")
    notes = claim(NOTES, kind="file_contains", value="notes.txt: half")
    replies = script(
        works(notes, there),
        decision("", write("1.0\n", "log.txt")),
        done("Done."),
        decision("", write("other\n")),
        done("Changed.", task_profile="GENERAL_CHAT"),
        satisfaction=(good("r1", "r2"),) * 2,
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes and a changelog")
        await s.turn("hello")
        message = next(m for m in s.state.messages if m.kind == "user" and m.text == "hello")
        assert await s.engine.rewind.go_back(message.message_id) == ""
        assert [ledger(s)[key][1] for key in ("r1", "r2")] == [OPEN, MET]
        review = next(m.review for m in s.state.messages if isinstance(m, ReviewMessage))
        assert is_outdated(s.state, review)
        assert await s.engine.rewind.undo_rewind() == ""
        assert await s.engine.rewind.go_back(message.message_id, files=True) == ""
        assert [ledger(s)[key][1] for key in ("r1", "r2")] == [MET, MET]
        assert not is_outdated(s.state, review)


@pytest.mark.parametrize("way", ["write", "touch later.txt", "ln -s nowhere link"])
async def test_files_that_are_put_back_after_a_way_back_show_again_what_they_showed(
    tmp_path: Path, way: str
) -> None:
    """The second turn changed the file. Put back, it is what the first one was judged by; where a
    command did what cannot be put back, such as a link, nothing is known of it.
    """
    other = [write("other\n")]
    if way != "write":
        other.append(action("shell.run", command=way))
    replies = script(
        works(claim(NOTES)),
        done("Done."),
        decision("", *other),
        done("Changed.", task_profile="GENERAL_CHAT"),
        satisfaction=(good("r1"), good("r1")),
    )
    async with session(tmp_path, replies, mode="trusted", allow=(way,)) as s:
        await s.turn("write the notes")
        await s.turn("hello")
        message = next(m for m in s.state.messages if m.kind == "user" and m.text == "hello")
        assert await s.engine.rewind.go_back(message.message_id) == ""
        assert ledger(s)["r1"][1] is OPEN
        assert await s.engine.rewind.undo_rewind() == ""
        assert await s.engine.rewind.go_back(message.message_id, files=True) == ""
        assert (s.workspace / "notes.txt").read_text() == "half\n"
        assert not (s.workspace / "later.txt").exists()
        covered = not way.startswith("ln")
        assert ledger(s)["r1"][1] is (MET if covered else OPEN)
        assert s.objective.reopened is not covered


# --- what is shown as done -----------------------------------------------------------------------


async def test_a_should_that_stays_unmet_is_never_done_without_the_users_word(
    tmp_path: Path,
) -> None:
    """0.82 of 1 over the whole: it goes on for the missing one, and then the user is asked."""
    short = judged(0.9, {"r1": 1.0, "r2": 1.0, "r3": 1.0, "r4": 0.0})
    wanted = (claim(NOTES), claim("they are short"), claim("they are clear"), claim(LOG, 2))
    tries = (works(*wanted), done("One."), done("Two."), done("Three."))
    replies = script(
        *tries,
        satisfaction=(short, short, short),
        missing=tuple(lacks("the changelog") for _ in range(3)),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.engine.send("write the notes")
        await s.until(lambda state: any(c.kind is CardKind.ESCALATION for c in state.cards))
        assert s.state.last_review is not None
        assert s.state.last_review.score == 0.818182
        assert s.state.last_turn is None
        await answer(s, "accept_partial")
        assert (await s.ended()).outcome == "done"


@pytest.mark.parametrize(
    ("met", "wish"), [(True, "forget all of it, say no more"), (False, "Skip all of it.")]
)
async def test_what_is_dropped_is_told_to_model_and_user_and_the_request_is_judged_as_a_whole(
    tmp_path: Path, met: bool, wish: str
) -> None:
    """A model alone never drops all that was asked for: the user's last words are judged too."""
    replies = script(
        works(claim(NOTES), claim(LOG)),
        ASK,
        done("So.", task_profile="FILE_OPERATION"),
        requirements=found(dropped=["r1", "r2"]),
        satisfaction=judged(0.9 if met else 0.1, {"r3": 0.9 if met else 0.1}),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        await s.engine.send(wish)
        await s.until(lambda state: state.last_review is not None)
        told = [m for m in s.state.messages if isinstance(m, NoticeMessage)]
        (said,) = [m for m in told if m.key == "judging.dropped"]
        assert said.params["what"] == f"{NOTES}; {LOG}"
        assert f"r1 {NOTES}; r2 {LOG}" in said.for_model
        assert "do not ask for them again" in said.for_model
        words, state = ledger(s)["r3"]
        assert words == f"write the notes; {wish}"
        assert state is (MET if met else RequirementState.REFUTED)
        assert s.state.last_review is not None
        assert s.state.last_review.done is met


@pytest.mark.parametrize("form", [["r2"], {"r2": "a reason in words of its own"}, {"R2": ""}])
async def test_the_splitters_word_on_what_is_dropped_counts_and_is_told(
    tmp_path: Path, form: object
) -> None:
    """However it says why: no look-up of a quotation keeps what the user no longer asks for."""
    replies = script(
        works(claim(NOTES), claim(LOG)),
        ASK,
        done("So.", task_profile="FILE_OPERATION"),
        requirements=Reply(data={"requirements": [], "dropped": form, "again": []}),
        satisfaction=judged(0.9, {"r1": 0.9}),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes and a changelog")
        assert (await s.turn("the notes alone will do")).outcome == "done"
        assert ledger(s)["r2"][1] is WAIVED
        assert "judging.dropped" in s.notices()


async def test_an_id_that_is_not_on_the_list_is_sent_back_and_what_is_so_already_is_left(
    tmp_path: Path,
) -> None:
    replies = script(
        works(claim(NOTES), claim(LOG)),
        ASK,
        ASK,
        ASK,
        requirements=(
            found(dropped=["r9"]),
            found(dropped=["r2"]),
            found(dropped=["r2"], again=["r1"]),
        ),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes and a changelog")
        await s.turn("leave out the changelog")
        assert (
            "'r9' is no id of the list; the ids are r1, r2" in s.server.of("requirements")[1].text
        )
        await s.turn("and no changelog, as I said")
        assert [words for words, state in ledger(s).values() if state is not WAIVED] == [NOTES]
        assert [e.requirement_id for e in s.events(RequirementWaived)] == ["r2"]
        assert s.notices().count("judging.dropped") == 1


async def test_a_list_inside_what_the_user_pasted_is_no_list_of_wishes(tmp_path: Path) -> None:
    text = "set x to 2; the log says\n```\n- opened the pond\n- closed it\n```\n> - a quote\n"
    replies = script(
        decision("", write("x = 2\n", "a.py"), requirements=[claim("x is 2")]), done("Done.")
    )
    async with session(tmp_path, replies, mode="trusted", headless=True) as s:
        assert (await s.turn(text)).outcome == "done"
        assert list(ledger(s)) == ["r1"]


# --- what is said beside the work ----------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["tools", "json", "responses"])
@pytest.mark.parametrize(
    "said",
    [
        "also add a changelog",
        "changelogも追加して",
    ],
)
async def test_a_wish_that_is_said_beside_the_work_joins_the_ledger(
    tmp_path: Path, said: str, protocol: Protocol
) -> None:
    """And the work is not done without it."""
    held = Reply(decision=done("The notes are there.").decision, hold="a")
    replies = script(
        works(claim(NOTES)),
        held,
        requirements=found(claim(LOG)),
        satisfaction=(),
        aside=done("I see."),
        missing=lacks("the changelog"),
    )
    kept: dict[str, Any] = {"mode": "trusted", "author": believes}
    async with session(tmp_path, replies, protocol=protocol, **kept) as s:
        await s.engine.send("write the notes")
        await s.server.reached("a")
        await s.engine.send(said, "now")
        s.server.release("a")
        assert (await s.ended()).outcome == "done"
        assert list(ledger(s)) == ["r1", "r2"]
        (asked,) = s.server.of("requirements")
        assert f"- said: {said}" in asked.text


@pytest.mark.parametrize("asks", [True, False], ids=["a question", "a wish"])
async def test_an_answer_beside_the_work_that_says_what_its_message_is_costs_no_other_call(
    tmp_path: Path, asks: bool
) -> None:
    said: dict[str, Any] = {"task_profile": "SIMPLE_QUESTION"} if asks else {}
    said = said or {"requirements": [claim(LOG)]}
    held = Reply(decision=done("The notes are there.").decision, hold="a")
    replies = script(
        works(claim(NOTES)),
        held,
        done("I see.", **said),
        satisfaction=good("r1") if asks else good("r1", "r2"),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.engine.send("write the notes")
        await s.server.reached("a")
        await s.engine.send("how far are you?" if asks else "also add a changelog", "now")
        wanted = ["r1"] if asks else ["r1", "r2"]
        await s.until(
            lambda state: (
                any(m.kind == "assistant" and m.aside for m in state.messages)
                and list(ledger(s)) == wanted
            )
        )
        s.server.release("a")
        assert (await s.ended()).outcome == "done"
        assert list(ledger(s)) == wanted
        assert not s.server.of("requirements")


async def test_what_is_dropped_beside_the_work_is_waived(tmp_path: Path) -> None:
    held = Reply(decision=done("The notes are there.").decision, hold="a")
    replies = script(
        works(claim(NOTES), claim(LOG)),
        held,
        requirements=found(dropped=["r2"]),
        satisfaction=good("r1"),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.engine.send("write the notes and a changelog")
        await s.server.reached("a")
        await s.engine.send("leave the changelog out", "now")
        s.server.release("a")
        assert (await s.ended()).outcome == "done"
        assert ledger(s) == {"r1": (NOTES, MET), "r2": (LOG, WAIVED)}


async def test_a_wish_for_speed_drops_nothing_though_a_model_says_so_again_and_again(
    tmp_path: Path,
) -> None:
    """Nothing was done, and nothing counts as done. What stands for all is named again as often
    as it is dropped.
    """
    replies = script(
        decision("", task_profile="FILE_OPERATION", requirements=[claim(NOTES)], **WAITS),
        *[ASK] * 3,
        *[done("All done.", task_profile="FILE_OPERATION")] * 3,
        requirements=(found(dropped=["r1"]), found(dropped=["r2"])),
        satisfaction=(judged(0.0, {"r3": 0.0}),) * 3,
    )
    async with session(tmp_path, replies, mode="trusted", headless=True) as s:
        await s.turn("write the notes and a changelog")
        await s.turn("please hurry")
        assert (await s.turn("please hurry")).outcome == "partial"
        assert len(s.server.of("requirements")) == 2
        open_items = [words for words, state in ledger(s).values() if state is not WAIVED]
        assert open_items == ["write the notes and a changelog; please hurry"]


async def test_what_the_user_drops_by_key_is_gone_without_a_judge(tmp_path: Path) -> None:
    replies = script(
        works(claim(NOTES), claim(LOG)),
        ASK,
        done("So.", task_profile="FILE_OPERATION"),
        requirements=found(),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("write the notes")
        for key in ("r1", "r2"):
            assert s.engine.ledger.waive_requirement(key) is None
        end = await s.turn("thank you, that is all")
        assert (end.outcome, end.satisfaction, list(ledger(s))) == ("done", None, ["r1", "r2"])
