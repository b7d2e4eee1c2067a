"""The phase machine: makes the moves that its table allows, refuses and records the others."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, Field, field_validator

from duckflow_tui.state.phase import (
    ForbiddenTransition,
    Phase,
    PhaseChanged,
    Status,
    StatusChanged,
    Transition,
    TransitionRefused,
    Trigger,
)
from duckflow_tui.state.store import Store

DEFAULT_TABLE = Path(__file__).with_name("phases.toml")

#: Begins the reason of a refused move back after an error, when the limit is reached (S4-53).
RECOVERED: Final = "decisions have gone back after errors as often as they may"

#: Status that a phase starts with, unless the mover says otherwise.
_START: dict[Phase, Status] = {
    Phase.IDLE: Status.SUCCESS,
    Phase.DONE: Status.SUCCESS,
    Phase.AWAITING_APPROVAL: Status.REQUIRES_USER_INPUT,
}


class _Edge(BaseModel, extra="forbid", frozen=True):
    sources: tuple[Phase, ...] = Field(alias="from")
    targets: tuple[Phase, ...] = Field(alias="to")
    by: tuple[Trigger, ...]
    guard: Literal["", "error"] = ""

    @field_validator("sources", "targets", mode="before")
    @classmethod
    def _parse_phases(cls, value: object) -> object:
        if value == "*":
            return tuple(Phase)
        return (value,) if isinstance(value, str) else value


class _Limits(BaseModel, extra="forbid", frozen=True):
    decision_moves: int = Field(default=1, ge=1)
    reset_s: float = Field(default=60.0, gt=0)
    recoveries: int = Field(default=3, ge=0)


class PhaseTable(BaseModel, extra="forbid", frozen=True):
    """The table as a file holds it (S4-54)."""

    limits: _Limits = _Limits()
    edge: tuple[_Edge, ...]

    @classmethod
    def load(cls, path: Path = DEFAULT_TABLE) -> PhaseTable:
        """Read a table; raises OSError, tomllib.TOMLDecodeError or pydantic.ValidationError."""
        return cls.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))

    def is_allowed(self, old: Phase, new: Phase, trigger: Trigger, status: Status) -> bool:
        """Whether some edge leads from ``old`` to ``new`` for this trigger and status."""
        return any(
            old in edge.sources
            and new in edge.targets
            and trigger in edge.by
            and (edge.guard != "error" or status is Status.ERROR)
            for edge in self.edge
        )


#: The program's own table, read once for all sessions of the process.
_own_table: Final = cache(PhaseTable.load)


class PhaseMachine:
    """Moves the phase of the one state, each time by a ``PhaseChanged`` (S4-33)."""

    def __init__(self, store: Store, table: PhaseTable | None = None) -> None:
        self._store = store
        self.table = table or _own_table()
        self._decision_moved_at: dict[str, float] = {}

    def move_to(
        self,
        new: Phase,
        trigger: Trigger,
        *,
        decision_id: str = "",
        status: Status | None = None,
        detail: str = "",
    ) -> bool:
        """Make the move and return True, or record its refusal and return False. Staying in the
        phase is always allowed.
        """
        state = self._store.state
        if new is state.phase:
            return True
        reason = self._find_refusal(new, trigger, decision_id)
        now = self._store.clock.now()
        if reason:
            self._store.dispatch(
                TransitionRefused(
                    refusal=ForbiddenTransition(
                        old=state.phase, wanted=new, trigger=trigger, reason=reason, at=now
                    )
                )
            )
            return False
        if trigger is Trigger.DECISION:
            self._decision_moved_at = {decision_id: self._store.clock.monotonic()}
            if state.status is Status.ERROR and self._is_recovery(new):
                self._store.dispatch(
                    StatusChanged(status=Status.ERROR, detail=state.status_detail, recovery=True)
                )
        self._store.dispatch(
            PhaseChanged(
                transition=Transition(
                    old=state.phase, new=new, trigger=trigger, decision_id=decision_id, at=now
                ),
                status=status or _START.get(new, Status.IN_PROGRESS),
                detail=detail,
            )
        )
        return True

    def set_status(self, status: Status, detail: str = "") -> None:
        """Set the status within the phase; does nothing where it is unchanged."""
        state = self._store.state
        if (state.status, state.status_detail) != (status, detail):
            self._store.dispatch(StatusChanged(status=status, detail=detail))

    def reset(self, trigger: Trigger = Trigger.RESET) -> None:
        """Go to IDLE from any phase (S4-56)."""
        self.move_to(Phase.IDLE, trigger, status=Status.SUCCESS)

    def _find_refusal(self, new: Phase, trigger: Trigger, decision_id: str) -> str:
        """Return why a move is not allowed; empty where it is."""
        state = self._store.state
        if not self.table.is_allowed(state.phase, new, trigger, state.status):
            return f"the table has no edge {state.phase} → {new} for {trigger}"
        if trigger is Trigger.DECISION:
            moved_at = self._decision_moved_at.get(decision_id)
            limits = self.table.limits
            moves = [t for t in state.transitions if t.trigger is Trigger.DECISION]
            made = sum(move.decision_id == decision_id for move in moves)
            spent = state.recoveries >= limits.recoveries
            if spent and state.status is Status.ERROR and self._is_recovery(new):
                return f"{RECOVERED}: {limits.recoveries} time(s) in this turn"
            if moved_at is not None and (
                self._store.clock.monotonic() - moved_at < limits.reset_s
                and made >= limits.decision_moves
            ):
                return f"one decision may move {limits.decision_moves} time(s)"
        return ""

    def _is_recovery(self, new: Phase) -> bool:
        """Whether this move of a decision is only allowed because of an error (S4-50)."""
        state = self._store.state
        return not self.table.is_allowed(state.phase, new, Trigger.DECISION, Status.IN_PROGRESS)
