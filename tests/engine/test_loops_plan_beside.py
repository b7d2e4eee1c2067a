"""A change in the conversation while a step of the approved plan waits is asked about, once."""

from __future__ import annotations

from pathlib import Path

from support.plan_talk import PROPOSE, begin_plan, plan_reply
from support.session import action, decision, done, script, session

from duckflow_tui.state.operations import Outcome

WRITE = action("file_ops.write_file", path="a.txt", content="a\n")


async def test_a_change_beside_a_waiting_step_is_asked_about_once(tmp_path: Path) -> None:
    """Reading is not; who makes the call again means it."""
    read = action("file_ops.list_dir", path=".")
    main = (
        PROPOSE,
        decision("I look.", read),
        decision("I write it.", WRITE),
        decision("It is beside the plan.", WRITE),
        done("It is written."),
    )
    replies = script(*main, plan=plan_reply("first", "second"))
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        await running.until(lambda _: len(running.results()) == 4)
        looked, asked, written = running.results()[1:]
        assert looked.result.outcome is Outcome.OK
        assert asked.result.outcome is Outcome.SKIPPED
        assert "Step 'first'" in asked.result.text
        assert written.result.outcome is Outcome.OK


async def test_a_step_that_is_begun_is_worked_on_without_a_question(tmp_path: Path) -> None:
    begin = action("plan_tool.update_step", step_id="1", status="in_progress")
    main = (PROPOSE, decision("I begin and write.", begin, WRITE), done("It is written."))
    replies = script(*main, plan=plan_reply("first", "second"))
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="two notes please")
        await running.until(lambda _: len(running.results()) == 3)
        assert [m.result.outcome for m in running.results()] == [Outcome.OK] * 3
