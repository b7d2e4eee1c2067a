"""Task lists of steps: asks a model for one and validates it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from duckflow_tui.llm.codec import name_operations
from duckflow_tui.llm.decision_reading import Reading
from duckflow_tui.prompting.side_questions import tasks_question
from duckflow_tui.prompting.side_replies import TasksReply
from duckflow_tui.state.base import IdSource, JsonObject, ModelText, ToldError
from duckflow_tui.state.lenient import join_texts
from duckflow_tui.state.operations import OperationSpec, Weight
from duckflow_tui.state.plan import Plan, Step, Task
from duckflow_tui.state.plan_events import StepTasksSet
from duckflow_tui.tools.operation import ToolFault
from duckflow_tui.work.services import TurnParts

MAX_TASKS: Final = 50  # tasks of one list
_PLANNING: Final = ("plan_tool.", "task_tool.", "task_loop.")


#: Checks the arguments of an operation; raises ToolFault for wrong ones.
CheckArguments = Callable[[str, JsonObject], object]


def read_tasks(
    proposed: Sequence[JsonObject],
    specs: Sequence[OperationSpec],
    ids: IdSource,
    check: CheckArguments,
) -> tuple[Task, ...]:
    """Read tasks in the order given. Raises ToldError for a list that is too long, unknown
    operations, operations not allowed in a list, and invalid arguments.
    """
    if len(proposed) > MAX_TASKS:
        raise ToldError("tasks.too_many", count=str(len(proposed)), most=str(MAX_TASKS))
    known, problems = {spec.name: spec for spec in specs}, list[str | ModelText]()
    reading = Reading(name_operations(specs), ids)
    tasks: list[Task] = []
    for number, item in enumerate(proposed, start=1):
        call = reading.action(f"Task {number}", item)
        if call is None:
            problems.append(reading.problems[-1])
            continue
        if known[call.operation].weight is Weight.HEAVY or call.operation.startswith(_PLANNING):
            named = {"number": str(number), "operation": call.operation}
            problems.append(ModelText("tasks.cannot_stand", named))
            continue
        try:
            check(call.operation, call.args)
        except ToolFault as fault:
            values = {"number": str(number), "problem": fault.told}
            problems.append(ModelText("tasks.wrong", values))
        description = join_texts(item.get("description"))
        task = Task(
            task_id=ids("task"), operation=call.operation, args=call.args, description=description
        )
        tasks.append(task)
    if problems:
        raise ToldError("text", text=problems[:5])
    return tuple(tasks)


async def list_tasks(parts: TurnParts, plan: Plan, step: Step) -> tuple[Task, ...]:
    """Ask a model for the task list of a step and store it with the step. Raises LlmError and
    Unreadable.
    """
    state, registry = parts.store.state, parts.router.registry
    specs = registry.specs()

    def read(reply: TasksReply) -> tuple[Task, ...]:
        """Convert the reply to tasks; raises ToldError."""
        return read_tasks(reply.tasks, specs, parts.ids, registry.check_arguments)

    tasks = await parts.models.ask(
        tasks_question(state, plan, step, specs), read, step_id=step.step_id
    )
    await parts.store.commit(StepTasksSet(plan_id=plan.plan_id, step_id=step.step_id, tasks=tasks))
    return tasks
