"""A card in the chat: a question about the plan that waits for the user's key."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer, Vertical
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var

from duckflow_tui.state.cards import (
    ACCEPT,
    EDIT_PLAN,
    GO_ON,
    RUN_ALL,
    RUN_STEPS,
    SUGGESTED,
    TELL,
    Card,
    CardAnswer,
    CardKind,
    CardOption,
)
from duckflow_tui.state.clock import Clock
from duckflow_tui.state.work import Plan
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.i18n import Catalogue
from duckflow_tui.ui.layout import ROOMY
from duckflow_tui.ui.panes.card_rows import card_heading, card_rows, card_subject
from duckflow_tui.ui.panes.gate import SETTLE
from duckflow_tui.ui.panes.gate_keys import KeyHint, KeyRow
from duckflow_tui.ui.panes.gate_request import RequestView
from duckflow_tui.ui.panes.gate_rows import GateRow
from duckflow_tui.ui.panes.strips import fit
from duckflow_tui.ui.panes.theme_palette import palette_of
from duckflow_tui.ui.panes.typed_ahead import COMPOSED, BurstWatch, InlineField

_SHARE: Final = 0.7  # of the container's height that the card takes at most
_SHARE_TIGHT: Final = 0.85  # the same where room is short
_TIGHT: Final = 30  # rows of the screen below which it is
#: Answers that let something begin: what was not on screen is shown first (R14).
_LETS_BEGIN: Final = frozenset(
    option.action for option in (RUN_ALL, RUN_STEPS, ACCEPT, GO_ON, SUGGESTED)
)
_NEXT: Final = "y"  # shows what was not on screen, on every card
_REFUSES: Final = "n"  # on every card
_SCROLLS: Final = tuple(
    binding for binding in ScrollableContainer.BINDINGS if isinstance(binding, Binding)
)


def _bindings() -> list[BindingType]:
    found: list[BindingType] = [
        Binding(",".join(key.keys), key.action, key.label, show=False) for key in keys_of("card")
    ]
    found.append(Binding("escape", "escape", show=False))
    for binding in _SCROLLS:
        found.append(Binding(binding.key, f"scroll_rows('{binding.action}')", show=False))
    return found


_LETTERS: Final = frozenset(k for key in keys_of("card") for k in key.keys)


class QuestionCard(Vertical, can_focus=True):
    """One open card: what it is about, the figures, the keys of its options.

    It keeps the rules of a gate: it never takes the focus by itself, and keys within ``SETTLE``
    seconds of the focus arriving do nothing.
    """

    BINDINGS: ClassVar[list[BindingType]] = _bindings()

    words: var[Catalogue] = var(Catalogue)

    class Answered(Message):
        """The user pressed the key of an option."""

        def __init__(self, answer: CardAnswer) -> None:
            super().__init__()
            self.answer = answer

    class PlanWanted(Message):
        """The user would change the plan before answering; the card stays open."""

    class Left(Message):
        """The user is done here; ``typed`` was meant for the composer."""

        def __init__(self, typed: events.Key | events.Paste | None = None) -> None:
            super().__init__()
            self.typed = typed

    def __init__(self, clock: Clock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._card: Card | None = None
        self._plan: Plan | None = None
        self._waiting = 1  # questions that are open, this one included
        self._burst = BurstWatch()
        self._focused_at: float | None = None
        self._sent = False  # it has been answered and only waits to go
        self._written_on = False  # since then something was typed that the composer has now
        self._hint = ""
        self._asked: CardOption | None = None  # the option whose text is being typed
        self._rows = RequestView(self._room_of_rows, id="card-rows")
        self._field = InlineField(self._written, id="card-text")
        self._keys = KeyRow()

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
            self._focused_at = self._clock.monotonic()
            self.focus()

    # --- how it looks -----------------------------------------------------------------------

    def watch_words(self) -> None:
        self._fill(fresh=False)

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
        return heading, card_subject(self._card, self._plan)

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
        hints = tuple(self._key_hints(card))
        if hints != self._keys.hints:
            self._keys.hints = hints
            self._lay_out()

    def _hint_now(self, lit: bool) -> str:
        if self._asked is not None:
            return self.words(f"card.hint_text.{self._asked.action}")
        return self._hint or self.words("gate.hint_focused" if lit else "gate.hint")

    def _key_hints(self, card: Card) -> list[KeyHint]:
        unseen = self.unseen()
        found = [KeyHint(o.key, self.words(f"card.{card.kind}.{o.action}")) for o in card.options]
        if not unseen:
            return found
        following = KeyHint(_NEXT, self.words("gate.key.next", count=unseen))
        return [following, *(hint for hint in found if hint.letter != _NEXT)]

    # --- room -------------------------------------------------------------------------------

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        tight = self.screen.size.height < _TIGHT
        most = int(container.height * (_SHARE_TIGHT if tight else _SHARE))
        most = max(min(most, container.height - 2), min(container.height, 4))
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

    def on_focus(self) -> None:
        self._focused_at = self._clock.monotonic()
        self._sent, self._hint = False, ""
        self._say()

    def on_blur(self) -> None:
        self._focused_at, self._hint = None, ""
        self._say()

    def on_paste(self, event: events.Paste) -> None:
        if self._asked is not None:
            event.stop()
            event.prevent_default()
            self._field.take_paste(event)
        elif self._sent:
            event.stop()
            event.prevent_default()
            self.post_message(self.Left(events.Paste(event.text)))

    async def on_key(self, event: events.Key) -> None:
        """Keys from before the focus was noticed do nothing; those after an answer are text, and
        so are those after an option that takes some. No option but refusing is chosen from the
        middle of a burst.
        """
        begins = self._burst.begins(event)
        if self._asked is not None:
            if await self._field.take(event):
                event.stop()
                event.prevent_default()
            return
        if not self.has_focus and not self._sent:
            return
        own = event.key in self._bindings.key_to_bindings or event.key == "enter"
        writes = event.is_printable and event.character is not None
        if self._sent and (writes or (self._written_on and event.key in COMPOSED)):
            event.stop()
            event.prevent_default()
            self._written_on = True
            self.post_message(self.Left(events.Key(event.key, event.character)))
        elif not self._settled and (own or event.is_printable):
            event.stop()
            event.prevent_default()
        elif event.key in _LETTERS:
            event.stop()
            event.prevent_default()
            if not begins and event.key != _REFUSES:
                return
            for binding in self._bindings.key_to_bindings[event.key]:
                await self.run_action(binding.action)

    @property
    def _settled(self) -> bool:
        since = self._focused_at
        # Rounded, because 0.9 - 0.6 is less than 0.3.
        return since is not None and round(self._clock.monotonic() - since, 6) >= SETTLE

    def action_option(self, key: str) -> None:
        card = self._card
        ready = self.has_focus and self._settled and self._asked is None and not self._sent
        if card is None or not ready:
            return
        option = next((o for o in card.options if o.key == key), None)
        lets_begin = option is not None and option.action in _LETS_BEGIN
        if self.unseen() and (key == _NEXT or lets_begin):
            self._rows.show_next_unseen()
            self._lay_out()
        elif option is None:
            return
        elif option.action == EDIT_PLAN.action:
            self._focused_at = None  # what comes until the plan has the focus answers nothing
            self.post_message(self.PlanWanted())
        elif card.kind is CardKind.PLAN and not self._is_as_shown(card):
            self._hint = self.words("card.changed_meanwhile")
            self._say()
        elif option.takes_text:
            self._open_field(option)
        else:
            self._answer(card, option, "")

    def action_escape(self) -> None:
        if self._asked is not None:
            self._close_field()
            self.focus()
        else:
            self.post_message(self.Left())

    async def action_scroll_rows(self, action: str) -> None:
        await self._rows.run_action(action)

    def _written(self, text: str) -> None:
        card, option = self._card, self._asked
        if card is None or option is None or self._sent:
            return
        text = text.strip()
        if option.action == TELL.action and not text:
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
