"""The whole way of a plan in the app: every word and every yes of the user is a key."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from support.app_states import settled
from support.pinned import ManualClock
from support.plan_talk import PROPOSE, plan_reply, report_reply, tasks_reply, write
from support.prepared import UNTOUCHED
from support.seat import Seat
from support.session import GOOD, action, decision, done, script

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Reply
from duckflow_tui.sessions import Sessions
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.session_host import AppOptions

REPLIES = script(
    PROPOSE,
    decision("I list the first step.", action("task_tool.generate_list", step_id="1")),
    Reply(decision=decision("I run it.", action("task_loop.run")).decision, hold="the run"),
    done("Both notes are written."),
    plan=plan_reply("first note", "second note"),
    tasks=(
        tasks_reply(write("a.txt"), write("index.txt")),
        tasks_reply(write("b.txt")),
    ),
    report=(
        report_reply(summary="a.txt is there", next_action="look at a.txt"),
        report_reply(summary="b.txt is there"),
    ),
    satisfaction=GOOD,
)


async def unfolds(user: Seat) -> None:
    """Look at the tasks of the first step in the plan, and come back."""
    bench = user.app.bench
    await user.pilot.press("f3")
    await settled(user.pilot, lambda: bench.focused is bench.plan, "the plan")
    await user.pilot.press("home", "right", "escape")
    await settled(user.pilot, lambda: bench.focused is bench.composer, "the composer")


@asynccontextmanager
async def seat(tmp_path: Path, server: ScriptedEndpoint) -> AsyncGenerator[Seat]:
    """The app on a workspace of its own, in standard mode."""
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    (tmp_path / "work").mkdir()
    flags = Flags(workspace=tmp_path / "work", base_url=server.base_url, model="m", protocol="json")
    clock = ManualClock()
    sessions = Sessions(choose_session(flags, places, "en", UNTOUCHED))
    app = DuckflowApp(sessions, AppOptions(animation=False), clock=clock)
    async with app.run_test(size=(150, 50)) as pilot:
        await settled(pilot, lambda: app.session.engine is not None, "the session")
        yield Seat(app, pilot, clock)


def groups(app: DuckflowApp) -> list[str]:
    """Those of the workers that run, without what only reads and loads."""
    aside = ("watch", "warm", "preview", "completion", "branch", "recent")
    return sorted(w.group for w in app.workers if w.is_running and w.group not in aside)


async def test_the_chat_and_the_tasks_of_a_plan_run_in_their_groups_of_workers(
    tmp_path: Path,
) -> None:
    """Covers S4-111. Leaving a session ends the group of its chat; a task ends without the chat."""
    async with ScriptedEndpoint(REPLIES) as server, seat(tmp_path, server) as user:
        await settled(user.pilot, lambda: groups(user.app) == ["chat"], "the chat loop")
        await user.types("two notes please")
        await user.sees("Enter to decide", "step by step")
        assert groups(user.app) == ["chat", "turn"]
        await user.decides("o")
        await server.reached("the run")
        assert groups(user.app) == ["chat", "turn"]
        server.release("the run")
        await user.sees("Write a.txt  new, 1 line  step 1")
        assert groups(user.app) == ["chat", "task", "turn"]


async def test_the_thirteen_steps_of_a_plan_with_keys_alone(tmp_path: Path) -> None:
    """Request, proposal, plan, question, yes, list, tasks, run, report, next step, end.

    Covers S2-21, S2-22, S2-23.
    """
    async with ScriptedEndpoint(REPLIES) as server, seat(tmp_path, server) as user:
        work = tmp_path / "work"
        await user.types("two notes please")
        await user.sees("› two notes please", "Plan  notes  0/2  draft", "○ 1 first note")
        await user.sees("Enter to decide", "2 second note · after 1", "step by step")
        assert [r.purpose for r in server.requests] == ["main", "plan"]  # nothing goes on unasked

        await user.decides("o")
        await server.reached("the run")
        await user.sees("approved: step by step", "I list the first step.")
        await user.sees("○ 1 first note", "2 tasks")
        await unfolds(user)
        await user.sees("○ write a.txt", "○ write index.txt", "0/2")
        assert list(work.iterdir()) == []
        server.release("the run")

        for name in ("a.txt", "index.txt"):
            await user.sees(f"Write {name}  new, 1 line  step 1")
            assert not (work / name).exists()
            await user.decides("y")
            await settled(user.pilot, (work / name).exists, name)

        await user.sees("Step 1 done", "a.txt is there", "look at a.txt", "1/2", "Enter to decide")
        assert "b.txt" not in user.screen
        asked = len(server.requests)
        await user.decides("y")
        await user.sees("Write b.txt  new, 1 line  step 2")
        await user.decides("y")
        await user.sees("Both notes are written.", "2/2", "done", "b.txt is there")
        await settled(user.pilot, lambda: len(server.requests) > 9, "the judgement")
        assert (work / "b.txt").read_text() == "text\n"
        assert [r.purpose for r in server.requests] == [
            *("main", "plan"),  # request → proposal → plan
            *("main", "tasks"),  # yes → generate_list → list
            *("main", "report"),  # task_loop.run → report of step 1
            *("tasks", "report"),  # the user goes on: step 2
            *("main", "satisfaction"),  # end → what was written is judged
        ]
        assert asked == 6  # between the report and the user's key nothing was asked for


async def test_d_takes_a_step_as_done_that_is_not_believed_and_the_next_begins(
    tmp_path: Path,
) -> None:
    said = script(
        PROPOSE,
        decision("I run it.", action("task_loop.run")),
        done("Both."),
        plan=plan_reply("first note", "second note"),
        tasks=(tasks_reply(write("a.txt")), tasks_reply(write("b.txt"))),
        report=(report_reply("partial", summary="a.txt is there"), report_reply()),
    )
    async with ScriptedEndpoint(said) as server, seat(tmp_path, server) as user:
        await user.types("two notes please")
        await user.sees("Enter to decide", "step by step")
        await user.decides("o")
        await user.sees("Write a.txt  new, 1 line  step 1")
        await user.decides("y")
        await user.sees("Step 1 partly done", "d  mark as done, continue")
        await user.decides("d")
        await user.sees("Write b.txt  new, 1 line  step 2", "✓ 1 first note", "marked as done")
        await user.decides("y")
        await user.sees("2/2", "done", "✓ 2 second note")
