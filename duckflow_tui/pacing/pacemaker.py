"""The limit of loops of an attempt: base × vitals × complexity, and why (S0-5…36)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from duckflow_tui.pacing import complexity as contexts
from duckflow_tui.pacing import journal
from duckflow_tui.pacing.bases import BASES, FINAL_FALLBACK, MAX_LIMIT, MIN_LIMIT, UNKNOWN_BASE
from duckflow_tui.pacing.codes import FallbackCause, ReasonCode
from duckflow_tui.pacing.reasoning import reasons
from duckflow_tui.state.decision import TaskProfile
from duckflow_tui.state.pace import Complexity, LoopLimit, Reason
from duckflow_tui.state.pace_events import LimitSet
from duckflow_tui.state.store import Store
from duckflow_tui.state.vitals import Vitals

LOW_SCORE: Final = 0.4  # S0-9, both strict
GOOD_SCORE: Final = 0.8
LOW_FACTOR: Final = 0.7
GOOD_FACTOR: Final = 1.2
COMPLEXITY_WEIGHT: Final = 0.4  # S0-10
_DIGITS: Final = 6  # sums of tenths miss their value by less than this

#: Kinds of request that are hard whatever the context.
HARD: Final = (TaskProfile.COMPLEX_REASONING, TaskProfile.DEBUGGING)

_FAULTS: Final = (ArithmeticError, LookupError, TypeError, ValueError)

ChosenBy = Literal["model", "rules", "user"]


class PaceConfig(Protocol):
    """The settings of the pacemaker; loops are counts."""

    @property
    def min(self) -> int:
        """Fewest loops."""
        ...

    @property
    def max(self) -> int:
        """Most loops; where it lies below ``min``, it wins."""
        ...

    @property
    def fallback(self) -> int:
        """Loops when the limit cannot be computed."""
        ...

    @property
    def base(self) -> Mapping[TaskProfile, int]:
        """Loops by kind of request; a kind that is not there counts as unknown."""
        ...

    @property
    def hard_from(self) -> float | None:
        """Complexity, 0.0 to 1.0, from which on a request is hard; None: none ever is."""
        ...


@dataclass(frozen=True, slots=True)
class PaceSettings:
    """``PaceConfig`` as plain values."""

    min: int = MIN_LIMIT
    max: int = MAX_LIMIT
    fallback: int = FINAL_FALLBACK
    base: Mapping[TaskProfile, int] = field(default_factory=lambda: dict(BASES))
    hard_from: float | None = None


def vitals_score(vitals: Vitals) -> float:
    """0.4 mood + 0.4 focus + 0.2 stamina, rounded to what floats can tell (S0-8)."""
    score = 0.4 * vitals.mood + 0.4 * vitals.focus + 0.2 * vitals.stamina
    return round(score, _DIGITS)


def vitals_factor(score: float) -> float:
    """0.7 below 0.4, 1.2 above 0.8, else 1.0 (S0-9)."""
    if score < LOW_SCORE:
        return LOW_FACTOR
    return GOOD_FACTOR if score > GOOD_SCORE else 1.0


def complexity_factor(value: float) -> float:
    """1.0 to 1.4 (S0-10)."""
    return 1.0 + COMPLEXITY_WEIGHT * value


class Pacemaker:
    """Computes limits; holds nothing but its settings."""

    def __init__(self, settings: PaceConfig | None = None) -> None:
        self._settings: PaceConfig = settings or PaceSettings()

    def limit(
        self,
        profile: TaskProfile | None,
        chosen_by: ChosenBy,
        vitals: Vitals,
        complexity: Complexity,
    ) -> LoopLimit:
        """The limit and its reasons (S0-29). What cannot be computed becomes a fallback that
        says it is one (S0-27, S0-28, S0-30).
        """
        try:
            return self._computed(profile, chosen_by, vitals, complexity)
        except _FAULTS as fault:
            journal.warn(f"the limit could not be computed: {fault!r}")
            return self._fallback(profile, chosen_by)

    def is_hard(self, limit: LoopLimit) -> bool:
        """Whether the request that the limit was set for deserves the strong model (S1-43)."""
        least, found = self._settings.hard_from, limit.complexity
        if least is None:
            return False
        return limit.profile in HARD or (found is not None and found.value >= least)

    def start_session(
        self,
        store: Store,
        profile: TaskProfile | None,
        chosen_by: ChosenBy,
        *,
        fresh: bool = False,
        before: LoopLimit | None = None,
    ) -> LoopLimit:
        """Analyse the context, compute, write the limit to the state, return it (S0-31).

        ``fresh`` begins new books; what was added to the limit ``before`` is kept.
        """
        state = store.state
        try:
            context = contexts.of_state(state)
        except _FAULTS as fault:
            journal.warn(f"the context could not be analysed: {fault!r}")
            context = contexts.analyse(None, None, None, None)
        limit = self.limit(profile, chosen_by, state.vitals, context)
        if before is not None and before.extended:
            added = {"extended": before.extended, "grown": before.grown}
            most = limit.max_loops + before.extended
            limit = limit.model_copy(update={"max_loops": most, **added})
        store.dispatch(LimitSet(limit=limit, fresh=fresh))
        journal.started(limit, state.vitals)
        return limit

    def _computed(
        self,
        profile: TaskProfile | None,
        chosen_by: ChosenBy,
        vitals: Vitals,
        complexity: Complexity,
    ) -> LoopLimit:
        low, high = self._settings.min, self._settings.max
        base = UNKNOWN_BASE if profile is None else self._settings.base.get(profile, UNKNOWN_BASE)
        score = vitals_score(vitals)
        by_vitals, by_context = vitals_factor(score), complexity_factor(complexity.value)
        product = round(base * by_vitals * by_context, _DIGITS)
        loops = min(max(int(product), low), high)  # truncated first (S0-7)
        limit = LoopLimit(
            max_loops=loops,
            profile=profile,
            chosen_by=chosen_by,
            base_loops=base,
            vitals_score=score,
            vitals_factor=by_vitals,
            complexity=complexity,
            complexity_factor=by_context,
            mood=vitals.mood,
            focus=vitals.focus,
            stamina=vitals.stamina,
            lowest=low,
            highest=high,
        )
        return limit.model_copy(update={"reasoning": reasons(limit, int(product))})

    def _fallback(self, profile: TaskProfile | None, chosen_by: ChosenBy) -> LoopLimit:
        cause = FallbackCause.CALCULATION
        try:
            loops = int(self._settings.fallback)
        except _FAULTS as fault:
            journal.warn(f"the settings could not be read: {fault!r}")
            loops = 0
        if loops < 1:
            cause, loops = FallbackCause.SETTINGS, FINAL_FALLBACK
        params = {"cause": cause.value, "limit": str(loops)}
        return LoopLimit(
            max_loops=loops,
            profile=profile,
            chosen_by=chosen_by,
            fallback=True,
            reasoning=(Reason(code=ReasonCode.FALLBACK.value, params=params),),
        )
