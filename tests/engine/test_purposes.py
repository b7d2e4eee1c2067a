"""What each purpose is told: the requests of whole runs, read as they went over the wire."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.plan_talk import plan_reply, report_reply, tasks_reply, write
from support.reviews import claim, diagnosis, judged, lacks, next_plan
from support.session import Session, action, decision, done, note_of, script, session

from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.gates import TRUST, CardAnswer, CardKind, GateChoice

END = "and end each line with a full stop"
REQUEST = f"Write the notes. {'They are read by people who are in a hurry. ' * 20}{END}"
FACT = "THE HARBOUR OPENS AT SIX"
CONSTRAINT = "no line over 60 characters"
DECISION = "the notes are in English"
REQUIREMENT = "both notes are there"

#: What stands in every request of a purpose, beside the whole request and the constraint.
TOLD = {
    "main": (REQUIREMENT, FACT),
    "plan": (DECISION, REQUIREMENT, FACT),
    "tasks": (DECISION, REQUIREMENT, FACT, " note: do "),
    "task": (DECISION, REQUIREMENT, FACT, "second note: do second note", "a.txt is written"),
    "report": (DECISION, REQUIREMENT, "file_ops.write_file"),
    "satisfaction": (DECISION, REQUIREMENT, "C1 a.txt"),
    "missing": (DECISION, REQUIREMENT, "a.txt"),
    "continuation": (DECISION, REQUIREMENT, FACT, "a.txt is written", "the harbour is not named"),
    "failure": (DECISION, REQUIREMENT),
}


def planned() -> Script:
    """A file is read, two steps are planned and done, and three attempts are not enough."""
    begins = decision(
        "I look first.",
        action("file_ops.read_file", path="facts.txt"),
        task_profile="MULTI_STEP_TASK",
        requirements=[claim(REQUIREMENT)],
        state_delta={"goal": "two notes", "constraints": [CONSTRAINT], "decision": DECISION},
    )
    writes = decision(
        "Written.", action("file_ops.write_file", path="b.txt", content="b\n"), next_step="done"
    )
    return script(
        begins,
        decision("", action("plan_tool.propose", goal="two notes"), step="PLANNING"),
        decision("", action("task_tool.generate_list", step_id="1")),
        decision("", action("task_loop.run", step_id="1")),
        *(done("Both notes are written.") for _ in range(3)),
        plan=plan_reply("first note", "second note"),
        tasks=(tasks_reply(write("a.txt")), tasks_reply()),
        task=writes,
        report=(report_reply(summary="a.txt is written"),) * 2,
        satisfaction=tuple(judged(n, missing_aspects=[]) for n in (0.3, 0.4, 0.5)),
        missing=(lacks("the harbour is not named"),) * 3,
        continuation=tuple(next_plan(f"way {n}") for n in range(3)),
        failure=diagnosis(),
    )


async def run(s: Session) -> None:
    (s.workspace / "facts.txt").write_text(f"{FACT}\n")
    await s.engine.send(REQUEST)
    seen: set[str] = set()
    while True:
        await s.until(lambda state: any(c.card_id not in seen for c in state.cards))
        card = s.state.cards[-1]
        seen.add(card.card_id)
        escalated = card.kind is CardKind.ESCALATION
        choice = "assistance" if escalated and len(seen) < 4 else "cancel"
        if card.kind is CardKind.PLAN:
            choice = "run_steps"
        elif card.kind is CardKind.REPORT:
            choice = "go_on"
        await s.engine.answer_card(
            CardAnswer(card_id=card.card_id, subject=card.subject, action=choice)
        )
        if choice == "cancel":
            return


@pytest.mark.parametrize("protocol", ["json", "tools"])
async def test_each_purpose_is_told_what_its_work_needs(tmp_path: Path, protocol: str) -> None:
    """The whole request, what was read for it and decided since reach whoever does the work.

    Covers S4-102, S1-7, S4-112.
    """
    native = "tools" if protocol == "tools" else "json"
    async with session(tmp_path, planned(), mode="trusted", protocol=native) as s:
        await run(s)
        await s.ended()
        asked = [r for r in s.server.requests if r.method == "POST"]
        assert TOLD.keys() - {r.purpose for r in asked} == set()
        for request in asked:
            first = request.purpose == "main" and request is asked[0]
            assert request.purpose != "satisfaction" or FACT not in request.text  # was only read
            for said in (END, *(() if first else (CONSTRAINT, *TOLD[request.purpose]))):
                assert said in request.text, (request.purpose, said)


async def test_the_rules_of_the_project_reach_all_but_who_splits_or_sums_up(tmp_path: Path) -> None:
    """The judge and who plans a further attempt work by them too."""
    rule = "Never spaces, always tabs."
    (tmp_path / "work").mkdir()
    (tmp_path / "work/AGENTS.md").write_text(f"{rule}\n")
    scripted = planned()
    first, *rest = scripted.replies["main"]
    assert first.decision is not None
    bare = first.model_copy(update={"decision": {**first.decision, "requirements": []}})
    split = (Reply(data={"requirements": [claim(REQUIREMENT)]}),)
    replies = {**scripted.replies, "main": (bare, *rest), "requirements": split}
    async with session(tmp_path, Script(replies=replies), mode="trusted") as s:
        await s.until(lambda state: bool(state.cards))
        card = s.state.cards[0]
        await s.engine.answer_card(
            CardAnswer(card_id=card.card_id, subject=card.subject, action=TRUST.action)
        )
        await s.until(lambda state: not state.cards)
        await run(s)
        await s.ended()
        told = {r.purpose for r in s.server.requests if r.method == "POST" and rule in r.text}
        assert told == TOLD.keys()


async def test_only_a_request_that_fills_a_quarter_of_the_window_is_cut_and_says_so(
    tmp_path: Path,
) -> None:
    """Both ends stay."""
    long = f"Sort these words. {'harbour ' * 6_000}{END}"
    replies = script(
        decision(
            "",
            action("file_ops.write_file", path="a.txt", content="a\n"),
            task_profile="FILE_OPERATION",
        ),
        done("Sorted."),
        requirements=Reply(data={"requirements": [{**claim("sorted")}]}),
    )
    for window, whole in ((64_000, True), (20_000, False)):
        folder = tmp_path / str(window)
        folder.mkdir()
        async with session(folder, replies, mode="trusted", window=window) as s:
            await s.turn(long)
            for purpose in ("main", "requirements", "satisfaction"):
                text = s.server.of(purpose)[-1].text
                assert "Sort these words." in text
                assert END in text
                assert ("characters left out here by the app" in text) is not whole, purpose
                assert (text.count("harbour") >= 6_000) is whole, purpose


def tail(s: Session, number: int) -> str:
    """The note of a request of the main model: where things stand."""
    return note_of(s.server.of("main")[number])


AIMS = {
    "goal": "the notes are in order",
    "why_now": "they are read tonight",
    "constraints": [CONSTRAINT],
    "plan_brief": ["sort them"],
    "open_questions": ["by name or by date?"],
}


async def test_another_request_begins_with_nothing_of_what_the_last_one_aimed_at(
    tmp_path: Path,
) -> None:
    """And the constraint that goes with it is named to both. Covers S4-103."""
    replies = script(done("Sorted.", state_delta=AIMS), done("Hello."))
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("sort the notes")
        await s.turn("now tell me a joke")
        said = tail(s, 1)
        for old in ("the notes are in order", "they are read tonight", "sort them", "by date?"):
            assert old not in said
        assert "turn.constraint_dropped" in s.notices()
        assert f"No longer a constraint: {CONSTRAINT}" in s.server.of("main")[1].text


async def test_a_message_that_goes_on_has_back_what_the_work_aims_at(tmp_path: Path) -> None:
    """The model says so, where the words did not: its memory is what it was. Covers S4-103."""
    stopped = decision("I need a word.", next_step="defer", state_delta=AIMS)
    replies = script(stopped, decision("", continues=True), done("Sorted."))
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("sort the notes")
        await s.turn("by date it is")
        assert "Goal: the notes are in order" in tail(s, 2)
        assert CONSTRAINT in tail(s, 2)


async def test_the_memory_notes_what_changed_last_and_what_the_user_decided(
    tmp_path: Path,
) -> None:
    """Not what the model says of itself. Covers S4-105, S4-41, S4-43."""
    writes = action("file_ops.write_file", path="a.txt", content="a\n")
    removes = action("file_ops.delete_file", path="b.txt")
    replies = script(
        decision("", writes), decision("", removes), decision("Then not."), done("Written.")
    )
    async with session(tmp_path, replies, mode="standard") as s:
        (s.workspace / "b.txt").write_text("b\n")
        await s.engine.send("write a.txt and drop b.txt")
        await s.answer(GateChoice.ONCE)
        await s.answer(GateChoice.REJECT, reason="it is still needed")
        await s.ended()
        assert "Last change: create a.txt +1 −0 (file_ops.write_file)" in tail(s, 1)
        log = s.state.memory.decision_log
        assert log[0] == "the user refused file_ops.delete_file b.txt: it is still needed"
        assert f"- {log[0]}" in tail(s, 2)


async def test_after_an_error_the_next_request_says_so_and_how_to_go_on(tmp_path: Path) -> None:
    """Until something went well again. Covers S4-106, S4-29."""
    missing = decision("", action("file_ops.read_file", path="gone.txt"))
    there = decision("", action("file_ops.read_file", path="here.txt"))
    replies = script(missing, there, done("Read."))
    async with session(tmp_path, replies, mode="trusted") as s:
        (s.workspace / "here.txt").write_text("here\n")
        await s.turn("read it")
        before, error, after = tail(s, 0), tail(s, 1), tail(s, 2)
        assert "The last operation failed: gone.txt does not exist" in error
        assert "where the cause lies, then mend it" in error
        assert "The last operation failed" not in before + after


async def test_a_step_is_told_how_to_change_things_safely_and_the_error_it_met(
    tmp_path: Path,
) -> None:
    """Covers S4-20, S4-21, S4-106 for the step of a plan."""
    scripted = planned()
    fails = decision("", action("file_ops.read_file", path="gone.txt"))
    tasks = (fails, *scripted.replies["task"])
    scripted = scripted.model_copy(update={"replies": {**scripted.replies, "task": tasks}})
    async with session(tmp_path, scripted, mode="trusted") as s:
        await run(s)
        first, second = map(note_of, s.server.of("task"))
        assert "Before each change: is the path the one meant" in first
        assert "The last operation failed" not in first
        assert "The last operation failed: gone.txt does not exist" in second


async def test_each_role_has_a_temperature_of_its_own(tmp_path: Path) -> None:
    """Decisions are sampled at 0.1 unless a setting says otherwise. Covers S3-11."""
    warm = {"main": 0.3, "creative": 0.9, "evaluator": 0.0}
    async with session(tmp_path, planned(), mode="trusted", temperature=warm) as s:
        await run(s)
        sent = {r.purpose: r.json.get("temperature") for r in s.server.requests}
        assert sent["main"] == sent["task"] == 0.3
        assert sent["plan"] == sent["tasks"] == sent["continuation"] == 0.9
        assert sent["satisfaction"] == 0.0
        assert sent["report"] is None


async def test_a_constraint_that_the_model_drops_is_named_to_both(tmp_path: Path) -> None:
    """A list replaces the old one, and what is not in the new one no longer holds."""
    look = action("file_ops.list_dir", path=".")
    replies = script(
        decision("", look, state_delta=AIMS),
        decision("", look, state_delta={"constraints": ["in English"]}),
        done("Sorted."),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("sort the notes")
        assert s.notices().count("turn.constraint_dropped") == 1
        assert f"No longer a constraint: {CONSTRAINT}" in s.server.of("main")[2].text
        assert "No longer a constraint: in English" not in s.server.of("main")[2].text


async def test_what_the_user_adds_reaches_the_judge_and_older_talk_as_its_background(
    tmp_path: Path,
) -> None:
    writes = decision(
        "", action("file_ops.write_file", path="a.txt", content="a\n"), task_profile="DEBUGGING"
    )
    waits = decision("By name or by date?", next_step="pending_user")
    replies = script(
        done("Hello."),
        writes,
        waits,
        done("By date.", continues=True),
        requirements=Reply(data={"requirements": [claim("sorted")]}),
        satisfaction=(judged(0.3), judged(0.9)),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("good morning to you all")
        assert (await s.turn("fix the order of the notes")).outcome == "partial"
        await s.turn("by date, please")
        asked = s.server.of("satisfaction")[-1]
        assert "<said>\n- by date, please\n</said>" in asked.text
        earlier = asked.text.partition("<earlier>")[2].partition("</earlier>")[0]
        assert "good morning" in earlier
        assert "good morning" not in asked.text.partition("<facts>")[2]
