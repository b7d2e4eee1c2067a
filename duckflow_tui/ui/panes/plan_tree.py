"""A plan as lines: which step or task lies on which line, and what is folded. Draws nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from duckflow_tui.state.plan import Plan, Step, Task, WorkStatus

#: Steps whose tasks are shown unless the user folds them: what runs, and what went wrong.
_UNFOLDED: Final = (WorkStatus.IN_PROGRESS, WorkStatus.BLOCKED, WorkStatus.FAILED)


#: What a step's own line says.
_ON_ITS_LINE: Final = (
    "name", "depends_on", "break_before", "started_at", "elapsed_s", "calls", "cost",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spot:
    """What lies on a line: a step by its index, and one of its tasks, -1 for the step itself."""

    step: int
    task: int = -1


@dataclass(frozen=True, slots=True)
class Change:
    """What another state of the plan changes on the screen: lines, or everything from a line on."""

    lines: tuple[tuple[int, int], ...] = ()  # first line and the one behind the last
    moved_from: int | None = None  # lines from here on lie elsewhere now


class PlanTree:
    """Steps with their tasks below them. Only what changed is looked at again."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self._steps: tuple[Step, ...] = ()
        self._ends: list[int] = []  # line behind each step's last
        self._numbers: dict[str, int] = {}  # step id → its number, counted from 1
        self._working: int | None = None  # index of the step that runs
        self._folds: dict[str, tuple[WorkStatus, bool]] = {}  # what the user chose, and when

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps in their order."""
        return self._steps

    @property
    def height(self) -> int:
        """Lines in all."""
        return self._ends[-1] if self._ends else 0

    def take(self, plan: Plan | None) -> Change:
        """Show this plan; what of the lines is not as it was."""
        old, self.plan = self._steps, plan
        new = self._steps = plan.steps if plan else ()
        changed = [at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a is not b]
        if len(old) != len(new) or any(
            old[at].step_id != new[at].step_id or old[at].status is not new[at].status
            for at in changed
        ):
            self._lay_out()
            return Change(moved_from=0)  # what waited for a step may wait no longer
        grown = [at for at in changed if self._lines(at) != 1 + self._below(new[at])]
        if grown:
            self._lay_out()
            return Change(moved_from=self.top(changed[0]))
        return Change(tuple(line for at in changed for line in self._changed(at, old[at])))

    def _lay_out(self) -> None:
        self._numbers = {step.step_id: n for n, step in enumerate(self._steps, 1)}
        self._ends = list(accumulate(1 + self._below(step) for step in self._steps))
        working = (n for n, s in enumerate(self._steps) if s.status is WorkStatus.IN_PROGRESS)
        self._working = next(working, None)

    def _lines(self, index: int) -> int:
        return self._ends[index] - self.top(index)

    @property
    def at_work(self) -> Step | None:
        """The step that runs."""
        return None if self._working is None else self._steps[self._working]

    def _changed(self, index: int, old: Step) -> Iterator[tuple[int, int]]:
        """The lines of a step that say something else than before."""
        new, top = self._steps[index], self.top(index)
        if any(getattr(old, name) != getattr(new, name) for name in _ON_ITS_LINE):
            yield top, top + 1
        if self.is_open(new):
            pairs = zip(old.task_list, new.task_list, strict=True)
            yield from ((top + n, top + n + 1) for n, (a, b) in enumerate(pairs, 1) if a is not b)

    def number(self, step_id: str) -> int:
        """The step's number, counted from 1; 0 for no step of this plan."""
        return self._numbers.get(step_id, 0)

    def top(self, index: int) -> int:
        """The line of a step."""
        return self._ends[index - 1] if index else 0

    def spot(self, line: int) -> Spot | None:
        """What lies there; None outside."""
        if not 0 <= line < self.height:
            return None
        index = bisect_right(self._ends, line)
        return Spot(index, line - self.top(index) - 1)

    def step_at(self, spot: Spot) -> Step:
        """The step of that place."""
        return self._steps[spot.step]

    def task_at(self, spot: Spot) -> Task | None:
        """The task there; None on a step's own line."""
        return self._steps[spot.step].task_list[spot.task] if spot.task >= 0 else None

    def find(self, step_id: str, task_id: str = "") -> Spot | None:
        """Where a step or a task lies now; a task that is folded away is where its step is."""
        index = self._numbers.get(step_id, 0) - 1
        if index < 0:
            return None
        step = self._steps[index]
        if task_id and self.is_open(step):
            for at, task in enumerate(step.task_list):
                if task.task_id == task_id:
                    return Spot(index, at)
        return Spot(index)

    def line(self, spot: Spot) -> int:
        """The line where it lies."""
        return self.top(spot.step) + 1 + spot.task

    def waits_for(self, step: Step) -> list[int]:
        """Numbers of the steps that must be done before it may begin."""
        if not step.status.is_open or step.status is WorkStatus.IN_PROGRESS:
            return []
        found = (self._numbers.get(need, 0) for need in step.depends_on)
        return sorted(
            number
            for number in found
            if number and not self._steps[number - 1].status.lets_others_start
        )

    # --- folding ----------------------------------------------------------------------------

    def is_open(self, step: Step) -> bool:
        """Whether its tasks are shown."""
        chosen = self._folds.get(step.step_id)
        if chosen is not None and chosen[0] is step.status:
            return chosen[1]
        return step.status in _UNFOLDED

    def fold(self, index: int, *, opened: bool) -> bool:
        """Show or hide a step's tasks; whether that changed anything."""
        step = self._steps[index]
        if not step.task_list or self.is_open(step) == opened:
            return False
        self._folds[step.step_id] = (step.status, opened)
        self._lay_out()
        return True

    def _below(self, step: Step) -> int:
        return len(step.task_list) if step.task_list and self.is_open(step) else 0
