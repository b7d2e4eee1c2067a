"""Events of plans, steps, tasks and running work, and the slice ``PlanState`` that holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from duckflow_tui.state.base import Event, StateError
from duckflow_tui.state.plan import (
    ExecutionMode,
    Halt,
    Plan,
    PlanProblem,
    PlanStatus,
    ReportMessage,
    RunMode,
    Step,
    Task,
    WorkInfo,
    WorkStatus,
    check_steps,
    derive_end_status,
    list_blockers,
)

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState


@dataclass(eq=False)
class PlanState:
    """The plans of the session."""

    plans: tuple[Plan, ...] = ()
    active_plan_id: str | None = None
    plan_before_id: str | None = None  # in hand when the newest was proposed

    @property
    def active_plan(self) -> Plan | None:
        """The plan being worked on."""
        return next((p for p in self.plans if p.plan_id == self.active_plan_id), None)

    def get_plan(self, plan_id: str) -> Plan:
        """The plan of that id; raises StateError when there is none."""
        for plan in self.plans:
            if plan.plan_id == plan_id:
                return plan
        raise StateError(f"there is no plan {plan_id}")

    @property
    def listed_plans(self) -> tuple[Plan, ...]:
        """All plans except deleted ones, which are kept for the messages about their steps."""
        return tuple(p for p in self.plans if p.status is not PlanStatus.DELETED)


class PlanProposed(Event, kind="plan_proposed"):
    """A plan was made. It becomes the active plan, as a draft until the user answers."""

    plan: Plan

    def apply(self, state: AgentState) -> None:
        if any(p.plan_id == self.plan.plan_id for p in state.plans):
            raise StateError(f"plan {self.plan.plan_id} is there already")
        if self.plan.status is not PlanStatus.DRAFT:
            raise StateError("a new plan is a draft")
        if state.work is not None:
            raise StateError(f"plan {state.work.plan_id} is being worked on")
        _check_plan(self.plan)
        state.plans = (*state.plans, self.plan)
        state.plan_before_id = state.active_plan_id
        state.active_plan_id = self.plan.plan_id
        state.session = state.session.replace(goal=self.plan.name or self.plan.goal)


class PlanRevised(Event, kind="plan_revised"):
    """A plan was changed. A change by the user keeps its approval; one by the model removes it,
    unless the user accepted exactly this change (``accepted``).
    """

    plan: Plan  # as it is now; what its steps have done is taken from the state
    by: Literal["user", "model"]
    accepted: bool = False

    def apply(self, state: AgentState) -> None:
        old = state.get_plan(self.plan.plan_id)
        if self.plan.version != old.version + 1:
            raise StateError(f"plan {old.plan_id} is at version {old.version}")
        _check_plan(self.plan)
        begun = (WorkStatus.IN_PROGRESS, WorkStatus.COMPLETED)
        kept = {step.step_id for step in self.plan.steps}
        gone = [s for s in old.steps if s.status in begun and s.step_id not in kept]
        if gone:
            raise StateError(f"step {gone[0].step_id} has begun and cannot be dropped")
        steps = tuple(_with_progress(step, old.get_step(step.step_id)) for step in self.plan.steps)
        new = self.plan.replace(steps=steps)
        approved, status = "", PlanStatus.DRAFT
        if old.approved and (self.by == "user" or self.accepted):
            approved, status = new.fingerprint, old.status
        if approved and status in (PlanStatus.COMPLETED, PlanStatus.FAILED):
            status = PlanStatus.IN_PROGRESS
        if old.status is PlanStatus.REJECTED:
            state.active_plan_id = old.plan_id
        halted = "" if self.accepted and old.halted == "wish" else old.halted
        kept = {
            "run": old.run,
            "rejection": "",
            "created_at": old.created_at,
            "halted": halted,
        }
        _replace_plan(state, new.replace(status=status, approved=approved, **kept))


class PlanAnswered(Event, kind="plan_answered"):
    """The user approved or rejected a plan exactly as shown. After a rejection the plan before it
    becomes active again, if there is one.
    """

    plan_id: str
    fingerprint: str
    run: RunMode | None  # None: rejected
    reason: str = ""

    def apply(self, state: AgentState) -> None:
        plan = state.get_plan(self.plan_id)
        if plan.fingerprint != self.fingerprint:
            raise StateError("the answer is for something other than what the plan says now")
        update: dict[str, object] = {"rejection": self.reason, "approved": "", "run": None}
        if self.run is None:
            update["status"] = PlanStatus.REJECTED
            ended = (PlanStatus.REJECTED, PlanStatus.CLOSED, PlanStatus.DELETED)
            before = [p for p in state.plans if p.plan_id == state.plan_before_id]
            if before and before[0].status not in ended and plan.plan_id == state.active_plan_id:
                state.active_plan_id = state.plan_before_id
        else:
            begun = any(s.status is not WorkStatus.PENDING for s in plan.steps)
            update = {
                "status": PlanStatus.IN_PROGRESS if begun else PlanStatus.APPROVED,
                "approved": self.fingerprint,
                "run": self.run,
                "rejection": "",
                "halted": "",
            }
            state.active_plan_id = plan.plan_id
        _replace_plan(state, plan.replace(**update))


class PlanStatusChanged(Event, kind="plan_status"):
    """The status of the whole plan changed."""

    plan_id: str
    status: PlanStatus

    def apply(self, state: AgentState) -> None:
        plan = state.get_plan(self.plan_id)
        if self.status in (PlanStatus.APPROVED, PlanStatus.REJECTED, PlanStatus.DRAFT):
            raise StateError(f"only the user makes a plan {self.status.value}")
        if self.status is PlanStatus.IN_PROGRESS and plan.approved != plan.fingerprint:
            raise StateError("the plan as it is now was not approved")
        _replace_plan(state, plan.replace(status=self.status))


class PlanHalted(Event, kind="plan_halted"):
    """The plan was halted: no step starts until the user asks for it. An empty ``halted`` lifts
    that, and stopped steps may start again.
    """

    plan_id: str
    halted: Halt

    def apply(self, state: AgentState) -> None:
        plan = state.get_plan(self.plan_id)
        if self.halted:
            _replace_plan(state, plan.replace(halted=self.halted))
            return
        if not plan.may_go_on:
            raise StateError(f"plan {plan.plan_id} is {plan.status.value}")
        stopped, pending = WorkStatus.CANCELLED, WorkStatus.PENDING
        steps = tuple(
            s.replace(status=pending, note="") if s.status is stopped else s for s in plan.steps
        )
        status = plan.status if plan.status.may_run else PlanStatus.IN_PROGRESS
        _replace_plan(state, plan.replace(steps=steps, status=status, halted=""))


class PlanClosed(Event, kind="plan_closed"):
    """The user closed a plan; its results and reports stay. ``deleted``: it is no longer listed."""

    plan_id: str
    deleted: bool = False

    def apply(self, state: AgentState) -> None:
        plan = state.get_plan(self.plan_id)
        _check_idle(state, plan)
        if any(card.plan_id == plan.plan_id for card in state.cards):
            raise StateError(f"a card about plan {plan.plan_id} waits for the user")
        closed = PlanStatus.DELETED if self.deleted else PlanStatus.CLOSED
        if plan.status in (closed, PlanStatus.DELETED):
            raise StateError(f"plan {plan.plan_id} is {plan.status.value}")
        _replace_plan(state, plan.replace(status=closed))
        if state.active_plan_id == plan.plan_id:
            state.active_plan_id = None


class PlanActivated(Event, kind="plan_activated"):
    """The user made this plan the active one; a closed or cancelled one is reopened with its
    progress.
    """

    plan_id: str

    def apply(self, state: AgentState) -> None:
        plan = state.get_plan(self.plan_id)
        if plan.status is PlanStatus.DELETED:
            raise StateError(f"plan {plan.plan_id} is deleted")
        for other in state.plans:
            _check_idle(state, other)
        if plan.status in (PlanStatus.CLOSED, PlanStatus.CANCELLED):
            plan = plan.replace(status=_reopened_status(plan))
            _replace_plan(state, plan)
        state.active_plan_id = plan.plan_id


def _reopened_status(plan: Plan) -> PlanStatus:
    """The status of a plan that is reopened."""
    if plan.approved != plan.fingerprint:
        return PlanStatus.REJECTED if plan.rejection else PlanStatus.DRAFT
    if all(s.status is WorkStatus.PENDING for s in plan.steps):
        return PlanStatus.APPROVED
    return derive_end_status(plan) or PlanStatus.IN_PROGRESS


def _check_idle(state: AgentState, plan: Plan) -> None:
    """Raise StateError while the plan is being worked on."""
    working = state.work is not None and state.work.plan_id == plan.plan_id
    if working or any(s.status is WorkStatus.IN_PROGRESS for s in plan.steps):
        raise StateError(f"plan {plan.plan_id} is being worked on")


class StepChanged(Event, kind="step_status"):
    """The status of a step changed. A step starts only when the plan is approved as it is, all its
    dependencies are done, and no other step runs.
    """

    plan_id: str
    step_id: str
    status: WorkStatus
    note: str = ""
    mode: ExecutionMode | None = None
    taken: bool = False  # completed, because the user says so
    at: float

    def apply(self, state: AgentState) -> None:
        plan, step = _get_step(state, self.plan_id, self.step_id)
        if self.taken and self.status is not WorkStatus.COMPLETED:
            raise StateError("only a completed step is one that the user took as done")
        update: dict[str, object] = {"status": self.status, "note": self.note, "taken": self.taken}
        if self.status is WorkStatus.IN_PROGRESS:
            self._may_begin(state, plan, step)
            update |= {"started_at": self.at, "mode": self.mode, "runs": step.runs + 1}
            plan = plan.replace(review_failed=False)  # it was of the work before
        elif step.started_at is not None:
            update["elapsed_s"] = step.elapsed_s + max(self.at - step.started_at, 0.0)
            update["started_at"] = None
        plan = plan.with_step(step.replace(**update))
        if self.taken and plan.halted == "wish":  # which was that the step is done
            plan = plan.replace(halted="")
        _replace_plan(state, plan)
        if self.status is not WorkStatus.IN_PROGRESS:
            state.grants = tuple(g for g in state.grants if g.step_id != self.step_id)

    def _may_begin(self, state: AgentState, plan: Plan, step: Step) -> None:
        """Raise StateError unless the approved plan may begin this step now."""
        if not plan.status.may_run or plan.approved != plan.fingerprint:
            raise StateError("the plan as it is now was not approved")
        if step.status is not WorkStatus.PENDING:
            raise StateError(f"step {step.step_id} is {step.status.value}")
        if waiting := list_blockers(plan, step):
            raise StateError(f"step {step.step_id} waits for {waiting[0].step_id}")
        for other in state.plans:
            busy = [s for s in other.steps if s.status is WorkStatus.IN_PROGRESS]
            if busy:
                raise StateError(f"step {busy[0].step_id} runs")


class StepTasksSet(Event, kind="step_tasks"):
    """A step got a new list of tasks; finished tasks stay in front of it."""

    plan_id: str
    step_id: str
    tasks: tuple[Task, ...]

    def apply(self, state: AgentState) -> None:
        plan, step = _get_step(state, self.plan_id, self.step_id)
        ended = tuple(t for t in step.task_list if not t.status.is_open)
        ids = {t.task_id for t in ended}
        if any(t.task_id in ids for t in self.tasks):
            raise StateError("a task of this id has ended already")
        tasks = (*ended, *self.tasks)
        _replace_plan(state, plan.with_step(step.replace(task_list=tasks)))


class TaskChanged(Event, kind="task"):
    """The status of a task changed, or a task was added at the end of its step's list."""

    plan_id: str
    step_id: str
    task: Task

    def apply(self, state: AgentState) -> None:
        plan, step = _get_step(state, self.plan_id, self.step_id)
        tasks = {t.task_id: t for t in step.task_list} | {self.task.task_id: self.task}
        _replace_plan(state, plan.with_step(step.replace(task_list=tuple(tasks.values()))))


class StepBreakSet(Event, kind="step_break"):
    """The user set or removed a breakpoint before a step."""

    plan_id: str
    step_id: str
    on: bool

    def apply(self, state: AgentState) -> None:
        plan, step = _get_step(state, self.plan_id, self.step_id)
        _replace_plan(state, plan.with_step(step.replace(break_before=self.on)))


class ReportAdded(Event, kind="report"):
    """The report on a step that ended was added."""

    message: ReportMessage

    def apply(self, state: AgentState) -> None:
        state.messages.append(self.message)


class WorkStarted(Event, kind="work_started"):
    """Work on a plan started; only one runs at a time."""

    work: WorkInfo

    def apply(self, state: AgentState) -> None:
        if state.work is not None:
            raise StateError(f"work {state.work.work_id} goes on")
        state.work = self.work


class WorkProgressed(Event, kind="work_progressed"):
    """The work moved to another step, decision or task."""

    work_id: str
    step_id: str = ""
    mode: ExecutionMode
    loop: int = Field(ge=0)
    limit: int = Field(ge=1)

    def apply(self, state: AgentState) -> None:
        if state.work is None or state.work.work_id != self.work_id:
            raise StateError(f"work {self.work_id} does not go on")
        state.work = state.work.replace(
            step_id=self.step_id, mode=self.mode, loop=self.loop, limit=self.limit
        )
        if self.loop and state.interrupted is not None:
            state.interrupted = state.interrupted.replace(work=None, report=None)


class WorkFinished(Event, kind="work_finished"):
    """The work ended, with any outcome."""

    work_id: str
    outcome: Literal["completed", "failed", "stopped", "waiting"]

    def apply(self, state: AgentState) -> None:
        if state.work is None or state.work.work_id != self.work_id:
            raise StateError(f"work {self.work_id} does not go on")
        state.work = state.step_pace = None


def compute_wait_s(since: float | None, begun: float, now: float) -> float:
    """Return how many seconds of something that started at ``begun`` the open question has waited,
    from ``since`` to ``now``; 0 without an open question.
    """
    return 0.0 if since is None else max(now - max(since, begun), 0.0)


def count_wait(state: AgentState, at: float, *, ends: bool = False) -> None:
    """Add the time spent waiting for the user to the turn, step and tasks in progress. Called when
    a gate or card opens or closes and when a pause starts or ends, ``at`` seconds since the
    epoch. ``ends``: nothing waits any longer.
    """
    since, turn = state.waits_since, state.turn
    is_paused = turn is not None and turn.pause == "paused"
    if (state.is_work_waiting or is_paused) and not ends:
        state.waits_since = at if since is None else since
        return
    state.waits_since = None
    if since is None:
        return

    def add_wait(waited_s: float, started_at: float | None) -> float:
        return waited_s + compute_wait_s(since, started_at or 0.0, at)

    def add_task_wait(old: Task) -> Task:
        runs = old.status is WorkStatus.IN_PROGRESS
        return old.replace(waited_s=add_wait(old.waited_s, old.started_at)) if runs else old

    work = state.work
    if turn is not None:
        state.turn = turn.replace(waited_s=add_wait(turn.waited_s, turn.started_at))
    if work is not None:
        state.work = work.replace(waited_s=add_wait(work.waited_s, work.started_at))
    for plan in state.plans:
        for step in plan.steps:
            if step.status is WorkStatus.IN_PROGRESS:
                waited = add_wait(step.waited_s, step.started_at)
                tasks = tuple(add_task_wait(t) for t in step.task_list)
                now = plan.with_step(step.replace(waited_s=waited, task_list=tasks))
                state.plans = tuple(now if p is plan else p for p in state.plans)


def _get_step(state: AgentState, plan_id: str, step_id: str) -> tuple[Plan, Step]:
    """A plan and one of its steps. Raises StateError."""
    plan = state.get_plan(plan_id)
    found = plan.get_step(step_id)
    if found is None:
        raise StateError(f"plan {plan_id} has no step {step_id}")
    return plan, found


def _check_plan(plan: Plan) -> None:
    """Raise StateError for steps that make no valid plan (see ``check_steps``)."""
    try:
        check_steps(plan.steps)
    except PlanProblem as problem:
        raise StateError(str(problem)) from problem


def _replace_plan(state: AgentState, plan: Plan) -> None:
    """Put the plan in the place of the one with its id."""
    state.plans = tuple(plan if p.plan_id == plan.plan_id else p for p in state.plans)


def _with_progress(new: Step, old: Step | None) -> Step:
    """Return the revised step with the progress of the old one, which a revision cannot change."""
    if old is None:
        return Step(
            step_id=new.step_id,
            name=new.name,
            description=new.description,
            depends_on=new.depends_on,
        )
    changed = old.replace(name=new.name, description=new.description, depends_on=new.depends_on)
    if changed == old:
        return old
    # What was listed for the old meaning says nothing about the new one.
    ended = tuple(t for t in old.task_list if not t.status.is_open)
    return changed.replace(task_list=ended)
