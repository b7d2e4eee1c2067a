"""How long the work may go on, and what the user is asked when it is stuck (S0)."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from duckflow_tui.state.base import Frozen
from duckflow_tui.state.decision import TaskProfile


class Reason(Frozen):
    """A piece of reasoning: a key of the catalogue below ``pace.reason`` with its figures."""

    code: str
    params: dict[str, str] = Field(default_factory=dict)


class Complexity(Frozen):
    """How involved the context is, 0.0 to 1.0, and the factors it is the mean of (S0-23…26).

    A factor is None when it could not be measured; with none of them the value is the default.
    """

    value: float = Field(ge=0.0, le=1.0)
    files: float | None = Field(default=None, ge=0.0, le=1.0)
    history: float | None = Field(default=None, ge=0.0, le=1.0)
    errors: float | None = Field(default=None, ge=0.0, le=1.0)


class LoopLimit(Frozen):
    """How many model decisions an attempt may take, and why (S0-29, S0-30)."""

    max_loops: int = Field(ge=1)
    profile: TaskProfile | None = None  # None: unknown
    chosen_by: Literal["model", "rules", "user"] = "rules"
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
    """Why the user is consulted (S0-39…42), and the limit itself."""

    STAGNATION = "stagnation"
    LOW_CONFIDENCE = "low_confidence"
    CONFUSION = "confusion"
    TOO_MANY_TRIES = "too_many_tries"
    LIMIT = "limit"


class Tried(Frozen):
    """One thing that was tried, in words, with the place where it stands in the chat."""

    text: str
    ref: str = ""  # call id or message id
    went_well: bool = False
    times: int = Field(default=1, ge=1)
    back: bool = False  # it brought back what a file held before


class Situation(Frozen):
    """What a consultation shows: in words, no figures but the loop (S0-38)."""

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
    """The pacemaker's books on the attempt that runs, or on the last one."""

    limit: LoopLimit
    used: int = Field(default=0, ge=0)  # loops
    consultations: tuple[Pattern, ...] = ()  # of this turn, oldest first
    failed_operations: int = Field(default=0, ge=0)  # that could not run, of this objective
