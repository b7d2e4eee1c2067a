"""When the user is consulted: thresholds, their order, and the cool-down (S0-37…42, C27)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from duckflow_tui.pacing.codes import ConsultCause, Hypothesis
from duckflow_tui.state.pace import Pattern, Reason

COOL_DOWN: Final = 3  # loops after a consultation without another one
LOW_FOCUS: Final = 0.3
FOCUS_FALL: Final = 0.3  # within FALL_LOOPS
FALL_LOOPS: Final = 3
LOW_MOOD: Final = 0.5
LOW_MOODS: Final = 2  # decisions in a row
LOW_STAMINA: Final = 0.3
NO_STAMINA: Final = 0.1

_TOLERANCE: Final = 1e-6  # of differences of values that have four digits


@dataclass(frozen=True, slots=True)
class Signals:
    """What is known after a loop. Vitals are 0.0 to 1.0, loops are counts."""

    loop: int
    limit: int
    mood: float
    stamina: float
    focus: Sequence[float]  # at the beginning and after each loop of the attempt, oldest first
    stuck: Reason | None = None
    low_moods: int = 0  # decisions in a row that left the mood low
    stamina_asked: bool = False  # since it fell below LOW_STAMINA
    since_asked: int | None = None  # loops since the last consultation
    failed: int = 0  # operations that could not run
    moving: bool = False  # one of the last loops made progress


def due(signals: Signals) -> tuple[Pattern, Reason] | None:
    """The consultation that is due before a further loop. The limit always asks."""
    if signals.loop >= signals.limit:
        return Pattern.LIMIT, _cause(ConsultCause.LIMIT, limit=str(signals.limit))
    if signals.since_asked is not None and signals.since_asked < COOL_DOWN:
        return None
    if signals.stuck is not None:
        return Pattern.STAGNATION, signals.stuck
    if signals.stamina < NO_STAMINA:
        return Pattern.TOO_MANY_TRIES, _value(ConsultCause.STAMINA_OUT, signals.stamina)
    if (cause := _confused(signals.focus)) is not None:
        return Pattern.CONFUSION, cause
    if signals.stamina < LOW_STAMINA and not signals.stamina_asked:
        return Pattern.TOO_MANY_TRIES, _value(ConsultCause.STAMINA_LOW, signals.stamina)
    if signals.low_moods >= LOW_MOODS:
        return Pattern.LOW_CONFIDENCE, _value(ConsultCause.MOOD_LOW, signals.mood)
    return None


def hypothesis(cause: Reason, signals: Signals) -> Reason:
    """What the signals behind a cause suggest."""
    params = cause.params
    match ConsultCause(cause.code):
        case ConsultCause.SAME_ACTION:
            kept = {name: params[name] for name in ("operation", "what")}
            return _guess(Hypothesis.REPEATS_CALL, **kept)
        case ConsultCause.SAME_RESULT:
            return _guess(Hypothesis.NO_NEW_INFORMATION, operation=params["operation"])
        case ConsultCause.BACK_AND_FORTH:
            return _guess(Hypothesis.UNDOING_ITSELF, path=params["path"])
        case ConsultCause.FOCUS_LOW | ConsultCause.FOCUS_FELL:
            return _guess(Hypothesis.SELF_CONTRADICTION)
        case ConsultCause.MOOD_LOW:
            return _guess(Hypothesis.UNSURE)
        case ConsultCause.STAMINA_LOW | ConsultCause.STAMINA_OUT if signals.failed:
            return _guess(Hypothesis.OPERATIONS_FAIL, count=str(signals.failed))
        case ConsultCause.STAMINA_LOW | ConsultCause.STAMINA_OUT | ConsultCause.LIMIT:
            moving = Hypothesis.LONG_BUT_MOVING if signals.moving else Hypothesis.LONG_AND_SLOW
            return _guess(moving)


def _confused(focus: Sequence[float]) -> Reason | None:
    """Only a loop in which the focus fell sets it off: what was low before is no news."""
    if len(focus) < 2 or focus[-1] >= focus[-2]:
        return None
    now = focus[-1]
    if now < LOW_FOCUS:
        return _value(ConsultCause.FOCUS_LOW, now)
    before = max(focus[-FALL_LOOPS - 1 :])
    if before - now >= FOCUS_FALL - _TOLERANCE:
        return _cause(ConsultCause.FOCUS_FELL, old=f"{before:.2f}", new=f"{now:.2f}")
    return None


def _value(code: ConsultCause, value: float) -> Reason:
    return _cause(code, value=f"{value:.2f}")


def _cause(code: ConsultCause, **params: str) -> Reason:
    return Reason(code=code.value, params=params)


def _guess(code: Hypothesis, **params: str) -> Reason:
    return Reason(code=code.value, params=params)
