"""What the gate and the card have in common: when a key answers, and the row of keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive, var
from textual.widget import Widget

from duckflow_tui.state.base import Clock
from duckflow_tui.state.gates import Remark
from duckflow_tui.ui.host import names_key, press_clicked
from duckflow_tui.ui.panes.key_guard import SETTLE, InlineField, KeyGuard, anew, composes, writes
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import fit, ink, wrap
from duckflow_tui.ui.textual_private import bindings_of, half_width_key
from duckflow_tui.words.catalogue import Catalogue

_GAPS: Final = (2, 1)  # between two keys; the second where that saves a line


@dataclass(frozen=True, slots=True)
class KeyHint:
    """A letter and what it does, in words. One that ``asks`` has no letter: it is the question
    that the others answer.
    """

    letter: str
    text: str
    asks: bool = False

    @property
    def cells(self) -> int:
        """Room for `` y  once``."""
        return self.head + cell_len(self.text)

    @property
    def head(self) -> int:
        """Room for the letter and the spaces around it."""
        return cell_len(self.letter) + 3 if self.letter else 0


def _key_of(letter: str) -> str:
    """What a key that is printed like this is called."""
    if letter.startswith("↓"):
        return "pagedown"
    return {"Esc": "escape"}.get(letter, letter)


class KeyRow(Widget, can_focus=False):
    """Letters on the accent while ``lit``, quiet otherwise: only lit letters act, pressed or
    clicked.
    """

    lit: reactive[bool] = reactive(False)
    hints: reactive[tuple[KeyHint, ...]] = reactive((), layout=True)

    def height_for(self, width: int, most: int) -> int:
        """Lines that the keys take, with ``most`` lines for the whole card.

        Something of the request stays in sight however long the labels are.
        """
        return min(len(self._packed(width)[1]), max(1, most - 2))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.height_for(width, container.height)

    def on_click(self, event: events.Click) -> None:
        press_clicked(self, event)

    def _letter(self, letter: str) -> tuple[str, Style]:
        """A letter as it is drawn, with the key that a click on it stands for."""
        palette = palette_of(self)
        style = ink(palette.quiet)
        if self.lit:
            style = ink(palette.on_accent, on=palette.accent, bold=True)
        return f" {letter} ", names_key(style, _key_of(letter))

    def render(self) -> Text:
        palette = palette_of(self)
        text = Text(no_wrap=True, end="")
        gap, lines = self._packed(self.size.width)
        for number, line in enumerate(lines):
            if number:
                text.append("\n")
            for index, hint in enumerate(line):
                if index:
                    text.append(" " * gap)
                if hint.letter:
                    text.append(*self._letter(hint.letter)).append(" ")
                tone = palette.text if self.lit else palette.quiet
                text.append(hint.text, style=f"bold {palette.accent}" if hint.asks else tone)
        return text

    def _packed(self, width: int) -> tuple[int, list[list[KeyHint]]]:
        """The gap and the lines: the wide gap unless the narrow one needs fewer lines."""
        return min(
            ((gap, self._pack(width, gap)) for gap in _GAPS), key=lambda packed: len(packed[1])
        )

    def _pack(self, width: int, gap: int) -> list[list[KeyHint]]:
        """The hints in lines; one that is too long for a line goes on below itself."""
        lines: list[list[KeyHint]] = [[]]
        used = 0
        for hint in self.hints:
            if used and used + gap + hint.cells > width:
                lines.append([])
                used = 0
            if hint.cells <= width:
                lines[-1].append(hint)
                used += hint.cells + (gap if used else 0)
                continue
            for number, (start, stop) in enumerate(wrap(hint.text, max(1, width - hint.head))):
                part = hint.text[start:stop]
                if number:
                    lines.append([KeyHint("", " " * hint.head + part, asks=hint.asks)])
                else:
                    lines[-1].append(KeyHint(hint.letter, part, asks=hint.asks))
            used = width
        return lines


_KEY: Final = 4  # cells of `` 1 `` and the space behind it
_ROWS: Final = 3  # of the rest of the card that the question gives way to
_GAP: Final = 2  # cells between what an option is called and what it does


class OptionRows(KeyRow):
    """A question with its answers. Without a question it is the row of keys that a gate has.

    ``others`` says how many lines everything else on the card takes at some width: the answers
    get a line each only where nothing else has to give way.
    """

    question: reactive[str] = reactive("", layout=True)
    effects: reactive[dict[str, str]] = reactive(dict[str, str])  # by key: what an answer does

    def __init__(self, others: Callable[[int], int]) -> None:
        super().__init__()
        self._others = others

    def height_for(self, width: int, most: int) -> int:
        if not self.question:
            return super().height_for(width, most)
        listed, packed = 1 + len(self.hints), 1 + len(self._packed(width)[1])
        others = self._others(width)
        if listed + others < most:
            return listed + 1  # with a blank line above
        least = min(1, others)  # of these, so that one knows what the keys are about
        if listed + others <= most or (listed <= packed and listed + least <= most):
            return listed
        if packed + min(_ROWS, others) <= most:
            return packed
        if packed - 1 + least <= most:  # all keys, without the question
            return packed - 1
        return super().height_for(width, most)

    def render(self) -> Text:
        if not self.question:
            return super().render()
        width, height = self.size
        asked = Text(fit(self.question, width), style=palette_of(self).text, no_wrap=True, end="")
        if height >= 1 + len(self.hints):
            air = Text("\n" if height > 1 + len(self.hints) else "", no_wrap=True, end="")
            asked = air.append_text(asked)
            return asked.append("\n").append_text(self._listed(width))
        if height > len(self._packed(width)[1]):
            return asked.append("\n").append_text(super().render())
        return super().render()

    def _listed(self, width: int) -> Text:
        palette = palette_of(self)
        names = max((cell_len(hint.text) for hint in self.hints), default=0)
        room = width - _KEY - names - _GAP
        effects = [self.effects.get(hint.letter, "") for hint in self.hints]
        tells = all(cell_len(effect) <= room for effect in effects)
        text = Text(no_wrap=True, end="")
        for hint, effect in zip(self.hints, effects, strict=True):
            if text:
                text.append("\n")
            text.append(*self._letter(hint.letter)).append(" ")
            name = fit(hint.text, width - _KEY)
            text.append(name, style=palette.text if self.lit else palette.quiet)
            if tells and effect:
                gap = names - cell_len(name) + _GAP
                text.append(f"{' ' * gap}{effect}", style=palette.quiet)
        return text


class QuestionWidget(Vertical, can_focus=True):
    """A question that waits for the user's key: what a gate and a card have in common.

    It never takes the focus by itself. Within ``SETTLE`` seconds of the focus arriving, and in a
    text, only keys act that decide nothing. A key that consents acts alone: with others right
    behind it, it is the beginning of a text, and all of it goes to the composer.
    """

    LETTERS: ClassVar[frozenset[str]] = frozenset()  # keys that do something here
    IN_BURSTS: ClassVar[frozenset[str]] = frozenset()  # those that act right behind others too
    FREE: ClassVar[frozenset[str]] = frozenset()  # keys that decide nothing: they always act

    words: var[Catalogue] = var(Catalogue)
    yields: var[bool] = var(False)  # some room to the chat, where something was said
    alone: var[bool] = var(False)  # the chat is not shown: its room is the question's

    class Remarked(Message):
        """The remarks on what is asked are others now. ``about``: what they hold for alone."""

        def __init__(self, about: str, remarks: tuple[Remark, ...]) -> None:
            super().__init__()
            self.about = about
            self.remarks = remarks

    class Left(Message):
        """The user is done here: the composer should have the focus.

        ``typed`` is a key or a paste that was meant for the composer; ``pending`` says that the
        user left without an answer.
        """

        def __init__(
            self, typed: events.Key | events.Paste | None = None, *, pending: bool = False
        ) -> None:
            super().__init__()
            self.typed = typed
            self.pending = pending

    #: The remarks that were kept for this proposal when the session was left; where they are about
    #: another one, they are dropped.
    kept: Callable[[str], tuple[Remark, ...]] | None = None

    def __init__(self, clock: Clock, keys: KeyRow, *, field_id: str, id: str | None = None) -> None:
        super().__init__(id=id)
        self._guard = KeyGuard(self, clock)
        self._sent = False  # it has been answered and only waits to go
        self._staying = False  # it was, and keeps the focus for what the same reply asks next
        self._leaving = False  # the composer is about to get the focus
        self._hint = ""  # why the last key did nothing
        self._too_soon = ""  # the same, where it came too soon: it stays while a text follows
        self._now = clock.monotonic
        #: The answer that was asked about first, as part of the question was not on screen.
        self._unread_for = ""
        self._asked_at = 0.0  # when that was
        self._field = InlineField(self._submit, id=field_id)
        self._keys = keys

    # --- what each kind of question says for itself --------------------------------------------

    def _refresh_frame(self) -> None:
        """Title, hint and keys for how things stand now."""
        raise NotImplementedError

    def _refresh_rows(self, *, fresh: bool) -> None:
        """The rows for the size and language at hand; ``fresh`` when the question is another."""
        raise NotImplementedError

    def _submit(self, text: str) -> None:
        """The user wrote this in the line of the question."""
        raise NotImplementedError

    def _consents(self, key: str) -> bool:
        """Whether the key alone answers, and is no plain no."""
        raise NotImplementedError

    def answers_to(self, letter: str) -> bool:
        """Whether it is a letter or digit that does something here."""
        return letter in self.LETTERS

    def _is_over(self, event: events.Key | events.Paste) -> bool:
        """Whether what is typed now is no answer any more."""
        return self._sent or self._leaving

    def _other_key(self, event: events.Key) -> None:
        """A character was pressed that does nothing here."""

    @property
    def _line(self) -> InlineField | None:
        """Where the user writes something now that belongs to the question."""
        return self._field if self._field.display else None

    def _asks_first(self, answer: str, *, why: bool) -> bool:
        """Whether this answer does not stand yet: there is a reason ``why`` it should be asked
        about, and it was not, or a moment ago, so that nobody has read what is asked.
        """
        if not why:
            return False
        now = self._now()
        if self._unread_for != answer:
            self._unread_for, self._asked_at, self._hint = answer, now, ""
            self._refresh_frame()
            return True
        return round(now - self._asked_at, 6) < SETTLE

    # --- the focus -----------------------------------------------------------------------------

    def take_focus(self) -> None:
        """Get the focus, or keep it, for a question that the user did not turn to."""
        if self.has_focus:
            self._guard.begin(unasked=True)
        else:
            self._guard.unasked()
            self.screen.set_focus(self)

    def on_focus(self) -> None:
        self._guard.begin()
        self._leaving = False
        if not self._staying:
            self._sent, self._hint = False, ""
        self._refresh_frame()

    def on_blur(self) -> None:
        self._guard.end()
        self._hint, self._unread_for, self._leaving = "", "", False
        self._guard.forget()
        self._refresh_frame()

    def missed(self, text: str) -> None:
        """All of this was typed right behind the key that led here, and went to the composer."""
        self._guard.came_before(text)

    def _leave(
        self, typed: events.Key | events.Paste | None = None, *, pending: bool = False
    ) -> None:
        self._leaving = True  # what comes until the focus has moved is meant for the composer too
        self.post_message(self.Left(typed, pending=pending))

    def action_escape(self) -> None:
        if self._field.display:
            self._close_field()
            self.focus()
        else:
            self._leave(pending=not self._sent)

    # --- keys ----------------------------------------------------------------------------------

    @property
    def holding(self) -> bool:
        """Whether a key waits a moment, because the next could make it a part of a text."""
        return self._guard.holding

    @property
    def _is_here(self) -> bool:
        """Whether a key that decides nothing may act now."""
        here = self.has_focus and self._guard.on
        return here and not self._sent and self._line is None

    @property
    def _ready(self) -> bool:
        """Whether a key may answer now."""
        return self._is_here and self._guard.settled

    async def on_paste(self, event: events.Paste) -> None:
        if self._line is not None:
            _stop(event)
            self._line.take_paste(event)
        else:
            await self._is_text(event)

    async def on_key(self, event: events.Key) -> None:
        """Keys that were typed before the focus was noticed are not meant for the question.

        Its own keys act at once: left to the app, they would act after the characters that came
        right behind them. What comes right behind a key that asks for text is that text. No key
        answers that stands in the middle of a burst: it was part of something else.
        """
        begins = self._guard.begins(event)
        if self._line is not None:
            if await self._line.take(event):
                _stop(event)
            return
        if await self._is_text(event) or not self.has_focus:
            return
        key = half_width_key(event).key
        if self._does_nothing(event):
            _stop(event)
        elif key in self.LETTERS:
            _stop(event)
            if not begins and (key not in self.IN_BURSTS or self._consents(key)):
                self._guard.miss(event)
            elif self._ready and self._consents(key):
                self._guard.hold(event, lambda: self._act(key))
            else:
                await self._act(key)
        elif event.is_printable:
            _stop(event)
            self._guard.idle()
            if begins:
                self._other_key(event)

    async def _is_text(self, event: events.Key | events.Paste) -> bool:
        """Whether it belongs to the composer, and is on its way there: the question is over, or
        it goes on with a text whose first letter was taken for an answer until now.
        """
        first = await self._guard.first_of_text(event)
        if first is not None:
            self._leave(anew(first))
        written = writes(event) or (self._leaving and composes(event))
        if not self._is_over(event) or not written:
            return False
        self._leave(anew(event))
        _stop(event)
        return True

    def _does_nothing(self, event: events.Key) -> bool:
        """Whether it came too soon, or goes on with keys that did; so does what follows it.
        A key that decides nothing acts all the same.
        """
        own = bool(bindings_of(self, event.key)) or event.key == "enter"
        soon = not self._guard.settled and (own or event.is_printable)
        text = self._guard.goes_on and (writes(event) or composes(event))
        key = half_width_key(event).key
        if self._guard.on and key in self.FREE:
            if text:
                self._guard.idle()
            return False
        if self._guard.came_by_itself and soon:
            self._show_hint("gate.came_by_itself")
        elif soon and not text and key in self.LETTERS:
            self._show_hint("gate.too_soon", key=key)
            self._too_soon = self._hint
        elif text and not (soon or self._hint == self._too_soon != ""):
            self._show_hint("gate.goes_on")
        if soon or text:
            self._guard.miss(event)
        return soon or text

    async def _act(self, key: str) -> None:
        for binding in bindings_of(self, key):
            await self.run_action(binding.action)

    # --- how it looks --------------------------------------------------------------------------

    def watch_yields(self) -> None:
        if self.is_mounted:
            self._relayout()

    def on_resize(self) -> None:
        self._refresh_rows(fresh=False)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_mounted:
            self.call_later(self._refresh_frame)

    def _relayout(self) -> None:
        """Lay out anew: what one part gets depends on all the others."""
        for part in self.children:
            part.refresh(layout=True)
        self.refresh(layout=True)

    def _show_hint(self, entry: str, /, **params: str) -> None:
        """Say why the last key did nothing."""
        self._hint = self.words(entry, **params)
        self._refresh_frame()

    def _open_field(self, placeholder: str) -> None:
        self._hint = ""
        self._field.placeholder = placeholder
        self._field.display, self._keys.display = True, False
        self._field.take_over(self)
        self._refresh_frame()
        self._relayout()

    def _close_field(self) -> None:
        self._field.value = ""
        self._field.display, self._keys.display = False, True
        self._refresh_frame()
        self._relayout()


def _stop(event: events.Event) -> None:
    event.stop()
    event.prevent_default()
