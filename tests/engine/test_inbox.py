"""The inbox between two states: what a key does in the moment in which a turn begins or is left."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

from support.plan_talk import PROPOSE, begin_plan, plan_reply
from support.session import action, decision, done, script, session

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.conversation import UserMessage, UserMessageAdded
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.session import SessionPinned
from duckflow_tui.state.store import Record
from duckflow_tui.state.turn import TurnStarted


async def test_a_retry_while_a_message_is_written_begins_no_second_turn(tmp_path: Path) -> None:
    async with session(tmp_path, script(done("One.", step="PLANNING"))) as s:
        answers: list[asyncio.Task[bool]] = []

        def hear(state: AgentState, record: Record) -> None:
            if isinstance(record.event, UserMessageAdded):  # and not on the disk yet
                answers.append(asyncio.create_task(s.engine.retry()))

        forget = s.store.subscribe(hear)
        end = await s.turn("hi")
        forget()
        assert [await answer for answer in answers] == [False]
        assert end.outcome == "answered"
        assert len(s.events(TurnStarted)) == 1
        assert s.state.turn is None


async def test_going_on_with_a_plan_while_a_message_is_written_begins_no_second_turn(
    tmp_path: Path,
) -> None:
    """The resume key takes an approved plan up again, but never beside a turn that begins."""
    writes = decision(
        "Written.",
        action("file_ops.write_file", path="a.txt", content="a\n"),
        next_step="done",
    )
    replies = script(
        PROPOSE,
        done("One."),
        done("All done."),
        done("More."),
        done("More."),
        plan=plan_reply("first note"),
        task=(writes, writes, writes),
    )
    async with session(tmp_path, replies) as s:
        await begin_plan(s)
        await s.gate()
        s.engine.stop()
        assert (await s.ended()).outcome == "stopped"

        def hear(state: AgentState, record: Record) -> None:
            if isinstance(record.event, UserMessageAdded):  # and not on the disk yet
                asyncio.get_running_loop().call_soon(s.engine.resume)

        forget = s.store.subscribe(hear)
        await s.engine.send("what is in the notes?")
        await s.until(lambda state: len(s.events(TurnStarted)) == 2)
        forget()
        s.engine.stop()
        await s.ended(2)
        await s.engine.close()
        assert len(s.events(TurnStarted)) == 2
        assert s.state.turn is None


async def test_a_stop_while_a_message_is_written_stops_its_turn(tmp_path: Path) -> None:
    async with session(tmp_path, script(done("One.", step="PLANNING"))) as s:

        def hear(state: AgentState, record: Record) -> None:
            if isinstance(record.event, UserMessageAdded):
                asyncio.get_running_loop().call_soon(s.engine.stop)

        forget = s.store.subscribe(hear)
        end = await s.turn("hi")
        forget()
        assert end.outcome == "stopped"
        assert s.state.turn is None
        assert await s.engine.retry()
        assert (await s.ended(2)).outcome == "answered"


async def test_a_chat_that_ends_ends_the_watch_over_the_files(tmp_path: Path) -> None:
    async with session(tmp_path, script(done("One."))) as s:
        await s.turn("hi")
        jobs = {task.get_name(): task for task in asyncio.all_tasks()}
        jobs["chat"].cancel()
        async with asyncio.timeout(30):
            await asyncio.wait((jobs["chat"], jobs["watch"]))


def _pause_at_start(pause: Callable[[], None], _: AgentState, record: Record) -> None:
    if isinstance(record.event, TurnStarted):
        pause()


async def test_a_paused_session_that_is_left_keeps_nothing_alive(tmp_path: Path) -> None:
    left: list[weakref.ref[AgentState]] = []
    replies = script(done("One.", step="PLANNING"))
    async with session(tmp_path, replies) as s:
        s.store.subscribe(partial(_pause_at_start, s.engine.pause))
        await s.engine.send("hi")
        await s.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        left.append(weakref.ref(s.state))
        await s.engine.close()
        for _ in range(5):
            await asyncio.sleep(0)
        waiting = [t for t in asyncio.all_tasks() if "_guarded" in repr(t.get_coro())]
        assert waiting == []
        assert s.state.turn is not None  # nobody said that it was stopped
        told = len(s.records)
        s.engine.keep_draft("too late")
        assert len(s.records) == told
    del s
    gc.collect()
    assert left[0]() is None


async def test_a_call_that_was_never_sent_holds_nothing_back(tmp_path: Path) -> None:
    turns = [done(f"Answer {n}: " + "word " * 400, step="PLANNING") for n in range(6)]
    async with session(tmp_path, script(*turns), roles={"fast": "gone/model"}) as s:
        for n in range(6):
            await s.turn(f"question {n}")
        before = s.state.usage.calls
        await s.engine.context.compact_by_hand()
        assert s.state.usage.calls == before
        assert s.state.live == {}
        asked = next(m for m in s.state.messages if isinstance(m, UserMessage))
        assert await s.engine.rewind.go_back(asked.message_id) == ""


async def test_a_screen_is_given_the_files_the_text_behind_a_gate_and_the_pin(
    tmp_path: Path,
) -> None:
    write = decision(
        "",
        action("file_ops.read_file", path="gone.txt"),
        action("file_ops.write_file", path="a.txt", content="new\n"),
    )
    async with session(tmp_path, script(write, done())) as s:
        (s.workspace / "b.txt").write_text("b")
        found = [path async for batch in s.engine.workspace_files() for path in batch]
        assert found == ["b.txt"]
        await s.engine.send("write")
        gate = await s.gate()
        assert s.engine.proposed_text(gate.gate_id) == "new\n"
        await s.answer(GateChoice.ONCE)
        await s.ended()
        assert s.notices() == []  # a call that failed says nothing of the folder
        for pinned in (True, True, False):  # the same again is no news
            s.engine.title.pin_session(pinned)
            assert s.state.session.pinned is pinned
        assert [e.pinned for e in s.events(SessionPinned)] == [True, False]


async def test_a_command_of_the_user_is_ended_by_its_id(tmp_path: Path) -> None:
    async with session(tmp_path, script()) as s:
        await s.engine.run_command("sleep 60")
        await s.until(lambda state: bool(state.running))
        (call,) = s.state.running
        assert await s.engine.end_process(call.call_id)
        await s.until(lambda state: not state.running)
