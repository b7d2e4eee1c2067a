"""The time of work leaves out that in which the user was waited for."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.plan_talk import PROPOSE, answer, card, plan_reply
from support.session import Session, action, decision, done, script, session

from duckflow_tui.session.resume import open_to_read
from duckflow_tui.state.base import SystemClock
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.plan import ReportMessage, Step

WRITE = action("file_ops.write_file", path="a.txt", content="a\n")
LONG = 600.0  # seconds, far more than a test takes


class MovedClock(SystemClock):
    """The time of the machine, and what a test adds to it."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def clock_of(running: Session) -> MovedClock:
    clock = running.store.clock = MovedClock()
    return clock


def only_step(running: Session) -> Step:
    plan = running.active_plan
    return plan.steps[0]


async def test_a_turn_leaves_out_the_time_in_which_its_gate_was_open(tmp_path: Path) -> None:
    async with session(tmp_path, script(decision("", WRITE), done())) as running:
        clock = clock_of(running)
        await running.engine.send("a note please")
        await running.gate()
        clock.ahead = LONG
        await running.answer(GateChoice.ONCE)
        end = await running.ended()
        assert 0 < end.duration_s < LONG / 2
        assert LONG <= end.waited_s < 2 * LONG


@pytest.mark.parametrize("how", ["resume", "stop"])
async def test_a_turn_leaves_out_its_pauses(tmp_path: Path, how: str) -> None:
    async with session(tmp_path, script(decision("", WRITE), done())) as running:
        clock = clock_of(running)
        await running.engine.send("a note please")
        await running.gate()
        running.engine.pause()
        await running.answer(GateChoice.ONCE)
        await running.until(lambda state: state.turn is not None and state.turn.pause == "paused")
        clock.ahead = LONG
        running.engine.resume() if how == "resume" else running.engine.stop()
        end = await running.ended()
        assert 0 < end.duration_s < LONG / 2
        assert LONG <= end.waited_s < 2 * LONG
        assert running.state.waits_since is None


async def test_a_step_and_its_report_leave_out_the_time_in_which_its_gate_was_open(
    tmp_path: Path,
) -> None:
    """The same in the session that is read again, and the plan's own card is no time of a step."""
    replies = script(
        PROPOSE,
        done("Done."),
        plan=plan_reply("first note"),
        task=decision("", WRITE, next_step="done"),
    )
    async with session(tmp_path, replies) as running:
        clock = clock_of(running)
        await running.engine.send("a note please")
        await card(running)
        clock.ahead = LONG
        await answer(running, "run_all")
        await running.gate()
        clock.ahead = 3 * LONG
        await running.answer(GateChoice.ONCE)
        end = await running.ended()
        assert 0 < end.duration_s < LONG / 2
        assert 3 * LONG <= end.waited_s < 3.5 * LONG
        step = only_step(running)
        assert 2 * LONG <= step.waited_s < 2.5 * LONG
        assert 0 < step.elapsed_s - step.waited_s < LONG / 2
        assert 0 < step.task_list[0].duration_s < LONG / 2
        report = next(m.report for m in running.state.messages if isinstance(m, ReportMessage))
        assert 0 < report.duration_s < LONG / 2
        assert 2 * LONG <= report.waited_s < 2.5 * LONG
        turns, plans = running.state.turns, running.state.plans
        session_id = running.session_id
    [folder] = (tmp_path / "home").glob(f"state/sessions/*/{session_id}")
    again = open_to_read(folder).state
    assert (again.turns, again.plans) == (turns, plans)


async def test_a_resumed_turn_leaves_out_what_was_waited_before_and_behind_the_cut(
    tmp_path: Path,
) -> None:
    replies = script(
        PROPOSE,
        done("It stands."),
        plan=plan_reply("first note"),
        task=decision("", WRITE, next_step="done"),
    )
    async with session(tmp_path, replies) as running:
        clock = clock_of(running)
        await running.engine.send("a note please")
        await card(running)
        clock.ahead = LONG
        await answer(running, "run_all")
        await running.gate()
        running.cut()
    more = script(done("Done."))
    async with session(tmp_path, more, resume=running.session_id) as running:
        clock = clock_of(running)
        clock.ahead = LONG
        await running.gate()
        clock.ahead = 2 * LONG
        await running.answer(GateChoice.ONCE)
        end = await running.ended()
        assert 0 <= end.duration_s < LONG / 2
        assert 2 * LONG <= end.waited_s < 2.5 * LONG
        step = only_step(running)
        assert 0 <= step.elapsed_s - step.waited_s < LONG / 2
