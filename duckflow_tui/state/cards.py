"""Cards: questions that are not about one call; a key of the user answers, and it is recorded."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import Field

from duckflow_tui.state.base import Frozen
from duckflow_tui.state.objective import SituationReport
from duckflow_tui.state.pace import Pattern, Situation
from duckflow_tui.state.work import Plan, PlanChange, StepReport


class CardKind(StrEnum):
    """What a card is about."""

    PLAN = "plan"  # a plan waits for approval
    PLAN_CHANGE = "plan_change"  # the model would change an approved plan
    REPORT = "report"  # a step ended and the user chooses how to go on
    BREAKPOINT = "breakpoint"  # the user wanted to be asked before this step
    CONSULTATION = "consultation"  # the work is stuck, or at its limit
    ESCALATION = "escalation"  # the attempts are used up and something is still missing
    BUDGET = "budget"  # the next call would go past a hard limit


class CardOption(Frozen):
    """One way to answer. The words are the screen's, by kind and action, unless ``label`` has
    words of the model, which are labelled as such.
    """

    key: str  # the letter or digit that takes it; the same action has the same key everywhere
    action: str
    label: str = ""
    takes_text: bool = False  # a reason or an instruction may go with it


class Card(Frozen):
    """A question to the user. ``subject`` is what the answer is bound to, as shown."""

    card_id: str
    kind: CardKind
    subject: str  # a plan's fingerprint, the id of a change, a report, a step or the card itself
    options: tuple[CardOption, ...]
    plan_id: str = ""
    step_id: str = ""
    change: PlanChange | None = None  # of PLAN_CHANGE
    before: Plan | None = None  # of PLAN: the plan as the last card showed it
    report: StepReport | None = None
    situation: Situation | None = None  # of CONSULTATION
    escalation: SituationReport | None = None  # of ESCALATION
    facts: dict[str, str] = Field(default_factory=dict)  # figures the words need
    opened_at: float  # seconds since the epoch


class CardAnswer(Frozen):
    """The user's key, bound to the card and to what it showed."""

    card_id: str
    subject: str
    action: str
    text: str = ""


#: Options by card. Digits and letters keep their meaning over all cards.
RUN_ALL = CardOption(key="y", action="run_all")
RUN_STEPS = CardOption(key="o", action="run_steps")
EDIT_PLAN = CardOption(key="e", action="edit")
REJECT = CardOption(key="n", action="reject", takes_text=True)
ACCEPT = CardOption(key="y", action="accept")
GO_ON = CardOption(key="y", action="go_on")
RETRY = CardOption(key="r", action="retry", takes_text=True)
SKIP = CardOption(key="k", action="skip")
STOP = CardOption(key="n", action="stop")
SUGGESTED = CardOption(key="1", action="suggested")  # what the model would do next
TELL = CardOption(key="m", action="tell", takes_text=True)  # the user's own words


def _numbered(*actions: str, text: frozenset[str] = frozenset()) -> tuple[CardOption, ...]:
    """Options on the digits, in this order, and the user's own words behind them."""
    digits = tuple(
        CardOption(key=str(number), action=action, takes_text=action in text)
        for number, action in enumerate(actions, start=1)
    )
    return (*digits, TELL)


#: What the user may answer to a consultation; each has another effect (S0-39…42).
CONSULTATION_OPTIONS: Final[dict[Pattern, tuple[CardOption, ...]]] = {
    Pattern.STAGNATION: _numbered(
        "stop_work", "more_info", "keep_going", "other_approach", text=frozenset({"more_info"})
    ),
    Pattern.LOW_CONFIDENCE: _numbered(
        "detailed_requirements",
        "split",
        "other_source",
        "keep_approach",
        text=frozenset({"detailed_requirements"}),
    ),
    Pattern.CONFUSION: _numbered(
        "top_requirement",
        "start_over",
        "tidy_results",
        "other_angle",
        text=frozenset({"top_requirement"}),
    ),
    Pattern.TOO_MANY_TRIES: _numbered(
        "accept_result",
        "analyse",
        "simplify",
        "different_approach",
        text=frozenset({"simplify"}),
    ),
    Pattern.LIMIT: _numbered("more_loops", "accept_result", "analyse", "stop_work"),
}

#: What the user may answer when the attempts are used up (S1-34…39).
ESCALATION_OPTIONS: Final = _numbered(
    "instructions",
    "alternative",
    "accept_partial",
    "assistance",
    "cancel",
    text=frozenset({"instructions"}),
)

#: What the user may answer when a hard limit refused a call.
BUDGET_OPTIONS: Final = _numbered("raise_budget", "accept_result", "stop_work")
