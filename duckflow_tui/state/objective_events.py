"""Events of the objective: its requirements, their reviews, and further attempts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.event_base import BaseEvent, StateError
from duckflow_tui.state.messages import AttemptMessage, ReviewMessage
from duckflow_tui.state.objective import (
    AttemptResult,
    RequirementItem,
    RequirementState,
    TaskObjective,
)


class ObjectiveChanged(BaseEvent):
    """The objective was opened, continued, or closed with None. No requirement of it is lost:
    only the user waives one, and what was not done when another took its place is kept as an
    earlier one, until the user comes back to it.
    """

    kind: Literal["objective"] = "objective"
    objective: TaskObjective | None

    def apply(self, state: AgentState) -> None:
        old, new = state.objective, self.objective
        if old is not None and new is not None and old.objective_id == new.objective_id:
            kept = {item.requirement_id for item in new.extracted_requirements}
            lost = [r for r in old.extracted_requirements if r.requirement_id not in kept]
            if lost:
                raise StateError(f"requirement {lost[0].requirement_id} would be dropped")
        else:
            state.last_review = None
            state.earlier = _earlier(state, old, new)
        state.objective = new


class RequirementsFound(BaseEvent):
    """The model split the request into requirements; they join what is there."""

    kind: Literal["requirements_found"] = "requirements_found"
    objective_id: str
    items: tuple[RequirementItem, ...] = Field(min_length=1)

    def apply(self, state: AgentState) -> None:
        objective = _objective(state)
        if objective.objective_id != self.objective_id:
            raise StateError(f"objective {self.objective_id} is not the one in hand")
        items = (*objective.extracted_requirements, *self.items)
        if len({item.requirement_id for item in items}) != len(items):
            raise StateError("two requirements have the same id")
        if any(item.state is not RequirementState.OPEN for item in self.items):
            raise StateError("a new requirement is open")
        state.objective = objective.model_copy(update={"extracted_requirements": items})


class RequirementEdited(BaseEvent):
    """The user added or rewrote a requirement; what it showed before counts no more."""

    kind: Literal["requirement_edited"] = "requirement_edited"
    item: RequirementItem

    def apply(self, state: AgentState) -> None:
        objective = _objective(state)
        old = objective.requirement(self.item.requirement_id)
        same = old is not None and (old.requirement, old.check) == (
            self.item.requirement,
            self.item.check,
        )
        by_user = old.by_user if old is not None and same else True
        new = self.item.model_copy(update={"by_user": by_user})
        if old is None:
            items = (*objective.extracted_requirements, new)
            state.objective = objective.model_copy(update={"extracted_requirements": items})
            return
        if not same:
            blank = {"state": RequirementState.OPEN, "satisfaction_level": 0.0, "evidence": ()}
            new = new.model_copy(update=blank)
        state.objective = objective.with_requirement(new)


class RequirementWaived(BaseEvent):
    """The user does not want a requirement any more, or wants it back."""

    kind: Literal["requirement_waived"] = "requirement_waived"
    requirement_id: str
    because: str = ""
    waived: bool = True

    def apply(self, state: AgentState) -> None:
        objective = _objective(state)
        item = objective.requirement(self.requirement_id)
        if item is None:
            raise StateError(f"there is no requirement {self.requirement_id}")
        new = RequirementState.WAIVED if self.waived else RequirementState.OPEN
        state.objective = objective.with_requirement(
            item.model_copy(update={"state": new, "waived_because": self.because})
        )


class ObjectiveReviewed(BaseEvent):
    """An attempt was judged. Of the requirements only state, level and evidence change."""

    kind: Literal["objective_reviewed"] = "objective_reviewed"
    message: ReviewMessage
    result: AttemptResult

    def apply(self, state: AgentState) -> None:
        objective = _objective(state)
        review = self.message.review
        for judged in review.items:
            item = objective.requirement(judged.requirement_id)
            if item is None or not item.counts:
                continue  # the user changed the ledger while it was judged
            if (item.requirement, item.check) != (judged.requirement, judged.check):
                continue
            objective = objective.with_requirement(
                item.model_copy(
                    update={
                        "state": judged.state,
                        "satisfaction_level": judged.satisfaction_level,
                        "evidence": judged.evidence,
                    }
                )
            )
        learned = (*objective.learned_constraints, *self.result.lessons_learned)
        tried = (*objective.attempted_strategies, self.result.strategy)
        state.objective = objective.model_copy(
            update={
                "iteration_count": objective.iteration_count + 1,
                "current_satisfaction": review.score,
                "attempts": (*objective.attempts, self.result),
                "accumulated_results": (*objective.accumulated_results, *self.result.results),
                "learned_constraints": tuple(dict.fromkeys(learned)),
                "attempted_strategies": tuple(dict.fromkeys(s for s in tried if s)),
            }
        )
        state.last_review = review
        state.messages.append(self.message)


class AttemptStarted(BaseEvent):
    """A further attempt at the objective begins within the turn."""

    kind: Literal["attempt_started"] = "attempt_started"
    message: AttemptMessage

    def apply(self, state: AgentState) -> None:
        if state.turn is None:
            raise StateError("no turn runs")
        state.turn = state.turn.model_copy(
            update={
                "attempt": self.message.attempt,
                "max_attempts": self.message.max_attempts,
                "loop": 0,
            }
        )
        state.messages.append(self.message)


def _earlier(
    state: AgentState, old: TaskObjective | None, new: TaskObjective | None
) -> tuple[TaskObjective, ...]:
    """The requests that were left, once ``new`` is in the place of ``old``."""
    rest = tuple(o for o in state.earlier if new is None or o.objective_id != new.objective_id)
    if new is not None and len(rest) < len(state.earlier):  # again, in the place of one just opened
        words = {r.requirement for r in new.extracted_requirements}
        lost = [r for r in old.extracted_requirements if r.requirement not in words] if old else []
        if lost:
            raise StateError(f"requirement {lost[0].requirement_id} would be dropped")
        return rest
    last = state.last_turn
    if old is None or last is None or last.outcome == "done":
        return rest
    return (*rest, old.model_copy(update={"left": last.outcome}))


def _objective(state: AgentState) -> TaskObjective:
    if state.objective is None:
        raise StateError("there is no objective")
    return state.objective
