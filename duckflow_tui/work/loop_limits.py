"""Computes the loop limit of an attempt from the kind of request, its complexity and the vitals,
with the reasons for it (S0-5…36).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import Message, UserMessage
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.pace import Complexity, LimitSet, LoopLimit, Reason, TaskProfile, Vitals
from duckflow_tui.state.store import Store
from duckflow_tui.work.progress import RAN

MIN_LIMIT: Final = 3  # S0-6
MAX_LIMIT: Final = 20
FINAL_FALLBACK: Final = 15  # S0-28
UNKNOWN_BASE: Final = 8  # S0-22

#: Loops that a request of each kind usually needs (S0-13…21).
BASES: Final[Mapping[TaskProfile, int]] = {
    TaskProfile.SIMPLE_QUESTION: 5,
    TaskProfile.CODE_ANALYSIS: 12,
    TaskProfile.FILE_OPERATION: 8,
    TaskProfile.COMPLEX_REASONING: 18,
    TaskProfile.MULTI_STEP_TASK: 15,
    TaskProfile.GENERAL_CHAT: 6,
    TaskProfile.CREATIVE_WRITING: 10,
    TaskProfile.DEBUGGING: 14,
    TaskProfile.RESEARCH: 16,
}

VITAL_WEIGHTS: Final = (("mood", 0.4), ("focus", 0.4), ("stamina", 0.2))  # S0-8
LOW_SCORE: Final = 0.4  # S0-9, both strict
GOOD_SCORE: Final = 0.8
LOW_FACTOR: Final = 0.7
GOOD_FACTOR: Final = 1.2
COMPLEXITY_WEIGHT: Final = 0.4  # S0-10

#: Kinds of request that are hard whatever the context.
HARD: Final = (TaskProfile.COMPLEX_REASONING, TaskProfile.DEBUGGING)
MANY_FILES: Final = 8  # from here on the factor is 1.0 (S0-23)
MANY_TURNS: Final = 15  # S0-24
ERROR_WEIGHT: Final = 3  # a third of the calls going wrong is the most (S0-25)
UNMEASURED: Final = 0.3  # S0-26
LOW_VITAL: Final = 0.5  # S0-32
GOOD_VITAL: Final = 0.8
LOW_COMPLEXITY: Final = 0.3  # below it complexity is low (S0-33)
HIGH_COMPLEXITY: Final = 0.7  # above it complexity, or one of its factors, is high
LOGGER: Final = "duckflow.pacemaker"
DIGITS: Final = 6  # sums of tenths miss their value by less than this
_FAULTS: Final = (ArithmeticError, LookupError, TypeError, ValueError)

_log = logging.getLogger(LOGGER)

#: Kinds of request that are answered, not worked on.
TALK: Final = frozenset({TaskProfile.SIMPLE_QUESTION, TaskProfile.GENERAL_CHAT})

ChosenBy = Literal["model", "user"]


def log_line(line: str, level: int = logging.INFO) -> None:
    """Write a line to the developer's log with the prefix ``[DUCK_PACEMAKER]`` (S0-45)."""
    _log.log(level, "[DUCK_PACEMAKER] %s", line)


@dataclass(frozen=True, slots=True)
class PaceSettings:
    """The settings of the pacemaker; limits are numbers of loops."""

    min: int = MIN_LIMIT
    max: int = MAX_LIMIT  # where it lies below ``min``, it wins
    fallback: int = FINAL_FALLBACK  # when the limit cannot be computed
    base: Mapping[TaskProfile, int] = field(default_factory=lambda: dict(BASES))
    hard_from: float | None = None  # complexity from which on a request is hard; None: never


class Pacemaker:
    """Computes loop limits; it holds only its settings."""

    def __init__(self, settings: PaceSettings | None = None) -> None:
        self._settings = settings or PaceSettings()

    def start_session(
        self,
        store: Store,
        profile: TaskProfile | None,
        chosen_by: ChosenBy,
        *,
        fresh: bool = False,
        before: LoopLimit | None = None,
        cap: int = 0,
        highest: int = 0,
    ) -> LoopLimit:
        """Measure the session, compute a loop limit, store and log it, and return it (S0-31).

        ``fresh`` resets the count of loops. Loops that were added to the limit ``before`` are added
        again. ``cap``: the most for a step of a plan; the limit is then only returned, not stored.
        ``highest``: a lower maximum than the setting; 0 for the setting.
        """
        vitals = store.state.vitals
        highest = min(filter(None, (highest, cap)), default=0)
        limit = self.compute_limit(
            profile, chosen_by, vitals, measure_session(store.state), highest
        )
        if cap:
            limit = limit.replace(max_loops=min(limit.max_loops, cap))
        if before is not None and before.extended:
            added = {"extended": before.extended, "grown": before.grown}
            most = limit.max_loops + before.extended
            limit = limit.model_copy(update={"max_loops": most, **added})
        if not cap:
            store.dispatch(LimitSet(limit=limit, fresh=fresh))
        said = " (fallback)" if limit.fallback else ""
        name = limit.profile.value if limit.profile else "unknown"
        log_line(f"limit set: profile={name} limit={limit.max_loops}{said}")
        now = f"mood={vitals.mood:.2f} focus={vitals.focus:.2f} stamina={vitals.stamina:.2f}"
        log_line(f"vitals: {now}")
        if limit.complexity is not None:
            value = limit.complexity.value
            log_line(f"complexity: {value:.2f} ({name_complexity(value)})")
        return limit

    def compute_limit(
        self,
        profile: TaskProfile | None,
        chosen_by: ChosenBy,
        vitals: Vitals,
        complexity: Complexity,
        highest: int = 0,
    ) -> LoopLimit:
        """Compute the limit and its reasons (S0-29). If that fails, return the fallback limit,
        marked as such (S0-27, S0-28, S0-30).
        """
        low, high = self._settings.min, min(self._settings.max, highest or self._settings.max)
        try:
            base = self._settings.base.get(profile, UNKNOWN_BASE) if profile else UNKNOWN_BASE
            score = 0.0
            for name, weight in VITAL_WEIGHTS:
                score += weight * getattr(vitals, name)
            score = round(score, DIGITS)  # what floats can tell
            by_vitals = GOOD_FACTOR if score > GOOD_SCORE else 1.0
            by_vitals = LOW_FACTOR if score < LOW_SCORE else by_vitals
            by_context = 1.0 + COMPLEXITY_WEIGHT * complexity.value  # S0-10
            product = int(round(base * by_vitals * by_context, DIGITS))
            limit = LoopLimit(
                max_loops=min(max(product, low), high),  # truncated before (S0-7)
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
            return limit.model_copy(update={"reasoning": list_reasons(limit, product)})
        except _FAULTS as fault:
            log_line(f"the limit could not be computed: {fault!r}", logging.WARNING)
            return self._make_fallback(profile, chosen_by)

    def is_hard(self, profile: TaskProfile | None, complexity: Complexity) -> bool:
        """Whether a request should go to the strong model, by its kind or complexity (S1-43). False
        for talk, and where the setting is off.
        """
        least = self._settings.hard_from
        if least is None or profile in TALK:
            return False
        return profile in HARD or complexity.value >= least

    def _make_fallback(self, profile: TaskProfile | None, chosen_by: ChosenBy) -> LoopLimit:
        """Return the fallback limit from the settings, marked as such."""
        cause = "calculation"
        try:
            loops = int(self._settings.fallback)
        except _FAULTS as fault:
            log_line(f"the settings could not be read: {fault!r}", logging.WARNING)
            loops = 0
        if loops < 1:
            cause, loops = "settings", FINAL_FALLBACK
        return LoopLimit(
            max_loops=loops,
            profile=profile,
            chosen_by=chosen_by,
            fallback=True,
            reasoning=(Reason(code="fallback", params={"cause": cause, "limit": str(loops)}),),
        )


def name_complexity(value: float) -> Literal["low", "medium", "high"]:
    """Name a complexity: below 0.3 low, above 0.7 high, else medium (S0-33)."""
    if value < LOW_COMPLEXITY:
        return "low"
    return "high" if value > HIGH_COMPLEXITY else "medium"


def measure_session(state: AgentState) -> Complexity:
    """Measure the complexity of the session: files read, earlier turns, calls of the model and
    those that failed.
    """
    outcomes = [m.result.outcome for m in _list_model_calls(state.messages)]
    errors = len(outcomes) - outcomes.count(Outcome.OK)
    return compute_complexity(len(state.files_read), len(state.turns), errors, len(outcomes))


def measure_request(state: AgentState) -> Complexity:
    """Measure the complexity of the current request: files named in its calls, the user's later
    messages on it, its calls and those that failed. Without a request, that of all messages.
    """
    first = state.objective.message_id if state.objective is not None else ""
    ids = [m.message_id if isinstance(m, UserMessage) else None for m in state.messages]
    recent = state.messages[ids.index(first) + 1 :] if first in ids else state.messages
    turns = sum(isinstance(m, UserMessage) and not (m.aside or m.step_id) for m in recent)
    calls = _list_model_calls(recent)
    files = {path for m in calls if isinstance(path := m.args.get("path"), str)}
    errors = sum(m.result.outcome is not Outcome.OK for m in calls)
    return compute_complexity(len(files), turns, errors, len(calls))


def _list_model_calls(messages: Sequence[Message]) -> list[OperationMessage]:
    """Return the model's own calls that ran or had invalid arguments, without those of checks."""
    calls = (m for m in messages if isinstance(m, OperationMessage) and m.result.outcome in RAN)
    return [m for m in calls if not (m.by_user or m.for_requirement)]


def compute_complexity(
    files: int | None, turns: int | None, errors: int | None, executions: int | None
) -> Complexity:
    """Combine the factors that can be measured into their mean; None marks one that cannot.

    ``errors`` are the failed ones of the ``executions``; without executions that factor is 0.0.
    """
    by_files = None if files is None else min(files / MANY_FILES, 1.0)
    by_turns = None if turns is None else min(turns / MANY_TURNS, 1.0)
    by_errors = None
    if errors is not None and executions is not None:
        by_errors = min(errors / executions * ERROR_WEIGHT, 1.0) if executions else 0.0
    known = [factor for factor in (by_files, by_turns, by_errors) if factor is not None]
    return Complexity(
        value=sum(known) / len(known) if known else UNMEASURED,
        files=by_files,
        history=by_turns,
        errors=by_errors,
    )


def list_reasons(limit: LoopLimit, computed: int) -> tuple[Reason, ...]:
    """List the reasons for a limit. ``computed`` is the product before it was clamped to the
    allowed range. Codes are keys below ``pace.reason``.
    """
    found: list[Reason] = []

    def add(code: str, **params: str) -> None:
        """Add a reason."""
        found.append(Reason(code=code, params=params))

    profile = limit.profile.value if limit.profile else "unknown"
    add("profile", profile=profile, base=str(limit.base_loops), by=limit.chosen_by)
    vitals = {"mood": limit.mood, "focus": limit.focus, "stamina": limit.stamina}
    for name, value in vitals.items():
        if value < LOW_VITAL or value > GOOD_VITAL:
            add("vitals_low" if value < LOW_VITAL else "vitals_good", vital=name)
    if len(found) == 1:
        add("vitals_standard")
    if (context := limit.complexity) is not None:
        word = name_complexity(context.value)
        add(f"complexity_{word}")
        factors = {
            "many_files": context.files,
            "long_history": context.history,
            "many_errors": context.errors,
        }
        for code, factor in factors.items():
            if word == "high" and factor is not None and factor > HIGH_COMPLEXITY:
                add(code)
    changes = {
        "adjusted_vitals": round((limit.vitals_factor - 1) * 100),
        "adjusted_complexity": round((limit.complexity_factor - 1) * 100),
    }
    for code, percent in changes.items():
        if percent:
            add(code, percent=f"{percent:+d}")  # S0-34
    if not any(changes.values()):
        add("no_adjustment")
    if computed != limit.max_loops:
        add("clamped", computed=str(computed), limit=str(limit.max_loops))
    return tuple(found)
