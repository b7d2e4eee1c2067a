"""Which question is the user's to answer now, and whether another may follow it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, UserMessage
from duckflow_tui.state.gates import Card, Gate
from duckflow_tui.state.plan import ReportMessage
from duckflow_tui.ui.panes.card_words import step_number
from duckflow_tui.words.catalogue import Catalogue

_TALK: Final = (AssistantMessage, ReportMessage, UserMessage)


def oldest(state: AgentState, seen: Sequence[Gate], asked: Card | None) -> Gate | Card | None:
    """The open gate or card to show: the one on the screen while it is open, else the oldest.

    ``seen`` and ``asked`` are what is on the screen.
    """
    for card in state.cards:
        if asked is not None and card.card_id == asked.card_id:
            return card
    if seen and any(gate.gate_id == seen[0].gate_id for gate in state.gates):
        return state.gates[0]
    return min((*state.gates, *state.cards), key=lambda q: q.opened_at, default=None)


class Unheard:
    """Whether something was said since a question opened, or since the user turned to it last."""

    def __init__(self) -> None:
        self._question = ""
        self._count = 0  # messages there are
        self._mark = 0  # messages there were then

    def look(self, state: AgentState, question: str) -> bool:
        """``question`` is the id of the open one, empty for none."""
        self._count = len(state.messages)
        if question != self._question:
            self._question, self._mark = question, self._count
        said = any(isinstance(m, _TALK) for m in state.messages[self._mark :])
        return bool(question) and (said or any(live.aside for live in state.live.values()))

    def heard(self) -> None:
        """The user has seen the chat and turns to the question."""
        self._mark = self._count


def step_words(gate: Gate, state: AgentState, words: Catalogue) -> str:
    """``step 2``: which step of the plan asks; empty where none does."""
    number = step_number(state.active_plan, gate.step_id) if gate.step_id else "?"
    return "" if number == "?" else words("plan.step_number", number=number)


def may_ask_again(state: AgentState) -> bool:
    """Whether the reply at hand may still open a gate: a call of it runs or is yet to begin."""
    if state.turn is None or state.turn.pause != "running" or state.live:
        return False
    if state.running:
        return True
    ended: set[str] = set()
    for message in reversed(state.messages):
        if isinstance(message, OperationMessage):
            ended.add(message.call_id)
        elif isinstance(message, AssistantMessage):
            actions = message.decision.actions if message.decision is not None else ()
            return any(action.call_id not in ended for action in actions)
    return False
