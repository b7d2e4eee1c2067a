"""Which request a message belongs to: another one, or the one before that was not finished."""

from __future__ import annotations

from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.understanding import next_id
from duckflow_tui.pacing.continuing import goes_on
from duckflow_tui.state.agent import AgentState, Belongs
from duckflow_tui.state.decision import NextStep, TurnDecision
from duckflow_tui.state.events import ObjectiveChanged
from duckflow_tui.state.messages import AssistantMessage, UserMessage
from duckflow_tui.state.objective import RequirementItem, TaskObjective


def belongs(state: AgentState, message: UserMessage) -> Belongs:
    """What the message is to the request in hand, before a turn begins with it.

    Work that was tried again, or a plan's, goes on with it, and so do the user's own words for
    that. An answer to what the model asked is taken for one, anything else for another request,
    until the model's first decision says it.
    """
    old, last = state.objective, state.last_turn
    if old is None or last is None or last.outcome == "done" or old.closed:
        return "new"
    before = state.messages[: last.messages]
    again = any(isinstance(m, UserMessage) and m.message_id == message.message_id for m in before)
    words = goes_on(message.text)
    if again or words == "all" or message.text.strip() == old.original_query.strip():
        return "same"
    return "guessed_same" if words == "begins" or _asked(state) else "guessed_new"


class RequestInHand:
    """Belongs to one turn."""

    def __init__(self, parts: TurnParts, message: UserMessage) -> None:
        self._parts = parts
        self._store = parts.store
        self._message = message
        self._heard = False

    def open(self) -> None:
        """The message is a request of its own; one that was not done is kept as an earlier one."""
        self._store.dispatch(
            ObjectiveChanged(
                objective=TaskObjective(
                    objective_id=self._parts.ids("obj"),
                    original_query=self._message.text,
                    created_at=self._message.at,
                    max_iterations=self._parts.limits.max_attempts,
                )
            )
        )

    def hear(self, decision: TurnDecision) -> bool:
        """Take what the turn's first decision says; returns whether another one was opened."""
        turn, now = self._store.state.turn, self._store.state.objective
        if self._heard or turn is None or now is None:
            return False
        self._heard = True
        opened = now.created_at == self._message.at  # by this message; a resumed turn may ask twice
        if turn.request == "guessed_same" and decision.continues is False and not opened:
            self.open()
            return True
        earlier = self._store.state.earlier
        if turn.request == "guessed_new" and decision.continues and opened and earlier:
            self._take_up(earlier[-1], now)
        return False

    def _take_up(self, earlier: TaskObjective, opened: TaskObjective) -> None:
        """Back to the earlier one, with what the user noted in the one just opened."""
        items = list(earlier.extracted_requirements)
        for item in opened.extracted_requirements:
            taken = {known.requirement_id for known in items}
            items.append(_renamed(item, next_id(taken)))
        back = earlier.model_copy(update={"left": None, "extracted_requirements": tuple(items)})
        self._store.dispatch(ObjectiveChanged(objective=back))


def _renamed(item: RequirementItem, requirement_id: str) -> RequirementItem:
    return item.model_copy(update={"requirement_id": requirement_id})


def _asked(state: AgentState) -> bool:
    """Whether the last turn ended with a question of the model."""
    last = state.last_turn
    replies = (
        m.decision
        for m in reversed(state.messages[: last.messages if last else 0])
        if isinstance(m, AssistantMessage) and not m.aside and not m.step_id
    )
    decision = next(replies, None)
    return decision is not None and decision.next_step is NextStep.PENDING_USER
