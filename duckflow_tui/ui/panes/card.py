"""A card in the chat: a question about the work that waits for the user's key."""

from __future__ import annotations

from typing import ClassVar, Final, cast

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer, Vertical
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var

from duckflow_tui.state.base import Clock
from duckflow_tui.state.gates import (
    ACCEPT,
    EDIT_PLAN,
    GO_ON,
    REJECT,
    RETRY,
    RUN_ALL,
    RUN_STEPS,
    SUGGESTED,
    Card,
    CardAnswer,
    CardKind,
    CardOption,
)
from duckflow_tui.state.plan import Plan
from duckflow_tui.ui.bindings import keys_of
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
)
from duckflow_tui.ui.panes.key_guard import COMPOSED, InlineField, KeyGuard, anew, writes
from duckflow_tui.ui.panes.question import KeyHint, OptionRows
from duckflow_tui.ui.panes.request import CardView, GateRow
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import fit
from duckflow_tui.words.catalogue import Catalogue

#: Keys that take an option of some card.
LETTERS: Final = frozenset(
    k for key in keys_of("card", "consultation") if "option" in key.action for k in key.keys
)

#: Answers that let something begin: what was not on screen is shown first (R14).
LETS_BEGIN: Final = frozenset(
    option.action for option in (RUN_ALL, RUN_STEPS, ACCEPT, GO_ON, SUGGESTED)
)

NEXT: Final = "y"  # shows what was not on screen, on every card

REFUSES: Final = "n"  # on every card


_MORE: Final = "plus"  # a second key for more loops, wherever those are offered

_MAY_BE_EMPTY: Final = frozenset({REJECT.action, RETRY.action})


def card_bindings() -> list[BindingType]:
    """The keys of all cards, and those that scroll."""
    found: list[BindingType] = [Binding(k, f"option('{k}')", show=False) for k in sorted(LETTERS)]
    for key in keys_of("consultation"):
        if key.action == "walk":
            found += [Binding(k, f"walk('{k}')", show=False) for k in key.keys]
        elif key.action != "option":
            found.append(Binding(",".join(key.keys), key.action, show=False))
    walked = {k for key in keys_of("consultation") for k in key.keys}
    for binding in cast("list[Binding]", ScrollableContainer.BINDINGS):
        if binding.key not in walked:
            found.append(Binding(binding.key, f"scroll_rows('{binding.action}')", show=False))
    return found


def option_at(card: Card, key: str) -> CardOption | None:
    """The option that the key takes on this card."""
    if key == _MORE:
        return next((o for o in card.options if o.action == "more_loops"), None)
    return next((o for o in card.options if o.key == key), None)


def answers_alone(card: Card, key: str) -> bool:
    """Whether the key alone answers the card, and not with no."""
    option = option_at(card, key)
    opens = option is None or option.takes_text or option.action == EDIT_PLAN.action
    return not opens and key != REFUSES


def wants_words(option: CardOption) -> bool:
    """Whether the option says nothing without the user's words."""
    return option.takes_text and option.action not in _MAY_BE_EMPTY


_SHARE: Final = 0.7  # of the container's height that the card takes at most

_SHARE_TIGHT: Final = 0.85  # the same where room is short

_TIGHT: Final = 30  # rows of the screen below which it is


class QuestionCard(Vertical, can_focus=True):
    """One open card: what it is about, the figures, the keys of its options.

    It keeps the rules of a gate: it never takes the focus by itself, keys within ``SETTLE``
    seconds of the focus arriving do nothing, and a key that answers acts alone.
    """

    BINDINGS: ClassVar[list[BindingType]] = card_bindings()

    words: var[Catalogue] = var(Catalogue)
    yields: var[bool] = var(False)  # some room to the chat, where something was said
    alone: var[bool] = var(False)  # the chat is not shown: its room is the question's

    class Answered(Message):
        """The user pressed the key of an option."""

        def __init__(self, answer: CardAnswer) -> None:
            super().__init__()
            self.answer = answer

    class PlanWanted(Message):
        """The user would change the plan before answering; the card stays open."""

    class GoTo(Message):
        """The user wants to see the place in the chat that a row is about."""

        def __init__(self, ref: str) -> None:
            super().__init__()
            self.ref = ref

    class Left(Message):
        """The user is done here; ``typed`` was meant for the composer, ``pending`` says that the
        card still waits.
        """

        def __init__(
            self, typed: events.Key | events.Paste | None = None, *, pending: bool = False
        ) -> None:
            super().__init__()
            self.typed = typed
            self.pending = pending

    def __init__(self, clock: Clock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._guard = KeyGuard(self, clock)
        self._card: Card | None = None
        self._plan: Plan | None = None
        self._waiting = 1  # questions that are open, this one included
        self._sent = False  # it has been answered and only waits to go
        self._written_on = False  # what is typed is for the composer, which has some of it
        self._hint = ""
        self._asked: CardOption | None = None  # the option whose text is being typed
        self._rows = CardView(self._room_of_rows, id="card-rows")
        self._field = InlineField(self._written, id="card-text")
        self._keys = OptionRows(self._rows.height_for)

    def compose(self) -> ComposeResult:
        yield self._rows
        yield self._field
        yield self._keys

    def on_mount(self) -> None:
        self._rows.on_seen(self._say)
        self._field.display = self.display = False
        self._fill(fresh=True)

    @property
    def card(self) -> Card | None:
        """The card that is shown."""
        return self._card

    def unseen(self) -> int:
        """Rows that have not been on screen."""
        return self._rows.unseen()

    def ask(self, card: Card | None, plan: Plan | None, waiting: int = 1) -> None:
        """Show this card with the plan it is about; None hides it."""
        other = (card.card_id if card else "") != (self._card.card_id if self._card else "")
        same = not other and plan == self._plan and waiting == self._waiting
        self._plan, self._waiting = plan, waiting
        if same:
            return
        had_focus = self.has_focus or self._field.has_focus
        self._card = card
        if other:
            self._sent, self._hint = False, ""
            self._close_field()
        self.display = card is not None
        self._fill(fresh=other)
        if other and had_focus and card is None:
            self.post_message(self.Left())
        elif other and had_focus:
            self.take_focus()

    def take_focus(self) -> None:
        """Get the focus, or keep it, for a question that the user did not turn to."""
        if self.has_focus:
            self._guard.begin(unasked=True)
        else:
            self._guard.unasked()
            self.screen.set_focus(self)

    # --- how it looks -----------------------------------------------------------------------

    def watch_words(self) -> None:
        self._fill(fresh=False)

    def watch_yields(self) -> None:
        if self.is_mounted:
            self._lay_out()

    def on_resize(self) -> None:
        self._fill(fresh=False)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_mounted:
            self.call_later(self._say)

    def _fill(self, *, fresh: bool) -> None:
        card = self._card
        if card is None or not self.is_attached or not self.is_mounted:
            return
        small = self.screen.size.height < ROOMY
        self.set_class(small, "-small")
        self._rows.says = self.words("gate.says")
        self._rows.one_scroll = card.kind not in CONSULTS
        rows = card_rows(card, self._plan, self.words)
        heading, subject = self._heading()
        if small or cell_len(f"{heading}  {subject}{self._number()}") > self.size.width - 2:
            rows.insert(0, GateRow(heading, subject))
        self._rows.column = max((cell_len(row.label) for row in rows), default=0)
        self._rows.show(rows, fresh=fresh)
        self._say()
        self._lay_out()

    def _heading(self) -> tuple[str, str]:
        assert self._card is not None
        heading = card_heading(self._card, self._plan, self.words)
        return heading, card_subject(self._card, self._plan, self.words)

    def _number(self) -> str:
        """``1 of 2`` where other questions wait behind this one."""
        if self._waiting < 2:
            return ""
        return "  " + self.words("gate.waiting", number=1, total=self._waiting)

    def _say(self) -> None:
        card = self._card
        if card is None or not self.is_attached:
            return
        palette = palette_of(self)
        lit = self.has_focus and not self._sent
        room = max(0, self.size.width - 2)
        heading, subject = self._heading()
        rest = self._number()
        title = Text(fit(heading, room), style=f"bold {palette.accent}", no_wrap=True)
        spare = room - title.cell_len - cell_len(rest) - 2
        if subject and spare > 3:
            title.append(f"  {fit(subject, spare)}")
        self.border_title = title.append(rest, style=f"not bold {palette.quiet}")
        self.border_subtitle = Text(fit(self._hint_now(lit), room), style=palette.accent)
        self._rows.lit = self._keys.lit = lit
        self._keys.question = consult_question(card, self.words)
        self._keys.effects = option_effects(card, self.words)
        hints = tuple(self._key_hints(card))
        if hints != self._keys.hints:
            self._keys.hints = hints
            self._lay_out()

    def _hint_now(self, lit: bool) -> str:
        if self._asked is not None:
            return self.words(f"card.hint_text.{self._asked.action}")
        if self._hint or not lit or self._card is None:
            return self._hint or self.words("gate.hint")
        return self.words(hint_of(self._card, self._rows.chosen))

    def _key_hints(self, card: Card) -> list[KeyHint]:
        unseen = self.unseen()
        found = [
            KeyHint(
                option.key,
                self.words(f"card.{card.kind}.{option.action}"),
                needed_by(card, option, self._plan, self.words),
            )
            for option in card.options
        ]
        if not unseen:
            return found
        pages = [o.key for o in card.options if o.action in LETS_BEGIN]
        letters = " ".join(dict.fromkeys((NEXT, *pages)))
        following = KeyHint(letters, self.words("gate.key.next", count=unseen))
        return [following, *(hint for hint in found if hint.letter not in (NEXT, *pages))]

    # --- room -------------------------------------------------------------------------------

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        tight = self.screen.size.height < _TIGHT
        most = int(container.height * (_SHARE_TIGHT if tight else _SHARE))
        most = max(min(most, container.height - 2), min(container.height, 4))
        if self.alone:
            most = container.height
        elif self.yields:
            most = min(most, max(container.height - TALK, min(container.height, 4)))
        return min(self._foot(width, most) + self._rows.height_for(width), most)

    def _foot(self, width: int, height: int) -> int:
        return 1 if self._asked is not None else self._keys.height_for(width, height)

    def _room_of_rows(self, size: Size) -> int:
        return max(0, size.height - self._foot(size.width, size.height))

    def _lay_out(self) -> None:
        for part in (self._rows, self._keys):
            part.refresh(layout=True)
        self.refresh(layout=True)

    # --- keys -------------------------------------------------------------------------------

    @property
    def holding(self) -> bool:
        """Whether a key waits a moment, because the next could make it a part of a text."""
        return self._guard.holding

    def on_focus(self) -> None:
        self._guard.begin()
        self._sent, self._written_on, self._hint = False, False, ""
        self._say()

    def on_blur(self) -> None:
        self._guard.end()
        self._hint = ""
        self._say()

    async def on_paste(self, event: events.Paste) -> None:
        if self._asked is not None:
            event.stop()
            event.prevent_default()
            self._field.take_paste(event)
        else:
            await self._is_text(event)

    async def on_key(self, event: events.Key) -> None:
        """Keys from before the focus was noticed do nothing; those after an answer are text, and
        so are those after an option that takes some. No option but refusing is chosen from the
        middle of a burst, and none that answers at once from its beginning.
        """
        begins = self._guard.begins(event)
        if self._asked is not None:
            if await self._field.take(event):
                event.stop()
                event.prevent_default()
            return
        if await self._is_text(event) or not self.has_focus:
            return
        if self._does_nothing(event):
            event.stop()
            event.prevent_default()
        elif event.key in LETTERS or (event.is_printable and event.character):
            event.stop()
            event.prevent_default()
            if not begins and event.key != REFUSES:
                self._guard.idle()
                return
            if event.key not in LETTERS:
                self._guard.idle()
                self._refuse(event.character or event.key)
            elif self._card is not None and answers_alone(self._card, event.key):
                self._guard.hold(event, lambda: self._do(event.key))
            else:
                await self._do(event.key)

    def _does_nothing(self, event: events.Key) -> bool:
        """Whether it came too soon, or goes on with keys that did; so does what follows it."""
        own = event.key in self._bindings.key_to_bindings or event.key == "enter"
        soon = not self._guard.settled and (own or event.is_printable)
        text = self._guard.goes_on and (writes(event) or event.key in COMPOSED)
        if self._guard.came_by_itself and soon:
            self._tell("gate.came_by_itself")
        elif text and not soon:
            self._tell("gate.goes_on")
        if soon or text:
            self._guard.idle()
        return soon or text

    async def _do(self, key: str) -> None:
        for binding in self._bindings.key_to_bindings[key]:
            await self.run_action(binding.action)

    async def _is_text(self, event: events.Key | events.Paste) -> bool:
        """Whether it belongs to the composer, and is on its way there: it came after an answer, or
        goes on with a text whose first letter was taken for one until now.
        """
        first = await self._guard.first_of_text(event)
        if first is not None:
            self._to_composer(first)
        composes = self._written_on and isinstance(event, events.Key) and event.key in COMPOSED
        if not (self._sent or self._written_on) or not (writes(event) or composes):
            return False
        event.stop()
        event.prevent_default()
        self._to_composer(event)
        return True

    def _to_composer(self, event: events.Key | events.Paste) -> None:
        self._written_on = True
        self.post_message(self.Left(anew(event)))

    def action_option(self, key: str) -> None:
        card = self._card
        ready = self.has_focus and self._guard.settled and self._asked is None and not self._sent
        if card is None or not ready:
            return
        option = option_at(card, key)
        lets_begin = option is not None and option.action in LETS_BEGIN
        if self.unseen() and (key == NEXT or lets_begin):
            self._rows.show_next_unseen()
            self._lay_out()
        elif option is None:
            self._refuse("+" if key == "plus" else key)
        elif option.action == EDIT_PLAN.action:
            self._guard.end()  # what comes until the plan has the focus answers nothing
            self.post_message(self.PlanWanted())
        elif card.kind is CardKind.PLAN and not self._is_as_shown(card):
            self._tell("card.changed_meanwhile")
        elif option.takes_text:
            self._open_field(option)
        else:
            self._answer(card, option, "")

    def action_escape(self) -> None:
        if self._asked is not None:
            self._close_field()
            self.focus()
        else:
            self.post_message(self.Left(pending=not self._sent))

    def action_walk(self, key: str) -> None:
        """Among the rows that lead into the chat; where there are none, scroll."""
        down = key == "down"
        if not self._rows.step(1 if down else -1):
            self._rows.scroll_relative(y=1 if down else -1, animate=False)
        self._hint = ""
        self._say()

    def action_go_to(self) -> None:
        if self._rows.chosen and self.has_focus and self._guard.settled:
            self.post_message(self.GoTo(self._rows.chosen))

    def on_card_view_pointed(self, event: CardView.Pointed) -> None:
        event.stop()
        self._say()
        if event.again:
            self.action_go_to()

    def not_in_chat(self) -> None:
        """The place that was wanted is not there."""
        self._tell("plan.not_in_chat")

    def _refuse(self, key: str) -> None:
        """The key is none of this card (S0-43)."""
        keys = " ".join(o.key for o in self._card.options) if self._card else ""
        self._tell("card.no_such_key", key=key, keys=keys)

    def _tell(self, entry: str, /, **params: str) -> None:
        self._hint = self.words(entry, **params)
        self._say()

    async def action_scroll_rows(self, action: str) -> None:
        await self._rows.run_action(action)

    def _written(self, text: str) -> None:
        card, option = self._card, self._asked
        if card is None or option is None or self._sent:
            return
        text = text.strip()
        if wants_words(option) and not text:
            self._close_field()
            self.focus()
            return
        self._answer(card, option, text)

    def _is_as_shown(self, card: Card) -> bool:
        return self._plan is not None and self._plan.fingerprint == card.subject

    def _answer(self, card: Card, option: CardOption, text: str) -> None:
        self._sent, self._written_on = True, False
        self._close_field()
        answer = CardAnswer(
            card_id=card.card_id, subject=card.subject, action=option.action, text=text
        )
        self.post_message(self.Answered(answer))
        self.post_message(self.Left())

    def _open_field(self, option: CardOption) -> None:
        self._asked, self._hint = option, ""
        self._field.placeholder = self.words(f"card.ask_text.{option.action}")
        self._field.display, self._keys.display = True, False
        self._field.take_over(self)
        self._say()
        self._lay_out()

    def _close_field(self) -> None:
        self._asked = None
        self._field.value = ""
        self._field.display, self._keys.display = False, True
        self._say()
        self._lay_out()
