"""The gate: a proposal that waits for the user's key, and nothing else can answer it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer
from textual.message import Message
from textual.reactive import var
from textual.timer import Timer

from duckflow_tui.state.base import Clock
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import Gate, GateAnswer, GateChoice, before_hashes
from duckflow_tui.ui.bindings import KEYS, keys_of
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.diff_document import shown_line
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.gate_view import GateView
from duckflow_tui.ui.panes.key_guard import Typed
from duckflow_tui.ui.panes.question import QuestionWidget

if TYPE_CHECKING:
    from duckflow_tui.ui.screens.whole_diff import WholeDiff


def gate_bindings() -> list[BindingType]:
    """The keys of a gate and of the diff in it, and those that scroll."""
    found: list[BindingType] = [Binding("escape", "escape", show=False)]
    own = {key.keys for key in keys_of("gate")}  # these mean at a gate what they mean there
    for key in KEYS:
        if key.action == "alternative":
            found += [Binding(k, f"alternative({k})", k, show=False) for k in key.keys]
        elif key.surface == "gate" or (key.surface == "diff" and key.keys not in own):
            found.append(Binding(",".join(key.keys), key.action, key.label, show=False))
    lines = {k for key in keys_of("diff") for k in key.keys}
    for binding in cast("list[Binding]", ScrollableContainer.BINDINGS):
        if binding.key in lines:
            continue
        found.append(Binding(binding.key, f"scroll_part('{binding.action}')", show=False))
    return found


#: Seconds that an answered gate keeps the focus at most while its reply may ask again.
STAY: Final = 2.0

#: Answers after which the same reply may ask again: the others skip what it asked for.
_ACTIONS: Final = {name: key.action for key in keys_of("gate") for name in key.keys}
_ENDS: Final = (GateChoice.REJECT, GateChoice.ALTERNATIVE)

Proposed = Callable[[str], str | None]
Alike = Callable[[Gate], Sequence[OperationMessage]]


class GatePane(GateView):
    """The oldest open gate: what, why, with what consequences, and the keys (S4-60…62, S4-65).

    While part of the request was not on screen, or remarks would be lost, a key that consents asks
    once, naming what, and the same key then decides (R14). One that allows more than this call
    shows first exactly what. An answer carries the hashes of exactly what was shown.

    Once answered by a key it keeps the focus, and says so, while the same reply may ask again:
    the focus stays for that gate and never comes to it. Whatever is typed meanwhile goes to the
    composer, and the focus with it.
    """

    BINDINGS: ClassVar[list[BindingType]] = gate_bindings()
    LETTERS = frozenset(key for keys in keys_of("gate", "diff") for key in keys.keys)
    WALKS = frozenset(
        {"left_square_bracket", "right_square_bracket", "j", "k", "space", "up", "down"}
    )

    class Answered(Message):
        """The user pressed a key of the gate."""

        def __init__(self, answer: GateAnswer) -> None:
            super().__init__()
            self.answer = answer

    class Left(QuestionWidget.Left):
        """The user is done here; the gate may be open."""

    may_ask_again: var[bool] = var(False)  # the reply at hand may open another gate

    def __init__(
        self,
        clock: Clock,
        *,
        beside: DiffPane | None = None,
        proposed: Proposed | None = None,
        alike: Alike | None = None,
        id: str | None = None,
    ) -> None:
        """``beside`` is the pane that shows the diff where there is room; ``proposed`` gives the
        whole new content behind a gate, by its id, ``alike`` the calls of the session that asked
        for the same.
        """
        super().__init__(clock, beside, id=id)
        self._clock = clock
        self._proposed = proposed
        self._alike = alike
        self._whole: WholeDiff | None = None  # it shows the diff of the gate at hand
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
            self._refresh_frame()
            return
        if gate is None and self._staying and self.may_ask_again:
            return
        if self._staying:
            self._stayed_until = Message().time  # on the clock that keys carry
            self._end_stay()
        if self._whole is not None:  # what it shows is no longer asked about
            self._whole.dismiss()
            self._whole = None
        other = gate is None or self._gate is None or gate.gate_id != self._gate.gate_id
        typing = self._line is not None and self._line.has_focus
        had_focus = self.has_focus or typing
        self._sent = False
        self._close_field()
        self.show_gate(gate)
        if had_focus and gate is None:
            self._leave(self._guard.take_back())
        elif had_focus and other:
            self.take_focus()
        elif had_focus:  # the same, shown anew
            self._guard.begin()
            if typing:
                self.focus()

    # --- the focus between two gates ---------------------------------------------------------

    @property
    def staying(self) -> bool:
        """Whether it has been answered and keeps the focus for the next gate of the reply."""
        return self._staying

    def release_focus(self) -> None:
        """Keep the focus no longer: the composer should have it."""
        if self._staying:
            self._leave()

    def watch_may_ask_again(self) -> None:
        if self.is_mounted and self._staying and not self.may_ask_again and not self.gates:
            self._take_gate()

    def _stay(self) -> None:
        self._staying = True
        self.focus()
        self._stay_timer = self.set_timer(STAY, self.release_focus)

    def _end_stay(self) -> None:
        self._staying = False
        if self._stay_timer is not None:
            self._stay_timer.stop()
            self._stay_timer = None

    def _leave(self, typed: Sequence[Typed] = (), *, pending: bool = False) -> None:
        self._end_stay()
        super()._leave(typed, pending=pending)

    def _is_over(self, event: events.Key | events.Paste) -> bool:
        between = self._staying or self._leaving or event.time < self._stayed_until
        return between and (self.has_focus or self._leaving)

    def on_blur(self) -> None:
        if self._staying and host_of(self).app_focus:
            self._end_stay()
        if not self._staying and not self.gates and self._gate is not None:
            self.show_gate(None)

    # --- keys ------------------------------------------------------------------------------

    def _can_do(self, key: str) -> bool:
        gate = self._gate
        match _ACTIONS.get(key):
            case "alternative":
                return gate is not None and int(key) <= len(gate.alternatives)
            case "session" | "step" | "only" | "routine" | "project" as choice:
                return gate is not None and gate.can_grant(GateChoice(choice))
            case "edit":
                return gate is not None and gate.can_edit and bool(gate.previews)
            case _:
                return key in self.LETTERS

    def _waiting_words(self, key: str) -> str:
        if _ACTIONS.get(key) == "once":
            return self.words("gate.allowing")
        if _ACTIONS.get(key) == "alternative" and self._gate is not None:
            return shown_line(self._gate.alternatives[int(key) - 1])
        return super()._waiting_words(key)

    def _open_gate(self) -> Gate | None:
        """The gate, if a key may answer it now."""
        return self._gate if self._ready else None

    def action_once(self) -> None:
        self._approve(GateChoice.ONCE)

    def action_session(self) -> None:
        self._widen(GateChoice.SESSION)

    def action_step(self) -> None:
        self._widen(GateChoice.STEP)

    def action_only(self) -> None:
        self._widen(GateChoice.ONLY)

    def action_routine(self) -> None:
        self._widen(GateChoice.ROUTINE)

    def action_project(self) -> None:
        self._widen(GateChoice.PROJECT)

    def _widen(self, choice: GateChoice) -> None:
        """Allow more than this call: the first time show exactly what, then do it."""
        gate = self._open_gate()
        if gate is None or not gate.can_grant(choice):
            return
        if self._scope is choice:
            self._approve(choice)
        elif self._document.takes_nothing:
            self._show_hint("gate.takes_nothing")
        else:
            try:
                self.show_scope(choice, self._alike(gate) if self._alike else ())
            except ValueError:  # it can be allowed once only
                self.show_scope(None)
                self._show_hint("shell.answer_refused")
            self._guard.begin()  # nobody has read it yet

    def action_escape(self) -> None:
        if self._scope is not None and self._line is None:
            self.show_scope(None)
        elif self._details.display and self._line is None:
            self.show_details(shown=False)
        else:
            super().action_escape()

    def action_details(self) -> None:
        """Everything about it, or no more than what decides."""
        if self._ready:
            self.show_details(shown=not self._details.display)

    def action_whole_diff(self) -> None:
        """The diff on the whole screen, with the keys of the gate."""
        gate = self._gate
        if self._ready and gate is not None and gate.previews:
            from duckflow_tui.ui.screens.whole_diff import WholeDiff

            self._guard.end()  # what comes until the screen has the keys answers nothing
            self._whole = WholeDiff(self.words, self._clock, self._document, self._view)
            host_of(self).push_screen(self._whole, lambda key: self._back_from(gate, key))

    async def _back_from(self, gate: Gate, key: str | None) -> None:
        """The whole screen is left: go on with the hunk that was at hand there, and act on the key
        that was pressed there, which was guarded there.
        """
        whole, self._whole = self._whole, None
        if self.has_focus:
            self._guard.begin()
        if whole is None or gate != self._gate:
            return
        self._view.go_on_at(whole.at)
        if key is not None:
            await self._act(key)

    def action_reject(self) -> None:
        """With remarks at once: they are the reason. Else ask for one."""
        gate = self._open_gate()
        if gate is None:
            return
        if self._document.remarks:
            self._answer(gate, GateChoice.REJECT, remarks=self._document.remarked())
        else:
            asked = self.words("gate.ask_reason")
            if cell_len(asked) > self.size.width - 1:  # the cursor stands before it
                asked = self.words("gate.ask_reason_short")
            self._open_field(asked)

    def action_edit(self) -> None:
        gate = self._open_gate()
        if gate is None or not gate.can_edit or not gate.previews:
            return
        from duckflow_tui.ui.screens.edit_proposal import EditProposal, can_edit, without

        text = self._proposed(gate.gate_id) if self._proposed else None
        preview, out = gate.previews[0], [hunk for _, hunk in self._document.left_out]
        if text is not None and not can_edit(text):
            self._show_hint("gate.unsafe_edit")
            return
        if text is not None and out:  # what was left out stays so
            rest = without(text, preview, out)
            text, preview = rest if rest is not None else (None, preview)
        if text is None:
            self._show_hint("gate.cannot_edit")
        else:
            self._guard.end()  # what comes until the screen has the keys answers nothing
            screen = EditProposal(self.words, preview, text)
            host_of(self).push_screen(screen, lambda edited: self._edited(gate, text, edited))

    def action_alternative(self, number: int) -> None:
        gate = self._open_gate()
        if gate is not None and number <= len(gate.alternatives):
            remarks = self._document.remarked()
            self._answer(gate, GateChoice.ALTERNATIVE, alternative=number, remarks=remarks)

    def action_line(self, by: int) -> None:
        """To another line of the diff; without one, scroll what there is."""
        if self._document.rows and self._over is None:
            self._view.action_line(by)
        else:
            self._part.scroll_relative(y=by, animate=False)

    def action_remark(self) -> None:
        """Write on the line at the cursor."""
        gate = self._gate
        if not self._ready or gate is None:
            return
        if gate.previews and self._over is None:
            self._pane.write(self)
            self._refresh_frame()
        else:
            self._show_hint("diff.no_line")

    def action_next_hunk(self) -> None:
        self._view.action_next_hunk()

    def action_previous_hunk(self) -> None:
        self._view.action_previous_hunk()

    def action_toggle_hunk(self) -> None:
        self._choose(self._view.action_toggle_hunk)

    def action_only_hunk(self) -> None:
        self._choose(self._view.action_only_hunk)

    def _choose(self, change: Callable[[], None]) -> None:
        if not self._ready:
            return
        whole = self._view.whole
        if whole is None:
            change()
        else:
            self._show_hint(f"diff.whole.{whole}")

    def action_toggle_split(self) -> None:
        self._view.action_toggle_split()

    def action_toggle_wrap(self) -> None:
        self._view.action_toggle_wrap()

    async def action_scroll_part(self, action: str) -> None:
        await self._part.run_action(action)

    def _submit(self, text: str) -> None:
        gate = self._gate
        if gate is None or self._sent:
            return
        self._answer(gate, GateChoice.REJECT, reason=text.strip())

    # --- answers ---------------------------------------------------------------------------

    def _approve(self, choice: GateChoice) -> None:
        gate = self._open_gate()
        if gate is None:
            return
        if self._scope not in (None, choice):
            self.show_scope(None)
        if self._document.takes_nothing:
            self._show_hint("gate.takes_nothing")
            return
        # R14a
        why = bool(self.unseen() or self._document.remarks)  # these would be lost
        if self._asks_first(choice, why=why):
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
        self._guard.forget()
        self._close_field()
        self.post_message(self.Answered(answer))
        if len(self.gates) > 1:
            self.focus()  # the next one waits here
        elif self.may_ask_again and choice not in _ENDS:
            self._stay()
        else:
            self._leave()
        self._refresh_frame()

    def _edited(self, gate: Gate, before: str, edited: str | None) -> None:
        self._guard.begin()
        if edited is None:
            return
        if gate != self._gate:
            self._show_hint("gate.changed_meanwhile")
        elif edited == before:
            self._show_hint("gate.not_edited")
        else:
            self._answer(gate, GateChoice.EDIT, edited=edited)
