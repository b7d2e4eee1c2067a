"""Node 1 of an attempt: what the user asks for, as requirements that can be checked (S1-24)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from duckflow_tui.goals.attempts import first_plan
from duckflow_tui.goals.profiles import goes_on
from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.state.base import StateError, Told, one_line
from duckflow_tui.state.conversation import AssistantMessage, UserMessage
from duckflow_tui.state.decision import Check, NextStep, RequirementClaim, TaskProfile, TurnDecision
from duckflow_tui.state.goal import (
    ObjectiveChanged,
    RequirementEdited,
    RequirementItem,
    RequirementsFound,
    RequirementWaived,
    TaskObjective,
    UnderstandingResult,
)

if TYPE_CHECKING:
    from duckflow_tui.agent.parts import TurnParts
    from duckflow_tui.goals.questions import LLMServices
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.state.store import Store
    from duckflow_tui.state.turn import Belongs

#: Requests that are answered, not worked on; they are never reviewed and cost no call.
TALK: Final = (TaskProfile.SIMPLE_QUESTION, TaskProfile.GENERAL_CHAT)


MAX_NEW: Final = 30  # requirements that one decision may bring


class Understanding:
    """One for a turn."""

    def __init__(self, parts: TurnParts, services: LLMServices) -> None:
        self._parts = parts
        self._store = parts.store
        self._services = services
        self._done = False

    async def take(self, decision: TurnDecision) -> UnderstandingResult | None:
        """Take the requirements of the turn's first decision into the ledger (S1-26).

        A call is made only for a task whose first decision brought none. None where there is no
        objective, and on every further decision.
        """
        objective = self._store.state.objective
        if self._done or objective is None:
            return None
        self._done = True
        if objective.iteration_count:  # of an earlier turn: the user's new word, new attempts
            most = objective.iteration_count + self._parts.limits.max_attempts
            objective = objective.model_copy(update={"max_iterations": most})
            self._store.dispatch(ObjectiveChanged(objective=objective))
        claims = decision.requirements
        waits = decision.next_step in (NextStep.PENDING_USER, NextStep.DEFER)
        none_yet = not (claims or objective.extracted_requirements)
        if none_yet and self._is_task(decision) and not waits:
            claims = await self._extracted(objective)
        found, items = new_items(objective, claims)
        if found > len(items):
            kept = str(len(items))
            self._parts.notices.warn("judging.many", found=str(found), kept=kept)
        if items:
            await self._store.commit(
                RequirementsFound(objective_id=objective.objective_id, items=items)
            )
        plan = first_plan(self._store.state, decision.rationale)
        now = self._store.state.objective
        return UnderstandingResult(execution_plan=plan, task_objective=now or objective)

    def is_done(self) -> None:
        """What the turn's first decision says was taken already."""
        self._done = True

    def _is_task(self, decision: TurnDecision) -> bool:
        state = self._store.state
        if only_talk(decision):
            return False
        stated = state.objective.profile if state.objective else None
        profile = state.profile_choice or stated or decision.task_profile
        return profile is not None and profile not in TALK

    async def _extracted(self, objective: TaskObjective) -> tuple[RequirementClaim, ...]:
        try:
            return await self._services.extract_task_requirements(objective.original_query)
        except (LlmError, Unreadable) as error:
            self._parts.notices.warn("judging.no_requirements", reason=one_line(str(error), 200))
            return ()


def new_items(
    objective: TaskObjective, claims: Sequence[RequirementClaim]
) -> tuple[int, tuple[RequirementItem, ...]]:
    """How many claims are not on the ledger yet, and the first ``MAX_NEW`` of them under ids of
    their own. A decision may bring many thousands.
    """
    known = {_plain(item.requirement) for item in objective.extracted_requirements}
    found: dict[str, RequirementClaim] = {}
    for claim in claims:
        if (plain := _plain(claim.requirement)) not in known:
            found.setdefault(plain, claim)
    taken = {item.requirement_id for item in objective.extracted_requirements}
    items: list[RequirementItem] = []
    for claim in list(found.values())[:MAX_NEW]:
        item = RequirementItem(
            requirement_id=next_id(taken),
            requirement=claim.requirement,
            priority=claim.priority,
            check=claim.check,
        )
        taken.add(item.requirement_id)
        items.append(item)
    return len(found), tuple(items)


def only_talk(decision: TurnDecision) -> bool:
    """Whether the model calls it talk and asks for nothing to be done."""
    return decision.task_profile in TALK and not decision.actions


def next_id(taken: set[str]) -> str:
    """The first of r1, r2 … that is free."""
    number = 1
    while f"r{number}" in taken:
        number += 1
    return f"r{number}"


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


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


class LedgerKeys:
    """Each method returns what is in the way, or nothing. Priorities are 1 to 3."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, text: str, priority: int = 1, check: Check | None = None) -> Told | None:
        """A requirement of the user's own; it counts from now on."""
        objective = self._store.state.objective
        if objective is None:
            return _told("no_request")
        taken = {item.requirement_id for item in objective.extracted_requirements}
        return self._put(next_id(taken), text, priority, check or Check(), None)

    def edit(
        self,
        requirement_id: str,
        text: str | None = None,
        priority: int | None = None,
        check: Check | None = None,
    ) -> Told | None:
        """Other words, another priority or another check; None leaves a field as it is."""
        item = self._item(requirement_id)
        if item is None:
            return self._nowhere(requirement_id)
        return self._put(
            requirement_id,
            item.requirement if text is None else text,
            item.priority if priority is None else priority,
            item.check if check is None else check,
            item,
        )

    def waive(self, requirement_id: str, because: str = "") -> Told | None:
        """Drop it: it stays on the list and counts no more."""
        return self._waived(requirement_id, waived=True, because=one_line(because, 200))

    def restore(self, requirement_id: str) -> Told | None:
        """Take a dropped one back; it is open again."""
        item = self._item(requirement_id)
        if item is not None and item.counts:
            return _told("not_waived", id=requirement_id)
        return self._waived(requirement_id, waived=False)

    def _put(
        self, key: str, text: str, priority: int, check: Check, old: RequirementItem | None
    ) -> Told | None:
        if not text.strip():
            return _told("no_words")
        if priority not in (1, 2, 3):
            return _told("priority")
        if check.kind != "judgement" and not check.value.strip():
            return _told("no_value")
        fields = {"requirement": text.strip(), "priority": priority, "check": check}
        item = (
            RequirementItem(
                requirement_id=key, requirement=text.strip(), priority=priority, check=check
            )
            if old is None
            else old.model_copy(update=fields)
        )
        return self._tried(RequirementEdited(item=item))

    def _waived(self, key: str, *, waived: bool, because: str = "") -> Told | None:
        if self._item(key) is None:
            return self._nowhere(key)
        return self._tried(RequirementWaived(requirement_id=key, because=because, waived=waived))

    def _item(self, key: str) -> RequirementItem | None:
        objective = self._store.state.objective
        return objective.requirement(key) if objective is not None else None

    def _nowhere(self, key: str) -> Told | None:
        if self._store.state.objective is None:
            return _told("no_request")
        return _told("not_there", id=one_line(key, 40))

    def _tried(self, event: RequirementEdited | RequirementWaived) -> Told | None:
        try:
            self._store.dispatch(event)
        except StateError:
            return _told("not_now")
        return None


def _told(code: str, **params: str) -> Told:
    return Told(key=f"ledger.problem.{code}", params=params)
