"""Going back in the conversation, and forking it: what the next request holds, what a new process
finds, and what becomes of plans, requirements and files.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from support.plan_talk import PROPOSE, begin_plan, plan_reply
from support.session import Session, action, decision, done, script, session

from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.session.catalog import Catalog
from duckflow_tui.session.folders import session_path
from duckflow_tui.session.recording import Recording, start_recording
from duckflow_tui.session.records import encode
from duckflow_tui.session.resume import open_to_read
from duckflow_tui.session.rewind import RecordedPast, file_names
from duckflow_tui.session.snapshots import capture_image
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import NAMED
from duckflow_tui.state.calls import (
    ChangesRedone,
    ChangesUndone,
    OperationFinished,
    OperationMessage,
    OperationRequested,
)
from duckflow_tui.state.conversation import (
    AssistantMessage,
    MessageQueued,
    NoticeMessage,
    UserMessage,
    UserMessageAdded,
)
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode, FileChange, OperationResult, Outcome
from duckflow_tui.state.phase import Phase
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.state.rewind import SessionForked, WorkSnapshot
from duckflow_tui.state.session import DraftSaved, SessionInfo, SessionPinned, SessionStarted
from duckflow_tui.state.store import Record
from duckflow_tui.state.turn import TurnFinished

HELLO = UserMessage(message_id="msg_1", text="hello", at=2.0)
READS = OperationRequested(call_id="c9", operation="file_ops.read_file", args={}, at=1.0)
ENDED = OperationFinished(
    message=OperationMessage(
        call_id="c9",
        operation="file_ops.read_file",
        args={},
        result=OperationResult(outcome=Outcome.OK, text=""),
        at=2.0,
    )
)


def write(path: str, content: str) -> Reply:
    return decision(f"I write {path}.", action("file_ops.write_file", path=path, content=content))


def talk() -> Script:
    """Three requests; the second and the third write a file each."""
    two = (write("a.txt", "two\n"), done("A is written."))
    three = (write("b.txt", "three\n"), done("B is written."))
    return script(done("Hello."), *two, *three, done("Once more."))


async def said_thrice(s: Session) -> None:
    for text in ("first words", "second words", "third words"):
        await s.turn(text)


def said(state: AgentState) -> list[str]:
    return [m.text for m in state.messages if isinstance(m, (UserMessage, AssistantMessage))]


def notices(state: AgentState) -> list[tuple[str, dict[str, str]]]:
    """What the app said, and what stands in its words."""
    return [(m.key, m.params) for m in state.messages if isinstance(m, NoticeMessage)]


def id_of(s: Session, text: str) -> str:
    asked = (m for m in s.state.messages if isinstance(m, UserMessage))
    return next(m.message_id for m in asked if m.text == text)


def path_of(s: Session) -> Path:
    path = s.ending.folder
    assert path is not None
    return path


def image(state: AgentState) -> dict[str, object]:
    return capture_image(state)


# --- back -----------------------------------------------------------------------------------------


async def test_what_left_the_conversation_is_sent_no_more_and_a_new_process_has_the_same(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, talk(), mode="trusted") as s:
        await said_thrice(s)
        before = s.server.of("main")[1].json["messages"]
        assert await s.engine.rewind.go_back(id_of(s, "second words"), "a new thought") == ""
        assert said(s.state) == ["first words", "Hello."]
        assert s.state.draft == "second words\na new thought"
        told = [key for key in s.notices() if key != "turn.answered"]
        assert told == ["rewind.back", "rewind.files", "rewind.requirements"]
        assert (s.workspace / "a.txt").read_text() == "two\n"  # nothing is undone by itself
        assert s.state.files_read == {}
        assert s.state.phase is Phase.DONE
        assert len(s.state.turns) == 1
        assert image(open_to_read(path_of(s)).state) == image(s.state)
        s.cut()
    replies = script(done("Other."), done("Last."))
    async with session(tmp_path, replies, mode="trusted", resume=s.session_id) as s:
        assert said(s.state) == ["first words", "Hello."]
        assert s.state.draft == "second words\na new thought"
        await s.turn("another way")
        request = s.server.of("main")[-1]
        assert "second words" not in request.text
        assert "A is written." not in request.text
        assert "b.txt" in request.text  # that it is there still is told
        assert all(text in request.text for text in ("first words", "Hello.", "another way"))
        shared = len(before) - 2  # all before the message and the tail
        assert request.json["messages"][:shared] == before[:shared]
        await s.engine.undo()  # the newest change is one of those that left
        assert not (s.workspace / "b.txt").exists()
        assert (s.workspace / "a.txt").exists()


async def test_it_can_be_taken_back_until_something_is_said(tmp_path: Path) -> None:
    async with session(tmp_path, talk(), mode="trusted") as s:
        await said_thrice(s)
        before = image(s.state)
        assert await s.engine.rewind.undo_rewind() == "none"
        assert await s.engine.rewind.go_back(id_of(s, "first words")) == ""
        assert said(s.state) == []
        assert s.state.objective is None
        assert await s.engine.rewind.undo_rewind() == ""
        now = image(s.state)
        assert {name for name in now if now[name] != before[name]} <= {"usage"}  # an estimate
        assert image(open_to_read(path_of(s)).state) == now
        assert await s.engine.rewind.go_back(id_of(s, "third words")) == ""
        await s.turn("instead of it")
        assert await s.engine.rewind.undo_rewind() == "none"
        assert said(s.state)[-2:] == ["instead of it", "Once more."]


async def test_files_are_put_back_on_wish_newest_first_and_no_further_than_asked(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("one\n")
    read = decision("I read.", action("file_ops.read_file", path="a.txt"))
    replies = script(
        *(read, write("c.txt", "c\n"), done("C.")),
        *(write("a.txt", "two\n"), done("A.")),
        *(write("b.txt", "b\n"), done("B.")),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await said_thrice(s)
        before = image(s.state)
        assert await s.engine.rewind.go_back(id_of(s, "second words"), files=True) == ""
        assert (s.workspace / "a.txt").read_text() == "one\n"
        assert not (s.workspace / "b.txt").exists()
        assert (s.workspace / "c.txt").exists()
        told = dict(notices(s.state))
        assert told["rewind.put_back"] == {"files": "b.txt, a.txt"}
        assert "rewind.files" not in told  # which says of files that they were not undone
        assert image(open_to_read(path_of(s)).state) == image(s.state)
        assert await s.engine.rewind.undo_rewind() == ""  # the words come back, and the files
        assert said(s.state)[-1] == "B."
        assert (s.workspace / "a.txt").read_text() == "two\n"
        assert (s.workspace / "b.txt").read_text() == "b\n"
        now = image(s.state)
        # What was read of them has to be read again; the work stays as it was judged.
        changed = {name for name in now if now[name] != before[name]}
        assert changed <= {"usage", "files_read", "memory"}
        assert "rewind.put_back" not in s.notices()


async def test_files_alone_go_back_and_are_made_again(tmp_path: Path) -> None:
    async with session(tmp_path, talk(), mode="trusted") as s:
        await said_thrice(s)
        words = said(s.state)
        assert await s.engine.rewind.undo_files("msg_nowhere") == "unknown"
        assert await s.engine.rewind.undo_files(id_of(s, "third words")) == ""
        assert not (s.workspace / "b.txt").exists()
        assert (s.workspace / "a.txt").exists()
        assert said(s.state) == words
        assert notices(s.state)[-1] == ("rewind.put_back", {"files": "b.txt"})
        await s.engine.rewind.undo_files(id_of(s, "first words"))
        assert not (s.workspace / "a.txt").exists()
        await s.engine.redo(whole=True)
        assert (s.workspace / "a.txt").read_text() == "two\n"
        assert (s.workspace / "b.txt").read_text() == "three\n"
        await s.engine.redo()
        assert s.notices()[-1] == "operations.redo.nothing"
        await s.turn("what now?")
        assert "had these files put back" in s.server.of("main")[-1].text
        assert "made again after it was undone" in s.server.of("main")[-1].text
        (s.workspace / "a.txt").write_text("mine\n")
        assert await s.engine.rewind.undo_files(id_of(s, "first words")) == ""
        said_of = [("rewind.put_back", "b.txt"), ("operations.undo.changed", "a.txt")]
        found = [(key, params.get("files", params.get("path"))) for key, params in notices(s.state)]
        assert found[-2:] == said_of


async def test_after_a_cut_the_way_back_with_files_is_taken_back_by_the_next_process(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, talk(), mode="trusted") as s:
        await said_thrice(s)
        assert await s.engine.rewind.go_back(id_of(s, "second words"), files=True) == ""
        s.cut()
    async with session(tmp_path, script(), mode="trusted", resume=s.session_id) as s:
        assert not (s.workspace / "b.txt").exists()
        assert await s.engine.rewind.undo_rewind() == ""
        assert (s.workspace / "a.txt").read_text() == "two\n"
        assert (s.workspace / "b.txt").read_text() == "three\n"
        assert said(s.state)[-1] == "B is written."
        s.cut()
    async with session(tmp_path, script(), mode="trusted", resume=s.session_id) as s:
        await s.engine.undo()
        assert not (s.workspace / "b.txt").exists()
        s.cut()
    async with session(tmp_path, script(), mode="trusted", resume=s.session_id) as s:
        await s.engine.redo()
        assert (s.workspace / "b.txt").read_text() == "three\n"


async def test_a_file_that_changed_since_has_to_be_read_again(tmp_path: Path) -> None:
    """What was read of it stands in the conversation, and is no longer so."""
    (tmp_path / "work").mkdir()
    for name in ("a.txt", "same.txt"):
        (tmp_path / "work" / name).write_text("one\n")
    reads = (action("file_ops.read_file", path=name) for name in ("a.txt", "same.txt"))
    replies = script(decision("I read.", *reads), done("Read."), write("a.txt", "two\n"), done())
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("first words")
        await s.turn("second words")
        assert await s.engine.rewind.go_back(id_of(s, "second words")) == ""
        assert list(s.state.files_read) == ["same.txt"]


async def test_a_file_that_the_user_changed_since_is_not_put_back(tmp_path: Path) -> None:
    async with session(tmp_path, talk(), mode="trusted") as s:
        await said_thrice(s)
        (s.workspace / "a.txt").write_text("mine\n")
        message_id = id_of(s, "second words")
        assert await s.engine.rewind.list_conflicts(message_id) == ("a.txt",)
        await s.engine.rewind.go_back(message_id, files=True)
        told = dict(notices(s.state))
        assert told["rewind.put_back"] == {"files": "b.txt"}
        figures = {"path": "a.txt", "added": "0", "removed": "1"}
        assert told["operations.undo.changed"] == figures
        assert "rewind.files" not in told
        assert (s.workspace / "a.txt").read_text() == "mine\n"
        assert await s.engine.rewind.undo_rewind() == ""
        assert (s.workspace / "b.txt").read_text() == "three\n"
        assert (s.workspace / "a.txt").read_text() == "mine\n"


async def test_a_file_is_never_said_to_be_undone_and_not_undone(tmp_path: Path) -> None:
    """Of two changes with one of the user between them only the newer is taken back."""
    read = decision("I read.", action("file_ops.read_file", path="a.txt"))
    replies = script(
        *(write("a.txt", "one\n"), done("A.")),
        *(write("b.txt", "b\n"), done("B.")),
        *(read, write("a.txt", "three\n"), done("C.")),
        done("Once more."),
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("first words")
        await s.turn("second words")
        (s.workspace / "a.txt").write_text("mine\n")
        await s.turn("third words")
        assert await s.engine.rewind.go_back(id_of(s, "first words"), files=True) == ""
        assert (s.workspace / "a.txt").read_text() == "mine\n"
        assert not (s.workspace / "b.txt").exists()
        told = dict(notices(s.state))
        assert told["rewind.put_back"] == {"files": "b.txt"}
        assert told["rewind.put_back_partly"] == {"files": "a.txt"}
        assert not told.keys() & {"rewind.files", "operations.undo.changed"}
        assert await s.engine.rewind.undo_rewind() == ""
        assert (s.workspace / "a.txt").read_text() == "three\n"
        assert (s.workspace / "b.txt").read_text() == "b\n"
        assert await s.engine.rewind.go_back(id_of(s, "first words"), files=True) == ""
        await s.turn("again")
        sent = s.server.of("main")[-1].text
        assert "put back to what they were: b.txt" in sent
        assert "only the newer changes undone, not the older ones: a.txt" in sent
        assert "was not undone: " not in sent


async def test_while_work_runs_it_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    held = done("Later.").model_copy(update={"hold": "rest"})
    async with session(tmp_path, script(done("Hello."), held)) as s:
        await s.turn("first words")
        await s.engine.send("second words")
        await s.server.reached("rest")
        before = list(s.state.messages)
        assert await s.engine.rewind.go_back(id_of(s, "first words")) == "busy"
        assert await s.engine.rewind.undo_rewind() == "none"
        assert s.state.messages == before
        s.engine.stop()
        await s.ended(2)
        await s.until(lambda _: not s.state.live)
        assert await s.engine.rewind.go_back(id_of(s, "first words")) == ""
        assert await s.engine.rewind.go_back("msg_nowhere") == "unknown"
        assert (await s.engine.rewind.fork("msg_nowhere")).problem == "unknown"
        s.server.release("rest")


async def test_what_still_runs_or_waits_is_said_with_the_way_back(tmp_path: Path) -> None:
    """A command in the background goes on, and a message that waits is still sent."""
    start = action("shell.run", command="sleep 60", background=True)
    held = done("Later.").model_copy(update={"hold": "rest"})
    replies = script(done("Hello."), decision("I start it.", start), done("It runs."), held)
    async with session(tmp_path, replies, mode="trusted", allow=("sleep 60",)) as s:
        await s.turn("first words")
        await s.turn("second words")
        assert [p.is_running for p in s.state.processes] == [True]
        await s.engine.send("third words")
        await s.server.reached("rest")
        await s.engine.send("later")
        s.engine.stop()
        await s.ended(3)
        await s.until(lambda _: not s.state.live)
        assert await s.engine.rewind.go_back(id_of(s, "third words")) == ""
        assert "rewind.commands" not in s.notices()  # it ran before that message too
        assert await s.engine.rewind.go_back(id_of(s, "second words")) == ""
        assert {"rewind.commands", "rewind.queue"} <= set(s.notices())
        back = next(m for m in s.state.messages if m.kind == "notice" and m.key == "rewind.back")
        assert "started after this still run in the background" in back.for_model
        s.server.release("rest")


async def test_what_went_on_since_is_in_the_way_of_taking_it_back(tmp_path: Path) -> None:
    held = done("Later.").model_copy(update={"hold": "rest"})
    async with session(tmp_path, script(done("Hello."), held)) as s:
        await s.turn("first words")
        assert await s.engine.rewind.go_back(id_of(s, "first words")) == ""
        await s.engine.send("what is it?", "now")
        await s.server.reached("rest")
        assert await s.engine.rewind.undo_rewind() in ("busy", "none")
        s.engine.stop()
        s.server.release("rest")


@pytest.mark.parametrize("way", ["back", "fork", "fork from here"])
async def test_a_session_whose_files_are_gone_has_no_way_back(tmp_path: Path, way: str) -> None:
    async with session(tmp_path, talk(), mode="trusted") as s:
        await s.turn("first words")
        first = id_of(s, "first words")
        shutil.rmtree(path_of(s))
        if way == "back":
            assert await s.engine.rewind.go_back(first) == "lost"
        elif way == "fork":
            assert (await s.engine.rewind.fork(first)).problem == "lost"
        else:
            made = await s.engine.rewind.fork()
            assert (made.session_id, made.problem) == ("", "not_written")
            assert made.detail
        assert said(s.state) == ["first words", "Hello."]


async def test_while_a_call_of_the_model_runs_or_a_message_begins_a_turn_it_is_refused(
    tmp_path: Path,
) -> None:
    """An answer beside work outlives its turn, and what it brings must not fall into the void."""
    async with session(tmp_path, script(done("Hello."), done("Later."))) as s:
        await s.turn("first words")
        first = id_of(s, "first words")
        s.store.dispatch(READS)
        assert await s.engine.rewind.go_back(first) == "busy"
        s.store.dispatch(ENDED)
        found: list[object] = []

        def look(state: AgentState, record: Record) -> None:
            if isinstance(record.event, (MessageQueued, UserMessageAdded)):
                asked = s.engine.rewind.go_back(first)
                try:
                    asked.send(None)  # as far as it comes before anything else happens
                except StopIteration as end:
                    found.append(end.value)
                else:
                    found.append("began")
                    asked.close()

        s.store.subscribe(look)
        await s.turn("second words")
        assert found == ["busy", "busy"]
        s.store.dispatch(READS.model_copy(update={"call_id": "c2", "by_user": True}))
        assert await s.engine.rewind.go_back(first) == ""  # a command of the user's own goes on


async def test_work_that_begins_on_the_way_back_ends_it_there(tmp_path: Path) -> None:
    async with session(tmp_path, talk(), mode="trusted") as s:
        await said_thrice(s)
        words, second = said(s.state), id_of(s, "second words")
        going = asyncio.ensure_future(s.engine.rewind.go_back(second))
        await asyncio.sleep(0)  # it reads the journal now
        s.store.dispatch(READS)
        assert await going == "busy"
        assert await s.engine.rewind.undo_files(second) == "busy"
        s.store.dispatch(ENDED)
        assert s.notices() == ["turn.answered"]

        def begin(_: AgentState, record: Record) -> None:
            if isinstance(record.event, ChangesUndone):  # the first file is put back
                s.store.dispatch(READS)

        s.store.subscribe(begin)
        assert await s.engine.rewind.go_back(second, files=True) == "busy"
        assert notices(s.state)[1:] == [("rewind.put_back", {"files": "b.txt"})]
        assert (s.workspace / "a.txt").exists()
        assert said(s.state) == words


async def test_work_that_begins_is_in_the_way_of_taking_a_way_back_back(tmp_path: Path) -> None:
    async with session(tmp_path, talk(), mode="trusted") as s:
        await said_thrice(s)
        assert await s.engine.rewind.go_back(id_of(s, "third words"), files=True) == ""

        def begin(_: AgentState, record: Record) -> None:
            if isinstance(record.event, ChangesRedone):
                s.store.dispatch(READS)

        forget = s.store.subscribe(begin)
        assert await s.engine.rewind.undo_rewind() == "busy"
        forget()
        assert (s.workspace / "b.txt").exists()
        assert await s.engine.rewind.undo_rewind() == "busy"
        s.store.dispatch(ENDED)
        assert await s.engine.rewind.undo_rewind() == "said"
        assert said(s.state)[-1] == "A is written."


async def test_what_is_in_the_way_of_a_file_is_said_when_the_words_come_back(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, talk(), mode="trusted") as s:
        await said_thrice(s)
        assert await s.engine.rewind.go_back(id_of(s, "second words"), files=True) == ""
        (s.workspace / "a.txt").write_text("mine\n")
        assert await s.engine.rewind.undo_rewind() == ""
        assert (s.workspace / "a.txt").read_text() == "mine\n"
        assert (s.workspace / "b.txt").read_text() == "three\n"
        key, params = notices(s.state)[-1]
        told = [name for name in s.notices() if name != "turn.answered"]
        assert (len(told), key, params["path"]) == (1, "operations.redo.changed", "a.txt")


async def test_across_a_compaction_the_whole_text_travels_again(tmp_path: Path) -> None:
    long = "one two three four " * 400
    answers = [decision(f"Answer {n}. {long}", next_step="pending_user") for n in range(4)]
    digest = Reply(data={"digest": "THE DIGEST"}, repeat=True)
    replies = script(*answers, done("Short."), digest=digest)
    async with session(tmp_path, replies, window=40_000) as s:
        for n in range(4):
            await s.turn(f"question {n}")
        assert await s.engine.context.compact_by_hand() == ""
        assert s.state.compactions
        assert await s.engine.rewind.go_back(id_of(s, "question 2")) == ""
        assert s.state.compactions == ()
        await s.turn("go on")
        last = s.server.of("main")[-1].text
        assert f"Answer 0. {long.strip()}" in last
        assert "THE DIGEST" not in last
        assert "Answer 2." not in last


async def test_a_compaction_that_was_undone_since_is_in_force_again(tmp_path: Path) -> None:
    long = "one two three four " * 400
    answers = [decision(f"Answer {n}. {long}", next_step="pending_user") for n in range(4)]
    digest = Reply(data={"digest": "THE DIGEST"}, repeat=True)
    replies = script(*answers, done("Short."), digest=digest)
    async with session(tmp_path, replies, window=40_000) as s:
        for n in range(4):
            await s.turn(f"question {n}")
        assert await s.engine.context.compact_by_hand() == ""
        await s.turn("behind it")
        made = s.state.compactions
        assert (await s.engine.context.undo_compaction())[0] == ""
        undone = s.state.undone_compactions
        assert (len(made), len(undone)) == (1, 1)
        assert await s.engine.rewind.go_back(id_of(s, "behind it")) == ""
        assert (s.state.compactions, s.state.undone_compactions) == (made, ())
        assert await s.engine.rewind.undo_rewind() == ""
        assert (s.state.compactions, s.state.undone_compactions) == ((), undone)


async def test_a_plan_made_after_it_goes_with_it_and_comes_back_with_it(tmp_path: Path) -> None:
    writes = decision(
        "Written.", action("file_ops.write_file", path="a.txt", content="a\n"), next_step="done"
    )
    replies = script(
        done("Hello."),
        PROPOSE,
        done("All done."),
        done("Bye."),
        plan=plan_reply("first note"),
        task=writes,
    )
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("hello")
        memory = s.state.memory
        await begin_plan(s)
        await s.ended(2)
        assert s.state.plans
        assert await s.engine.rewind.go_back(id_of(s, "notes please")) == ""
        assert (s.state.plans, s.state.active_plan) == ((), None)
        assert s.state.memory == memory
        assert "rewind.plans" in s.notices()
        await s.turn("something else")
        assert "first note" not in s.server.of("main")[-1].text


async def test_back_into_the_middle_of_a_turn_it_is_a_turn_that_was_stopped_there(
    tmp_path: Path,
) -> None:
    """The results of what ran then stay, since they came of what was said before."""
    writes = decision(
        "Written.", action("file_ops.write_file", path="a.txt", content="a\n"), next_step="done"
    )
    replies = script(
        PROPOSE,
        done("Half way."),
        done("All done."),
        done("Yes."),
        plan=plan_reply("first note"),
        task=writes,
    )
    async with session(tmp_path, replies) as s:
        await begin_plan(s)
        await s.gate()
        await s.engine.send("how far are you?", when="now")
        await s.until(lambda _: "Half way." in said(s.state))
        await s.answer(GateChoice.ONCE)
        await s.ended()
        assert await s.engine.rewind.go_back(id_of(s, "how far are you?")) == ""
        assert s.state.last_turn is not None
        assert s.state.last_turn.outcome == "stopped"
        assert s.state.phase is Phase.IDLE
        plan = s.active_plan
        assert [step.status for step in plan.steps] == [WorkStatus.CANCELLED]
        wrote = [m for m in s.results() if m.operation == "file_ops.write_file"]
        assert [m.result.outcome for m in wrote] == [Outcome.OK]
        assert "All done." not in said(s.state)
        assert image(open_to_read(path_of(s)).state) == image(s.state)
        await s.turn("are you there?")  # the plan was stopped, so that this turn owes it nothing
        assert s.events(TurnFinished)[-1].outcome == "answered"
        assert s.state.active_plan == plan.replace(halted="waits")


async def test_a_session_that_is_kept_nowhere_goes_back_too_but_has_no_fork(tmp_path: Path) -> None:
    async with session(tmp_path, talk(), mode="trusted", no_session=True) as s:
        await said_thrice(s)
        assert await s.engine.rewind.go_back(id_of(s, "third words")) == ""
        assert said(s.state)[-1] == "A is written."
        assert (await s.engine.rewind.fork()).problem == "not_kept"


# --- fork -----------------------------------------------------------------------------------------


async def test_a_fork_stands_where_the_message_stood_and_the_original_is_untouched(
    tmp_path: Path,
) -> None:
    large = "word " * 20_000  # kept in a blob
    replies = script(done("Hello."), done("Read."), write("a.txt", "two\n"), done("A is written."))
    async with session(tmp_path, replies, mode="trusted") as s:
        await s.turn("first words")
        await s.turn(large)
        at = dict(image(s.state))
        await s.turn("third words")
        s.store.dispatch(SessionPinned(pinned=True))
        path, [recording] = path_of(s), s.ending.recordings
        await recording.wait_until_flushed(recording.newest)
        before = {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}
        forked = await s.engine.rewind.fork(id_of(s, "third words"))
        assert (forked.problem, s.session_id) == ("", path.name)
        assert {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()} == before
        original = s.session_id
    copy = path.parent / forked.session_id
    assert {p.stat().st_mode & 0o777 for p in copy.rglob("*") if p.is_file()} == {0o600}
    assert {p.stat().st_mode & 0o777 for p in (copy, *copy.rglob("*")) if p.is_dir()} == {0o700}
    found = open_to_read(copy)
    assert found.missing_count == 0
    now = image(found.state)
    own = {"session", "messages", "draft", "usage"}
    assert {name for name in now if now[name] != at[name]} <= own
    assert said(found.state) == ["first words", "Hello.", large, "Read."]
    catalog = Catalog(tmp_path / "home" / "state")
    facts = {facts.session_id: facts for facts in catalog.list_all()}
    assert facts[forked.session_id].title == "↳ first words"
    assert facts[forked.session_id].forked_from == original
    assert [facts[name].pinned for name in (original, forked.session_id)] == [True, False]
    async with session(tmp_path, script(done("Other.")), resume=forked.session_id) as s:
        assert s.session_id == forked.session_id
        assert s.state.draft == "third words"
        assert s.state.turn is None
        await s.turn("another way")
        request = s.server.of("main")[-1]
        assert "A is written." not in request.text
        assert all(text in request.text for text in ("first words", "Read.", "another way"))
    async with session(tmp_path, script(), resume=original) as s:
        assert said(s.state)[-1] == "A is written."
        assert s.state.session.forked_from == ""


def test_the_first_files_are_named_and_the_others_counted() -> None:
    changes = [FileChange(path=f"{n}.py", kind="modify") for n in range(NAMED + 1)]
    assert file_names(changes[:NAMED]) == ", ".join(change.path for change in changes[:NAMED])
    assert file_names(changes).endswith("(+1)")


async def test_a_fork_of_running_work_is_at_rest_and_the_work_goes_on(tmp_path: Path) -> None:
    held = done("Later.").model_copy(update={"hold": "rest"})
    run = decision("I write.", action("file_ops.write_file", path="a.txt", content="a\n"))
    async with session(tmp_path, script(done("Hello."), run, held)) as s:
        await s.turn("first words")
        await s.engine.send("second words")
        await s.gate()
        await s.engine.send("and then this", "next")
        forked = await s.engine.rewind.fork()
        assert forked.problem == ""
        await s.answer(GateChoice.ONCE)
        await s.server.reached("rest")
        s.server.release("rest")
        await s.ended(2)
        assert said(s.state)[-1] == "Later."
        path = path_of(s).parent / forked.session_id
    state = open_to_read(path).state
    assert (state.turn, state.gates, state.running, state.queue) == (None, (), (), ())
    calls = [m for m in state.messages if isinstance(m, OperationMessage)]
    assert [m.result.outcome for m in calls] == [Outcome.STOPPED]
    async with session(tmp_path, script(done("Here.")), resume=forked.session_id) as s:
        assert s.state.turn is None
        assert (await s.turn("what is there?")).outcome == "answered"


class Meanwhile(Recording):
    """Something more is recorded while a fork waits for what there was to be on the disk."""

    async def wait_until_flushed(self, seq: int) -> None:
        await super().wait_until_flushed(seq)
        self.append(Record(seq=seq + 1, at=3.0, event=DraftSaved(text="later")))
        await super().wait_until_flushed(seq + 1)


class OnItsWay(Recording):
    """Its last record is not on the disk before somebody waits for it."""

    async def wait_until_flushed(self, seq: int) -> None:
        self.append(Record(seq=seq + 1, at=3.0, event=UserMessageAdded(message=HELLO)))
        await super().wait_until_flushed(seq + 1)


def recorded(tmp_path: Path, kind: type[Recording] = Recording) -> tuple[Recording, SessionInfo]:
    """A session that has begun."""
    made = start_recording(tmp_path / "state", tmp_path, str)
    recording = kind(made.session_id, made.recorder, made.path, made.blobs)
    info = SessionInfo(session_id=made.session_id, workspace=str(tmp_path))
    begun = SessionStarted(session=info, mode=ApprovalMode.STANDARD)
    recording.append(Record(seq=1, at=1.0, event=begun))
    return recording, info


def fork_of(info: SessionInfo) -> SessionForked:
    session_fork = info.replace(session_id="session_fork")
    return SessionForked(session=session_fork, standing=WorkSnapshot(), at=5.0)


async def test_what_is_recorded_while_a_fork_is_written_is_no_part_of_it(tmp_path: Path) -> None:
    """What stood in the middle of work when it was asked for would stand there twice."""
    recording, info = recorded(tmp_path, Meanwhile)
    recording.append(Record(seq=2, at=2.0, event=UserMessageAdded(message=HELLO)))
    state_dir = tmp_path / "state"
    await RecordedPast(recording, state_dir, str).fork("", fork_of(info))
    await recording.close()
    read = open_to_read(session_path(state_dir, tmp_path, "session_fork")).read
    assert [(entry.at, entry.fields["kind"]) for entry in read.entries] == [
        (1.0, "session_started"),
        (2.0, "user_message"),
        (5.0, "session_forked"),
    ]


async def test_what_was_before_a_message_is_read_once_the_message_is_on_the_disk(
    tmp_path: Path,
) -> None:
    recording, info = recorded(tmp_path, OnItsWay)
    past = await RecordedPast(recording, tmp_path / "state", str).state_before(HELLO.message_id)
    await recording.close()
    assert past is not None
    assert past.session == info


async def test_what_tells_nothing_or_does_not_fit_is_no_part_of_a_fork(tmp_path: Path) -> None:
    """Nor does it keep the past from being read."""
    recording, info = recorded(tmp_path)
    await recording.wait_until_flushed(1)
    assert recording.path is not None
    with (recording.path / "journal-1.d1").open("ab") as journal:
        journal.write(encode(2, b'{"at":2.0,"event":{"kind":"of_a_later_version"}}'))
    recording.append(Record(seq=3, at=3.0, event=ENDED))  # of a call that never began
    recording.append(Record(seq=4, at=4.0, event=UserMessageAdded(message=HELLO)))
    past = RecordedPast(recording, tmp_path / "state", str)
    before = await past.state_before(HELLO.message_id)
    await past.fork("", fork_of(info))
    await recording.close()
    assert before is not None
    assert before.messages == []
    found = open_to_read(session_path(tmp_path / "state", tmp_path, "session_fork"))
    assert (found.missing_count, len(found.read.entries)) == (0, 3)
    assert found.state.messages == [HELLO]


async def test_a_fork_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    recording, info = recorded(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "sessions").write_text("no folder")
    with pytest.raises(OSError, match=r"^Not a directory$"):
        await RecordedPast(recording, tmp_path / "full", str).fork("", fork_of(info))
    large = HELLO.replace(text="word " * 20_000)  # kept in a blob
    recording.append(Record(seq=2, at=2.0, event=UserMessageAdded(message=large)))
    output = await recording.blobs.put(b"output")
    recording.append(Record(seq=3, at=3.0, event=DraftSaved(text=output)))
    await recording.wait_until_flushed(3)
    assert recording.path is not None
    blob = recording.path / "blobs" / output[:2] / output
    blob.unlink()
    blob.mkdir()
    with pytest.raises(OSError, match="Invalid argument"):
        await RecordedPast(recording, tmp_path / "state", str).fork("", fork_of(info))
    await recording.close()
    assert not session_path(tmp_path / "state", tmp_path, "session_fork").exists()
