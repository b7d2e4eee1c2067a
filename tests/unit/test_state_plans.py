"""Plans as values: order, changes, differences; and that no order of events breaks them."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule
from support.model_words import WORDS

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Event, LocalizedText, StateError
from duckflow_tui.state.plan import (
    MAX_STEPS,
    Plan,
    PlanEdit,
    PlanProblem,
    PlanStatus,
    RunMode,
    Step,
    StepReport,
    Task,
    WorkInfo,
    WorkStatus,
    apply_edits,
    check_steps,
    compare_plans,
    derive_end_status,
    find_step,
    list_blockers,
    list_ready_steps,
)
from duckflow_tui.state.plan_events import (
    PlanAnswered,
    PlanProposed,
    PlanRevised,
    PlanStatusChanged,
    StepChanged,
    StepTasksSet,
    TaskChanged,
    WorkFinished,
    WorkStarted,
)


def step(name: str, *needs: str, status: WorkStatus = WorkStatus.PENDING) -> Step:
    return Step(step_id=name, name=name, depends_on=needs, status=status)


def plan(*steps: Step) -> Plan:
    return Plan(plan_id="plan_1", name="p", goal="g", steps=steps)


@pytest.mark.parametrize(
    ("steps", "code", "params"),
    [
        ((), "no_steps", {}),
        ((step("a"), step("a")), "same_id", {}),
        ((Step(step_id="a", name=" "),), "no_name", {}),
        ((step("a", "z"),), "no_such_need", {"step": "a", "need": "z"}),
        (
            (step("a", "b"), step("b", "c"), step("c", "a")),
            "circle",
            {"steps": "a → b → c → a"},
        ),
        (
            tuple(step(f"s{n}") for n in range(301)),
            "many_steps",
            {"count": "301", "most": "300"},
        ),
    ],
)
def test_why_a_plan_cannot_be_is_told_to_the_user_and_the_model(
    steps: tuple[Step, ...], code: str, params: dict[str, str]
) -> None:
    """Covers S2-16."""
    with pytest.raises(PlanProblem) as caught:
        check_steps(steps)
    assert caught.value.for_user == LocalizedText(key=f"plan.problem.{code}", params=params)
    assert WORDS(caught.value.told)


@pytest.mark.parametrize(
    ("summary", "text", "repeats"),
    [
        ("It is there.", "Done.\nIt is\nthere.", True),
        ("It is\nthere.", "It is there.", True),
        ("It is there.", "It is gone.", False),
        ("", "It is there.", False),
    ],
)
def test_a_report_repeats_what_was_said_already(summary: str, text: str, repeats: bool) -> None:
    report = StepReport(
        report_id="r",
        plan_id="p",
        step_id="s",
        step_name="s",
        status="completed",
        summary=summary,
    )
    assert report.is_repeated_in(text) is repeats


def test_a_long_chain_and_a_wide_fan_are_no_circle() -> None:
    chain = [step("s0"), *(step(f"s{n}", f"s{n - 1}") for n in range(1, MAX_STEPS))]
    check_steps(chain)
    fan = [step("a"), *(step(f"b{n}", "a") for n in range(50)), step("c", "b0", "b49")]
    check_steps(fan)


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30))
def test_a_circle_is_found_exactly_when_there_is_one(pairs: list[tuple[int, int]]) -> None:
    """Against taking steps away whose needs are gone until none is left. Covers S2-16."""
    needs: dict[int, set[int]] = {n: set() for n in range(12)}
    for a, b in pairs:
        needs[a].add(b)
    left = dict(needs)
    while free := [n for n, on in left.items() if not on & left.keys()]:
        for n in free:
            del left[n]
    steps = [step(str(n), *map(str, sorted(on))) for n, on in needs.items()]
    if left:
        with pytest.raises(PlanProblem, match="circle"):
            check_steps(steps)
    else:
        check_steps(steps)


def test_steps_become_ready_as_what_they_need_is_done_or_waived() -> None:
    """Covers S2-16."""
    made = plan(
        step("a", status=WorkStatus.COMPLETED),
        step("b", status=WorkStatus.SKIPPED),
        step("c", "a", "b"),
        step("d", "c"),
        step("e", status=WorkStatus.FAILED),
        step("f", "e"),
    )
    assert [s.step_id for s in list_ready_steps(made)] == ["c"]
    assert [s.step_id for s in list_blockers(made, made.steps[3])] == ["c"]
    assert derive_end_status(made) is None
    assert derive_end_status(plan(step("a", status=WorkStatus.FAILED), step("b", "a"))) is (
        PlanStatus.FAILED
    )
    assert derive_end_status(plan(step("a", status=WorkStatus.SKIPPED))) is PlanStatus.COMPLETED


@pytest.mark.parametrize("given", ["step_b", "2", "step 2", "#2", "Bake"])
def test_a_step_is_found_by_id_number_or_name(given: str) -> None:
    made = plan(Step(step_id="step_a", name="Mix"), Step(step_id="step_b", name="bake"), step("x"))
    found = find_step(made, given)
    assert found is not None
    assert found.step_id == "step_b"


def test_a_name_that_two_steps_have_means_neither() -> None:
    made = plan(Step(step_id="step_a", name="bake"), Step(step_id="step_b", name="Bake"))
    assert find_step(made, "bake") is None


@pytest.mark.parametrize("said", [{"name": "b2"}, {"description": "x"}, {"depends_on": ()}])
def test_a_step_that_says_something_else_keeps_only_the_tasks_that_ended(
    said: dict[str, object],
) -> None:
    """What was listed for the old meaning says nothing about the new one."""
    state = AgentState()
    PlanProposed(plan=plan(step("a"), step("b", "a"))).apply(state)
    ended = Task(task_id="t1", operation="x", status=WorkStatus.FAILED)
    left = Task(task_id="t2", operation="x")
    for at in ("a", "b"):
        tasks = tuple(t.model_copy(update={"task_id": f"{at}{t.task_id}"}) for t in (ended, left))
        StepTasksSet(plan_id="plan_1", step_id=at, tasks=tasks).apply(state)
    edit = PlanEdit.model_validate({"op": "change", "step_id": "b", **said})
    PlanRevised(plan=apply_edits(state.plans[0], (edit,)), by="user").apply(state)
    same, changed = state.plans[0].steps
    assert [t.task_id for t in same.task_list] == ["at1", "at2"]
    assert [t.task_id for t in changed.task_list] == ["bt1"]


def test_edits_keep_order_and_say_what_cannot_be() -> None:
    """Covers C35."""
    made = plan(step("a", status=WorkStatus.COMPLETED), step("b", "a"), step("c", "b"))
    new = apply_edits(
        made,
        (
            PlanEdit(op="add", step_id="n", after="a", name="new", depends_on=("a",)),
            PlanEdit(op="change", step_id="b", depends_on=("n",)),
            PlanEdit(op="move", step_id="c", after=""),
        ),
    )
    assert [s.step_id for s in new.steps] == ["c", "a", "n", "b"]
    assert new.version == made.version + 1
    for edit, code, params in (
        (PlanEdit(op="drop", step_id="b"), "is_needed", {"step": "b", "by": "c"}),
        (PlanEdit(op="drop", step_id="a"), "has_begun", {"step": "a"}),
        (PlanEdit(op="change", step_id="a", name="x"), "has_begun", {"step": "a"}),
        (PlanEdit(op="change", step_id="b", depends_on=("c",)), "circle", {"steps": "b → c → b"}),
        (PlanEdit(op="drop", step_id="z"), "no_step", {"step": "z"}),
    ):
        with pytest.raises(PlanProblem) as caught:
            apply_edits(made, (edit,))
        assert caught.value.for_user == LocalizedText(key=f"plan.problem.{code}", params=params)


def test_the_difference_names_each_change_once() -> None:
    old = plan(step("a"), step("b"), step("c"), step("d"))
    new = plan(step("d"), step("a"), Step(step_id="b", name="other"), step("n"))
    lines = [(line.kind, line.number, line.step.step_id) for line in compare_plans(old, new)]
    assert lines == [  # with the number that it has now, and one that is dropped had
        ("move", 1, "d"), ("same", 2, "a"), ("change", 3, "b"), ("drop", 3, "c"), ("add", 4, "n")
    ]  # fmt: skip
    assert {line.kind for line in compare_plans(old, old)} == {"same"}


class PlanEvents(RuleBasedStateMachine):
    """Any order of events: what the state refuses is refused, what it takes keeps the promises.

    Covers S2-16, C26, C35.
    """

    steps = Bundle("steps")

    def __init__(self) -> None:
        super().__init__()
        self.state = AgentState()
        self.numbers = count(1)
        self.seen: set[str] = set()

    def send(self, event: Event) -> bool:
        before = [(p.fingerprint, p.status, p.steps) for p in self.state.plans]
        try:
            event.apply(self.state)
        except StateError:
            assert before == [(p.fingerprint, p.status, p.steps) for p in self.state.plans]
            return False
        return True

    @property
    def plan(self) -> Plan | None:
        return self.state.active_plan

    @rule(shape=st.lists(st.sets(st.integers(0, 4)), min_size=1, max_size=5))
    def propose(self, shape: list[set[int]]) -> None:
        number = next(self.numbers)
        ids = [f"s{number}_{n}" for n in range(len(shape))]
        made = tuple(
            Step(
                step_id=ids[n],
                name=ids[n],
                depends_on=tuple(ids[m] for m in sorted(needs) if m < n),
            )
            for n, needs in enumerate(shape)
        )
        self.send(PlanProposed(plan=Plan(plan_id=f"p{number}", name="p", goal="g", steps=made)))

    @precondition(lambda self: self.plan is not None)
    @rule(run=st.sampled_from([RunMode.ALL, RunMode.STEP, None]), stale=st.booleans())
    def answer(self, run: RunMode | None, stale: bool) -> None:
        plan = self.plan
        assert plan is not None
        mark = "0" * 64 if stale else plan.fingerprint
        taken = self.send(PlanAnswered(plan_id=plan.plan_id, fingerprint=mark, run=run))
        assert taken is not stale

    @precondition(lambda self: self.plan is not None)
    @rule(at=st.integers(0, 4), status=st.sampled_from(list(WorkStatus)))
    def move_step(self, at: int, status: WorkStatus) -> None:
        plan = self.plan
        assert plan is not None
        chosen = plan.steps[at % len(plan.steps)]
        may = (
            plan.approved == plan.fingerprint
            and plan.status.may_run
            and chosen.status is WorkStatus.PENDING
            and not list_blockers(plan, chosen)
            and all(
                s.status is not WorkStatus.IN_PROGRESS for p in self.state.plans for s in p.steps
            )
        )
        taken = self.send(
            StepChanged(plan_id=plan.plan_id, step_id=chosen.step_id, status=status, at=1.0)
        )
        if status is WorkStatus.IN_PROGRESS:
            assert taken == may

    @precondition(lambda self: self.plan is not None)
    @rule(
        at=st.integers(0, 4),
        op=st.sampled_from(["add", "change", "drop", "move"]),
        by=st.sampled_from(["user", "model"]),
        accepted=st.booleans(),
    )
    def revise(self, at: int, op: str, by: str, accepted: bool) -> None:
        plan = self.plan
        assert plan is not None
        chosen = plan.steps[at % len(plan.steps)].step_id
        edit = PlanEdit.model_validate(
            {"op": op, "step_id": chosen, "name": f"n{next(self.numbers)}"}
        )
        if op == "add":
            edit = edit.model_copy(update={"step_id": f"new{next(self.numbers)}"})
        try:
            new = apply_edits(plan, (edit,))
        except PlanProblem:
            return
        was_approved = bool(plan.approved)
        event = PlanRevised.model_validate({"plan": new, "by": by, "accepted": accepted})
        if self.send(event):
            now = self.plan
            assert now is not None
            keeps = was_approved and (by == "user" or accepted)
            assert bool(now.approved) == keeps

    @precondition(lambda self: self.plan is not None)
    @rule(status=st.sampled_from(list(PlanStatus)))
    def set_status(self, status: PlanStatus) -> None:
        plan = self.plan
        assert plan is not None
        self.send(PlanStatusChanged(plan_id=plan.plan_id, status=status))

    @rule()
    def start_work(self) -> None:
        busy = self.state.work is not None
        info = WorkInfo(work_id=f"w{next(self.numbers)}", plan_id="p", started_at=0.0)
        assert self.send(WorkStarted(work=info)) is not busy

    @precondition(lambda self: self.state.work is not None)
    @rule()
    def end_work(self) -> None:
        assert self.state.work is not None
        self.send(WorkFinished(work_id=self.state.work.work_id, outcome="completed"))

    @precondition(lambda self: self.plan is not None)
    @rule(at=st.integers(0, 4), status=st.sampled_from(list(WorkStatus)))
    def task(self, at: int, status: WorkStatus) -> None:
        plan = self.plan
        assert plan is not None
        chosen = plan.steps[at % len(plan.steps)]
        made = Task(task_id=f"t{next(self.numbers)}", operation="x", status=status)
        assert self.send(TaskChanged(plan_id=plan.plan_id, step_id=chosen.step_id, task=made))

    @invariant()
    def one_writer(self) -> None:
        running = [s for p in self.state.plans for s in p.steps if s.started_at is not None]
        assert len(running) <= 1

    @invariant()
    def every_plan_is_one(self) -> None:
        for plan in self.state.plans:
            check_steps(plan.steps)


TestPlanEvents = PlanEvents.TestCase
