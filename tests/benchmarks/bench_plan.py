"""A plan of 300 steps and 3,000 tasks on the whole screen: what the change of one task costs."""

from __future__ import annotations

import asyncio
from statistics import median
from time import process_time

from benchmarks.rows import Row, row
from support.app_states import FakeEngine, app_with, standing, store_with, turn_started

from duckflow_tui.state.plan import Plan, PlanStatus, Step, Task, WorkStatus
from duckflow_tui.state.plan_events import TaskChanged
from duckflow_tui.state.store import Store
from duckflow_tui.ui.app import DuckflowApp

STEPS = 300
TASKS = 10  # of each step
LIMIT_MS = 5.0
PLAN = "plan_00000001"


def measure(*, quick: bool) -> list[Row]:
    """One task's change: the event, the panes that show it, and the lines on the screen."""
    changes, screen_only = asyncio.run(_changes(20 if quick else 100))
    return [
        row(
            f"plan of {STEPS} steps and {STEPS * TASKS:,} tasks, one task's change",
            median(changes) * 1000,
            LIMIT_MS,
            "ms",
            beside={"ms at most": max(changes) * 1000, "ms of a screen at rest": screen_only},
        )
    ]


def large_plan() -> Plan:
    """Every step after the one before; the one in the middle runs, all are unfolded."""
    steps = tuple(
        Step(
            step_id=f"step_{number:08d}",
            name=f"Part {number} of the work that is to be done",
            depends_on=(f"step_{number - 1:08d}",) if number else (),
            status=_status(number),
            started_at=1_750_000_000.0 if number == STEPS // 2 else None,
            task_list=tuple(_task(number, task) for task in range(TASKS)),
        )
        for number in range(STEPS)
    )
    plan = Plan(plan_id=PLAN, name="large", goal="much", steps=steps, status=PlanStatus.IN_PROGRESS)
    return plan.model_copy(update={"approved": plan.fingerprint})


def _status(number: int) -> WorkStatus:
    middle = STEPS // 2
    if number == middle:
        return WorkStatus.IN_PROGRESS
    return WorkStatus.FAILED if number < middle else WorkStatus.BLOCKED


def _task(step: int, number: int) -> Task:
    return Task(
        task_id=f"task_{step:05d}_{number:02d}",
        operation="file_ops.read_file",
        args={"path": f"src/part_{step}/file_{number}.py"},
        result="12 lines" if step < STEPS // 2 else None,
        status=WorkStatus.COMPLETED if step < STEPS // 2 else WorkStatus.PENDING,
    )


async def _changes(samples: int) -> tuple[list[float], float]:
    store = store_with(turn_started())
    store.state.plans, store.state.active_plan_id = (large_plan(),), PLAN
    app = app_with(FakeEngine(store))
    async with standing(app, 120, 40) as pilot:
        await pilot.press("f3")
        await pilot.pause()
        idle = await _rest(app)
        seen = _in_sight(app)
        changes = [await _one(store, app, number, number % seen) for number in range(samples)]
        return changes, idle * 1000


async def _rest(app: DuckflowApp) -> float:
    began = process_time()
    await _drawn(app)
    return process_time() - began


async def _one(store: Store, app: DuckflowApp, number: int, place: int) -> float:
    """CPU seconds from the event to the lines on the screen."""
    step = store.state.plans[0].steps[STEPS // 2]
    task = step.task_list[place]
    update = {"result": f"{number} lines", "duration_s": 0.1 + number}
    event = TaskChanged(plan_id=PLAN, step_id=step.step_id, task=task.model_copy(update=update))
    await asyncio.sleep(0.05)  # each change alone, as they come
    began = process_time()
    store.dispatch(event)
    await _drawn(app)
    took = process_time() - began
    assert any(f"{number} lines" in line for line in _lines(app))
    return took


async def _drawn(app: DuckflowApp) -> None:
    """What waits was handled, and the compositor has drawn it."""
    for _ in range(3):
        await asyncio.sleep(0.012)


def _in_sight(app: DuckflowApp) -> int:
    """How many tasks of the running step the pane shows without scrolling, the first ones."""
    seen = sum(f"part_{STEPS // 2}/" in line for line in _lines(app))
    assert seen, "no task of the running step is in sight"
    return seen


def _lines(app: DuckflowApp) -> list[str]:
    plan = app.bench.plan
    return [plan.render_line(y).text for y in range(plan.scrollable_content_region.height)]
