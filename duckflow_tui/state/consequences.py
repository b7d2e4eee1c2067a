"""The consequences of each answer to a card about the work (S0-56): carried out by the app, and
shown beside the option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from duckflow_tui.state.gates import TELL, Card, CardKind
from duckflow_tui.state.pace import MORE_LOOPS, Pattern

Next = Literal[
    "goes_on",
    "stopped",  # the request stays open
    "waits",  # for the user's next message
    "accepted",  # the request is closed; of a step: the step is done
    "cancelled",  # the request is closed
    "new_round",  # as many attempts as the first time; limit and stamina begin anew
    "asks_again",
]

#: ``words``: the user's words reach the model and whoever splits the request into requirements;
#: ``first``: they name the requirement that comes before all others; ``added``: they become one.
LedgerChange = Literal["", "words", "first", "added"]

#: ``halted``: no step of the plan begins until the user says so; ``step_done``: halted behind
#: this step; ``proposed``, ``revised``: by the model, for the user's approval.
PlanChange = Literal["", "halted", "step_done", "proposed", "revised"]


@dataclass(frozen=True, slots=True)
class Consequence:
    """The consequence of one answer. ``loops`` are added to the limit, which also restores stamina;
    ``forgives`` clears the count of repeats.
    """

    next: Next = "goes_on"
    ledger: LedgerChange = ""
    plan: PlanChange = ""
    loops: int = 0
    forgives: bool = True


_AS_BEFORE: Final = Consequence(forgives=False)
_WORDS: Final = Consequence(ledger="words")
_ANOTHER_WAY: Final = Consequence()

_CONSULTATION: Final[Mapping[str, Consequence]] = {
    "stop_work": Consequence("stopped"),
    "more_info": _WORDS,
    "keep_going": _AS_BEFORE,
    "other_approach": _ANOTHER_WAY,
    "detailed_requirements": _WORDS,
    "split": Consequence(plan="proposed"),
    "other_source": _ANOTHER_WAY,
    "keep_approach": _AS_BEFORE,
    "top_requirement": Consequence(ledger="first"),
    "start_over": _ANOTHER_WAY,
    "tidy_results": _ANOTHER_WAY,
    "other_angle": _ANOTHER_WAY,
    "accept_result": Consequence("accepted"),
    "analyse": Consequence("waits"),
    "simplify": Consequence(ledger="added"),
    "different_approach": _ANOTHER_WAY,
    "more_loops": Consequence(loops=MORE_LOOPS, forgives=False),
    "tell": _WORDS,
}

#: Of a card that belongs to a step of a plan.
_IN_STEP: Final[Mapping[str, Consequence]] = {
    "stop_work": Consequence("stopped", plan="halted"),
    "split": Consequence("stopped", plan="revised"),
    "accept_result": Consequence("accepted", plan="step_done"),
    "analyse": Consequence("waits", plan="halted"),
}

_TABLE: Final[Mapping[CardKind, Mapping[str, Consequence]]] = {
    CardKind.CONSULTATION: _CONSULTATION,
    CardKind.ESCALATION: {
        "instructions": Consequence("new_round", ledger="words"),
        "alternative": Consequence("new_round"),
        "accept_partial": Consequence("accepted"),
        "assistance": Consequence("asks_again"),
        "cancel": Consequence("cancelled"),
        "tell": Consequence("new_round", ledger="words"),
    },
    CardKind.BUDGET: {
        "raise_budget": Consequence(),
        "accept_result": Consequence("accepted"),
        "stop_work": Consequence("stopped"),
        "tell": Consequence("asks_again", ledger="words"),
    },
}


def find_consequence(card: Card, action: str) -> Consequence:
    """Return the consequence of an answer to a card about the work."""
    found = _TABLE[card.kind][action]
    if card.kind is CardKind.CONSULTATION and card.step_id:
        found = _IN_STEP.get(action, found)
    at_limit = card.situation is not None and card.situation.pattern is Pattern.LIMIT
    if at_limit and action == TELL.action:  # words on how to go on are a yes to going on
        return replace(found, loops=MORE_LOOPS)
    return found
