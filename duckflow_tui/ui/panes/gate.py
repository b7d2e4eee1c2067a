"""The gate: a proposal that waits for the user's key, and nothing else can answer it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, cast

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer
from textual.message import Message
from textual.reactive import var
from textual.timer import Timer

from duckflow_tui.safety.safe_text import is_safe
from duckflow_tui.state.base import Clock
from duckflow_tui.state.gates import Gate, GateAnswer, GateChoice, before_hashes
from duckflow_tui.ui.bindings import KEYS
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.gate_view import GateFrame
from duckflow_tui.ui.panes.key_guard import COMPOSED, KeyGuard, anew, writes
from duckflow_tui.ui.screens.edit_proposal import EditProposal

LETTERS: Final = frozenset(k for key in KEYS if key.surface in ("gate", "diff") for k in key.keys)

#: Those that answer, or lead to an answer. To refuse is always possible.
ANSWERS: Final = frozenset(
    k for key in KEYS if key.surface == "gate" and key.action != "reject" for k in key.keys
)


def gate_bindings() -> list[BindingType]:
    """The keys of a gate and of the diff in it, and those that scroll."""
    found: list[BindingType] = []
    for key in KEYS:
        if key.action == "alternative":
            found += [Binding(k, f"alternative({k})", k, show=False) for k in key.keys]
        elif key.surface in ("gate", "diff") or key.action == "escape":
            found.append(Binding(",".join(key.keys), key.action, key.label, show=False))
    for binding in cast("list[Binding]", ScrollableContainer.BINDINGS):
        found.append(Binding(binding.key, f"scroll_part('{binding.action}')", show=False))
    return found


def consents(key: str, gate: Gate) -> bool:
    """Whether the key alone answers this gate with something other than no."""
    match key:
        case "y":
            return True
        case "s":
            return gate.can_grant_session
        case "t":
            return gate.can_grant_step
        case _:
            return key.isdecimal() and 0 < int(key) <= len(gate.alternatives)


#: Seconds that an answered gate keeps the focus at most while its reply may ask again.
STAY: Final = 2.0


#: Answers after which the same reply may ask again: the others skip what it asked for.
_GOES_ON: Final = (GateChoice.ONCE, GateChoice.SESSION, GateChoice.STEP, GateChoice.EDIT)


Proposed = Callable[[str], str | None]


class GateCard(GateFrame, can_focus=True):
    """The oldest open gate: what, why, with what consequences, and the keys (S4-60…62, S4-65).

    It never takes the focus by itself, and keys within ``SETTLE`` seconds of the focus arriving
    do nothing. A key that consents acts alone: with others right behind it, it is the beginning
    of a text, and all of it goes to the composer. While part of the request was not on screen,
    ``y`` and ``s`` show it instead of approving (R14). An answer carries the hashes of exactly
    what was shown.

    Once answered by a key it keeps the focus, and says so, while the same reply may ask again:
    the focus stays for that gate and never comes to it. Whatever is typed meanwhile goes to the
    composer, and the focus with it.
    """

    BINDINGS: ClassVar[list[BindingType]] = gate_bindings()

    class Answered(Message):
        """The user pressed a key of the gate."""

        def __init__(self, answer: GateAnswer) -> None:
            super().__init__()
            self.answer = answer

    class Left(Message):
        """The user is done here: the composer should have the focus. The gate may be open.

        ``typed`` is a key or a paste that was meant for the composer.
        """

        def __init__(self, typed: events.Key | events.Paste | None = None) -> None:
            super().__init__()
            self.typed = typed

    may_ask_again: var[bool] = var(False)  # the reply at hand may open another gate

    def __init__(
        self,
        clock: Clock,
        *,
        beside: DiffPane | None = None,
        proposed: Proposed | None = None,
        id: str | None = None,
    ) -> None:
        """``beside`` is the pane that shows the diff where there is room; ``proposed`` gives the
        whole new content behind a gate, by its id.
        """
        super().__init__(beside, self._written, id=id)
        self._proposed = proposed
        self._guard = KeyGuard(self, clock)
        self._leaving = False  # the composer is about to get the focus
        self._stayed_until = float("-inf")  # keys from before were typed between two gates
        self._stay_timer: Timer | None = None

    def on_mount(self) -> None:
        self._take_gate()

    def watch_gates(self) -> None:
        if self.is_mounted:
            self._take_gate()

    def _take_gate(self) -> None:
        gate = self.gates[0] if self.gates else None
        if gate == self._gate:
            self._say()
            return
        if gate is None and self._staying and self.may_ask_again:
            return
        if self._staying:
            self._stayed_until = Message().time  # on the clock that keys carry
            self._end_stay()
        other = gate is None or self._gate is None or gate.gate_id != self._gate.gate_id
        typing = self._reason.has_focus
        had_focus = self.has_focus or typing
        self._sent = False
        self._close_reason()
        self.show_gate(gate)
        if had_focus and gate is None:
            self.post_message(self.Left())
        elif had_focus and other:
            self.take_focus()
        elif had_focus:  # the same, shown anew
            self._guard.begin()
            if typing:
                self.focus()

    def take_focus(self) -> None:
        """Get the focus, or keep it, for a question that the user did not turn to."""
        if self.has_focus:
            self._guard.begin(unasked=True)
        else:
            self._guard.unasked()
            self.screen.set_focus(self)

    # --- the focus between two gates ---------------------------------------------------------

    @property
    def staying(self) -> bool:
        """Whether it has been answered and keeps the focus for the next gate of the reply."""
        return self._staying

    def let_go(self) -> None:
        """Keep the focus no longer: the composer should have it."""
        if self._staying:
            self._leave()

    def watch_may_ask_again(self) -> None:
        if self.is_mounted and self._staying and not self.may_ask_again and not self.gates:
            self._take_gate()

    def _stay(self) -> None:
        self._staying = True
        self.focus()
        self._stay_timer = self.set_timer(STAY, self.let_go)

    def _end_stay(self) -> None:
        self._staying = False
        if self._stay_timer is not None:
            self._stay_timer.stop()
            self._stay_timer = None

    def _leave(self, typed: events.Key | events.Paste | None = None) -> None:
        self._end_stay()
        self._leaving = True  # what comes until the focus has moved is meant for the composer too
        self.post_message(self.Left(typed))

    def _to_composer(self, event: events.Key | events.Paste) -> bool:
        """Whether what was typed belongs to the composer, and is on its way there."""
        between = self._staying or self._leaving or event.time < self._stayed_until
        if not between or not (self.has_focus or self._leaving):
            return False
        composes = isinstance(event, events.Key) and event.key in COMPOSED
        if not writes(event) and not (self._leaving and composes):
            return False
        self._leave(anew(event))
        event.stop()
        event.prevent_default()
        return True

    async def _is_text(self, event: events.Key | events.Paste) -> bool:
        """Whether it goes on with a text whose first letter was taken for an answer until now."""
        first = await self._guard.first_of_text(event)
        if first is not None:
            self._leave(anew(first))
        return self._to_composer(event)

    # --- keys ------------------------------------------------------------------------------

    def on_focus(self) -> None:
        self._guard.begin()
        self._leaving = False
        if not self._staying:
            self._sent, self._hint = False, ""
        self._say()

    def on_blur(self) -> None:
        self._guard.end()
        self._hint, self._leaving = "", False
        if self._staying and self.app.app_focus:  # pyright: ignore[reportUnknownMemberType]  # App[Unknown]
            self._end_stay()
        if not self._staying and not self.gates and self._gate is not None:
            self.show_gate(None)
        self._say()

    @property
    def holding(self) -> bool:
        """Whether a key waits a moment, because the next could make it a part of a text."""
        return self._guard.holding

    async def on_paste(self, event: events.Paste) -> None:
        if self._reason.display:
            event.stop()
            event.prevent_default()
            self._reason.take_paste(event)
        else:
            await self._is_text(event)

    async def on_key(self, event: events.Key) -> None:
        """Keys that were typed before the focus was noticed are not meant for the gate.

        Its own keys act at once: left to the app, they would act after the characters that came
        right behind them. What comes right behind a key that asks for text is that text. No key
        answers that stands in the middle of a burst: it was part of something else.
        """
        begins = self._guard.begins(event)
        if self._reason.display:
            if await self._reason.take(event):
                event.stop()
                event.prevent_default()
            return
        if await self._is_text(event):
            return
        if self.has_focus and self._does_nothing(event):
            event.stop()
            event.prevent_default()
        elif self.has_focus and event.key in LETTERS:
            event.stop()
            event.prevent_default()
            if event.key in ANSWERS and not begins:
                self._guard.idle()
                return
            gate = self._open_gate()
            if gate is not None and consents(event.key, gate):
                self._guard.hold(event, lambda: self._do(event.key))
            else:
                await self._do(event.key)
        elif self.has_focus and event.is_printable:
            self._guard.idle()

    def _does_nothing(self, event: events.Key) -> bool:
        """Whether it came too soon, or goes on with keys that did; so does what follows it."""
        own = event.key in self._bindings.key_to_bindings or event.key == "enter"
        soon = not self._guard.settled and (own or event.is_printable)
        text = self._guard.goes_on and (writes(event) or event.key in COMPOSED)
        if self._guard.came_by_itself and soon:
            self._refuse("gate.came_by_itself")
        elif text and not soon:
            self._refuse("gate.goes_on")
        if soon or text:
            self._guard.idle()
        return soon or text

    async def _do(self, key: str) -> None:
        for binding in self._bindings.key_to_bindings[key]:
            await self.run_action(binding.action)

    def _open_gate(self) -> Gate | None:
        """The gate, if a key may answer it now."""
        ready = (
            self.has_focus and self._guard.settled and not self._sent and not self._reason.display
        )
        return self._gate if ready else None

    def action_once(self) -> None:
        self._approve(GateChoice.ONCE)

    def action_session(self) -> None:
        if self._gate is not None and self._gate.can_grant_session:
            self._approve(GateChoice.SESSION)

    def action_step(self) -> None:
        if self._gate is not None and self._gate.can_grant_step:
            self._approve(GateChoice.STEP)

    def action_reject(self) -> None:
        if self._open_gate() is not None:
            asked = self.words("gate.ask_reason")
            if cell_len(asked) > self.size.width - 1:  # the cursor stands before it
                asked = self.words("gate.ask_reason_short")
            self._write(asked)

    def _write(self, placeholder: str) -> None:
        self._hint = ""
        self._reason.placeholder = placeholder
        self._reason.display, self._keys.display = True, False
        self._reason.take_over(self)
        self._say()
        self._share_out()

    def action_edit(self) -> None:
        gate = self._open_gate()
        if gate is None or not gate.can_edit or not gate.previews:
            return
        text = self._proposed(gate.gate_id) if self._proposed else None
        if text is None:
            self._refuse("gate.cannot_edit")
        elif not is_safe(text.replace("\r\n", "\n").replace("\t", " ")):
            self._refuse("gate.unsafe_edit")  # an editor cannot show it as it is
        else:
            self._guard.end()  # what comes until the screen has the keys answers nothing
            screen = EditProposal(self.words, gate.previews[0], text)
            self.app.push_screen(  # pyright: ignore[reportUnknownMemberType]  # App[Unknown]
                screen, lambda edited: self._edited(gate, text, edited)
            )

    def action_alternative(self, number: int) -> None:
        gate = self._open_gate()
        if gate is not None and number <= len(gate.alternatives):
            self._answer(gate, GateChoice.ALTERNATIVE, alternative=number)

    def action_escape(self) -> None:
        if self._reason.display:
            self._close_reason()
            self.focus()
        else:
            self._leave()

    def action_next_hunk(self) -> None:
        self._view.action_next_hunk()

    def action_previous_hunk(self) -> None:
        self._view.action_previous_hunk()

    def action_toggle_hunk(self) -> None:
        if self._open_gate() is None:
            return
        whole = self._view.whole
        if whole is None:
            self._view.action_toggle_hunk()
        else:
            self._refuse(f"diff.whole.{whole}")

    def action_toggle_split(self) -> None:
        self._view.action_toggle_split()

    def action_toggle_wrap(self) -> None:
        self._view.action_toggle_wrap()

    async def action_scroll_part(self, action: str) -> None:
        part = self._view if self._document.rows else self._arguments
        if part is self._arguments and not self._arguments.max_scroll_y:
            part = self._points
        await part.run_action(action)

    def _written(self, text: str) -> None:
        gate = self._gate
        if gate is None or self._sent:
            return
        text = text.strip()
        if self._allows is None:
            self._answer(gate, GateChoice.REJECT, reason=text)
        elif text == gate.needs_word:
            left_out = tuple(sorted(self._document.left_out))
            self._answer(gate, self._allows, left_out=left_out, word=text)
        else:
            self._reason.value = ""
            self._refuse("gate.word.wrong")

    # --- answers ---------------------------------------------------------------------------

    def _approve(self, choice: GateChoice) -> None:
        gate = self._open_gate()
        if gate is None or self._turn_page():
            return
        if self._document.takes_nothing:
            self._refuse("gate.takes_nothing")
            return
        if gate.needs_word:
            self._allows = choice
            self._write(self.words("gate.word.ask", word=gate.needs_word))
            return
        left_out = tuple(sorted(self._document.left_out))
        self._answer(gate, choice, left_out=left_out)

    def _answer(self, gate: Gate, choice: GateChoice, **fields: Any) -> None:
        answer = GateAnswer(
            gate_id=gate.gate_id,
            call_id=gate.call_id,
            args_hash=gate.args_hash,
            before_hashes=before_hashes(gate),
            choice=choice,
            **fields,
        )
        self._sent = True
        self._close_reason()
        self.post_message(self.Answered(answer))
        if len(self.gates) > 1:
            self.focus()  # the next one waits here
        elif self.may_ask_again and choice in _GOES_ON:
            self._stay()
        else:
            self._leave()
        self._say()

    def _edited(self, gate: Gate, before: str, edited: str | None) -> None:
        self._guard.begin()
        if edited is None:
            return
        if gate != self._gate:
            self._refuse("gate.changed_meanwhile")
        elif edited == before:
            self._refuse("gate.not_edited")
        else:
            self._answer(gate, GateChoice.EDIT, edited=edited)

    def _refuse(self, key: str) -> None:
        self._hint = self.words(key)
        self._say()

    def _close_reason(self) -> None:
        self._allows = None
        self._reason.value = ""
        self._reason.display, self._keys.display = False, True
        self._say()
        self._share_out()
