"""TaskLoop and the chat beside it: neither takes the other down."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from support.session import action, decision, done, session

from duckflow_tui.headless import TaskSpawn
from duckflow_tui.scripted.replies import Fault, Reply, Script, When
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Job, StateError, SystemClock
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan import WorkInfo
from duckflow_tui.state.plan_events import WorkFinished, WorkStarted
from duckflow_tui.state.store import MemoryRecorder, Record, Store
from duckflow_tui.work.run import TaskLoop, WorkBroke, WorkStopped


def loop_and_store() -> tuple[TaskLoop, Store, TaskSpawn]:
    store = Store(AgentState(), SystemClock(), MemoryRecorder())
    spawn = TaskSpawn()
    return TaskLoop(store, spawn), store, spawn


def outcomes_of(store: Store) -> list[str]:
    """How its pieces of work ended, from now on."""
    outcomes: list[str] = []

    def look(_: AgentState, record: Record) -> None:
        if isinstance(record.event, WorkFinished):
            outcomes.append(record.event.outcome)

    store.subscribe(look)
    return outcomes


async def test_an_end_that_comes_before_the_job_begins_leaves_nobody_waiting() -> None:
    """A job that is cancelled before its first step never runs, and can tell nobody."""
    task_loop, _, spawn = loop_and_store()

    async def works() -> None:
        raise AssertionError("it must not begin")

    spawn(task_loop.run(works()), "turn")
    await asyncio.sleep(0)  # the turn waits now, and its job is about to begin
    async with asyncio.timeout(30):
        await spawn.end_tasks()
    assert not task_loop.works
    assert spawn.broken is None


async def test_work_whose_caller_is_cancelled_before_it_begins_never_begins() -> None:
    """A worker may begin some turns of the event loop after it was started."""
    spawn = TaskSpawn()

    def slow(coroutine: Coroutine[Any, Any, None], group: str) -> Job:
        async def later() -> None:
            try:
                for _ in range(3):
                    await asyncio.sleep(0)
                await coroutine
            finally:
                coroutine.close()

        return spawn(later(), group)

    task_loop = TaskLoop(Store(AgentState(), SystemClock(), MemoryRecorder()), slow)

    async def works() -> None:
        raise AssertionError("it must not begin")

    caller = asyncio.ensure_future(task_loop.run(works()))
    await asyncio.sleep(0)  # it waits now, and its job is about to begin
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task_loop.works
    assert spawn.broken is None


async def test_a_broken_piece_of_work_is_told_and_the_next_one_runs() -> None:
    """The fault goes to whoever spawned, the wait ends, the work is laid down. Covers S2-10."""
    task_loop, store, spawn = loop_and_store()
    outcomes = outcomes_of(store)

    async def breaks() -> None:
        store.dispatch(WorkStarted(work=WorkInfo(work_id="w", started_at=0.0)))
        raise RuntimeError("a fault inside")

    with pytest.raises(WorkBroke, match="a fault inside"):
        await task_loop.run(breaks())
    assert store.state.work is None
    assert outcomes == ["failed"]
    assert not task_loop.works
    await asyncio.sleep(0)
    assert isinstance(spawn.broken, RuntimeError)

    async def works() -> str:
        return "done"

    assert await task_loop.run(works()) == "done"


async def test_a_stop_ends_the_work_and_the_wait() -> None:
    task_loop, store, spawn = loop_and_store()
    outcomes = outcomes_of(store)
    begun = asyncio.Event()

    async def waits() -> None:
        store.dispatch(WorkStarted(work=WorkInfo(work_id="w", started_at=0.0)))
        begun.set()
        await asyncio.Event().wait()

    waiting = asyncio.ensure_future(task_loop.run(waits()))
    await begun.wait()
    task_loop.stop()
    with pytest.raises(WorkStopped):
        await waiting
    assert store.state.work is None
    assert outcomes == ["stopped"]
    await spawn.end_tasks()
    assert spawn.broken is None


async def test_who_waits_may_be_cancelled_and_the_work_lays_itself_down_first() -> None:
    """The cancelled wait comes back only after the work has cleaned up, and no log has a line
    about an end that nobody waited for.
    """
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    task_loop, _, spawn = loop_and_store()
    begun, cleaned = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            cleaned.set()

    waiting = asyncio.ensure_future(task_loop.run(waits()))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert cleaned.is_set()
    assert not task_loop.works
    await spawn.end_tasks()
    del waiting
    await asyncio.sleep(0)  # the event loop lets go of what it called last
    gc.collect()
    assert complaints == []


async def test_a_second_cancel_of_who_waits_reaches_the_work_too() -> None:
    """Work that waits while it lays itself down is told again, and ends at once."""
    task_loop, _, spawn = loop_and_store()
    begun, cleaning = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await asyncio.Event().wait()

    waiting = asyncio.ensure_future(task_loop.run(waits()))
    await begun.wait()
    waiting.cancel()
    await cleaning.wait()
    assert not waiting.done()
    waiting.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert not task_loop.works
    await spawn.end_tasks()


async def test_a_second_piece_is_refused_while_one_goes_on() -> None:
    """One writer at a time."""
    task_loop, _, spawn = loop_and_store()

    async def waits() -> None:
        await asyncio.Event().wait()

    first = asyncio.ensure_future(task_loop.run(waits()))
    await asyncio.sleep(0)
    second = waits()
    with pytest.raises(StateError, match="one writer"):
        await task_loop.run(second)
    assert inspect.getcoroutinestate(second) == inspect.CORO_CLOSED
    task_loop.stop()
    with pytest.raises(WorkStopped):
        await first
    await spawn.end_tasks()


async def test_a_cancelled_worker_leaves_the_turn_alive(tmp_path: Path) -> None:
    """The job of TaskLoop is cancelled from outside: the model is told, the turn goes on."""
    run = decision(
        "",
        action(
            "task_loop.run",
            task_list=[
                {
                    "operation": "file_ops.write_file",
                    "args": {"path": "a.txt", "content": "a"},
                    "description": "write",
                }
            ],
        ),
    )
    replies = Script(replies={"main": (run, done("It was stopped."), done("Still here."))})
    async with session(tmp_path, replies) as running:
        await running.engine.send("write it")
        await running.gate()
        for task in asyncio.all_tasks():
            if task.get_name() == "task":
                task.cancel()
        end = await running.ended()
        assert end.reply == "It was stopped."
        outcomes = {m.operation: m.result.outcome for m in running.results()}
        assert outcomes == {
            "file_ops.write_file": Outcome.STOPPED,
            "task_loop.run": Outcome.STOPPED,
        }
        assert (running.state.gates, running.state.work) == ((), None)
        assert (await running.turn("are you there?")).reply == "Still here."


async def test_a_broken_answer_beside_the_work_leaves_the_work_alone(tmp_path: Path) -> None:
    """The endpoint fails for the aside only; the step's gate stays, the turn ends well."""
    run = decision("", action("file_ops.write_file", path="a.txt", content="a"))
    failing = Reply(fault=Fault(status=401), when=When(anywhere="how far"))
    replies = Script(replies={"main": (run, failing, done("Written."))})
    async with session(tmp_path, replies) as running:
        await running.engine.send("write it")
        await running.gate()
        await running.engine.send("how far are you?", when="now")
        await running.until(lambda s: any(n.startswith("llm.error") for n in running.notices()))
        assert running.state.gates
        assert running.state.turn is not None
        await running.answer(GateChoice.ONCE)
        assert (await running.ended()).reply == "Written."
