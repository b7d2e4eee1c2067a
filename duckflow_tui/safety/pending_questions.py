"""Questions that wait for the user: gates for calls, cards for everything else. Only a key press
answers one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal, overload

from duckflow_tui.safety.policy import grant_for
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import IdSource, StateError, ToldError
from duckflow_tui.state.gates import (
    ACCEPT,
    EDIT_PLAN,
    GO_ON,
    LOOK,
    REJECT,
    RUN_ALL,
    STOP,
    WIDENS,
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


class Unanswered(ToldError):
    """A question got no answer: it was withdrawn while open, or no user is there (reason
    ``nobody``, R19), which denies a call and is no error (R20).
    """

    def __init__(
        self,
        reason: Literal["stopped", "renewed", "edited", "nobody"],
        name: str = "unanswered.withdrawn",
        **values: str,
    ) -> None:
        """``name`` and ``values`` are the text for the model."""
        super().__init__(name, **values)
        self.reason = reason


class Desk:
    """Opens gates and cards in the Store and waits for their answers; several may be open at once.

    An answer is the event ``GateAnswered`` or ``CardAnswered``. Whoever waits in ``ask`` gets the
    answer once the event is applied; an event committed after that is on the disk after the answer.
    """

    def __init__(self, store: Store, ids: IdSource, words: Callable[..., str]) -> None:
        """``words`` renders texts for the model. Subscribes to the Store."""
        self._store = store
        self._ids = ids
        self._words = words
        self._waiting: dict[str, asyncio.Future[Any]] = {}  # by the id of the gate or card
        store.subscribe(self._resolve_answer)

    def make_card(
        self, kind: CardKind, options: tuple[CardOption, ...], subject: str = "", **fields: Any
    ) -> Card:
        """Return a new card with an id and the present time; it is not opened. An empty ``subject``
        becomes the card's own id.
        """
        card_id, now = self._ids("card"), self._store.clock.now()
        subject = subject or card_id
        return Card(
            card_id=card_id, kind=kind, subject=subject, options=options, opened_at=now, **fields
        )

    @overload
    async def ask(self, question: Gate) -> GateAnswer: ...
    @overload
    async def ask(self, question: Card) -> CardAnswer: ...
    async def ask(self, question: Gate | Card) -> GateAnswer | CardAnswer:
        """Open a gate or card and wait for the user's answer. Raises Unanswered. When the caller is
        cancelled, the question is withdrawn as ``stopped``.
        """
        return await self._wait_for_answer(question)

    async def _wait_for_answer(self, question: Gate | Card) -> GateAnswer | CardAnswer:
        """Open the question and wait for its answer; see ``ask``. Raises StateError where it is
        open already.
        """
        if isinstance(question, Gate):
            key, opened = question.gate_id, GateOpened(gate=question)
        else:
            key, opened = question.card_id, CardOpened(card=question)
        if key in self._waiting:
            raise StateError(f"{key} is being asked already")
        answer = self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            await self._store.commit(opened)
            return await answer
        except asyncio.CancelledError:
            answer.cancel()  # nobody waits for it any more
            self.withdraw_question(key, "stopped")
            raise
        finally:
            del self._waiting[key]

    def _describe_answer(self, answer: CardAnswer) -> str:
        """Return the answer to a card of kind QUESTION as text for the model; empty for other
        kinds.
        """
        cards = (card for card in self._store.state.cards if card.card_id == answer.card_id)
        card = next(cards, None)
        if card is None or card.kind is not CardKind.QUESTION:
            return ""
        option = next((o for o in card.options if o.action == answer.action), None)
        chosen = option.label if option is not None else ""
        if answer.action in (ACCEPT.action, REJECT.action):
            chosen = self._words("answer.yes" if answer.action == ACCEPT.action else "answer.no")
        parts = (chosen, answer.text.strip())
        return self._words("answer.given", answer=": ".join(part for part in parts if part))

    async def record_answer(self, answer: GateAnswer | CardAnswer) -> None:
        """Record the user's answer, and for a gate also the grant that it gives. Raises StateError
        when the answer does not fit the question.
        """
        now = self._store.clock.now()
        if isinstance(answer, CardAnswer):
            if answer.action in (EDIT_PLAN.action, LOOK.action):
                raise StateError("a plan is edited in its pane, files are shown in the card")
            await self._store.commit(
                CardAnswered(
                    answer=answer,
                    message_id=self._ids("msg"),
                    at=now,
                    for_model=self._describe_answer(answer),
                )
            )
            return
        gates = self._store.state.gates
        gate = next((gate for gate in gates if gate.gate_id == answer.gate_id), None)
        if gate is not None:
            _check_answer(gate, answer)
        if gate is None or answer.choice not in WIDENS:
            await self._store.commit(GateAnswered(answer=answer, at=now))
            return
        # The grant is recorded before the caller of ``ask`` resumes.
        self._store.dispatch(GateAnswered(answer=answer, at=now))
        grant = grant_for(gate, self._ids("grant"), answer.choice, now)
        await self._store.commit(GrantAdded(grant=grant))

    def withdraw_question(self, key: str, reason: Literal["stopped", "renewed"]) -> None:
        """Withdraw a gate or card by its id; whoever waits for it gets ``Unanswered``. Does nothing
        when it is not open.
        """
        state, now = self._store.state, self._store.clock.now()
        if any(gate.gate_id == key for gate in state.gates):
            self._store.dispatch(GateWithdrawn(gate_id=key, reason=reason, at=now))
        if any(card.card_id == key for card in state.cards):
            self._store.dispatch(CardWithdrawn(card_id=key, reason=reason, at=now))

    def _resolve_answer(self, state: AgentState, record: Record) -> None:
        """Wake up the caller who waits for the question that an event answers or withdraws."""
        match record.event:
            case (
                GateAnswered(answer=GateAnswer(gate_id=key) as answer)
                | CardAnswered(answer=CardAnswer(card_id=key) as answer)
            ):
                waiting = self._waiting.get(key)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
            case (
                GateWithdrawn(gate_id=key, reason=reason)
                | CardWithdrawn(card_id=key, reason=reason)
            ):
                waiting = self._waiting.get(key)
                if waiting is not None and not waiting.done():
                    waiting.set_exception(Unanswered(reason))
            case _:
                pass


class UnattendedDesk(Desk):
    """The desk of a run without a screen: it opens no question, so that nothing waits for ever.

    Gates are denied: consent to calls comes from the command line only. ``--mode trusted`` approves
    plans and their changes (R19). A failed step is never skipped.
    """

    def __init__(
        self, store: Store, ids: IdSource, words: Callable[..., str], mode: ApprovalMode
    ) -> None:
        """``mode`` TRUSTED approves plans; the other parameters are those of ``Desk``."""
        super().__init__(store, ids, words)
        self._mode = mode

    async def _wait_for_answer(self, question: Gate | Card) -> GateAnswer | CardAnswer:
        """Return the default answer to a card at once; raises Unanswered for a gate and where only
        a user can answer.
        """
        if isinstance(question, Gate):
            raise Unanswered(  # R19c
                "nobody", "unanswered.gate", operation=question.operation
            )
        return CardAnswer(
            card_id=question.card_id,
            subject=question.subject,
            action=self._choose_option(question).action,
        )

    def _choose_option(self, card: Card) -> CardOption:
        """Return the option that a card gets without a user; raises Unanswered where there
        is none.
        """
        match card.kind:
            case CardKind.REPORT | CardKind.BREAKPOINT:
                return GO_ON if GO_ON in card.options else STOP
            case CardKind.PLAN | CardKind.PLAN_CHANGE:
                if self._mode is not ApprovalMode.TRUSTED:
                    raise Unanswered("nobody", "unanswered.plan")
                return RUN_ALL if card.kind is CardKind.PLAN else ACCEPT
            case CardKind.PLAN_END:
                raise Unanswered("nobody", "unanswered.plan_end")
            case CardKind.CONSULTATION:
                raise Unanswered("nobody", "unanswered.consultation")
            case CardKind.QUESTION | CardKind.TRUST | CardKind.SERVER:
                raise Unanswered("nobody", "unanswered.question")
            case CardKind.BUDGET:
                raise Unanswered("nobody", "unanswered.budget")
            case CardKind.ESCALATION:
                return next(o for o in card.options if o.action == "accept_partial")


def _check_answer(gate: Gate, answer: GateAnswer) -> None:
    """Raise StateError for an answer that a gate does not allow: an edit, a grant or a hunk that it
    does not offer.
    """
    if answer.choice is GateChoice.EDIT and (not gate.can_edit or answer.edited is None):
        raise StateError("this proposal cannot be edited")
    if answer.choice in WIDENS:
        grant_for(gate, "", answer.choice)
    for file, hunk in answer.left_out:
        if file not in range(len(gate.previews)) or hunk not in range(
            len(gate.previews[file].hunks) or bool(gate.also)
        ):
            raise StateError("the answer leaves out a hunk that the gate does not show")
