"""The developer's log of the pacemaker, one prefix on every line (S0-45…48)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from duckflow_tui.goals.vitals import complexity_code

if TYPE_CHECKING:
    from duckflow_tui.state.pace import LoopLimit, Pattern, Reason, VitalChange, Vitals

LOGGER: Final = "duckflow.pacemaker"

PREFIX: Final = "[DUCK_PACEMAKER]"


_log = logging.getLogger(LOGGER)


def started(limit: LoopLimit, vitals: Vitals) -> None:
    """What an attempt begins with (S0-46)."""
    profile = limit.profile.value if limit.profile else "unknown"
    said = " (fallback)" if limit.fallback else ""
    _say(f"limit set: profile={profile} limit={limit.max_loops}{said}")
    _say(f"vitals: mood={vitals.mood:.2f} focus={vitals.focus:.2f} stamina={vitals.stamina:.2f}")
    if limit.complexity is not None:
        word = complexity_code(limit.complexity.value).value.removeprefix("complexity_")
        _say(f"complexity: {limit.complexity.value:.2f} ({word})")


def moved(change: VitalChange) -> None:
    """A vital went from one value to another (S0-47)."""
    _say(f"{change.vital} {change.old:.2f}->{change.new:.2f} ({change.cause})")


def grown(old: int, new: int) -> None:
    """The limit grew by itself, since the work moves."""
    _say(f"limit grown: {old} -> {new}")


def detected(loop: int, pattern: Pattern, cause: Reason) -> None:
    """What was seen at a loop, and that the user is asked (S0-47)."""
    _say(f"loop {loop}: detected {cause.code}")
    _say(f"intervention: {pattern.value} -> consult")


def ended(used: int, limit: int, consultations: Sequence[Pattern], result: str) -> None:
    """What came of it (S0-48)."""
    _say(f"used {used}/{limit}")
    patterns = ", ".join(pattern.value for pattern in consultations)
    _say(f"interventions: {len(consultations)}{f' ({patterns})' if patterns else ''}")
    _say(f"result: {result}")


def warn(what: str) -> None:
    """Something the limit was to rest on could not be had (S0-27)."""
    _log.warning("%s %s", PREFIX, what)


def _say(line: str) -> None:
    _log.info("%s %s", PREFIX, line)
