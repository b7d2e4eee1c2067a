"""The working memory under the user's own hand: what they write stands until the model is told."""

from __future__ import annotations

from pathlib import Path

from support.session import Session, action, decision, done, note_of, script, session

from duckflow_tui.scripted.replies import Reply
from duckflow_tui.session.resume import open_to_read
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import NoticeMessage, UserMessage
from duckflow_tui.state.memory import MemoryEdited, WorkingMemory
from duckflow_tui.state.operations import Outcome
from duckflow_tui.work.notes import guess_items

READ = action("file_ops.read_file", path="app.py")
MINE = "total() gives 81.00"
THEIRS = "the totals are right"
HAND = "By the user's own hand: "


def tail(s: Session, at: int = -1) -> str:
    """Where the work stands, as the newest request of the turn says it."""
    return note_of(s.server.of("main")[at])


def says(goal: str, *, last: bool = False, **delta: object) -> Reply:
    memory = {"goal": goal, **delta}
    return done("So.", state_delta=memory) if last else decision("", READ, state_delta=memory)


def held(reply: Reply, name: str = "a") -> Reply:
    return Reply(decision=reply.decision, hold=name)


async def test_no_item_is_empty_while_a_request_is_in_hand(tmp_path: Path) -> None:
    """What nobody stated stands there from facts; a model without a goal reads the request."""
    wanted = [{"requirement": f"total {n} is right", "priority": 1} for n in range(4)]
    asks = {"text": "Gross or net?", "options": ["gross", "net"]}
    replies = script(
        decision("", READ, rationale="I look at the totals.", requirements=wanted),
        decision("", rationale="I cannot tell.", next_step="pending_user", question=asks),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.engine.send("Mend the totals.\nAll of them.")
        await s.until(lambda state: bool(state.cards))
        assert guess_items(s.state) == {
            "goal": ("Mend the totals.",),
            "why_now": ("I cannot tell.",),
            "constraints": (),
            "plan_brief": tuple(f"total {n} is right" for n in range(3)),
            "open_questions": ("Gross or net?",),
        }
        assert "Goal (the request, until you state one): Mend the totals." in tail(s)
        assert s.engine.working.write_field("constraints", ["net only"]) is None
        assert "constraints" not in guess_items(s.state)


async def test_a_reply_under_way_does_not_overwrite_it_and_the_next_request_tells_it(
    tmp_path: Path,
) -> None:
    """Covers S4-103: a model that repeats its own words in each decision, as models do."""
    stubborn = says(THEIRS, constraints=["theirs"], plan_brief=["one", "two"])
    replies = script(stubborn, held(stubborn), stubborn, done("So."))
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.engine.send("Mend the totals.")
        await s.server.reached("a")
        assert HAND not in tail(s)
        assert s.engine.working.write_field("goal", [f" {MINE}\n"]) is None
        assert s.engine.working.write_field("constraints", []) is None
        s.server.release("a")
        await s.ended()
        # The second request was on its way; the third is the first that can know.
        third = tail(s, 2)
        assert f"Goal: {MINE}" in third
        assert f"{HAND}goal, constraints (–)." in third
        assert "- theirs" not in third
        assert "the user wrote goal by hand: total() gives 81.00" in third
        # Told, the model said its own again: then it is its own, and the user is told.
        assert f"Goal: {THEIRS}" in tail(s, 3)
        assert HAND not in tail(s, 3)
        told = [(m.key, m.params) for m in s.state.messages if isinstance(m, NoticeMessage)]
        assert ("working.overwritten.goal", {"said": THEIRS}) in told
        assert ("working.overwritten.constraints", {"said": "theirs"}) in told
        assert [key for key, _ in told].count("working.overwritten.goal") == 1


async def test_what_stands_there_already_is_no_change_of_the_user(tmp_path: Path) -> None:
    replies = script(says(THEIRS, constraints=["one", "two"]), done("So."))
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("Mend the totals.")
        assert s.engine.working.write_field("goal", [f" {THEIRS}"]) is None
        assert s.engine.working.write_field("constraints", ["one", "two"]) is None
        assert s.events(MemoryEdited) == []
        assert s.engine.working.write_field("constraints", ["two", "one"]) is None
        assert [event.name for event in s.events(MemoryEdited)] == ["constraints"]


async def test_a_model_that_leaves_it_alone_keeps_it_marked_as_the_users(tmp_path: Path) -> None:
    exact = decision("", READ, state_delta={"plan_brief": ["read", "mend"], "goal": MINE})
    async with session(
        tmp_path, script(held(says(THEIRS)), exact, done("So.")), mode="trusted"
    ) as s:
        await s.engine.send("Mend the totals.")
        await s.server.reached("a")
        s.engine.working.write_field("goal", [MINE])
        s.server.release("a")
        await s.ended()
        assert f"{HAND}goal." in tail(s)
        assert s.state.memory.goal == MINE
        assert s.state.memory.plan_brief == ("read", "mend")
        assert not any(key.startswith("working.") for key in s.notices())


async def test_what_is_written_between_two_requests_is_for_the_next_one(tmp_path: Path) -> None:
    """Covers S4-103: a new request clears the five items, but not what no model has read."""
    first = says(THEIRS, last=True, constraints=["theirs"])
    async with session(tmp_path, script(first, done("So."), done("Yes.")), mode="trusted") as s:
        await s.turn("Which totals are wrong?")
        s.engine.working.write_field("constraints", ["no new dependency"])
        await s.turn("And which receipts are wrong?")
        assert "Goal (the request, until you state one): " in tail(s)
        assert "- no new dependency" in tail(s)
        assert f"{HAND}constraints." in tail(s)
        await s.turn("Thanks.")
        assert s.state.memory.constraints == ()  # it was told, and belonged to that request
        assert HAND not in tail(s)


async def test_a_message_that_goes_on_with_the_request_before_brings_it_along(
    tmp_path: Path,
) -> None:
    first = Reply(decision=says(THEIRS).decision, hold="a")
    goes_on = Reply(decision=done("More.", continues=True).decision, hold="b")
    async with session(tmp_path, script(first, goes_on), mode="trusted") as s:
        await s.engine.send("Mend the totals.")
        await s.server.reached("a")
        s.engine.working.write_field("why_now", ["the shop loses money"])
        s.engine.stop()
        await s.ended()
        await s.engine.send("And the receipts, too.")
        await s.server.reached("b")
        s.engine.working.write_field("goal", [MINE])
        s.server.release("b")
        await s.ended(2)
        memory = s.state.memory
        assert (memory.goal, memory.why_now) == (MINE, "the shop loses money")
        assert memory.by_user == ("goal", "why_now")


async def test_it_survives_a_resume_and_a_way_back(tmp_path: Path) -> None:
    """Covers S4-45, S4-103: what no model has read belongs to no message, so it stays."""
    replies = script(says("a", last=True), says("b", last=True), done("So."))
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("first words")
        s.engine.working.write_field("goal", [MINE])
        await s.turn("second words")
        assert s.state.memory.goal == "b"
        s.engine.working.write_field("open_questions", ["Is 81.00 with tax?"])
        s.cut()
    async with session(tmp_path, script(done("So.")), mode="trusted", resume=s.session_id) as s:
        assert s.state.memory.open_questions == ("Is 81.00 with tax?",)
        assert s.state.memory.untold == ("open_questions",)
        asked = [m.message_id for m in s.state.messages if isinstance(m, UserMessage)]
        assert await s.engine.rewind.go_back(asked[1]) == ""
        memory = s.state.memory
        assert (memory.goal, memory.by_user) == (MINE, ("goal", "open_questions"))
        assert memory.open_questions == ("Is 81.00 with tax?",)
        s.engine.working.write_field("why_now", ["they wait"])
        assert await s.engine.rewind.undo_rewind() == ""
        memory = s.state.memory
        assert (memory.goal, memory.why_now) == ("b", "they wait")
        assert memory.open_questions == ("Is 81.00 with tax?",)
        s.cut()
    async with session(tmp_path, script(done("So.")), mode="trusted", resume=s.session_id) as s:
        assert s.state.memory == memory
        await s.turn("third words")
        assert "- Is 81.00 with tax?" in tail(s)


async def test_what_breaks_a_limit_is_refused_and_nothing_is_recorded_for_the_same(
    tmp_path: Path,
) -> None:
    """Covers S4-44."""
    async with session(tmp_path, script(done("So."))) as s:
        write = s.engine.working.write_field
        assert write("goal", ["x" * 201]) == LocalizedText(
            key="working.form.long", params={"count": "201", "most": "200"}
        )
        assert write("plan_brief", ["x" * 101]) is not None
        assert write("constraints", ["a", "b", "c"]) == LocalizedText(
            key="working.form.many", params={"most": "2"}
        )
        assert write("goal", ["one", "two"]) is not None
        assert write("goal", [" "]) is None
        assert write("open_questions", []) is None
        assert s.state.memory == WorkingMemory()
        assert write("plan_brief", ["x" * 100, " ", "y"]) is None
        assert s.state.memory.plan_brief == ("x" * 100, "y")
        assert write("plan_brief", ["y"]) is None
        assert s.state.memory.plan_brief == ("y",)


async def test_the_record_on_disk_has_each_run_of_an_operation(tmp_path: Path) -> None:
    """Covers S4-6, S4-45: what ran, with what, how it ended; also what did not come to run."""
    write = action("file_ops.write_file", path="../x", content="x")
    missing = action("file_ops.read_file", path="gone.py")
    replies = script(decision("", READ, missing, write), done("So."))
    async with session(tmp_path, replies, mode="trusted", headless=True) as s:
        (s.workspace / "app.py").write_text("pass\n")
        await s.turn("look around")
        folder, ran = s.ending.folder, s.results()
        s.cut()
    assert folder is not None
    found = [m for m in open_to_read(folder).state.messages if isinstance(m, OperationMessage)]
    assert found == ran
    told = [(m.operation, m.args["path"], m.result.outcome) for m in found]
    assert told == [
        ("file_ops.read_file", "app.py", Outcome.OK),
        ("file_ops.read_file", "gone.py", Outcome.ERROR),
        ("file_ops.write_file", "../x", Outcome.DENIED),
    ]
