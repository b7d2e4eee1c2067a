"""Data classes that describe an open question in the same way for gates and cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.cells import cell_len
from rich.text import Text

from duckflow_tui.state.gates import Card, Gate
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.request import QuestionRow
from duckflow_tui.ui.panes.strips import fit

Asked = Gate | Card

REFUSES = "n"  # the key that says no to every question


@dataclass(frozen=True, slots=True)
class Title:
    """A title such as ``Edit src/shop/pricing.py  +3 −2  1 of 3`` or ``Plan  snake game``. In a
    narrow frame the ``subject`` is cut first; ``keep`` says which end of it stays. A ``named``
    subject is set apart from the heading.
    """

    heading: str
    subject: str
    rest: str = ""
    keep: Literal["start", "end"] = "start"
    named: bool = False

    def render(self, palette: Palette, room: int) -> tuple[Text, bool]:
        """Return the title in at most ``room`` cells, and whether its subject was cut."""
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
    """A text field that belongs to an answer: its placeholder ``asked``, and the keys that
    end it.
    """

    asked: str
    hint: str
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """A key of a question with its effect: an answer, or where ``acts`` is set an action of the
    widget that answers nothing.
    """

    key: str  # as it is printed
    answer: str  # a ``GateChoice``, or the action of a ``CardOption``
    text: str  # its effect in words
    effect: str = ""
    acts: str = ""
    leads: bool = False
    consents: bool = False  # lets something begin: unseen lines are asked about first (R14)
    widens: bool = False  # allows more than this call: its scope is shown first
    takes_remarks: bool = False  # the remarks go with it, in place of a text
    entry: TextEntry | None = None


@dataclass(frozen=True, slots=True)
class QuestionSpec:
    """A gate or card as it is shown now: texts, rows and keys."""

    title: Title
    headline: QuestionRow  # the title as a row, where no border has room for it
    rows: Sequence[QuestionRow]
    choices: Sequence[AnswerChoice]
    hint: str  # further keys, shown while the keys act
    hint_at_row: str = ""  # the same while a row has the cursor; empty: no other
    leads_here: str = "gate.hint"  # entry that names the key which focuses the question
    path: QuestionRow | None = None  # the full subject, shown where the title cuts it
    arguments: Sequence[QuestionRow] = ()
    details: Sequence[QuestionRow] = ()  # all facts, where the user asked for them
    prompt: str = ""  # shown above the choices
    unlisted: Sequence[AnswerChoice] = ()  # choices whose keys are not shown
    acts: Mapping[str, str] = field(default_factory=dict[str, str])  # actions by key
    at_once: frozenset[str] = frozenset()  # keys that decide nothing and so need not wait
    blocks: str = ""  # entry that says why no consent is possible now

    def find_choice(self, key: str) -> AnswerChoice | None:
        """Return the choice of this key; None where it has none."""
        return next((c for c in (*self.choices, *self.unlisted) if c.key == key), None)


def id_of(asked: Asked | None) -> str:
    """The id of a gate or card; empty for none."""
    match asked:
        case Gate(gate_id=key) | Card(card_id=key):
            return key
        case None:
            return ""
