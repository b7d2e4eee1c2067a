"""The plan on the screen: lines drawn from its state, and the keys that walk and change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Final

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.reactive import var
from textual.strip import Strip
from textual.timer import Timer

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock, LocalizedText
from duckflow_tui.state.conversation import Message, UserMessage
from duckflow_tui.state.plan import (
    Plan,
    PlanEdit,
    PlanStatus,
    ReportMessage,
    Step,
    WorkStatus,
)
from duckflow_tui.ui.host import bind_keys, host_of
from duckflow_tui.ui.panes.live_blocks import SPINNER, STILL
from duckflow_tui.ui.panes.plan_rows import (
    Pen,
    PlanSpot,
    PlanTree,
    StepFacts,
    asking_of,
    dependent_steps,
    one_line,
    status_words,
    step_row,
    task_row,
)
from duckflow_tui.ui.panes.rows import LineView, Rows, palette_of
from duckflow_tui.ui.panes.side_pane import SidePane
from duckflow_tui.ui.panes.strips import Row, fit, ink, mark_row, prefix_rows, rows_of, wrap

if TYPE_CHECKING:
    from duckflow_tui.work.actions import PlanActions

SPIN: Final = 1 / 10  # seconds between two signs of the spinner
COUNT: Final = 1.0  # seconds between two times where nothing spins
_LEAST: Final = 6  # lines of the pane from which on some are for its keys


def plan_slices(state: AgentState) -> tuple[object, ...]:
    """The slices that a view of a plan reads, since it marks what waits for the user."""
    plan = (state.plans, state.active_plan_id, state.work)
    return *plan, state.turn, state.gates, state.cards


_THROUGH: Final = (WorkStatus.COMPLETED, WorkStatus.SKIPPED)


class PlanPane(LineView, SidePane, can_focus=True):  # pyright: ignore[reportIncompatibleMethodOverride]  # ScrollView's own
    """The active plan, or the work that belongs to none; one step or task is at the cursor. What a
    key does to the plan is the engine's to do.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind_keys("plan")

    ALLOW_SELECT = False
    pane_name = "plan"
    surfaces = ("plan",)
    animation: var[bool] = var(True)
    problem: var[str] = var("")  # the obstacle to the last key
    notice: var[str] = var("")  # the pending effect of the last key

    def __init__(self, clock: Clock, *, id: str | None = None) -> None:
        """Elapsed times are read from ``clock``."""
        super().__init__(id=id)
        self._tree = PlanTree()
        self._clock = clock
        self._brief: tuple[str, ...] = ()  # what the model means to do, before there is a plan
        self._asking: dict[str, str] = {}  # ids of steps and calls that wait for the user
        self._held = False  # the work is paused
        self._waits_since: float | None = None  # for the user
        self._cursor = ("", "")  # step id, task id
        self._at = 0  # index of the step at the cursor, where it was seen last
        self._ticker: Timer | None = None
        self._beat = 0.0  # seconds between two ticks
        self._warned = ("", "")  # the key whose effect was said, and its step

    # --- data -------------------------------------------------------------------------------

    def slices(self, state: AgentState) -> tuple[object, ...]:
        return *plan_slices(state), state.memory.plan_brief, state.objective

    def show(self, state: AgentState) -> None:
        """Take over what the state says now."""
        old, beside = self._tree.plan, (self._brief, self._asking, self._held)
        # It is about the turn that runs: beside one that has ended, nothing waits for a plan.
        self._brief = state.memory.plan_brief if state.turn is not None else ()
        plan, asked = state.active_plan, state.objective
        if plan is not None and self._brief and asked is not None:
            over = not (plan.status is PlanStatus.DRAFT or plan.status.may_run)
            # What is meant for a newer request comes before a plan that is over.
            plan = None if over and asked.created_at > plan.created_at else plan
        self._asking, self._waits_since = asking_of(state), state.waits_since
        self._held = state.turn is not None and state.turn.pause != "running"
        changed = self._tree.take_plan(plan)
        if old is not None and plan is not None and old.plan_id != plan.plan_id:
            self._cursor = ("", "")
            self.scroll_to(0, 0, animate=False)
        else:
            self._keep_cursor()
        if changed is None or beside != (self._brief, self._asking, self._held):
            self.invalidate()
        for first, stop in changed or ():
            self.redraw(first, stop)
        self._keep_running_in_sight(old)
        self._tick_as_needed()

    def has_content(self, state: AgentState) -> bool:
        """Work that goes on, what the model means to do until its turn ends, or a plan; one that
        is completed until the user has asked for something behind it.
        """
        if state.work is not None or (state.turn is not None and state.memory.plan_brief):
            return True
        plan = state.active_plan
        over = plan is not None and plan.status is PlanStatus.COMPLETED
        return plan is not None and not (over and was_overtaken(state.messages))

    @property
    def is_moving(self) -> bool:
        """Whether a timer runs, because a step does."""
        return self._ticker is not None

    @property
    def cursor_step(self) -> Step | None:
        """The step that keys are about."""
        spot = self._cursor_spot()
        return None if spot is None else self._tree.step_at(spot)

    def make_title(self, width: int) -> Text | None:
        """``Plan  discounts  1/3  draft · low risk`` in at most ``width`` cells."""
        palette, plan = palette_of(self), self._tree.plan
        if plan is None:
            return None
        text = Text(self.words("pane.plan"), style=f"bold {palette.accent}", no_wrap=True)
        done, total = plan.progress
        risk = self.words(f"plan.risk.{plan.risk}") if plan.risk not in ("", "low") else ""
        risk = "" if plan.is_done_but_not_met else risk
        said = " · ".join(word for word in (status_words(plan, self.words), risk) if word)
        rest = f"  {done}/{total}"
        room = width - text.cell_len - len(rest) - 2
        tail = Text(f"  {said}" if said else "").cell_len
        fits = room - tail >= min(12, Text(visible_line(plan.name)).cell_len)
        # That all steps are done says too much where the request is not met.
        if tail and not (fits or plan.is_done_but_not_met):
            tail, said = 0, ""
        text.append(f"  {fit(visible_line(plan.name), max(0, room - tail))}", palette.text)
        text.append(rest, style=f"not bold {palette.quiet}")
        if said:
            waits = plan.status in (PlanStatus.DRAFT, PlanStatus.REJECTED, PlanStatus.FAILED)
            waits = waits or plan.is_done_but_not_met
            text.append(f"  {said}", f"not bold {palette.accent if waits else palette.quiet}")
        text.truncate(max(1, width), overflow="ellipsis")
        return text

    # --- drawing ----------------------------------------------------------------------------

    def watch_problem(self) -> None:
        self._fit_foot()

    def watch_notice(self) -> None:
        self._fit_foot()

    def _fit_foot(self) -> None:
        """Make room for the foot, and draw again."""
        self.fit_lines()
        self.refresh()

    def watch_has_focus(self, has_focus: bool) -> None:
        self.problem = self.notice = ""
        self.invalidate(layout=True)
        spot = self._cursor_spot() if has_focus else None
        if spot is not None:
            self._reveal_spot(spot)

    def on_mount(self) -> None:
        self.fit_lines()

    def on_resize(self) -> None:
        super().on_resize()
        step = self._tree.at_work
        if step is not None and not self.has_focus:
            self._show_step(step.step_id)

    def on_unmount(self) -> None:
        self._spin_until(0.0)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        lines = self._tree.total_height or len(self._without_plan(width))
        return max(1, lines) + len(self._foot_rows(width, container.height))

    @property
    def lines_in_sight(self) -> int:
        region = self.scrollable_content_region
        return region.height - len(self._foot_rows(region.width, region.height))

    def line_count(self, width: int) -> int:
        foot = self._foot_rows(width, self.scrollable_content_region.height)
        if self._tree.plan is None:
            return len(self._without_plan(width)) + len(foot)
        return self._tree.total_height + len(foot)

    def render_line(self, y: int) -> Strip:
        width, height = self.scrollable_content_region.size
        foot = self._foot_rows(width, height)
        if foot and y >= height - len(foot):
            (said,) = foot[y - height + len(foot)]
            style = self.ground_style + said.style if said.style else self.ground_style
            return Strip([Segment(said.text, style)]).adjust_cell_length(width, style)
        return super().render_line(y)

    def row(self, line: int, width: int) -> Row:
        plan = self._tree.plan
        palette = palette_of(self)
        if plan is None:
            rows = self._without_plan(width)
            return rows[line] if line < len(rows) else []
        spot = self._tree.spot_at(line)
        if spot is None:
            return []
        row = self._spot_row(spot, width)
        if self.has_focus and spot == self._cursor_spot():
            row = mark_row(row, 0, -1, ink(None, on=palette.bars))
        return row

    def _spot_row(self, spot: PlanSpot, width: int) -> Row:
        step, task = self._tree.step_at(spot), self._tree.task_at(spot)
        if task is not None:
            indent = 3 + len(str(spot.step + 1))
            asks = self._asking.get(task.call_id, "") if task.call_id else ""
            return task_row(task, self._make_pen(), width, indent=indent, needs_you=asks)
        shown = self._tree.is_open(step)
        facts = StepFacts(
            number=spot.step + 1,
            waits_for=self._tree.waits_for(step),
            needs_you=self._asking.get(step.step_id, ""),
            folded=0 if shown else len(step.task_list),
        )
        return step_row(step, facts, self._make_pen(), width)

    def _without_plan(self, width: int) -> list[Row]:
        """The model's next steps, marked as provisional, while there is no plan (S3-36)."""
        palette, room = palette_of(self), max(8, width - 2)
        if self._brief:
            said = rows_of([(self.words("plan.provisional"), ink(palette.accent))], room)
            rows = list(prefix_rows(said, (" ", ink(None)), (" ", ink(None))))
            for number, item in enumerate(self._brief, 1):
                lines = rows_of([(visible_line(item), ink(palette.quiet))], max(8, room - 3))
                rows += prefix_rows(lines, (f"  {number} ", ink(palette.faint)))
            return rows
        none = self.words("plan.none")
        return [[Segment(f" {none[i:j]}", ink(palette.faint))] for i, j in wrap(none, room)]

    def _make_pen(self) -> Pen:
        sign = SPINNER[int(monotonic() / SPIN) % len(SPINNER)] if self._is_spinning else STILL
        now, since = self._clock.now(), self._waits_since
        return Pen(palette_of(self), self.words, now, sign, since)

    @property
    def _is_spinning(self) -> bool:
        level = host_of(self).animation_level
        return self.animation and level != "none" and not self._held and not self._asking

    def _foot_rows(self, width: int, height: int) -> list[Row]:
        """The obstacle to a key or its pending effect, else the keys while they act here."""
        palette = palette_of(self)
        if self.problem or self.notice:
            sign, color = ("✗", palette.bad) if self.problem else ("◆", palette.accent)
            text, color = f"{sign} {visible_line(self.problem or self.notice)}", ink(color)
        elif self.has_focus and self._tree.total_height and height >= _LEAST:
            text, color = self.words("plan.keys"), ink(palette.quiet)
        else:
            return []
        spans = wrap(text, max(8, width - 2))
        if self.problem or self.notice:
            spans = spans[: max(1, height)]
        return [[Segment(f" {text[start:stop]}", color)] for start, stop in spans]

    # --- time -------------------------------------------------------------------------------

    def _tick_as_needed(self) -> None:
        """Start, slow down or stop the timer by what moves in the plan."""
        moves = self._tree.at_work is not None
        self._spin_until(
            (SPIN if self._is_spinning else COUNT) if moves and self.is_mounted else 0.0
        )

    def _spin_until(self, beat: float) -> None:
        """Draw the spinner every ``beat`` seconds from now on; never for 0."""
        if beat == self._beat:
            return
        self._beat = beat
        if self._ticker is not None:
            self._ticker.stop()
        self._ticker = self.set_interval(beat, self._draw_spinner) if beat else None

    def _draw_spinner(self) -> None:
        if not self.is_on_screen:
            return
        step = self._tree.at_work
        spot = self._tree.find_spot(step.step_id) if step else None
        if step is None or spot is None:
            return
        top = self._tree.line_of(spot)
        self.redraw(top, top + 1)
        if self._tree.is_open(step):
            for at, task in enumerate(step.task_list, 1):
                if task.status is WorkStatus.IN_PROGRESS:
                    self.redraw(top + at, top + at + 1)

    def _keep_running_in_sight(self, old: Plan | None) -> None:
        """A step that begins is shown, unless the user walks through the plan."""
        step = self._tree.at_work
        if step is None or self.has_focus:
            return
        before = old.get_step(step.step_id) if old else None
        if before is None or before.status is not step.status:
            # The pane may have no size yet.
            self.call_after_refresh(self._show_step, step.step_id)

    def _show_step(self, step_id: str) -> None:
        """Scroll so that a step and its tasks are visible; nothing for one that is not listed."""
        spot = self._tree.find_spot(step_id)
        if spot is not None:
            lines = 1 + len(self._tree.step_at(spot).task_list)
            self._reveal_spot(spot, lines)

    # --- the cursor ----------------------------------------------------------------------------

    def _cursor_spot(self) -> PlanSpot | None:
        """Where the cursor is; at first where the work is."""
        if not self._tree.total_height:
            return None
        spot = self._tree.find_spot(*self._cursor)
        if spot is None:
            running = self._tree.at_work
            spot = self._tree.find_spot(running.step_id) if running else None
        return spot or PlanSpot(0)

    def _keep_cursor(self) -> None:
        """Where the step at the cursor is gone, the one that took its place is at it."""
        spot = self._tree.find_spot(*self._cursor)
        if spot is not None:
            self._at = spot.step
        elif self._cursor[0] and self._tree.total_height:
            at = min(self._at, len(self._tree.plan_steps) - 1)
            self._cursor = (self._tree.plan_steps[at].step_id, "")

    def _move_cursor(self, spot: PlanSpot) -> None:
        task = self._tree.task_at(spot)
        self._at = spot.step
        self._cursor = (self._tree.step_at(spot).step_id, task.task_id if task else "")
        self.redraw()
        self._reveal_spot(spot)

    def _reveal_spot(self, spot: PlanSpot, lines: int = 1) -> None:
        line = self._tree.line_of(spot)
        self.reveal_lines(line, line + lines)

    # --- keys ----------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        self.problem = self.notice = ""
        if event.key != self._warned[0]:
            self._warned = ("", "")

    def on_click(self, event: events.Click) -> None:
        spot = self._tree.spot_at(self.scroll_offset.y + event.y - self.gutter.top)
        if spot is None:
            return
        again = spot == self._cursor_spot() and event.chain == 1
        self._move_cursor(spot)
        if again and spot.task < 0:
            self.action_fold_step("space")
        elif event.chain == 2:
            self.action_go_to()

    def action_walk(self, key: str) -> None:
        spot = self._cursor_spot()
        if spot is None:
            return
        page = max(1, self.scrollable_content_region.height - 1)
        by = {"up": -1, "down": 1, "pageup": -page, "pagedown": page}.get(key, 0)
        line = self._tree.line_of(spot) + by
        line = {"home": 0, "end": self._tree.total_height - 1}.get(key, line)
        found = self._tree.spot_at(max(0, min(line, self._tree.total_height - 1)))
        if found is not None:
            self._move_cursor(found)

    def action_fold_step(self, key: str) -> None:
        spot = self._cursor_spot()
        if spot is None:
            return
        opened = key == "right" or (
            key == "space" and not self._tree.is_open(self._tree.step_at(spot))
        )
        self._tree.fold_step(spot.step, opened=opened)
        self.fit_lines()
        self._move_cursor(spot if opened else PlanSpot(spot.step))

    def action_go_to(self) -> None:
        spot = self._cursor_spot()
        if spot is None:
            return
        task = self._tree.task_at(spot)
        if task is not None and not task.call_id:
            self.problem = self.words("plan.not_run_yet")
            return
        step_id = self._tree.step_at(spot).step_id
        if not host_of(self).bench.go_to((task.call_id if task else "",), step_id):
            self.problem = self.words("plan.not_in_chat")

    def action_edit_step(self) -> None:
        self._open_form(new=False)

    def action_add_step(self) -> None:
        self._open_form(new=True)

    def _open_form(self, *, new: bool) -> None:
        """Open the form of the step at the cursor, or with ``new`` of one behind it; nothing
        without a step, or in a session that is only read.
        """
        step, plan = self.cursor_step, self._tree.plan
        host = host_of(self)
        if step is not None and plan is not None and host.session.get_writable_engine() is not None:
            from duckflow_tui.ui.screens.step_form import StepForm

            host.push_screen(StepForm(self.words, plan, step, new=new), self._apply_edit)

    async def _apply_edit(self, edit: PlanEdit | None) -> None:
        """Apply an edit of the plan and show the problem that prevents it; nothing for None, or in
        a session that is only read.
        """
        engine = host_of(self).session.get_writable_engine() if edit is not None else None
        if engine is not None and edit is not None:
            self.problem = self.words.localize(await engine.plan.edit_steps((edit,)))

    async def action_drop_step(self) -> None:
        """Drop the step after a second key: the first says what the second does."""
        step = self.cursor_step
        if step is None:
            return
        number = self._tree.number_of(step.step_id)
        if self._was_warned("d", step, self.words("plan.drop_warns", number=number)):
            await self._apply_edit(PlanEdit(op="drop", step_id=step.step_id))

    async def action_move_step(self, by: int) -> None:
        """Move the step at the cursor up or down by one place, where there is one."""
        step, plan = self.cursor_step, self._tree.plan
        if step is None or plan is None:
            return
        at = self._tree.number_of(step.step_id) - 1 + by
        if not 0 <= at < len(plan.steps):
            return
        follows = at if by > 0 else at - 1
        after = plan.steps[follows].step_id if follows >= 0 else ""
        self._cursor = (step.step_id, "")
        await self._apply_edit(PlanEdit(op="move", step_id=step.step_id, after=after))

    def action_break_before(self) -> None:
        self._ask_twice(lambda plan, step: plan.set_break(step.step_id, not step.break_before))

    def action_retry_step(self) -> None:
        self._ask_twice(lambda plan, step: plan.retry_step(step.step_id))

    def action_skip_step(self) -> None:
        """Skip the step after a second key: the first says what would begin without it."""
        step, plan = self.cursor_step, self._tree.plan
        if step is None or plan is None:
            return
        may = step.status not in (WorkStatus.IN_PROGRESS, *_THROUGH)
        numbers = ", ".join(map(str, dependent_steps(plan, step) if may else []))
        warning = self.words("plan.skip_warns", numbers=numbers) if numbers else ""
        if not warning or self._was_warned("s", step, warning):
            self._ask_twice(lambda plan, step: plan.skip_step(step.step_id))

    def _was_warned(self, key: str, step: Step, warning: str) -> bool:
        """Whether the key was pressed for this step right before; else shows the warning."""
        warned = self._warned == (key, step.step_id)
        self._warned = ("", "") if warned else (key, step.step_id)
        if not warned:
            self.notice = warning
        return warned

    def _ask_twice(self, what: Callable[[PlanActions, Step], LocalizedText | None]) -> None:
        step = self.cursor_step
        engine = host_of(self).session.get_writable_engine() if step is not None else None
        if step is not None and engine is not None:
            self.problem = self.words.localize(what(engine.plan, step))


def was_overtaken(messages: Sequence[Message]) -> bool:
    """Whether the user asked for something after the last work on a plan."""
    for message in reversed(messages):
        if isinstance(message, ReportMessage) or message.step_id:
            return False
        if isinstance(message, UserMessage) and not message.aside:
            return True
    return False


class PlanPill(Rows):
    """One line above the composer where the plan has no pane; gone while there is no plan."""

    apart: var[bool] = var(True)  # the plan has no pane on the screen, and there is room for a line

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plan: Plan | None = None
        self._asking: dict[str, str] = {}
        self._said = ""

    def slices(self, state: AgentState) -> tuple[object, ...]:
        """The slices of the state that ``show`` reads."""
        return plan_slices(state)

    def show(self, state: AgentState) -> None:
        """Take over what the state says now."""
        self._plan, self._asking = state.active_plan, asking_of(state)
        self.watch_apart()
        self._made = None
        if self.display and self._line_text() != self._said:
            self.refresh()

    def watch_apart(self) -> None:
        self.set_class(self._plan is not None and self.apart, "-has-plan")

    def _line_text(self) -> str:
        return one_line(self._plan, self.words, self._asking) if self._plan else ""

    def lines(self, width: int) -> list[Row]:
        self._said = self._line_text()
        return [[Segment(fit(f" {self._said}", width), ink(self.palette.accent))]]
