"""Hard limits on calls to models. At a limit the user is asked before the call is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, cast

from duckflow_tui.safety.pending_questions import Desk, Unanswered
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import IdSource
from duckflow_tui.state.consequences import find_consequence
from duckflow_tui.state.conversation import UserMessage, UserMessageAdded
from duckflow_tui.state.decision import Question
from duckflow_tui.state.gates import BUDGET_OPTIONS, Card, CardAnswer, CardKind, CardOpened
from duckflow_tui.state.pace import Reason
from duckflow_tui.state.phase import Status
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.state.plan_events import StepChanged
from duckflow_tui.state.session import SessionResumed
from duckflow_tui.state.store import Record, Store
from duckflow_tui.state.turn import TurnFinished, TurnOutcome, TurnStarted
from duckflow_tui.state.usage import BudgetRaised, LlmCallFinished, Purpose
from duckflow_tui.tools.notices import Notices
from duckflow_tui.work.requirements import change_objective

What = Literal["calls", "tokens", "cost"]


#: Why a turn ended at the user's word: they accepted its result as it is, or wanted no more of it.
ACCEPTED: Final = Reason(code="accepted")
BY_USER: Final = Reason(code="user")


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Limits on model calls, tokens and cost; 0 means no limit.

    Calls are counted per turn, and separately per run of a step; tokens and cost (US dollars) per
    session. A call's tokens are estimated before it is sent; its cost is known only afterwards.
    """

    max_calls: int = 60
    max_tokens: int = 0
    max_cost: float = 0.0


@dataclass(frozen=True, slots=True)
class _Over:
    """A limit that is reached, or that the next call with its ``coming`` tokens would exceed."""

    what: What
    used: float
    limit: float
    step: float  # by which the user may raise it: as much again as the settings allow
    coming: int = 0

    @property
    def raised_limit(self) -> float:
        """The limit after the user raises it: one or more steps up, enough for the next call."""
        over = max(self.used + self.coming - self.limit, 0)
        return self.limit + self.step * (int(over / self.step) + 1)


class CallBudget:
    """Counts the model calls of a session and enforces the limits; every call asks it first.

    If the user does not raise a limit, calls are refused until the next turn without a new
    question.
    """

    def __init__(
        self, store: Store, ids: IdSource, cards: Desk, notices: Notices, limits: BudgetLimits
    ) -> None:
        self._store = store
        self._ids = ids
        self._cards = cards
        self._notices = notices
        self.limits = limits
        self._made: dict[str, int] = {}  # calls of the turn and of each run of a step
        self._more: dict[str, int] = {}  # calls that the user added there
        self._end: tuple[TurnOutcome, Status, Reason] | None = None
        self._asking = asyncio.Lock()  # concurrent calls open one card
        self._said_no_price = False
        self._before: dict[str, Card] = {}  # open questions of an earlier process
        store.subscribe(self._on_record)

    async def permit_call(
        self,
        purpose: Purpose,
        *,
        step_id: str = "",
        aside: bool = False,
        size: Callable[[], int] | None = None,
    ) -> None:
        """Count a call that is about to be sent. At a limit, ask the user and wait for the answer.

        ``size`` estimates the call's tokens; it is called only if tokens are limited. Raises
        BudgetEnd if the call must not be sent.
        """
        while True:
            if self._end is not None:
                raise BudgetEnd(*self._end)
            if self._find_exceeded(step_id, size) is None:
                self._made[step_id] = self._made.get(step_id, 0) + 1
                return
            async with self._asking:
                over = self._find_exceeded(step_id, size)
                if self._end is None and over is not None:
                    await self._ask_user(over, purpose, step_id, aside)

    # --- what is used up ---------------------------------------------------------------------

    def _find_exceeded(self, step_id: str, size: Callable[[], int] | None) -> _Over | None:
        """Return the first limit that the next call would exceed, else None."""
        if (before := self._before.get(step_id)) is not None:
            return self._restore_exceeded(before)
        limits, usage = self.limits, self._store.state.usage
        made, most = self._made.get(step_id, 0), limits.max_calls + self._more.get(step_id, 0)
        if limits.max_calls and made >= most:
            return _Over("calls", made, most, limits.max_calls)
        tokens, most = usage.tokens_in + usage.tokens_out, limits.max_tokens + usage.more_tokens
        if limits.max_tokens:
            coming = 0 if size is None or tokens >= most else size()
            if tokens >= most or tokens + coming > most:
                return _Over("tokens", tokens, most, limits.max_tokens, coming)
        cost, dollars = usage.cost or 0.0, limits.max_cost + usage.more_cost
        if limits.max_cost and cost >= dollars:
            return _Over("cost", cost, dollars, limits.max_cost)
        return None

    def _restore_exceeded(self, card: Card) -> _Over:
        """Restore an exceeded limit, and the count of calls, from the card that an earlier process
        left open.
        """
        facts, limits = card.facts, self.limits
        used, limit, raised = (float(facts[name]) for name in ("used", "limit", "raise_to"))
        what = cast("What", facts["what"])
        if what == "calls":
            self._made[card.step_id] = int(used)
            self._more[card.step_id] = int(limit) - limits.max_calls
        return _Over(what, used, limit, raised - limit, int(facts.get("next", 0)))

    def _on_record(self, state: AgentState, record: Record) -> None:
        """Reset counts when a turn or step begins, restore open questions, and warn once of
        unpriced calls.
        """
        match record.event:
            case SessionResumed() if state.interrupted is not None:
                asked = state.interrupted.asked
                self._before = {c.step_id: c for c in asked if c.kind is CardKind.BUDGET}
            case CardOpened(card=card) if card.kind is CardKind.BUDGET:
                self._before.pop(card.step_id, None)
            case TurnFinished():
                self._before = {}
            case TurnStarted():
                self._end = None
                self._forget_step("")  # the calls that belong to no run of a step
            case StepChanged(step_id=step_id, status=WorkStatus.IN_PROGRESS):
                self._forget_step(step_id)
            case LlmCallFinished(call=call):
                free = call.cost is None and (call.tokens_in or call.tokens_out)
                if self.limits.max_cost and free and not self._said_no_price:
                    self._said_no_price = True  # the limit cannot count its cost
                    self._notices.warn("budget.no_price", endpoint=call.endpoint, model=call.model)
            case _:
                pass

    def _forget_step(self, step_id: str) -> None:
        """Reset the calls counted and added for a run of a step, or for the turn with an
        empty id.
        """
        self._made.pop(step_id, None)
        self._more.pop(step_id, None)

    # --- asking ------------------------------------------------------------------------------

    async def _ask_user(self, over: _Over, purpose: Purpose, step_id: str, aside: bool) -> None:
        """Ask the user about an exceeded limit, and record the answer or that there was none."""
        coming = {"next": _format_figure(over.coming)} if over.coming else {}
        card = self._cards.make_card(
            CardKind.BUDGET,
            BUDGET_OPTIONS,
            step_id=step_id,
            facts={
                "what": over.what,
                "used": _format_figure(over.used),
                "limit": _format_figure(over.limit),
                "raise_to": _format_figure(over.raised_limit),
                "purpose": purpose,
                **coming,
            },
        )
        try:
            answer = await self._cards.ask(card)
        except Unanswered as none:
            nobody = none.reason == "nobody"
            if nobody:
                self._notices.warn(
                    f"budget.nobody.{over.what}", step_id=step_id, limit=_format_figure(over.limit)
                )
            outcome: TurnOutcome = "limit" if nobody else "partial"
            self._end = outcome, Status.REQUIRES_USER_INPUT, _make_end_reason(over)
        else:
            await self._take_answer(card, answer, over, aside)

    async def _take_answer(self, card: Card, answer: CardAnswer, over: _Over, aside: bool) -> None:
        """Apply the answer: raise the limit, end the turn, or add the user's words to the
        conversation.
        """
        step_id = card.step_id
        match find_consequence(card, answer.action).next:
            case "goes_on":
                by = over.raised_limit - over.limit
                if over.what == "calls":
                    self._more[step_id] = self._more.get(step_id, 0) + int(by)
                else:
                    await self._store.commit(BudgetRaised(what=over.what, by=by))
            case "accepted":
                change_objective(self._store, closed=True)
                self._end = "done", Status.SUCCESS, ACCEPTED
            case "stopped":
                self._end = "stopped", Status.SUCCESS, _make_end_reason(over)
            case _ if answer.text.strip():  # words are no consent to spend: the card asks again
                message = UserMessage(
                    message_id=self._ids("msg"),
                    text=answer.text.strip(),
                    step_id=step_id,
                    aside=aside,
                    at=self._store.clock.now(),
                    quoted=True,  # nobody knows how it came onto the card
                )
                await self._store.commit(UserMessageAdded(message=message))
            case _:
                pass


def _make_end_reason(over: _Over) -> Reason:
    """Return the reason ``budget`` for the end of a turn, with the kind of limit and its value."""
    return Reason(code="budget", params={"what": over.what, "limit": _format_figure(over.limit)})


def _format_figure(value: float) -> str:
    """Format a whole number without decimals, any other with up to four."""
    return str(int(value)) if value == int(value) else f"{value:.4f}".rstrip("0")


class TurnEnd(Exception):
    """Raised to end a turn, or an answer beside it, with an outcome. ``laid_down``: the turn leaves
    no open question, so its work is not resumed.
    """

    def __init__(
        self,
        outcome: TurnOutcome,
        status: Status = Status.SUCCESS,
        reason: Reason | None = None,
        *,
        laid_down: bool = False,
        question: Question | None = None,
    ) -> None:
        """``reason`` says why it ended; ``question`` is the model's question that ended it."""
        super().__init__(outcome)
        self.outcome: TurnOutcome = outcome
        self.status = status
        self.reason = reason
        self.laid_down = laid_down
        self.question = question


class BudgetEnd(TurnEnd):
    """Raised when a call was refused at a hard limit; it was not sent."""

    def __init__(self, outcome: TurnOutcome, status: Status, reason: Reason) -> None:
        super().__init__(outcome, status, reason, laid_down=True)
