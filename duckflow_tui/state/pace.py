"""The limit of loops, the vitals, and consultations when the work is stuck (S0)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from duckflow_tui.state.base import Event, Frozen, StateError

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState


MORE_LOOPS: Final = 5  # that one key or command allows


class TaskProfile(StrEnum):
    """The nine kinds of request (S0-13…21)."""

    SIMPLE_QUESTION = "SIMPLE_QUESTION"
    CODE_ANALYSIS = "CODE_ANALYSIS"
    FILE_OPERATION = "FILE_OPERATION"
    COMPLEX_REASONING = "COMPLEX_REASONING"
    MULTI_STEP_TASK = "MULTI_STEP_TASK"
    GENERAL_CHAT = "GENERAL_CHAT"
    CREATIVE_WRITING = "CREATIVE_WRITING"
    DEBUGGING = "DEBUGGING"
    RESEARCH = "RESEARCH"


class Reason(Frozen):
    """A reason to show: a key of the catalogue below ``pace.reason`` and its figures."""

    code: str
    params: dict[str, str] = Field(default_factory=dict)


class Complexity(Frozen):
    """How complex the context is, 0.0 to 1.0, as the mean of its factors (S0-23…26).

    A factor that could not be measured is None; where all are, the value is the default.
    """

    value: float = Field(ge=0.0, le=1.0)
    files: float | None = Field(default=None, ge=0.0, le=1.0)
    history: float | None = Field(default=None, ge=0.0, le=1.0)
    errors: float | None = Field(default=None, ge=0.0, le=1.0)


class LoopLimit(Frozen):
    """How many model decisions an attempt may take, and why (S0-29, S0-30)."""

    max_loops: int = Field(ge=1)
    profile: TaskProfile | None = None  # None: unknown
    chosen_by: Literal["model", "user"] = "model"
    base_loops: int = 0  # 0: a fallback
    vitals_score: float = 0.0
    vitals_factor: float = 1.0
    complexity: Complexity | None = None
    complexity_factor: float = 1.0
    mood: float = 0.0  # what the score was made of
    focus: float = 0.0
    stamina: float = 0.0
    lowest: int = 3  # the range it is kept in
    highest: int = 20
    extended: int = Field(default=0, ge=0)  # loops that were added; max_loops holds them already
    grown: int = Field(default=0, ge=0)  # of these, those nobody added: the work moved
    fallback: bool = False
    reasoning: tuple[Reason, ...] = ()


class Pattern(StrEnum):
    """The situation in which the user is consulted (S0-39…42), or the limit itself."""

    STAGNATION = "stagnation"
    LOW_CONFIDENCE = "low_confidence"
    CONFUSION = "confusion"
    TOO_MANY_TRIES = "too_many_tries"
    LIMIT = "limit"


class Tried(Frozen):
    """One thing that was tried, in words, with its place in the chat."""

    text: str
    ref: str = ""  # call id or message id
    went_well: bool = False
    times: int = Field(default=1, ge=1)
    back: bool = False  # it brought back what a file held before


class Situation(Frozen):
    """The content of a consultation, without figures except the loop (S0-38)."""

    pattern: Pattern
    cause: Reason  # what set it off: a key below ``consult.cause``
    loop: int = Field(ge=0)
    limit: int = Field(ge=1)
    tried: tuple[Tried, ...] = ()
    tried_before: int = Field(default=0, ge=0)  # further ones, older than those of ``tried``
    achieved: tuple[str, ...] = ()  # what was reached so far
    achieved_more: int = Field(default=0, ge=0)  # further ones
    read: int = Field(default=0, ge=0)  # files and other places that were looked at
    hypothesis: Reason | None = None  # a key below ``consult.hypothesis``, from the signals
    hypothesis_said: str = ""  # the model's own words on it, where it gave any


class Pace(Frozen):
    """The limit of loops of an attempt, how many were used, and the consultations held."""

    limit: LoopLimit
    used: int = Field(default=0, ge=0)  # loops
    consultations: tuple[Pattern, ...] = ()  # of this turn, oldest first


NEUTRAL_MOOD = 0.70  # C30: the factor of the limit is 1.0 until there is evidence
NEUTRAL_FOCUS = 0.75
FRESH_STAMINA = 1.00
HISTORY = 16  # points kept for the sparkline of each gauge
Vital = Literal["mood", "focus", "stamina"]


class VitalChange(Frozen):
    """A change of one vital: old and new value, cause, and the inputs of the formula.

    ``new`` can be recomputed from ``inputs``. ``cause`` is a key of the catalogue below
    ``vitals.cause``; ``params`` are its parameters.
    """

    vital: Vital
    old: float = Field(ge=0.0, le=1.0)
    new: float = Field(ge=0.0, le=1.0)
    cause: str
    params: dict[str, str] = Field(default_factory=dict)
    inputs: dict[str, float] = Field(default_factory=dict)  # by name, in the formula's order
    refs: tuple[str, ...] = ()  # message ids and call ids of the events behind it
    at: float  # seconds since the epoch


class Vitals(Frozen):
    """The three vitals, each 0.0 to 1.0 (S0-12): mood (confidence in the plan), focus (consistency)
    and stamina (what is left to try; 1.0 is fresh; S0-11, C28).
    """

    mood: float = Field(default=NEUTRAL_MOOD, ge=0.0, le=1.0)
    focus: float = Field(default=NEUTRAL_FOCUS, ge=0.0, le=1.0)
    stamina: float = Field(default=FRESH_STAMINA, ge=0.0, le=1.0)
    history: tuple[VitalChange, ...] = ()


@dataclass(eq=False)
class PaceState:
    """The limit of the attempt, the consultations and the vitals."""

    pace: Pace | None = None  # of the attempt that runs, or of the last one
    step_pace: Pace | None = None  # of the step that the model works on by itself
    vitals: Vitals = field(default_factory=Vitals)


class ProfileChosen(Event, kind="profile_chosen"):
    """The user set the kind of request; None leaves it to the model again."""

    profile: TaskProfile | None

    def apply(self, state: AgentState) -> None:
        state.profile_choice = self.profile


class LimitSet(Event, kind="limit_set"):
    """The attempt's limit of loops was set (S0-31). ``fresh``: for a new objective, with all counts
    at 0.
    """

    limit: LoopLimit
    fresh: bool = False

    def apply(self, state: AgentState) -> None:
        old = state.pace
        if self.fresh or old is None:
            state.pace = Pace(limit=self.limit)
        else:
            state.pace = old.replace(limit=self.limit)
        if state.turn is not None:
            state.turn = state.turn.replace(limit=self.limit.max_loops)


class LimitExtended(Event, kind="limit_extended"):
    """The limit of loops was raised, by the user or because the work makes progress."""

    by: int = Field(ge=1, le=20)
    who: Literal["user", "pacemaker"] = "user"

    def apply(self, state: AgentState) -> None:
        if state.pace is None:
            raise StateError("no limit was set")
        limit = state.pace.limit
        more = limit.replace(
            max_loops=limit.max_loops + self.by,
            extended=limit.extended + self.by,
            grown=limit.grown + (self.by if self.who == "pacemaker" else 0),
        )
        state.pace = state.pace.replace(limit=more)
        if state.turn is not None:
            state.turn = state.turn.replace(limit=more.max_loops)


class StepPaced(Event, kind="step_paced"):
    """The limit and the count of loops of the running step, until it ends."""

    pace: Pace

    def apply(self, state: AgentState) -> None:
        state.step_pace = self.pace


def running_pace(state: AgentState) -> Pace | None:
    """Return the pace that stops the work next: of the running step, else of the attempt."""
    adapts = state.work is not None and state.work.mode == "adaptive"  # a list has no limit
    if not adapts or state.step_pace is None or state.pace is None:
        return state.pace
    return state.step_pace.replace(consultations=state.pace.consultations)


class VitalsChanged(Event, kind="vitals"):
    """One vital moved, with its cause."""

    change: VitalChange

    def apply(self, state: AgentState) -> None:
        if self.change.old != getattr(state.vitals, self.change.vital):
            raise StateError(f"{self.change.vital} is not {self.change.old}")
        kept: list[VitalChange] = []
        for vital in ("mood", "focus", "stamina"):
            mine = [c for c in (*state.vitals.history, self.change) if c.vital == vital]
            kept.extend(mine[-HISTORY:])
        kept.sort(key=attrgetter("at"))
        update = {self.change.vital: self.change.new, "history": tuple(kept)}
        state.vitals = state.vitals.replace(**update)
