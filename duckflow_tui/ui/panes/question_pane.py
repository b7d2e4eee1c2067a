"""The pane of the open question, a gate or a card: it shows the question and turns keys into
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, cast

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer, Vertical
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var
from textual.timer import Timer

from duckflow_tui.state.base import Clock
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import Card, CardAnswer, Gate, GateAnswer, GateChoice, Remark
from duckflow_tui.state.plan import Plan
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.layout import MAIN, ROOMY, TALK, TALK_AT_GATE
from duckflow_tui.ui.panes.card_words import (
    REMARKED,
    card_answer,
    card_question,
    find_step,
    list_step_remarks,
    place_remarks,
)
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.diff_document import DiffDocument
from duckflow_tui.ui.panes.diff_paint import count_words
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.gate_words import (
    LETTERS,
    gate_answer,
    gate_question,
    scope_rows,
)
from duckflow_tui.ui.panes.key_guard import (
    InlineField,
    KeyGuard,
    Typed,
    is_for_composer,
    is_text,
)
from duckflow_tui.ui.panes.key_row import KeyHint, KeyRow
from duckflow_tui.ui.panes.question import REFUSES, AnswerChoice, QuestionSpec
from duckflow_tui.ui.panes.request import CardView, RequestView
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import fit
from duckflow_tui.ui.textual_private import half_width_key
from duckflow_tui.words.catalogue import Catalogue

if TYPE_CHECKING:
    from duckflow_tui.ui.screens.whole_diff import WholeDiff

_READABLE: Final = MAIN - 16  # cells of a line in the width for reading, less frame and numbers
_LEAST_DIFF: Final = 3  # lines: two of the file and the one that counts the rest
_POINTS: Final = 7  # lines that the points get before arguments and diff get more than the least
_FAIR: Final = (_POINTS, 3, 6)  # lines they get before another part gets all it wants

_SHARE: Final = 0.7  # of the container's height that the question takes at most
_SHARE_WITH_DIFF: Final = 0.8  # the same with a diff
_SHARE_TIGHT: Final = 0.85  # the same where room is short
_TIGHT: Final = 30  # rows of the screen below which room is short
_LEAST: Final = 6  # lines that it keeps where the chat has some of its room

#: Seconds that an answered gate keeps the focus at most while its reply may ask again.
STAY: Final = 2.0

Lines = tuple[int, int, int]  # of the rows, the arguments and the diff


def share_lines(room: int, wants: Lines, *, least_rows: int) -> Lines:
    """Divide ``room`` lines between rows, arguments and diff: first a line for each row, then some
    for arguments and diff. If not even that fits, the first part with content gets all lines.

    ``wants`` is the full height of each part, 0 where it is empty; ``least_rows`` the height of the
    rows cut to one line each.
    """
    # The line that counts what is left of the diff can stand alone.
    diff = 2 if least_rows <= 1 else 1
    given = [min(want, least) for want, least in zip(wants, (least_rows, 1, diff), strict=True)]
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


def _list_bindings() -> list[BindingType]:
    """Return the bindings of keys that are not text: Enter, Esc, arrows and the stock ones for
    scrolling.
    """
    stock = cast("list[Binding]", ScrollableContainer.BINDINGS)
    own = {"escape": "escape", "enter": "go_to", "up": "line(-1)", "down": "line(1)"}
    scroll = {b.key: f"scroll('{b.action}')" for b in stock if b.key not in own}
    return [Binding(key, action, show=False) for key, action in (own | scroll).items()]


Asked = Gate | Card


def id_of(asked: Asked | None) -> str:
    """The id of a gate or card; empty for none."""
    match asked:
        case Gate(gate_id=key) | Card(card_id=key):
            return key
        case None:
            return ""


class QuestionPane(Vertical, can_focus=True):
    """One open question: intent, reason, consequences and keys (S4-60…62, S4-65).

    It takes the focus only when told to. Its keys pass a ``KeyGuard``; text that is typed here goes
    to the composer together with the focus. If part of the question was not on the screen yet, or
    remarks would be lost, a key that consents first scrolls there and asks once, naming what is
    missing; the same key pressed again decides (R14). A key that allows more than this call first
    shows its scope.

    After an answer by key the pane keeps the focus, and says so, while another question waits or
    the same reply may open another gate. The next question gets the focus only this way. An answer
    to a question that is not shown yet is dropped.
    """

    BINDINGS: ClassVar[list[BindingType]] = _list_bindings()

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

    class Answered(Message):
        """Posted when the user pressed a key that answers."""

        def __init__(self, answer: GateAnswer | CardAnswer) -> None:
            super().__init__()
            self.answer = answer

    class Left(Message):
        """Posted when the composer should get the focus, because the user has finished here.

        ``typed`` are keys meant for the composer; ``pending``: the question is not answered.
        """

        def __init__(self, typed: Sequence[Typed] = (), *, pending: bool = False) -> None:
            super().__init__()
            self.typed = typed
            self.pending = pending

    class PlanWanted(Message):
        """Posted when the user wants to edit the plan before answering; the card stays open."""

    #: Return the proposed content of a gate by its id; earlier calls that asked for the same.
    proposed: Callable[[str], str | None] | None = None
    alike: Callable[[Gate], Sequence[OperationMessage]] | None = None
    #: Returns the remarks stored for this proposal in an earlier run; those on another one are
    #: deleted.
    kept: Callable[[str], tuple[Remark, ...]] | None = None

    def __init__(self, clock: Clock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._guard = KeyGuard(self, clock, self._leave_question, self._show_standing)
        self.asked: Asked | None = None  # the gate or card that is shown
        self._plan: Plan | None = None  # of the shown card
        self._waiting = 1  # number of open questions
        self._step = ""  # the step of the plan that asks, in words
        self._question: QuestionSpec | None = None  # the question as it is shown now
        self._document = DiffDocument()
        self._proposal = ""  # the call or plan that the remarks are about
        self._step_remarks: dict[str, str] = {}  # by step of a plan
        self._remarked_step = ""  # the step whose remark is being written

        self._scope: AnswerChoice | None = None  # the answer whose scope is shown
        self._detailed = False  # all facts of a gate, or files of a card, are shown
        self._entering: AnswerChoice | None = None  # the answer whose text is being written
        self._unread_for: AnswerChoice | None = None  # answer to confirm by a second press
        self._hint = ""  # why the last key did nothing
        self._shown_at = 0.0  # when the question was shown, on the session's clock
        self._since = float("-inf")  # when it got the focus; earlier keys are no answer
        self._sent = False  # the question was answered and will be removed
        self._staying = False  # it was answered; the pane keeps the focus for the next one
        self._next_waits = False  # another question was open at the answer
        self._is_last = False  # no question is open
        self._may_ask_again = False  # the current reply may open another gate
        self._stay_timer: Timer | None = None

        self._rows = CardView(partial(self._allot_lines, 0), id="question-rows")
        self._arguments = RequestView(partial(self._allot_lines, 1), id="question-arguments")
        self._overlay = RequestView(partial(self._allot_lines, 0), id="question-overlay")
        self.diff = _QuestionDiff(partial(self._allot_lines, 2))
        self.diff.view.on_change(self._show_frame)
        self._field = InlineField(self._cancel_field, id="question-text")
        self._keys = KeyRow(lambda width: sum(self._wanted_lines(width)))
        self._whole: WholeDiff | None = None  # the open whole-screen diff of the gate

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
        self._open(self.asked)

    @property
    def gate(self) -> Gate | None:
        """The shown gate; None for a card or nothing."""
        return self.asked if isinstance(self.asked, Gate) else None

    @property
    def card(self) -> Card | None:
        """The shown card; None for a gate or nothing."""
        return self.asked if isinstance(self.asked, Card) else None

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """The names of its keys' surfaces in the table of keys."""
        return ("card", "consultation") if self.card is not None else ("gate", "diff")

    @property
    def is_holding(self) -> bool:
        """Whether the newest key still waits to act, because a second one would make it part of a
        text.
        """
        return self._guard.is_waiting

    @property
    def is_staying(self) -> bool:
        """Whether the question was answered and the pane keeps the focus for the next one."""
        return self._staying

    def answers_to(self, letter: str) -> bool:
        """Whether this letter or digit has an effect on the question."""
        if self.card is None:
            return letter in LETTERS
        return self._question is not None and self._question.find_choice(letter) is not None

    def count_unseen(self) -> int:
        """Return the number of lines, of rows, arguments and diff, that were not on the
        screen yet.
        """
        scope = self._overlay.count_unseen() if self._scope is not None else 0
        rows = self._rows.count_unseen() + self._arguments.count_unseen()
        return rows + scope + self._document.unseen_lines

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable Enter except on a card."""
        return action != "go_to" or self.card is not None

    # --- the question --------------------------------------------------------------------------

    def show(
        self,
        asked: Asked | None,
        *,
        plan: Plan | None = None,
        waiting: int = 1,
        step: str = "",
        may_ask_again: bool = False,
    ) -> None:
        """Show this question; None hides the pane, unless it stays for another gate.

        ``plan`` is the plan of a card, ``step`` names the step that asks, ``waiting`` is the number
        of open questions; ``may_ask_again``: the current reply may open another gate.
        """
        self._may_ask_again = may_ask_again
        self._is_last = asked is None
        if asked is None and self._staying and may_ask_again:
            return
        before, shown = self.asked, (self._plan, self._waiting, self._step)
        self._plan, self._waiting, self._step = plan, waiting, step
        if asked == before:
            if shown != (plan, waiting, step):
                self._refresh_rows(fresh=False)
            return
        if self._staying and isinstance(asked, Card) and not self._next_waits:
            self._leave_question()
            had_focus = typing = False
        else:
            typing = self._active_field is not None and self._active_field.has_focus
            had_focus = self.has_focus or typing
        self._end_stay()
        if self._whole is not None:  # the gate it shows is no longer open
            self._whole.dismiss()
            self._whole = None
        self._open(asked)
        if had_focus and asked is None:
            self._leave_question(self._guard.take_back())
        elif had_focus and id_of(asked) != id_of(before):
            self.take_focus()
        elif had_focus:  # the same, shown anew
            self._begin_guard()
            if typing:
                self.focus()

    def _open(self, asked: Asked | None) -> None:
        """Show this question from its beginning. Remarks stay if it is about the same proposal."""
        self.asked, self._shown_at = asked, self._clock.monotonic()
        self._sent, self._detailed, self._scope = False, False, None
        self._hint, self._unread_for = "", None
        self.display = asked is not None
        if not self.is_mounted:
            return
        self._close_field()
        self.diff.stop_writing()
        self._rows.folds = True
        self._overlay.show_rows((), fresh=True)
        before = self._document
        match asked:
            case Gate():
                self._document = DiffDocument(asked.previews, choosing=True, apart=bool(asked.also))
                if asked.call_id == self._proposal:  # the same change, another version of it
                    self._document.take_remarks(before)
                    self._tell_remarks()
                elif asked.previews and self.kept is not None:
                    _put_remarks(self._document, self.kept(asked.args_hash))
                self._proposal = asked.call_id
                self._document.on_choice(self._on_choice)
            case Card():
                self._document = DiffDocument()
                if asked.plan_id != self._proposal:
                    self._step_remarks, self._proposal = {}, asked.plan_id
                    if asked.kind in REMARKED and self.kept is not None:
                        kept = self.kept(asked.subject)
                        self._step_remarks = place_remarks(asked, self._plan, kept)
                elif asked.kind in REMARKED:
                    self._tell_remarks()
            case None:
                return
        self.diff.open(self._document, self._proposal)
        self._refresh_rows(fresh=True)

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
                    remarks=self._step_remarks,
                    whole=self._detailed,
                    chosen=self._rows.chosen_ref,
                )
            case None:
                return None

    def _list_remarks(self) -> tuple[Remark, ...]:
        """Return the user's remarks on the shown proposal."""
        if self.card is not None:
            return list_step_remarks(self.card, self._plan, self._step_remarks)
        return self._document.list_remarks()

    def _tell_remarks(self) -> None:
        """Post the present remarks."""
        about = self.gate.args_hash if self.gate else self.card.subject if self.card else ""
        self.post_message(self.Remarked(about, self._list_remarks()))

    def _on_choice(self) -> None:
        """Update the pane after hunks were excluded or included, or a line was remarked on."""
        self._tell_remarks()
        self._hint, self._unread_for = "", None
        self.diff.view.invalidate()
        self._refresh_rows(fresh=False)

    def _on_seen(self) -> None:
        """Update the count of unseen lines. Once all details of a gate were seen, its rows count as
        seen too.
        """
        if self._detailed and self.gate is not None and not self._overlay.count_unseen():
            self._rows.mark_all_seen()
            self._arguments.mark_all_seen()
        self._refresh_frame()

    # --- drawing -------------------------------------------------------------------------------

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
        if fresh:
            self._rows.folds = question.folds
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
        """Draw title, hint and keys of the frame."""
        question = self._describe_question() if self.is_attached else None
        if question is None:
            return
        self._question = question
        lit = self.has_focus and not self._sent
        self.border_title = self._fit_title(question)[0]
        hint = fit(self._hint_words(question, lit=lit), max(0, self.line_cells - 2))
        self.border_subtitle = Text(hint, style=palette_of(self).accent, no_wrap=True)
        for view in (self._rows, self._arguments, self._overlay):
            view.lit = lit
        keys, hints = self._keys, self._key_hints(question)
        asks = any(hint.asks for hint in hints)
        keys.lit, keys.prompt = lit, "" if asks else question.prompt
        if hints != keys.hints:
            keys.hints = hints
            self._lay_out_again()

    def _hint_words(self, question: QuestionSpec, *, lit: bool) -> str:
        """Return the hint in the lower border."""
        if self._staying and not self._hint:
            return self.words("gate.answered")
        if self._hint:
            return self._hint
        if self._entering is not None and self._entering.entry is not None:
            return self._entering.entry.hint
        if self._active_field is not None:
            return self.words("gate.hint_remark")
        if self._scope is not None:
            return self.words("gate.rule.hint", key=self._scope.key)
        return question.hint if lit else self.words(question.leads_here)

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
        text, count = choice.text, len(self._list_remarks())
        if choice.key == REFUSES and choice.takes_remarks and count:
            text = self.words("gate.key.reject_with", count=count)
        return KeyHint(choice.key, text, leads=choice.leads, effect=choice.effect)

    def _unread_hints(self, question: QuestionSpec, choice: AnswerChoice) -> list[KeyHint]:
        """Return the question that precedes an answer while part of the gate or card was not on the
        screen (R14), or remarks would be lost, with its keys.
        """
        unread, remarks = self._unread_words(), len(self._list_remarks())
        asks = [self.words("gate.unread.asks", what=unread)] if unread else []
        if remarks:
            asks.append(self.words("gate.unread.remarks", count=remarks))
        anyway = self.words("gate.unread.allow_scope", what=choice.text)
        if choice.answer == GateChoice.ONCE:
            anyway = self.words("gate.unread.allow")
        if not asks:
            asks, anyway = [self.words("gate.unread.none_left")], choice.text
        hints = [
            KeyHint("", self.words("gate.unread.joint").join(asks), asks=True),
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
        parts += [count_words(self.words, entry, rows)] if rows else []
        return self.words("gate.unread.and").join(parts)

    def _show_hint(self, entry: str, /, **params: str) -> None:
        """Show why the last key had no effect."""
        self._hint = self.words(entry, **params)
        self._refresh_frame()

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
        least = (self._overlay if self._overlay.display else self._rows).least_for(size.width)
        return share_lines(room, self._wanted_lines(size.width), least_rows=least)[part]

    def _lay_out_again(self) -> None:
        """Lay out all parts, whose heights depend on each other."""
        if self.is_mounted:
            for part in self.children:
                part.refresh(layout=True)
            self.refresh(layout=True)

    # --- the focus -----------------------------------------------------------------------------

    def take_focus(self) -> None:
        """Take the focus, or keep it for another question; the guard begins to settle."""
        if self.has_focus:
            self._begin_guard()
        else:
            self.screen.set_focus(self)

    def release_focus(self) -> None:
        """Stop waiting for a gate that may come, and ask for the focus on the composer."""
        if self._staying and not self._next_waits:
            self._leave_question()

    def _begin_guard(self) -> None:
        """Start to guard keys for the shown question."""
        self._since = Message().time  # on the clock that keys carry
        self._guard.begin_settling(since=self._shown_at)

    def on_focus(self) -> None:
        """Begin to guard keys, and light up the keys."""
        self._begin_guard()
        if not self._staying:
            self._sent, self._hint = False, ""
        self._refresh_frame()

    def on_blur(self) -> None:
        """Stop guarding and waiting; hide the pane where it only stayed for another question."""
        if self._staying and host_of(self).app_focus:
            self._end_stay()
        if not self._staying and self._is_last:
            self._open(None)
        self._guard.stop_guarding()
        self._hint, self._unread_for = "", None
        self._refresh_frame()

    def _begin_stay(self) -> None:
        """Keep the focus for the next question, for two seconds at most."""
        self._staying = True
        self.focus()
        self._stay_timer = self.set_timer(STAY, self.release_focus)

    def _end_stay(self) -> None:
        """Stop keeping the focus for the next question."""
        self._staying = False
        if self._stay_timer is not None:
            self._stay_timer.stop()
            self._stay_timer = None

    def _leave_question(self, typed: Sequence[Typed] = (), *, pending: bool = False) -> None:
        """Ask for the focus on the composer and pass typed keys to it."""
        self._end_stay()
        self.post_message(self.Left(typed, pending=pending))

    def action_escape(self) -> None:
        """Close the scope or the details, else leave the question unanswered."""
        if self._scope is not None:
            self._show_scope(None)
        elif self._detailed and self.gate is not None:
            self._show_details(shown=False)
        else:
            self._leave_question(pending=not self._sent)

    # --- the line of text ----------------------------------------------------------------------

    @property
    def _active_field(self) -> InlineField | None:
        """The field in which the user is writing a text or remark; None for none."""
        return next((f for f in (self.diff.field, self._field) if f.display), None)

    def _open_field(self, placeholder: str, text: str = "") -> None:
        """Open the text field in place of the keys."""
        self._hint = ""
        self._field.placeholder, self._field.value = placeholder, text
        self._field.cursor_position = len(text)
        self._field.display, self._keys.display = True, False
        self._field.focus()
        self._refresh_frame()
        self._lay_out_again()

    def _close_field(self) -> None:
        """Close the text field and show the keys."""
        self._entering, self._remarked_step = None, ""
        self._field.value = ""
        self._field.display, self._keys.display = False, True
        self._refresh_frame()
        self._lay_out_again()

    def _cancel_field(self) -> None:
        """Close the text field without using its text, and focus the question again."""
        self._close_field()
        self.focus()

    def on_input_submitted(self, event: InlineField.Submitted) -> None:
        """Send the answer with its text, or store the remark on a step."""
        event.stop()
        text, step, choice = event.value.strip(), self._remarked_step, self._entering
        if self._sent:
            return
        if choice is not None and choice.entry is not None and (text or choice.entry.is_optional):
            self._send_answer(choice, text)
            return
        if step:
            self._step_remarks = {**self._step_remarks, step: text}
            if not text:
                del self._step_remarks[step]
            self._tell_remarks()
            self._unread_for = None
        self._cancel_field()
        if step:
            self._refresh_rows(fresh=False)

    # --- keys ----------------------------------------------------------------------------------

    @property
    def _is_ready(self) -> bool:
        """Whether a key may act now."""
        here = self.has_focus and self._guard.is_active
        return here and not self._sent and self._active_field is None

    def _is_over(self, event: Typed) -> bool:
        """Whether an event was typed when there was nothing to answer, so that it belongs to the
        composer.
        """
        return self._sent or not self.display or event.time < self._since

    async def on_paste(self, event: events.Paste) -> None:
        """Pass a paste to the guard, or to the composer where nothing is to be answered."""
        _stop_event(event)
        if self._is_over(event):
            self._leave_question([event])
        else:
            self._guard.take_paste(event)

    async def on_key(self, event: events.Key) -> None:
        """Pass a printable key to the guard; other keys act by their bindings."""
        if self._active_field is not None:
            if is_text(event):  # it came just before the field got the focus
                self._active_field.insert_text_at_cursor(event.character or "")
                _stop_event(event)
            return
        key = half_width_key(event).key
        answers = self.answers_to(key) or key == "enter"
        if self._staying and (answers or self._guard.is_waiting):
            # A key for a question not shown yet is dropped, unless it is the begin of a text.
            if key == "enter":
                self._guard.forget_keys()
                _stop_event(event)
            elif await self._guard.handle_key(event, self._ignore_key):
                _stop_event(event)
            return
        if self._is_over(event) and is_for_composer(event):
            self._leave_question([event])
            _stop_event(event)
            return
        if not self.has_focus:
            return
        question = self._question
        choice = question.find_choice(key) if question is not None else None
        acts = question is not None and key in question.acts
        act = partial(self.press_key, key) if choice is not None or acts else None
        at_once = question is not None and key in question.at_once
        if await self._guard.handle_key(event, act, at_once=at_once):
            _stop_event(event)

    async def _ignore_key(self) -> None:
        """Do nothing: the question that the key would answer is not shown yet."""

    async def press_key(self, key: str) -> None:
        """Perform the effect of a key that has passed the guard."""
        question = self._question
        choice = question.find_choice(key) if question is not None else None
        if choice is not None and not choice.acts:
            self._take_choice(choice)
        elif question is not None:
            await self.run_action(choice.acts if choice is not None else question.acts[key])

    def _show_standing(self) -> None:
        """Show how the guard treats the newest key."""
        guard, question = self._guard, self._question
        key = guard.newest_key
        if self._staying:
            self._hint = self.words("gate.not_asked_yet", key=key) if key else ""
        elif guard.standing == "unknown":
            keys = " ".join(option.key for option in self.card.options) if self.card else ""
            self._hint = self.words("card.no_such_key", key=key, keys=keys) if keys else ""
        else:
            choice = question.find_choice(key) if question is not None else None
            text = self._make_hint(choice).text if choice is not None else key
            if choice is not None and choice.answer == GateChoice.ONCE:
                text = self.words("gate.allowing")
            self._hint = guard.standing_words(self.words, text)
        self._refresh_frame()

    def _take_choice(self, choice: AnswerChoice) -> None:
        """Answer with this choice, unless its scope, a question or a text field must come first."""
        question = self._question
        if not self._is_ready or question is None:
            return
        if choice.consents and question.blocks:
            self._show_hint(question.blocks)
            return
        if self._scope is not None and self._scope.answer != choice.answer:
            self._show_scope(None)
        if choice.widens and self._scope is None:
            self._show_scope(choice)
            return
        remarks = self._list_remarks()
        doubt = self.count_unseen() > 0 or bool(remarks)  # R14a
        if choice.consents and self._asks_first(choice, doubt=doubt):
            return
        if choice.entry is None or (choice.takes_remarks and remarks):
            self._send_answer(choice)
            return
        self._open_field(choice.entry.asked)
        self._entering = choice
        self._refresh_frame()

    def _asks_first(self, choice: AnswerChoice, *, doubt: bool) -> bool:
        """Ask once before an answer where there is ``doubt`` (R14) and scroll to unseen lines;
        return whether this was done. False for the second press of the same key.
        """
        asked = self._unread_for
        if not doubt or (asked is not None and asked.answer == choice.answer):
            return False
        self._unread_for, self._hint = choice, ""
        if self._overlay.display:
            self._overlay.reveal_unseen()
        else:
            self._rows.reveal_unseen()
        self._arguments.reveal_unseen()
        self.diff.view.reveal_unseen()
        self._guard.begin_anew()
        self._refresh_frame()
        return True

    def _send_answer(self, choice: AnswerChoice, text: str = "") -> None:
        """Post the answer, and keep or give up the focus."""
        gate, card = self.gate, self.card
        if gate is not None:
            answer = gate_answer(gate, choice, self._document, text)
        elif card is not None:
            answer = card_answer(card, choice, text, self._list_remarks())
            self._step_remarks = {}
        else:
            return
        self._sent = True
        self._guard.forget_keys()
        self._close_field()
        self.post_message(self.Answered(answer))
        # A refusal and an alternative skip the reply's other calls, so no gate follows.
        goes_on = gate is not None and (choice.consents or choice.answer == GateChoice.EDIT)
        self._next_waits = self._waiting > 1
        if self._next_waits or (self._may_ask_again and goes_on):
            self._begin_stay()
        else:
            self._leave_question()
        self._refresh_frame()

    # --- actions that do not answer ------------------------------------------------------------

    def _show_scope(self, choice: AnswerChoice | None) -> None:
        """Show what this answer would allow in place of the request, and for a project's rule the
        earlier calls that it would have allowed; keys rest until it can be read. A call that can
        be allowed only once gets a hint instead. None: show the request again.
        """
        gate = self.gate
        self._hint, self._unread_for = "", None
        if gate is not None and choice is not None:
            alike = self.alike(gate) if self.alike is not None else ()
            try:
                rows = scope_rows(gate, GateChoice(choice.answer), alike, self.words)
            except ValueError:  # the call can be allowed only once
                self._show_hint("shell.answer_refused")
                return
            self._overlay.folds = True
            self._overlay.show_rows(rows, fresh=True)
            self._guard.begin_settling()  # the user has to read it first
        self._scope, self._detailed = choice, False
        self._refresh_rows(fresh=False)

    def _show_details(self, *, shown: bool) -> None:
        """Show all facts of the gate in place of sentence and diff, or these again."""
        self._detailed, self._scope, self._hint = shown, None, ""
        self._overlay.folds = False
        self._overlay.show_rows((), fresh=True)
        self._refresh_rows(fresh=False)

    def action_details(self) -> None:
        """Show or hide all facts of a gate."""
        if self._is_ready:
            self._show_details(shown=not self._detailed)

    def action_look(self) -> None:
        """Show the files of a card line by line, or only their names."""
        if self._is_ready:
            self._detailed = not self._detailed
            self._refresh_rows(fresh=False)

    def action_edit_plan(self) -> None:
        """Ask for the plan's pane."""
        if self._is_ready:
            self._guard.stop_guarding()  # keys before the plan has the focus answer nothing
            self.post_message(self.PlanWanted())

    def action_whole_diff(self) -> None:
        """Open the diff on the whole screen, with the keys of the gate."""
        gate = self.gate
        if self._is_ready and gate is not None and gate.previews:
            from duckflow_tui.ui.screens.whole_diff import WholeDiff

            typed = self._guard.take_back()
            self._guard.stop_guarding()  # what comes until the screen has the keys answers nothing
            self._whole = WholeDiff(self.words, self._clock, self._document, self.diff.view, typed)
            host_of(self).push_screen(self._whole, lambda key: self._back_from(gate, key))

    async def _back_from(self, gate: Gate, key: str | None) -> None:
        """Continue after the whole-screen diff: at its hunk, and with the effect of the key pressed
        there, which its own guard has checked.
        """
        whole, self._whole = self._whole, None
        if self.has_focus:
            self._guard.begin_settling()
        if whole is None or gate != self.asked:
            return
        self.diff.view.go_on_at(whole.at)
        if key is not None:
            await self.press_key(key)

    def action_edit_proposal(self) -> None:
        """Open the proposed file in the editor, without the hunks that were excluded."""
        gate = self.gate
        if not self._is_ready or gate is None:
            return
        from duckflow_tui.ui.screens.edit_proposal import EditProposal, can_edit, leave_out_hunks

        text = self.proposed(gate.gate_id) if self.proposed is not None else None
        preview, out = gate.previews[0], [hunk for _, hunk in self._document.left_out]
        if text is not None and not can_edit(text):
            self._show_hint("gate.unsafe_edit")
            return
        if text is not None and out:  # excluded hunks stay excluded
            rest = leave_out_hunks(text, preview, out)
            text, preview = rest if rest is not None else (None, preview)
        if text is None:
            self._show_hint("gate.cannot_edit")
            return
        self._guard.stop_guarding()  # what comes until the screen has the keys answers nothing
        screen = EditProposal(self.words, preview, text)
        host_of(self).push_screen(screen, lambda edited: self._apply_edit(gate, text, edited))

    def _apply_edit(self, gate: Gate, before: str, edited: str | None) -> None:
        """Answer the gate with the edited text; where the gate changed meanwhile or the text did
        not, show a hint. ``edited`` None: only let keys rest.
        """
        self._guard.begin_settling()
        if edited is None:
            return
        if gate != self.asked:
            self._show_hint("gate.changed_meanwhile")
        elif edited == before:
            self._show_hint("gate.not_edited")
        else:
            self._send_answer(AnswerChoice("e", GateChoice.EDIT, ""), edited)

    async def action_on_diff(self, action: str) -> None:
        """Run an action of the diff; show why where its hunks cannot be excluded."""
        view = self.diff.view
        chooses = action in ("toggle_hunk", "only_hunk")
        if chooses and view.whole_reason is not None:
            self._show_hint(f"diff.whole.{view.whole_reason}")
        elif not chooses or self._is_ready:
            await view.run_action(action)

    def action_remark(self) -> None:
        """Open the field for a remark on the diff's line at the cursor, or on a card's step: the
        one at the cursor, else the first.
        """
        card, gate = self.card, self.gate
        if not self._is_ready:
            return
        if gate is not None and gate.previews and not self._overlay.display:
            self.diff.write(self)
            self._refresh_frame()
        elif gate is not None:
            self._show_hint("diff.no_line")
        elif card is not None and (self._rows.chosen_ref or self._rows.step_by(1)):
            step = self._rows.chosen_ref
            number = find_step(card, self._plan, step)[0]
            asked = self.words("card.ask_remark", number=number)
            self._open_field(asked, self._step_remarks.get(step, ""))
            self._remarked_step = step
            self._refresh_frame()

    def action_go_to(self) -> None:
        """Show the message in the chat that the row refers to; on a plan write a remark on the
        step.
        """
        if self.card is not None and self.card.kind in REMARKED:
            self.action_remark()
        elif self._rows.chosen_ref and self.has_focus and self._guard.is_settled:
            if host_of(self).bench.go_to((self._rows.chosen_ref,)):
                self.yields = True  # give the chat rows to show the place
            else:
                self._show_hint("plan.not_in_chat")

    def on_card_view_pointed(self, event: CardView.Pointed) -> None:
        """Show the clicked row; a second click opens its reference."""
        event.stop()
        self._refresh_frame()
        if event.again:
            self.action_go_to()

    def action_line(self, by: int) -> None:
        """Move the cursor to the next line of the diff, or row with a reference; else scroll."""
        view = self._scrolled_view()
        if isinstance(view, DiffView):
            view.action_line(by)
        elif view is not self._rows or not self._rows.step_by(by):
            view.unfold_rows()
            view.scroll_relative(y=by, animate=False)
        if self.card is not None:
            self._hint = ""
            self._refresh_frame()

    async def action_scroll(self, action: str) -> None:
        """Scroll the part that keys scroll."""
        view = self._scrolled_view()
        if isinstance(view, RequestView) and self.card is not None:
            view.unfold_rows()
        await view.run_action(action)

    def _scrolled_view(self) -> DiffView | RequestView:
        """The view that the keys scroll."""
        if self._overlay.display:
            return self._overlay
        if self._document.rows:
            return self.diff.view
        return self._arguments if self._arguments.max_scroll_y else self._rows


def _put_remarks(document: DiffDocument, remarks: Sequence[Remark]) -> None:
    """Restore stored remarks on lines that have not changed."""
    for row in document.lines if remarks else ():
        here = (document.rows[row].old, document.rows[row].new)
        for one in remarks:
            if one.number in here and document.remark_on(row, one.said) == one:
                document.remarks[row] = one.said


def _stop_event(event: events.Event) -> None:
    """Stop an event and its default action."""
    event.stop()
    event.prevent_default()
