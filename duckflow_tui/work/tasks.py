"""A proposed list of tasks, read into tasks of ours or refused with what is wrong; their calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from duckflow_tui.prompting.questions import tasks_question
from duckflow_tui.prompting.replies import ProposedTask, TasksReply
from duckflow_tui.state.base import IdSource, JsonObject
from duckflow_tui.state.decision import Action
from duckflow_tui.state.operations import OperationSpec, Weight
from duckflow_tui.state.plan import Task
from duckflow_tui.tools.plan_operations import MAX_TASKS

if TYPE_CHECKING:
    from duckflow_tui.tools.plan_operations import ListedTask
    from duckflow_tui.work.parts import TurnParts

_PLANNING: Final = ("plan_tool.", "task_tool.", "task_loop.")


#: What is wrong with the arguments of a call, as a sentence; empty when nothing is.
CheckArguments = Callable[[str, JsonObject], str]


def listed(
    proposed: Sequence[ProposedTask | ListedTask],
    specs: Sequence[OperationSpec],
    ids: IdSource,
    check: CheckArguments,
) -> tuple[Task, ...]:
    """Tasks in the order given, with ids of ours in place of the model's.

    Raises ValueError for an overlong list, an operation that is not there or may not
    stand in a list, arguments that cannot be, and a need or a link that does not lead back.
    """
    if len(proposed) > MAX_TASKS:
        raise ValueError(f"The list has {len(proposed)} tasks; at most {MAX_TASKS} are possible.")
    known = {spec.name: spec for spec in specs}
    names: dict[str, str] = {}

    def renamed(link: JsonObject) -> JsonObject:
        named = str(link["from_task"])
        return {**link, "from_task": names.get(named, named)}

    tasks: list[Task] = []
    problems: list[str] = []
    for number, item in enumerate(proposed, start=1):
        spec = known.get(item.operation)
        if spec is None:
            problems.append(f"Task {number}: there is no operation {item.operation!r}.")
        elif spec.weight is Weight.HEAVY or item.operation.startswith(_PLANNING):
            problems.append(f"Task {number}: {item.operation} cannot stand in a list of tasks.")
        links = linked_tasks(item.args)
        needs = (*item.depends_on, *links)
        for need in needs:
            if need not in names:
                problems.append(f"Task {number} refers to {need!r}, which is no task before it.")
        if spec is not None and not links and (wrong := check(item.operation, item.args)):
            problems.append(f"Task {number}: {wrong}")
        task_id = ids("task")
        tasks.append(
            Task(
                task_id=task_id,
                operation=item.operation,
                args={key: _with_links(value, renamed) for key, value in item.args.items()},
                description=item.description,
                depends_on=tuple(dict.fromkeys(names[need] for need in needs if need in names)),
            )
        )
        for name in (item.id, f"task_{number}", f"t{number}", str(number)):
            if name:
                names.setdefault(name, task_id)
    if problems:
        raise ValueError(" ".join(problems[:5]))
    return tuple(tasks)


def call_of(task: Task, results: Mapping[str, str], ids: IdSource, purpose: str) -> Action:
    """The call that carries out a task, its links filled in from ``results`` by the task's id.

    ``purpose`` is said where the task has no words of its own. Raises LinkFault.
    """
    words = task.description or purpose
    return Action(
        call_id=ids("call"),
        operation=task.operation,
        args=resolved(task.args, results),
        reasoning=words,
        intent=words,
    )


async def list_tasks(
    parts: TurnParts, plan_id: str, step_id: str, failure: str = ""
) -> tuple[Task, ...]:
    """Tasks that can be run as they are; nothing is stored. Raises LlmError and Unreadable.

    ``failure`` says what went wrong with the tasks before, of which only the rest is listed.
    """
    state = parts.store.state
    specs = parts.router.registry.specs()
    plan = state.get_plan(plan_id)
    step = plan.get_step(step_id)
    assert step is not None  # whoever asks has found it

    def read(reply: TasksReply) -> tuple[Task, ...]:
        return listed(reply.tasks, specs, parts.ids, parts.router.registry.argument_problem)

    question = tasks_question(state, plan, step, specs, failure)
    return await parts.models.ask(question, read, step_id=step_id)


_KEYS: Final = {"from_task", "field"}

_DIGITS: Final = 9  # of a place in a list


class LinkFault(ValueError):
    """A link that leads nowhere; ``str()`` is a sentence for the model."""


def linked_tasks(value: object) -> set[str]:
    """The tasks whose results a value refers to."""
    found: set[str] = set()
    _with_links(value, lambda link: found.add(str(link["from_task"])))
    return found


def resolved(args: JsonObject, results: Mapping[str, str]) -> JsonObject:
    """The arguments with every link replaced by the value it leads to.

    ``results`` are the texts of tasks that went well, by the task's id. Raises LinkFault.
    """

    def value(link: JsonObject) -> Any:
        task = str(link["from_task"])
        if task not in results:
            raise LinkFault(f"Task {task!r} has no result that could be used.")
        return _field(task, str(link.get("field", "")), results[task])

    return {key: _with_links(item, value) for key, item in args.items()}


def _with_links(value: Any, replaced: Callable[[JsonObject], Any]) -> Any:
    """The value with another one in place of each link in it."""
    if isinstance(value, list):
        return [_with_links(item, replaced) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    table = cast("JsonObject", value)
    if "from_task" in table and set(table) <= _KEYS:
        return replaced(table)
    return {key: _with_links(item, replaced) for key, item in table.items()}


def _field(task: str, path: str, text: str) -> Any:
    if not path:
        return text
    try:
        at: Any = json.loads(text)
    except ValueError as error:
        raise LinkFault(
            f"The result of task {task!r} is no JSON, so it has no field {path!r}."
        ) from error
    for name in path.split("."):
        if isinstance(at, list) and len(name) <= _DIGITS and name.isascii() and name.isdigit():
            items = cast("list[Any]", at)
            found = int(name) < len(items)
            at = items[int(name)] if found else None
        else:
            found = isinstance(at, dict) and name in at
            at = cast("dict[str, Any]", at)[name] if found else None
        if not found:
            raise LinkFault(f"The result of task {task!r} has no field {path!r}.")
    return at
