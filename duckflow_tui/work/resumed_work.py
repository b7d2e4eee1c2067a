"""Finds in the recorded conversation the work that an earlier process left unfinished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, UserMessage
from duckflow_tui.state.decision import Action, TurnDecision
from duckflow_tui.state.gates import CardKind
from duckflow_tui.state.goal import Review, ReviewMessage, SituationReport
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan import ReportMessage
from duckflow_tui.state.turn import Interrupted, TurnInfo


@dataclass(frozen=True, slots=True)
class Rest:
    """The remaining actions of a decision, those without a result. ``skip``: the outcome of an
    earlier call because of which none of them may run.
    """

    decision: TurnDecision
    actions: tuple[Action, ...]
    skip: Outcome | None = None


def find_rest(state: AgentState, step_id: str = "") -> Rest | None:
    """Find the calls of the running turn's newest decision that have no result yet, or, with
    ``step_id``, of the newest decision of its steps. None if there are none.
    """
    if state.turn is None:
        return None
    since = find_turn_start(state, state.turn)
    results: dict[str, OperationMessage] = {}
    for message in reversed(state.messages[since:]):
        if isinstance(message, OperationMessage):
            results[message.call_id] = message
        if not isinstance(message, AssistantMessage) or message.aside:
            continue
        if bool(message.step_id) != bool(step_id):
            continue
        asked = (
            state.interrupted.get_waiting_card(CardKind.QUESTION, step_id)
            if state.interrupted
            else None
        )
        if asked is not None and message.decision is not None:
            return Rest(message.decision, ())  # repeat its question
        return _list_unanswered(message.decision, results)
    return None


def _list_unanswered(
    decision: TurnDecision | None, results: Mapping[str, OperationMessage]
) -> Rest | None:
    """Return the actions of a decision without results; None if there are none."""
    if decision is None or decision.refused_by_itself:
        return None
    rest = tuple(action for action in decision.actions if action.call_id not in results)
    if not rest:
        return None
    known = [results[a.call_id] for a in decision.actions if a.call_id in results]
    found = [m.result.outcome for m in known if not is_left_out(m)]
    skips = (o for o in found if o.is_refused or o is Outcome.STOPPED)
    return Rest(decision, rest, next(skips, None))


def is_left_out(message: OperationMessage) -> bool:
    """Whether the user excluded this call while approving several at once; the others still run."""
    rejected = message.result.outcome is Outcome.REJECTED
    return rejected and message.answer is not None and message.answer.is_approval


def list_decisions(state: AgentState) -> list[TurnDecision]:
    """List the decisions of the running turn, without those of steps and of answers beside the
    work.
    """
    if state.turn is None:
        return []
    return [
        message.decision
        for message in state.messages[find_turn_start(state, state.turn) :]
        if isinstance(message, AssistantMessage)
        and message.decision is not None
        and not message.step_id
        and not message.aside
    ]


def find_turn_start(state: AgentState, turn: TurnInfo) -> int:
    """Return the index of the turn's first message after the user's message; if that is missing,
    the end of the previous turn.
    """
    last = state.last_turn.messages if state.last_turn is not None else 0
    for index in range(len(state.messages) - 1, last - 1, -1):
        message = state.messages[index]
        if isinstance(message, UserMessage) and message.message_id == turn.message_id:
            return index + 1
    return last


def find_unanswered_message(state: AgentState) -> UserMessage | None:
    """Find the user's newest message for which no turn was started; None while a turn runs."""
    if state.turn is not None:
        return None
    since = state.last_turn.messages if state.last_turn is not None else 0
    for message in reversed(state.messages[since:]):
        if isinstance(message, UserMessage) and not (message.aside or message.step_id):
            return message
    return None


def find_turn_message(state: AgentState, turn: TurnInfo) -> UserMessage:
    """Return the message that a turn works on; an empty message if it is missing."""
    for message in reversed(state.messages):
        if isinstance(message, UserMessage) and message.message_id == turn.message_id:
            return message
    return UserMessage(message_id=turn.message_id, text="", at=turn.started_at)


def find_interruption(state: AgentState, step_id: str) -> Interrupted | None:
    """Return the interruption if it happened during this step, else None."""
    found = state.interrupted
    at = found is not None and found.work is not None and found.work.step_id == step_id
    return found if at else None


def find_escalation(state: AgentState) -> tuple[Review, SituationReport] | None:
    """Return the newest review and its report, if the user's answer to it was pending."""
    before = state.interrupted
    card = before.get_waiting_card(CardKind.ESCALATION) if before is not None else None
    reviews = (m.review for m in reversed(state.messages) if isinstance(m, ReviewMessage))
    review = next(reviews, None)
    if card is None or card.escalation is None or review is None or state.objective is None:
        return None
    return review, card.escalation


def collect_step_log(state: AgentState, step_id: str) -> list[OperationMessage]:
    """Return the calls of the interrupted run of a step, oldest first."""
    found: list[OperationMessage] = []
    for message in reversed(state.messages):
        if isinstance(message, ReportMessage) and message.report.step_id == step_id:
            break
        if isinstance(message, OperationMessage) and message.step_id == step_id:
            found.append(message)
    return found[::-1]
