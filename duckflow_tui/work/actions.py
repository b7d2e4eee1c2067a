"""The user's own changes of a plan, made by keys on the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duckflow_tui.state.base import Event, LocalizedText, StateError
from duckflow_tui.state.plan import (
    Plan,
    PlanEdit,
    PlanProblem,
    WorkStatus,
    apply_edits,
)
from duckflow_tui.state.plan_events import (
    PlanActivated,
    PlanClosed,
    PlanHalted,
    PlanRevised,
    StepBreakSet,
)
from duckflow_tui.work.propose import PlanApprovals, end_idle_plan, set_step, skip_step
from duckflow_tui.work.services import TurnParts

_OVER = (WorkStatus.FAILED, WorkStatus.CANCELLED, WorkStatus.SKIPPED, WorkStatus.BLOCKED)


class PlanActions:
    """The user's actions on plans. Each method returns why it was not possible, as a message for
    the user, or None when it was done.
    """

    def __init__(
        self, parts: TurnParts, approvals: PlanApprovals, go_on: Callable[[], bool]
    ) -> None:
        """``go_on`` starts a turn that continues the plan; it returns False where none can start
        now.
        """
        self._parts = parts
        self._store = parts.store
        self._approvals = approvals
        self._go_on = go_on

    async def edit_steps(self, edits: Sequence[PlanEdit]) -> LocalizedText | None:
        """Apply the user's edits to the active plan, and renew the card that shows it."""
        plan = self._store.state.active_plan
        if plan is None:
            return LocalizedText(key="plan.problem.no_plan")
        named = [
            edit
            if edit.op != "add" or edit.step_id
            else edit.model_copy(update={"step_id": self._parts.ids("step")})
            for edit in edits
        ]
        try:
            await self._store.commit(PlanRevised(plan=apply_edits(plan, named), by="user"))
        except PlanProblem as problem:
            return problem.for_user
        for step in plan.steps:
            if any(edit.op == "drop" and edit.step_id == step.step_id for edit in named):
                self._parts.notices.say("plan.step_dropped", step=step.name)
        self._approvals.show_again(plan.plan_id)
        end_idle_plan(self._store, plan.plan_id)
        return None

    def set_break(self, step_id: str, on: bool) -> LocalizedText | None:
        """Set or clear the breakpoint of a pending step: with one, the user is asked before it
        begins.
        """
        plan = self._store.state.active_plan
        if plan is None:
            return LocalizedText(key="plan.problem.no_plan")
        step = plan.get_step(step_id)
        if step is not None and step.status is not WorkStatus.PENDING:
            return LocalizedText(key="plan.problem.begun")
        return self._try_event(StepBreakSet(plan_id=plan.plan_id, step_id=step_id, on=on))

    def retry_step(self, step_id: str) -> LocalizedText | None:
        """Make a step that failed or was skipped, cancelled or blocked pending again, and continue
        the plan.
        """
        plan = self._plan_of(step_id, _OVER)
        if plan is None:
            return LocalizedText(key="plan.problem.not_over")
        set_step(self._store, plan.plan_id, step_id, WorkStatus.PENDING)
        return self.run_plan()

    def skip_step(self, step_id: str) -> LocalizedText | None:
        """Waive a step that is not done; steps that depend on it may begin."""
        plan = self._plan_of(step_id, (WorkStatus.PENDING, *_OVER))
        if plan is None:
            return LocalizedText(key="plan.problem.not_open")
        step = plan.get_step(step_id)
        assert step is not None  # it was found
        skip_step(self._parts, plan, step)
        end_idle_plan(self._store, plan.plan_id)
        return None

    def run_plan(self) -> LocalizedText | None:
        """Continue the active, approved plan, and return None; else the message why it cannot go
        on. Interrupted steps begin anew.

        A turn that is running continues the plan by itself; only the halt of the plan is cleared
        then.
        """
        plan = self._store.state.active_plan
        if plan is None:
            return LocalizedText(key="plan.problem.no_plan")
        if plan.approved != plan.fingerprint:
            return LocalizedText(key="plan.problem.not_approved")
        if not plan.may_go_on:
            return LocalizedText(key="plan.problem.none_ready")
        self._store.dispatch(PlanHalted(plan_id=plan.plan_id, halted=""))
        if self._store.state.turn is not None or self._go_on():
            return None
        return LocalizedText(key="plan.problem.not_asked")

    def close_plan(self, plan_id: str, *, delete: bool = False) -> LocalizedText | None:
        """Close a plan, or with ``delete`` also remove it from the list (S2-26)."""
        return self._try_event(PlanClosed(plan_id=plan_id, deleted=delete), "at_work")

    def activate_plan(self, plan_id: str) -> LocalizedText | None:
        """Make another plan the active one, also a closed one; the next turn continues it."""
        return self._try_event(PlanActivated(plan_id=plan_id), "at_work")

    def _plan_of(self, step_id: str, among: tuple[WorkStatus, ...]) -> Plan | None:
        """Return the active plan if it has this step with one of these statuses, else None."""
        plan = self._store.state.active_plan
        step = plan.get_step(step_id) if plan else None
        return plan if step is not None and step.status in among else None

    def _try_event(self, event: Event, problem: str = "not_now") -> LocalizedText | None:
        """Dispatch an event; return the message ``plan.problem.…`` if the state refuses it."""
        try:
            self._store.dispatch(event)
        except StateError:
            return LocalizedText(key=f"plan.problem.{problem}")
        return None
