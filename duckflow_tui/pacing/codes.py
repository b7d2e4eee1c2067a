"""The codes of the pacemaker's reasons; the words for them are the catalogue's.

Behind each code stand the params that its words may use. Params are data: figures as they are
shown, names of operations and paths as the model wrote them.
"""

from __future__ import annotations

from enum import StrEnum


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
