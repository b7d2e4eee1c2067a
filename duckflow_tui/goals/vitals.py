"""The three vitals as functions of recorded signals; each change can be computed again by hand.
The codes of the pacemaker's reasons stand here too; the words for them are the catalogue's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from duckflow_tui.state.pace import FRESH_STAMINA, Vital, VitalChange


class VitalCause(StrEnum):
    """What moved a vital: keys below ``vitals.cause``. ``inputs`` stand in brackets."""

    NEW_OBJECTIVE = "new_objective"  # stamina is fresh again
    DECISION = "decision"  # mood [confidence?, good, outcomes, share, old]
    PROGRESS = "progress"  # focus: kind (read, diff, check, requirement, step), what [old, by]
    REPEAT = "repeat"  # focus: operation, what, times [old, by]
    CHECK_NO = "check_no"  # focus: check (goal_consistency, constraint_check), reason [old, by]
    REPAIRED = "repaired"  # focus: times [old, by]
    LOOP = "loop"  # stamina [loops, limit, failed, attempt]
    EXTENDED = "extended"  # stamina: by [loops, limit, failed, attempt]
    GROWN = "grown"  # stamina: by [the same]; nobody allowed it, the work moved


class ReasonCode(StrEnum):
    """Why the limit is what it is: keys below ``pace.reason``."""

    PROFILE = "profile"  # profile (a TaskProfile, or unknown), base, by (user, model, rules)
    VITALS_LOW = "vitals_low"  # vital
    VITALS_GOOD = "vitals_good"  # vital
    VITALS_STANDARD = "vitals_standard"
    COMPLEXITY_LOW = "complexity_low"
    COMPLEXITY_MEDIUM = "complexity_medium"
    COMPLEXITY_HIGH = "complexity_high"
    MANY_FILES = "many_files"  # behind complexity_high, as the next two
    LONG_HISTORY = "long_history"
    MANY_ERRORS = "many_errors"
    ADJUSTED_VITALS = "adjusted_vitals"  # percent, with its sign
    ADJUSTED_COMPLEXITY = "adjusted_complexity"  # percent, with its sign
    NO_ADJUSTMENT = "no_adjustment"
    CLAMPED = "clamped"  # computed, limit
    FALLBACK = "fallback"  # cause: a FallbackCause, limit


class FallbackCause(StrEnum):
    """Why the limit could not be computed."""

    CALCULATION = "calculation"  # it raised; the limit is the setting's
    SETTINGS = "settings"  # the settings could not be read either; the limit is fixed


class ConsultCause(StrEnum):
    """What set a consultation off: keys below ``consult.cause``."""

    SAME_ACTION = "same_action"  # operation, what, times
    SAME_RESULT = "same_result"  # operation, times
    BACK_AND_FORTH = "back_and_forth"  # path, times
    FOCUS_LOW = "focus_low"  # value, signs
    FOCUS_FELL = "focus_fell"  # old, new, signs
    MOOD_LOW = "mood_low"  # value, signs
    STAMINA_LOW = "stamina_low"  # value, signs
    STAMINA_OUT = "stamina_out"  # value, signs
    LIMIT = "limit"  # limit


class Sign(StrEnum):
    """What stands behind a cause, several with a space between: keys below ``consult.sign``."""

    REPEAT = "repeat"  # of the focus, as the next two
    CHECK_NO = "check_no"
    REPAIRED = "repaired"
    UNSURE = "unsure"  # of the mood: the model's own confidence
    OUTCOMES = "outcomes"  # of the mood: what went well and what did not
    FAILED = "failed"  # of the stamina: operations that could not run
    ATTEMPTS = "attempts"  # of the stamina: attempts before this one
    LOOPS = "loops"  # of the stamina: nothing but its loops


class Hypothesis(StrEnum):
    """What the signals suggest: keys below ``consult.hypothesis``."""

    REPEATS_CALL = "repeats_call"  # operation, what
    NO_NEW_INFORMATION = "no_new_information"  # operation
    UNDOING_ITSELF = "undoing_itself"  # path
    UNSURE = "unsure"
    SELF_CONTRADICTION = "self_contradiction"
    SAME_AGAIN = "same_again"
    BAD_REPLIES = "bad_replies"
    OPERATIONS_FAIL = "operations_fail"  # count
    LONG_BUT_MOVING = "long_but_moving"
    LONG_AND_SLOW = "long_and_slow"


class ProgressKind(StrEnum):
    """What counts as progress: ``kind`` of ``vitals.cause.progress``."""

    READ = "read"  # a file, a range or a listing with lines that were not seen before
    DIFF = "diff"  # a change that brings content the path did not have before
    CHECK = "check"  # a command that failed before and went well now
    REQUIREMENT = "requirement"  # one is met further than before
    STEP = "step"  # a step of the plan is done


def complexity_code(value: float) -> ReasonCode:
    """Low below 0.3, high above 0.7, else medium (S0-33)."""
    if value < LOW_BELOW:
        return ReasonCode.COMPLEXITY_LOW
    return ReasonCode.COMPLEXITY_HIGH if value > HIGH_ABOVE else ReasonCode.COMPLEXITY_MEDIUM


LOW_BELOW: Final = 0.3  # S0-33

HIGH_ABOVE: Final = 0.7


NEW_WEIGHT: Final = 0.7  # of c in the mood

OLD_WEIGHT: Final = 0.3  # of the mood before

EARLY_SHARE: Final = 0.7  # while there are too few outcomes to tell

SURE_FROM: Final = 3  # outcomes

OUTCOMES: Final = 5  # the newest count

PROGRESS: Final = 0.1

REPEAT: Final = -0.1

CHECK_NO: Final = -0.1

REPAIRED: Final = -0.05

LOOP_WEIGHT: Final = 0.6

FAILED_WEIGHT: Final = 0.1

ATTEMPT_WEIGHT: Final = 0.1

_DIGITS: Final = 4


def mood(
    old: float,
    confidence: float | None,
    outcomes: Sequence[bool],
    *,
    at: float,
    refs: tuple[str, ...] = (),
) -> VitalChange:
    """The mood after a decision; ``outcomes`` are the newest ones, oldest first."""
    newest = outcomes[-OUTCOMES:]
    good, count = sum(newest), len(newest)
    inputs = {"good": float(good), "outcomes": float(count), "share": _share(good, count)}
    if confidence is not None:
        inputs = {"confidence": confidence, **inputs}
    return _change("mood", old, VitalCause.DECISION, {**inputs, "old": old}, at=at, refs=refs)


def focus(
    old: float,
    by: float,
    cause: VitalCause,
    params: Mapping[str, str],
    *,
    at: float,
    refs: tuple[str, ...] = (),
) -> VitalChange:
    """The focus after a signal that is worth ``by``."""
    return _change("focus", old, cause, {"old": old, "by": by}, params, at=at, refs=refs)


def stamina(
    old: float,
    loops: int,
    limit: int,
    failed: int,
    attempt: int,
    *,
    cause: VitalCause = VitalCause.LOOP,
    params: Mapping[str, str] | None = None,
    at: float,
    refs: tuple[str, ...] = (),
) -> VitalChange:
    """What is left after so many loops of ``limit``; ``failed`` operations could not run."""
    inputs = {
        "loops": float(loops),
        "limit": float(limit),
        "failed": float(failed),
        "attempt": float(attempt),
    }
    return _change("stamina", old, cause, inputs, params, at=at, refs=refs)


def fresh_stamina(old: float, *, at: float, refs: tuple[str, ...] = ()) -> VitalChange:
    """A new objective begins with all of it."""
    return _change("stamina", old, VitalCause.NEW_OBJECTIVE, {}, at=at, refs=refs)


def recomputed(change: VitalChange) -> float:
    """The new value from the inputs alone, as a reader would compute it."""
    return _value(change.vital, change.inputs)


def _value(vital: Vital, inputs: Mapping[str, float]) -> float:
    match vital:
        case "mood":
            share = _share(inputs["good"], inputs["outcomes"])
            confidence = inputs.get("confidence")
            judged = share if confidence is None else (confidence + share) / 2
            value = NEW_WEIGHT * judged + OLD_WEIGHT * inputs["old"]
        case "focus":
            value = inputs["old"] + inputs["by"]
        case "stamina":
            value = FRESH_STAMINA
            if inputs:
                value -= LOOP_WEIGHT * inputs["loops"] / inputs["limit"]
                value -= FAILED_WEIGHT * inputs["failed"]
                value -= ATTEMPT_WEIGHT * (inputs["attempt"] - 1)
    return round(min(max(value, 0.0), 1.0), _DIGITS)


def _share(good: float, outcomes: float) -> float:
    return good / outcomes if outcomes >= SURE_FROM else EARLY_SHARE


def _change(
    vital: Vital,
    old: float,
    cause: VitalCause,
    inputs: Mapping[str, float],
    params: Mapping[str, str] | None = None,
    *,
    at: float,
    refs: tuple[str, ...],
) -> VitalChange:
    return VitalChange(
        vital=vital,
        old=old,
        new=_value(vital, inputs),
        cause=cause.value,
        params=dict(params or {}),
        inputs=dict(inputs),
        refs=refs,
        at=at,
    )
