"""A page with one list to choose from, for example commands, history, or languages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from duckflow_tui.commands import AUTO, CHOICES
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import half_width
from duckflow_tui.state.pace import TaskProfile
from duckflow_tui.ui import fuzzy
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.vitals_words import profile_words
from duckflow_tui.ui.screens.dialog import Dialog
from duckflow_tui.words.catalogue import Catalogue

SHOWN: Final = 200  # most matches in the list
COUNTED: Final = 10  # choices from which on the title counts them


@dataclass(frozen=True, slots=True)
class Choice:
    """One row: the value it returns, its label, its meaning, and the key that does the same."""

    value: str
    label: str
    about: str = ""
    key: str = ""
    also: str = ""  # further words that are searched and not shown


def profile_choices(state: AgentState | None, words: Catalogue) -> list[Choice]:
    """Return the kinds of request as choices; the one in force is marked, with who chose it."""
    chosen = state.profile_choice if state is not None else None
    limit = state.pace.limit if state is not None and state.pace is not None else None
    found: list[Choice] = []
    for value in CHOICES["profile"]:
        profile = None if value == AUTO else TaskProfile(value.upper())
        mark = ""
        if profile is chosen:
            mark = words("profile.yours" if profile else "profile.auto")
        elif profile is not None and limit is not None and limit.profile is profile:
            mark = words(f"profile.now_{limit.chosen_by}")
        name = profile_words(profile, words) if profile else words("choice.profile.auto")
        found.append(Choice(value, name, mark))
    return found


class PickList(Dialog[str | None]):
    """A list that typing filters; returns the value of the chosen row, or None after Esc."""

    HINT: ClassVar[str] = "pick.hint"  # key of the text in the empty field
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "leave", show=False),
        Binding("down,ctrl+n,ctrl+r", "move(1)", show=False),
        Binding("up,ctrl+p", "move(-1)", show=False),
        Binding("pagedown", "move(10)", show=False),
        Binding("pageup", "move(-10)", show=False),
    ]

    def __init__(
        self,
        words: Catalogue,
        title: str,
        choices: Sequence[Choice],
        *,
        now: str = "",
        preview: Callable[[str], object] | None = None,
    ) -> None:
        """``now``: the value in force, which is marked. ``preview`` is called with the value at the
        cursor, and with ``now`` again if nothing is chosen.
        """
        super().__init__()
        self._now = now
        self._preview = preview
        self.heading = title
        self.words = words
        self.wanted = ""  # first text of the field
        self._width = 0  # cells of the widest listed label
        self.offer(choices)

    def offer(self, choices: Sequence[Choice]) -> None:
        """Replace the choices; the list shows them when it is next filled."""
        self._choices = {choice.value: choice for choice in choices}
        self._searched = {f"{c.label} {c.also} {c.about}": c for c in choices}

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Static(markup=False, classes="card-title")
            # An id, since the key that opens a list may be in the type-ahead of its name.
            field = Input(self.wanted, self.words(self.HINT), compact=True, classes="card-field")
            field.cursor_blink = False
            yield field
            yield OptionList(markup=False, compact=True, classes="card-list")

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False
        self._fill(self.wanted)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    def on_input_submitted(self) -> None:
        """Close the page with the value at the cursor."""
        options = self.query_one(OptionList)
        at = options.highlighted
        self.dismiss(None if at is None else options.get_option_at_index(at).id)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Preview the value at the cursor, and draw the list in the colours that result."""
        if self._preview is not None and self.is_current and event.option.id is not None:
            self._preview(event.option.id)
            options = self.query_one(OptionList)
            for at in range(options.option_count):  # draw them in the present colours
                value = options.get_option_at_index(at).id or ""
                options.replace_option_prompt_at_index(
                    at, self._row(self._choices[value], self._width)
                )

    def on_click(self, event: events.Click) -> None:
        """Close the list after a click outside it."""
        if event.widget is self:
            self.action_leave()

    def action_leave(self) -> None:
        """Close the page without a choice, and revert the preview."""
        if self._preview is not None:
            self._preview(self._now)
        self.dismiss(None)

    def action_move(self, step: int) -> None:
        """Move the cursor; single steps wrap around."""
        options = self.query_one(OptionList)
        if not options.option_count:
            return
        at = options.highlighted or 0
        last = options.option_count - 1
        options.highlighted = (
            (at + step) % (last + 1) if abs(step) == 1 else min(max(at + step, 0), last)
        )

    def _fill(self, query: str) -> None:
        """List the choices that match the query."""
        options = self.query_one(OptionList)
        options.clear_options()
        options.styles.height = len(self._choices)  # constant while the filter changes
        query = query.strip()
        rows = self._find(query) or self._find(half_width(query))
        self._width = max((cell_len(visible_line(row.label)) for row in rows), default=0)
        options.add_options([Option(self._row(row, self._width), id=row.value) for row in rows])
        values = [row.value for row in rows]
        first = values.index(self._now) if not query and self._now in values else 0
        options.highlighted = first if rows else None
        total, count = len(self._choices), ""
        if total >= COUNTED:
            found = self.words("list.place", at=len(rows), total=total)
            count = found if len(rows) < total else str(total)
        self.query_one(".card-title", Static).update(f"{self.heading}  {count}".strip())

    def _find(self, query: str) -> list[Choice]:
        """Return at most ``SHOWN`` matches: first those whose label begins with the query, in their
        order, then the best of the others.
        """
        begins = query.lower().removeprefix("/")
        first = [
            choice
            for choice in self._choices.values()
            if begins and choice.label.lower().removeprefix("/").startswith(begins)
        ]
        first.sort(key=lambda choice: choice.label.lower().removeprefix("/") != begins)
        found = fuzzy.best(query, list(self._searched), SHOWN)
        others = [self._searched[text] for text in found]
        return [*first, *(choice for choice in others if choice not in first)][:SHOWN]

    def _row(self, choice: Choice, width: int) -> Content:
        """Render a choice; ``width`` is that of the label column, in cells."""
        palette = palette_of(self)
        label = visible_line(choice.label)
        mark = "" if not self._now else f"{'✓' if choice.value == self._now else ' '} "
        gap = " " * (width - cell_len(label) + 3) if choice.about or choice.key else ""
        return Content.assemble(
            (mark, palette.accent),
            (label, palette.text),
            (gap + visible_line(choice.about), palette.quiet),
            (f"  {choice.key}" if choice.key else "", palette.quiet),
        )
