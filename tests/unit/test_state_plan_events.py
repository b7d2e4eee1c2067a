"""What each event of a plan does to the state, and when it is refused."""

from __future__ import annotations

import pytest

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event, StateError
from duckflow_tui.state.gates import Grant
from duckflow_tui.state.plan import (
    Plan,
    PlanStatus,
    RunMode,
    Step,
    StepReport,
    Task,
    WorkInfo,
    WorkStatus,
)
from duckflow_tui.state.plan_events import (
    PlanActivated,
    PlanAnswered,
    PlanProposed,
    PlanRevised,
    PlanStatusChanged,
    StepBreakSet,
    StepChanged,
    StepTasksSet,
    TaskChanged,
    WorkFinished,
    WorkProgressed,
    WorkStarted,
)
from duckflow_tui.state.turn import Interrupted


def step(name: str, *needs: str, status: WorkStatus = WorkStatus.PENDING) -> Step:
    return Step(step_id=name, name=name, depends_on=needs, status=status)


def plan(*steps: Step) -> Plan:
    return Plan(plan_id="plan_1", name="p", goal="g", steps=steps)


def approved(*steps: Step, **fields: object) -> AgentState:
    """A state whose one plan the user has approved."""
    state = AgentState()
    made = Plan.model_validate({"plan_id": "plan_1", "name": "p", "goal": "g", "steps": steps})
    mark = {"approved": made.fingerprint, "status": PlanStatus.APPROVED, "run": RunMode.ALL}
    state.plans = (made.model_copy(update={**mark, **fields}),)
    state.active_plan_id = "plan_1"
    return state


def begins(step_id: str, at: float = 1.0) -> StepChanged:
    return StepChanged(
        plan_id="plan_1",
        step_id=step_id,
        status=WorkStatus.IN_PROGRESS,
        mode="adaptive",
        at=at,
    )


def is_refused(event: Event, state: AgentState) -> None:
    before = (state.plans, state.active_plan_id, state.work)
    with pytest.raises(StateError):
        event.apply(state)
    assert (state.plans, state.active_plan_id, state.work) == before


def test_a_plan_is_proposed_once_as_a_draft_and_not_beside_work_on_another() -> None:
    state = approved(step("a"))
    new = plan(step("b")).model_copy(update={"plan_id": "plan_2"})
    is_refused(PlanProposed(plan=new.model_copy(update={"plan_id": "plan_1"})), state)
    is_refused(PlanProposed(plan=new.model_copy(update={"status": PlanStatus.APPROVED})), state)
    is_refused(PlanProposed(plan=new.model_copy(update={"steps": ()})), state)
    state.work = WorkInfo(work_id="w", plan_id="plan_1", started_at=0.0)
    is_refused(PlanProposed(plan=new), state)
    state.work = None
    PlanProposed(plan=new).apply(state)
    assert [p.plan_id for p in state.plans] == ["plan_1", "plan_2"]
    assert state.active_plan_id == "plan_2"


def test_a_change_is_one_of_the_newest_version_and_keeps_what_was_done() -> None:
    done = step("a", status=WorkStatus.COMPLETED).model_copy(update={"elapsed_s": 5.0, "runs": 2})
    state = approved(done, step("b", "a"), created_at=7.0, rejection="once")
    was = state.plans[0]
    circle = (done, step("b", "b"))
    for update in ({"version": 1}, {"version": 3}, {"version": 2, "steps": circle}):
        is_refused(PlanRevised(plan=was.model_copy(update=update), by="user"), state)
    new = (step("n"), step("a"), step("b", "n"))
    change = was.model_copy(update={"version": 2, "steps": new, "created_at": 0.0})
    PlanRevised(plan=change, by="user").apply(state)
    (now,) = state.plans
    assert [s.step_id for s in now.steps] == ["n", "a", "b"]
    assert now.steps[1] == done
    assert (now.created_at, now.rejection, now.run) == (7.0, "", RunMode.ALL)
    assert (now.approved, now.status) == (now.fingerprint, PlanStatus.APPROVED)


@pytest.mark.parametrize("running", [WorkStatus.IN_PROGRESS, WorkStatus.COMPLETED])
def test_what_has_begun_stays_in_the_plan(running: WorkStatus) -> None:
    state = approved(step("a", status=running), step("b"), step("c", status=WorkStatus.FAILED))
    left = state.plans[0].model_copy(update={"version": 2})
    without_a = left.model_copy(update={"steps": (step("b"), step("c"))})
    is_refused(PlanRevised(plan=without_a, by="user"), state)
    others = left.model_copy(update={"steps": (step("a"),)})
    PlanRevised(plan=others, by="user").apply(state)
    assert [s.status for s in state.plans[0].steps] == [running]


def test_a_new_step_has_done_nothing_whatever_the_change_says() -> None:
    state = approved(step("a"))
    invented = step("n", "a", status=WorkStatus.COMPLETED).model_copy(
        update={"description": "d", "runs": 3, "break_before": True}
    )
    change = state.plans[0].model_copy(update={"version": 2, "steps": (step("a"), invented)})
    PlanRevised(plan=change, by="user").apply(state)
    added = Step(step_id="n", name="n", description="d", depends_on=("a",))
    assert state.plans[0].steps[1] == added


@pytest.mark.parametrize(
    ("by", "accepted", "status", "after"),
    [
        ("user", False, PlanStatus.FAILED, PlanStatus.IN_PROGRESS),
        ("user", False, PlanStatus.COMPLETED, PlanStatus.IN_PROGRESS),
        ("user", False, PlanStatus.CANCELLED, PlanStatus.CANCELLED),
        ("model", True, PlanStatus.FAILED, PlanStatus.IN_PROGRESS),
        ("model", False, PlanStatus.FAILED, PlanStatus.DRAFT),
        ("model", False, PlanStatus.APPROVED, PlanStatus.DRAFT),
    ],
)
def test_a_changed_plan_goes_on_where_the_user_wants_the_change(
    by: str, accepted: bool, status: PlanStatus, after: PlanStatus
) -> None:
    """Covers C35."""
    state = approved(step("a"), status=status)
    more = state.plans[0].model_copy(update={"version": 2, "steps": (step("a"), step("b"))})
    event = PlanRevised.model_validate({"plan": more, "by": by, "accepted": accepted})
    event.apply(state)
    (now,) = state.plans
    assert now.status is after
    assert now.approved == ("" if after is PlanStatus.DRAFT else now.fingerprint)


def test_after_a_rejected_plan_the_one_before_it_is_in_hand_again() -> None:
    state = AgentState()
    for number in (1, 2, 3):
        made = plan(step("a"), step("b")).model_copy(update={"plan_id": f"plan_{number}"})
        PlanProposed(plan=made).apply(state)
        mark = made.fingerprint
        run = RunMode.ALL if number == 1 else None
        PlanAnswered(plan_id=made.plan_id, fingerprint=mark, run=run).apply(state)
        assert state.active_plan_id == "plan_1"
    changed = state.plans[2].model_copy(update={"version": 2, "name": "other"})
    PlanRevised(plan=changed, by="model").apply(state)
    assert state.active_plan_id == "plan_3"  # it is put before the user once more
    PlanAnswered(plan_id="plan_3", fingerprint=changed.fingerprint, run=None).apply(state)
    assert state.active_plan_id == "plan_1"


def test_an_answer_makes_its_plan_the_active_one() -> None:
    state = AgentState()
    for number in (1, 2):
        made = plan(step("a"), step("b")).model_copy(update={"plan_id": f"plan_{number}"})
        PlanProposed(plan=made).apply(state)
    mark = state.plans[0].fingerprint
    no = PlanAnswered(plan_id="plan_1", fingerprint=mark, run=None, reason="too long")
    no.apply(state)
    first = state.plans[0]
    assert (first.status, first.rejection, first.approved) == (PlanStatus.REJECTED, "too long", "")
    assert state.active_plan_id == "plan_2"
    PlanAnswered(plan_id="plan_1", fingerprint=mark, run=RunMode.STEP).apply(state)
    first, second = state.plans
    assert (first.status, first.rejection) == (PlanStatus.APPROVED, "")
    assert (first.approved, first.run) == (mark, RunMode.STEP)
    assert second.status is PlanStatus.DRAFT
    assert state.active_plan_id == "plan_1"
    assert state.active_plan == first
    is_refused(PlanAnswered(plan_id="plan_9", fingerprint=mark, run=None), state)
    other = PlanAnswered(plan_id="plan_1", fingerprint=second.fingerprint, run=RunMode.ALL)
    is_refused(other, state)
    state.active_plan_id = "plan_9"
    assert state.active_plan is None


def test_a_plan_whose_steps_have_begun_goes_on_when_it_is_approved_again() -> None:
    state = approved(step("a", status=WorkStatus.COMPLETED), step("b"), status=PlanStatus.DRAFT)
    mark = state.plans[0].fingerprint
    PlanAnswered(plan_id="plan_1", fingerprint=mark, run=RunMode.ALL).apply(state)
    assert state.plans[0].status is PlanStatus.IN_PROGRESS


def test_only_an_approved_plan_runs() -> None:
    state = approved(step("a"), approved="what it said before")
    is_refused(PlanStatusChanged(plan_id="plan_1", status=PlanStatus.IN_PROGRESS), state)
    for status in (PlanStatus.APPROVED, PlanStatus.REJECTED, PlanStatus.DRAFT):
        is_refused(PlanStatusChanged(plan_id="plan_1", status=status), state)
    is_refused(begins("a"), state)
    is_refused(begins("a"), approved(step("a"), status=PlanStatus.CANCELLED))
    PlanStatusChanged(plan_id="plan_1", status=PlanStatus.CANCELLED).apply(state)
    assert state.plans[0].status is PlanStatus.CANCELLED


DONE, OPEN = WorkStatus.COMPLETED, WorkStatus.PENDING


@pytest.mark.parametrize(
    ("steps", "fields", "after"),
    [
        ((OPEN, OPEN), {}, PlanStatus.APPROVED),
        ((DONE, OPEN), {}, PlanStatus.IN_PROGRESS),
        ((DONE, DONE), {}, PlanStatus.COMPLETED),
        ((DONE, WorkStatus.FAILED), {}, PlanStatus.FAILED),
        ((DONE, WorkStatus.CANCELLED), {}, PlanStatus.IN_PROGRESS),
        ((OPEN, OPEN), {"approved": ""}, PlanStatus.DRAFT),
        ((OPEN, OPEN), {"approved": "", "rejection": "no"}, PlanStatus.REJECTED),
    ],
)
@pytest.mark.parametrize("status", [PlanStatus.CLOSED, PlanStatus.CANCELLED])
def test_a_plan_that_was_put_away_is_taken_up_as_it_stood(
    steps: tuple[WorkStatus, ...],
    fields: dict[str, str],
    after: PlanStatus,
    status: PlanStatus,
) -> None:
    """Covers S2-26."""
    first, second = steps
    state = approved(step("a", status=first), step("b", "a", status=second), **fields)
    state.plans = (state.plans[0].replace(status=status),)
    PlanActivated(plan_id="plan_1").apply(state)
    assert state.plans[0].status is after
    assert state.active_plan_id == "plan_1"


def test_only_what_is_completed_is_taken_as_done() -> None:
    state = approved(step("a", status=WorkStatus.FAILED))
    taken = StepChanged(plan_id="plan_1", step_id="a", status=DONE, taken=True, at=1.0)
    is_refused(taken.replace(status=WorkStatus.SKIPPED), state)
    taken.apply(state)
    assert state.plans[0].steps[0].taken


def test_a_step_begins_only_alone_and_when_its_turn_has_come() -> None:
    failed = step("f", status=WorkStatus.FAILED)
    state = approved(step("a"), step("b", "a"), failed)
    for step_id in ("b", "f", "nowhere"):
        is_refused(begins(step_id), state)
    other = approved(step("x")).plans[0].model_copy(update={"plan_id": "plan_2"})
    busy = other.with_step(step("x", status=WorkStatus.IN_PROGRESS))
    state.plans = (*state.plans, busy)
    is_refused(begins("a"), state)


def test_a_run_of_a_step_counts_its_time_and_ends_its_grants() -> None:
    state = approved(step("a"), step("b"))
    grants = [Grant(grant_id=s, operation="o", path="p", gate_id="g", step_id=s) for s in "ab"]
    state.grants = tuple(grants)
    begins("a", at=10.0).apply(state)
    now = state.plans[0].steps[0]
    assert (now.status, now.started_at) == (WorkStatus.IN_PROGRESS, 10.0)
    assert (now.mode, now.runs, now.elapsed_s) == ("adaptive", 1, 0.0)
    assert state.grants == tuple(grants)

    def ends(status: WorkStatus, at: float, note: str = "") -> Step:
        event = StepChanged(plan_id="plan_1", step_id="a", status=status, at=at, note=note)
        event.apply(state)
        return state.plans[0].steps[0]

    now = ends(WorkStatus.FAILED, 14.0, "broke")
    assert (now.started_at, now.elapsed_s, now.note) == (None, 4.0, "broke")
    assert (now.mode, now.runs) == ("adaptive", 1)
    assert state.grants == (grants[1],)
    now = ends(WorkStatus.PENDING, 20.0)
    assert (now.elapsed_s, now.note) == (4.0, "")
    begins("a", at=30.0).apply(state)
    now = ends(WorkStatus.COMPLETED, 29.0)  # the clock was set back
    assert (now.elapsed_s, now.runs) == (4.0, 2)
    assert state.plans[0].steps[1] == step("b")


def test_tasks_that_ended_stay_in_front_of_a_new_list() -> None:
    state = approved(step("a"), step("b"))

    def task(number: int, status: WorkStatus = WorkStatus.PENDING) -> Task:
        return Task(task_id=f"t{number}", operation="x", status=status)

    def tasks_of(step_id: str) -> list[str]:
        found = state.plans[0].get_step(step_id)
        assert found is not None
        return [t.task_id for t in found.task_list]

    first = (task(1, WorkStatus.COMPLETED), task(2, WorkStatus.FAILED), task(3))
    StepTasksSet(plan_id="plan_1", step_id="a", tasks=first).apply(state)
    is_refused(StepTasksSet(plan_id="plan_1", step_id="a", tasks=(task(2),)), state)
    StepTasksSet(plan_id="plan_1", step_id="a", tasks=(task(3), task(4))).apply(state)
    assert tasks_of("a") == ["t1", "t2", "t3", "t4"]
    assert tasks_of("b") == []

    def changed(made: Task) -> TaskChanged:
        return TaskChanged(plan_id="plan_1", step_id="a", task=made)

    changed(task(4, WorkStatus.IN_PROGRESS)).apply(state)
    changed(task(5)).apply(state)
    assert tasks_of("a") == ["t1", "t2", "t3", "t4", "t5"]
    assert state.plans[0].steps[0].task_list[3].status is WorkStatus.IN_PROGRESS


def test_a_breakpoint_is_set_and_taken_away_on_one_step() -> None:
    state = approved(step("a"), step("b"))
    for on in (True, False):
        StepBreakSet(plan_id="plan_1", step_id="b", on=on).apply(state)
        assert [s.break_before for s in state.plans[0].steps] == [False, on]


def test_there_is_one_work_at_a_time_and_it_tells_where_it_is() -> None:
    state = AgentState()
    work = WorkInfo(work_id="w1", plan_id="plan_1", limit=10, started_at=1.0)

    def progressed(work_id: str, loop: int) -> WorkProgressed:
        return WorkProgressed(work_id=work_id, step_id="b", mode="tasklist", loop=loop, limit=4)

    is_refused(progressed("w1", 1), state)
    is_refused(WorkFinished(work_id="w1", outcome="completed"), state)
    WorkStarted(work=work).apply(state)
    is_refused(WorkStarted(work=work.model_copy(update={"work_id": "w2"})), state)
    is_refused(progressed("w2", 1), state)
    is_refused(WorkFinished(work_id="w2", outcome="completed"), state)
    report = StepReport(
        report_id="r", plan_id="plan_1", step_id="a", step_name="a", status="completed"
    )
    before = Interrupted(work=work, report=report, plan_card="plan_1")
    state.interrupted = before
    progressed("w1", 0).apply(state)
    assert state.interrupted == before  # until the first decision of the step
    progressed("w1", 2).apply(state)
    assert state.interrupted == Interrupted(plan_card="plan_1")
    assert state.work == work.model_copy(
        update={"step_id": "b", "mode": "tasklist", "loop": 2, "limit": 4}
    )
    WorkFinished(work_id="w1", outcome="failed").apply(state)
    assert state.work is None
