"""Write a step of the plan: its name, what it is to do, and which steps it needs first."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from duckflow_tui.safety.safe_text import is_safe, visible, visible_line
from duckflow_tui.state.plan import Plan, PlanEdit, Step, find_step
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.words.catalogue import Catalogue


class StepForm(ModalScreen[PlanEdit | None]):
    """Gives back the one edit that was written, or None where nothing changed or Esc left it."""

    def __init__(self, words: Catalogue, plan: Plan, step: Step, *, new: bool) -> None:
        """Of ``step``, or with ``new`` of a step that comes right after it."""
        super().__init__()
        self._words = words
        self._plan = plan
        self._step = step
        self._new = new
        self._name = "" if new else _clean(step.name, one_line=True)
        self._description = "" if new else _clean(step.description)
        self._needs = "" if new else ", ".join(_numbers(plan, step.depends_on))

    def compose(self) -> ComposeResult:
        number = self._plan.steps.index(self._step) + 1
        key = "form.new" if self._new else "form.change"
        name = visible_line(self._step.name)
        with Vertical(classes="card"):
            yield Static(
                self._words(key, number=number, name=name), markup=False, classes="card-title"
            )
            yield self._label("name")
            yield Input(self._name, compact=True, id="form-name", classes="card-field")
            yield self._label("description")
            yield TextArea(self._description, id="form-description", classes="form-text")
            yield self._label("needs")
            yield Input(self._needs, compact=True, id="form-needs", classes="card-field")
            yield Static("", markup=False, classes="form-problem")
            hints = [f"{key.label} {self._words(key.text)}" for key in keys_of("step_form")]
            yield Static("   ".join(hints), markup=False, classes="form-keys")

    def on_mount(self) -> None:
        for field in self.query(Input).results(Input):
            field.cursor_blink = field.select_on_focus = False
        self.query_one(TextArea).cursor_blink = False
        self.query_one(".form-problem").display = False
        self.query_one("#form-name", Input).focus()

    def on_key(self, event: events.Key) -> None:
        for key in keys_of("step_form"):
            if event.key in key.keys:
                event.stop()
                event.prevent_default()
                if key.action == "apply":
                    self._apply()
                else:
                    self.dismiss(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input.id == "form-name":
            self.focus_next()
        else:
            self._apply()

    def _label(self, name: str) -> Static:
        return Static(self._words(f"form.{name}"), markup=False, classes="form-label")

    def _apply(self) -> None:
        name = self.query_one("#form-name", Input).value.strip()
        description = self.query_one(TextArea).text.strip("\n")
        needs = self.query_one("#form-needs", Input).value
        if not name:
            self._tell(self._words("form.no_name"))
            return
        ids: list[str] = []
        for part in needs.replace("、", ",").replace(";", ",").split(","):
            if not part.strip():
                continue
            found = find_step(self._plan, part)
            if found is None:
                self._tell(self._words("form.no_step", given=part.strip()))
                return
            ids.append(found.step_id)
        self.dismiss(self._edit(name, description, tuple(dict.fromkeys(ids))))

    def _edit(self, name: str, description: str, needs: tuple[str, ...]) -> PlanEdit | None:
        if self._new:
            return PlanEdit(
                op="add",
                after=self._step.step_id,
                name=name,
                description=description,
                depends_on=needs,
            )
        edit = PlanEdit(
            op="change",
            step_id=self._step.step_id,
            name=name if name != self._name else None,
            description=description if description != self._description else None,
            depends_on=needs if set(needs) != set(self._step.depends_on) else None,
        )
        unchanged = edit.name is None and edit.description is None and edit.depends_on is None
        return None if unchanged else edit

    def _tell(self, problem: str) -> None:
        line = self.query_one(".form-problem", Static)
        line.update(problem)
        line.display = True


def _numbers(plan: Plan, needs: Sequence[str]) -> list[str]:
    return [str(number) for number, step in enumerate(plan.steps, 1) if step.step_id in needs]


def _clean(text: str, *, one_line: bool = False) -> str:
    """What a field can show as it is: hidden characters become visible ones."""
    if one_line:
        return text if is_safe(text) and "\n" not in text else visible_line(text)
    return text if is_safe(text) else visible(text)
