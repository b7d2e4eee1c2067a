"""Asking the user when the work is stuck or at its limit, and doing what they say (S0-37…43)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from duckflow_tui.loops.cards import CardClosed
from duckflow_tui.loops.consult_ways import MORE_LOOPS, ConsultWays
from duckflow_tui.loops.pace_keeper import PaceKeeper
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.resuming import waiting_card
from duckflow_tui.safety.gates import ConsentMissing
from duckflow_tui.state.agent import TurnOutcome
from duckflow_tui.state.cards import CONSULTATION_OPTIONS, TELL, Card, CardAnswer, CardKind
from duckflow_tui.state.decision import PromptPattern
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.pace import Pattern, Situation
from duckflow_tui.state.phase import Status

ConsultEnd = Literal[
    "goes_on",
    "stopped",  # the user wants no more of it now
    "accepted",  # the user takes what there is
    "waits",  # for the user's next message
    "nobody",  # there was nobody to ask
]


@dataclass(frozen=True, slots=True)
class Consulted:
    """What came of it. ``wish``: what a step's conversation is told the user wants instead."""

    end: ConsultEnd = "goes_on"
    next_prompt: PromptPattern | None = None  # None: as the model chose it
    wish: str = ""
    at_limit: bool = False
    met: bool = False  # every requirement that counts

    @property
    def outcome(self) -> tuple[TurnOutcome, Status]:
        """How a turn ends that does not go on."""
        match self.end:
            case "accepted":
                return ("done" if self.met else "partial"), Status.SUCCESS
            case "stopped":
                return "partial", Status.SUCCESS
            case "nobody" if self.at_limit:
                return "limit", Status.REQUIRES_USER_INPUT
            case _:
                return "partial", Status.REQUIRES_USER_INPUT


class Consultation:
    """Belongs to a turn, or to one run of a step, whose thread then hears the user's words."""

    def __init__(
        self,
        parts: TurnParts,
        keeper: PaceKeeper,
        log: Callable[[], Sequence[OperationMessage]],
        *,
        plan_id: str = "",
        step_id: str = "",
    ) -> None:
        """``log``: the calls of the model so far."""
        self._parts = parts
        self._keeper = keeper
        self._log = log
        self._plan_id = plan_id
        self._step_id = step_id
        self._ways = ConsultWays(parts, keeper, log, step_id)

    async def if_due(self) -> Consulted | None:
        """Ask when something is due; None when nothing is. Everything else goes on meanwhile."""
        situation = self._before() or self._now()
        if situation is None:
            return None
        try:
            answer = await self._answer(situation)
        except ConsentMissing:
            return self._nobody(situation)
        except CardClosed as closed:  # renewed: the user let it go on by another key
            return Consulted("goes_on" if closed.reason == "renewed" else "waits")
        return await self._take(answer, situation.pattern)

    def _before(self) -> Situation | None:
        """What the user was being asked when an earlier process ended."""
        card = waiting_card(self._parts.store.state, CardKind.CONSULTATION, self._step_id)
        if card is not None and card.situation is not None:
            self._keeper.asked(card.situation)
            return card.situation
        return None

    def _now(self) -> Situation | None:
        if (grown := self._keeper.grow()) is not None:
            old, new = map(str, grown)
            self._parts.notices.say("pace.grown", step_id=self._step_id, old=old, new=new)
        due = self._keeper.due()
        return None if due is None else self._keeper.asking(*due, self._log())

    async def _answer(self, situation: Situation) -> CardAnswer:
        """The user's answer; one that needs words and has none asks again (S0-43)."""
        while True:
            card_id = self._parts.ids("card")
            card = Card(
                card_id=card_id,
                kind=CardKind.CONSULTATION,
                subject=card_id,
                options=CONSULTATION_OPTIONS[situation.pattern],
                plan_id=self._plan_id,
                step_id=self._step_id,
                situation=situation,
                opened_at=self._parts.store.clock.now(),
            )
            answer = await self._parts.cards.ask(card)
            option = next(o for o in card.options if o.action == answer.action)
            if answer.text.strip() or not option.takes_text:
                return answer

    async def _take(self, answer: CardAnswer, pattern: Pattern) -> Consulted:
        ways, text = self._ways, answer.text.strip()
        match answer.action:
            case "stop_work":
                return Consulted("stopped")
            case "accept_result":
                return Consulted("accepted", met=ways.accept_result())
            case "analyse":
                await ways.analyse()
                return Consulted("waits")
            case "keep_going" | "keep_approach":
                return Consulted()  # only the cool-down
            case "more_loops":
                self._keeper.extend(MORE_LOOPS)
                return Consulted()
            case "split" if self._step_id:
                return Consulted("stopped", wish=ways.split_wish())
            case _:
                pass
        self._keeper.forgive()
        match answer.action:
            case "more_info":
                await ways.more_info(text)
            case "other_approach" | "different_approach":
                ways.other_approach()
            case "detailed_requirements":
                await ways.detailed_requirements(text)
            case "split":
                ways.split()
                return Consulted(next_prompt=PromptPattern.BASE_MAIN_SPECIALIZED)
            case "other_source":
                ways.other_source()
            case "top_requirement":
                await ways.top_requirement(text)
            case "start_over":
                ways.start_over()
            case "tidy_results":
                await ways.tidy_results()
            case "other_angle":
                ways.other_angle()
            case "simplify":
                await ways.simplify(text)
            case TELL.action:
                await ways.tell(text)
                if pattern is Pattern.LIMIT:  # words on how to go on are a yes to going on
                    self._keeper.extend(MORE_LOOPS)
            case _:
                raise AssertionError(f"no answer {answer.action!r}")
        return Consulted()

    def _nobody(self, situation: Situation) -> Consulted:
        at_limit = situation.pattern is Pattern.LIMIT
        if at_limit:
            loops = str(situation.limit)
            self._parts.notices.warn("turn.limit", step_id=self._step_id, loops=loops)
        else:
            key = f"consulting.nobody.{situation.pattern.value}"
            self._parts.notices.warn(key, step_id=self._step_id)
        return Consulted("nobody", at_limit=at_limit)
