"""A plan as lines: which step or task is on which line, and how it is drawn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.plan import Plan, PlanStatus, Step, Task, WorkStatus
from duckflow_tui.state.plan_events import compute_wait_s
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.operation_blocks import verb_of
from duckflow_tui.ui.panes.rows import BarPart, two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import clock_text, cost_text, find_target, took_text

#: Steps whose tasks are shown unless the user folds them: what runs, and what went wrong.
_UNFOLDED: Final = (WorkStatus.IN_PROGRESS, WorkStatus.BLOCKED, WorkStatus.FAILED)


@dataclass(frozen=True, slots=True)
class PlanSpot:
    """The item on a line: a step by index and one of its tasks; task -1 is the step itself."""

    step: int
    task: int = -1


class PlanTree:
    """The steps with their tasks below them, unless folded."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self._steps: tuple[Step, ...] = ()
        self._ends: list[int] = []  # line behind each step's last
        self._numbers: dict[str, int] = {}  # step id → its number, counted from 1
        self._working: int | None = None  # index of the step that runs
        self._folds: dict[str, tuple[WorkStatus, bool]] = {}  # what the user chose, and when

    @property
    def plan_steps(self) -> tuple[Step, ...]:
        """The steps in order."""
        return self._steps

    @property
    def total_height(self) -> int:
        """The lines of all steps and unfolded tasks."""
        return self._ends[-1] if self._ends else 0

    def take_plan(self, plan: Plan | None) -> list[tuple[int, int]] | None:
        """Show this plan. Returns spans of lines for the steps that changed; None where lines or
        dependencies changed, so that everything has to be drawn.
        """
        old, height = self._steps, self.total_height
        self.plan, self._steps = plan, plan.steps if plan else ()
        self._lay_out()
        stands = [(step.step_id, step.status) for step in old]
        if height != self.total_height or stands != [(s.step_id, s.status) for s in self._steps]:
            return None
        changed = [at for at, step in enumerate(self._steps) if step is not old[at]]
        return [(self.top_of(at), self._ends[at]) for at in changed]

    def _lay_out(self) -> None:
        """Compute each step's number, the line after its last one, and the index of the step in
        progress, None without; draws nothing.
        """
        self._numbers = {step.step_id: n for n, step in enumerate(self._steps, 1)}
        self._ends = list(accumulate(1 + self._lines_below(step) for step in self._steps))
        working = (n for n, s in enumerate(self._steps) if s.status is WorkStatus.IN_PROGRESS)
        self._working = next(working, None)

    @property
    def at_work(self) -> Step | None:
        """Return the running step; None without."""
        return None if self._working is None else self._steps[self._working]

    def number_of(self, step_id: str) -> int:
        """Return the step's number from 1; 0 where it is not in this plan."""
        return self._numbers.get(step_id, 0)

    def top_of(self, index: int) -> int:
        """Return the line of a step."""
        return self._ends[index - 1] if index else 0

    def spot_at(self, line: int) -> PlanSpot | None:
        """Return the item on a line; None outside."""
        if not 0 <= line < self.total_height:
            return None
        index = bisect_right(self._ends, line)
        return PlanSpot(index, line - self.top_of(index) - 1)

    def step_at(self, spot: PlanSpot) -> Step:
        """Return the step of an item."""
        return self._steps[spot.step]

    def task_at(self, spot: PlanSpot) -> Task | None:
        """Return the task of an item; None for a step itself."""
        return self._steps[spot.step].task_list[spot.task] if spot.task >= 0 else None

    def find_spot(self, step_id: str, task_id: str = "") -> PlanSpot | None:
        """Return where a step or task is shown now; a folded task is at its step."""
        index = self._numbers.get(step_id, 0) - 1
        if index < 0:
            return None
        step = self._steps[index]
        if task_id and self.is_open(step):
            for at, task in enumerate(step.task_list):
                if task.task_id == task_id:
                    return PlanSpot(index, at)
        return PlanSpot(index)

    def line_of(self, spot: PlanSpot) -> int:
        """Return the line of an item."""
        return self.top_of(spot.step) + 1 + spot.task

    def waits_for(self, step: Step) -> list[int]:
        """Return the numbers of unfinished steps that this one depends on."""
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
        """Whether the step's tasks are shown."""
        chosen = self._folds.get(step.step_id)
        if chosen is not None and chosen[0] is step.status:
            return chosen[1]
        return step.status in _UNFOLDED

    def fold_step(self, index: int, *, opened: bool) -> bool:
        """Show or hide a step's tasks. Returns whether anything changed."""
        step = self._steps[index]
        if not step.task_list or self.is_open(step) == opened:
            return False
        self._folds[step.step_id] = (step.status, opened)
        self._lay_out()
        return True

    def _lines_below(self, step: Step) -> int:
        return len(step.task_list) if step.task_list and self.is_open(step) else 0


MARKS: Final[dict[WorkStatus, str]] = {
    WorkStatus.PENDING: "○",
    WorkStatus.IN_PROGRESS: "▶",
    WorkStatus.COMPLETED: "✓",
    WorkStatus.FAILED: "✗",
    WorkStatus.BLOCKED: "◆",
    WorkStatus.SKIPPED: "–",
    WorkStatus.CANCELLED: "■",
}

NEEDS_YOU: Final = "◆"
BREAK: Final = "●"
_NEEDS_SHOWN: Final = 3  # numbers of steps that are waited for; the others are counted
_LEAST_NAME: Final = 14  # cells of a name that go before what stands to its right

#: Words for statuses that the mark alone would not make plain.
_SAID: Final = (
    WorkStatus.FAILED, WorkStatus.BLOCKED, WorkStatus.SKIPPED, WorkStatus.CANCELLED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pen:
    """The settings by which rows are drawn; ``now`` is seconds since the epoch."""

    palette: Palette
    words: Catalogue
    now: float
    sign: str  # of what moves
    waits_since: float | None = None  # the user has been waited for from then on


@dataclass(frozen=True, slots=True)
class StepFacts:
    """Details that a step's row shows besides the step itself."""

    number: int
    waits_for: Sequence[int]  # numbers of steps
    needs_you: str  # words for its open gate or card, empty without one
    folded: int = 0  # tasks that are not shown


def step_row(step: Step, facts: StepFacts, pen: Pen, width: int) -> Row:
    """Return a step's row, such as ``▶ 2 Fix the calculation   needs you  0:48 ⠹``."""
    palette, words = pen.palette, pen.words
    runs = step.status is WorkStatus.IN_PROGRESS
    parts: list[BarPart] = []
    if facts.needs_you:
        parts.append(BarPart(words(facts.needs_you), ink(palette.accent), weight=9))
    elif step.status in _SAID:
        colour = palette.bad if step.status is WorkStatus.FAILED else palette.quiet
        parts.append(BarPart(words(f"plan.status.{step.status}"), ink(colour), weight=8))
    elif step.taken:
        parts.append(BarPart(words("plan.taken"), ink(palette.quiet), weight=8))
    if facts.waits_for:
        parts.append(BarPart(_needs_words(facts.waits_for, words), ink(palette.faint), weight=6))
    asks_first = step.break_before and step.status is WorkStatus.PENDING
    if asks_first:
        parts.append(BarPart(words("plan.break"), ink(palette.accent), weight=4))
    if facts.folded and step.status is WorkStatus.PENDING:
        parts.append(BarPart(words("plan.tasks", count=facts.folded), ink(palette.faint), weight=3))
    if step.calls:
        parts.append(
            BarPart(words("budget.count.calls", count=step.calls), ink(palette.faint), weight=2)
        )
    if step.cost:
        parts.append(BarPart(cost_text(step.cost), ink(palette.faint), weight=1))
    if (elapsed := elapsed_of(step, pen.now, pen.waits_since)) >= 1 or runs:
        parts.append(BarPart(clock_text(elapsed), ink(palette.quiet), weight=5))
    if runs:
        parts.append(BarPart(pen.sign, ink(palette.ai), weight=5, gap=1))
    mark, colour = _status_mark(step.status, palette)
    if facts.needs_you:
        mark, colour = NEEDS_YOU, palette.accent
    over = step.status in (WorkStatus.SKIPPED, WorkStatus.CANCELLED)
    name = ink(palette.text if runs or facts.needs_you else palette.quiet, strike=over)
    lead = Segment(BREAK if asks_first else " ", ink(palette.accent))
    left = [
        lead,
        Segment(f"{mark} ", ink(colour)),
        Segment(f"{facts.number} ", ink(palette.quiet)),
        Segment(visible_line(step.name), name),
    ]
    return _step_row(left, parts, width)


def task_row(task: Task, pen: Pen, width: int, *, indent: int, needs_you: str) -> Row:
    """Return a task's row, such as ``  ✓ edit pricing.py   +3 −2  0.1 s``."""
    palette, words = pen.palette, pen.words
    runs = task.status is WorkStatus.IN_PROGRESS
    parts: list[BarPart] = []
    if needs_you:
        parts.append(BarPart(words(needs_you), ink(palette.accent), weight=9))
    elif task.result:
        colour = palette.bad if task.status is WorkStatus.FAILED else palette.faint
        parts.append(
            BarPart(fit(visible_line(task.result), max(8, width // 3)), ink(colour), weight=4)
        )
    elif task.status in _SAID:
        parts.append(BarPart(words(f"plan.status.{task.status}"), ink(palette.faint), weight=4))
    if runs:
        begun = pen.now if task.started_at is None else task.started_at
        elapsed = worked_s(begun, task.waited_s, pen.now, pen.waits_since)
        parts.append(BarPart(clock_text(elapsed), ink(palette.faint), weight=5))
    elif task.duration_s >= 0.05:
        parts.append(BarPart(took_text(task.duration_s, words), ink(palette.faint), weight=3))
    mark, colour = _status_mark(task.status, palette)
    if needs_you:
        mark, colour = NEEDS_YOU, palette.accent
    left = [
        Segment(" " * indent, ink(None)),
        Segment(f"{mark} ", ink(colour)),
        Segment(task_words(task, words), ink(palette.text if runs else palette.quiet)),
    ]
    return _step_row(left, parts, width)


def task_words(task: Task, words: Catalogue) -> str:
    """Return the model's description of a task, else its operation and target."""
    if task.description.strip():
        return visible_line(task.description.strip())
    target = find_target(task.args)[0]
    return f"{verb_of(task.operation, words)} {target}".strip()


def current_step(plan: Plan, asking: Collection[str] = ()) -> Step | None:
    """Return the step that waits for the user, else the running one, else the one that stopped or
    failed, else the first pending one.
    """
    for step in plan.steps if asking else ():
        if step.step_id in asking:
            return step
    wanted = (
        WorkStatus.IN_PROGRESS,
        WorkStatus.BLOCKED,
        WorkStatus.CANCELLED,
        WorkStatus.FAILED,
        WorkStatus.PENDING,
    )
    for status in wanted:
        for step in plan.steps:
            if step.status is status:
                return step
    return None


def dependent_steps(plan: Plan, step: Step) -> list[int]:
    """Return the numbers of pending steps that depend on this one."""
    return [
        number
        for number, other in enumerate(plan.steps, 1)
        if step.step_id in other.depends_on and other.status is WorkStatus.PENDING
    ]


def one_line(plan: Plan, words: Catalogue, asking: Mapping[str, str] | None = None) -> str:
    """Return the plan's position on one line, such as ``▶ 2 of 5 Game loop · needs you``.

    ``asking`` maps ids of steps that wait for the user to their words.
    """
    done, total = plan.progress
    state = status_words(plan, words)
    asking = asking or {}
    step = current_step(plan, asking)
    idle = (PlanStatus.DRAFT, PlanStatus.REJECTED, PlanStatus.CANCELLED, PlanStatus.FAILED)
    if plan.status in idle or step is None:
        mark = {
            PlanStatus.FAILED: MARKS[WorkStatus.CANCELLED] if was_stopped(plan) else "✗",
            PlanStatus.REJECTED: "⊘",
            PlanStatus.CANCELLED: "⊘",
            PlanStatus.DRAFT: "○",
        }
        of = words("gate.waiting", number=done, total=total)
        ended = "✗" if plan.is_done_but_not_met else "✓"
        said = f"{mark.get(plan.status, ended)} {of} {visible_line(plan.name)}"
        return f"{said} · {state}" if state else said
    number = next(n for n, each in enumerate(plan.steps, 1) if each is step)
    asks = asking.get(step.step_id, "")
    of = words("gate.waiting", number=number, total=total)
    said = f"{NEEDS_YOU if asks else MARKS[step.status]} {of} {visible_line(step.name)}"
    return f"{said} · {words(asks)}" if asks else said


def step_place(state: AgentState) -> tuple[int, int]:
    """Return the number of the running step and the number of steps; 0 where none runs."""
    work = state.work
    if work is None or not work.step_id:
        return 0, 0
    plan = next((p for p in state.plans if p.plan_id == work.plan_id), None)
    steps = plan.steps if plan else ()
    number = next((n for n, step in enumerate(steps, 1) if step.step_id == work.step_id), 0)
    return number, len(steps)


def asking_of(state: AgentState) -> dict[str, str]:
    """Return the ids of steps and calls that wait for the user, with the words for it: a card needs
    an answer, a gate an approval.
    """
    found = {card.step_id: "plan.needs_answer" for card in state.cards if card.step_id}
    for gate in state.gates:
        found |= {name: "plan.needs_you" for name in (gate.step_id, gate.call_id) if name}
    return found


def status_words(plan: Plan, words: Catalogue) -> str:
    """Return the status of the whole plan; empty while it runs."""
    if plan.status is PlanStatus.IN_PROGRESS:
        return ""
    if plan.is_done_but_not_met:
        return words("plan.is.not_met")
    return words("plan.is.stopped" if was_stopped(plan) else f"plan.is.{plan.status}")


def was_stopped(plan: Plan) -> bool:
    """Whether the plan ended because it was stopped, not because a step failed."""
    ends = {step.status for step in plan.steps}
    return (
        plan.status is PlanStatus.FAILED
        and WorkStatus.CANCELLED in ends
        and WorkStatus.FAILED not in ends
    )


def elapsed_of(step: Step, now: float, waits_since: float | None) -> float:
    """Return the seconds of work on a step, including the present run."""
    if step.started_at is None:
        return max(step.elapsed_s - step.waited_s, 0.0)
    begun = step.started_at - step.elapsed_s  # as if it had been one run
    return worked_s(begun, step.waited_s, now, waits_since)


def worked_s(began: float, waited_s: float, now: float, waits_since: float | None) -> float:
    """Return the seconds since ``began`` without the time spent waiting for the user."""
    return max(now - began - waited_s - compute_wait_s(waits_since, began, now), 0.0)


def _needs_words(numbers: Sequence[int], words: Catalogue) -> str:
    shown = ", ".join(map(str, numbers[:_NEEDS_SHOWN]))
    more = len(numbers) - _NEEDS_SHOWN
    return words("plan.needs", numbers=f"{shown} +{more}" if more > 0 else shown)


def _status_mark(status: WorkStatus, palette: Palette) -> tuple[str, str]:
    colours = {
        WorkStatus.COMPLETED: palette.good,
        WorkStatus.IN_PROGRESS: palette.ai,
        WorkStatus.BLOCKED: palette.accent,
        WorkStatus.FAILED: palette.bad,
    }
    return MARKS[status], colours.get(status, palette.faint)


def _step_row(left: Row, parts: Sequence[BarPart], width: int) -> Row:
    """The name gets half of the row before the least of the parts are left out."""
    parts = list(parts)
    lead = sum(cell_len(segment.text) for segment in left[:-1])
    wanted = cell_len(left[-1].text)
    least = lead + min(wanted, max(_LEAST_NAME, width // 2))
    while parts and least + 2 + _count_cells(parts) > width:
        weight = min(part.weight for part in parts)
        parts = [part for part in parts if part.weight != weight]
    right: Row = []
    for number, part in enumerate(parts):
        right.append(Segment(" " * min(part.gap if number else 1, 2), ink(None)))
        right.append(Segment(part.text, part.style))
    return two_sided(left, [*right, Segment(" ", ink(None))], width)


def _count_cells(parts: Sequence[BarPart]) -> int:
    return sum(cell_len(part.text) + min(part.gap if n else 1, 2) for n, part in enumerate(parts))
