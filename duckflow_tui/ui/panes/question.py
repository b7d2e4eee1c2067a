"""The description of a question that waits for the user, the same for gates and cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.cells import cell_len
from rich.text import Text

from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.request import QuestionRow
from duckflow_tui.ui.panes.strips import fit

REFUSES = "n"  # the key that says no to every question


@dataclass(frozen=True, slots=True)
class Title:
    """``Edit src/shop/pricing.py  +3 −2  1 of 3``, ``Plan  snake game``: where room is short the
    ``subject`` is cut first, and keeps its start or its end. A ``named`` subject stands apart from
    the heading.
    """

    heading: str
    subject: str
    rest: str = ""
    keep: Literal["start", "end"] = "start"
    named: bool = False

    def render(self, palette: Palette, room: int) -> tuple[Text, bool]:
        """The title in at most ``room`` cells, and whether its subject is cut."""
        heading = Text(fit(self.heading, room), style=f"bold {palette.accent}", no_wrap=True)
        joint = "  " if self.named else " "
        spare = max(0, room - heading.cell_len - cell_len(self.rest) - len(joint))
        shown = fit(self.subject, spare, keep=self.keep)
        if self.subject and (spare > 3 or not self.named):
            style = "" if self.named else f"bold {palette.accent}"
            heading.append(f"{joint}{shown}", style=style)
        heading.append(self.rest, style=f"not bold {palette.quiet}")
        return heading, shown != self.subject


@dataclass(frozen=True, slots=True)
class TextEntry:
    """A line of text that goes with an answer: what is ``asked`` for, and the keys that end it."""

    asked: str
    hint: str
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """Something to do at a question, and the key for it.

    It is an answer, or where it ``acts`` this action of the widget, which answers nothing yet.
    """

    key: str  # as it is printed
    answer: str  # a ``GateChoice``, or the action of a ``CardOption``
    text: str  # what it does, in words
    effect: str = ""
    acts: str = ""
    leads: bool = False
    consents: bool = False  # something begins: what was not on screen is asked about first (R14)
    widens: bool = False  # more than this is allowed: the scope is shown first
    takes_remarks: bool = False  # the remarks go with it, in place of a text
    entry: TextEntry | None = None


@dataclass(frozen=True, slots=True)
class QuestionSpec:
    """A gate or a card as it is asked now."""

    title: Title
    headline: QuestionRow  # the title as a row, where no border has room for it
    rows: Sequence[QuestionRow]
    choices: Sequence[AnswerChoice]
    hint: str  # the keys beside the choices, while they act
    leads_here: str = "gate.hint"  # entry that says which key leads to it
    path: QuestionRow | None = None  # what the title is about, where that is cut there
    arguments: Sequence[QuestionRow] = ()
    details: Sequence[QuestionRow] = ()  # everything about it, where that was asked for
    prompt: str = ""  # stands above the choices
    unlisted: Sequence[AnswerChoice] = ()  # keys that act and are not named beside the others
    acts: Mapping[str, str] = field(default_factory=dict[str, str])  # by key: what answers nothing
    blocks: str = ""  # entry that says why nothing can be consented to now
    folds: bool = True  # rows may be cut to a line each

    def find_choice(self, key: str) -> AnswerChoice | None:
        """The choice that this key takes."""
        return next((c for c in (*self.choices, *self.unlisted) if c.key == key), None)
