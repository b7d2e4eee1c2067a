"""The dispatcher: runs the actions of one decision, in order (S2-7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from duckflow_tui.loops.control import TurnControl
from duckflow_tui.loops.resuming import Rest
from duckflow_tui.state.decision import Action, TurnDecision
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.operations import Outcome

REPEATS = 4  # the same failing call asks the user at its fourth time (safety.md, faults)


class OperationCaller(Protocol):
    """The router, as the dispatcher needs it."""

    async def call(self, action: Action, *, step_id: str = "") -> OperationMessage:
        """Judge, ask, run and record one call; cancellation is recorded and raised again."""
        ...

    async def skip(self, action: Action, reason: str, *, step_id: str = "") -> OperationMessage:
        """Record that a call was not run, and why."""
        ...


class Dispatcher:
    """Belongs to one turn; remembers which calls failed, and how often the same way."""

    def __init__(self, caller: OperationCaller, control: TurnControl) -> None:
        self._caller = caller
        self._control = control
        self._failures: Counter[tuple[str, str]] = Counter()
        self.ran: list[OperationMessage] = []  # by the newest decision
        self.stuck: tuple[OperationMessage, int] | None = None
        self.course_changed = False  # the user's answer to a gate has to reach the model

    async def run(self, decision: TurnDecision) -> None:
        """Every action becomes one recorded result. After an answer that changes course
        (a redirect, an alternative), what was asked for behind it is skipped. ``stuck`` is then
        a call of this decision that failed for the fourth time with the same result, and how often.
        """
        await self._run(decision.actions)

    async def take_up(self, rest: Rest) -> None:
        """The same for the actions of a decision that an earlier process did not come to."""
        await self._run(rest.actions, rest.skip)

    async def _run(self, actions: Sequence[Action], skip: str = "") -> None:
        self.ran, self.stuck = [], None
        self.course_changed = bool(skip)
        for action in actions:
            if not skip:
                await self._control.safe_point()
                if self._control.redirected:
                    skip = "the user redirected the work before this call began"
            if skip:
                await self._caller.skip(action, skip)
                continue
            message = await self._caller.call(action)
            self.ran.append(message)
            self._note(action, message)
            if message.result.outcome is Outcome.DECLINED:
                skip = "the user chose an alternative to an earlier call of this reply"
            elif message.result.outcome is Outcome.REJECTED:
                skip = "the user rejected an earlier call of this reply"
            self.course_changed = bool(skip)

    def _note(self, action: Action, message: OperationMessage) -> None:
        result = message.result
        if result.outcome in (Outcome.ERROR, Outcome.INVALID):
            failure = f"{action.operation} {action.args_hash}", result.text
            self._failures[failure] += 1
            if self._failures[failure] >= REPEATS:
                self.stuck = message, self._failures[failure]
