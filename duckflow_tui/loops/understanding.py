"""Node 1 of an attempt: what the user asks for, as requirements that can be checked (S1-24)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.loops.continuation import first_plan
from duckflow_tui.loops.llm_services import LLMServices
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.questions import Unreadable
from duckflow_tui.state.base import one_line
from duckflow_tui.state.decision import NextStep, RequirementClaim, TaskProfile, TurnDecision
from duckflow_tui.state.events import ObjectiveChanged, RequirementsFound
from duckflow_tui.state.objective import RequirementItem, TaskObjective, UnderstandingResult

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
