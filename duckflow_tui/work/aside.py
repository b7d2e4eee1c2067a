"""Answers to messages that the user sends while work runs, given at once beside the work."""

from __future__ import annotations

import asyncio
from typing import Final

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.decision import Action, NextStep, TurnDecision
from duckflow_tui.state.gates import CardOpened, GateOpened
from duckflow_tui.state.operations import Effect, Outcome, Weight
from duckflow_tui.state.plan import REVISE
from duckflow_tui.state.store import Record
from duckflow_tui.work.budget import TurnEnd
from duckflow_tui.work.model_calls import Asker
from duckflow_tui.work.plan_operations import BESIDE_WORK
from duckflow_tui.work.requirements import add_later_claims
from duckflow_tui.work.services import TurnParts
from duckflow_tui.work.thread import Thread

MAX_LOOPS: Final = 4  # decisions one answer may take


class Aside(Thread):
    """A thread that answers one message beside the work. It may read and propose a change of the
    plan; it changes nothing itself.

    All such answers share the lock ``floor``: one at a time, in the order of the messages. One that
    waits for the user's answer to a question lets the next go on.
    """

    def __init__(self, parts: TurnParts, message: UserMessage, floor: asyncio.Lock) -> None:
        super().__init__(parts, Asker(parts, answers=message.message_id))
        self._floor = floor
        self._has_floor = False
        self._loops = 0

    async def run(self) -> None:
        """Answer the message. Errors are shown to the user, not raised."""
        try:
            await self.run_decisions()
        except TurnEnd:
            return  # was shown already
        except LlmError as error:
            self.parts.notices.error(f"llm.error.{error.code}", **error.params)
        except Exception as error:  # noqa: BLE001 - whatever broke, the question is not left open
            self.parts.notices.report_fault(error)
        finally:
            self._yield_floor()

    async def prepare_decision(self) -> bool:
        """Acquire the lock unless this answer holds it. After ``MAX_LOOPS`` decisions, warn and
        return True, which ends the answer.
        """
        if self._loops == MAX_LOOPS:
            self.parts.notices.warn("turn.limit", loops=str(MAX_LOOPS))
            return True
        self._loops += 1
        if not self._has_floor:
            await self._floor.acquire()
            self._has_floor = True
        return False

    async def take_decision(self, decision: TurnDecision) -> None:
        """Add the requirements in the decision to the request, unless it also proposes a change of
        the plan: that change names its own, which wait for the user's approval.
        """
        await super().take_decision(decision)
        revises = any(action.operation == REVISE for action in decision.actions)
        if decision.requirements and not revises and self.store.state.objective is not None:
            await add_later_claims(self.parts, decision.requirements)

    async def run_call(self, action: Action) -> OperationMessage:
        """Run a call that only reads or is allowed beside work; skip any other."""
        beside = action.operation in BESIDE_WORK
        called = self.parts.router.registry.get(action.operation)
        reads = called is None or (called.effect is Effect.READ and called.weight is Weight.LIGHT)
        if not (beside or reads):
            return await self.skip_call(action, self.parts.notices.words("aside.reads_only"))

        def hear(state: AgentState, record: Record) -> None:
            """Release the lock when this call asks the user."""
            match record.event:
                case GateOpened(gate=gate) if gate.call_id == action.call_id:
                    self._yield_floor()
                case CardOpened() if beside:  # a card has no call; nothing else here opens any
                    self._yield_floor()
                case _:
                    pass

        forget = self.store.subscribe(hear)
        try:
            return await super().run_call(action)
        finally:
            forget()

    async def follow_decision(self, decision: TurnDecision) -> bool:
        """Return True after a decision without calls, or one that only changed the plan."""
        if not decision.actions:
            return True
        settled = all(m.result.outcome in (Outcome.OK, Outcome.REJECTED) for m in self.ran)
        plan_only = all(action.operation in BESIDE_WORK for action in decision.actions)
        # The card of a plan change has shown what became of it.
        return plan_only and settled and decision.next_step is not NextStep.CONTINUE

    async def refuse_decision(self, decision: TurnDecision) -> bool:
        """End the answer: the model's own check failed."""
        return True

    def _yield_floor(self) -> None:
        """Release the lock, if this answer holds it."""
        if self._has_floor:
            self._has_floor = False
            self._floor.release()
