"""``/working``: what the model carries from request to request, and why it decided as it did."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.app import ComposeResult
from textual.widgets import Static, TextArea

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.conversation import AssistantMessage
from duckflow_tui.state.decision import SelfCheck
from duckflow_tui.state.lines import split_lines
from duckflow_tui.state.memory import (
    ITEM,
    LINE,
    MOST,
    OWN_FIELDS,
    OwnField,
    WorkingMemory,
    find_edit_problem,
)
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.operation_blocks import call_words
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad, rows_of
from duckflow_tui.ui.screens.form import Form, make_writable
from duckflow_tui.ui.screens.list_page import PageAction, StateSource, render_facts
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.work.notes import guess_items

SHOWN_DECISIONS: Final = 50  # the newest; the chat has the others
_FACTS: Final = (
    "goal",
    "why_now",
    "constraints",
    "plan_brief",
    "open_questions",
    "last_delta",
    "decision_log",
)


class WorkingForm(Form[tuple[str, ...]]):
    """Gives back the items of one field as they were written, each from a line of its own."""

    LABELS: ClassVar[str] = "working.form"

    def __init__(self, words: Catalogue, name: OwnField, items: Sequence[str]) -> None:
        super().__init__(words, words(f"working.fact.{name}"), "#form-items")
        self._field: OwnField = name
        self._text = "\n".join(make_writable(item, one_line=True) for item in items)

    def compose_fields(self) -> ComposeResult:
        most, several = MOST.get(self._field, 1), self._field in MOST
        label = self.words(
            "working.form.items" if several else "working.form.line",
            most=most,
            longest=ITEM if several else LINE,
        )
        yield Static(label, markup=False, classes="form-label")
        yield TextArea(self._text, id="form-items", classes="form-text")

    def on_mount(self) -> None:
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)

    def apply(self) -> None:
        text = self.query_one(TextArea).text
        lines = split_lines(text) if self._field in MOST else [text]
        items = tuple(line for given in lines if (line := " ".join(given.split())))
        if problem := find_edit_problem(self._field, items):
            self.show_problem(problem.key.rpartition(".")[2], **problem.params)
        else:
            self.dismiss(items)


class WorkingMemorySource(StateSource):
    """The fields of the working memory, then the model's decisions, the newest first. Each is one
    row; the chosen one is shown whole below: of a decision its rationale and both checks. Five of
    the fields are the user's to write, too.
    """

    def get_main_action(self, row_id: str) -> PageAction | None:
        """A field of the user's is changed; a decision leads to its place in the chat."""
        if row_id in OWN_FIELDS:
            return self.make_action("keys.working_edit", partial(self._edit_field, row_id))
        message = self._find_message(row_id)
        if message is None or message.decision is None:
            return None
        refs = [message.message_id, *(a.call_id for a in message.decision.actions)]
        return self.make_action("keys.plan_go_to", lambda: self.go_to_place(refs))

    def _edit_field(self, name: OwnField) -> None:
        engine = self.host.session.acting()
        if engine is not None:

            def written(items: tuple[str, ...] | None) -> None:
                if items is not None:
                    self.page.report(self.words.localize(engine.working.write_field(name, items)))

            self.host.push_screen(WorkingForm(self.words, name, self._list_values(name)), written)

    def get_title(self) -> str:
        return self.words("working.title")

    def list_ids(self) -> Sequence[str]:
        return [*_FACTS, *(message.message_id for message in self._list_decisions())]

    def render_row(self, row_id: str, width: int) -> Row:
        palette, message = self.palette, self._find_message(row_id)
        if message is None or message.decision is None:
            label = pad(self.words(f"working.fact.{row_id}"), self._measure_labels()) + "  "
            said = " · ".join(map(visible_line, self._list_values(row_id)))
            guess = " · ".join(map(visible_line, self._list_guesses(row_id)))
            color = palette.text if said else palette.faint
            you = (
                f"  {self.words('working.by_user')}" if row_id in self.state.memory.by_user else ""
            )
            if not said and guess:
                you = f"  {self.words('working.guessed')}"
            said = said or guess or self._nothing
            room = max(0, width - cell_len(label) - cell_len(you))
            row = [Segment(label, ink(palette.quiet)), Segment(fit(said, room), ink(color))]
            return [*row, Segment(you, ink(palette.accent))] if you else row
        row: Row = []
        for check in (message.decision.goal_consistency, message.decision.constraint_check):
            sign, color = _pick_sign(check, palette)
            row.append(Segment(sign, ink(color)))
        why = visible_line(message.decision.rationale) or visible_line(message.text)
        room = max(0, width - 4)
        return [*row, Segment(f"  {fit(why or self._nothing, room)}", ink(palette.text))]

    def render_note(self, row_id: str, width: int) -> list[Row]:
        if self.state.memory != WorkingMemory() or self._list_decisions():
            return []
        return [*rows_of([(self.words("working.none"), ink(self.palette.quiet))], width), []]

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        message = self._find_message(row_id)
        if message is not None:
            return render_facts(self._list_reasons(message), width, self.palette)
        palette, values, memory = self.palette, self._list_values(row_id), self.state.memory
        label = self.words(f"working.fact.{row_id}")
        numbers = range(1, len(values) + 1)
        if row_id == "decision_log":
            numbers = numbers[::-1]
        said = [f"{n} {visible_line(v)}" for n, v in zip(numbers, values, strict=True)]
        guesses = () if values else self._list_guesses(row_id)
        if guesses:
            said = list(map(visible_line, guesses))
        elif len(values) < 2:
            said = [visible_line(values[0]) if values else self._nothing]
        facts = [("" if at else label, text, palette.quiet) for at, text in enumerate(said)]
        if guesses:
            told = self.words("working.guessed_by")
            facts.append((self.words("working.written_by"), told, palette.accent))
        if row_id in memory.by_user:
            told = self.words("working.untold" if row_id in memory.untold else "working.by_user")
            facts.append((self.words("working.written_by"), told, palette.accent))
        return render_facts(facts, width, palette)

    def _list_reasons(self, message: AssistantMessage) -> list[tuple[str, str, str]]:
        words, palette, decision = self.words, self.palette, message.decision
        if decision is None:
            return []
        why = make_visible(decision.rationale) or self._nothing
        facts: list[tuple[str, str, str]] = [(words("working.rationale"), why, palette.text)]
        checks = (decision.goal_consistency, decision.constraint_check)
        for key, check in zip(("goal_check", "constraint_check"), checks, strict=True):
            sign, color = _pick_sign(check, palette)
            said = {True: "yes", False: "no", None: "not_stated"}[check.ok]
            reason = f" · {visible_line(check.reason)}" if check.reason.strip() else ""
            said = f"{sign} {words(f'working.{said}')}{reason}"
            facts.append((words(f"working.{key}"), said, color))
        if decision.confidence is not None:
            said = f"{decision.confidence:.2f}"
            facts.append((words("working.confidence"), said, palette.quiet))
        for at, action in enumerate(decision.actions):
            label = "" if at else words("working.actions")
            said = call_words(action.operation, action.args, words)
            facts.append((label, said, palette.quiet))
        return facts

    def _list_guesses(self, name: str) -> tuple[str, ...]:
        """The facts in place of a field that nobody has stated."""
        return guess_items(self.state).get(name, ()) if name in OWN_FIELDS else ()

    def _list_values(self, name: str) -> tuple[str, ...]:
        """The values of the working memory under this name, of the log the newest first; empty for
        nothing.
        """
        value: str | tuple[str, ...] = getattr(self.state.memory, name)
        values = (value,) if isinstance(value, str) else value
        if name == "decision_log":
            values = values[::-1]
        if name not in OWN_FIELDS:  # the app's own notes, also read by the AI
            values = tuple(map(self.words.name_operations, values))
        return tuple(value for value in values if value)

    @property
    def _nothing(self) -> str:
        return self.words("working.nothing")

    def _measure_labels(self) -> int:
        """Cells of the longest name of a field."""
        return max(cell_len(self.words(f"working.fact.{name}")) for name in _FACTS)

    def _list_decisions(self) -> list[AssistantMessage]:
        newest = reversed(self.state.messages)
        decided = (m for m in newest if isinstance(m, AssistantMessage) and m.decision is not None)
        return list(islice(decided, SHOWN_DECISIONS))

    def _find_message(self, name: str) -> AssistantMessage | None:
        return next((m for m in self._list_decisions() if m.message_id == name), None)


def _pick_sign(check: SelfCheck, palette: Palette) -> tuple[str, str]:
    """A check as a sign, which says the same as the colour."""
    if check.ok is None:
        return "·", palette.faint
    return ("✓", palette.good) if check.ok else ("✗", palette.bad)
