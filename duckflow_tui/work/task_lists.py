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
from duckflow_tui.tools.operation import ToolFault
from duckflow_tui.tools.plan_operations import MAX_TASKS

if TYPE_CHECKING:
    from duckflow_tui.tools.plan_operations import ListedTask
    from duckflow_tui.work.parts import TurnParts

_PLANNING: Final = ("plan_tool.", "task_tool.", "task_loop.")


#: What is wrong with the arguments of a call, as a sentence; empty when nothing is.
CheckArguments = Callable[[str, JsonObject], object]


def read_tasks(
    proposed: Sequence[ProposedTask | ListedTask],
    specs: Sequence[OperationSpec],
    ids: IdSource,
    check: CheckArguments,
    words: Callable[..., str],
) -> tuple[Task, ...]:
    """Tasks in the order given, with ids of ours in place of the model's.

    Raises ValueError, in the ``words`` for models, for an overlong list, an operation that is not
    there or may not stand in a list, arguments that cannot be, and a need or a link that does not
    lead back.
    """
    if len(proposed) > MAX_TASKS:
        raise ValueError(words("tasks.too_many", count=str(len(proposed)), most=str(MAX_TASKS)))
    known = {spec.name: spec for spec in specs}
    names: dict[str, str] = {}

    def rename_link(link: JsonObject) -> JsonObject:
        named = str(link["from_task"])
        return {**link, "from_task": names.get(named, named)}

    tasks: list[Task] = []
    problems: list[str] = []
    for number, item in enumerate(proposed, start=1):
        spec, place = known.get(item.operation), {"number": str(number)}
        if spec is None:
            problems.append(words("tasks.no_operation", operation=item.operation, **place))
        elif spec.weight is Weight.HEAVY or item.operation.startswith(_PLANNING):
            problems.append(words("tasks.cannot_stand", operation=item.operation, **place))
        links = find_linked_tasks(item.args)
        needs = (*item.depends_on, *links)
        problems += [
            words("tasks.broken_need", need=need, **place) for need in needs if need not in names
        ]
        if spec is not None and not links:
            try:
                check(item.operation, item.args)
            except ToolFault as fault:
                problems.append(words("tasks.wrong", problem=fault.told, **place))
        task_id = ids("task")
        tasks.append(
            Task(
                task_id=task_id,
                operation=item.operation,
                args={key: _replace_links(value, rename_link) for key, value in item.args.items()},
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


def make_call(task: Task, results: Mapping[str, str], ids: IdSource, purpose: str) -> Action:
    """The call that carries out a task, its links filled in from ``results`` by the task's id.

    ``purpose`` is said where the task has no words of its own. Raises LinkFault.
    """
    words = task.description or purpose
    return Action(
        call_id=ids("call"),
        operation=task.operation,
        args=resolve_links(task.args, results),
        reasoning=words,
        intent=words,
    )


async def list_tasks(
    parts: TurnParts, plan_id: str, step_id: str, failure: str = ""
) -> tuple[Task, ...]:
    """Tasks that can be run as they are; nothing is stored. Raises LlmError and Unreadable.

    ``failure`` says what went wrong with the tasks before, of which only the rest is listed.
    """
    state, registry = parts.store.state, parts.router.registry
    specs = registry.specs()
    plan = state.get_plan(plan_id)
    step = plan.get_step(step_id)
    assert step is not None  # whoever asks has found it

    def read(reply: TasksReply) -> tuple[Task, ...]:
        check, words = registry.check_arguments, parts.notices.words
        return read_tasks(reply.tasks, specs, parts.ids, check, words)

    question = tasks_question(state, plan, step, specs, failure)
    return await parts.models.ask(question, read, step_id=step_id)


_KEYS: Final = {"from_task", "field"}

_DIGITS: Final = 9  # of a place in a list


class LinkFault(Exception):
    """Raised for a link that leads nowhere; ``name`` and ``values`` are of the words for models."""

    def __init__(self, name: str, **values: str) -> None:
        super().__init__(name)
        self.name, self.values = name, values


def find_linked_tasks(value: object) -> set[str]:
    """The tasks whose results a value refers to."""
    found: set[str] = set()
    _replace_links(value, lambda link: found.add(str(link["from_task"])))
    return found


def resolve_links(args: JsonObject, results: Mapping[str, str]) -> JsonObject:
    """The arguments with every link replaced by the value it leads to.

    ``results`` are the texts of tasks that went well, by the task's id. Raises LinkFault.
    """

    def find_value(link: JsonObject) -> Any:
        task = str(link["from_task"])
        if task not in results:
            raise LinkFault("tasks.no_result", task=task)
        return _read_field(task, str(link.get("field", "")), results[task])

    return {key: _replace_links(item, find_value) for key, item in args.items()}


def _replace_links(value: Any, replace: Callable[[JsonObject], Any]) -> Any:
    """The value with another one in place of each link in it."""
    if isinstance(value, list):
        return [_replace_links(item, replace) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    table = cast("JsonObject", value)
    if "from_task" in table and set(table) <= _KEYS:
        return replace(table)
    return {key: _replace_links(item, replace) for key, item in table.items()}


def _read_field(task: str, path: str, text: str) -> Any:
    """The value at a dotted path in the JSON result of a task; all of it for an empty path."""
    if not path:
        return text
    try:
        at: Any = json.loads(text)
    except ValueError as error:
        raise LinkFault("tasks.no_json", task=task, field=path) from error
    for name in path.split("."):
        if isinstance(at, list) and len(name) <= _DIGITS and name.isascii() and name.isdigit():
            items = cast("list[Any]", at)
            found = int(name) < len(items)
            at = items[int(name)] if found else None
        else:
            found = isinstance(at, dict) and name in at
            at = cast("dict[str, Any]", at)[name] if found else None
        if not found:
            raise LinkFault("tasks.no_field", task=task, field=path)
    return at
