"""Having the tasks of a step listed by a model (S2-9, S2-19)."""

from __future__ import annotations

from duckflow_tui.llm.purposes import TasksReply
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.task_lists import listed
from duckflow_tui.state.work import Task


async def list_tasks(
    parts: TurnParts, plan_id: str, step_id: str, failure: str = ""
) -> tuple[Task, ...]:
    """Tasks that can be run as they are; nothing is stored. Raises LlmError and Unreadable.

    ``failure`` says what went wrong with the tasks before, of which only the rest is listed.
    """
    state = parts.store.state
    specs = parts.specs()
    plan = next(p for p in state.plans if p.plan_id == plan_id)
    step = plan.step(step_id)
    assert step is not None  # whoever asks has found it

    def read(reply: TasksReply) -> tuple[Task, ...]:
        return listed(reply.tasks, specs, parts.ids, parts.check)

    return await parts.questioner.ask(
        "tasks",
        "creative",
        lambda problems: parts.questions.tasks(
            state, plan, step, specs, problems=problems, failure=failure
        ),
        TasksReply,
        read,
        step_id=step_id,
    )
