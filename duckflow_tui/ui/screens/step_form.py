"""A form for a step of a plan: name, description, and the steps it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.widgets import Input, TextArea

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.plan import Plan, PlanEdit, Step, find_step
from duckflow_tui.ui.screens.form import Form, make_writable
from duckflow_tui.words.catalogue import Catalogue


class StepForm(Form[PlanEdit]):
    """The form; returns the edit of the plan, or None where nothing changed."""

    LABELS: ClassVar[str] = "form"

    def __init__(self, words: Catalogue, plan: Plan, step: Step, *, new: bool) -> None:
        """``step``: the step to change, or with ``new`` the one after which a step is added."""
        number, name = plan.steps.index(step) + 1, visible_line(step.name)
        title = words("form.new" if new else "form.change", number=number, name=name)
        super().__init__(words, title, "#form-name")
        self._plan = plan
        self._step = step
        self._new = new
        self._step_name = "" if new else make_writable(step.name, one_line=True)
        self._description = "" if new else make_writable(step.description)
        self._needs = "" if new else ", ".join(_numbers(plan, step.depends_on))

    def compose_fields(self) -> ComposeResult:
        yield self.make_label("name")
        yield Input(self._step_name, compact=True, id="form-name", classes="card-field")
        yield self.make_label("description")
        yield TextArea(self._description, id="form-description", classes="form-text")
        yield self.make_label("needs")
        yield Input(self._needs, compact=True, id="form-needs", classes="card-field")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go from the name to the next field; after the last field apply the form."""
        if event.input.id == "form-name":
            event.prevent_default()
            event.stop()
            self.focus_next()

    def apply(self) -> None:
        """Close the form with the edit, or show which entry is wrong."""
        name = self.query_one("#form-name", Input).value.strip()
        description = self.query_one(TextArea).text.strip("\n")
        needs = self.query_one("#form-needs", Input).value
        if not name:
            self.show_problem("no_name")
            return
        ids: list[str] = []
        for part in needs.replace("、", ",").replace(";", ",").split(","):
            if not part.strip():
                continue
            found = find_step(self._plan, part)
            if found is None:
                self.show_problem("no_step", given=part.strip())
                return
            ids.append(found.step_id)
        self.dismiss(self._edit(name, description, tuple(dict.fromkeys(ids))))

    def _edit(self, name: str, description: str, needs: tuple[str, ...]) -> PlanEdit | None:
        """Return the edit for these values; None where nothing changed."""
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
            name=name if name != self._step_name else None,
            description=description if description != self._description else None,
            depends_on=needs if set(needs) != set(self._step.depends_on) else None,
        )
        unchanged = edit.name is None and edit.description is None and edit.depends_on is None
        return None if unchanged else edit


def _numbers(plan: Plan, needs: Sequence[str]) -> list[str]:
    """Return the numbers of the needed steps as text."""
    return [str(number) for number, step in enumerate(plan.steps, 1) if step.step_id in needs]
