"""The version of what records say, and how those of an older program are read.

Raise ``SCHEMA`` whenever a program of today could not read what the changed one writes, or would
read it as something else, and add the step from the version before to ``STEPS``. A file may hold
several versions: each header says which one the records after it have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

#: What an event's fields of one version are in the next; None when it has no meaning any more.
Step = Callable[[dict[str, Any]], dict[str, Any] | None]

SCHEMA: Final = 1
STEPS: Final[Mapping[int, Step]] = {}


@dataclass(frozen=True, slots=True)
class Migrations:
    """Steps from each version before ``current`` to the one after it; versions count from 1."""

    current: int = SCHEMA
    steps: Mapping[int, Step] = field(default_factory=lambda: STEPS)

    def __post_init__(self) -> None:
        if missing := set(range(1, self.current)) - self.steps.keys():
            raise ValueError(f"no step leads on from version {min(missing)}")

    def bring_up(self, fields: dict[str, Any], version: int) -> dict[str, Any] | None:
        """The fields as they are today; ``version`` in 1 to ``current``."""
        now: dict[str, Any] | None = fields
        for number in range(version, self.current):
            if now is None:
                return None
            now = self.steps[number](now)
        return now
