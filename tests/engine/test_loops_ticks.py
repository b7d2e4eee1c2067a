"""The list of requirements moves while work runs: a check that turns green is ticked at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.plan_talk import PROPOSE, answer, plan_reply, report_reply
from support.session import action, decision, done, script, session

from duckflow_tui.state.goal import RequirementTicked

ASKED = [{"requirement": "a.txt is there", "priority": 1, "check": "file_exists: a.txt"}]
WRITE = action("file_ops.write_file", path="a.txt", content="a\n")
LOOK = action("file_ops.list_dir", path=".")


@pytest.mark.parametrize("planned", [False, True], ids=["in the turn", "in a step"])
async def test_a_file_that_the_work_makes_ticks_its_requirement(
    planned: bool, tmp_path: Path
) -> None:
    """Before anything is called done, and once."""
    look = decision("I look first.", LOOK, requirements=ASKED)
    write = decision("I write it.", WRITE, next_step="done" if planned else "continue")
    replies = script(
        *((look, PROPOSE, done("Done.")) if planned else (look, write, done("Done."))),
        plan=plan_reply("write it"),
        task=write,
        report=report_reply(),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await running.engine.send("write a.txt please")
        if planned:
            await answer(running, "run_all")
        await running.ended()
        (tick,) = running.events(RequirementTicked)
        assert (tick.requirement_id, tick.met) == ("r1", True)
