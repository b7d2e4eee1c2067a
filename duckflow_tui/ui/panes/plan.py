"""The plan as a pane: keys that walk it, change it and lead into the chat. Intents go up."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.plan import Plan, PlanEdit, Step, WorkStatus
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.panes.plan_rows import asking_of, needing, one_line
from duckflow_tui.ui.panes.plan_tree import Spot
from duckflow_tui.ui.panes.plan_view import PlanView
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.strips import Row, fit, ink

_THROUGH: Final = (WorkStatus.COMPLETED, WorkStatus.SKIPPED)


def _bindings() -> list[BindingType]:
    found: list[BindingType] = []
    for key in keys_of("plan"):
        if key.action == "walk":
            for name in key.keys:
                found.append(Binding(name, f"walk('{name}')", key.label, show=False))
        elif key.action == "fold_step":
            for name in key.keys:
                found.append(Binding(name, f"fold_step('{name}')", key.label, show=False))
        else:
            found.append(Binding(",".join(key.keys), key.action, key.label, show=False))
    return found


class PlanPane(PlanView, can_focus=True):
    """The plan under the user's hands. What a key does to it is the engine's to do."""

    BINDINGS: ClassVar[list[BindingType]] = _bindings()

    class Edited(Message):
        """The user changes the plan; an ``add`` carries no id yet."""

        def __init__(self, edit: PlanEdit) -> None:
            super().__init__()
            self.edit = edit

    class Asked(Message):
        """The user asks something of a step: to stop before it, to do it again, to skip it."""

        def __init__(self, what: str, step_id: str, *, on: bool = False) -> None:
            """``what`` is break, retry or skip; ``on`` is for break."""
            super().__init__()
            self.what = what
            self.step_id = step_id
            self.on = on

    class FormWanted(Message):
        """The user would write a step: the one given, or a new one after it."""

        def __init__(self, plan: Plan, step: Step, *, new: bool) -> None:
            super().__init__()
            self.plan = plan
            self.step = step
            self.new = new

    class GoTo(Message):
        """The user wants to see the place in the chat where this was done."""

        def __init__(self, step_id: str, call_id: str = "") -> None:
            super().__init__()
            self.step_id = step_id
            self.call_id = call_id

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._warned = ""  # the step that was said to be needed when the user would skip it

    def on_key(self, event: events.Key) -> None:
        self.problem = self.notice = ""
        if event.key != "s":
            self._warned = ""

    def on_click(self, event: events.Click) -> None:
        spot = self._tree.spot(self.scroll_offset.y + event.y - self.gutter.top)
        if spot is None or self.folded:
            return
        again = spot == self._spot() and event.chain == 1
        self._stand(spot)
        if again and spot.task < 0:
            self.action_fold_step("space")
        elif event.chain == 2:
            self.action_go_to()

    def action_walk(self, key: str) -> None:
        spot = self._spot()
        if spot is None:
            return
        page = max(1, self.scrollable_content_region.height - 1)
        by = {"up": -1, "down": 1, "pageup": -page, "pagedown": page}.get(key, 0)
        line = self._tree.line(spot) + by
        line = {"home": 0, "end": self._tree.height - 1}.get(key, line)
        found = self._tree.spot(max(0, min(line, self._tree.height - 1)))
        if found is not None:
            self._stand(found)

    def action_fold_step(self, key: str) -> None:
        spot = self._spot()
        if spot is None:
            return
        opened = key == "right" or (
            key == "space" and not self._tree.is_open(self._tree.step_at(spot))
        )
        self._tree.fold(spot.step, opened=opened)
        self._resize()
        self._stand(spot if opened else Spot(spot.step))

    def action_go_to(self) -> None:
        spot = self._spot()
        if spot is None:
            return
        task = self._tree.task_at(spot)
        if task is not None and not task.call_id:
            self.problem = self.words("plan.not_run_yet")
            return
        step_id = self._tree.step_at(spot).step_id
        self.post_message(self.GoTo(step_id, task.call_id if task else ""))

    def action_edit_step(self) -> None:
        self._write(new=False)

    def action_add_step(self) -> None:
        self._write(new=True)

    def _write(self, *, new: bool) -> None:
        step, plan = self.cursor_step, self._tree.plan
        if step is not None and plan is not None:
            self.post_message(self.FormWanted(plan, step, new=new))

    def action_drop_step(self) -> None:
        step = self.cursor_step
        if step is not None:
            self.post_message(self.Edited(PlanEdit(op="drop", step_id=step.step_id)))

    def action_move_step(self, by: int) -> None:
        step, plan = self.cursor_step, self._tree.plan
        if step is None or plan is None:
            return
        at = self._tree.number(step.step_id) - 1 + by
        if not 0 <= at < len(plan.steps):
            return
        follows = at if by > 0 else at - 1
        after = plan.steps[follows].step_id if follows >= 0 else ""
        self._cursor = (step.step_id, "")
        self.post_message(self.Edited(PlanEdit(op="move", step_id=step.step_id, after=after)))

    def action_break_before(self) -> None:
        step = self.cursor_step
        if step is not None:
            self.post_message(self.Asked("break", step.step_id, on=not step.break_before))

    def action_retry_step(self) -> None:
        self._ask("retry")

    def action_skip_step(self) -> None:
        """What needs the step begins without it: that is said first, and a second key does it."""
        step, plan = self.cursor_step, self._tree.plan
        if step is None or plan is None:
            return
        may = step.status not in (WorkStatus.IN_PROGRESS, *_THROUGH)
        numbers = needing(plan, step) if may and self._warned != step.step_id else []
        self._warned = step.step_id if numbers else ""
        if numbers:
            needed = ", ".join(map(str, numbers))
            self.notice = self.words("plan.skip_warns", numbers=needed)
        else:
            self._ask("skip")

    def _ask(self, what: str) -> None:
        step = self.cursor_step
        if step is not None:
            self.post_message(self.Asked(what, step.step_id))


class PlanPill(Rows):
    """One line above the composer where the plan has no pane; gone while there is no plan."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plan: Plan | None = None
        self._asking: frozenset[str] = frozenset()
        self._said = ""

    def show(self, state: AgentState) -> None:
        """Take over what the state says now."""
        self._plan, self._asking = state.active_plan, asking_of(state)
        self.set_class(self._plan is not None, "-has-plan")
        self._made = None
        if self.display and self._line() != self._said:
            self.refresh()

    def _line(self) -> str:
        return one_line(self._plan, self.words, self._asking) if self._plan else ""

    def lines(self, width: int) -> list[Row]:
        self._said = self._line()
        return [[Segment(fit(f" {self._said}", width), ink(self.palette.accent))]]
