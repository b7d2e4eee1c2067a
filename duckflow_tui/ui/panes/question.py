"""The common part of gate and card: when a key answers, and the row of keys."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final, cast

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer, Vertical
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive, var
from textual.widget import Widget

from duckflow_tui.state.base import Clock
from duckflow_tui.state.gates import CardAnswer, GateAnswer, Remark
from duckflow_tui.ui.host import names_key, press_clicked
from duckflow_tui.ui.panes.key_guard import (
    ANEW_S,
    InlineField,
    KeyGuard,
    Typed,
    is_for_composer,
    is_text,
)
from duckflow_tui.ui.panes.request import RequestView
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import fit, ink, wrap
from duckflow_tui.ui.textual_private import bindings_of, half_width_key
from duckflow_tui.words.catalogue import Catalogue

_GAPS: Final = (2, 1)  # between two keys; the second where that saves a line


@dataclass(frozen=True, slots=True)
class KeyHint:
    """A letter and what it does, in words. One that ``asks`` has no letter: it is the question
    that the others answer. One that ``leads`` is drawn stronger than the others.
    """

    letter: str
    text: str
    asks: bool = False
    leads: bool = False

    @property
    def cell_count(self) -> int:
        """Room for `` y  once``."""
        return self.head_cells + cell_len(self.text)

    @property
    def head_cells(self) -> int:
        """Room for the letter and the spaces around it."""
        return cell_len(self.letter) + 3 if self.letter else 0


@dataclass(frozen=True, slots=True)
class QuestionFrame:
    """A question without its rows: its title, a hint below them, the keys, and a ``prompt`` above
    the keys with the ``effects`` of each.
    """

    title: Text
    hint: str
    keys: tuple[KeyHint, ...]
    prompt: str = ""
    effects: dict[str, str] = field(default_factory=dict[str, str])


def scroll_bindings(taken: Container[str]) -> list[BindingType]:
    """The stock keys that scroll, but for those ``taken``, bound to ``action_scroll``."""
    stock = cast("list[Binding]", ScrollableContainer.BINDINGS)
    return [
        Binding(binding.key, f"scroll('{binding.action}')", show=False)
        for binding in stock
        if binding.key not in taken
    ]


def _key_of(letter: str) -> str:
    """The name of a key that is printed like this."""
    if letter.startswith("↓"):
        return "pagedown"
    return {"Esc": "escape"}.get(letter, letter)


_KEY: Final = 4  # cells of `` 1 `` and the space behind it
_ROWS: Final = 3  # of the rest of the card that the prompt gives way to
_GAP: Final = 2  # cells between what an option is called and what it does


class KeyRow(Widget, can_focus=False):
    """The keys of a question with their words, lit on the accent while they act.

    With a ``prompt`` above them they get a line each where nothing else on the card has to give
    way, and their effects stand beside them or, where they are too long for that, below;
    ``others_height`` returns the lines that everything else takes at some width.
    """

    lit: reactive[bool] = reactive(False)
    hints: reactive[tuple[KeyHint, ...]] = reactive((), layout=True)
    prompt: reactive[str] = reactive("", layout=True)
    effects: reactive[dict[str, str]] = reactive(dict[str, str])  # by key: what an answer does

    def __init__(self, others_height: Callable[[int], int] | None = None) -> None:
        super().__init__()
        self._others_height = others_height

    def height_for(self, width: int, most: int) -> int:
        """Lines that the keys take, with ``most`` lines for the whole card.

        Something of the request stays in sight however long the labels are.
        """
        packed = len(self._pack_lines(width)[1])
        if self.prompt:
            others = self._others_height(width) if self._others_height is not None else 0
            listed = 1 + len(self.hints)
            explained = self._explained_height(width)
            if explained and explained + others <= most:
                return explained
            least = min(1, others)  # of these, so that one knows what the keys are about
            if listed + others < most:
                return listed + 1  # with a blank line above
            if listed + others <= most or (listed <= 1 + packed and listed + least <= most):
                return listed
            if 1 + packed + min(_ROWS, others) <= most:
                return 1 + packed
            if packed + least <= most:  # all keys, without the prompt
                return packed
        return min(packed, max(1, most - 2))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.height_for(width, container.height)

    def on_click(self, event: events.Click) -> None:
        press_clicked(self, event)

    def render(self) -> Text:
        width, height = self.size
        if not self.prompt or height <= len(self._pack_lines(width)[1]):
            return self._render_packed(width)
        prompt = Text(fit(self.prompt, width), style=palette_of(self).text, no_wrap=True, end="")
        listed = 1 + len(self.hints)
        if height < listed:
            return prompt.append("\n").append_text(self._render_packed(width))
        below = listed < self._explained_height(width) <= height
        blank = Text("\n" if height > listed and not below else "", no_wrap=True, end="")
        options = self._render_listed(width, below=below)
        return blank.append_text(prompt).append("\n").append_text(options)

    def _render_packed(self, width: int) -> Text:
        palette = palette_of(self)
        text = Text(no_wrap=True, end="")
        leads = any(hint.leads for hint in self.hints)
        gap, lines = self._pack_lines(width)
        for number, line in enumerate(lines):
            if number:
                text.append("\n")
            for index, hint in enumerate(line):
                if index:
                    text.append(" " * gap)
                if hint.letter:
                    text.append(*self._letter_text(hint.letter, strong=hint.leads or not leads))
                    text.append(" ")
                tone = palette.text if self.lit else palette.quiet
                text.append(hint.text, style=f"bold {palette.accent}" if hint.asks else tone)
        return text

    def _explained_height(self, width: int) -> int:
        """Lines of the prompt and the options with their effects below; 0 where these fit beside
        them, or there are none.
        """
        effects = [effect for hint in self.hints if (effect := self.effects.get(hint.letter, ""))]
        if all(cell_len(effect) <= self._effect_room(width) for effect in effects):
            return 0
        return 1 + len(self.hints) + len(effects)

    def _effect_room(self, width: int) -> int:
        """Cells beside the longest option."""
        return width - _KEY - max((cell_len(hint.text) for hint in self.hints), default=0) - _GAP

    def _render_listed(self, width: int, *, below: bool) -> Text:
        """A line for each option, with its effect beside it where all of them fit, or ``below``."""
        palette = palette_of(self)
        names = max((cell_len(hint.text) for hint in self.hints), default=0)
        effects = [self.effects.get(hint.letter, "") for hint in self.hints]
        beside = not self._explained_height(width)
        text = Text(no_wrap=True, end="")
        for hint, effect in zip(self.hints, effects, strict=True):
            if text:
                text.append("\n")
            text.append(*self._letter_text(hint.letter)).append(" ")
            name = fit(hint.text, width - _KEY)
            text.append(name, style=palette.text if self.lit else palette.quiet)
            if effect and beside:
                gap = names - cell_len(name) + _GAP
                text.append(f"{' ' * gap}{effect}", style=palette.quiet)
            elif effect and below:
                effect = fit(effect, width - _KEY)
                text.append(f"\n{' ' * _KEY}{effect}", style=palette.faint)
        return text

    def _letter_text(self, letter: str, *, strong: bool = True) -> tuple[str, Style]:
        """A letter as it is drawn, with the key that a click on it stands for; ``strong``: on the
        accent.
        """
        palette = palette_of(self)
        style = ink(palette.quiet)
        if self.lit:
            style = ink(palette.accent, on=palette.bars, bold=True)
        if self.lit and strong:
            style = ink(palette.on_accent, on=palette.accent, bold=True)
        return f" {letter} ", names_key(style, _key_of(letter))

    def _pack_lines(self, width: int) -> tuple[int, list[list[KeyHint]]]:
        """The gap and the lines: the wide gap unless the narrow one needs fewer lines."""
        return min(
            ((gap, self._pack_with_gap(width, gap)) for gap in _GAPS),
            key=lambda packed: len(packed[1]),
        )

    def _pack_with_gap(self, width: int, gap: int) -> list[list[KeyHint]]:
        """The hints in lines; one that is too long for a line goes on below itself."""
        lines: list[list[KeyHint]] = [[]]
        used = 0
        for hint in self.hints:
            if used and used + gap + hint.cell_count > width:
                lines.append([])
                used = 0
            if hint.cell_count <= width:
                lines[-1].append(hint)
                used += hint.cell_count + (gap if used else 0)
                continue
            for number, (start, stop) in enumerate(
                wrap(hint.text, max(1, width - hint.head_cells))
            ):
                part = hint.text[start:stop]
                if number:
                    lines.append([KeyHint("", " " * hint.head_cells + part, asks=hint.asks)])
                else:
                    lines[-1].append(KeyHint(hint.letter, part, asks=hint.asks))
            used = width
        return lines


class QuestionWidget(Vertical, can_focus=True):
    """A question that waits for the user's key: what a gate and a card have in common.

    It never takes the focus by itself. Its keys pass a ``KeyGuard``; a text that is typed here goes
    to the composer, and the focus with it.
    """

    LETTERS: ClassVar[frozenset[str]] = frozenset()  # keys that do something here
    WALKS: ClassVar[frozenset[str]] = frozenset()  # those pressed in a row, which decide nothing

    words: var[Catalogue] = var(Catalogue)
    yields: var[bool] = var(False)  # some room to the chat, where something was said
    alone: var[bool] = var(False)  # the chat is not shown: its room is the question's

    class Remarked(Message):
        """The remarks on what is asked are others now. ``about``: what they hold for alone."""

        def __init__(self, about: str, remarks: tuple[Remark, ...]) -> None:
            super().__init__()
            self.about = about
            self.remarks = remarks

    class Answered(Message):
        """The user pressed a key that answers."""

        def __init__(self, answer: GateAnswer | CardAnswer) -> None:
            super().__init__()
            self.answer = answer

    class Left(Message):
        """The user is done here: the composer should have the focus.

        ``typed`` is what was meant for the composer; ``pending`` says that the user left without an
        answer.
        """

        def __init__(
            self, question: QuestionWidget, typed: Sequence[Typed] = (), *, pending: bool = False
        ) -> None:
            super().__init__()
            self.question = question
            self.typed = typed
            self.pending = pending

    #: The remarks that were kept for this proposal when the session was left; where they are about
    #: another one, they are dropped.
    kept: Callable[[str], tuple[Remark, ...]] | None = None

    def __init__(self, clock: Clock, keys: KeyRow, *, field_id: str, id: str | None = None) -> None:
        super().__init__(id=id)
        self._guard = KeyGuard(self, clock, self._leave_question, self._show_standing)
        self._sent = False  # it has been answered and only waits to go
        self._staying = False  # it was, and keeps the focus for what the same reply asks next
        self._asked_at = float("-inf")  # when it got the focus; keys from before are no answer
        self._hint = ""  # why the last key did nothing
        #: The answer that was asked about first, as part of the question was not on screen.
        self._unread_for = ""
        self._field = InlineField(self._cancel_field, id=field_id)
        self._keys = keys

    # --- what each kind of question says for itself --------------------------------------------

    def _describe_frame(self, *, lit: bool) -> QuestionFrame | None:
        """Title, hint and keys for how things stand now; None while nothing is asked. ``lit``: keys
        act.
        """
        raise NotImplementedError

    def _refresh_rows(self, *, fresh: bool) -> None:
        """The rows for the size and language at hand; ``fresh`` when the question is another."""
        raise NotImplementedError

    def _submit_text(self, text: str) -> None:
        """The user wrote this in the line of the question."""
        raise NotImplementedError

    def _scrolled_view(self) -> Widget:
        """The part that keys scroll."""
        raise NotImplementedError

    def _reveal_unseen(self) -> None:
        """Scroll to the first part of the question that was not on screen."""
        raise NotImplementedError

    def answers_to(self, letter: str) -> bool:
        """Whether it is a letter or digit that does something here."""
        return letter in self.LETTERS

    def _can_do(self, key: str) -> bool:
        """Whether the key does something here now."""
        return self.answers_to(key)

    def _is_over(self, event: events.Key | events.Paste) -> bool:
        """Whether this was typed when there was nothing to answer: it is text for the composer."""
        return self._sent or not self.display or event.time < self._asked_at

    def _waiting_words(self, key: str) -> str:
        """The pending effect of the key."""
        hints = (hint.text for hint in self._keys.hints if hint.letter == key)
        return next(hints, key)

    def _unknown_words(self, key: str) -> str:
        """Which keys there are, for one that does nothing here."""
        return ""

    @property
    def _active_field(self) -> InlineField | None:
        """Where the user writes something now that belongs to the question."""
        return self._field if self._field.display else None

    def _asks_first(self, answer: str, *, why: bool) -> bool:
        """Whether the answer does not stand yet, because there is a reason ``why`` it should be
        asked about first (R14). If so, asks, and brings into sight what was not seen.
        """
        if not why or self._unread_for == answer:
            return False
        self._unread_for, self._hint = answer, ""
        self._reveal_unseen()
        self._guard.begin_settling(ANEW_S)
        self._refresh_frame()
        return True

    # --- the focus -----------------------------------------------------------------------------

    def take_focus(self) -> None:
        """Get the focus, or keep it for another question."""
        if self.has_focus:
            self._begin_guard()
        else:
            self.screen.set_focus(self)

    def _begin_guard(self) -> None:
        self._asked_at = Message().time  # on the clock that keys carry
        self._guard.begin_settling()

    def on_focus(self) -> None:
        self._begin_guard()
        if not self._staying:
            self._sent, self._hint = False, ""
        self._refresh_frame()

    def on_blur(self) -> None:
        self._guard.stop_guarding()
        self._hint, self._unread_for = "", ""
        self._refresh_frame()

    def _leave_question(self, typed: Sequence[Typed] = (), *, pending: bool = False) -> None:
        self.post_message(self.Left(self, typed, pending=pending))

    def action_escape(self) -> None:
        self._leave_question(pending=not self._sent)

    def _cancel_field(self) -> None:
        self._close_field()
        self.focus()

    def on_input_submitted(self, event: InlineField.Submitted) -> None:
        event.stop()
        self._submit_text(event.value)

    # --- keys ----------------------------------------------------------------------------------

    @property
    def is_holding(self) -> bool:
        """Whether the newest key waits a moment, because the next could make it part of a text."""
        return self._guard.is_waiting

    @property
    def _is_ready(self) -> bool:
        """Whether a key may act now."""
        here = self.has_focus and self._guard.is_active
        return here and not self._sent and self._active_field is None

    async def on_paste(self, event: events.Paste) -> None:
        _stop_event(event)
        if self._is_over(event):
            self._leave_question([event])
        else:
            self._guard.take_paste(event)

    async def on_key(self, event: events.Key) -> None:
        """Let the guard decide on a letter; other keys act by their bindings."""
        if self._active_field is not None:
            if is_text(event):  # it came just before the field got the focus
                self._active_field.insert_text_at_cursor(event.character or "")
                _stop_event(event)
            return
        if self._is_over(event) and is_for_composer(event):
            self._leave_question([event])
            _stop_event(event)
            return
        if not self.has_focus:
            return
        key = half_width_key(event).key
        act = partial(self._run_key, key) if self._can_do(key) else None
        if await self._guard.handle_key(event, act, is_repeatable=key in self.WALKS):
            _stop_event(event)

    async def _run_key(self, key: str) -> None:
        for binding in bindings_of(self, key):
            await self.run_action(binding.action)

    def _show_standing(self) -> None:
        """Say how the newest key stands."""
        guard = self._guard
        if guard.standing == "unknown":
            self._hint = self._unknown_words(guard.newest_key)
        else:
            self._hint = guard.standing_words(self.words, self._waiting_words(guard.newest_key))
        self._refresh_frame()

    async def action_scroll(self, action: str) -> None:
        await self._scrolled_view().run_action(action)

    # --- how it looks --------------------------------------------------------------------------

    @property
    def line_cells(self) -> int:
        """Cells of a line inside the frame, also before the first layout: so that the first picture
        is the right one.
        """
        if self.size.width:
            return self.size.width
        most = self.styles.max_width
        outer = self.parent.size.width if isinstance(self.parent, Widget) else 0
        if most is not None and most.is_cells:
            outer = min(outer, int(most.value))
        return max(0, outer - self.gutter.width)

    def _refresh_frame(self) -> None:
        """Show title, hint and keys anew."""
        lit = self.has_focus and not self._sent
        frame = self._describe_frame(lit=lit) if self.is_attached else None
        if frame is None:
            return
        self.border_title = frame.title
        hint = fit(frame.hint, max(0, self.line_cells - 2))
        self.border_subtitle = Text(hint, style=palette_of(self).accent, no_wrap=True)
        for view in self.query_children(RequestView).results(RequestView):
            view.lit = lit
        keys = self._keys
        keys.lit, keys.prompt, keys.effects = lit, frame.prompt, frame.effects
        if frame.keys != keys.hints:
            keys.hints = frame.keys
            self._lay_out_again()

    def watch_yields(self) -> None:
        if self.is_mounted:
            self._lay_out_again()

    def on_resize(self) -> None:
        self._refresh_rows(fresh=False)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_mounted:
            self.call_later(self._refresh_frame)

    def _lay_out_again(self) -> None:
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
        self._field.focus()
        self._refresh_frame()
        self._lay_out_again()

    def _close_field(self) -> None:
        self._field.value = ""
        self._field.display, self._keys.display = False, True
        self._refresh_frame()
        self._lay_out_again()


def _stop_event(event: events.Event) -> None:
    event.stop()
    event.prevent_default()
