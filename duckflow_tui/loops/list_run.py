"""One run of a list of operations without a plan: in order, to the end or to the first failure."""

from __future__ import annotations

from dataclasses import dataclass

from duckflow_tui.loops.control import TurnControl
from duckflow_tui.loops.links import LinkFault
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.reporting import reported
from duckflow_tui.loops.step_calls import result_line
from duckflow_tui.loops.task_lists import call_of
from duckflow_tui.state.base import one_line
from duckflow_tui.state.events import ReportAdded, WorkFinished, WorkProgressed, WorkStarted
from duckflow_tui.state.messages import OperationMessage, ReportMessage
from duckflow_tui.state.work import Plan, Step, Task, WorkInfo


@dataclass(frozen=True, slots=True)
class ListResult:
    """What came of the tasks, in words for the model, and how many went well."""

    text: str
    succeeded: int
    total: int


class ListRun:
    """Runs once; its calls are a thread of their own under the work's id."""

    def __init__(self, parts: TurnParts, control: TurnControl, tasks: tuple[Task, ...]) -> None:
        self._parts = parts
        self._store = parts.store
        self._control = control
        self._tasks = tasks
        self._work_id = parts.ids("work")
        self._log: list[OperationMessage] = []

    async def run(self) -> ListResult:
        """Every task's result in full, as the model needs it to answer."""
        total = len(self._tasks)
        self._store.dispatch(
            WorkStarted(
                work=WorkInfo(
                    work_id=self._work_id,
                    mode="tasklist",
                    limit=total,
                    started_at=self._store.clock.now(),
                )
            )
        )
        started = self._store.clock.monotonic()
        lines: list[str] = []
        results: dict[str, str] = {}
        failure = ""
        for number, task in enumerate(self._tasks, start=1):
            if failure:
                lines.append(f"{number}. {task.operation}: not run, because task {failure} failed")
                continue
            await self._control.safe_point()
            self._store.dispatch(
                WorkProgressed(work_id=self._work_id, mode="tasklist", loop=number, limit=total)
            )
            good, text = await self._one(task, results)
            lines.append(f"{number}. {task.operation}: {text}")
            if good:
                results[task.task_id] = text
            else:
                failure = str(number)
        cause = lines[int(failure) - 1] if failure else ""
        duration = self._store.clock.monotonic() - started
        await self._report(cause, duration)
        outcome = "failed" if failure else "completed"
        self._store.dispatch(WorkFinished(work_id=self._work_id, outcome=outcome))
        return ListResult("\n\n".join(lines), len(results), total)

    async def _report(self, cause: str, duration_s: float) -> None:
        """What came of the list, in words for the user; the model has the results (S2-10)."""
        request = self._store.state.objective
        asked = one_line(request.original_query, 200) if request else ""
        step = Step(step_id=self._work_id, name=asked or "list", task_list=self._tasks)
        plan = Plan(plan_id=self._work_id, name=step.name, goal=asked, steps=(step,))
        report = await reported(
            self._parts, plan, step, tuple(self._log), cause=cause, duration_s=duration_s
        )
        await self._store.commit(
            ReportAdded(
                message=ReportMessage(
                    message_id=self._parts.ids("msg"),
                    report=report,
                    step_id=self._work_id,
                    at=self._store.clock.now(),
                )
            )
        )

    async def _one(self, task: Task, results: dict[str, str]) -> tuple[bool, str]:
        try:
            action = call_of(task, results, self._parts.ids, "part of the list of tasks")
        except LinkFault as fault:
            return False, str(fault)
        message = await self._parts.caller.call(action, step_id=self._work_id)
        self._log.append(message)
        if message.result.went_well:
            return True, message.result.text
        return False, result_line(message)
