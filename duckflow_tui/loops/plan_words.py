"""Plans and task lists as the model reads them."""

from __future__ import annotations

from duckflow_tui.state.base import brief, canonical_json, one_line
from duckflow_tui.state.work import Plan, Task

_SHOWN = 50  # steps


def plan_words(plan: Plan) -> str:
    """The plan with ids, status and needs, one step a line."""
    numbers = {step.step_id: str(n) for n, step in enumerate(plan.steps, start=1)}
    done, total = plan.progress
    lines = [
        f'Plan {plan.plan_id} "{plan.name}", {plan.status.value}, {done} of {total} steps done.',
        f"Goal: {one_line(plan.goal, 400)}",
    ]
    for number, step in enumerate(plan.steps[:_SHOWN], start=1):
        needs = ", ".join(numbers[need] for need in step.depends_on)
        behind = f" (after {needs})" if needs else ""
        note = f" — {one_line(step.note, 120)}" if step.note else ""
        lines.append(
            f"{number}. {step.step_id} [{step.status.value}] {step.name}{behind}: "
            f"{one_line(step.description, 200)}{note}"
        )
    if total > _SHOWN:
        lines.append(f"… and {total - _SHOWN} more steps")
    return "\n".join(lines)


def tasks_words(tasks: tuple[Task, ...]) -> str:
    """A list of tasks, one a line."""
    return "\n".join(
        f"{number}. {task.operation} {brief(canonical_json(task.args))} {task.description}".rstrip()
        for number, task in enumerate(tasks, start=1)
    )
