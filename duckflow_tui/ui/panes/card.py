"""A card in the chat: a question about the work that waits for the user's key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from duckflow_tui.state.base import Clock
from duckflow_tui.state.gates import (
    ACCEPT,
    EDIT_PLAN,
    GO_ON,
    LOOK,
    OPEN_PAGE,
    REJECT,
    RETRY,
    RUN_ALL,
    RUN_STEPS,
    SUGGESTED,
    TELL,
    TRUST,
    Card,
    CardAnswer,
    CardKind,
    CardOption,
    Remark,
)
from duckflow_tui.state.plan import Plan
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.layout import ROOMY, TALK
from duckflow_tui.ui.panes.card_words import (
    CONSULTS,
    card_heading,
    card_rows,
    card_subject,
    consult_question,
    hint_of,
    needed_by,
    option_effects,
    option_words,
    with_remarks,
)
from duckflow_tui.ui.panes.question import (
    KeyHint,
    KeyRow,
    QuestionFrame,
    QuestionWidget,
    scroll_bindings,
)
from duckflow_tui.ui.panes.request import CardView, QuestionRow
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import fit

#: Answers that let something begin: what was not on screen is asked about first (R14).
LETS_BEGIN: Final = frozenset(
    option.action for option in (RUN_ALL, RUN_STEPS, ACCEPT, GO_ON, SUGGESTED, TRUST, OPEN_PAGE)
)

#: Cards on whose steps remarks are written; a no sends them.
REMARKED: Final = (CardKind.PLAN, CardKind.PLAN_CHANGE)

REFUSES: Final = "n"  # on every card
REMARK: Final = next(key.label for key in keys_of("card") if key.action == "remark")
_MORE: Final = "plus"  # a second key for more loops, wherever those are offered
_MAY_BE_EMPTY: Final = frozenset({REJECT.action, RETRY.action})  # words may follow, or none


def card_bindings(letters: frozenset[str]) -> list[BindingType]:
    """The keys of all cards, and those that scroll."""
    found: list[BindingType] = [Binding(k, f"option('{k}')", show=False) for k in sorted(letters)]
    for key in keys_of("card", "consultation"):
        if key.action == "walk":
            found += [Binding(k, f"walk('{k}')", show=False) for k in key.keys]
        elif "option" not in key.action:
            found.append(Binding(",".join(key.keys), key.action, show=False))
    walked = {k for key in keys_of("consultation") for k in key.keys}
    return found + scroll_bindings(walked)


def option_at(card: Card, key: str) -> CardOption | None:
    """The option that the key takes on this card."""
    if key == _MORE:
        return next((o for o in card.options if o.action == "more_loops"), None)
    return next((o for o in card.options if o.key == key), None)


_SHARE: Final = 0.7  # of the container's height that the card takes at most
_SHARE_TIGHT: Final = 0.85  # the same where room is short
_TIGHT: Final = 30  # rows of the screen below which it is


class CardPane(QuestionWidget):
    """One open card: what it is about, the figures, the keys of its options."""

    #: Keys that take an option of some card.
    _OPTIONS: ClassVar[frozenset[str]] = frozenset(
        k for key in keys_of("card", "consultation") if "option" in key.action for k in key.keys
    )
    surfaces = ("card", "consultation")
    LETTERS = _OPTIONS | {k for key in keys_of("card") for k in key.keys}
    BINDINGS: ClassVar[list[BindingType]] = card_bindings(_OPTIONS)

    class PlanWanted(Message):
        """The user would change the plan before answering; the card stays open."""

    def __init__(self, clock: Clock, *, id: str | None = None) -> None:
        rows = CardView(self._room_of_rows, id="card-rows")
        super().__init__(clock, KeyRow(rows.height_for), field_id="card-text", id=id)
        self._rows = rows
        self._card: Card | None = None
        self._plan: Plan | None = None
        self._waiting = 1  # questions that are open, this one included
        self._looks = False  # at the files of the card, whole
        self._asked: CardOption | None = None  # the option whose text is being typed
        self._remarks: dict[str, str] = {}  # by step: what the user wrote on it
        self._remarks_on = ""  # the plan that they are about
        self._remarked = ""  # the step whose remark is being typed

    def compose(self) -> ComposeResult:
        yield self._rows
        yield self._field
        yield self._keys

    def on_mount(self) -> None:
        self._rows.on_seen(self._refresh_frame)
        self._field.display = self.display = False
        self._refresh_rows(fresh=True)

    @property
    def card(self) -> Card | None:
        """The card that is shown."""
        return self._card

    def count_unseen(self) -> int:
        """Rows that have not been on screen."""
        return self._rows.count_unseen()

    def show_card(self, card: Card | None, plan: Plan | None, waiting: int = 1) -> None:
        """Show this card with the plan it is about; None hides it."""
        other = (card.card_id if card else "") != (self._card.card_id if self._card else "")
        same = not other and plan == self._plan and waiting == self._waiting
        self._plan, self._waiting = plan, waiting
        if same:
            return
        had_focus = self.has_focus or self._field.has_focus
        self._card = card
        if other:
            self._sent, self._hint, self._looks = False, "", False
            self._unread_for = ""
            self._rows.folds = card is None or card.kind in CONSULTS
            self._close_field()
            if card is not None and card.plan_id != self._remarks_on:
                self._remarks, self._remarks_on = {}, card.plan_id
                if card.kind in REMARKED and self.kept is not None:
                    self._put_remarks(self.kept(card.subject))
            elif card is not None and card.kind in REMARKED:
                self._tell_remarks(card)
        self.display = card is not None
        self._refresh_rows(fresh=other)
        if other and had_focus and card is None:
            self._leave_question(self._guard.take_back())
        elif other and had_focus:
            self.take_focus()

    # --- how it looks -----------------------------------------------------------------------

    def watch_words(self) -> None:
        self._refresh_rows(fresh=False)

    def _refresh_rows(self, *, fresh: bool) -> None:
        card = self._card
        if card is None or not self.is_attached or not self.is_mounted:
            return
        small = self.screen.size.height < ROOMY
        self.set_class(small, "-small")
        self._rows.says = self.words("gate.says")
        rows = card_rows(card, self._plan, self.words, whole=self._looks)
        if card.kind in REMARKED:
            rows = with_remarks(rows, self._remarks)
        heading, subject = self._heading_and_subject()
        room = self.line_cells - 2
        if small or 0 < room < cell_len(f"{heading}  {subject}{self._waiting_number()}"):
            rows.insert(0, QuestionRow(heading, subject))
        self._rows.column = max((cell_len(row.label) for row in rows), default=0)
        self._rows.show_rows(rows, fresh=fresh)
        self._refresh_frame()
        self._lay_out_again()

    def _heading_and_subject(self) -> tuple[str, str]:
        assert self._card is not None
        heading = card_heading(self._card, self._plan, self.words)
        return heading, card_subject(self._card, self._plan, self.words)

    def _waiting_number(self) -> str:
        """``1 of 2`` where other questions wait behind this one."""
        if self._waiting < 2:
            return ""
        return "  " + self.words("gate.waiting", number=1, total=self._waiting)

    def _describe_frame(self, *, lit: bool) -> QuestionFrame | None:
        card = self._card
        if card is None:
            return None
        palette = palette_of(self)
        room = max(0, self.line_cells - 2)
        heading, subject = self._heading_and_subject()
        rest = self._waiting_number()
        title = Text(fit(heading, room), style=f"bold {palette.accent}", no_wrap=True)
        spare = room - title.cell_len - cell_len(rest) - 2
        if subject and spare > 3:
            title.append(f"  {fit(subject, spare)}")
        title.append(rest, style=f"not bold {palette.quiet}")
        prompt = consult_question(card, self.words)
        if prompt and self._unread_for and self.count_unseen():
            prompt = self.words("card.unread", count=self.count_unseen())
        keys, effects = self._key_hints(card, prompt), option_effects(card, self.words)
        return QuestionFrame(title, self._hint_now(lit), keys, prompt, effects)

    def _hint_now(self, lit: bool) -> str:
        if self._remarked:
            return self.words("gate.hint_remark")
        if self._asked is not None:
            return self.words(f"card.hint_text.{self._asked.action}")
        if self._hint or not lit or self._card is None:
            return self._hint or self.words("gate.hint")
        return self.words(hint_of(self._card, self._rows.chosen_ref))

    def _key_hints(self, card: Card, prompt: str) -> tuple[KeyHint, ...]:
        unseen = self.count_unseen()
        found = [
            KeyHint(
                option.key,
                option_words(card, option, self.words)
                + needed_by(card, option, self._plan, self.words),
            )
            for option in card.options
        ]
        if card.kind in REMARKED:
            if self._remarks:
                sends = self.words("gate.key.reject_with", count=len(self._remarks))
                found = [replace(h, text=sends) if h.letter == REFUSES else h for h in found]
            found.append(KeyHint(REMARK, self.words("gate.key.remark")))
        if unseen:
            found.append(KeyHint("↓", self.words("gate.key.next", count=unseen)))
        asks: list[str] = []
        if self._unread_for and unseen and not prompt:
            asks.append(self.words("card.unread", count=unseen))
        if self._unread_for and self._remarks:
            asks.append(self.words("gate.unread.remarks", count=len(self._remarks)))
        if self._unread_for and not unseen and not asks:
            asks.append(self.words("gate.unread.none_left"))
        if asks:
            found.insert(0, KeyHint("", self.words("gate.unread.joint").join(asks), asks=True))
        return tuple(found)

    # --- room -------------------------------------------------------------------------------

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        tight = self.screen.size.height < _TIGHT
        most = int(container.height * (_SHARE_TIGHT if tight else _SHARE))
        most = max(min(most, container.height - 2), min(container.height, 4))
        if self.alone:
            most = container.height
        elif self.yields:
            most = min(most, max(container.height - TALK, min(container.height, 4)))
        return min(self._foot_height(width, most) + self._rows.height_for(width), most)

    def _foot_height(self, width: int, height: int) -> int:
        return 1 if self._active_field is not None else self._keys.height_for(width, height)

    def _room_of_rows(self, size: Size) -> int:
        return max(0, size.height - self._foot_height(size.width, size.height))

    # --- keys -------------------------------------------------------------------------------

    def answers_to(self, letter: str) -> bool:
        card = self._card
        if card is None:
            return False
        return option_at(card, letter) is not None or (letter == REMARK and card.kind in REMARKED)

    def _waiting_words(self, key: str) -> str:
        option = option_at(self._card, key) if self._card is not None else None
        return option_words(self._card, option, self.words) if self._card and option else key

    def action_option(self, key: str) -> None:
        card = self._card
        if card is None or not self._is_ready:
            return
        option = option_at(card, key)
        doubt = self.count_unseen() > 0 or bool(self._remarks)  # which only a no sends
        if option is None:
            return
        if option.action == EDIT_PLAN.action:
            self._guard.stop_guarding()  # what comes until the plan has the focus answers nothing
            self.post_message(self.PlanWanted())
        elif option.action == LOOK.action:
            self._looks = not self._looks
            self._refresh_rows(fresh=False)
        elif card.kind is CardKind.PLAN and (
            self._plan is None or self._plan.fingerprint != card.subject
        ):
            self._show_hint("card.changed_meanwhile")
        elif option.action in LETS_BEGIN and self._asks_first(option.action, why=doubt):
            return
        elif option.takes_text and not (option == REJECT and self._remarks):
            self._asked = option
            asks = card.kind in (CardKind.QUESTION, CardKind.SERVER) and option == TELL
            self._open_field(self.words(f"card.ask_text.{'answer' if asks else option.action}"))
        else:
            self._send_answer(card, option, "")

    def action_walk(self, key: str) -> None:
        """Among the rows that lead into the chat or are steps; where there is no other, scroll."""
        down = key == "down"
        if not self._rows.step_by(1 if down else -1):
            self._rows.unfold_rows()
            self._rows.scroll_relative(y=1 if down else -1, animate=False)
        self._hint = ""
        self._refresh_frame()

    def action_remark(self) -> None:
        """Write on the step at the cursor, or on the first."""
        card = self._card
        if card is None or not self._is_ready:
            return
        plan = card.change.result if card.change is not None else self._plan
        if card.kind not in REMARKED or plan is None:
            return
        if self._rows.chosen_ref or self._rows.step_by(1):
            self._remarked = self._rows.chosen_ref
            number = self._find_step(self._remarked)[0]
            self._open_field(self.words("card.ask_remark", number=number))
            self._field.value = self._remarks.get(self._remarked, "")
            self._field.cursor_position = len(self._field.value)

    def _find_step(self, step_id: str) -> tuple[int, str]:
        """Number and name of a step in what the card shows; of one that would go in the plan."""
        change = self._card.change if self._card is not None else None
        for plan in (change.result if change is not None else None, self._plan):
            for number, step in enumerate(plan.steps if plan is not None else (), 1):
                if step.step_id == step_id:
                    return number, step.name
        return 0, ""  # it is no longer in the plan

    def _remarked_steps(self) -> tuple[Remark, ...]:
        """The remarks in the order of their steps."""
        placed = sorted((self._find_step(step), said) for step, said in self._remarks.items())
        return tuple(Remark(number=n, line=name, said=s) for (n, name), s in placed if n)

    def _tell_remarks(self, card: Card) -> None:
        self.post_message(self.Remarked(card.subject, self._remarked_steps()))

    def _put_remarks(self, remarks: Sequence[Remark]) -> None:
        """Let these stand on their steps again."""
        said = {(remark.number, remark.line): remark.said for remark in remarks}
        change = self._card.change if self._card is not None else None
        for plan in (self._plan, change.result if change is not None else None):
            for step in plan.steps if plan is not None and said else ():
                text = said.get(self._find_step(step.step_id))
                if text is not None:
                    self._remarks[step.step_id] = text

    def action_go_to(self) -> None:
        """Show the place in the chat that the row is about; a step is remarked on."""
        if self._card is not None and self._card.kind in REMARKED:
            self.action_remark()
            return
        if not self._rows.chosen_ref or not self.has_focus or not self._guard.is_settled:
            return
        if host_of(self).bench.go_to((self._rows.chosen_ref,)):
            self.yields = True  # the place needs some rows to be seen in
        else:
            self._show_hint("plan.not_in_chat")

    def on_card_view_pointed(self, event: CardView.Pointed) -> None:
        event.stop()
        self._refresh_frame()
        if event.again:
            self.action_go_to()

    def _unknown_words(self, key: str) -> str:
        """The key is none of this card (S0-43)."""
        keys = " ".join(o.key for o in self._card.options) if self._card else ""
        return self.words("card.no_such_key", key=key, keys=keys)

    def _reveal_unseen(self) -> None:
        self._rows.reveal_unseen()

    def _scrolled_view(self) -> CardView:
        self._rows.unfold_rows()
        return self._rows

    def _submit_text(self, text: str) -> None:
        card, option = self._card, self._asked
        text = text.strip()
        if self._remarked and not self._sent:
            if text:
                self._remarks[self._remarked] = text
            else:
                self._remarks.pop(self._remarked, None)
            if card is not None:
                self._tell_remarks(card)
            self._unread_for = ""
            self._close_field()
            self._refresh_rows(fresh=False)
            self.focus()
            return
        if card is None or option is None or self._sent:
            return
        if not text and option.takes_text and option.action not in _MAY_BE_EMPTY:
            self._close_field()
            self.focus()
            return
        self._send_answer(card, option, text)

    def _send_answer(self, card: Card, option: CardOption, text: str) -> None:
        self._sent = True
        self._guard.forget_keys()
        self._close_field()
        remarks = self._remarked_steps() if option == REJECT else ()
        self._remarks = {}
        answer = CardAnswer(
            card_id=card.card_id,
            subject=card.subject,
            action=option.action,
            text=text,
            remarks=remarks,
        )
        self.post_message(self.Answered(answer))
        self._leave_question()

    def _close_field(self) -> None:
        self._asked, self._remarked = None, ""
        super()._close_field()
