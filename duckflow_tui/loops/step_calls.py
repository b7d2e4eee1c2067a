"""The calls of a step: each is a task of the plan's tree from its beginning to its end."""

from __future__ import annotations

import asyncio

from duckflow_tui.loops.dispatcher import OperationCaller
from duckflow_tui.state.base import one_line
from duckflow_tui.state.decision import Action
from duckflow_tui.state.events import TaskChanged
from duckflow_tui.state.ids import IdSource
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.store import Store
from duckflow_tui.state.work import Task, WorkStatus


class StepCalls:
    """An ``OperationCaller`` that keeps the step's tasks true to what its calls do."""

    def __init__(
        self, caller: OperationCaller, store: Store, ids: IdSource, plan_id: str, step_id: str
    ) -> None:
        self._caller = caller
        self._store = store
        self._ids = ids
        self._plan_id = plan_id
        self._step_id = step_id
        self.log: list[OperationMessage] = []

    async def call(self, action: Action, *, step_id: str = "") -> OperationMessage:
        """A call of an adaptive step: a new task at the end of its list."""
        return await self.run(self._task(action), action)

    async def skip(self, action: Action, reason: str, *, step_id: str = "") -> OperationMessage:
        """A call that was asked for and not run."""
        message = await self._caller.skip(action, reason, step_id=self._step_id)
        self.log.append(message)
        task = self._task(action)
        self._put(task.model_copy(update={"status": WorkStatus.SKIPPED, "result": reason}))
        return message

    async def run(self, task: Task, action: Action) -> OperationMessage:
        """Run a task by this action; raises CancelledError after the task was marked so."""
        clock = self._store.clock
        begun = clock.monotonic()
        task = task.model_copy(
            update={
                "status": WorkStatus.IN_PROGRESS,
                "call_id": action.call_id,
                "started_at": clock.now(),
            }
        )
        self._put(task)
        status, result = WorkStatus.FAILED, ""  # unless it ends in another way
        try:
            message = await self._caller.call(action, step_id=self._step_id)
            self.log.append(message)
            status, result = _status(message), result_line(message)
        except asyncio.CancelledError:
            status, result = WorkStatus.CANCELLED, "stopped"
            raise
        finally:
            self._end(task, status, result, begun)
        return message

    def ended_without_call(self, task: Task, reason: str) -> None:
        """A task that could not even be called."""
        self._put(task.model_copy(update={"status": WorkStatus.FAILED, "result": reason}))

    def _task(self, action: Action) -> Task:
        """The task of a call: the one it had when an earlier process asked for it, or a new one."""
        for plan in self._store.state.plans:
            step = plan.step(self._step_id) if plan.plan_id == self._plan_id else None
            for task in step.task_list if step else ():
                if task.call_id == action.call_id and task.status.is_open:
                    return task
        return Task(
            task_id=self._ids("task"),
            operation=action.operation,
            args=action.args,
            description=action.intent or one_line(action.reasoning, 100),
            call_id=action.call_id,
        )

    def _end(self, task: Task, status: WorkStatus, result: str, begun: float) -> None:
        self._put(
            task.model_copy(
                update={
                    "status": status,
                    "result": result,
                    "duration_s": self._store.clock.monotonic() - begun,
                }
            )
        )

    def _put(self, task: Task) -> None:
        self._store.dispatch(TaskChanged(plan_id=self._plan_id, step_id=self._step_id, task=task))


def result_line(message: OperationMessage) -> str:
    """How a call ended, on one line."""
    result = message.result
    text = one_line(result.text, 200)
    return text if result.outcome is Outcome.OK else f"{result.outcome.value}: {text}"


def _status(message: OperationMessage) -> WorkStatus:
    if message.result.went_well:
        return WorkStatus.COMPLETED
    if message.result.outcome in (Outcome.SKIPPED, Outcome.REJECTED, Outcome.DECLINED):
        return WorkStatus.SKIPPED
    return WorkStatus.CANCELLED if message.result.outcome is Outcome.STOPPED else WorkStatus.FAILED
