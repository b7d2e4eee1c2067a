"""The examples of the design notes, played through the engine in their own words."""

from __future__ import annotations

from pathlib import Path

from support.plan_talk import (
    PROPOSE,
    answer,
    begin_plan,
    plan_reply,
    report_reply,
    tasks_reply,
    write,
)
from support.session import action, decision, done, script, session

STEPS = ("look around", "write the module", "write the tests", "run the tests", "tell the user")


async def test_of_five_steps_two_are_done(tmp_path: Path) -> None:
    """The model that leads the work is told where the plan stands and what came of it.

    Covers S2-17, S2-29.
    """
    replies = script(
        PROPOSE,
        decision("First.", action("task_tool.generate_list", step_id="1")),
        decision("", action("task_loop.run", step_id="1")),
        done("Two are done."),
        done("All five are done."),
        plan=plan_reply(*STEPS),
        tasks=tuple(tasks_reply(write(f"{name}.txt")) for name in "abcde"),
        report=(
            report_reply(summary="the layout is known"),
            report_reply(summary="b.txt holds the module"),
            *(report_reply(summary="the rest is there") for _ in "cde"),
        ),
    )
    async with session(tmp_path, replies, mode="trusted") as running:
        await begin_plan(running, "run_steps", asks="build the module in five steps")
        await answer(running, "go_on")
        first = await answer(running, "tell", "tell me how far it is")
        await running.ended()
        assert first.report is not None
        assert running.engine.plan.run_plan() is None
        for _ in range(2):
            await answer(running, "go_on")
        assert (await running.ended(2)).outcome == "done"
        told = [request.text for request in running.server.of("main")]
        now = [text[text.rindex("# Now") :] for text in told]
        assert "Plan: 0 of 5 steps done" in now[1]
        assert "1. look around [pending] | notes" in now[1]
        assert "Plan: 2 of 5 steps done" in now[3]
        assert "3. write the tests [pending] | notes" in now[3]
        assert "1. [completed] look around: the layout is known (a.txt)" in now[3]
        assert "2. [completed] write the module: b.txt holds the module (b.txt)" in now[3]
        assert "Plan: 5 of 5 steps done" in now[4]
        assert "Step in hand" not in now[4]


async def test_two_operations_take_three_calls(tmp_path: Path) -> None:
    """Read and write in one decision, the answer in the next, the judge: no call more.

    Covers S3-3.
    """
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "in.txt").write_text("three\n")
    replies = script(
        decision(
            "I read it and make the note.",
            action("file_ops.read_file", path="in.txt"),
            action("file_ops.write_file", path="out.txt", content="three\n"),
        ),
        done("out.txt holds what in.txt says."),
    )
    async with session(tmp_path, replies, mode="trusted", headless=True) as running:
        end = await running.turn("copy the word of in.txt into out.txt")
        assert end.outcome == "done"
        assert (running.workspace / "out.txt").read_text() == "three\n"
        assert end.llm_calls == 3
        assert [r.purpose for r in running.server.requests] == ["main", "main", "satisfaction"]
