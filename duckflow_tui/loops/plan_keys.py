"""What the user does to the plan by key: each takes effect at once and asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duckflow_tui.loops.plan_desk import PlanDesk
from duckflow_tui.loops.plan_run import end_idle_plan
from duckflow_tui.state.base import Told
from duckflow_tui.state.events import PlanStatusChanged, StateError, StepBreakSet, StepChanged
from duckflow_tui.state.plans import ready_steps
from duckflow_tui.state.store import Store
from duckflow_tui.state.work import Plan, PlanEdit, PlanStatus, WorkStatus

_OVER = (WorkStatus.FAILED, WorkStatus.CANCELLED, WorkStatus.SKIPPED, WorkStatus.BLOCKED)


class PlanKeys:
    """Each method returns what is in the way, or nothing."""

    def __init__(self, store: Store, desk: PlanDesk, go_on: Callable[[], bool]) -> None:
        self._store = store
        self._desk = desk
        self._go_on = go_on

    async def edit(self, edits: Sequence[PlanEdit]) -> Told | None:
        """Change, add, drop or move steps of the plan in hand."""
        return await self._desk.edit(edits)

    def set_break(self, step_id: str, on: bool) -> Told | None:
        """Be asked, or no longer be asked, before a step begins."""
        plan = self._store.state.active_plan
        if plan is None:
            return Told(key="plan.problem.no_plan")
        return self._tried(StepBreakSet(plan_id=plan.plan_id, step_id=step_id, on=on))

    def retry(self, step_id: str) -> Told | None:
        """Have a step done again that ended without being done, and go on with the plan."""
        plan = self._store.state.active_plan
        step = plan.step(step_id) if plan else None
        if plan is None or step is None or step.status not in _OVER:
            return Told(key="plan.problem.not_over")
        problem = self._move(plan, step_id, WorkStatus.PENDING)
        return problem or self.run()

    def skip(self, step_id: str) -> Told | None:
        """Waive a step; what depends on it may begin."""
        plan = self._store.state.active_plan
        step = plan.step(step_id) if plan else None
        may = (WorkStatus.PENDING, *_OVER)
        if plan is None or step is None or step.status not in may:
            return Told(key="plan.problem.not_open")
        problem = self._move(plan, step_id, WorkStatus.SKIPPED)
        if not problem:
            end_idle_plan(self._store, plan.plan_id)
        return problem

    def run(self) -> Told | None:
        """Go on with the approved plan; what was stopped in the middle is begun again.

        While a turn runs there is nothing to do: it takes the rest of the plan up itself.
        """
        plan = self._store.state.active_plan
        if plan is None:
            return Told(key="plan.problem.no_plan")
        for step in plan.steps:
            if step.status is WorkStatus.CANCELLED:
                self._move(plan, step.step_id, WorkStatus.PENDING)
        plan = self._store.state.active_plan
        assert plan is not None
        if plan.approved != plan.fingerprint:
            return Told(key="plan.problem.not_approved")
        if not ready_steps(plan) and self._store.state.work is None:
            return Told(key="plan.problem.none_ready")
        if plan.status in (PlanStatus.FAILED, PlanStatus.COMPLETED):
            event = PlanStatusChanged(plan_id=plan.plan_id, status=PlanStatus.IN_PROGRESS)
            if problem := self._tried(event):
                return problem
        if self._store.state.turn is not None or self._go_on():
            return None
        return Told(key="plan.problem.not_asked")

    def _move(self, plan: Plan, step_id: str, status: WorkStatus) -> Told | None:
        return self._tried(
            StepChanged(
                plan_id=plan.plan_id, step_id=step_id, status=status, at=self._store.clock.now()
            )
        )

    def _tried(self, event: StepBreakSet | StepChanged | PlanStatusChanged) -> Told | None:
        try:
            self._store.dispatch(event)
        except StateError:
            return Told(key="plan.problem.not_now")
        return None
