"""What holds for every plan: order, what may start, what a change would make of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from duckflow_tui.state.base import Told
from duckflow_tui.state.work import Plan, PlanEdit, PlanStatus, Step, WorkStatus

SOFT_STEPS: Final = 7  # more than this gets a word (C24)
MAX_STEPS: Final = 300  # steps of a plan; what the screen is measured for
_DIGITS: Final = 9  # of a number that may mean a step


class PlanProblem(ValueError):
    """Why a plan or a change of it cannot be; ``str()`` is a sentence for the model, ``told`` the
    same for the user.
    """

    def __init__(self, text: str, code: str = "cannot_be", **params: str) -> None:
        super().__init__(text)
        self.told = Told(key=f"plan.problem.{code}", params=params)


def check_steps(steps: Sequence[Step]) -> None:
    """Raise PlanProblem for an empty plan, two steps of one id, an unknown or circular need."""
    if not steps:
        raise PlanProblem("The plan has no step; it needs at least one.", "no_steps")
    if len(steps) > MAX_STEPS:
        raise PlanProblem(
            f"The plan has {len(steps)} steps; at most {MAX_STEPS} are possible.",
            "many_steps",
            count=str(len(steps)),
            most=str(MAX_STEPS),
        )
    ids = [step.step_id for step in steps]
    known = set(ids)
    if len(known) < len(ids):
        twice = next(i for i in ids if ids.count(i) > 1)
        raise PlanProblem(f"Two steps have the id {twice}.")
    for step in steps:
        if not step.name.strip():
            raise PlanProblem(f"Step {step.step_id} has no name.", "no_name")
        for need in step.depends_on:
            if need not in known:
                raise PlanProblem(
                    f"Step {step.name!r} depends on {need!r}, which is no step.",
                    "no_such_need",
                    step=step.name,
                    need=need,
                )
    if circle := _circle(steps):
        names = {step.step_id: step.name for step in steps}
        raise PlanProblem(
            "Steps depend on each other in a circle: "
            + " → ".join(repr(names[i]) for i in circle)
            + ".",
            "circle",
            steps=" → ".join(names[i] for i in circle),
        )


def _circle(steps: Sequence[Step]) -> list[str]:
    """The ids of one circle, its first at the end again; empty when there is none."""
    needs = {step.step_id: step.depends_on for step in steps}
    done: set[str] = set()
    for start in needs:
        path: list[str] = []
        inside: set[str] = set()
        stack: list[tuple[str, int]] = [(start, 0)]
        while stack:
            at, child = stack.pop()
            if child == 0:
                if at in inside:
                    return [*path[path.index(at) :], at]
                if at in done:
                    continue
                path.append(at)
                inside.add(at)
            if child < len(needs[at]):
                stack.append((at, child + 1))
                stack.append((needs[at][child], 0))
            else:
                done.add(at)
                inside.discard(at)
                path.pop()
    return []


def waits_for(plan: Plan, step: Step) -> tuple[Step, ...]:
    """The steps that must be done before this one may begin, in the plan's order."""
    needs = set(step.depends_on)
    return tuple(s for s in plan.steps if s.step_id in needs and not s.status.lets_others_start)


def ready_steps(plan: Plan) -> tuple[Step, ...]:
    """Steps that may begin now, in the plan's order."""
    done = {s.step_id for s in plan.steps if s.status.lets_others_start}
    return tuple(
        s for s in plan.steps if s.status is WorkStatus.PENDING and done.issuperset(s.depends_on)
    )


def ended_status(plan: Plan) -> PlanStatus | None:
    """What the plan is once nothing of it can go on; None while something can.

    Every step done or waived by the user: completed. Else, with no step running or able to
    start: failed.
    """
    if all(s.status.lets_others_start for s in plan.steps):
        return PlanStatus.COMPLETED
    if any(s.status is WorkStatus.IN_PROGRESS for s in plan.steps) or ready_steps(plan):
        return None
    return PlanStatus.FAILED


def find_step(plan: Plan, given: str) -> Step | None:
    """The step that someone means by an id, a number counted from 1, or a name."""
    wanted = given.strip()
    by_id = plan.step(wanted)
    if by_id is not None:
        return by_id
    number = wanted.lower().removeprefix("step").strip(" _#.")
    short = len(number) <= _DIGITS and number.isascii() and number.isdigit()
    if short and 1 <= int(number) <= len(plan.steps):
        return plan.steps[int(number) - 1]
    same = [s for s in plan.steps if s.name.casefold() == wanted.casefold()]
    return same[0] if len(same) == 1 else None


def edited(plan: Plan, edits: Iterable[PlanEdit]) -> Plan:
    """The plan after the edits, one version on. Raises PlanProblem when one cannot be made.

    Every ``add`` must carry the id of its new step. What has begun or ended can be neither
    dropped nor changed; it may be moved, which changes only how the plan reads.
    """
    steps = list(plan.steps)
    for edit in edits:
        if edit.op == "add":
            _add(steps, edit)
            continue
        at = _index(steps, edit.step_id)
        old = steps[at]
        if edit.op == "move":
            del steps[at]
            steps.insert(_place(steps, edit.after), old)
            continue
        if old.status not in (WorkStatus.PENDING, WorkStatus.FAILED, WorkStatus.BLOCKED):
            raise PlanProblem(
                f"Step {old.name!r} is {old.status.value}; only what has not begun can be "
                f"{'dropped' if edit.op == 'drop' else 'changed'}.",
                "has_begun",
                step=old.name,
            )
        if edit.op == "drop":
            users = [s.name for s in steps if old.step_id in s.depends_on]
            del steps[at]
            if users:
                raise PlanProblem(
                    f"Step {old.name!r} cannot be dropped: {', '.join(map(repr, users))} "
                    "depends on it. Change what depends on it first.",
                    "is_needed",
                    step=old.name,
                    by=", ".join(users),
                )
        else:
            steps[at] = _changed(old, edit)
    check_steps(steps)
    return plan.model_copy(update={"steps": tuple(steps), "version": plan.version + 1})


def _add(steps: list[Step], edit: PlanEdit) -> None:
    steps.insert(
        _place(steps, edit.after),
        Step(
            step_id=edit.step_id,
            name=edit.name or "",
            description=edit.description or "",
            depends_on=edit.depends_on or (),
        ),
    )


def _changed(old: Step, edit: PlanEdit) -> Step:
    said = {
        "name": edit.name,
        "description": edit.description,
        "depends_on": edit.depends_on,
    }
    return old.model_copy(update={key: value for key, value in said.items() if value is not None})


def _index(steps: Sequence[Step], step_id: str) -> int:
    for at, step in enumerate(steps):
        if step.step_id == step_id:
            return at
    raise PlanProblem(f"There is no step {step_id!r}.", "no_step")


def _place(steps: Sequence[Step], after: str | None) -> int:
    if after is None:
        return len(steps)
    return _index(steps, after) + 1 if after else 0


@dataclass(frozen=True, slots=True)
class StepDifference:
    """One line of the difference of two plans."""

    kind: str  # same, add, drop, change, move
    step: Step  # as it will be; as it was, for a drop
    number: int  # its place, counted from 1, in the plan that has it
    before: Step | None = None  # as it was, for a change


def difference(old: Plan, new: Plan) -> tuple[StepDifference, ...]:
    """What a change does to each step, in the new order, dropped steps where they stood."""
    was = {step.step_id: step for step in old.steps}
    stays = [s.step_id for s in old.steps if new.step(s.step_id) is not None]
    now = [s.step_id for s in new.steps if s.step_id in was]
    moved = _moved(stays, now)
    lines: list[StepDifference] = []
    for number, step in enumerate(new.steps, start=1):
        before = was.get(step.step_id)
        if before is None:
            lines.append(StepDifference("add", step, number))
        elif _means(before) != _means(step):
            lines.append(StepDifference("change", step, number, before))
        else:
            kind = "move" if step.step_id in moved else "same"
            lines.append(StepDifference(kind, step, number))
    for number, step in enumerate(old.steps, start=1):
        if new.step(step.step_id) is None:
            place = next(
                (
                    at + 1
                    for at in range(len(lines) - 1, -1, -1)
                    if lines[at].step.step_id in {s.step_id for s in old.steps[: number - 1]}
                ),
                0,
            )
            lines.insert(place, StepDifference("drop", step, number))
    return tuple(lines)


def _means(step: Step) -> tuple[str, str, tuple[str, ...]]:
    return step.name, step.description, step.depends_on


def _moved(old: Sequence[str], new: Sequence[str]) -> set[str]:
    """The fewest steps whose move turns the one order into the other."""
    place = {step_id: at for at, step_id in enumerate(old)}
    best: list[list[str]] = []  # longest ascending run that ends at each place
    for at, step_id in enumerate(new):
        longest: list[str] = []
        for run in best[:at]:
            if place[run[-1]] < place[step_id] and len(run) > len(longest):
                longest = run
        best.append([*longest, step_id])
    return set(new) - set(max(best, key=len)) if best else set()
