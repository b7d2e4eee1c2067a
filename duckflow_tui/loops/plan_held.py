"""What an open question about a plan holds back, and whether the plan may go on unasked."""

from __future__ import annotations

import asyncio

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.cards import ACCEPT, STOP, TELL, CardKind
from duckflow_tui.state.messages import CardMessage
from duckflow_tui.state.store import Record, Store
from duckflow_tui.state.work import Plan, WorkStatus


def held_back(state: AgentState, plan_id: str) -> frozenset[str]:
    """Steps that an open change of the plan would change or drop: they wait for the answer."""
    return frozenset(
        edit.step_id
        for card in state.cards
        if card.kind is CardKind.PLAN_CHANGE and card.plan_id == plan_id and card.change is not None
        for edit in card.change.edits
        if edit.op in ("change", "drop")
    )


async def let_go(store: Store, plan_id: str, step_ids: frozenset[str]) -> None:
    """Return once something no longer holds one of these steps back."""

    def free(state: AgentState) -> bool:
        return not step_ids <= held_back(state, plan_id)

    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def look(state: AgentState, record: Record) -> None:
        if free(state) and not gone.done():
            gone.set_result(None)

    forget = store.watch(look)
    try:
        if not free(store.state):
            await gone
    finally:
        forget()


def is_halted(state: AgentState, plan: Plan) -> bool:
    """Whether the user stopped it, or wanted something else instead of its next step: then only
    their key, or a call that they ask the model for, lets it go on.

    A change of the plan that they accepted since is what became of their wish. Refusing one says
    nothing but that it is not wanted.
    """
    if any(step.status is WorkStatus.CANCELLED for step in plan.steps):
        return True
    cards = (m for m in reversed(state.messages) if isinstance(m, CardMessage))
    changed = False
    for message in cards:
        if message.card.plan_id != plan.plan_id:
            continue
        action = message.answer.action
        if message.card.kind is CardKind.PLAN_CHANGE:
            changed = changed or action == ACCEPT.action
            continue
        return action == STOP.action or (action == TELL.action and not changed)
    return False
