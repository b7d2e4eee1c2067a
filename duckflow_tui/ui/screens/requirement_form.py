"""Write a requirement: its words, how much it counts, and how it is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, get_args

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from duckflow_tui.safety.safe_text import is_safe, visible, visible_line
from duckflow_tui.state.decision import Check, CheckKind
from duckflow_tui.state.goal import RequirementItem
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.panes.goal import priority_label
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.strips import Row, ink
from duckflow_tui.ui.screens.ledger import Part
from duckflow_tui.words.catalogue import Catalogue

_GAP: Final = 3  # cells between two options
KINDS: Final[tuple[CheckKind, ...]] = get_args(CheckKind)


@dataclass(frozen=True, slots=True)
class Draft:
    """A requirement as it was written."""

    requirement: str
    priority: int
    check: Check


class OneOf(Rows, can_focus=True):
    """A row of words of which one is chosen; ← and → go along it."""

    BINDINGS = [  # noqa: RUF012
        Binding("left", "go(-1)", show=False),
        Binding("right,space", "go(1)", show=False),
    ]

    class Changed(Message):
        """Another one is chosen."""

    def __init__(self, options: Sequence[str], at: int, *, id: str) -> None:
        super().__init__(id=id)
        self._options = list(options)
        self.at = at

    def action_go(self, by: int) -> None:
        self.at = (self.at + by) % len(self._options)
        self.invalidate()
        self.post_message(self.Changed())

    def watch_has_focus(self, has_focus: bool) -> None:
        self.invalidate()

    def on_click(self, event: events.Click) -> None:
        end = 0
        for at, option in enumerate(self._options):
            end += cell_len(option) + 2 + _GAP
            if event.x < end:
                self.at = at
                self.invalidate()
                self.post_message(self.Changed())
                return

    def lines(self, width: int) -> list[Row]:
        palette = self.palette
        row: Row = []
        for at, option in enumerate(self._options):
            here = at == self.at
            on = palette.bars if here and self.has_focus else None
            colour = palette.accent if here else palette.quiet
            row.append(Segment(f"{'●' if here else '○'} ", ink(colour, on=on)))
            row.append(Segment(option, ink(colour, on=on, bold=here)))
            row.append(Segment(" " * _GAP, ink(None)))
        return [row]


class RequirementForm(ModalScreen[Draft | None]):
    """Gives back what was written, or None where Esc left it."""

    def __init__(
        self, words: Catalogue, item: RequirementItem | None, part: Part = "words"
    ) -> None:
        """Of this requirement, or of a new one; ``part`` is where writing begins."""
        super().__init__()
        self._words = words
        self._item = item
        self._part: Part = part
        self._text = _clean(item.requirement) if item else ""
        self._value = _clean(item.check.value, one_line=True) if item else ""

    def compose(self) -> ComposeResult:
        words, item = self._words, self._item
        title = words("ledger.form.change" if item else "ledger.form.new")
        priorities = [f"{priority_label(n)} {words(f'ledger.priority.{n}')}" for n in (1, 2, 3)]
        kinds = [words(f"ledger.check.{kind}") for kind in KINDS]
        check = item.check if item else Check()
        with Vertical(classes="card"):
            yield Static(title, markup=False, classes="card-title")
            yield self._label("requirement")
            yield TextArea(self._text, id="form-words", classes="form-text")
            yield self._label("priority")
            yield OneOf(priorities, (item.priority if item else 1) - 1, id="form-priority")
            yield self._label("check")
            yield OneOf(kinds, KINDS.index(check.kind), id="form-kind")
            yield Static("", markup=False, id="form-means", classes="form-label form-means")
            yield Input(self._value, compact=True, id="form-value", classes="card-field")
            yield Static("", markup=False, classes="form-problem")
            hints = [f"{key.label} {words(key.text)}" for key in keys_of("ledger_form")]
            yield Static("   ".join(hints), markup=False, classes="form-keys")

    def on_mount(self) -> None:
        self.query_one(Input).cursor_blink = self.query_one(TextArea).cursor_blink = False
        self.query_one(Input).select_on_focus = False
        self.query_one(".form-problem").display = False
        self._explain()
        self.query_one("#form-words" if self._part == "words" else "#form-kind").focus()

    def on_key(self, event: events.Key) -> None:
        for key in keys_of("ledger_form"):
            if event.key in key.keys:
                event.stop()
                event.prevent_default()
                if key.action == "apply":
                    self._apply()
                else:
                    self.dismiss(None)

    def on_one_of_changed(self) -> None:
        self._explain()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._apply()

    @property
    def _kind(self) -> CheckKind:
        return KINDS[self.query_one("#form-kind", OneOf).at]

    def _explain(self) -> None:
        """What the value of a check of this kind is."""
        self.query_one("#form-means", Static).update(self._words(f"ledger.value.{self._kind}"))

    def _label(self, name: str) -> Static:
        return Static(self._words(f"ledger.form.{name}"), markup=False, classes="form-label")

    def _apply(self) -> None:
        text = " ".join(self.query_one(TextArea).text.split())
        value = self.query_one(Input).value.strip()
        if not text:
            self._tell("no_words")
            return
        if self._kind != "judgement" and not value:
            self._tell("no_value")
            return
        if self._kind == "file_contains" and not all(map(str.strip, _parted(value))):
            self._tell("no_text")
            return
        priority = self.query_one("#form-priority", OneOf).at + 1
        self.dismiss(Draft(text, priority, self._check(value)))

    def _check(self, value: str) -> Check:
        """What was not touched stays as it was, also where the field could not show it."""
        item = self._item
        if item is not None and item.check.kind == self._kind and value == self._value.strip():
            return item.check
        return Check(kind=self._kind, value=value)

    def _tell(self, problem: str) -> None:
        line = self.query_one(".form-problem", Static)
        line.update(self._words(f"ledger.form.{problem}"))
        line.display = True


class WaiveForm(ModalScreen[str | None]):
    """Why a requirement is not wanted any more; gives back the reason, or None for Esc."""

    def __init__(self, words: Catalogue, item: RequirementItem) -> None:
        super().__init__()
        self._words = words
        self._item = item

    def compose(self) -> ComposeResult:
        words = self._words
        with Vertical(classes="card card-small"):
            yield Static(words("ledger.waive.title"), markup=False, classes="card-title")
            yield Static(visible_line(self._item.requirement), markup=False, classes="card-text")
            yield Static(words("ledger.waive.because"), markup=False, classes="form-label")
            field = Input("", compact=True, classes="card-field")
            field.cursor_blink = False
            yield field
            yield Static(words("ledger.waive.hint"), markup=False, classes="form-keys")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_key(self, event: events.Key) -> None:
        if event.key in ("escape", "ctrl+c"):
            event.stop()
            event.prevent_default()
            self.dismiss(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value.strip())


def _parted(value: str) -> tuple[str, str]:
    path, _, text = value.partition(": ")
    return path, text


def _clean(text: str, *, one_line: bool = False) -> str:
    """What a field can show as it is: hidden characters become visible ones."""
    if one_line:
        return text if is_safe(text) and "\n" not in text else visible_line(text)
    return text if is_safe(text) else visible(text)
