"""A form for a requirement: its words, its priority, and its check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, get_args

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from duckflow_tui.state.decision import Check, CheckKind
from duckflow_tui.state.goal import RequirementItem
from duckflow_tui.ui.panes.rows import Rows
from duckflow_tui.ui.panes.strips import Row, ink
from duckflow_tui.ui.screens.form import Form, make_writable
from duckflow_tui.words.catalogue import Catalogue

_GAP: Final = 3  # cells between two options
KINDS: Final[tuple[CheckKind, ...]] = get_args(CheckKind)


@dataclass(frozen=True, slots=True)
class RequirementDraft:
    """A requirement as entered in the form."""

    requirement: str
    priority: int
    check: Check


class OneOf(Rows, can_focus=True):
    """A row of options of which one is chosen, by ← and → or a click."""

    BINDINGS = [  # noqa: RUF012
        Binding("left", "go(-1)", show=False),
        Binding("right,space", "go(1)", show=False),
    ]

    class Changed(Message):
        """Posted when another option is chosen."""

    def __init__(self, options: Sequence[str], at: int, *, id: str) -> None:
        super().__init__(id=id)
        self._options = list(options)
        self.at = at

    def action_go(self, by: int) -> None:
        """Choose the next option, or with -1 the one before."""
        self.at = (self.at + by) % len(self._options)
        self.invalidate()
        self.post_message(self.Changed())

    def watch_has_focus(self, has_focus: bool) -> None:
        self.invalidate()

    def on_click(self, event: events.Click) -> None:
        """Choose the clicked option."""
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


class RequirementForm(Form[RequirementDraft]):
    """The form; returns the requirement as entered, or None."""

    LABELS: ClassVar[str] = "ledger.form"

    def __init__(self, words: Catalogue, item: RequirementItem | None) -> None:
        """``item``: the requirement to change; None for a new one."""
        title = words("ledger.form.change" if item else "ledger.form.new")
        super().__init__(words, title, "#form-words")
        self._item = item
        self._text = make_writable(item.requirement) if item else ""
        self._value = make_writable(item.check.value, one_line=True) if item else ""

    def compose_fields(self) -> ComposeResult:
        words, item = self.words, self._item
        priorities = [words(f"ledger.priority.{n}") for n in (1, 2, 3)]
        kinds = [words(f"ledger.check.{kind}") for kind in KINDS]
        check = item.check if item else Check()
        yield self.make_label("requirement")
        yield TextArea(self._text, id="form-words", classes="form-text")
        yield self.make_label("priority")
        yield OneOf(priorities, (item.priority if item else 1) - 1, id="form-priority")
        yield self.make_label("check")
        yield OneOf(kinds, KINDS.index(check.kind), id="form-kind")
        yield Static("", markup=False, id="form-means", classes="form-label form-means")
        yield Input(self._value, compact=True, id="form-value", classes="card-field")

    def on_mount(self) -> None:
        self.on_one_of_changed()

    def on_one_of_changed(self) -> None:
        """Show what the value of a check of this kind means."""
        self.query_one("#form-means", Static).update(self.words(f"ledger.value.{self._kind}"))

    @property
    def _kind(self) -> CheckKind:
        """The chosen kind of check."""
        return KINDS[self.query_one("#form-kind", OneOf).at]

    def apply(self) -> None:
        """Close the form with the entered requirement, or show which entry is missing."""
        text = " ".join(self.query_one(TextArea).text.split())
        value = self.query_one(Input).value.strip()
        if not text:
            self.show_problem("no_words")
        elif self._kind != "judgement" and not value:
            self.show_problem("no_value")
        elif self._kind == "file_contains" and not all(map(str.strip, _parted(value))):
            self.show_problem("no_text")
        else:
            priority = self.query_one("#form-priority", OneOf).at + 1
            self.dismiss(RequirementDraft(text, priority, self._check(value)))

    def _check(self, value: str) -> Check:
        """Return the entered check; an untouched one is returned itself, because the field may not
        show its value exactly.
        """
        item = self._item
        if item is not None and item.check.kind == self._kind and value == self._value.strip():
            return item.check
        return Check(kind=self._kind, value=value)


def _parted(value: str) -> tuple[str, str]:
    """Split ``path: text``, the value of a check for a file's content."""
    path, _, text = value.partition(": ")
    return path, text
