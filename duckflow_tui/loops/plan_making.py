"""Having a plan made by a model, and reading what it wrote (S2-8, S2-18)."""

from __future__ import annotations

from typing import Final

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.purposes import PlanReply
from duckflow_tui.loops.endings import BudgetEnd
from duckflow_tui.loops.llm_services import LLMServices
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.questions import Unreadable
from duckflow_tui.state.base import one_line
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plans import PlanProblem, check_steps
from duckflow_tui.state.work import Plan, Step
from duckflow_tui.tools.operation import ToolFault

NOT_SENT: Final = "The user's limit of calls to models was reached; nothing was made."


class PlanMaker:
    """Asks for a plan until it can be: no circle, no unknown step, at least one step."""

    def __init__(self, parts: TurnParts) -> None:
        self._parts = parts

    async def made(self, goal: str) -> Plan:
        """A draft for this goal; raises ToolFault when none could be had."""
        parts = self._parts

        def read(reply: PlanReply) -> Plan:
            return self._from_reply(reply, goal)

        try:
            return await LLMServices(parts).plan_initial_execution(goal, read)
        except Unreadable as error:
            raise ToolFault(f"No usable plan came: {one_line(str(error), 400)}") from error
        except LlmError as error:
            parts.notices.error(f"llm.error.{error.code}", **error.params)
            raise ToolFault(f"The plan could not be made: {error.code}.") from error
        except BudgetEnd as end:  # the turn's next call ends it
            raise ToolFault(NOT_SENT, Outcome.STOPPED) from end

    def _from_reply(self, reply: PlanReply, goal: str) -> Plan:
        ids = self._parts.ids
        names = [step.id.strip() for step in reply.steps]
        if len(set(names)) < len(names):
            raise PlanProblem("Two steps have the same id.")
        given = {name: ids("step") for name in names}
        by_number = {str(n): given[name] for n, name in enumerate(names, start=1)}

        def need(name: str) -> str:
            found = given.get(name.strip()) or by_number.get(name.strip())
            if found is None:
                raise PlanProblem(f"depends_on names {name!r}, which is no step's id.")
            return found

        steps = tuple(
            Step(
                step_id=given[step.id.strip()],
                name=one_line(step.name, 200),
                description=step.description,
                depends_on=tuple(dict.fromkeys(need(name) for name in step.depends_on)),
            )
            for step in reply.steps
        )
        check_steps(steps)
        return Plan(
            plan_id=ids("plan"),
            name=one_line(reply.name, 100) or one_line(goal, 100),
            goal=reply.goal or goal,
            steps=steps,
            risk=reply.risk,
            success_criteria=tuple(reply.success_criteria),
            created_at=self._parts.store.clock.now(),
        )
