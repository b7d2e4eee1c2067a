"""What waits for the user: gates for calls, cards for all else; a key answers, nothing else."""

from __future__ import annotations

import asyncio
from typing import Final, Literal, Protocol

from duckflow_tui.safety.policy import grant_for
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import Clock, IdSource, StateError
from duckflow_tui.state.gates import (
    ACCEPT,
    EDIT_PLAN,
    GO_ON,
    RUN_ALL,
    STOP,
    Card,
    CardAnswer,
    CardAnswered,
    CardKind,
    CardOpened,
    CardOption,
    CardWithdrawn,
    Gate,
    GateAnswer,
    GateAnswered,
    GateChoice,
    GateOpened,
    GateWithdrawn,
    GrantAdded,
)
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.store import Record, Store

_LASTING: Final = (GateChoice.SESSION, GateChoice.STEP)


WithdrawReason = Literal["stopped", "renewed", "edited"]


class GateClosed(Exception):
    """The gate was withdrawn while it was being asked; nobody answered it."""

    def __init__(self, gate_id: str, reason: WithdrawReason) -> None:
        super().__init__(f"gate {gate_id} was withdrawn: {reason}")
        self.gate_id = gate_id
        self.reason: WithdrawReason = reason


class ConsentMissing(Exception):
    """Nobody is there who could consent (R19): the call is denied, which is no error (R20).

    ``str()`` is a sentence for the model.
    """


class Consent(Protocol):
    """Who is asked before an effect."""

    async def ask(self, gate: Gate) -> GateAnswer:
        """The user's answer; raises ``GateClosed`` or ``ConsentMissing``."""
        ...

    def withdraw(self, gate_id: str, reason: WithdrawReason) -> None:
        """Close an open gate without an answer; one that is not open is left alone."""
        ...


class NoConsent:
    """Headless: consent came from the command line or there is none."""

    async def ask(self, gate: Gate) -> GateAnswer:
        """Denied at once; no gate is opened, so that none waits for ever."""
        raise ConsentMissing(
            f"{gate.operation} needs the user's approval, and nobody is there to give it. "
            "Do what can be done without it and say what was left out."
        )

    def withdraw(self, gate_id: str, reason: WithdrawReason) -> None:
        """Nothing is ever open."""


class GateBroker:
    """Opens gates in the Store and waits for their answers; several may be open at once.

    An answer is the event ``GateAnswered`` and nothing else. It reaches the one who asked once
    the event is applied; what the asker commits next is on disk after the answer.
    """

    def __init__(self, store: Store, ids: IdSource, clock: Clock) -> None:
        self._store = store
        self._ids = ids
        self._clock = clock
        self._open: dict[str, Gate] = {gate.gate_id: gate for gate in store.state.gates}
        self._waiting: dict[str, asyncio.Future[GateAnswer]] = {}
        self._forget = store.watch(self._hear)

    def close(self) -> None:
        """Stop listening to the Store."""
        self._forget()

    async def ask(self, gate: Gate) -> GateAnswer:
        """Open ``gate`` and wait for its answer. Cancelled: the gate is withdrawn as stopped."""
        answer: asyncio.Future[GateAnswer] = asyncio.get_running_loop().create_future()
        if gate.gate_id in self._waiting:
            raise StateError(f"gate {gate.gate_id} is being asked already")
        self._waiting[gate.gate_id] = answer
        try:
            await self._store.commit(GateOpened(gate=gate))
            return await answer
        except asyncio.CancelledError:
            del self._waiting[gate.gate_id]  # nobody is left to hear that it was withdrawn
            self.withdraw(gate.gate_id, "stopped")
            raise
        finally:
            self._waiting.pop(gate.gate_id, None)

    async def answer(self, answer: GateAnswer) -> None:
        """Record the user's key. Raises StateError when it does not fit what the gate shows."""
        gate = self._open.get(answer.gate_id)
        if gate is not None:
            _check(gate, answer)
        await self._store.commit(GateAnswered(answer=answer))

    def withdraw(self, gate_id: str, reason: WithdrawReason) -> None:
        """Close an open gate without an answer; who asks gets ``GateClosed``."""
        if any(gate.gate_id == gate_id for gate in self._store.state.gates):
            self._store.dispatch(GateWithdrawn(gate_id=gate_id, reason=reason))

    def _hear(self, state: AgentState, record: Record) -> None:
        match record.event:
            case GateOpened(gate=gate):
                self._open[gate.gate_id] = gate
            case GateAnswered(answer=answer):
                gate = self._open.pop(answer.gate_id, None)
                waiting = self._waiting.get(answer.gate_id)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
                # Queued behind this event, and applied before who asked wakes up.
                if gate is not None and answer.choice in _LASTING:
                    grant = grant_for(gate, self._ids("grant"), answer.choice)
                    self._store.dispatch(GrantAdded(grant=grant))
            case GateWithdrawn(gate_id=gate_id, reason=reason):
                self._open.pop(gate_id, None)
                waiting = self._waiting.get(gate_id)
                if waiting is not None and not waiting.done():
                    waiting.set_exception(GateClosed(gate_id, reason))
            case _:
                pass


def _check(gate: Gate, answer: GateAnswer) -> None:
    if answer.choice is GateChoice.EDIT and (not gate.can_edit or answer.edited is None):
        raise StateError("this proposal cannot be edited")
    if answer.choice in _LASTING:
        try:
            grant_for(gate, "", answer.choice)
        except ValueError as error:
            raise StateError("this call can only be allowed once") from error
    for file, hunk in answer.left_out:
        if file not in range(len(gate.previews)) or hunk not in range(
            len(gate.previews[file].hunks)
        ):
            raise StateError("the answer leaves out a hunk that the gate does not show")


CardReason = Literal["stopped", "renewed"]


class CardClosed(Exception):
    """The card was withdrawn while it was being asked; nobody answered it."""

    def __init__(self, card_id: str, reason: CardReason) -> None:
        super().__init__(f"card {card_id} was withdrawn: {reason}")
        self.card_id = card_id
        self.reason: CardReason = reason


class Asked(Protocol):
    """Who answers cards."""

    async def ask(self, card: Card) -> CardAnswer:
        """The user's answer; raises CardClosed, or ConsentMissing where nobody can consent."""
        ...

    def withdraw(self, card_id: str, reason: CardReason) -> None:
        """Close an open card without an answer; one that is not open is left alone."""
        ...


class CardDesk:
    """Opens cards in the Store and waits for their answers; several may be open at once."""

    def __init__(self, store: Store, ids: IdSource) -> None:
        self._store = store
        self._ids = ids
        self._waiting: dict[str, asyncio.Future[CardAnswer]] = {}
        store.watch(self._hear)

    async def ask(self, card: Card) -> CardAnswer:
        """Open ``card`` and wait. Cancelled: the card is withdrawn as stopped."""
        answer: asyncio.Future[CardAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[card.card_id] = answer
        try:
            await self._store.commit(CardOpened(card=card))
            return await answer
        except asyncio.CancelledError:
            self.withdraw(card.card_id, "stopped")
            raise
        finally:
            self._waiting.pop(card.card_id, None)

    async def answer(self, answer: CardAnswer) -> None:
        """Record the user's key. Raises StateError when it does not fit what the card shows."""
        if answer.action == EDIT_PLAN.action:
            raise StateError("a plan is edited in its pane; that answers nothing")
        await self._store.commit(
            CardAnswered(answer=answer, message_id=self._ids("msg"), at=self._store.clock.now())
        )

    def withdraw(self, card_id: str, reason: CardReason) -> None:
        """Close an open card without an answer; who asks gets ``CardClosed``."""
        if any(card.card_id == card_id for card in self._store.state.cards):
            self._store.dispatch(CardWithdrawn(card_id=card_id, reason=reason))

    def _hear(self, state: AgentState, record: Record) -> None:
        match record.event:
            case CardAnswered(answer=answer):
                waiting = self._waiting.get(answer.card_id)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
            case CardWithdrawn(card_id=card_id, reason=reason):
                waiting = self._waiting.get(card_id)
                if waiting is not None and not waiting.done():
                    waiting.set_exception(CardClosed(card_id, reason))
            case _:
                pass


class ModeAnswers:
    """Headless: ``--mode trusted`` on the command line approves plans and their changes; in any
    other mode nobody is there to do so (R19). What did not work is never gone past.
    """

    def __init__(self, mode: ApprovalMode) -> None:
        self._mode = mode

    async def ask(self, card: Card) -> CardAnswer:
        """The answer at once; no card is opened, so that none waits for ever."""
        return CardAnswer(
            card_id=card.card_id, subject=card.subject, action=self._choice(card).action
        )

    def withdraw(self, card_id: str, reason: CardReason) -> None:
        """Nothing is ever open."""

    def _choice(self, card: Card) -> CardOption:
        match card.kind:
            case CardKind.REPORT | CardKind.BREAKPOINT:
                return GO_ON if GO_ON in card.options else STOP
            case CardKind.PLAN | CardKind.PLAN_CHANGE:
                if self._mode is not ApprovalMode.TRUSTED:
                    raise ConsentMissing(
                        "A plan needs the user's approval, and nobody is there to give it. "
                        "Do what can be done without one and say what was left out."
                    )
                return RUN_ALL if card.kind is CardKind.PLAN else ACCEPT
            case CardKind.CONSULTATION:
                raise ConsentMissing("Nobody is there to say how the work should go on.")
            case CardKind.BUDGET:
                raise ConsentMissing("Nobody is there to raise the limit.")
            case CardKind.ESCALATION:
                return next(o for o in card.options if o.action == "accept_partial")
