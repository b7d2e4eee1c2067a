"""The pane of the open question, a gate or a card: who has the focus, when a key counts, and what
it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer
from textual.message import Message
from textual.timer import Timer

from duckflow_tui.state.base import Clock
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import Card, CardAnswer, Gate, GateAnswer, GateChoice
from duckflow_tui.state.plan import Plan
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes import key_guard
from duckflow_tui.ui.panes.card_words import REMARKED, card_answer, find_step
from duckflow_tui.ui.panes.diff import DiffView
from duckflow_tui.ui.panes.gate_words import LETTERS, SELECTS, gate_answer, scope_rows
from duckflow_tui.ui.panes.key_guard import (
    InlineField,
    KeyGuard,
    Typed,
    is_for_composer,
    is_text,
)
from duckflow_tui.ui.panes.question import AnswerChoice, Asked, id_of
from duckflow_tui.ui.panes.question_frame import QuestionFrame
from duckflow_tui.ui.panes.request import CardView, RequestView
from duckflow_tui.ui.textual_private import half_width_key

if TYPE_CHECKING:
    from duckflow_tui.ui.screens.whole_diff import WholeDiff


def _list_bindings() -> list[BindingType]:
    """Return the bindings of keys that are not text: Enter, Esc, arrows and the stock ones for
    scrolling.
    """
    stock = cast("list[Binding]", ScrollableContainer.BINDINGS)
    own = {"escape": "escape", "enter": "go_to", "up": "line(-1)", "down": "line(1)"}
    scroll = {b.key: f"scroll('{b.action}')" for b in stock if b.key not in own}
    return [Binding(key, action, show=False) for key, action in (own | scroll).items()]


class QuestionPane(QuestionFrame, can_focus=True):
    """One open question: intent, reason, consequences and keys (S4-60…62, S4-65).

    It takes the focus only when told to. Its keys pass a ``KeyGuard``; text that is typed here goes
    to the composer together with the focus. If part of the question was not on the screen yet, or
    remarks would be lost, a key that consents first scrolls there and asks once, naming what is
    missing; the same key pressed again decides (R14). A key that allows more than this call first
    shows its scope.

    After an answer by a single key the pane keeps the focus, and says so, while another question
    waits, else for ``STAY_S`` seconds. Only so does the next question get the focus, after those
    seconds began only an approval after an approval. A key that would answer a question that is not
    shown yet is dropped; an Enter goes to the composer, unless it follows such a key.
    """

    BINDINGS: ClassVar[list[BindingType]] = _list_bindings()

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

    def __init__(self, clock: Clock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._guard = KeyGuard(self, clock, self._leave_question, self._show_standing)
        self._shown_at = 0.0  # when the question was shown, on the session's clock
        self._since = float("-inf")  # when it got the focus; earlier keys are no answer
        self._is_last = False  # no question is open
        self._stay_timer: Timer | None = None  # None while another question waits
        self._whole: WholeDiff | None = None  # the open whole-screen diff of the gate

    def on_mount(self) -> None:
        self._open(self.asked)

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
    ) -> None:
        """Show this question; None hides the pane, later where it still has the focus for a moment
        after an answer.

        ``plan`` is the plan of a card, ``step`` names the step that asks, ``waiting`` is the number
        of open questions.
        """
        self._is_last = asked is None
        if asked is None and self._stay_timer is not None:
            return
        before, shown = self.asked, (self._plan, self._waiting, self._step)
        self._plan, self._waiting, self._step = plan, waiting, step
        self.remarks.plan = plan
        if asked == before:
            if shown != (plan, waiting, step):
                self._refresh_rows(fresh=False)
            return
        typing = self._active_field is not None and self._active_field.has_focus
        had_focus = self.has_focus or typing
        are_gates = isinstance(before, Gate) and isinstance(asked, Gate)
        if self._stay_timer is not None and not are_gates:
            self._leave_question()
            had_focus = typing = False
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
        self._hint, self._unread_for, self._question = "", None, None
        self.display = asked is not None
        if not self.is_mounted:
            return
        self._close_field()
        self.diff.stop_writing()
        self._overlay.show_rows((), fresh=True)
        match asked:
            case Gate():
                self.remarks.open_gate(asked)
                self._document.on_choice(self._on_choice)
            case Card():
                self.remarks.open_card(asked)
            case None:
                return
        self.diff.open(self._document, id_of(asked))
        self._refresh_rows(fresh=True)

    def _on_choice(self) -> None:
        """Update the pane after hunks were excluded or included, or a line was remarked on."""
        self.remarks.publish()
        self._hint, self._unread_for = "", None
        self.diff.view.invalidate()
        self._refresh_rows(fresh=False)

    def _show_hint(self, entry: str, /, **params: str) -> None:
        """Show why the last key had no effect."""
        self._hint = self.words(entry, **params)
        self._refresh_frame()

    # --- the focus -----------------------------------------------------------------------------

    def take_focus(self) -> None:
        """Take the focus, or keep it for another question; the guard begins to settle."""
        if self.has_focus:
            self._begin_guard()
        else:
            self.screen.set_focus(self)

    def release_focus(self) -> None:
        """Ask for the focus on the composer, where the question was answered and no other waits."""
        if self._stay_timer is not None:
            self._leave_question()

    def _begin_guard(self) -> None:
        """Start to guard keys for the shown question."""
        self._since = Message().time  # on the clock that keys carry
        self._guard.begin_settling(since=self._shown_at)

    def on_focus(self) -> None:
        """Begin to guard keys, and light them; a question whose answer was not accepted can be
        answered again.
        """
        self._begin_guard()
        if not self._staying:
            self._sent, self._hint = False, ""
        self._refresh_frame()

    def on_blur(self) -> None:
        """Stop guarding keys and staying, and clear the hint; hide the pane where no question is
        open. While the terminal itself has lost the focus, it stays.
        """
        if self._staying and host_of(self).app_focus:
            self._end_stay()
        if not self._staying and self._is_last:
            self._open(None)
        self._guard.stop_guarding()
        self._hint, self._unread_for = "", None
        self._refresh_frame()

    def _begin_stay(self) -> None:
        """Keep the focus for the next question; where none waits, for ``STAY_S`` seconds."""
        self._staying = True
        self.focus()
        if self._waiting <= 1:
            self._stay_timer = self.set_timer(key_guard.STAY_S, self.release_focus)

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
        """Close the scope or the details, else leave the question unanswered. Once it is answered,
        with no other waiting, Esc pauses the work as in the composer.
        """
        if self._sent and self._waiting <= 1:
            bench = host_of(self).bench
            bench.to_composer()
            bench.action_escape()
        elif self._scope is not None:
            self._show_scope(None)
        elif self._detailed and self.gate is not None:
            self._show_details(shown=False)
        else:
            self._leave_question(pending=not self._sent)

    # --- the line of text ----------------------------------------------------------------------

    def _write_remark(self, step: str, number: int) -> None:
        """Open the line for a remark on this step of a plan, the ``number``-th, with the present
        remark.
        """
        asked = self.words("card.ask_remark", number=number)
        self._field.open_for(asked, self.remarks.by_step.get(step, ""), step=step)
        self._show_field()

    def _show_field(self) -> None:
        """Draw the line of text in place of the keys."""
        self._hint = ""
        self._refresh_frame()
        self._lay_out_again()

    def on_input_submitted(self, event: InlineField.Submitted) -> None:
        """Send the answer with its text, or store the remark on a step. An empty line only closes
        where the answer needs a text.
        """
        event.stop()
        text, step, choice = event.value.strip(), self._field.step, self._field.choice
        if self._sent:
            return
        if choice is not None and choice.entry is not None and (text or choice.entry.is_optional):
            self._send_answer(choice, text)
            return
        if step:
            self.remarks.write_on_step(step, text)
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
            if key == "enter" and self._is_last and not self._guard.is_waiting:
                self._leave_question([event])
                _stop_event(event)
            elif key == "enter":
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
        if await self._guard.handle_key(event, act, at_once=at_once, selects=key in SELECTS):
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
            self._hint = self._say_keys(key)
        else:
            choice = question.find_choice(key) if question is not None else None
            text = self._make_hint(choice).text if choice is not None else key
            if choice is not None and choice.answer == GateChoice.ONCE:
                text = self.words("gate.allowing")
            self._hint = guard.standing_words(self.words, text)
        self._refresh_frame()

    def _say_keys(self, key: str) -> str:
        """Return that a key does nothing at the card, and which keys do; at a gate nothing."""
        keys = " ".join(option.key for option in self.card.options) if self.card else ""
        return self.words("card.no_such_key", key=key, keys=keys) if keys else ""

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
        remarks = self.remarks.list_all()
        doubt = self.count_unseen() > 0 or bool(remarks)  # R14a
        if choice.consents and self._asks_first(choice, doubt=doubt):
            return
        if choice.entry is None or (choice.takes_remarks and remarks):
            self._send_answer(choice)
            return
        self._field.open_for(choice.entry.asked, choice=choice)
        self._show_field()

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
        """Post the answer; ask for the focus on the composer after a text was written and no other
        question waits, else keep it for a moment.
        """
        gate, card = self.gate, self.card
        if gate is not None:
            answer = gate_answer(gate, choice, self._document, text)
        elif card is not None:
            answer = card_answer(card, choice, text, self.remarks.list_all())
            self.remarks.by_step = {}
        else:
            return
        was_written = self._field.choice is not None
        self._sent = True
        self._guard.forget_keys()
        self._close_field()
        self.post_message(self.Answered(answer))
        if was_written and self._waiting <= 1:
            self._leave_question()
        else:
            self._begin_stay()
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
            self._overlay.show_rows(rows, fresh=True)
            self._guard.begin_settling()  # the user has to read it first
        self._scope, self._detailed = choice, False
        self._refresh_rows(fresh=False)

    def _show_details(self, *, shown: bool) -> None:
        """Show all facts of a gate in place of sentence and diff, or of a card its files line by
        line; ``shown`` False shows the question as before. Leaves the scope that was shown.
        """
        self._detailed, self._scope, self._hint = shown, None, ""
        self._overlay.show_rows((), fresh=True)
        self._refresh_rows(fresh=False)

    def action_details(self) -> None:
        """Show or hide all facts of a gate, or the files of a card line by line, while a key may
        act.
        """
        if self._is_ready:
            self._show_details(shown=not self._detailed)

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
        """Run an action of the diff. A hunk is left out only while a key may act, and a hint says
        why where it cannot be.
        """
        view = self.diff.view
        chooses = action == "toggle_hunk"
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
            self._write_remark(step, find_step(card, self._plan, step)[0])

    def action_go_to(self) -> None:
        """Show the message in the chat that the row refers to; at a card about a plan, whose rows
        refer to steps, say which keys answer.
        """
        if self.card is not None and self.card.kind in REMARKED:
            self._hint = self._say_keys("Enter")
            self._refresh_frame()
        elif self._rows.chosen_ref and self.has_focus and self._guard.is_settled:
            if host_of(self).bench.go_to((self._rows.chosen_ref,)):
                self.yields = True  # give the chat rows to show the place
            else:
                self._show_hint("plan.not_in_chat")

    def on_card_view_pointed(self, event: CardView.Pointed) -> None:
        """Show the clicked row; a second click opens its reference, or the field for a remark on
        the step.
        """
        event.stop()
        self._refresh_frame()
        if event.again and self.card is not None and self.card.kind in REMARKED:
            self.action_remark()
        elif event.again:
            self.action_go_to()

    def action_line(self, by: int) -> None:
        """Move the cursor to the next line of the diff, or row with a reference; else scroll."""
        view = self._scrolled_view()
        if isinstance(view, DiffView):
            view.action_line(by)
        elif view is not self._rows or not self._rows.step_by(by):
            view.scroll_relative(y=by, animate=False)
        if self.card is not None:
            self._hint = ""
            self._refresh_frame()

    async def action_scroll(self, action: str) -> None:
        """Scroll the part that keys scroll."""
        view = self._scrolled_view()
        await view.run_action(action)

    def _scrolled_view(self) -> DiffView | RequestView:
        """The view that the keys scroll."""
        if self._overlay.display:
            return self._overlay
        if self._document.rows:
            return self.diff.view
        return self._arguments if self._arguments.max_scroll_y else self._rows


def _stop_event(event: events.Event) -> None:
    """Stop an event and its default action."""
    event.stop()
    event.prevent_default()
