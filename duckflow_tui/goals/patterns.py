"""When the user is consulted: thresholds, their order, and the cool-down (S0-37…42, C27); and when
the limit grows by itself instead, since the work moves (C1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from duckflow_tui.goals.vitals import ConsultCause, Hypothesis, Sign, VitalCause
from duckflow_tui.state.pace import Pattern, Reason

COOL_DOWN: Final = 3  # loops after a consultation without another one

LOW_FOCUS: Final = 0.3

FOCUS_FALL: Final = 0.3  # within FALL_LOOPS

FALL_LOOPS: Final = 3

LOW_MOOD: Final = 0.5

LOW_MOODS: Final = 2  # decisions in a row

LOW_STAMINA: Final = 0.3

NO_STAMINA: Final = 0.1

GROWS_BY: Final = 5  # loops by which the limit of work that moves grows

MOST_TIMES: Final = 3  # its first limit that a whole turn may take by itself (C1)

UNSURE: Final = 0.6  # a confidence under it keeps the mood low, or a share of outcomes does


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
    lowered: Sequence[frozenset[VitalCause]] = ()  # the focus, loop by loop as in ``focus``
    confidence: float | None = None  # of the newest decision
    share: float = 1.0  # of the newest outcomes that went well
    attempt: int = 1


def due(signals: Signals) -> tuple[Pattern, Reason] | None:
    """The consultation that is due before a further loop. The limit always asks."""
    if signals.loop >= signals.limit:
        return Pattern.LIMIT, _cause(ConsultCause.LIMIT, limit=str(signals.limit))
    if signals.since_asked is not None and signals.since_asked < COOL_DOWN:
        return None
    return _pattern(signals)


def grows(signals: Signals, first: int, spent: int) -> int:
    """By how many loops the limit grows by itself: at the limit, where the work moves and nothing
    else is amiss. ``first``: the limit before anything was added; ``spent``: loops of the turn's
    earlier attempts. All of a turn takes at most three times ``first`` this way; 0 there.
    """
    if signals.loop < signals.limit or not signals.moving or _pattern(signals) is not None:
        return 0
    return min(max(MOST_TIMES * first - spent - signals.limit, 0), GROWS_BY)


def _pattern(signals: Signals) -> tuple[Pattern, Reason] | None:
    """What is amiss, whatever was asked before."""
    if signals.stuck is not None:
        return Pattern.STAGNATION, signals.stuck
    if signals.stamina < NO_STAMINA:
        return Pattern.TOO_MANY_TRIES, _tired(ConsultCause.STAMINA_OUT, signals)
    if (cause := _confused(signals)) is not None:
        return Pattern.CONFUSION, cause
    if signals.stamina < LOW_STAMINA and not signals.stamina_asked:
        return Pattern.TOO_MANY_TRIES, _tired(ConsultCause.STAMINA_LOW, signals)
    if signals.low_moods >= LOW_MOODS:
        return Pattern.LOW_CONFIDENCE, _unsure(signals)
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
            signs = params.get("signs", "").split()
            if Sign.CHECK_NO in signs:
                return _guess(Hypothesis.SELF_CONTRADICTION)
            return _guess(Hypothesis.SAME_AGAIN if Sign.REPEAT in signs else Hypothesis.BAD_REPLIES)
        case ConsultCause.MOOD_LOW:
            return _guess(Hypothesis.UNSURE)
        case ConsultCause.STAMINA_LOW | ConsultCause.STAMINA_OUT if signals.failed:
            return _guess(Hypothesis.OPERATIONS_FAIL, count=str(signals.failed))
        case ConsultCause.STAMINA_LOW | ConsultCause.STAMINA_OUT | ConsultCause.LIMIT:
            moving = Hypothesis.LONG_BUT_MOVING if signals.moving else Hypothesis.LONG_AND_SLOW
            return _guess(moving)


def _confused(signals: Signals) -> Reason | None:
    """Only a loop in which the focus fell sets it off: what was low before is no news."""
    focus = signals.focus
    if len(focus) < 2 or focus[-1] >= focus[-2]:
        return None
    now = focus[-1]
    if now < LOW_FOCUS:
        signs = _signs(signals.lowered)
        return _cause(ConsultCause.FOCUS_LOW, value=f"{now:.2f}", signs=signs)
    before = max(focus[-FALL_LOOPS - 1 :])
    if before - now >= FOCUS_FALL - _TOLERANCE:
        signs = _signs(signals.lowered[-FALL_LOOPS:])
        return _cause(ConsultCause.FOCUS_FELL, old=f"{before:.2f}", new=f"{now:.2f}", signs=signs)
    return None


def _signs(lowered: Sequence[frozenset[VitalCause]]) -> str:
    """What lowered the focus, in the order of the signs."""
    seen = {cause.value for loop in lowered for cause in loop}
    return " ".join(sign.value for sign in Sign if sign.value in seen)


def _tired(code: ConsultCause, signals: Signals) -> Reason:
    """What used the stamina up besides the loops."""
    signs = [Sign.FAILED] * bool(signals.failed) + [Sign.ATTEMPTS] * (signals.attempt > 1)
    said = " ".join(signs or [Sign.LOOPS])
    return _cause(code, value=f"{signals.stamina:.2f}", signs=said)


def _unsure(signals: Signals) -> Reason:
    """What keeps the mood low: the model's own word, the outcomes, or both."""
    said = signals.confidence is not None and signals.confidence < UNSURE
    signs = [Sign.UNSURE] * said + [Sign.OUTCOMES] * (signals.share < UNSURE)
    value = f"{signals.mood:.2f}"
    return _cause(ConsultCause.MOOD_LOW, value=value, signs=" ".join(signs or [Sign.UNSURE]))


def _cause(code: ConsultCause, **params: str) -> Reason:
    return Reason(code=code.value, params=params)


def _guess(code: Hypothesis, **params: str) -> Reason:
    return Reason(code=code.value, params=params)
