"""The list of tasks of a step: asked for, and refused with what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from duckflow_tui.prompting.questions import tasks_question
from duckflow_tui.prompting.replies import ProposedTask, TasksReply
from duckflow_tui.state.base import IdSource, JsonObject
from duckflow_tui.state.operations import OperationSpec, Weight
from duckflow_tui.state.plan import Plan, Step, Task
from duckflow_tui.state.plan_events import StepTasksSet
from duckflow_tui.tools.operation import ToolFault

if TYPE_CHECKING:
    from duckflow_tui.work.parts import TurnParts

MAX_TASKS: Final = 50  # tasks of one list
_PLANNING: Final = ("plan_tool.", "task_tool.", "task_loop.")


#: What is wrong with the arguments of a call, as a sentence; empty when nothing is.
CheckArguments = Callable[[str, JsonObject], object]


def read_tasks(
    proposed: Sequence[ProposedTask],
    specs: Sequence[OperationSpec],
    ids: IdSource,
    check: CheckArguments,
    words: Callable[..., str],
) -> tuple[Task, ...]:
    """Tasks in the order given. Raises ValueError, in the ``words`` for models, for an overlong
    list, an operation that is not there or may not stand in a list, and arguments that cannot be.
    """
    if len(proposed) > MAX_TASKS:
        raise ValueError(words("tasks.too_many", count=str(len(proposed)), most=str(MAX_TASKS)))
    known = {spec.name: spec for spec in specs}
    problems: list[str] = []
    for number, item in enumerate(proposed, start=1):
        spec, place = known.get(item.operation), {"number": str(number)}
        if spec is None:
            problems.append(words("tasks.no_operation", operation=item.operation, **place))
        elif spec.weight is Weight.HEAVY or item.operation.startswith(_PLANNING):
            problems.append(words("tasks.cannot_stand", operation=item.operation, **place))
        else:
            try:
                check(item.operation, item.args)
            except ToolFault as fault:
                problems.append(words("tasks.wrong", problem=fault.told, **place))
    if problems:
        raise ValueError(" ".join(problems[:5]))
    return tuple(
        Task(
            task_id=ids("task"),
            operation=item.operation,
            args=item.args,
            description=item.description,
        )
        for item in proposed
    )


async def list_tasks(parts: TurnParts, plan: Plan, step: Step) -> tuple[Task, ...]:
    """Have the tasks of a step listed, and store them with it. Raises LlmError and Unreadable."""
    state, registry = parts.store.state, parts.router.registry
    specs = registry.specs()

    def read(reply: TasksReply) -> tuple[Task, ...]:
        check, words = registry.check_arguments, parts.notices.words
        return read_tasks(reply.tasks, specs, parts.ids, check, words)

    tasks = await parts.models.ask(
        tasks_question(state, plan, step, specs), read, step_id=step.step_id
    )
    await parts.store.commit(StepTasksSet(plan_id=plan.plan_id, step_id=step.step_id, tasks=tasks))
    return tasks
