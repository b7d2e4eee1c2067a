"""What a message is to the request in hand, before a model has read it."""

from __future__ import annotations

from typing import Any

import pytest
from support.conversations import assistant, user

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.conversation import Message, UserMessage
from duckflow_tui.state.decision import NextStep, TurnDecision
from duckflow_tui.state.goal import TaskObjective
from duckflow_tui.state.turn import TurnSummary
from duckflow_tui.work.requirements import relate_message


def after(*messages: Message, outcome: Any = "partial", closed: bool = False) -> AgentState:
    """A session whose last turn ended behind these messages."""
    state = AgentState()
    state.objective = TaskObjective(
        objective_id="o", original_query=" mend it\n", created_at=1.0, closed=closed
    )
    state.messages += messages
    state.last_turn = TurnSummary(turn_id="t", outcome=outcome, messages=len(messages))
    return state


def said(text: str, number: int = 9) -> UserMessage:
    return user(text, number)


def reply(step: NextStep, **fields: Any) -> Message:
    return assistant("?", 1, decision=TurnDecision(decision_id="d", next_step=step), **fields)


def test_without_a_request_that_is_open_every_message_is_a_new_one() -> None:
    state = after()
    assert relate_message(state, said("go on")) == "guessed_new"
    state.objective = None
    assert relate_message(state, said("go on")) == "new"
    state = after()
    state.last_turn = None
    assert relate_message(state, said("go on")) == "new"
    assert relate_message(after(outcome="done"), said("go on")) == "new"
    assert relate_message(after(closed=True), said("go on")) == "new"


def test_the_same_message_and_the_same_words_are_the_request_in_hand() -> None:
    state = after(user("another", 3))
    assert relate_message(state, said("another", 3)) == "same"
    assert relate_message(state, said("another", 4)) == "guessed_new"
    assert relate_message(state, said("mend it ")) == "same"
    state.messages.append(user("later", 5))  # behind the end of the turn
    assert relate_message(state, said("later", 5)) == "guessed_new"


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ((reply(NextStep.PENDING_USER),), "guessed_same"),
        ((reply(NextStep.DONE),), "guessed_new"),
        ((assistant("no decision", 1),), "guessed_new"),
        ((reply(NextStep.PENDING_USER), user("x", 1)), "guessed_same"),
        ((reply(NextStep.PENDING_USER), reply(NextStep.DONE)), "guessed_new"),
        ((reply(NextStep.PENDING_USER), reply(NextStep.DONE, aside=True)), "guessed_same"),
        ((reply(NextStep.PENDING_USER), reply(NextStep.DONE, step_id="s")), "guessed_same"),
        ((reply(NextStep.DONE), reply(NextStep.PENDING_USER, aside=True)), "guessed_new"),
    ],
)
def test_an_answer_to_what_the_model_asked_last_is_taken_for_one(
    messages: tuple[Message, ...], found: str
) -> None:
    assert relate_message(after(*messages), said("the second one")) == found
