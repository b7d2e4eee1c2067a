"""What is left of an approved plan, taken up by the turn itself."""

from __future__ import annotations

from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.plan_desk import PlanDesk, WorkFault, run_words
from duckflow_tui.loops.plan_held import is_halted
from duckflow_tui.state.plans import ready_steps


class PlanRest:
    """Belongs to one turn. ``wanted``: the user's own key asked for it."""

    def __init__(self, parts: TurnParts, desk: PlanDesk, *, wanted: bool) -> None:
        self._parts = parts
        self._desk = desk
        self._wanted = wanted

    async def run(self) -> bool:
        """Run what the user approved and nobody has run yet; True when something was.

        The approval is the user's order: a model that forgets it does not undo it.
        """
        state = self._parts.store.state
        plan = state.active_plan
        if plan is None or not plan.status.may_run or not ready_steps(plan):
            return False
        # What could not be done, or the user put aside, is for the next turn.
        if self._desk.put_aside == plan.plan_id:
            return False
        if not self._wanted and is_halted(state, plan):
            return False
        try:
            result = await self._desk.work_on(plan)
        except WorkFault as fault:
            told = fault.told
            self._parts.notices.warn(told.key, for_model=fault.text, **told.params)
            return False
        after = next(p for p in state.plans if p.plan_id == plan.plan_id)
        self._parts.notices.say("work.reported", for_model=run_words(after, result))
        return True

    def put_aside(self) -> None:
        """The user ended the turn: the plan waits for their word."""
        plan = self._parts.store.state.active_plan
        if plan is not None:
            self._desk.put_aside = plan.plan_id
