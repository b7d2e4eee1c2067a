"""The gate: a proposal that waits for the user's key, and nothing else can answer it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, cast

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer
from textual.message import Message
from textual.widgets import Input

from duckflow_tui.safety.safe_text import is_safe
from duckflow_tui.state.clock import Clock
from duckflow_tui.state.gates import Gate, GateAnswer, GateChoice, before_hashes
from duckflow_tui.ui.bindings import KEYS
from duckflow_tui.ui.panes.diff_pane import DiffPane
from duckflow_tui.ui.panes.gate_frame import GateFrame
from duckflow_tui.ui.screens.edit_proposal import EditProposal

#: Seconds after the focus came in which keys are ignored: they were meant for another place.
SETTLE: Final = 0.3

Proposed = Callable[[str], str | None]


def _bindings() -> list[BindingType]:
    found: list[BindingType] = []
    for key in KEYS:
        if key.action == "alternative":
            found += [Binding(k, f"alternative({k})", k, show=False) for k in key.keys]
        elif key.surface in ("gate", "diff") or key.action == "escape":
            found.append(Binding(",".join(key.keys), key.action, key.label, show=False))
    for binding in cast("list[Binding]", ScrollableContainer.BINDINGS):
        found.append(Binding(binding.key, f"scroll_part('{binding.action}')", show=False))
    return found


class GateCard(GateFrame, can_focus=True):
    """The oldest open gate: what, why, with what consequences, and the keys (S4-60…62, S4-65).

    It never takes the focus by itself, and keys within ``SETTLE`` seconds of the focus arriving
    do nothing. While part of the request was not on screen, ``y`` and ``s`` show it instead of
    approving (R14). An answer carries the hashes of exactly what was shown.
    """

    BINDINGS: ClassVar[list[BindingType]] = _bindings()

    class Answered(Message):
        """The user pressed a key of the gate."""

        def __init__(self, answer: GateAnswer) -> None:
            super().__init__()
            self.answer = answer

    class Left(Message):
        """The user is done here: the composer should have the focus. The gate may be open."""

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
        super().__init__(beside, id=id)
        self._clock = clock
        self._proposed = proposed
        self._focused_at: float | None = None

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
        typing = self._reason.has_focus
        had_focus = self.has_focus or typing
        self._sent = False
        self._close_reason()
        self.show_gate(gate)
        if had_focus and gate is None:
            self.post_message(self.Left())
        elif had_focus:
            self._focused_at = self._clock.monotonic()
            if typing:
                self.focus()

    # --- keys ------------------------------------------------------------------------------

    def on_focus(self) -> None:
        self._focused_at = self._clock.monotonic()
        self._sent, self._hint = False, ""
        self._say()

    def on_blur(self) -> None:
        self._focused_at = None
        self._say()

    def on_key(self, event: events.Key) -> None:
        """Keys that were typed before the focus was noticed are not meant for the gate."""
        if self.has_focus and not self._settled:
            own = event.key in self._bindings.key_to_bindings or event.key == "enter"
            if own or event.is_printable:
                event.stop()
                event.prevent_default()

    @property
    def _settled(self) -> bool:
        since = self._focused_at
        # Rounded, because 0.9 - 0.6 is less than 0.3.
        return since is not None and round(self._clock.monotonic() - since, 6) >= SETTLE

    def _open_gate(self) -> Gate | None:
        """The gate, if a key may answer it now."""
        ready = self.has_focus and self._settled and not self._sent
        return self._gate if ready else None

    def action_once(self) -> None:
        self._approve(GateChoice.ONCE)

    def action_session(self) -> None:
        if self._gate is not None and self._gate.can_grant_session:
            self._approve(GateChoice.SESSION)

    def action_reject(self) -> None:
        if self._open_gate() is None:
            return
        self._hint = ""
        self._reason.placeholder = self.words("gate.ask_reason")
        self._reason.display, self._keys.display = True, False
        self._reason.focus()
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
            self.post_message(self.Left())

    def action_next_hunk(self) -> None:
        self._view.action_next_hunk()

    def action_previous_hunk(self) -> None:
        self._view.action_previous_hunk()

    def action_toggle_hunk(self) -> None:
        if self._open_gate() is not None:
            self._view.action_toggle_hunk()

    def action_toggle_split(self) -> None:
        self._view.action_toggle_split()

    def action_toggle_wrap(self) -> None:
        self._view.action_toggle_wrap()

    async def action_scroll_part(self, action: str) -> None:
        part = self._view if self._document.rows else self._arguments
        if part is self._arguments and not self._arguments.max_scroll_y:
            part = self._points
        await part.run_action(action)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._gate is not None and not self._sent:
            self._answer(self._gate, GateChoice.REJECT, reason=event.value.strip())

    # --- answers ---------------------------------------------------------------------------

    def _approve(self, choice: GateChoice) -> None:
        gate = self._open_gate()
        if gate is None or self._turn_page():
            return
        if self._document.takes_nothing:
            self._refuse("gate.takes_nothing")
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
        else:
            self.post_message(self.Left())
        self._say()

    def _edited(self, gate: Gate, before: str, edited: str | None) -> None:
        self._focused_at = self._clock.monotonic()
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
        self._reason.value = ""
        self._reason.display, self._keys.display = False, True
        self._say()
        self._share_out()
