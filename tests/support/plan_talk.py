"""What a model says when work is planned, and how the user answers its cards."""

from __future__ import annotations

from typing import Any

from support.session import Session, action, decision

from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.gates import Card, CardAnswer, CardKind, Remark
from duckflow_tui.state.plan import WorkStatus


def plan_reply(*names: str, chain: bool = True, **fields: Any) -> Reply:
    """A plan whose steps depend each on the one before."""
    steps = [
        {
            "id": f"s{n}",
            "name": name,
            "description": f"do {name}",
            "depends_on": [f"s{n - 1}"] if chain and n > 1 else [],
        }
        for n, name in enumerate(names, start=1)
    ]
    body = {"name": "notes", "goal": "two notes", "steps": steps, "risk": "low"}
    return Reply(data={**body, "success_criteria": ["both files are there"], **fields})


def tasks_reply(*tasks: dict[str, Any]) -> Reply:
    """The tasks of a step."""
    return Reply(data={"tasks": list(tasks)})


def write(path: str, content: str = "text\n", **fields: Any) -> dict[str, Any]:
    """A task that writes a file."""
    return {
        "operation": "file_ops.write_file",
        "args": {"path": path, "content": content},
        "description": f"write {path}",
        **fields,
    }


def report_reply(status: str = "completed", **fields: str) -> Reply:
    """The words of a report."""
    body = {"status": status, "summary": "the note is there", "cause": "", "next_action": ""}
    return Reply(data={**body, **fields})


PROPOSE = decision("I plan first.", action("plan_tool.propose", goal="two notes"), step="PLANNING")


async def card(running: Session, kind: CardKind | None = None) -> Card:
    """The oldest open card, or the oldest of a kind, once there is one."""

    def fits(shown: Card) -> bool:
        return kind in (None, shown.kind)

    await running.until(lambda state: any(map(fits, state.cards)))
    return next(filter(fits, running.state.cards))


async def answer(
    running: Session,
    action_name: str,
    text: str = "",
    *,
    kind: CardKind | None = None,
    remarks: tuple[Remark, ...] = (),
) -> Card:
    """Answer the oldest card, or the oldest of a kind, as a key would."""
    shown = await card(running, kind)
    given = CardAnswer(
        card_id=shown.card_id,
        subject=shown.subject,
        action=action_name,
        text=text,
        remarks=remarks,
    )
    await running.engine.answer_card(given)
    return shown


async def begin_plan(running: Session, how: str = "run_all", *, asks: str = "notes please") -> None:
    """Ask for something and approve the plan that is proposed; with ``run_steps`` nothing begins
    before the model asks for it.
    """
    await running.engine.send(asks)
    await answer(running, how, kind=CardKind.PLAN)


def statuses(state: AgentState) -> list[WorkStatus]:
    """How the steps of the active plan stand."""
    plan = state.active_plan
    return [step.status for step in plan.steps] if plan else []
