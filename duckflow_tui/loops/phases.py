"""How gates and results move the phase and the status; decisions and the end are the turn's."""

from __future__ import annotations

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.cards import CardKind
from duckflow_tui.state.events import (
    CardAnswered,
    CardOpened,
    CardWithdrawn,
    GateAnswered,
    GateOpened,
    GateWithdrawn,
    OperationFinished,
    PlanAnswered,
    WorkStarted,
)
from duckflow_tui.state.operations import Outcome, Risk
from duckflow_tui.state.phase import Phase, Status, Trigger
from duckflow_tui.state.phase_machine import PhaseMachine
from duckflow_tui.state.store import Record, Store


class PhaseKeeper:
    """Watches the Store: a high-risk gate and a plan wait in AWAITING_APPROVAL (S4-42, S4-46…49),
    any other gate or card requires the user (S4-29), a failed operation is an ERROR until the
    next decision (S4-53).
    """

    def __init__(self, store: Store, machine: PhaseMachine) -> None:
        self._machine = machine
        store.watch(self._follow)

    def _follow(self, state: AgentState, record: Record) -> None:
        if state.turn is None:
            return  # an answer beside work that has ended moves nothing
        match record.event:
            case GateOpened(gate=gate):
                if gate.impact.risk.rank >= Risk.HIGH.rank:
                    self._machine.move(Phase.AWAITING_APPROVAL, Trigger.GATE_OPENED)
                else:
                    self._machine.set_status(Status.REQUIRES_USER_INPUT)
            case GateAnswered(answer=answer) if not state.gates:
                if state.phase is not Phase.AWAITING_APPROVAL:
                    self._goes_on(state)
                elif answer.approves:
                    self._machine.move(Phase.EXECUTION, Trigger.GATE_APPROVED)
                else:
                    self._machine.move(Phase.PLANNING, Trigger.GATE_REFUSED)
            case GateWithdrawn(reason="stopped") if not state.gates:
                self._machine.set_status(Status.IN_PROGRESS)
            case CardOpened(card=card):
                if card.kind is CardKind.PLAN:
                    self._machine.move(Phase.AWAITING_APPROVAL, Trigger.GATE_OPENED)
                else:
                    self._machine.set_status(Status.REQUIRES_USER_INPUT)
            case PlanAnswered(run=run) if run is not None:
                self._machine.move(Phase.EXECUTION, Trigger.GATE_APPROVED)
            case PlanAnswered() if state.phase is Phase.AWAITING_APPROVAL:
                self._machine.move(Phase.PLANNING, Trigger.GATE_REFUSED)
            case WorkStarted(work=work) if work.plan_id:
                self._machine.move(Phase.EXECUTION, Trigger.GATE_APPROVED)
            case CardAnswered() | CardWithdrawn(reason="stopped"):
                self._goes_on(state)
            case OperationFinished(message=message):
                if message.result.outcome in (Outcome.ERROR, Outcome.INVALID):
                    self._machine.set_status(Status.ERROR, message.result.text[:200])
            case _:
                pass

    def _goes_on(self, state: AgentState) -> None:
        """The status after an answer; another question may still be open."""
        if not state.cards and not state.gates and state.phase is not Phase.AWAITING_APPROVAL:
            self._machine.set_status(Status.IN_PROGRESS)
