"""Phase and Status (S4-26, S4-27), and the values that tell how one led to another."""

from __future__ import annotations

from enum import StrEnum

from duckflow_tui.state.base import Frozen


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
    """Who asked for a move. Only ``DECISION`` counts against the limit of one a decision."""

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


class Refusal(Frozen):
    """A move that the table or the limiter forbade (S4-51)."""

    old: Phase
    wanted: Phase
    trigger: Trigger
    reason: str
    at: float
