"""Phase and Status (S4-26, S4-27), and the values that tell how one led to another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from duckflow_tui.state.base import Event, Frozen, StateError

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState


class Phase(StrEnum):
    """Where the work is. The notes call it Step; here ``Step`` is a plan's step."""

    IDLE = "IDLE"
    PLANNING = "PLANNING"
    EXECUTION = "EXECUTION"
    REVIEW = "REVIEW"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    DONE = "DONE"


class Status(StrEnum):
    """How the work in the phase goes; it may change at any time (S4-28)."""

    IN_PROGRESS = "IN_PROGRESS"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    REQUIRES_USER_INPUT = "REQUIRES_USER_INPUT"


class Trigger(StrEnum):
    """Who requested a move. Only moves by ``DECISION`` are limited to one per decision."""

    USER_MESSAGE = "user_message"
    DECISION = "decision"
    GATE_OPENED = "gate_opened"
    GATE_APPROVED = "gate_approved"
    GATE_REFUSED = "gate_refused"
    ERROR = "error"
    DONE = "done"
    CHAT_ONLY = "chat_only"
    DEFER = "defer"
    STOP = "stop"
    RESET = "reset"


class Transition(Frozen):
    """A move that was made."""

    old: Phase
    new: Phase
    trigger: Trigger
    decision_id: str = ""  # the model decision it belongs to, empty when the app moved
    at: float  # seconds since the epoch


class ForbiddenTransition(Frozen):
    """A move that the table or the limit forbade (S4-51)."""

    old: Phase
    wanted: Phase
    trigger: Trigger
    reason: str
    at: float


TRANSITION_HISTORY = 50  # S4-55


@dataclass(eq=False)
class PhaseState:
    """The current phase and status."""

    phase: Phase = Phase.IDLE
    status: Status = Status.SUCCESS
    status_detail: str = ""


class PhaseChanged(Event, kind="phase_changed"):
    """The phase machine made a move; with the new status and its reason."""

    transition: Transition
    status: Status
    detail: str = ""

    def apply(self, state: AgentState) -> None:
        if self.transition.old is not state.phase:
            raise StateError(f"the phase is {state.phase}, not {self.transition.old}")
        state.phase = self.transition.new
        state.status = self.status
        state.status_detail = self.detail
        state.transitions = (*state.transitions, self.transition)[-TRANSITION_HISTORY:]


class TransitionRefused(Event, kind="transition_refused"):
    """The phase machine refused a move (S4-51)."""

    refusal: ForbiddenTransition

    def apply(self, state: AgentState) -> None:
        state.refusals = (*state.refusals, self.refusal)[-TRANSITION_HISTORY:]


class StatusChanged(Event, kind="status_changed"):
    """The status changed within the phase (S4-28); ``detail`` says why (S4-29, S4-53). ``recovery``
    marks the start of an error recovery; a turn has a limited number.
    """

    status: Status
    detail: str = ""
    recovery: bool = False

    def apply(self, state: AgentState) -> None:
        if self.recovery:
            state.recoveries += 1
        state.status = self.status
        state.status_detail = self.detail
