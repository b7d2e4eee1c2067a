"""Asking the user something that is not about one call: a card opens, a key answers it."""

from __future__ import annotations

import asyncio
from typing import Literal, Protocol

from duckflow_tui.safety.gates import ConsentMissing
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.cards import (
    ACCEPT,
    EDIT_PLAN,
    GO_ON,
    RUN_ALL,
    STOP,
    Card,
    CardAnswer,
    CardKind,
    CardOption,
)
from duckflow_tui.state.events import CardAnswered, CardOpened, CardWithdrawn, StateError
from duckflow_tui.state.ids import IdSource
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.state.store import Record, Store

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
