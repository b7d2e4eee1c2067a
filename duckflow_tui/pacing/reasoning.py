"""Why a limit is what it is, as codes: the summary first, figures only in params (S0-32…36)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from duckflow_tui.pacing.codes import ReasonCode
from duckflow_tui.pacing.complexity import HIGH_ABOVE, LOW_BELOW
from duckflow_tui.state.pace import Complexity, LoopLimit, Reason

LOW_VITAL: Final = 0.5  # S0-32
GOOD_VITAL: Final = 0.8


def reasons(limit: LoopLimit, computed: int) -> tuple[Reason, ...]:
    """The reasons behind a limit whose product came to ``computed`` before the range."""
    return tuple(_reasons(limit, computed))


def complexity_code(value: float) -> ReasonCode:
    """Low below 0.3, high above 0.7, else medium (S0-33)."""
    if value < LOW_BELOW:
        return ReasonCode.COMPLEXITY_LOW
    return ReasonCode.COMPLEXITY_HIGH if value > HIGH_ABOVE else ReasonCode.COMPLEXITY_MEDIUM


def percent(factor: float) -> str:
    """What a factor changes, rounded, with its sign (S0-34)."""
    return f"{round((factor - 1) * 100):+d}"


def _reasons(limit: LoopLimit, computed: int) -> Iterator[Reason]:
    profile = limit.profile.value if limit.profile else "unknown"
    yield _of(ReasonCode.PROFILE, profile=profile, base=str(limit.base_loops), by=limit.chosen_by)
    yield from _vitals(limit)
    if limit.complexity is not None:
        yield from _context(limit.complexity)
    adjusted = False
    for code, factor in (
        (ReasonCode.ADJUSTED_VITALS, limit.vitals_factor),
        (ReasonCode.ADJUSTED_COMPLEXITY, limit.complexity_factor),
    ):
        if round((factor - 1) * 100):
            adjusted = True
            yield _of(code, percent=percent(factor))
    if not adjusted:
        yield _of(ReasonCode.NO_ADJUSTMENT)
    if computed != limit.max_loops:
        yield _of(ReasonCode.CLAMPED, computed=str(computed), limit=str(limit.max_loops))


def _vitals(limit: LoopLimit) -> Iterator[Reason]:
    said = False
    for name, value in (("mood", limit.mood), ("focus", limit.focus), ("stamina", limit.stamina)):
        if value < LOW_VITAL or value > GOOD_VITAL:
            said = True
            low = value < LOW_VITAL
            yield _of(ReasonCode.VITALS_LOW if low else ReasonCode.VITALS_GOOD, vital=name)
    if not said:
        yield _of(ReasonCode.VITALS_STANDARD)


def _context(complexity: Complexity) -> Iterator[Reason]:
    code = complexity_code(complexity.value)
    yield _of(code)
    if code is not ReasonCode.COMPLEXITY_HIGH:
        return
    for why, factor in (
        (ReasonCode.MANY_FILES, complexity.files),
        (ReasonCode.LONG_HISTORY, complexity.history),
        (ReasonCode.MANY_ERRORS, complexity.errors),
    ):
        if factor is not None and factor > HIGH_ABOVE:
            yield _of(why)


def _of(code: ReasonCode, **params: str) -> Reason:
    return Reason(code=code.value, params=params)
