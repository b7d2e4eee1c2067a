"""What a turn has done, what it came to, and its last event."""

from __future__ import annotations

from dataclasses import dataclass

from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.plan_run import end_plan
from duckflow_tui.loops.resuming import turn_start
from duckflow_tui.loops.step_report import changed_files
from duckflow_tui.state.agent import TurnInfo, TurnOutcome
from duckflow_tui.state.events import StepChanged, TurnFinished
from duckflow_tui.state.messages import OperationMessage, ReportMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.phase import Phase, Status, Trigger
from duckflow_tui.state.plans import ended_status
from duckflow_tui.state.work import PlanStatus, WorkStatus


@dataclass(frozen=True, slots=True)
class Spent:
    """What a session had used when a turn began; ``tokens`` in and out."""

    calls: int
    tokens: int
    cost: float | None


class TurnEnding:
    """Belongs to one turn, from its beginning on."""

    def __init__(self, parts: TurnParts, turn_id: str, resumed: TurnInfo | None = None) -> None:
        """``resumed``: the turn as an earlier process left it."""
        self._parts = parts
        self._store = parts.store
        self._turn_id = turn_id
        state, clock = parts.store.state, parts.store.clock
        self._started = clock.monotonic()
        if resumed is None:
            self._messages_before = len(state.messages)
            usage = state.usage
            self.before = Spent(usage.calls, usage.tokens_in + usage.tokens_out, usage.cost)
        else:
            self._messages_before = turn_start(state, resumed)
            self.before = Spent(resumed.calls_before, resumed.tokens_before, resumed.cost_before)
            self._started -= max(clock.now() - resumed.started_at - resumed.away_s, 0.0)

    def log(self) -> list[OperationMessage]:
        """The model's calls of this turn, those of steps included."""
        messages = self._store.state.messages[self._messages_before :]
        calls = [m for m in messages if isinstance(m, OperationMessage)]
        return [m for m in calls if not (m.by_user or m.for_requirement)]

    def outcome(self, wanted: TurnOutcome) -> TurnOutcome:
        """What the turn came to: a denial shows, and so does an approved plan left undone."""
        if any(m.result.outcome is Outcome.DENIED for m in self.log()):
            return "denied"
        plan = self._store.state.active_plan
        touched = plan is not None and any(
            isinstance(m, ReportMessage) and m.report.plan_id == plan.plan_id
            for m in self._store.state.messages[self._messages_before :]
        )
        if plan is not None and wanted == "done" and (touched or plan.status.may_run):
            return "done" if plan.status is PlanStatus.COMPLETED else "partial"
        return wanted

    async def finish(
        self,
        outcome: TurnOutcome,
        status: Status,
        reply: str,
        satisfaction: float | None,
        *,
        laid_down: bool = False,
    ) -> None:
        """Lay down what still runs, walk to the end, and commit ``TurnFinished``. ``laid_down``:
        work that is not done, and of which nothing is under way or asked any more (S4-56).
        """
        machine = self._parts.machine
        self._lay_steps_down()
        if outcome in ("done", "denied"):
            self._walk_to_done()
        elif outcome != "failed":
            if laid_down:
                machine.reset(Trigger.STOP)
            machine.set_status(status)
        usage, before = self._store.state.usage, self.before
        cost = None
        if usage.cost is not None:
            cost = usage.cost - (before.cost or 0.0)
        await self._store.commit(
            TurnFinished(
                turn_id=self._turn_id,
                outcome=outcome,
                reply=reply,
                satisfaction=satisfaction,
                llm_calls=usage.calls - before.calls,
                tokens=usage.tokens_in + usage.tokens_out - before.tokens,
                cost=cost,
                files_changed=changed_files(self.log()),
                duration_s=self._store.clock.monotonic() - self._started,
            )
        )

    def _lay_steps_down(self) -> None:
        """A step that the model works on itself runs no longer than the turn; a plan of which
        nothing is left is completed, though its work was stopped before it could say so.
        """
        for plan in self._store.state.plans:
            for step in plan.steps:
                if step.status is WorkStatus.IN_PROGRESS:
                    self._store.dispatch(
                        StepChanged(
                            plan_id=plan.plan_id,
                            step_id=step.step_id,
                            status=WorkStatus.CANCELLED,
                            note="the turn ended before it was done",
                            at=self._store.clock.now(),
                        )
                    )
            if ended_status(plan) is PlanStatus.COMPLETED:
                end_plan(self._store, plan.plan_id)

    def _walk_to_done(self) -> None:
        """At the end the engine walks by itself; a turn that only talked skips the review."""
        machine = self._parts.machine
        state = self._store.state
        if state.phase is Phase.PLANNING and not any(m.result.went_well for m in self.log()):
            machine.move(Phase.DONE, Trigger.CHAT_ONLY)
            return
        if state.phase is not Phase.REVIEW:
            machine.move(Phase.REVIEW, Trigger.DONE)
        machine.move(Phase.DONE, Trigger.DONE)
