"""Messages sent while work runs, answered at once beside it, one after the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from duckflow_tui.agent.ask import Asker
from duckflow_tui.agent.budget import TurnEnd
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.state.decision import Action, NextStep, PromptPattern
from duckflow_tui.state.gates import CardOpened, GateOpened
from duckflow_tui.state.operations import Effect, Outcome, Weight
from duckflow_tui.tools.plan_operations import BESIDE_WORK

if TYPE_CHECKING:
    from duckflow_tui.agent.parts import TurnParts
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.state.base import Event
    from duckflow_tui.state.conversation import UserMessage
    from duckflow_tui.state.store import Record

MAX_LOOPS: Final = 4  # decisions one answer may take


_NOT_HERE: Final = (
    "work is running: beside it only reading, and changes of the plan for the user to accept, "
    "are possible; the running work reads this conversation and takes wishes up"
)


class Aside:
    """Runs once. It reads, it may propose a change of the plan, it changes nothing itself.

    Answers beside the work share a ``floor``: one at a time, first come, first served. While one
    waits for a key of the user, the others go on.
    """

    def __init__(self, parts: TurnParts, message: UserMessage, floor: asyncio.Lock) -> None:
        self._parts = parts
        self._floor = floor
        self._speaks = False
        self._asker = Asker(parts, answers=message.message_id)

    async def run(self) -> None:
        """The whole answer; what kept it from coming is shown."""
        try:
            await self._loops()
        except TurnEnd:
            return  # said already
        except LlmError as error:
            self._parts.notices.error(f"llm.error.{error.code}", **error.params)
        finally:
            self._be_silent()

    async def _speak(self) -> None:
        if not self._speaks:
            await self._floor.acquire()
            self._speaks = True

    def _be_silent(self) -> None:
        if self._speaks:
            self._speaks = False
            self._floor.release()

    async def _loops(self) -> None:
        for _ in range(MAX_LOOPS):
            await self._speak()
            decision = await self._asker.decide(PromptPattern.BASE_MAIN)
            if decision.refused_by_itself or not decision.actions:
                return
            settled = True
            for action in decision.actions:
                outcome = await self._act(action)
                settled = settled and outcome in (Outcome.OK, Outcome.REJECTED)
            plan_only = all(a.operation in BESIDE_WORK for a in decision.actions)
            if plan_only and settled and decision.next_step is not NextStep.CONTINUE:
                return  # the card has shown what became of it
        self._parts.notices.warn("turn.limit", loops=str(MAX_LOOPS))

    async def _act(self, action: Action) -> Outcome:
        caller = self._parts.caller
        if not self._may(action.operation):
            message = await caller.skip(action, _NOT_HERE)
            return message.result.outcome

        def hear(state: AgentState, record: Record) -> None:
            if _asks_the_user(record.event, action):
                self._be_silent()

        forget = self._parts.store.watch(hear)
        try:
            message = await caller.call(action)
        finally:
            forget()
        return message.result.outcome

    def _may(self, operation: str) -> bool:
        if operation in BESIDE_WORK:
            return True
        spec = next((s for s in self._parts.specs() if s.name == operation), None)
        return spec is None or (spec.effect is Effect.READ and spec.weight is Weight.LIGHT)


def _asks_the_user(event: Event, action: Action) -> bool:
    match event:
        case GateOpened(gate=gate):
            return gate.call_id == action.call_id
        case CardOpened():  # a card has no call; only one of these opens any beside the work
            return action.operation in BESIDE_WORK
        case _:
            return False
