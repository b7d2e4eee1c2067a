"""When the attempts are used up: the situation report and what the user wants now (S1-32…39)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.loops.cards import CardClosed
from duckflow_tui.loops.continuation import execution
from duckflow_tui.loops.llm_services import LLMServices
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.questions import Unreadable
from duckflow_tui.safety.gates import ConsentMissing
from duckflow_tui.state.base import one_line
from duckflow_tui.state.cards import ESCALATION_OPTIONS, Card, CardKind
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.objective import FailureAnalysis, SituationReport

Way = Literal["instructions", "alternative", "accept_partial", "cancel", "pending"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the user wants; ``text`` are their instructions. ``pending``: they did not say."""

    way: Way
    text: str = ""


class Escalation:
    """Asks until an answer says how the turn goes on; help is given and the card asked again."""

    def __init__(self, parts: TurnParts, services: LLMServices) -> None:
        self._parts = parts
        self._services = services

    async def ask(self, report: SituationReport, log: tuple[OperationMessage, ...]) -> Answer:
        """The user's answer to the report. An instruction without a word asks again (S1-34)."""
        while True:
            card_id = self._parts.ids("card")
            card = Card(
                card_id=card_id,
                kind=CardKind.ESCALATION,
                subject=card_id,
                options=tuple(
                    option
                    for option in ESCALATION_OPTIONS
                    if report.analysis is None or option.action != "assistance"
                ),
                escalation=report,
                opened_at=self._parts.store.clock.now(),
            )
            try:
                answer = await self._parts.cards.ask(card)
            except (CardClosed, ConsentMissing):
                return Answer("pending")
            match answer.action:
                case "instructions" | "tell" if answer.text.strip():
                    return Answer("instructions", answer.text.strip())
                case "alternative":
                    return Answer("alternative")
                case "accept_partial":
                    return Answer("accept_partial")
                case "cancel":
                    return Answer("cancel")
                case "assistance":
                    analysis = await self._analysis(report, log)
                    report = report.model_copy(update={"analysis": analysis or report.analysis})
                case _:
                    pass

    async def _analysis(
        self, report: SituationReport, log: tuple[OperationMessage, ...]
    ) -> FailureAnalysis | None:
        """Why it does not get further (S1-38); None when no model could say, which is shown."""
        try:
            return await self._services.analyze_execution_failure(execution(log), report.missing)
        except (LlmError, Unreadable) as error:
            self._parts.notices.warn("judging.no_analysis", reason=one_line(str(error), 200))
            return None
