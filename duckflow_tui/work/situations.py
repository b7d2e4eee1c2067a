"""Decides when to consult the user, by thresholds with an order and a cool-down (S0-37…42, C27),
when the loop limit grows without asking (C1), and what the user is shown then (S0-38).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.goal import RequirementState
from duckflow_tui.state.operations import FileChange, Outcome, describe_target
from duckflow_tui.state.pace import Pattern, Reason, Situation, Tried
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.work.progress import RAN, Repeat
from duckflow_tui.work.vitals import ConsultCause, Hypothesis, Sign, VitalCause, make_reason

COOL_DOWN: Final = 3  # loops after a consultation without another one
_MOVING: Final = 3  # loops of which one has to bring progress for work to count as moving
LOW_FOCUS: Final = 0.3
FOCUS_FALL: Final = 0.3  # within FALL_LOOPS
FALL_LOOPS: Final = 3
LOW_MOOD: Final = 0.5
LOW_MOODS: Final = 2  # decisions in a row
LOW_STAMINA: Final = 0.3
NO_STAMINA: Final = 0.1
GROWS_BY: Final = 5  # loops by which the limit of work that moves grows
MOST_TIMES: Final = 3  # times the first limit: most loops of a turn without asking (C1)
UNSURE: Final = 0.6  # confidence or share of good outcomes below it counts as unsure
MOST_TRIED: Final = 6
MOST_ACHIEVED: Final = 8

#: What a cause suggests by itself, and the values of the cause that the words for it need.
_BEHIND: Final[Mapping[ConsultCause, tuple[Hypothesis, *tuple[str, ...]]]] = {
    ConsultCause.SAME_ACTION: (Hypothesis.REPEATS_CALL, "operation", "what"),
    ConsultCause.SAME_RESULT: (Hypothesis.NO_NEW_INFORMATION, "operation"),
    ConsultCause.NOTHING_NEW: (Hypothesis.NOT_THERE,),
    ConsultCause.CHECKS_NO: (Hypothesis.SELF_CONTRADICTION,),
    ConsultCause.NO_ACTION: (Hypothesis.SEVERAL_WAYS,),
    ConsultCause.BACK_AND_FORTH: (Hypothesis.UNDOING_ITSELF, "path"),
    ConsultCause.MOOD_LOW: (Hypothesis.UNSURE,),
}

#: What each sign of a low focus suggests, the one that tells most first.
_BEHIND_FOCUS: Final = {
    Sign.CHECK_NO: Hypothesis.SELF_CONTRADICTION,
    Sign.REPEAT: Hypothesis.SAME_AGAIN,
    Sign.NO_ACTION: Hypothesis.SEVERAL_WAYS,
    Sign.FRUITLESS: Hypothesis.NOT_THERE,
}

_TOLERANCE: Final = 1e-6  # of differences of values that have four digits
_LINE: Final = 120  # characters


@dataclass(slots=True)
class Signals:
    """The signals of one thread of work after its newest loop. Vitals are 0.0 to 1.0, loops are
    counts, lists go by loops of the attempt, oldest first.
    """

    focus: list[float]  # at the beginning and after each loop
    lowered: list[frozenset[VitalCause]] = field(default_factory=lambda: [frozenset()])  # by what
    moves: list[bool] = field(default_factory=list[bool])  # whether each loop made progress
    loop: int = 0
    limit: int = 0
    mood: float = 0.0
    stamina: float = 0.0
    attempt: int = 1
    stuck: Reason | None = None  # why the work is stuck
    repeat: Repeat | None = None  # the newest, since the user's newest word
    low_moods: int = 0  # decisions in a row that left the mood low
    fruitless: bool = False  # the newest loop brought nothing
    since_asked: int | None = None  # loops since the last consultation
    failed: int = 0  # changes and commands that failed, since the last progress
    failed_reads: int = 0
    confidence: float | None = None  # of the newest decision
    share: float | None = None  # of the newest outcomes that went well

    @property
    def is_moving(self) -> bool:
        """Whether one of the newest loops made progress."""
        return any(self.moves[-_MOVING:])


# --- whether to ask ------------------------------------------------------------------------------


def find_consultation(signals: Signals) -> tuple[Pattern, Reason] | None:
    """Return the pattern and cause of a consultation that is needed before the next loop, else
    None. Reaching the limit always needs one, other causes only after the cool-down.
    """
    if signals.loop >= signals.limit:
        return Pattern.LIMIT, make_reason(ConsultCause.LIMIT, limit=str(signals.limit))
    if signals.since_asked is not None and signals.since_asked < COOL_DOWN:
        return None
    return find_trouble(signals)


def compute_growth(signals: Signals, first: int, spent: int) -> int:
    """Return by how many loops the limit grows without asking: above 0 only at the limit, with
    progress and without trouble.

    ``first``: the limit before any growth; ``spent``: loops of the turn's earlier attempts. All
    attempts of a turn together reach at most three times ``first`` this way.
    """
    if signals.loop < signals.limit or not signals.is_moving or find_trouble(signals) is not None:
        return 0
    return min(max(MOST_TIMES * first - spent - signals.limit, 0), GROWS_BY)


def find_trouble(signals: Signals) -> tuple[Pattern, Reason] | None:
    """Return the pattern and cause of trouble in the signals, without regard to the cool-down; None
    if there is none.
    """
    if signals.stuck is not None:
        confused = signals.stuck.code in (ConsultCause.CHECKS_NO, ConsultCause.NO_ACTION)
        return Pattern.CONFUSION if confused else Pattern.STAGNATION, signals.stuck
    tired = [Sign.FAILED] * bool(signals.failed + signals.failed_reads) + [Sign.ATTEMPTS] * (
        signals.attempt > 1
    )
    stamina = {"value": f"{signals.stamina:.2f}", "signs": " ".join(tired or [Sign.LOOPS])}
    if signals.stamina < NO_STAMINA and signals.fruitless:
        return Pattern.TOO_MANY_TRIES, make_reason(ConsultCause.STAMINA_OUT, **stamina)
    if (cause := _find_confusion(signals)) is not None:
        return Pattern.CONFUSION, cause
    if signals.stamina < LOW_STAMINA and signals.fruitless:
        return Pattern.TOO_MANY_TRIES, make_reason(ConsultCause.STAMINA_LOW, **stamina)
    said = signals.confidence is not None and signals.confidence < UNSURE
    if signals.low_moods < LOW_MOODS or (signals.moves[-1:] == [True] and not said):
        return None
    few = signals.share is not None and signals.share < UNSURE
    unsure = [Sign.UNSURE] * said + [Sign.OUTCOMES] * few
    mood = {"value": f"{signals.mood:.2f}", "signs": " ".join(unsure or [Sign.UNSURE])}
    return Pattern.LOW_CONFIDENCE, make_reason(ConsultCause.MOOD_LOW, **mood)


def _find_confusion(signals: Signals) -> Reason | None:
    """Return the cause if the focus just fell and is low or fell far; its signs name what lowered
    the focus.
    """
    focus = signals.focus
    if len(focus) < 2 or focus[-1] >= focus[-2]:
        return None
    now, before = focus[-1], max(focus[-FALL_LOOPS - 1 :])
    low = now < LOW_FOCUS
    if not low and before - now < FOCUS_FALL - _TOLERANCE:
        return None
    seen = {cause.value for loop in signals.lowered[0 if low else -FALL_LOOPS :] for cause in loop}
    params = {"signs": " ".join(sign.value for sign in Sign if sign.value in seen)}
    if signals.repeat is not None and Sign.REPEAT.value in seen:
        params |= {"operation": signals.repeat.operation, "what": signals.repeat.what}
    if low:
        return make_reason(ConsultCause.FOCUS_LOW, value=f"{now:.2f}", **params)
    return make_reason(ConsultCause.FOCUS_FELL, old=f"{before:.2f}", new=f"{now:.2f}", **params)


def guess_cause(cause: Reason, signals: Signals) -> Reason:
    """Guess the reason behind a cause from the signals, to show to the user."""
    code, failed = ConsultCause(cause.code), signals.failed + signals.failed_reads
    if code in (ConsultCause.FOCUS_LOW, ConsultCause.FOCUS_FELL):
        signs = cause.params.get("signs", "").split()
        found = (guess for sign, guess in _BEHIND_FOCUS.items() if sign in signs)
        return make_reason(next(found, Hypothesis.BAD_REPLIES))
    if code in (ConsultCause.STAMINA_LOW, ConsultCause.STAMINA_OUT) and failed:
        return make_reason(Hypothesis.OPERATIONS_FAIL, count=str(failed))
    if code not in _BEHIND:
        moves = signals.is_moving
        return make_reason(Hypothesis.LONG_BUT_MOVING if moves else Hypothesis.LONG_AND_SLOW)
    guess, *names = _BEHIND[code]
    return make_reason(guess, **{name: cause.params[name] for name in names})


# --- what the user is shown ----------------------------------------------------------------------


def describe_situation(
    due: tuple[Pattern, Reason],
    signals: Signals,
    log: Sequence[OperationMessage],
    state: AgentState,
    reads: Callable[[str], bool],
    model_words: str,
) -> Situation:
    """Describe the situation for the user. ``reads``: whether an operation, by name, only reads;
    ``model_words``: the model's own words on its work.
    """
    pattern, cause = due
    entries, found = list_tried(log), list_achieved(log, state)
    looked_at = {
        (message.operation, describe_target(message.args))
        for message in log
        if message.result.went_well and not message.by_user and reads(message.operation)
    }
    return Situation(
        pattern=pattern,
        cause=cause,
        loop=signals.loop,
        limit=signals.limit,
        tried=entries[-MOST_TRIED:],
        tried_before=max(len(entries) - MOST_TRIED, 0),
        achieved=found[:MOST_ACHIEVED],
        achieved_more=max(len(found) - MOST_ACHIEVED, 0),
        read=len(looked_at),
        hypothesis=guess_cause(cause, signals),
        hypothesis_said=model_words,
    )


def list_tried(log: Sequence[OperationMessage]) -> tuple[Tried, ...]:
    """List the model's calls, oldest first; calls with the same text are merged at the place of the
    newest.
    """
    found: dict[tuple[str, bool], Tried] = {}
    contents: dict[str, set[str]] = {}
    for message in log:
        if message.by_user or message.result.outcome not in RAN:
            continue
        back = _goes_back(message, contents)
        text = _describe_call(message)
        before = found.pop((text, back), None)
        found[text, back] = Tried(
            text=text,
            ref=message.call_id,
            went_well=message.result.went_well,
            times=before.times + 1 if before is not None else 1,
            back=back,
        )
    return tuple(found.values())


def list_achieved(log: Sequence[OperationMessage], state: AgentState) -> tuple[str, ...]:
    """List what was achieved: requirements met, steps done, files changed, and commands that
    succeeded.

    Files changed back to an earlier content do not count. Steps of a plan older than the request
    count only if these calls belong to them.
    """
    found: list[str] = []
    since = 0.0
    if state.objective is not None:
        since = state.objective.created_at
        found += [
            item.requirement
            for item in state.objective.extracted_requirements
            if item.state is RequirementState.MET
        ]
    if (plan := state.active_plan) is not None:
        worked = {message.step_id for message in log}
        found += [
            step.name
            for step in plan.steps
            if step.status is WorkStatus.COMPLETED
            and not step.taken
            and (plan.created_at >= since or step.step_id in worked)
        ]
    files: dict[str, list[FileChange]] = {}  # the changes that were not taken back
    commands: dict[str, None] = {}
    for message in log:
        for change in message.result.changes:
            changes = files.setdefault(change.target or change.path, [])
            before = [earlier.before for earlier in changes]
            if change.after in before and not change.target:  # all changes since are void
                del changes[before.index(change.after) :]
            else:
                changes.append(change)
        if message.result.exit_code is not None and not message.by_user:
            command = describe_target(message.args)
            commands.pop(command, None)
            if message.result.went_well:
                commands[command] = None
    for path, changes in files.items():
        if len(changes) == 1:
            found.append(f"{path} +{changes[0].added} −{changes[0].removed}")
        elif changes:  # only how many: their lines may be the same ones
            found.append(f"{path} {len(changes)}×")
    found += commands
    return tuple(one_line(text, _LINE) for text in found)


def _describe_call(message: OperationMessage) -> str:
    """Describe a call on one line, with its error or the lines it changed."""
    result = message.result
    text = message.call_text
    if result.outcome is not Outcome.OK:
        text = f"{text}: {result.text}"
    elif result.changes:
        added = sum(change.added for change in result.changes)
        removed = sum(change.removed for change in result.changes)
        text = f"{text} +{added} −{removed}"
    return one_line(text, _LINE)


def _goes_back(message: OperationMessage, contents: dict[str, set[str]]) -> bool:
    """Whether a change restored content that a file had before; also adds its contents to
    ``contents``.
    """
    back = False
    for change in message.result.changes:
        known = contents.setdefault(change.target or change.path, set())
        known.add(change.before)
        back = back or change.after in known
        known.add(change.after)
    return back
