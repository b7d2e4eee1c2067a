"""The three vitals (mood, focus, stamina) as pure functions of recorded signals, so that each
change can be recomputed, and the codes of their causes, which are keys of the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from duckflow_tui.state.pace import (
    FRESH_STAMINA,
    NEUTRAL_FOCUS,
    NEUTRAL_MOOD,
    Reason,
    Vital,
)


class VitalCause(StrEnum):
    """Causes that move a vital: keys below ``vitals.cause``. ``inputs`` stand in brackets."""

    NEW_OBJECTIVE = "new_objective"  # what was low is as at the start: the user's new message
    DECISION = "decision"  # mood [confidence?, good, outcomes, share, fruitless?, old]
    PROGRESS = "progress"  # focus: kind (read, diff, check, requirement, step), what [old, by]
    REPEAT = "repeat"  # focus: operation, what, times [old, by]
    CHECK_NO = "check_no"  # focus: check (goal_consistency, constraint_check), reason [old, by]
    REPAIRED = "repaired"  # focus: times [old, by]
    FRUITLESS = "fruitless"  # focus: operation, what [old, by]; different calls, nothing new
    NO_ACTION = "no_action"  # focus [old, by]; it goes on and asks for nothing
    LOOP = "loop"  # stamina [loops, limit, failed, failed_reads, attempt]
    EXTENDED = "extended"  # stamina: by [loops, limit, failed, failed_reads, attempt]
    GROWN = "grown"  # stamina: by [the same]; nobody allowed it, the work moved


class ConsultCause(StrEnum):
    """Causes of a consultation: keys below ``consult.cause``."""

    SAME_ACTION = "same_action"  # operation, what, times
    SAME_RESULT = "same_result"  # operation, times
    BACK_AND_FORTH = "back_and_forth"  # path, times
    NOTHING_NEW = "nothing_new"  # times
    CHECKS_NO = "checks_no"  # reason
    NO_ACTION = "no_action"
    FOCUS_LOW = "focus_low"  # value, signs, operation, what (of the newest repeat)
    FOCUS_FELL = "focus_fell"  # old, new, signs, operation, what
    MOOD_LOW = "mood_low"  # value, signs
    STAMINA_LOW = "stamina_low"  # value, signs
    STAMINA_OUT = "stamina_out"  # value, signs
    LIMIT = "limit"  # limit


class Sign(StrEnum):
    """Signs behind a cause, several with a space between: keys below ``consult.sign``."""

    REPEAT = "repeat"  # of the focus, as the next four
    CHECK_NO = "check_no"
    REPAIRED = "repaired"
    FRUITLESS = "fruitless"
    NO_ACTION = "no_action"
    UNSURE = "unsure"  # of the mood: the model's own confidence
    OUTCOMES = "outcomes"  # of the mood: what went well and what did not
    FAILED = "failed"  # of the stamina: operations that could not run
    ATTEMPTS = "attempts"  # of the stamina: attempts before this one
    LOOPS = "loops"  # of the stamina: nothing but its loops


class Hypothesis(StrEnum):
    """Guesses from the signals: keys below ``consult.hypothesis``."""

    REPEATS_CALL = "repeats_call"  # operation, what
    NO_NEW_INFORMATION = "no_new_information"  # operation
    NOT_THERE = "not_there"
    SEVERAL_WAYS = "several_ways"
    UNDOING_ITSELF = "undoing_itself"  # path
    UNSURE = "unsure"
    SELF_CONTRADICTION = "self_contradiction"
    SAME_AGAIN = "same_again"
    BAD_REPLIES = "bad_replies"
    OPERATIONS_FAIL = "operations_fail"  # count
    LONG_BUT_MOVING = "long_but_moving"
    LONG_AND_SLOW = "long_and_slow"


class ProgressKind(StrEnum):
    """Kinds of progress: ``kind`` of ``vitals.cause.progress``."""

    READ = "read"  # a file, a range or a listing with lines that were not seen before
    DIFF = "diff"  # a change that brings content the path did not have before
    CHECK = "check"  # a command that failed before and went well now
    REQUIREMENT = "requirement"  # one is met further than before
    STEP = "step"  # a step of the plan is done


def make_reason(code: StrEnum, **params: str) -> Reason:
    """Make a reason from a code and its parameters."""
    return Reason(code=code.value, params=params)


NEW_WEIGHT: Final = 0.7  # of a decision's confidence and of the outcomes, in the mood
OLD_WEIGHT: Final = 0.3  # of the mood before
EARLY_SHARE: Final = 0.7  # while there are too few outcomes to tell
SURE_FROM: Final = 3  # outcomes
OUTCOMES: Final = 5  # the newest count

#: What each signal does to the focus.
FOCUS_BY: Final[Mapping[VitalCause, float]] = {
    VitalCause.PROGRESS: 0.1,
    VitalCause.REPEAT: -0.1,
    VitalCause.CHECK_NO: -0.1,
    VitalCause.REPAIRED: -0.05,
    VitalCause.FRUITLESS: -0.05,
    VitalCause.NO_ACTION: -0.05,
}

LOOP_WEIGHT: Final = 0.6  # of the share of the limit that is used, in the stamina
FAILED_WEIGHT: Final = 0.1  # of each change or command that failed, since the last progress
FAILED_READ_WEIGHT: Final = 0.03  # of each read that failed, since the last progress
ATTEMPT_WEIGHT: Final = 0.1  # of each attempt before this one
_DIGITS: Final = 4


def mood_inputs(
    old: float,
    confidence: float | None,
    outcomes: Sequence[bool],
    *,
    fruitless: bool = False,
) -> dict[str, float]:
    """Collect the inputs to compute the mood after a decision. ``outcomes`` are recent successes
    and failures, oldest first. After a ``fruitless`` loop the mood cannot rise.
    """
    newest = outcomes[-OUTCOMES:]
    good, count = sum(newest), len(newest)
    inputs = {"good": float(good), "outcomes": float(count), "share": _compute_share(good, count)}
    if confidence is not None:
        inputs = {"confidence": confidence, **inputs}
    return {**inputs, **({"fruitless": 1.0} if fruitless else {}), "old": old}


def compute_vital(vital: Vital, inputs: Mapping[str, float]) -> float:
    """Compute the new value (0.0 to 1.0) of a vital from the inputs stored with its change; without
    inputs, its initial value.
    """
    if not inputs:
        return {"mood": NEUTRAL_MOOD, "focus": NEUTRAL_FOCUS, "stamina": FRESH_STAMINA}[vital]
    match vital:
        case "mood":
            share = _compute_share(inputs["good"], inputs["outcomes"])
            confidence = inputs.get("confidence")
            judged = share if confidence is None else (confidence + share) / 2
            value = NEW_WEIGHT * judged + OLD_WEIGHT * inputs["old"]
            if inputs.get("fruitless"):
                value = min(value, inputs["old"])
        case "focus":
            value = inputs["old"] + inputs["by"]
        case "stamina":
            value = FRESH_STAMINA - LOOP_WEIGHT * inputs["loops"] / inputs["limit"]
            value -= FAILED_WEIGHT * inputs["failed"]
            value -= FAILED_READ_WEIGHT * inputs.get("failed_reads", 0)
            value -= ATTEMPT_WEIGHT * (inputs["attempt"] - 1)
    return round(min(max(value, 0.0), 1.0), _DIGITS)


def _compute_share(good: float, outcomes: float) -> float:
    """Return the share of good outcomes; a fixed value while there are fewer than ``SURE_FROM``."""
    return good / outcomes if outcomes >= SURE_FROM else EARLY_SHARE
