"""``/working``: the model's working memory, and the reasons for its decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
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
from duckflow_tui.ui.panes.strips import Row, fit, pad
from duckflow_tui.ui.screens.form import Form, make_writable
from duckflow_tui.ui.screens.list_source import (
    PageAction,
    StateSource,
    color_parts,
    make_row,
    render_facts,
)
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.work.notes import guess_items

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine

SHOWN_DECISIONS: Final = 50  # newest decisions; the chat has all
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
    """A form for one field of the working memory; returns its items, one from each line,
    or None.
    """

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
        """Close the form with the items, or show what is wrong."""
        text = self.query_one(TextArea).text
        lines = split_lines(text) if self._field in MOST else [text]
        items = tuple(line for given in lines if (line := " ".join(given.split())))
        if problem := find_edit_problem(self._field, items):
            self.show_problem(problem.key.rpartition(".")[2], **problem.params)
        else:
            self.dismiss(items)


class WorkingMemorySource(StateSource[str | AssistantMessage]):
    """The fields of the working memory by name, then the messages with the model's decisions,
    newest first. The details show the chosen one completely; of a decision its rationale and
    both self-checks. The user can edit five of the fields.
    """

    TITLE: ClassVar[str] = "working.title"

    def get_main_action(self, item: str | AssistantMessage) -> PageAction | None:
        """Return the action that edits a field the user may change, or that shows a decision in the
        chat.
        """
        if isinstance(item, str):
            if item not in OWN_FIELDS:
                return None
            return self.make_session_action("keys.working_edit", partial(self._edit_field, item))
        actions = item.decision.actions if item.decision is not None else ()
        return self.make_place_action([item.message_id, *(a.call_id for a in actions)])

    def _edit_field(self, name: OwnField, engine: Engine) -> None:
        """Open the form of a field."""

        def written(items: tuple[str, ...] | None) -> None:
            """Store the items and report the problem, if any."""
            if items is not None:
                self.page.report(self.words.localize(engine.working.write_field(name, items)))

        self.host.push_screen(WorkingForm(self.words, name, self._list_values(name)), written)

    def list_items(self) -> Mapping[str, str | AssistantMessage]:
        """Return the fields by name, then the newest 50 decisions by message."""
        newest = reversed(self.state.messages)
        decided = (m for m in newest if isinstance(m, AssistantMessage) and m.decision is not None)
        fields = {name: name for name in _FACTS}
        return {**fields, **{m.message_id: m for m in islice(decided, SHOWN_DECISIONS)}}

    def render_row(self, item: str | AssistantMessage, width: int) -> Row:
        """Render a field with its items, or a decision with its self-checks and rationale."""
        if isinstance(item, str):
            return self._render_field(item, width)
        signs = [_pick_sign(check, self.palette) for check in _list_checks(item)]
        decision = item.decision
        why = visible_line(decision.rationale) if decision is not None else ""
        why = why or visible_line(item.text) or self._nothing
        return make_row(width, [*signs, (f"  {why}", self.palette.text)])

    def _render_field(self, name: str, width: int) -> Row:
        """Render a field's row: name, items, and whether they are the user's or guessed."""
        palette, words = self.palette, self.words
        labels = max(cell_len(words(f"working.fact.{other}")) for other in _FACTS)
        label = pad(words(f"working.fact.{name}"), labels) + "  "
        said = " · ".join(map(visible_line, self._list_values(name)))
        guess = " · ".join(map(visible_line, self._list_guesses(name)))
        you = f"  {words('working.by_user')}" if name in self.state.memory.by_user else ""
        if not said and guess:
            you = f"  {words('working.guessed')}"
        room = max(0, width - cell_len(label) - cell_len(you))
        text = fit(said or guess or self._nothing, room)
        color = palette.text if said else palette.faint
        return color_parts([(label, palette.quiet), (text, color), (you, palette.accent)])

    def render_note(self, item: str | AssistantMessage, width: int) -> list[Row]:
        """Render a remark while the working memory is empty and no decision was made."""
        if self.state.memory != WorkingMemory() or len(self.list_items()) > len(_FACTS):
            return []
        return [*self.wrap_text(self.words("working.none"), width), []]

    def render_detail(self, item: str | AssistantMessage, width: int, room: int) -> list[Row]:
        """Render all items of a field and who wrote them, or the reasons for a decision."""
        if isinstance(item, AssistantMessage):
            return render_facts(self._list_reasons(item), width, self.palette)
        palette, values, memory = self.palette, self._list_values(item), self.state.memory
        label = self.words(f"working.fact.{item}")
        numbers = range(1, len(values) + 1)
        if item == "decision_log":
            numbers = numbers[::-1]
        said = [f"{n} {visible_line(v)}" for n, v in zip(numbers, values, strict=True)]
        guesses = () if values else self._list_guesses(item)
        if guesses:
            said = list(map(visible_line, guesses))
        elif len(values) < 2:
            said = [visible_line(values[0]) if values else self._nothing]
        facts = [("" if at else label, text, palette.quiet) for at, text in enumerate(said)]
        told = "guessed_by" if guesses else ""
        if item in memory.by_user:
            told = "untold" if item in memory.untold else "by_user"
        if told:
            by = self.words("working.written_by")
            facts.append((by, self.words(f"working.{told}"), palette.accent))
        return render_facts(facts, width, palette)

    def _list_reasons(self, message: AssistantMessage) -> list[tuple[str, str, str]]:
        """Return the facts about a decision: rationale, self-checks, confidence, calls."""
        words, palette, decision = self.words, self.palette, message.decision
        if decision is None:
            return []
        why = make_visible(decision.rationale) or self._nothing
        facts: list[tuple[str, str, str]] = [(words("working.rationale"), why, palette.text)]
        names = ("goal_check", "constraint_check")
        for key, check in zip(names, _list_checks(message), strict=True):
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
        """Return facts of the session that stand in for a field that is empty."""
        return guess_items(self.state).get(name, ()) if name in OWN_FIELDS else ()

    def _list_values(self, name: str) -> tuple[str, ...]:
        """Return the items of a field, newest first for the decision log."""
        value: str | tuple[str, ...] = getattr(self.state.memory, name)
        values = (value,) if isinstance(value, str) else value
        if name == "decision_log":
            values = values[::-1]
        if name not in OWN_FIELDS:  # the app's own notes, also read by the AI
            values = tuple(map(self.words.name_operations, values))
        return tuple(value for value in values if value)

    @property
    def _nothing(self) -> str:
        """The words for an empty field."""
        return self.words("working.nothing")


def _list_checks(message: AssistantMessage) -> Sequence[SelfCheck]:
    """Return the two self-checks of a message's decision; empty without one."""
    decision = message.decision
    return (decision.goal_consistency, decision.constraint_check) if decision is not None else ()


def _pick_sign(check: SelfCheck, palette: Palette) -> tuple[str, str]:
    """Return the sign for a self-check, and its colour."""
    if check.ok is None:
        return "·", palette.faint
    return ("✓", palette.good) if check.ok else ("✗", palette.bad)
