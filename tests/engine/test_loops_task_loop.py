"""Work on a plan and the chat beside it: neither takes the other down."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support.plan_talk import PROPOSE, begin_plan, plan_reply
from support.session import action, decision, done, script, session

from duckflow_tui.scripted.replies import Fault, Reply, When
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome


async def test_a_cancelled_worker_leaves_the_turn_alive(tmp_path: Path) -> None:
    """The work is cancelled from outside: the model is told, the turn goes on."""
    replies = script(
        PROPOSE,
        done("It was stopped."),
        done("Still here."),
        plan=plan_reply("first note"),
        task=decision("", action("file_ops.write_file", path="a.txt", content="a")),
    )
    async with session(tmp_path, replies) as running:
        await begin_plan(running, asks="write it")
        await running.gate()
        for task in asyncio.all_tasks():
            if task.get_name() == "task":
                task.cancel()
        end = await running.ended()
        assert end.reply == "It was stopped."
        outcomes = {m.operation: m.result.outcome for m in running.results()}
        assert outcomes == {
            "plan_tool.propose": Outcome.OK,
            "file_ops.write_file": Outcome.STOPPED,
        }
        assert (running.state.gates, running.state.work) == ((), None)
        assert (await running.turn("are you there?")).reply == "Still here."


async def test_a_broken_answer_beside_the_work_leaves_the_work_alone(tmp_path: Path) -> None:
    """The endpoint fails for the aside only; the step's gate stays, the turn ends well."""
    run = decision("", action("file_ops.write_file", path="a.txt", content="a"))
    failing = Reply(fault=Fault(status=401), when=When(anywhere="how far"))
    replies = script(run, failing, done("Written."))
    async with session(tmp_path, replies) as running:
        await running.engine.send("write it")
        await running.gate()
        await running.engine.send("how far are you?", when="now")
        await running.until(lambda s: any(n.startswith("llm.error") for n in running.notices()))
        assert running.state.gates
        assert running.state.turn is not None
        await running.answer(GateChoice.ONCE)
        assert (await running.ended()).reply == "Written."
