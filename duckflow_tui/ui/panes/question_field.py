"""Writing at a question: the text of an answer, and remarks on a proposal."""

from __future__ import annotations

from collections.abc import Callable

from duckflow_tui.state.gates import Card, Gate, Remark
from duckflow_tui.state.plan import Plan
from duckflow_tui.ui.panes.card_words import REMARKED, list_step_remarks, place_remarks
from duckflow_tui.ui.panes.diff_document import DiffDocument
from duckflow_tui.ui.panes.key_guard import InlineField
from duckflow_tui.ui.panes.question import AnswerChoice


class AnswerField(InlineField):
    """The line in which the text of an answer or a remark on a step is written; hidden while
    nothing is.
    """

    choice: AnswerChoice | None = None  # the answer whose text is written
    step: str = ""  # the id of the step whose remark is written

    def open_for(
        self,
        placeholder: str,
        text: str = "",
        *,
        choice: AnswerChoice | None = None,
        step: str = "",
    ) -> None:
        """Show the line with this text, and focus it; ``choice`` or ``step`` is what it is for."""
        self.choice, self.step = choice, step
        self.placeholder, self.value = placeholder, text
        self.cursor_position = len(text)
        self.display = True
        self.focus()

    def clear_and_hide(self) -> None:
        """Forget the text and what it was for, and hide the line."""
        self.choice, self.step, self.value = None, "", ""
        self.display = False


class ProposalRemarks:
    """The user's remarks on the proposal that a question is about: on lines of a diff, or on steps
    of a plan.
    """

    def __init__(self, publish: Callable[[str, tuple[Remark, ...]], object]) -> None:
        """``publish`` gets the id of the proposal and all remarks whenever they have changed."""
        self._publish = publish
        #: Returns the remarks stored for a proposal in an earlier run, and deletes all others.
        self.load_stored: Callable[[str], tuple[Remark, ...]] | None = None
        self.document = DiffDocument()  # the changes of the gate, with the remarks on their lines
        self.by_step: dict[str, str] = {}  # by the id of a step
        self.plan: Plan | None = None  # of the card
        self._asked: Gate | Card | None = None
        self._proposal = ""  # the id of the call or plan

    def open_gate(self, gate: Gate) -> None:
        """Make the document of a gate. Remarks stay on lines that did not change where the gate is
        another version of the same call; else the stored ones are restored.
        """
        before, self._asked = self.document, gate
        self.document = DiffDocument(gate.previews, choosing=True, apart=bool(gate.also))
        if gate.call_id == self._proposal:
            self.document.put_remarks(before.list_remarks())
            self.publish()
        elif gate.previews and self.load_stored is not None:
            self.document.put_remarks(self.load_stored(gate.args_hash))
        self._proposal = gate.call_id

    def open_card(self, card: Card) -> None:
        """Turn to a card. Remarks stay where it is about the same plan; else the stored ones are
        restored, on cards whose steps can be remarked on.
        """
        self.document, self._asked = DiffDocument(), card
        if card.plan_id != self._proposal:
            self.by_step, self._proposal = {}, card.plan_id
            if card.kind in REMARKED and self.load_stored is not None:
                self.by_step = place_remarks(card, self.plan, self.load_stored(card.subject))
        elif card.kind in REMARKED:
            self.publish()

    def list_all(self) -> tuple[Remark, ...]:
        """Return the remarks in the order of their lines or steps."""
        if isinstance(self._asked, Card):
            return list_step_remarks(self._asked, self.plan, self.by_step)
        return self.document.list_remarks()

    def write_on_step(self, step: str, text: str) -> None:
        """Set the remark on a step, and publish all; an empty text removes it."""
        self.by_step = {**self.by_step, step: text}
        if not text:
            del self.by_step[step]
        self.publish()

    def publish(self) -> None:
        """Hand on the present remarks."""
        match self._asked:
            case Gate(args_hash=about) | Card(subject=about):
                self._publish(about, self.list_all())
            case None:
                pass
