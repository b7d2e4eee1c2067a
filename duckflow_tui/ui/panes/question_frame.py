"""How the open question looks: its rows and diff, the room of each part, title, hint and keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var

from duckflow_tui.state.gates import Card, Gate, GateChoice, Remark
from duckflow_tui.state.plan import Plan
from duckflow_tui.ui.layout import MAIN, ROOMY, TALK, TALK_AT_GATE
from duckflow_tui.ui.panes.card_words import card_question
from duckflow_tui.ui.panes.diff_document import DiffDocument
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.gate_words import gate_question
from duckflow_tui.ui.panes.key_guard import InlineField
from duckflow_tui.ui.panes.key_row import KeyHint, KeyRow
from duckflow_tui.ui.panes.question import REFUSES, AnswerChoice, Asked, QuestionSpec
from duckflow_tui.ui.panes.question_field import AnswerField, ProposalRemarks
from duckflow_tui.ui.panes.request import CardView, RequestView
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import fit
from duckflow_tui.words.catalogue import Catalogue

_READABLE: Final = MAIN - 16  # cells of a line in the width for reading, less frame and numbers
_LEAST_DIFF: Final = 3  # lines: two of the file and the one that counts the rest
_POINTS: Final = 7  # lines that the points get before arguments and diff get more than the least
_FAIR: Final = (_POINTS, 3, 6)  # lines they get before another part gets all it wants

_SHARE: Final = 0.7  # of the container's height that the question takes at most
_SHARE_WITH_DIFF: Final = 0.8  # the same with a diff
_SHARE_TIGHT: Final = 0.85  # the same where room is short
_TIGHT: Final = 30  # rows of the screen below which room is short
_LEAST: Final = 6  # lines that it keeps where the chat has some of its room

Lines = tuple[int, int, int]  # of the rows, the arguments and the diff


def share_lines(room: int, wants: Lines) -> Lines:
    """Divide ``room`` lines between rows, arguments and diff: first a line for each part, two for
    the diff. If not even that fits, the first part with content gets all lines.

    ``wants`` is the full height of each part, 0 where it is empty.
    """
    # The line that counts what is left of the diff cannot stand alone.
    given = [min(want, least) for want, least in zip(wants, (1, 1, 2), strict=True)]
    if sum(given) > room:
        first = next((part for part in range(3) if wants[part]), 0)
        return 0 if first else room, room if first == 1 else 0, room if first == 2 else 0
    points = max(_POINTS, room // 2)
    for limits in ((0, 1, _LEAST_DIFF), (points, 0, 0), _FAIR, wants):
        for part, want in enumerate(wants):
            more = min(want, limits[part]) - given[part]
            given[part] += max(0, min(more, room - sum(given)))
    return given[0], given[1], given[2]


class _QuestionDiff(DiffPane):
    """The diff in a question; ``allot`` returns its height for the size of its container."""

    def __init__(self, allot: Callable[[Size], int]) -> None:
        super().__init__(focusable=False, titled=False)
        self._allot = allot

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._allot(container)


class QuestionFrame(Vertical):
    """Draws one open question from its fields and from where the user stands with it; it answers
    nothing. Whoever changes a field calls ``_refresh_rows`` or ``_refresh_frame``.
    """

    words: var[Catalogue] = var(Catalogue)
    yields: var[bool] = var(False)  # leave some room to the chat, where something was said
    alone: var[bool] = var(False)  # the chat is hidden: the question has all the room

    class Remarked(Message):
        """Posted when the user's remarks have changed. ``about`` identifies the proposal they
        belong to.
        """

        def __init__(self, about: str, remarks: tuple[Remark, ...]) -> None:
            super().__init__()
            self.about = about
            self.remarks = remarks

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.asked: Asked | None = None  # the gate or card that is shown
        self._plan: Plan | None = None  # of the shown card
        self._waiting = 1  # number of open questions
        self._step = ""  # the step of the plan that asks, in words
        self._question: QuestionSpec | None = None  # the question as it is shown now
        self._scope: AnswerChoice | None = None  # the answer whose scope is shown
        self._detailed = False  # all facts of a gate, or files of a card, are shown
        self._unread_for: AnswerChoice | None = None  # answer to confirm by a second press
        self._hint = ""  # why the last key did nothing
        self._sent = False  # the question was answered and will be removed
        self._staying = False  # it was answered, and the pane keeps the focus for a moment

        self.remarks = ProposalRemarks(self._post_remarks)
        self._rows = CardView(partial(self._allot_lines, 0), id="question-rows")
        self._arguments = RequestView(partial(self._allot_lines, 1), id="question-arguments")
        self._overlay = RequestView(partial(self._allot_lines, 0), id="question-overlay")
        self.diff = _QuestionDiff(partial(self._allot_lines, 2))
        self.diff.view.on_change(self._show_frame)
        self._field = AnswerField(self._cancel_field, id="question-text")
        self._keys = KeyRow(lambda width: sum(self._wanted_lines(width)))

    def compose(self) -> ComposeResult:
        yield self._rows
        yield self._arguments
        yield self.diff
        yield self._overlay
        yield self._field
        yield self._keys

    def on_mount(self) -> None:
        for view in (self._rows, self._arguments, self._overlay):
            view.on_seen(self._on_seen)
        self._field.display = self._overlay.display = False

    def _post_remarks(self, about: str, remarks: tuple[Remark, ...]) -> None:
        """Post ``Remarked``."""
        self.post_message(self.Remarked(about, remarks))

    @property
    def _document(self) -> DiffDocument:
        """The changes of the shown gate; empty for a card."""
        return self.remarks.document

    @property
    def gate(self) -> Gate | None:
        """The shown gate; None for a card or nothing."""
        return self.asked if isinstance(self.asked, Gate) else None

    @property
    def card(self) -> Card | None:
        """The shown card; None for a gate or nothing."""
        return self.asked if isinstance(self.asked, Card) else None

    @property
    def _active_field(self) -> InlineField | None:
        """The field in which the user is writing a text or remark; None for none."""
        return next((f for f in (self.diff.field, self._field) if f.display), None)

    def _cancel_field(self) -> None:
        """Close the text field without using its text, and focus the question again."""
        self._close_field()
        self.focus()

    def _close_field(self) -> None:
        """Close the text field, and show the keys in its place."""
        self._field.clear_and_hide()
        self._refresh_frame()
        self._lay_out_again()

    def count_unseen(self) -> int:
        """Return the number of lines, of rows, arguments and diff, that were not on the
        screen yet.
        """
        scope = self._overlay.count_unseen() if self._scope is not None else 0
        rows = self._rows.count_unseen() + self._arguments.count_unseen()
        return rows + scope + self._document.unseen_lines

    def _describe_question(self) -> QuestionSpec | None:
        """Return the shown gate or card as a question; None for nothing."""
        match self.asked:
            case Gate() as gate:
                return gate_question(
                    gate,
                    self.words,
                    self._document,
                    step=self._step,
                    waiting=self._waiting,
                    detailed=self._detailed,
                )
            case Card() as card:
                return card_question(
                    card,
                    self._plan,
                    self.words,
                    waiting=self._waiting,
                    remarks=self.remarks.by_step,
                    whole=self._detailed,
                )
            case None:
                return None

    def _on_seen(self) -> None:
        """Update the count of unseen lines. Once all details of a gate were seen, its rows count as
        seen too.
        """
        if self._detailed and self.gate is not None and not self._overlay.count_unseen():
            self._rows.mark_all_seen()
            self._arguments.mark_all_seen()
        self._refresh_frame()

    def watch_words(self, words: Catalogue) -> None:
        self.diff.words = words
        self._refresh_rows(fresh=False)

    def watch_yields(self) -> None:
        self._lay_out_again()

    def on_resize(self) -> None:
        self._refresh_rows(fresh=False)

    def on_diff_view_arranged(self) -> None:
        self._refresh_rows(fresh=False)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_mounted:
            self.call_later(self._refresh_frame)

    def _refresh_rows(self, *, fresh: bool) -> None:
        """Build the rows for the present size and language; ``fresh``: for another question."""
        if not self.is_attached or not self.is_mounted:
            return
        question = self._question = self._describe_question()
        if question is None:
            return
        small = self.screen.size.height < ROOMY
        self.set_class(small, "-small")
        rows = [*question.rows]
        if small:  # no border, so no title
            rows.insert(0, question.headline)
        elif question.path is not None and self._fit_title(question)[1]:
            rows.insert(0, question.path)
        for view in (self._rows, self._arguments, self._overlay):
            view.says = self.words("gate.says")
        self._rows.show_rows(rows, fresh=fresh)
        self._arguments.show_rows(question.arguments, fresh=fresh)
        if question.details:
            self._overlay.show_rows(question.details, fresh=False)
        overlaid = self._overlay.display = self._scope is not None or bool(question.details)
        self._rows.display = not overlaid
        self._arguments.display = bool(question.arguments) and not overlaid
        self.diff.display = bool(self._document.previews) and not overlaid
        self.set_class(self._is_broad(question), "-broad")
        self._refresh_frame()
        self._lay_out_again()

    def _is_broad(self, question: QuestionSpec) -> bool:
        """Whether the question needs more than the reading width: a long line of diff, command or
        arguments, or a side-by-side diff.
        """
        rows = (*self._document.rows, *question.arguments)
        texts = (*(row.text for row in rows), "" if self.card else question.title.subject)
        return self.diff.view.split or any(
            len(text) * 2 > _READABLE and cell_len(text) > _READABLE for text in texts
        )

    @property
    def line_cells(self) -> int:
        """The width of a line inside the frame, in cells; before the first layout estimated, so
        that the first drawing is right.
        """
        if self.size.width:
            return self.size.width
        most = self.styles.max_width
        outer = self.parent.size.width if isinstance(self.parent, Vertical) else 0
        if most is not None and most.is_cells:
            outer = min(outer, int(most.value))
        return max(0, outer - self.gutter.width)

    def _fit_title(self, question: QuestionSpec) -> tuple[Text, bool]:
        """Return the title cut to the frame, and whether its subject was cut."""
        room = max(0, self.line_cells - 2)  # the border leaves a space at both ends of it
        return question.title.render(palette_of(self), room)

    def _refresh_frame(self) -> None:
        """Draw title, hint and keys again, together with the diff's title, since both show
        counts.
        """
        self.diff.view.announce_change()

    def _show_frame(self) -> None:
        """Draw title, hint and keys of the question; nothing while there is none."""
        question = self._question
        if question is None or not self.is_attached:
            return
        lit = self.has_focus and not self._sent
        self.border_title = self._fit_title(question)[0]
        hint = fit(self._hint_words(question, lit=lit), max(0, self.line_cells - 2))
        self.border_subtitle = Text(hint, style=palette_of(self).accent, no_wrap=True)
        for view in (self._rows, self._arguments, self._overlay):
            view.lit = lit
        keys, hints = self._keys, self._key_hints(question)
        asks = any(hint.asks for hint in hints)
        keys.lit, keys.prompt = lit, "" if asks else question.prompt
        keys.display = not self._field.display
        if hints != keys.hints:
            keys.hints = hints
            self._lay_out_again()

    def _hint_words(self, question: QuestionSpec, *, lit: bool) -> str:
        """Return the hint in the lower border."""
        if self._staying and not self._hint:
            return self.words("gate.answered")
        if self._hint:
            return self._hint
        if self._field.choice is not None and self._field.choice.entry is not None:
            return self._field.choice.entry.hint
        if self._active_field is not None:
            return self.words("gate.hint_remark")
        if self._scope is not None:
            return self.words("gate.rule.hint", key=self._scope.key)
        if not lit:
            return self.words(question.leads_here)
        return (self._rows.chosen_ref and question.hint_at_row) or question.hint

    def _key_hints(self, question: QuestionSpec) -> tuple[KeyHint, ...]:
        """Return the keys to show, with their effects."""
        if self._staying:
            return (KeyHint("✓", self.words("gate.answered_hint")),)
        if self._unread_for is not None:
            return tuple(self._unread_hints(question, self._unread_for))
        back = KeyHint("Esc", self.words("gate.key.back"))
        choices = [self._make_hint(choice) for choice in question.choices]
        if self._scope is not None:
            return self._make_hint(self._scope), back, *(c for c in choices if c.leads)
        unseen = self.count_unseen() if self.card is not None else 0  # a diff says it itself
        if unseen:
            choices.append(KeyHint("↓", self.words("gate.key.next", count=unseen)))
        return tuple(choices)

    def _make_hint(self, choice: AnswerChoice) -> KeyHint:
        """Return the key of a choice with its effect; a refusal counts the remarks sent with it."""
        text, count = choice.text, len(self.remarks.list_all())
        if choice.key == REFUSES and choice.takes_remarks and count:
            text = self.words("gate.key.reject_with", count=count)
        return KeyHint(choice.key, text, leads=choice.leads, effect=choice.effect)

    def _unread_hints(self, question: QuestionSpec, choice: AnswerChoice) -> list[KeyHint]:
        """Return the question that precedes an answer while part of the gate or card was not on the
        screen (R14), or remarks would be lost, with its keys.
        """
        unread, remarks = self._unread_words(), len(self.remarks.list_all())
        asks = [self.words("gate.unread.asks", what=unread)] if unread else []
        if remarks:
            asks.append(self.words("gate.unread.remarks", count=remarks))
        anyway = self.words("gate.unread.allow_scope", what=choice.text)
        if choice.answer == GateChoice.ONCE:
            anyway = self.words("gate.unread.allow")
        if not asks:
            asks, anyway = [self.words("gate.unread.none_left")], choice.text
        hints = [
            KeyHint("", self.words("gate.joint").join(asks), asks=True),
            KeyHint(choice.key, anyway),
        ]
        refuses = question.find_choice(REFUSES)
        if refuses is not None:
            hints.append(self._make_hint(refuses))
        if unread:
            above, below = (
                self.diff.view.unseen_lies() if self._document.unseen_lines else (False, True)
            )
            way = ("both" if below else "up") if above else "down"
            show = self.words(f"gate.unread.scroll.{way}")
            hints.append(KeyHint(show, self.words("gate.unread.show")))
        return hints

    def _unread_words(self) -> str:
        """Return which part of the question was not on the screen yet (R14); empty for none."""
        left, lines = self._document.unseen_lines, self._document.to_see
        rows = self.count_unseen() - left
        parts = [self.words("gate.unread.lines", count=left, total=lines)] if left else []
        entry = "gate.unread.rows" if self.card is None else "card.unread"
        parts += [self.words(entry, count=rows)] if rows else []
        return self.words("gate.unread.and").join(parts)

    # --- room ----------------------------------------------------------------------------------

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the question: its full height, up to a share of the container."""
        wants = self._wanted_lines(width)
        tight = self.screen.size.height < _TIGHT
        share = _SHARE_TIGHT if tight else _SHARE_WITH_DIFF if wants[2] else _SHARE
        most = max(int(container.height * share), min(container.height, 4))
        if tight:
            most = container.height - 2 if wants[2] else min(most, container.height - 2)
            most = max(most, min(container.height, 4))
        if self.alone:
            most = container.height
        elif self.yields:
            talk = TALK_AT_GATE if self.gate is not None else TALK
            most = min(most, max(container.height - talk, _LEAST))
        return min(self._foot_height(width, most) + sum(wants), most)

    def _foot_height(self, width: int, height: int) -> int:
        """Return the height of the keys, or of the text field in their place."""
        return 1 if self._field.display else self._keys.height_for(width, height)

    def _wanted_lines(self, width: int) -> Lines:
        """Return the full height of each part."""
        return (
            (self._overlay if self._overlay.display else self._rows).height_for(width),
            self._arguments.height_for(width) if self._arguments.display else 0,
            self.diff.height_for(width) if self.diff.display else 0,
        )

    def _allot_lines(self, part: int, size: Size) -> int:
        """Return the height that one part of ``Lines`` gets in a pane of this size."""
        room = max(0, size.height - self._foot_height(size.width, size.height))
        return share_lines(room, self._wanted_lines(size.width))[part]

    def _lay_out_again(self) -> None:
        """Lay out all parts, whose heights depend on each other."""
        if self.is_mounted:
            for part in self.children:
                part.refresh(layout=True)
            self.refresh(layout=True)
