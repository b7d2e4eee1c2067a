"""A session that goes on in another process: what was in flight, and what comes back."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from pathlib import Path

import pytest
from support.model_words import WORDS
from support.pinned import CountingIds
from support.session import Session, action, decision, done, script, session

from duckflow_tui.safety.risk import TEMP_PREFIX, TEMP_SUFFIX
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.session.faults import FaultCode, JournalHealth
from duckflow_tui.session.reader import RecordedEvent
from duckflow_tui.session.recording import Recording, start_recording
from duckflow_tui.session.resume import end_calls, open_to_read
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event, SystemClock, hash_data
from duckflow_tui.state.calls import RunningOperation
from duckflow_tui.state.conversation import AssistantMessage, NoticeMessage, UserMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.goal import ObjectiveChanged
from duckflow_tui.state.operations import ApprovalMode, FileChange, Outcome
from duckflow_tui.state.phase import Phase
from duckflow_tui.state.session import DraftSaved, SessionResumed
from duckflow_tui.state.store import MemoryRecorder, Record, Store
from duckflow_tui.state.turn import TurnStarted
from duckflow_tui.tools.notices import Notices

WRITE = action("file_ops.write_file", path="a.txt", content="one\n")
READ = action("file_ops.list_dir", path=".")


def said(made: Session) -> list[str]:
    return [m.text for m in made.state.messages if isinstance(m, (UserMessage, AssistantMessage))]


async def test_a_session_at_rest_comes_back_as_it_was_and_goes_on(tmp_path: Path) -> None:
    replies = script(decision("I write.", WRITE), done("Written."))
    async with session(tmp_path, replies) as made:
        await made.engine.send("make a file")
        await made.answer(GateChoice.SESSION)
        await made.ended()
        session_id, before = made.session_id, said(made)
    async with session(tmp_path, script(done("Again.")), resume=session_id) as made:
        assert made.session_id == session_id
        assert said(made) == before
        assert made.state.turn is None
        assert made.state.phase is Phase.DONE
        assert made.state.grants == ()
        assert made.notices()[-1] == "resume.resumed_consent"
        await made.turn("and now?")
        sent = str(made.server.of("main")[-1])
        assert all(text in sent for text in (*before, "and now?"))
    async with session(tmp_path, script(), resume=session_id) as made:
        assert said(made)[-2:] == ["and now?", "Again."]


@pytest.mark.whole
async def test_what_was_read_of_a_session_does_not_stay_in_memory(tmp_path: Path) -> None:
    """The state says it already; a session of 5,000 messages has 25,000 events."""
    async with session(tmp_path, script(done("Here."))) as made:
        await made.turn("make a file")
        session_id = made.session_id
    async with session(tmp_path, script(), resume=session_id) as made:
        assert said(made) == ["make a file", "Here."]
        gc.collect()
        assert not [kept for kept in gc.get_objects() if isinstance(kept, RecordedEvent)]


async def test_a_gate_that_was_open_opens_again_and_nothing_was_approved(tmp_path: Path) -> None:
    """The same question, pending; its answer lets the turn go on to its end."""
    behind = action("file_ops.write_file", path="b.txt", content="two\n")
    async with session(tmp_path, script(decision("I write.", READ, WRITE, behind))) as made:
        await made.engine.send("make two files")
        before = await made.gate()
        made.cut()
    session_id = made.session_id
    assert not (tmp_path / "work" / "a.txt").exists()
    async with session(tmp_path, script(done("Both written.")), resume=session_id) as made:
        gate = await made.gate()
        assert (gate.call_id, gate.args_hash) == (before.call_id, before.args_hash)
        assert gate.gate_id != before.gate_id
        assert not (tmp_path / "work" / "a.txt").exists()
        assert made.server.requests == []  # nothing is asked before the user's key
        await made.answer(GateChoice.ONCE)
        await made.answer(GateChoice.ONCE)
        end = await made.ended()
        assert end.outcome == "done"
        assert end.files_changed == ("a.txt", "b.txt")
        assert [m.call_id for m in made.results()] == list(
            dict.fromkeys(m.call_id for m in made.results())
        )
    assert (tmp_path / "work" / "b.txt").read_text() == "two\n"


async def test_a_trusted_mode_of_before_does_not_answer_the_gate(tmp_path: Path) -> None:
    async with session(tmp_path, script(decision("I write.", WRITE))) as made:
        await made.engine.send("write")
        await made.gate()
        made.engine.set_mode(ApprovalMode.TRUSTED)
        made.cut()
    async with session(tmp_path, script(done()), resume=made.session_id) as made:
        assert made.state.mode is ApprovalMode.STANDARD
        await made.gate()
        assert not (tmp_path / "work" / "a.txt").exists()
        await made.answer(GateChoice.REJECT)
        await made.ended()


async def test_a_turn_cut_in_a_stream_comes_back_paused_and_goes_on_with_a_key(
    tmp_path: Path,
) -> None:
    reply = decision("I will say a lot before this stops.", READ)
    reply = reply.model_copy(update={"hold": "rest", "hold_after": 20})
    async with session(tmp_path, script(reply)) as made:
        await made.engine.send("look around")
        await made.until(lambda state: bool(state.live))
        await made.engine.send("and later this", "next")
        made.cut()
        made.server.release("rest")
        calls, counted = made.state.usage.calls, made.state.usage.tokens_in
    async with session(
        tmp_path, script(done("Here."), done("Two.")), resume=made.session_id
    ) as made:
        assert made.state.turn is not None
        await made.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        assert made.notices()[-2:] == ["resume.replies_lost", "resume.interrupted"]
        assert made.state.usage.calls == calls + 1  # it was sent, so it was spent
        assert made.state.usage.tokens_in > counted
        assert [q.text for q in made.state.queue] == ["and later this"]
        assert made.server.requests == []
        made.engine.resume()
        await made.ended(2)
        assert said(made) == ["look around", "Here.", "and later this", "Two."]


async def test_where_a_draft_stands_the_notice_says_what_enter_does_with_it(tmp_path: Path) -> None:
    reply = decision("I say a lot.", READ)
    reply = reply.model_copy(update={"hold": "rest", "hold_after": 8})
    async with session(tmp_path, script(reply)) as made:
        await made.engine.send("look around")
        await made.until(lambda state: bool(state.live))
        made.engine.keep_draft("half a thought")
        made.cut()
        made.server.release("rest")
    async with session(tmp_path, script(done("Here.")), resume=made.session_id) as made:
        await made.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        assert made.state.draft == "half a thought"
        assert made.notices()[-1] == "resume.interrupted_draft"


async def test_a_message_that_no_turn_had_begun_with_waits_for_a_key(tmp_path: Path) -> None:
    async with session(tmp_path, script(done("Never seen."))) as made:
        made.store.subscribe(
            lambda _, record: made.cut() if record.event.kind == "user_message" else None
        )
        await made.engine.send("hello")
        await made.ended()
    async with session(tmp_path, script(done("Hello.")), resume=made.session_id) as made:
        await made.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        assert said(made) == ["hello"]
        made.engine.resume()
        assert (await made.ended()).reply == "Hello."


async def test_a_command_that_ran_is_told_as_unknown_and_what_came_behind_is_not_run(
    tmp_path: Path,
) -> None:
    run = action("shell.run", command="sleep 60")
    async with session(tmp_path, script(decision("I run.", run, WRITE))) as made:
        await made.engine.send("run it")
        await made.answer(GateChoice.SESSION)
        await made.until(lambda state: any(r.started for r in state.running))
        made.cut()
    async with session(tmp_path, script(done("I look.")), resume=made.session_id) as made:
        await made.until(lambda state: len(made.results()) == 2)
        ran, behind = made.results()
        assert ran.result.outcome is Outcome.STOPPED
        assert "not known" in ran.result.text
        assert ran.result.unknown
        assert not behind.result.unknown
        assert ran.gate is not None
        assert ran.answer is not None
        assert behind.result.outcome is Outcome.SKIPPED
        assert made.state.grants == ()
        await made.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        made.engine.resume()
        await made.ended()
        assert "not known" in str(made.server.of("main")[-1])


async def test_the_draft_comes_back_and_goes_once_it_is_sent(tmp_path: Path) -> None:
    async with session(tmp_path, script()) as made:
        made.engine.keep_draft("half a tho")
        made.engine.keep_draft("half a thought")
    async with session(tmp_path, script(done()), resume=made.session_id) as made:
        assert made.state.draft == "half a thought"
        await made.turn("half a thought")
        assert made.state.draft == ""


async def test_headless_the_interrupted_turn_ends_and_the_new_one_runs(tmp_path: Path) -> None:
    async with session(tmp_path, script(decision("I write.", WRITE))) as made:
        await made.engine.send("write")
        await made.gate()
        made.cut()
    replies = script(done("Hello."))
    async with session(tmp_path, replies, resume=made.session_id, headless=True) as made:
        assert made.state.turn is None
        assert made.state.turns[-1].outcome == "stopped"
        assert [m.result.outcome for m in made.results()] == [Outcome.STOPPED]
        end = await made.turn("hello")
        assert (end.outcome, end.reply) == ("answered", "Hello.")
        assert any(isinstance(r.event, SessionResumed) for r in made.engine.begun)


# --- what a call had done to files ---------------------------------------------------------------

OLD, NEW = "old\n", "new\n"


def change(path: str, kind: str = "modify", target: str = "") -> FileChange:
    before, after = hash_data(OLD.encode()), hash_data(NEW.encode())
    return FileChange(path=path, kind=kind, target=target, before=before, after=after)


@pytest.mark.parametrize(
    ("made", "says", "done"),
    [
        (change("new.txt"), "This was done", True),
        (change("old.txt"), "old.txt was not changed", False),
        (change("other.txt"), "other.txt is neither as it was before", False),
        (change("../out.txt"), "../out.txt is neither as it was before", False),
        (change("gone.txt", kind="move", target="new.txt"), "This was done", True),
        (change("old.txt", kind="move", target="gone.txt"), "was not changed", False),
        (change("old.txt", kind="move", target="new.txt"), "is neither as it was", False),
    ],
)
async def test_a_call_that_ended_with_the_app_is_told_by_what_became_of_its_files(
    tmp_path: Path, made: FileChange, says: str, done: bool
) -> None:
    for name, text in {"new.txt": NEW, "old.txt": OLD, "other.txt": "x"}.items():
        (tmp_path / name).write_text(text)
    state = AgentState()
    call = RunningOperation(
        call_id="c", operation="file_ops.edit_file", args={}, started=True, at=1.0, expects=(made,)
    )
    state.running = (call,)
    with contextlib.closing(Workspace(tmp_path)) as workspace:
        found = await end_calls(state, workspace, lambda _: None, 2.0, WORDS, ends_turn=True)
    (ended,) = found.ended
    assert (ended.result.outcome, ended.result.unknown) == (Outcome.STOPPED, False)
    assert says in ended.result.text
    assert ended.result.changes == ((made,) if done else ())
    assert (found.files_read == {}) is (not done and "neither" not in says)


async def test_what_a_change_had_not_finished_writing_is_taken_away(tmp_path: Path) -> None:
    """Of the time in which the call ran, and by its name; nothing else."""
    names = {"mine": 10.0, "first": 7.0, "last": 13.0, "before": 6.5, "after": 13.5}
    for name, at in names.items():
        path = tmp_path / f"{TEMP_PREFIX}{name}{TEMP_SUFFIX}"
        path.write_text("x")
        os.utime(path, (at, at))
    others = {"mine.txt", f"{TEMP_PREFIX}x", f"x{TEMP_SUFFIX}"}
    for name in others:
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (10.0, 10.0))
    state = AgentState()
    call = RunningOperation(
        call_id="c",
        operation="file_ops.edit_file",
        args={},
        started=True,
        at=9.0,
        expects=(change("a.txt"),),
    )
    state.running = (call,)
    with contextlib.closing(Workspace(tmp_path)) as workspace:
        await end_calls(state, workspace, lambda _: None, 11.0, WORDS, ends_turn=True)
    left = set(os.listdir(tmp_path))
    kept = {f"{TEMP_PREFIX}{name}{TEMP_SUFFIX}" for name in ("before", "after")}
    assert left == {*kept, *others}


async def test_damage_and_commands_that_ended_are_said_once(tmp_path: Path) -> None:
    start = action("shell.run", command="sleep 60", background=True)
    replies = script(decision("I start it.", start), done("It runs."))
    async with session(tmp_path, replies, mode="trusted", allow=("sleep 60",)) as made:
        await made.turn("start it")
        folder = made.ending.folder
        assert folder is not None
        made.cut()
    journal = folder / "journal-1.d1"
    data = bytearray(journal.read_bytes())
    at = data.index(b"start it")
    data[at] ^= 1
    journal.write_bytes(data)
    async with session(tmp_path, script(), resume=made.session_id) as made:
        assert {"resume.commands_ended", "resume.damaged"} <= set(made.notices())


async def test_a_session_without_its_first_record_is_the_same_and_as_old(tmp_path: Path) -> None:
    async with session(tmp_path, script(done("Hello."))) as made:
        await made.turn("hello")
        folder, was = made.ending.folder, made.state.session
        assert folder is not None
    journal = folder / "journal-1.d1"
    journal.write_bytes(journal.read_bytes().replace(b"session_started", b"session_starter"))
    header = open_to_read(folder).read.header
    assert header is not None
    async with session(tmp_path, script(), resume=was.session_id) as made:
        assert "resume.damaged" in made.notices()
        assert made.session_id == was.session_id
        assert made.state.session.started_at == header.created_at > 0
        assert said(made) == ["hello", "Hello."]


# --- a session that the disk does not take -------------------------------------------------------


def test_the_user_is_told_once_that_a_session_cannot_be_kept_and_that_it_can_again() -> None:
    store = Store(AgentState(), SystemClock(), MemoryRecorder())
    recording = Recording("s", MemoryRecorder())
    recording.follow_store(store, Notices(store, CountingIds()))
    store.state.unkept = ""
    codes: tuple[FaultCode, ...] = ("no_space", "io_error")
    for code in codes:
        for _ in range(2):
            recording.report_health(
                JournalHealth(mode="memory", reason=code, detail="why", path=Path("p"))
            )
    assert store.state.unkept == "io_error"
    recording.report_health(JournalHealth())
    assert store.state.unkept == ""
    recording.report_health(JournalHealth(mode="memory", reason="newer"))
    told = [(m.key, m.params) for m in store.state.messages if isinstance(m, NoticeMessage)]
    assert told == [
        ("resume.memory.no_space", {"path": "p", "detail": "why"}),
        ("resume.kept_again", {}),
        ("resume.memory.other", {"path": "", "detail": ""}),
    ]
    recording.freeze()
    recording.report_health(JournalHealth())
    assert store.state.unkept == "newer"


@pytest.mark.parametrize("way", ["freeze", "close_now"])
def test_a_recording_that_ends_lets_go_of_its_files(tmp_path: Path, way: str) -> None:
    """Also one that has none. What comes behind the end is not recorded."""
    (tmp_path / "work").mkdir()
    for keep in (True, False):
        recording = start_recording(tmp_path / "state", tmp_path / "work", str, keep=keep)
        assert recording.is_closed is not keep
        getattr(recording, way)()
        end = time.monotonic() + 30
        while not recording.is_closed:
            assert time.monotonic() < end
        recording.append(Record(seq=1, at=1.0, event=DraftSaved(text="x")))
        assert (recording.frozen, recording.newest) == (True, 0)


def test_what_was_wrong_before_anybody_could_be_told_is_told_then(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for health, unkept in (
        (JournalHealth(mode="memory", reason="no_space"), "no_space"),
        (None, ""),
    ):
        store = Store(AgentState(), SystemClock(), MemoryRecorder())
        recording = start_recording(tmp_path / "state", tmp_path / "work", str)
        if health is not None:
            recording.report_health(health)
        recording.follow_store(store, Notices(store, CountingIds()))
        assert (store.state.unkept, bool(store.state.messages)) == (unkept, bool(unkept))
        recording.close_now()


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("last", [TurnStarted, ObjectiveChanged])
async def test_a_turn_cut_before_it_was_known_what_it_works_on_goes_on_with_its_message(
    tmp_path: Path, last: type[Event], earlier: bool
) -> None:
    """Its first records are written at once, and a kill may come between two of them."""
    ask = decision("Which?", next_step="pending_user", question={"text": "Which?", "options": []})
    async with session(tmp_path, script(done("Hello!"), ask)) as made:
        if earlier:
            await made.turn("hello")
        made.store.subscribe(
            lambda _, record: made.cut() if isinstance(record.event, last) else None
        )
        await made.engine.send("what is here?")
        await made.until(lambda state: bool(state.turn))
        await made.ended(2 if earlier else 1)
    more = script(decision("", READ), done("Nothing."))
    async with session(tmp_path, more, resume=made.session_id) as made:
        made.engine.resume()
        assert (await made.ended()).reply == "Nothing."
        assert made.objective.original_query == "what is here?"
        assert made.state.earlier == ()
