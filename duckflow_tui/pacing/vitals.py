"""The three vitals as functions of recorded signals; each change can be computed again by hand.

mood      0.7·c + 0.3·old at each decision. c is half the model's own confidence, half the share of
          the last five outcomes that went well; without a confidence only the share. Under
          three outcomes the share is 0.7.
focus     +0.1 for each kind of progress in a loop, −0.1 for a loop that only repeated, −0.1 for a
          "no" in a check, −0.05 for each reply that had to be repaired.
stamina   1 − 0.6·loops/limit − 0.1 for each operation that could not run − 0.1 for each further
          attempt; 1.0 with a new objective.

All values are kept in 0.0 to 1.0 and rounded to four digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from duckflow_tui.pacing.codes import VitalCause
from duckflow_tui.state.vitals import FRESH_STAMINA, Vital, VitalChange

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
