"""Operations on plans and work: their arguments, and the calls that another room carries out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import AliasChoices, Field, WithJsonSchema, model_validator

from duckflow_tui.safety.paths import Place
from duckflow_tui.state.base import JsonObject, StateError
from duckflow_tui.state.operations import Effect, Need, Weight
from duckflow_tui.state.plan import MAX_STEPS, REVISE
from duckflow_tui.tools.operation import (
    A,
    AnyOperation,
    Arguments,
    Operation,
    Output,
    ToolContext,
    ToolFault,
    Work,
)

MAX_TASKS: Final = 50  # tasks of one list


class PlannedStep(Arguments):
    """A step as a model proposes it; a text alone is its name."""

    id: str = ""
    name: str = Field(validation_alias=AliasChoices("name", "title"))
    description: str = ""
    depends_on: list[str | int] = Field(default_factory=list[str | int])  # ids or numbers

    @model_validator(mode="before")
    @classmethod
    def _read_text(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value


class Propose(Arguments):
    goal: str
    # Every request carries its schema: a line says what a step is made of.
    steps: Annotated[list[PlannedStep], WithJsonSchema({"type": "array"})] = Field(
        default_factory=list[PlannedStep],
        max_length=MAX_STEPS,
        description="{name, description, depends_on}",
    )


class StepEdit(Arguments):
    op: Literal["add", "change", "drop", "move"]
    step_id: str = Field(
        default="",
        description="Its id or number; for add: a word by which other changes may name it.",
    )
    after: str | None = Field(
        default=None,
        description="add, move: behind this step; empty: first, left out: last.",
    )
    name: str | None = Field(default=None, description="A few words.")
    description: str | None = Field(
        default=None, description="What is done, and what shows that it is."
    )
    depends_on: list[str] | None = Field(
        default=None, description="Steps that must be done before."
    )


class Revise(Arguments):
    plan_id: str = Field(default="", description="Left out: the plan in hand.")
    changes: list[StepEdit] = Field(default_factory=list[StepEdit], max_length=MAX_STEPS)
    end: Literal["", "close", "delete"] = Field(
        default="", description="Instead of changes: put the whole plan away."
    )
    # Read as the requirements of a decision are; their form stands in the format.
    requirements: Annotated[list[Any] | None, WithJsonSchema({"type": "array"})] = Field(
        default=None, description="What is newly asked for, as in a decision; [] for nothing."
    )
    waives: list[str] = Field(
        default_factory=list[str], description="Ids of requirements that fall away."
    )


class UpdateStep(Arguments):
    step_id: str = Field(description="Its id or number.")
    status: Literal["pending", "in_progress", "completed", "failed", "blocked"]
    note: str = Field(default="", description="What shows it, or what is in the way.")


class GetPlan(Arguments):
    plan_id: str = Field(default="", description="Left out: the plan in hand.")


class GenerateList(Arguments):
    step_id: str = Field(default="", description="Its id or number; left out: the next to begin.")


class ListedTask(Arguments):
    operation: str
    args: JsonObject = Field(
        default_factory=dict,
        description='Final values, or {"from_task": "<id>", "field": "a.b"} of a JSON result.',
    )
    description: str = ""
    id: str = ""
    depends_on: list[str] = Field(default_factory=list[str])


class RunWork(Arguments):
    step_id: str = Field(
        default="",
        description="Its id or number; left out: every step that can begin.",
    )
    task_list: list[ListedTask] = Field(
        default_factory=list[ListedTask],
        description="Instead of a step, without a plan.",
        max_length=MAX_TASKS,
    )


class Nothing(Arguments):
    """No arguments."""


class PlanCalls(Protocol):
    """Carries out the operations of plans. Its methods raise ToolFault."""

    async def propose_plan(self, goal: str, steps: Sequence[PlannedStep] = ()) -> Output: ...

    async def revise_plan(self, asked: Revise) -> Output: ...

    async def update_step(self, step_id: str, status: str, note: str) -> Output: ...

    async def show_plan(self, plan_id: str) -> Output: ...

    async def generate_list(self, step_id: str) -> Output: ...

    async def run_plan(self, step_id: str, task_list: list[ListedTask]) -> Output: ...

    async def pause_work(self) -> Output: ...

    async def stop_work(self) -> Output: ...


#: What may be called beside running work: reading the plan, proposing a change, steering.
BESIDE_WORK: Final = frozenset({"plan_tool.get", REVISE, "task_loop.pause", "task_loop.stop"})


def plan_operations(desk: PlanCalls) -> tuple[AnyOperation, ...]:
    """Return the operations of plans and work; ``desk`` carries them out, or raises ToolFault."""
    return (
        _make_operation(
            "plan_tool.propose",
            "Propose a plan, where steps build on each other or the size is not clear yet; read "
            "first. Clear calls of its first step may follow it, for after the user's yes.",
            Propose,
            lambda args: desk.propose_plan(args.goal, args.steps),
            needs=(Need.CONVERSATION,),
            listed=True,
        ),
        _make_operation(
            REVISE,
            "Change steps of the plan, or end it; the user decides, but for steps of a draft.",
            Revise,
            lambda args: desk.revise_plan(args),
            needs=(Need.PLAN,),
        ),
        _make_operation(
            "plan_tool.update_step",
            "Say how a step stands that you work on.",
            UpdateStep,
            lambda args: desk.update_step(args.step_id, args.status, args.note),
            needs=(Need.PLAN, Need.WORKER),
        ),
        _make_operation(
            "plan_tool.get",
            "Show the plan with the state of its steps.",
            GetPlan,
            lambda args: desk.show_plan(args.plan_id),
            needs=(Need.PLAN,),
        ),
        _make_operation(
            "task_tool.generate_list",
            "Have a step's tasks listed beforehand, for the user to see.",
            GenerateList,
            lambda args: desk.generate_list(args.step_id),
            needs=(Need.PLAN, Need.CONVERSATION),
        ),
        _make_operation(
            "task_loop.run",
            "Carry out the approved plan, one step of it, or a list of operations.",
            RunWork,
            lambda args: desk.run_plan(args.step_id, args.task_list),
            needs=(Need.PLAN, Need.CONVERSATION),
            weight=Weight.HEAVY,
        ),
        _make_operation(
            "task_loop.pause",
            "Halt the running work at its next safe point, because the user wants it.",
            Nothing,
            lambda args: desk.pause_work(),
            needs=(Need.WORK,),
        ),
        _make_operation(
            "task_loop.stop",
            "End the running work now, because the user wants it.",
            Nothing,
            lambda args: desk.stop_work(),
            needs=(Need.WORK,),
        ),
    )


#: What is written for people, and the calls of a list, which are checked when they are made.
_WORDS: Final = frozenset(
    {"goal", "steps", "name", "description", "note", "task_list", "requirements"}
)


def _make_operation(
    name: str,
    summary: str,
    arguments: type[A],
    run: Callable[[A], Awaitable[Output]],
    **more: Any,  # as of ``Operation``
) -> Operation[A]:
    async def prepare(args: A, places: tuple[Place, ...], context: ToolContext) -> Work:
        async def work() -> Output:
            try:
                return await run(args)
            except StateError as error:  # the user changed the plan meanwhile
                raise ToolFault("plan.not_done", problem=str(error)) from error

        return Work(work)

    return Operation(
        name=name,
        summary=summary,
        effect=Effect.STATE,
        arguments=arguments,
        prepare=prepare,
        content=_WORDS,
        **more,
    )
