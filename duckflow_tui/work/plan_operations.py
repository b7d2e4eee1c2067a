"""The operations on plans and work that a model can call, with their arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from duckflow_tui.prompting.side_replies import STATUSES, PlanStep, PlanSteps, read_word
from duckflow_tui.safety.paths import Place
from duckflow_tui.state.base import StateError
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

if TYPE_CHECKING:
    from duckflow_tui.work.plan_dispatch import PlanDesk

UPDATE_STEP: Final = "plan_tool.update_step"
#: Operations after which the steps of a plan may begin.
BEGINS_PLAN: Final = ("plan_tool.propose", "task_loop.run", UPDATE_STEP)

#: Words that models use for a change of a step, with ours.
_EDITS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("add", "insert", "append", "new", "create"), "add"),
    **dict.fromkeys(("change", "update", "edit", "modify", "replace", "rename"), "change"),
    **dict.fromkeys(("drop", "remove", "delete", "skip"), "drop"),
    **dict.fromkeys(("move", "reorder", "shift"), "move"),
}


class Propose(Arguments):
    """Arguments to propose a plan."""

    goal: str
    # Every request carries its schema: a line says what a step is made of.
    steps: Annotated[PlanSteps, WithJsonSchema({"type": "array"})] = Field(
        default_factory=list[PlanStep],
        max_length=MAX_STEPS,
        description="{name, description, depends_on}",
    )


class StepEdit(Arguments):
    """One change of a step within ``Revise``."""

    op: Annotated[
        Literal["add", "change", "drop", "move"], BeforeValidator(partial(read_word, _EDITS))
    ]
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
    """Arguments to change or end a plan."""

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
    """Arguments to set the status of a step."""

    step_id: str = Field(description="Its id or number.")
    status: Annotated[
        Literal["pending", "in_progress", "completed", "failed", "blocked"],
        BeforeValidator(partial(read_word, STATUSES)),
    ]
    note: str = Field(default="", description="What shows it, or what is in the way.")


class GetPlan(Arguments):
    """Arguments to show a plan."""

    plan_id: str = Field(default="", description="Left out: the plan in hand.")


class GenerateList(Arguments):
    """Arguments to make the task list of a step."""

    step_id: str = Field(default="", description="Its id or number; left out: the next to begin.")


class RunWork(Arguments):
    """Arguments to run the plan or one step."""

    step_id: str = Field(
        default="",
        description="Its id or number; left out: every step that can begin.",
    )


class Nothing(Arguments):
    """No arguments."""


#: What may be called beside running work: reading the plan, proposing a change, steering.
BESIDE_WORK: Final = frozenset({"plan_tool.get", REVISE, "task_loop.pause", "task_loop.stop"})


def plan_operations(desk: PlanDesk) -> tuple[AnyOperation, ...]:
    """Make the operations on plans and work, bound to this desk."""
    talk, plan = Need.CONVERSATION, Need.PLAN
    return (
        _make_operation(
            "plan_tool.propose",
            "Propose a plan, where steps build on each other or the size is not clear yet; read "
            "first. Clear calls of its first step may follow it, for after the user's yes.",
            Propose,
            desk.propose_plan,
            talk,
            listed=True,
        ),
        _make_operation(
            REVISE,
            "Change steps of the plan, or end it; the user decides, but for steps of a draft.",
            Revise,
            desk.revise_plan,
            plan,
        ),
        _make_operation(
            UPDATE_STEP,
            "Say how a step stands; in_progress begins it.",
            UpdateStep,
            desk.update_step,
            plan,
            Need.WORKER,
        ),
        _make_operation(
            "plan_tool.get",
            "Show the plan with the state of its steps.",
            GetPlan,
            desk.show_plan,
            plan,
        ),
        _make_operation(
            "task_tool.generate_list",
            "Have a step's tasks listed beforehand, for the user to see.",
            GenerateList,
            desk.generate_list,
            plan,
            talk,
        ),
        _make_operation(
            "task_loop.run",
            "Carry out the approved plan, or one step of it; its calls may follow in this reply.",
            RunWork,
            desk.run_plan,
            plan,
            talk,
            weight=Weight.HEAVY,
        ),
        _make_operation(
            "task_loop.pause",
            "Halt the running work at its next safe point, because the user wants it.",
            Nothing,
            desk.pause_work,
            Need.WORK,
        ),
        _make_operation(
            "task_loop.stop",
            "End the running work now, because the user wants it.",
            Nothing,
            desk.stop_work,
            Need.WORK,
        ),
    )


#: What is written for people.
_WORDS: Final = frozenset({"goal", "steps", "name", "description", "note", "requirements"})


def _make_operation(
    name: str,
    summary: str,
    arguments: type[A],
    run: Callable[[A], Awaitable[Output]],
    *needs: Need,
    listed: bool = False,
    weight: Weight = Weight.LIGHT,
) -> Operation[A]:
    """Make an operation that awaits ``run`` with its parsed arguments; it touches no files."""

    async def prepare(args: A, places: tuple[Place, ...], context: ToolContext) -> Work:
        """Prepare a call; it needs no preparation beyond its arguments."""

        async def work() -> Output:
            try:
                return await run(args)
            except StateError as error:  # the user changed the plan meanwhile
                raise ToolFault("plan.not_done") from error

        return Work(work)

    return Operation(
        name=name,
        summary=summary,
        effect=Effect.STATE,
        arguments=arguments,
        prepare=prepare,
        content=_WORDS,
        needs=needs,
        listed=listed,
        weight=weight,
    )
