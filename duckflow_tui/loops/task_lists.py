"""A proposed list of tasks, read into tasks of ours or refused with what is wrong; their calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, cast

from duckflow_tui.loops.links import linked_tasks, resolved
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.decision import Action
from duckflow_tui.state.ids import IdSource
from duckflow_tui.state.operations import OperationSpec, Weight
from duckflow_tui.state.work import Task

MAX_TASKS: Final = 50
_PLANNING: Final = ("plan_tool.", "task_tool.", "task_loop.")

#: What is wrong with the arguments of a call, as a sentence; empty when nothing is.
CheckArguments = Callable[[str, JsonObject], str]


class Proposed(Protocol):
    """A task as a model wrote it."""

    @property
    def id(self) -> str:
        """Its own name for the task, or nothing."""
        ...

    @property
    def operation(self) -> str:
        """What to call."""
        ...

    @property
    def args(self) -> JsonObject:
        """With what, links included."""
        ...

    @property
    def description(self) -> str:
        """What for."""
        ...

    @property
    def depends_on(self) -> list[str]:
        """Names of tasks that come before."""
        ...


def listed(
    proposed: Sequence[Proposed],
    specs: Sequence[OperationSpec],
    ids: IdSource,
    check: CheckArguments,
) -> tuple[Task, ...]:
    """Tasks in the order given, with ids of ours in place of the model's.

    Raises ValueError for an empty or overlong list, an operation that is not there or may not
    stand in a list, arguments that cannot be, and a need or a link that does not lead back.
    """
    if not proposed:
        raise ValueError("The list has no task; it needs at least one.")
    if len(proposed) > MAX_TASKS:
        raise ValueError(f"The list has {len(proposed)} tasks; at most {MAX_TASKS} are possible.")
    known = {spec.name: spec for spec in specs}
    names: dict[str, str] = {}
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
                args=_renamed(item.args, names),
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


def _renamed(value: JsonObject, names: dict[str, str]) -> JsonObject:
    """The arguments with links to our ids."""
    return {key: _link(item, names) for key, item in value.items()}


def _link(value: object, names: dict[str, str]) -> object:
    if isinstance(value, list):
        return [_link(item, names) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    table = cast("JsonObject", value)
    if "from_task" in table and (linked := linked_tasks(table)):
        named = next(iter(linked))
        return {**table, "from_task": names.get(named, named)}
    return _renamed(table, names)
