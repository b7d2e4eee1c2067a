"""A session that goes on in another process: what was in flight, and what comes back."""

from __future__ import annotations

import gc
from pathlib import Path

from support.session import Session, action, decision, done, script, session

from duckflow_tui.session.reader import RecordedEvent
from duckflow_tui.state.conversation import AssistantMessage, UserMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.state.phase import Phase
from duckflow_tui.state.session import SessionResumed

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
    """Covers S4-80: the same question, pending; its answer lets the turn go on to its end."""
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
        assert made.notices()[-2:] == ["resume.reply_lost", "resume.interrupted"]
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
        made.store.watch(
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
        await made.answer(GateChoice.ONCE, word="unsandboxed")
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
        assert made.state.accepted_words == ()
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
        assert (end.outcome, end.reply) == ("done", "Hello.")
        assert any(isinstance(r.event, SessionResumed) for r in made.engine.begun)
